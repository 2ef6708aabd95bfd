"""Executed sets of a graph and the bytes of each, from the definitions."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.models.graph import Graph
from tests.oracles.brute_force import must_precede


def live_bytes(graph: Graph, done: frozenset[int]) -> int:
    """Return M of an executed set from the raw fields."""
    total = 0
    for t, tensor in enumerate(graph.tensors):
        accessors = {i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes}
        born = tensor.initial or min((i for i in accessors if t in graph.ops[i].writes), default=-1) in done
        if born and (tensor.final or not accessors <= done):
            total += tensor.nbytes
    return total


def downsets(graph: Graph) -> Iterator[frozenset[int]]:
    pairs = must_precede(graph)
    for mask in range(1 << len(graph.ops)):
        done = frozenset(i for i in range(len(graph.ops)) if mask >> i & 1)
        if all(i in done for i, j in pairs if j in done):
            yield done
