"""Where the backward pass of a training graph begins."""

from __future__ import annotations

from ..graph import Graph


def first_backward(graph: Graph) -> int | None:
    """Return the first op of the backward pass; None if nothing tells.

    It is the one behind the op with "loss" in its name or kind; without such, the first that writes a tensor
    of kind gradient.
    """
    for k, op in enumerate(graph.ops):
        if "loss" in op.name.lower() or "loss" in op.kind.lower():
            return min(k + 1, len(graph.ops) - 1)
    for k, op in enumerate(graph.ops):
        if any(graph.tensors[t].kind == "gradient" for t in op.writes):
            return k
    return None
