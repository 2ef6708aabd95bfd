"""Shapes that a model states of its values, or a user by hand: what they are worth.

Exporters write the shapes of intermediate values and outputs into the file, and tools that edit the model
later leave them stale. So what the file states counts only where nothing else tells the shape: an operator
of an unknown domain, an output whose size depends on content. What a user gives by hand counts at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.errors import InstanceError
from ..formats.strict_json import nearest
from .reading import require_onnx

Shape = tuple[int | None, ...]
"""A shape; None stands for a size that follows from the model."""


def is_fixed(dim: Any) -> bool:
    """Return whether a dimension has a size."""
    return bool(dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0)


def take_statements(graph: Any) -> dict[str, Any]:
    """Remove the types that a graph states; return the full ones as ``ValueInfoProto``, by name."""
    stated = {}
    for info in (*graph.value_info, *graph.output):
        kind = info.type.tensor_type
        known = info.type.HasField("tensor_type") and kind.HasField("shape") and kind.elem_type
        if known and all(map(is_fixed, kind.shape.dim)):
            stated[info.name] = require_onnx().ValueInfoProto()
            stated[info.name].CopyFrom(info)
    typed = [info for info in graph.value_info if not info.type.HasField("tensor_type")]
    del graph.value_info[:]
    graph.value_info.extend(typed)
    for info in graph.output:
        if info.type.HasField("tensor_type"):
            info.ClearField("type")
    return stated


def state(graph: Any, stated: Any) -> None:
    """Declare the type of a value that is no input."""
    known = [info for info in (*graph.output, *graph.value_info) if info.name == stated.name]
    for info in known:
        info.type.CopyFrom(stated.type)
    if not known and stated.name:
        graph.value_info.append(stated)


def state_by_hand(graph: Any, shapes: Mapping[str, Shape], where: str) -> None:
    """Declare the shapes that a user gives, as far as they are known.

    Raises
    ------
    InstanceError
        If there is no such value.
    """
    known = {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}
    names = known.keys() | {name for node in graph.node for name in node.output if name}
    for name, shape in shapes.items():
        if name not in names:
            raise InstanceError(
                f"{where}: found a shape of the unknown value {name!r}, {nearest(name, names)}"
            )
        info = known[name] if name in known else graph.value_info.add(name=name)
        kind = info.type.tensor_type
        symbols = [str(dim.dim_param) for dim in kind.shape.dim]
        kind.ClearField("shape")
        kind.shape.SetInParent()
        for axis, size in enumerate(shape):
            dim = kind.shape.dim.add()
            if size is not None:
                dim.dim_value = size
            elif axis < len(symbols) and symbols[axis]:
                dim.dim_param = symbols[axis]
