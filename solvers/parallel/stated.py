"""What models of `parallel-memory` and `memory-edges` are stated of, where other solvers get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...formulations.parallel import cut_milp, edges_milp, network
from ...models.problems.memory_edges import Edges, MemoryEdges
from ...models.problems.parallel_memory import ParallelMemory
from .flow import largest_cut


def moments(problem: ParallelMemory) -> dict[str, Any]:
    """Return the network whose cuts are moments, and the processors."""
    return {"network": network.build(problem.graph), "processors": problem.processors}


def unit_of_moments(stated: Mapping[str, Any]) -> int:
    """Return the bytes of one unit."""
    return cut_milp.unit_of(stated["network"])


def edges(problem: MemoryEdges) -> dict[str, Any]:
    """Return the graph and the bytes within which every schedule has to stay."""
    return {"graph": problem.graph, "bound": problem.bound}


def edges_of(
    problem: MemoryEdges, stated: Mapping[str, Any], built: Any, value: Callable[[Any], Any]
) -> Edges | None:
    """Return the edges of a solution with the flow that proves them; None if it proves too little."""
    found = edges_milp.decode(built, problem.graph, value)
    flow = largest_cut(network.build(problem.graph, found)).flow
    return Edges(edges=tuple(found), flow=flow) if flow.value() <= problem.bound else None
