"""One op after the other: the edges that `auto` begins with."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.flow_proof import FlowProof
from ...models.problems.memory_edges import Edges, MemoryEdges
from .adding import MOST_OPS
from .edges import with_flow


def one_at_a_time(problem: MemoryEdges) -> Iterator[Edges]:
    """Yield edges between all ops that follow each other in the reference order, if that fits the bound."""
    graph, n = problem.graph, len(problem.graph.ops)
    if n > MOST_OPS or sequential_memory(graph).reference_peak > problem.bound:
        return
    later = precedence(graph).successors
    edges = tuple((i, i + 1) for i in range(n - 1) if i + 1 not in later[i])
    yield with_flow(problem, Edges(edges=edges, flow=FlowProof(cases=())))
