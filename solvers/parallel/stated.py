"""What models of `parallel-memory` and `memory-edges` are stated of, where other solvers get them."""

from __future__ import annotations

import math
from typing import Any

from ...formulations.parallel import cut_lp, network
from ...formulations.parallel import edges_cpsat as conflicts_cpsat
from ...models.errors import UsageError
from ...models.problems.memory_edges import Edges, MemoryEdges
from ...models.problems.parallel_memory import Moment, ParallelMemory
from ..context import Context
from ..method import STATING_SECONDS, Stated, Value
from . import edges_cpsat, edges_models
from .cases import search
from .growing import Growing


def moments(problem: ParallelMemory) -> dict[str, Any]:
    """Return the network whose cuts are moments, and the processors."""
    return {"network": network.build(problem.graph), "processors": problem.processors}


def cuts(problem: ParallelMemory) -> dict[str, Any]:
    """Return the network whose cuts are moments, of any number of processors."""
    return {"network": network.build(problem.graph)}


def moment_of(
    problem: ParallelMemory, stated: Stated, built: cut_lp.CutProgram, value: Value
) -> Moment | None:
    """Return the moment of a solution; None if it has more running ops than there are processors."""
    moment = cut_lp.decode(built, value)
    return moment if problem.processors is None or len(moment.running) <= problem.processors else None


def edges(problem: MemoryEdges) -> dict[str, Any]:
    """Return the graph and the bytes within which every schedule has to stay."""
    if detail := edges_models.refused(problem):
        raise UsageError(f"method milp of {problem.name}: {detail}")
    return {"graph": problem.graph, "bound": problem.bound}


def conflicts(problem: MemoryEdges, *, seconds: float = math.inf) -> dict[str, Any]:
    """Return the graph, and the conflicts that the method finds in a minute, all if it ends before."""
    if detail := edges_cpsat.refused(problem):
        raise UsageError(f"method cpsat of {problem.name}: {detail}")
    limit = min(seconds, STATING_SECONDS)
    context = Context(problem=problem, method="cpsat", time_limit=limit, threads=1)
    rounds = edges_cpsat.ConflictRounds()
    rounds.run(problem, context)
    conflicts = () if rounds.built is None else rounds.built.conflicts
    return {"graph": problem.graph, "conflicts": sorted(conflicts)}


def edges_without_conflict(problem: MemoryEdges, stated: Stated, built: Any, value: Value) -> Edges | None:
    """Return the edges of a solution with the flow that proves them; None if a moment is too large."""
    found = conflicts_cpsat.decode(built, value)
    growing = Growing(problem.graph)
    for u, v in found:
        growing.add(u, v)
    left = search(growing.cut(), problem.processors, target=problem.bound)
    if left.moment is not None or left.bound > problem.bound:
        return None
    return Edges(edges=tuple(growing.edges), flow=left.proof())
