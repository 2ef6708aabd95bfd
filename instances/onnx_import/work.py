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


_COUNTS: dict[str, _Count] = {
    "AveragePool": _window,
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Gemm": _gemm,
    "LRN": _normalised_window,
    "LpPool": _window,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "MaxPool": _window,
}
