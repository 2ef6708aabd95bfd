"""What follows from the orders of streams: the precedence with them, and which synchronisations they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from ..graph import Graph
from .precedence import descendants_with, successors_with

Edge = tuple[int, int]
Streams = Sequence[Sequence[int]]
"""The ops of each stream, in the order in which it runs them."""


def stream_edges(streams: Streams) -> tuple[Edge, ...]:
    """Return the pairs of ops that follow each other in a stream."""
    return tuple(pair for stream in streams for pair in pairwise(stream))


def cover_edges(
    graph: Graph, edges: Sequence[Edge] = (), tick: Callable[[], object] = lambda: None
) -> list[Edge]:
    """Return the transitive reduction of the precedence with further edges, sorted.

    Of an acyclic relation it is unique (Aho, Garey and Ullman 1972): the pairs with nothing between them.
    `tick` is called for each op, and may raise.

    Raises
    ------
    InstanceError
        If an edge dangles, or they close a cycle.

    Examples
    --------
    >>> import lowtide as lt
    >>> cover_edges(lt.load("catalogue:diamond"))
    [(0, 1), (0, 2), (1, 3), (2, 3)]
    """
    after = descendants_with(graph, edges, tick)
    cover = []
    for i, later in enumerate(successors_with(graph, edges)):
        tick()
        beyond = 0
        for j in later:
            beyond |= after[j]
        cover += [(i, j) for j in sorted(later) if not beyond >> j & 1]
    return cover


def synchronisations(graph: Graph, streams: Streams, waits: Sequence[Edge] = ()) -> list[Edge]:
    """Return the pairs of ops in different streams between which the device must be told to wait.

    They are the cover edges of the precedence with the orders of the streams and further waits that join two
    streams: what is implied by others needs no event, and each cover edge needs its own, for nothing else
    implies it.
    """
    stream = {i: k for k, some in enumerate(streams) for i in some}
    return [(i, j) for i, j in cover_edges(graph, (*stream_edges(streams), *waits)) if stream[i] != stream[j]]
