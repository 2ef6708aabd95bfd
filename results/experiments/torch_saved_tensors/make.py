"""What torch autograd saves for the derivative of each operator that training graphs support.

The ONNX importer's table of derivatives says which tensors the backward pass reads. This script runs the
torch call that corresponds to each ONNX operator under ``torch.autograd.graph.saved_tensors_hooks`` and
writes down every storage that autograd keeps: ``x0`` is operand 0 of the ONNX operator, ``y0`` its output,
and anything else is given by its dtype and number of elements. A test compares the table with the record.

Needs torch (2.13.0 was used), which lowtide itself never does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..running import HERE

torch: Any = import_module("torch")
functional: Any = import_module("torch.nn.functional")

IMAGE = (2, 4, 6, 6)
"""Sides of an input: batch, channels, height and width."""
MATRIX = (3, 5)
"""Rows and columns of an input of other ops."""


def _floats(*shapes: tuple[int, ...]) -> list[Any]:
    """Return positive leaf tensors, so that logarithms and roots are defined."""
    return [torch.rand(shape).add(0.5).requires_grad_() for shape in shapes]


def _unary(call: Callable[[Any], Any]) -> tuple[list[Any], Callable[..., Any]]:
    return _floats(MATRIX), call


def _binary(call: Callable[[Any, Any], Any]) -> tuple[list[Any], Callable[..., Any]]:
    return _floats(MATRIX, MATRIX), call


def _group_norm(x: Any, scale: Any, bias: Any) -> Any:
    return torch.native_group_norm(x, scale, bias, 2, 4, 36, 2, 1e-5)


CASES: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "Abs": _unary(torch.abs),
    "Add": _binary(torch.add),
    "AveragePool": (_floats(IMAGE), lambda x: functional.avg_pool2d(x, 2)),
    "BatchNormalization": (
        [*_floats(IMAGE, (4,), (4,)), torch.zeros(4), torch.ones(4)],
        lambda x, w, b, mean, var: torch.native_batch_norm(x, w, b, mean, var, True, 0.1, 1e-5),
    ),
    "Cast": _unary(lambda x: x.to(torch.float16)),
    "Celu": _unary(torch.celu),
    "Clip": _unary(lambda x: torch.clamp(x, 0.0, 1.0)),
    "Concat": _binary(lambda a, b: torch.cat((a, b))),
    "Conv": (_floats(IMAGE, (4, 4, 3, 3), (4,)), functional.conv2d),
    "ConvTranspose": (_floats(IMAGE, (4, 4, 3, 3), (4,)), functional.conv_transpose2d),
    "Cos": _unary(torch.cos),
    "CumSum": _unary(lambda x: torch.cumsum(x, 1)),
    "DepthToSpace": (_floats(IMAGE), lambda x: functional.pixel_shuffle(x, 2)),
    "Div": _binary(torch.div),
    "Dropout": _unary(lambda x: torch.native_dropout(x, 0.5, True)),
    "Elu": _unary(functional.elu),
    "Erf": _unary(torch.erf),
    "Exp": _unary(torch.exp),
    "Expand": (_floats((1, 5)), lambda x: x.expand(3, 5)),
    "Gather": (
        [*_floats(MATRIX), torch.tensor([0, 2])],
        lambda table, rows: functional.embedding(rows, table),
    ),
    "GatherElements": (
        [*_floats(MATRIX), torch.zeros(MATRIX, dtype=torch.int64)],
        lambda x, indices: torch.gather(x, 1, indices),
    ),
    "Gelu": _unary(functional.gelu),
    "Gemm": (_floats((3, 4), (4, 5), (5,)), lambda a, b, c: torch.addmm(c, a, b)),
    "GlobalAveragePool": (_floats(IMAGE), lambda x: functional.adaptive_avg_pool2d(x, 1)),
    "GlobalMaxPool": (
        _floats(IMAGE),
        lambda x: functional.adaptive_max_pool2d(x, 1, return_indices=True),
    ),
    "GroupNormalization": (_floats(IMAGE, (4,), (4,)), _group_norm),
    "HardSigmoid": _unary(functional.hardsigmoid),
    "HardSwish": _unary(functional.hardswish),
    "InstanceNormalization": (
        _floats(IMAGE, (4,), (4,)),
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
    ),
    "LRN": (_floats(IMAGE), lambda x: functional.local_response_norm(x, 3)),
    "LayerNormalization": (
        _floats(MATRIX, (5,), (5,)),
        lambda x, w, b: torch.native_layer_norm(x, (5,), w, b, 1e-5),
    ),
    "LeakyRelu": _unary(functional.leaky_relu),
    "Log": _unary(torch.log),
    "LogSoftmax": _unary(lambda x: torch.log_softmax(x, 1)),
    "MatMul": (_floats((2, 3, 4), (2, 4, 5)), torch.matmul),
    "Max": _binary(torch.maximum),
    "MaxPool": (_floats(IMAGE), lambda x: functional.max_pool2d_with_indices(x, 2)),
    "Mean": _binary(lambda a, b: (a + b) / 2),
    "Min": _binary(torch.minimum),
    "Mish": _unary(functional.mish),
    "Mul": _binary(torch.mul),
    "Neg": _unary(torch.neg),
    "PRelu": (_floats(IMAGE, (4,)), functional.prelu),
    "Pad": (_floats(IMAGE), lambda x: functional.pad(x, (1, 1, 1, 1))),
    "Pow": _binary(torch.pow),
    "Reciprocal": _unary(torch.reciprocal),
    "ReduceMax": _unary(lambda x: torch.amax(x, 1)),
    "ReduceMean": _unary(lambda x: torch.mean(x, 1)),
    "ReduceMin": _unary(lambda x: torch.amin(x, 1)),
    "ReduceSum": _unary(lambda x: torch.sum(x, 1)),
    "Relu": _unary(torch.relu),
    "Resize": (_floats(IMAGE), lambda x: functional.interpolate(x, scale_factor=2)),
    "Selu": _unary(torch.selu),
    "Sigmoid": _unary(torch.sigmoid),
    "Sin": _unary(torch.sin),
    "Slice": _unary(lambda x: x[1:]),
    "Softmax": _unary(lambda x: torch.softmax(x, 1)),
    "Softplus": _unary(functional.softplus),
    "Softsign": _unary(functional.softsign),
    "SpaceToDepth": (_floats(IMAGE), lambda x: functional.pixel_unshuffle(x, 2)),
    "Split": _unary(lambda x: torch.split(x, (2, 3), 1)),
    "Sqrt": _unary(torch.sqrt),
    "Sub": _binary(torch.sub),
    "Sum": _binary(torch.add),
    "Swish": _unary(functional.silu),
    "Tanh": _unary(torch.tanh),
    "Tile": _unary(lambda x: x.repeat(2, 1)),
    "Transpose": _unary(lambda x: x.t()),
    "Trilu": _unary(torch.tril),
    "Where": (
        [torch.ones(MATRIX, dtype=torch.bool), *_floats(MATRIX, MATRIX)],
        torch.where,
    ),
}
"""ONNX operator -> its operands in ONNX's order, and the torch call."""


def saved_tensors(operands: list[Any], call: Callable[..., Any]) -> dict[str, Any]:
    """Return the shapes of one call, and what autograd keeps for its derivative."""
    kept: dict[int, Any] = {}

    def keep(tensor: Any) -> Any:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = call(*operands)
    output = result[0] if isinstance(result, tuple | list) else result
    names = {x.untyped_storage().data_ptr(): f"x{i}" for i, x in enumerate(operands)}
    names.setdefault(output.untyped_storage().data_ptr(), "y0")
    saves = [
        names.get(storage, f"{str(tensor.dtype).removeprefix('torch.')}[{tensor.numel()}]")
        for storage, tensor in kept.items()
    ]
    return {
        "operands": [list(x.shape) for x in operands],
        "output": list(output.shape),
        "saves": sorted(saves),
    }


def make() -> None:
    """Write the record."""
    torch.manual_seed(0)
    source = json.dumps(f"torch {torch.__version__}, torch.autograd.graph.saved_tensors_hooks")
    operators = ",\n".join(
        f"  {json.dumps(op_type)}: {json.dumps(saved_tensors(*case))}" for op_type, case in CASES.items()
    )
    text = f'{{\n "source": {source},\n "operators": {{\n{operators}\n }}\n}}\n'
    (HERE / "torch_saved_tensors" / "record.json").write_text(text)
