"""What models of `parallel-memory` and `memory-edges` are stated of, where other solvers get them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...formulations.parallel import cut_milp, edges_milp, network
from ...formulations.parallel import edges_cpsat as conflicts_cpsat
from ...models.errors import UsageError
from ...models.problems.memory_edges import Edges, MemoryEdges
from ...models.problems.parallel_memory import ParallelMemory
from ..context import Context
from . import edges_cpsat
from .cases import search
from .flow import largest_cut
from .growing import Growing

SECONDS = 60.0
"""Seconds in which the conflicts of `cpsat` are looked for, before the model is written with those found."""


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


def cuts(problem: ParallelMemory) -> dict[str, Any]:
    """Return the network whose cuts are moments, of any number of processors."""
    return {"network": network.build(problem.graph)}


def constant(problem: ParallelMemory) -> float:
    """Return the units that the objective of the linear program leaves out."""
    found = network.build(problem.graph)
    return -found.gains()[1] / cut_milp.unit_of(found)


def conflicts(problem: MemoryEdges) -> dict[str, Any]:
    """Return the graph, and the conflicts that the method finds in a minute, all if it ends before."""
    if words := edges_cpsat.refused(problem):
        raise UsageError(f"method cpsat of {problem.name}: {words}")
    context = Context(problem=problem, method="cpsat", time_limit=SECONDS, threads=1)
    rounds = edges_cpsat.Rounds()
    rounds.run(problem, context)
    assert rounds.built is not None
    return {"graph": problem.graph, "conflicts": sorted(rounds.built.conflicts)}


def tick(stated: Mapping[str, Any]) -> int:
    """Return the ns of a tick."""
    return conflicts_cpsat.tick_of(stated["graph"])


def edges_without_conflict(
    problem: MemoryEdges, stated: Mapping[str, Any], built: Any, value: Callable[[Any], Any]
) -> Edges | None:
    """Return the edges of a solution with the flow that proves them; None if a moment is too large."""
    found = conflicts_cpsat.decode(built, value)
    growing = Growing(problem.graph)
    for u, v in found:
        growing.add(u, v)
    left = search(growing.cut(), problem.processors, target=problem.bound)
    if left.moment is not None or left.bound > problem.bound:
        return None
    return Edges(edges=tuple(growing.edges), flow=left.proof())
