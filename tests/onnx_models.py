"""Small ONNX models for the importer's tests, written to files with ``onnx.helper``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def require_onnx() -> Any:
    """Return onnx.helper, or skip the test."""
    return pytest.importorskip("onnx", reason="the package onnx is not installed").helper


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node; names are separated by spaces, ``-`` stands for an absent operand."""
    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
    return require_onnx().make_node(op_type, *names, **attributes)


def value(name: str, shape: Sequence[int | str | None] | None, kind: str = "FLOAT") -> Any:
    """Return the declaration of an input or output; None as a dimension is an unknown one."""
    from onnx import TensorProto

    return require_onnx().make_tensor_value_info(name, getattr(TensorProto, kind), shape)


def weight(name: str, *shape: int) -> Any:
    """Return a float initializer."""
    from onnx import TensorProto

    elements = 1
    for dim in shape:
        elements *= dim
    return require_onnx().make_tensor(name, TensorProto.FLOAT, shape, [0.5] * elements)


def integers(name: str, *content: int) -> Any:
    """Return a one-dimensional int64 initializer."""
    from onnx import TensorProto

    return require_onnx().make_tensor(name, TensorProto.INT64, [len(content)], content)


def save_model(
    folder: Path,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    initializers: Sequence[Any] = (),
    *,
    opset: int = 17,
    domains: Sequence[str] = (),
    functions: Sequence[Any] = (),
) -> Path:
    """Write a model to ``model.onnx`` in the folder and return the path."""
    helper = require_onnx()
    import onnx

    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializer=list(initializers))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    model.ir_version = 10
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    return path


def transformer_block(folder: Path, *, width: int = 16, heads: int = 4) -> Path:
    """Write a pre-norm transformer block with symbolic batch and length, exported the usual way.

    Target shapes are computed from Shape with Gather and Concat; the residual mask is expanded to a
    shape that goes through Equal and Where, which ONNX's data propagation does not follow.
    """
    size = width // heads
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Gather", "shape one", "length", axis=0),
        node("Concat", "batch length split", "heads_shape", axis=0),
        node("Concat", "batch length merged", "model_shape", axis=0),
        node("LayerNormalization", "x scale1 bias1", "n1", axis=-1),
    ]
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", f"n1 w_{name}", f"{name}0"),
            node("Reshape", f"{name}0 heads_shape", f"{name}1"),
            node("Transpose", f"{name}1", f"{name}2", perm=perm),
        ]
    nodes += [
        node("MatMul", "q2 k2", "scores"),
        node("Concat", "one one length length", "mask_shape", axis=0),
        node("Equal", "mask_shape minus", "unset"),
        node("Where", "unset ones mask_shape", "mask_target"),
        node("Expand", "mask mask_target", "mask_full"),
        node("Add", "scores mask_full", "masked"),
        node("Softmax", "masked", "attention", axis=-1),
        node("MatMul", "attention v2", "context"),
        node("Transpose", "context", "context1", perm=[0, 2, 1, 3]),
        node("Reshape", "context1 model_shape", "context2"),
        node("MatMul", "context2 w_o", "projected"),
        node("Add", "x projected", "r1"),
        node("LayerNormalization", "r1 scale2 bias2", "n2", axis=-1),
        node("MatMul", "n2 w_up", "up"),
        node("Erf", "up", "erf"),
        node("Mul", "up erf", "act"),
        node("MatMul", "act w_down", "down"),
        node("Add", "r1 down", "y"),
    ]
    constants = [
        *(weight(f"w_{name}", width, width) for name in "qkvo"),
        weight("w_up", width, 4 * width),
        weight("w_down", 4 * width, width),
        *(weight(f"{kind}{i}", width) for kind in ("scale", "bias") for i in (1, 2)),
        weight("mask", 1, 1, 1, 1),
        integers("zero", 0),
        integers("one", 1),
        integers("split", heads, size),
        integers("merged", width),
        integers("minus", -1, -1, -1, -1),
        integers("ones", 1, 1, 1, 1),
    ]
    shape = ("batch_size", "length", width)
    return save_model(folder, nodes, [value("x", shape)], [value("y", shape)], constants)
