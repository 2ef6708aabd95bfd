"""What the derivative of each ONNX operator reads: the table behind training graphs, one row per operator.

A row lists the backward ops of its operator, in the order in which they run. ``"0: x1; 1 2: x0"`` says that
one op makes the gradient of input 0 and reads input 1, and a second one makes the gradients of inputs 1 and
2 and reads input 0. Every backward op also reads the gradients of the outputs. ``x1`` is input 1, ``y0`` is
output 0, ``x*`` all inputs, and a bare name is a tensor that only the forward op of training writes
(`Row.saved`). ``*`` on the left stands for every input, each with an op of its own; ``pass`` means that the
gradient of the output is the gradient of the input: no op, unless broadcasting has to be summed away. An
empty row has no derivative: gradients stop there.

What is read follows torch's autograd, which was observed operator by operator: torch 2.13.0,
``torch.autograd.graph.saved_tensors_hooks``; ``results/experiments/torch_saved_tensors/record.json`` is the
record, the script beside it makes it, and a test compares the two. Where a row differs, `Row.note` says
why. Torch keeps the input of some operators only for its shape (AveragePool, GatherElements, …); that input
is read here too, because it stays in memory there.

Some rows are by sizes (`Row.by_sizes`), not observed: the backward op of a recurrent layer reads the
operands, the states and the gates of all steps and makes all gradients; torch depends on the device.

Views (Reshape, Flatten, Squeeze, Unsqueeze, Identity, …) have no row: their gradients are views too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from .element_types import BITS
from .network import Node
from .shapes import KnownValue


@dataclass(frozen=True, slots=True)
class DerivativeStep:
    """One backward op: the inputs it differentiates (None: every input, one op each) and what it reads."""

    inputs: tuple[int, ...] | None
    reads: tuple[str, ...]
    passes: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that the forward op of training writes for its backward ops.

    Parameters
    ----------
    name
        What `Row.steps` calls it.
    extent
        Key of `EXTENTS`: its number of elements.
    bytes_each
        Bytes per element; 0 for statistics in the type of the input, but at least 32 bits wide.
    output
        Position of the optional ONNX output that is the same tensor, if there is one.
    """

    name: str
    extent: str
    bytes_each: int = 0
    output: int | None = None

    def nbytes(self, node: Node, values: Mapping[str, KnownValue]) -> int:
        """Return its size for one node."""
        value = values[node.inputs[0]]
        width = self.bytes_each or max(4, BITS[value.stored or value.element_type] // 8)
        return EXTENTS[self.extent](node, values) * width


@dataclass(frozen=True)
class Row:
    """The derivative of one ONNX operator; the module says how to read `text`.

    Parameters
    ----------
    by_sizes
        What is read follows from the mathematics, not from torch.
    """

    op_type: str
    text: str
    saved: tuple[Saved, ...] = ()
    note: str = ""
    by_sizes: bool = False

    @cached_property
    def steps(self) -> tuple[DerivativeStep, ...]:
        """The backward ops."""
        return tuple(_step(part) for part in self.text.split(";") if part)


def _step(text: str) -> DerivativeStep:
    left, right = text.split(":")
    inputs = None if left.strip() == "*" else tuple(int(x) for x in left.split())
    reads = tuple(right.split())
    return DerivativeStep(inputs, () if reads == ("pass",) else reads, reads == ("pass",))


def _rows(node: Node, values: Mapping[str, KnownValue]) -> int:
    """Rows that a layer normalization averages over: the dimensions before its axis."""
    shape = values[node.inputs[0]].shape
    return prod(shape[: int(node.attributes.get("axis", -1)) % len(shape)])


def _states(each: int) -> Callable[[Node, Mapping[str, KnownValue]], int]:
    """Return the elements of so many states of each unit and step of a recurrent layer."""

    def elements(node: Node, values: Mapping[str, KnownValue]) -> int:
        ways, _, hidden = values[node.inputs[2]].shape
        return ways * prod(values[node.inputs[0]].shape[:2]) * hidden * each

    return elements


EXTENTS: dict[str, Callable[[Node, Mapping[str, KnownValue]], int]] = {
    "output": lambda node, values: values[node.outputs[0]].elements,
    "channels": lambda node, values: prod(values[node.inputs[0]].shape[1:2]),
    "samples x channels": lambda node, values: prod(values[node.inputs[0]].shape[:2]),
    "samples x groups": lambda node, values: (
        values[node.inputs[0]].shape[0] * int(node.attributes.get("num_groups", 1))
    ),
    "rows": _rows,
    "states": _states(1),
    "gates of GRU": _states(4),
    "gates of LSTM": _states(5),
}
"""Number of elements of a saved tensor."""


def _statistics(extent: str, mean: int | None = None) -> tuple[Saved, ...]:
    inverse = None if mean is None else mean + 1
    return Saved("mean", extent, output=mean), Saved("invstd", extent, output=inverse)


def _gates(extent: str) -> tuple[Saved, ...]:
    return Saved("hidden", "states", output=0), Saved("gates", extent)


_INDICES = (Saved("indices", "output", 8, 1),)
_RUNNING = "torch also keeps the running mean and variance; the derivative of batch statistics has no use"
_BIAS = "torch also keeps the bias, which the derivative does not read"

_ROWS = (
    # Linear
    Row("Conv", "0: x1; 1 2: x0"),
    Row("ConvTranspose", "0: x1; 1 2: x0"),
    Row("Gemm", "0: x1; 1 2: x0"),
    Row("MatMul", "0: x1; 1: x0"),
    # Normalization
    Row("BatchNormalization", "0 1 2: x0 x1 mean invstd", _statistics("channels"), _RUNNING),
    Row(
        "InstanceNormalization",
        "0 1 2: x0 x1 mean invstd",
        _statistics("samples x channels"),
        "torch keeps the scale repeated for every sample",
    ),
    Row("GroupNormalization", "0 1 2: x0 x1 mean invstd", _statistics("samples x groups")),
    Row("LayerNormalization", "0 1 2: x0 x1 mean invstd", _statistics("rows", 1), _BIAS),
    Row(
        "LRN",
        "0: x0 y0",
        note="torch composes it of six ops; one op reads input and output, as in Caffe2 and cuDNN",
    ),
    # Recurrent layers, by sizes: gates after their functions, an LSTM's cells, a GRU's product with the state
    Row("LSTM", "0 1 2 3 5 6 7: x0 x1 x2 x4 x5 x6 x7 hidden gates", _gates("gates of LSTM"), by_sizes=True),
    Row("GRU", "0 1 2 3 5: x0 x1 x2 x4 x5 hidden gates", _gates("gates of GRU"), by_sizes=True),
    Row("RNN", "0 1 2 3 5: x0 x1 x2 x4 x5 hidden", (Saved("hidden", "states", output=0),), by_sizes=True),
    # Pooling
    Row("MaxPool", "0: x0 indices", _INDICES),
    Row("GlobalMaxPool", "0: x0 indices", (Saved("indices", "output", 8),)),
    Row("AveragePool", "0: x0"),
    Row("GlobalAveragePool", "0:"),
    # Activation functions
    Row("Relu", "0: y0"),
    Row("Sigmoid", "0: y0"),
    Row("Tanh", "0: y0"),
    Row("Softmax", "0: y0"),
    Row("LogSoftmax", "0: y0"),
    Row("LeakyRelu", "0: x0"),
    Row("PRelu", "0 1: x0 x1"),
    Row("Elu", "0: x0"),
    Row("Celu", "0: x0"),
    Row("Selu", "0: x0"),
    Row("Gelu", "0: x0"),
    Row("Mish", "0: x0"),
    Row("Swish", "0: x0"),
    Row("HardSigmoid", "0: x0"),
    Row("HardSwish", "0: x0"),
    Row("Softplus", "0: x0"),
    Row("Softsign", "0: x0", note="torch composes it of abs, add and div"),
    Row("Dropout", "0: mask", (Saved("mask", "output", 1, 1),)),
    # Element by element
    Row("Add", "0 1: pass"),
    Row("Sum", "*: pass"),
    Row("Sub", "0: pass; 1:"),
    Row("Mean", "*:"),
    Row("Mul", "0: x1; 1: x0"),
    Row("Div", "0: x1; 1: x0 x1"),
    Row("Pow", "0: x0 x1; 1: x0 x1 y0"),
    Row("Max", "*: x*"),
    Row("Min", "*: x*"),
    Row("Neg", "0:"),
    Row("Abs", "0: x0"),
    Row("Sqrt", "0: y0"),
    Row("Reciprocal", "0: y0"),
    Row("Exp", "0: y0"),
    Row("Log", "0: x0"),
    Row("Erf", "0: x0"),
    Row("Sin", "0: x0"),
    Row("Cos", "0: x0"),
    Row("Clip", "0: x0"),
    Row("Where", "1: x0; 2: x0"),
    Row("Cast", "0:"),
    # Straight through: rounding has the derivative 1 within the range of the integers, which a mask tells
    Row("QuantizeLinear", "0: mask", (Saved("mask", "output", 1),), by_sizes=True),
    Row("DequantizeLinear", "0: pass", by_sizes=True),
    # Reduction
    Row("ReduceSum", "0:"),
    Row("ReduceMean", "0:"),
    Row("ReduceMax", "0: x0 y0"),
    Row("ReduceMin", "0: x0 y0"),
    Row("CumSum", "0:"),
    # Moving data; a slice of a gradient is a copy here, while torch may return a strided view
    Row("Concat", "*:"),
    Row("Split", "0:"),
    Row("Slice", "0:"),
    Row("Pad", "0:"),
    Row("Expand", "0:"),
    Row("Tile", "0:"),
    Row("Transpose", "0:"),
    Row("Trilu", "0:"),
    Row("Gather", "0: x1"),
    Row("GatherElements", "0: x0 x1"),
    Row("Resize", "0:"),
    Row("Upsample", "0:"),
    Row("DepthToSpace", "0:"),
    Row("SpaceToDepth", "0:"),
    # By sizes: what the mathematical derivative reads
    *(
        Row(op_type, text, by_sizes=True)
        for op_type, text in {
            "Einsum": "*: x*",
            "GatherND": "0: x1",
            "ReduceL2": "0: x0 y0",
            "ReduceLogSumExp": "0: x0 y0",
            "ScatterElements": "0: x1; 2: x1",
            "ScatterND": "0: x1; 2: x1",
        }.items()
    ),
    # No derivative
    *(
        Row(op_type, "")
        for op_type in (
            *("And", "ArgMax", "ArgMin", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual"),
            *("IsInf", "IsNaN", "Less", "LessOrEqual", "NonZero", "Not", "OneHot", "Or", "Round"),
            *("RandomNormalLike", "RandomUniformLike", "Bernoulli", "Shape", "Sign", "Size", "Xor"),
        )
    ),
)

DERIVATIVES: dict[str, Row] = {row.op_type: row for row in _ROWS}
"""ONNX operator -> its row."""
