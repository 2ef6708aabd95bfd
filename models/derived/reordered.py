"""A graph's ops in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..graph import Graph


def in_order(graph: Graph, order: Sequence[int]) -> Graph:
    """Return the graph whose reference order is another one; every op reads and writes the same versions.

    Examples
    --------
    >>> import lowtide as lt
    >>> [op.name for op in in_order(lt.load("catalogue:diamond"), (0, 2, 1, 3)).ops]
    ['source', 'right', 'left', 'join']
    """
    place = {k: x for x, k in enumerate(order)}
    ops = (replace(graph.ops[k], after=tuple(sorted(place[j] for j in graph.ops[k].after))) for k in order)
    return replace(graph, ops=tuple(ops))
