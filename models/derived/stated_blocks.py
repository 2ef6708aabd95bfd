"""The blocks that a graph states in its provenance, where they are blocks of its ops."""

from __future__ import annotations

from itertools import chain

from ..graph import Graph
from .precedence import precedence


def stated_blocks(graph: Graph) -> list[list[int]] | None:
    """Return blocks of ops that can run one after the other; None if the graph states none that can.

    Provenance is no part of what a graph is, and may be that of another graph that this one was made from:
    what is no such list does not count.

    Examples
    --------
    >>> import lowtide as lt
    >>> from dataclasses import replace
    >>> graph = lt.load("catalogue:diamond")
    >>> stated_blocks(replace(graph, provenance={"blocks": [[0, 1], [2, 3]]}))
    [[0, 1], [2, 3]]
    >>> stated_blocks(replace(graph, provenance={"blocks": [[3], [0, 1, 2]]})) is None
    True
    """
    stated = graph.provenance.get("blocks")
    if not isinstance(stated, (list, tuple)) or not all(isinstance(x, (list, tuple)) and x for x in stated):
        return None
    ops = list(chain.from_iterable(stated))
    if any(type(i) is not int for i in ops) or sorted(ops) != list(range(len(graph.ops))):
        return None
    block_of = {i: k for k, block in enumerate(stated) for i in block}
    before = precedence(graph).predecessors
    if any(block_of[j] > block_of[i] for i in ops for j in before[i]):
        return None
    return [list(block) for block in stated]
