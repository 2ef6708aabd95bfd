"""Shape inference: the element type and the shape of every value of a model.

ONNX's own inference with data propagation does the work. Exporters also compute shapes with operators that
it does not propagate (Where, Equal, Range, …): those nodes are evaluated here, but only where their output
is an argument such as a target shape, so that no weight array is ever built.

No library folds the rest: on the files of ``results/experiments/onnx_zoo`` the optimizer of onnxscript 0.7.2
knows no more sizes, takes up to 4 s a file and 1.3 s to load; onnxslim 0.1.98 leaves more sizes open and
renames values. What is here takes at most 0.4 s a file.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from textwrap import shorten
from typing import Any

from ...models.errors import InstanceError
from .arguments import ARGUMENTS, NO_ARGUMENTS
from .dependence import bodies, captured_names
from .element_types import size_in_bytes, type_name
from .reading import KEPT_INDICES, require_onnx

_MOST_ELEMENTS = KEPT_INDICES
"""Arguments with more elements are not evaluated."""

_SHAPED_BY_CONTENT = frozenset({"NonZero", "Unique"})
"""Operators whose output is sized by the content of their first operand, and small beside it."""

_GROWING = frozenset({"ConstantOfShape", "Expand", "Range", "Tile"})
"""Operators whose small operands can make a huge output."""


@dataclass(frozen=True)
class KnownValue:
    """A value of an ONNX graph: what its name stands for, and the type that it is stored as, if another."""

    name: str
    shape: tuple[int, ...]
    element_type: str
    stored: str = ""

    @cached_property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        """Size in bytes."""
        return size_in_bytes(self.shape, self.stored or self.element_type)


def infer_once(
    model: Any, where: str, *, strict: bool = True
) -> tuple[dict[str, KnownValue], dict[str, str]]:
    """Return the known values, and for the others what was found instead.

    Raises
    ------
    InstanceError
        If operands contradict an operator, unless not `strict`; or if elements have no fixed size.
    """
    onnx = require_onnx()
    graph = _infer_types(model, where, strict=strict).graph
    values: dict[str, KnownValue] = {}
    unknown: dict[str, str] = {}
    tensors = [*graph.initializer]
    for sparse in graph.sparse_initializer:
        tensors.append(onnx.TensorProto(name=sparse.values.name, data_type=sparse.values.data_type))
        tensors[-1].dims.extend(sparse.dims)
    for tensor in tensors:
        label = f"{where}: initializer {tensor.name!r}"
        values[tensor.name] = KnownValue(tensor.name, tuple(tensor.dims), type_name(tensor.data_type, label))
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.name in values:
            continue
        shape = _known_shape(info.type)
        if isinstance(shape, str) or not info.type.tensor_type.elem_type:
            unknown[info.name] = str(shape) if isinstance(shape, str) else "no inferred type"
        else:
            code = info.type.tensor_type.elem_type
            label = f"{where}: value {info.name!r}"
            values[info.name] = KnownValue(info.name, shape, type_name(code, label))
    for node in graph.node:
        for name in node.output:
            if name and name not in values:
                unknown.setdefault(name, "no inferred type")
    needed = {info.name for info in graph.output}
    needed.update(name for node in graph.node for name in (*node.input, *captured_names(node)))
    return values, {name: found for name, found in unknown.items() if name in needed}


def _infer_types(model: Any, where: str, *, strict: bool) -> Any:
    """Return the model with inferred types; InstanceError if operands contradict an operator."""
    infer = require_onnx().shape_inference.infer_shapes
    if any(bodies(node) for node in model.graph.node):
        nested, model = model, require_onnx().ModelProto()
        model.CopyFrom(nested)
        for node in model.graph.node:
            _forget_stated(node)
    if not strict:
        with suppress(Exception):  # the strict pass says what is wrong
            return infer(model, data_prop=True)
    try:
        return infer(model, strict_mode=True, data_prop=True)
    except Exception:  # strict data propagation also refuses valid arithmetic on index tensors
        try:
            infer(model, strict_mode=True)
            return infer(model, data_prop=True)
        except Exception as error:  # InferenceError, or ValueError and worse from malformed models
            text = shorten(str(error), 400)
            raise InstanceError(
                f"{where}: found a contradiction in shape inference: {text}; "
                "try other sizes of its dimensions"
            ) from None


def _forget_stated(node: Any) -> None:
    """Clear the shapes that the bodies of a node state: they may be stale, as those of the graph."""
    for body in bodies(node).values():
        del body.value_info[:]
        for info in body.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
        for inner in body.node:
            _forget_stated(inner)


def _known_shape(proto: Any) -> tuple[int, ...] | str:
    """Return the shape, or what stands in its place."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return "no inferred type"
    if kind != "tensor_type":
        return f"type {kind.removesuffix('_type').replace('_', ' ')}, which has no fixed bytes"
    if not proto.tensor_type.HasField("shape"):
        return "an unknown rank"
    dims = proto.tensor_type.shape.dim
    if all(dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0 for dim in dims):
        return tuple(dim.dim_value for dim in dims)
    return "shape [" + ", ".join(_dim_text(dim) for dim in dims) + "]"


def _dim_text(dim: Any) -> str:
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
        return str(dim.dim_value)
    return dim.dim_param or "?"


def fold_arguments(model: Any, values: dict[str, KnownValue]) -> bool:
    """Replace nodes that compute arguments from known shapes by constants; say whether any was."""
    wanted = _argument_names(model.graph)
    contents = constant_contents(model.graph)
    folded: set[int] = set()
    for index, node in enumerate(model.graph.node):
        needed = node.op_type in _SHAPED_BY_CONTENT or wanted.intersection(node.output)
        if not needed or node.op_type == "Constant":
            continue
        results = _evaluate(model, node, values, contents)
        for name, result in results.items():
            contents[name] = result
            model.graph.initializer.append(require_onnx().numpy_helper.from_array(result, name))
        if results:
            folded.add(index)
    kept = [node for index, node in enumerate(model.graph.node) if index not in folded]
    if folded:
        del model.graph.node[:]
        model.graph.node.extend(kept)
    return bool(folded)


def _argument_names(graph: Any) -> set[str]:
    """Return the names whose content is needed to know a shape, directly or through other nodes."""
    wanted: set[str] = set()
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            if node.op_type not in ("Shape", "Size"):
                wanted.update(node.input)
        else:
            content = {0} if node.op_type in _SHAPED_BY_CONTENT else NO_ARGUMENTS
            positions = ARGUMENTS.get(node.op_type, content)
            wanted.update(name for i, name in enumerate(node.input) if i in positions)
        wanted.update(*(_argument_names(body) for body in bodies(node).values()))
    return wanted - {""}


def constant_contents(graph: Any) -> dict[str, Any]:
    """Return the numpy arrays of the small constants of a graph whose content the model carries."""
    to_array = require_onnx().numpy_helper.to_array
    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    contents: dict[str, Any] = {}
    for node in graph.node:
        if node.op_type == "Constant":
            values = [a.t for a in node.attribute if a.name == "value"]
            tensors += [(node.output[0], tensor) for tensor in values]
            if not values:
                contents |= _run_alone(node, {}, [])
    for name, tensor in tensors:
        if tensor.data_location == tensor.EXTERNAL or tensor.data_type == tensor.STRING:
            continue
        if prod(tensor.dims) <= _MOST_ELEMENTS:
            with suppress(ValueError, TypeError, KeyError):  # content that does not fit its shape
                contents[name] = to_array(tensor)
    return contents


def _evaluate(
    model: Any, node: Any, values: dict[str, KnownValue], contents: dict[str, Any]
) -> dict[str, Any]:
    """Return the outputs of one node; empty if its inputs are not known or it cannot be run."""
    import numpy as np

    if node.op_type in ("Shape", "Size"):
        if node.input[0] not in values:
            return {}
        # only the shape of the operand matters, so a broadcast scalar stands in for its content
        shape = values[node.input[0]].shape
        return _run_alone(node, {node.input[0]: np.broadcast_to(np.float32(0), shape)}, model.opset_import)
    names = [name for name in node.input if name]
    if any(name not in contents for name in names):
        return {}
    output = values.get(node.output[0])
    if output is None and node.op_type in _GROWING:
        return {}  # the next round of inference knows its shape
    if output is not None and output.elements > _MOST_ELEMENTS:
        return {}
    return _run_alone(node, {name: contents[name] for name in names}, model.opset_import)


def _run_alone(node: Any, feeds: dict[str, Any], opsets: Any) -> dict[str, Any]:
    """Return what ONNX's reference implementation computes for one node; empty if it cannot."""
    import numpy as np
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "one node", inputs, outputs)
    try:
        results = ReferenceEvaluator(
            helper.make_model(graph, opset_imports=opsets or [helper.make_opsetid("", 17)])
        ).run(None, feeds)
    except Exception:  # whatever the reference implementation cannot do simply stays unknown
        return {}
    return {info.name: np.asarray(x) for info, x in zip(outputs, results, strict=True)}
