"""Which nodes move no data: their output is the storage of their first input under another shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dependence import operator
from .shapes import KnownValue

_ALWAYS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_OF_ONE_OPERAND = frozenset({"Concat", "Max", "Mean", "Min", "Sum"})
_TO_THE_SAME_TYPE = frozenset({"Cast", "CastLike"})
_TO_THE_SAME_SHAPE = frozenset({"Expand", "Tile"})

VIEWS = _ALWAYS | {"Dropout"}
"""Operators that are views in inference; in training Dropout writes its output and a mask."""


def is_view(
    node: Any,
    attributes: Mapping[str, Any],
    values: Mapping[str, KnownValue],
    *,
    train: bool,
    used: frozenset[str],
    contents: Mapping[str, Any],
) -> bool:
    """Return whether a node only renames its first input.

    Parameters
    ----------
    node, attributes
        The ``NodeProto`` and its attributes.
    values
        All values by name.
    train
        Whether training is imported.
    used
        Names that some node reads or that the graph returns.
    contents
        Small constants by name.
    """
    kind = operator(node)
    if kind in _ALWAYS:
        return True
    if kind == "Dropout":
        mask_used = len(node.output) > 1 and node.output[1] in used
        trains = len(node.input) > 2 and bool(contents.get(node.input[2], False))
        return not (train or mask_used or trains)
    if kind in _OF_ONE_OPERAND:
        return len(node.input) == 1
    if kind not in _TO_THE_SAME_TYPE | _TO_THE_SAME_SHAPE | {"Transpose"}:
        return False
    source, result = values[node.input[0]], values[node.output[0]]
    if kind in _TO_THE_SAME_TYPE:
        return source.element_type == result.element_type
    if kind in _TO_THE_SAME_SHAPE:
        return source.shape == result.shape
    axes = range(len(source.shape))
    order = [int(axis) for axis in attributes.get("perm", reversed(axes))]
    moved = [axis for axis in order if source.shape[axis] != 1]
    return moved == sorted(moved)
