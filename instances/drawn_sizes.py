"""Random sizes for a tree: the shape of one that is there, with outputs and workspaces that are drawn."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from ..models.graph import Graph


def with_drawn_sizes(graph: Graph, draw: int) -> Graph:
    """Return the graph with outputs of 1 to N and workspaces of 1 to N / 500 bytes, uniform; N ops.

    So Jacquelin, Marchal, Robert and Uçar (IPDPS 2011) weigh the shapes of assembly trees, as far as is
    known here. The name of the graph and the number of the draw are the seed.
    """
    n = len(graph.ops)
    rng = Random(f"{graph.name} {draw}")
    tensors = tuple(replace(t, nbytes=rng.randint(1, n)) for t in graph.tensors)
    ops = tuple(replace(op, workspace=rng.randint(1, max(1, n // 500))) for op in graph.ops)
    return replace(graph, tensors=tensors, ops=ops)
