"""Arithmetic of a node, for the roofline model of durations: multiply-adds, and sizes of a convolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from ..transforms.convolution import Convolution
from .network import Node
from .shapes import KnownValue


def multiply_adds(node: Node, values: Mapping[str, KnownValue]) -> int:
    """Return the multiply-adds of a node; one per element for operators that are not known better."""
    inputs = [values[name] for name in node.inputs if name in values]
    outputs = [values[name] for name in node.outputs if name in values]
    if not inputs or not outputs:
        return sum(value.elements for value in outputs)
    count = _COUNTS.get(node.op_type, _elementwise)
    return count(node, inputs, outputs)


def convolution(node: Node, values: Mapping[str, KnownValue]) -> Convolution | None:
    """Return the sizes of a convolution; None of any other node."""
    if node.op_type != "Conv":
        return None
    data, weights, result = (values[name] for name in (node.inputs[0], node.inputs[1], node.outputs[0]))
    steps = [*node.attributes.get("strides", ()), *node.attributes.get("dilations", ())]
    return Convolution(
        samples=data.shape[0],
        inputs=data.shape[1],
        outputs=weights.shape[0],
        groups=int(node.attributes.get("group", 1)),
        image=data.shape[2:],
        result=result.shape[2:],
        kernel=weights.shape[2:],
        plain=all(step == 1 for step in steps),
    )


_Count = Callable[[Node, list[KnownValue], list[KnownValue]], int]


def _elementwise(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    return max(value.elements for value in (*inputs, *outputs))


def _convolution(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    """Every output element sums over the kernel window and the input channels of its group."""
    return outputs[0].elements * prod(inputs[1].shape[1:])


def _transposed_convolution(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    return inputs[0].elements * prod(inputs[1].shape[1:])


def _gemm(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    inner = inputs[0].shape[0 if node.attributes.get("transA") else 1]
    return outputs[0].elements * inner


def _matmul(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    return outputs[0].elements * inputs[0].shape[-1]


def _window(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    return outputs[0].elements * prod(int(x) for x in node.attributes.get("kernel_shape", (1,)))


def _normalised_window(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    return outputs[0].elements * int(node.attributes.get("size", 1))


def _summed(weights: int, axes: slice) -> _Count:
    """Return a count for operators that sum over some axes of an operand, as they are stored."""

    def count(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
        return outputs[0].elements * prod(inputs[weights].shape[axes])

    return count


def _fused_product(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    flip = -2 if node.attributes.get("transA") and len(inputs[0].shape) > 1 else -1
    return outputs[0].elements * inputs[0].shape[flip]


def _recurrent(gates: int) -> _Count:
    """Return a count for a recurrent layer: its gates see the input and the state in every step."""

    def count(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
        first, second, width = inputs[0].shape
        hidden = int(node.attributes.get("hidden_size", outputs[0].shape[-1]))
        ways = 2 if node.attributes.get("direction") in (b"bidirectional", "bidirectional") else 1
        return ways * first * second * gates * hidden * (width + hidden)

    return count


def _attention(node: Node, inputs: list[KnownValue], outputs: list[KnownValue]) -> int:
    """Scores of all pairs of tokens, what they weigh, and the projection if the operator has its weights."""
    rows, width = prod(outputs[0].shape[:-1]), outputs[0].shape[-1]
    if node.op_type in ("com.microsoft.Attention", "com.microsoft.QAttention"):
        weights = inputs[1].elements
    else:
        weights = 0
    tokens = outputs[1].shape[-2] if len(outputs) > 1 else _tokens(inputs)
    return rows * (weights + 2 * tokens * width)


def _tokens(inputs: list[KnownValue]) -> int:
    """Return the number of tokens that are attended to: the length of the keys."""
    key = inputs[1] if len(inputs) > 2 and len(inputs[1].shape) > 2 else inputs[0]
    return key.shape[2 if len(key.shape) == 4 else 1]


_COUNTS: dict[str, _Count] = {
    "Attention": _attention,
    "AveragePool": _window,
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed_convolution,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "LRN": _normalised_window,
    "LSTM": _recurrent(4),
    "LpPool": _window,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "MaxPool": _window,
    "QLinearConv": _summed(3, slice(1, None)),
    "QLinearMatMul": _matmul,
    "RNN": _recurrent(1),
    "com.microsoft.Attention": _attention,
    "com.microsoft.DynamicQuantizeLSTM": _recurrent(4),
    "com.microsoft.DynamicQuantizeMatMul": _matmul,
    "com.microsoft.FusedConv": _convolution,
    "com.microsoft.FusedGemm": _gemm,
    "com.microsoft.FusedMatMul": _fused_product,
    "com.microsoft.FusedMatMulActivation": _fused_product,
    "com.microsoft.GroupQueryAttention": _attention,
    "com.microsoft.MatMulBnb4": _matmul,
    "com.microsoft.MatMulFpQ4": _matmul,
    "com.microsoft.MatMulIntegerToFloat": _matmul,
    "com.microsoft.MatMulNBits": _matmul,
    "com.microsoft.MultiHeadAttention": _attention,
    "com.microsoft.NhwcConv": _convolution,
    "com.microsoft.NhwcFusedConv": _convolution,
    "com.microsoft.QAttention": _attention,
    "com.microsoft.QGemm": _gemm,
    "com.microsoft.QLinearAveragePool": _window,
    "com.microsoft.QLinearConv": _summed(3, slice(1, None)),
    "com.microsoft.TransposeMatMul": _fused_product,
}
