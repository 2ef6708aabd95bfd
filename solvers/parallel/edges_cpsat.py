"""Method `cpsat` of `memory-edges`: edges that break all known conflicts, until no moment is above the bound.

The rounds:

1. solve the model of `lowtide.formulations.parallel.edges_cpsat` with the conflicts known so far; its bound
   is the problem's;
2. look for a moment above the bound that its edges leave (`lowtide.solvers.parallel.cases`); if
   there is none, a flow proves it, and the edges are optimal;
3. else add its conflict, and an edge that breaks it, which of all makes the shortest path through it; and
   so on, until the bound is kept, which gives edges to offer, or no edge can break a conflict, or the path
   is no shorter than that of the edges known.

Each round ends with a new conflict, so there are finitely many.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...formulations.parallel import edges_cpsat as formulation
from ...formulations.parallel.edges_cpsat import ConflictModel
from ...formulations.parallel.network import Arc
from ...models.errors import UsageError
from ...models.problems.memory_edges import Edges, MemoryEdges
from ..context import Context, Outcome
from ..engines import cpsat
from ..engines.logs import check_log, logged
from ..engines.master import Master
from .cases import search
from .edges import raise_path_bound
from .growing import Growing

KIND = "CP-SAT, conflicts"
"""The kind of the bound."""


class EdgeChoice(Master):
    """Which edges to add; an answer is the critical path in ticks, and the edges."""

    name: ClassVar[str] = "edges by conflicts"
    unit: ClassVar[str] = "ticks"

    def evaluate(self, answer: tuple[int, Sequence[Arc]]) -> int:
        """Return the critical path in ticks."""
        return answer[0]


def solve_cpsat(problem: MemoryEdges, context: Context) -> Outcome:
    """Go through the rounds until edges are optimal, none exist, or the time is up.

    Raises
    ------
    UsageError
        If the durations leave the integers of CP-SAT, or an option is unknown.
    """
    if words := refused(problem):
        raise UsageError(f"method cpsat of {problem.name}: {words}")
    raise_path_bound(problem, context)
    return ConflictRounds().run(problem, context)


def refused(problem: MemoryEdges) -> str:
    """Return why the model cannot be stated; empty if it can."""
    if formulation.fits(problem.graph):
        return ""
    tick = formulation.tick_of(problem.graph)
    return f"found durations of 2**61 ticks of {tick} ns or more in all, expected fewer (coarser durations)"


@dataclass
class ConflictRounds:
    """The model with the conflicts that are known: whoever goes on later begins with them."""

    built: ConflictModel | None = None

    def run(self, problem: MemoryEdges, context: Context) -> Outcome:
        """Go through the rounds."""
        if context.log is not None:
            check_log(context.log)
        if self.built is None:
            if context.expired:
                return Outcome(reason="time")
            began = time.perf_counter()
            self.built = formulation.build(problem.graph)
            context.known.build_seconds = (context.known.build_seconds or 0.0) + time.perf_counter() - began
        built, cutoff = self.built, None
        while not context.closed and not context.expired:
            if context.incumbent is not None and context.incumbent != cutoff:
                cutoff = context.incumbent
                formulation.add_cutoff(built, cutoff)
            edges, outcome = _choose(built, context)
            if outcome.infeasible or outcome.reason is not None:
                return outcome
            if context.closed:
                break
            if edges is None:  # an option stopped CP-SAT
                return outcome
            fresh = _break_conflicts(problem, context, built, edges)
            if fresh is None:
                said = f"one conflict of {len(built.conflicts) + 1} has no edge that could break it"
                return Outcome(infeasible=True, detail=said)
            if not fresh:
                break
        time_is_up = context.expired and not context.closed
        return Outcome(reason="time" if time_is_up else None, detail=f"{len(built.conflicts)} conflicts")


def _choose(built: ConflictModel, context: Context) -> tuple[Sequence[Arc] | None, Outcome]:
    """Solve the model; return the edges of its optimum, if it was found, and how it ended."""
    inner = context.inner(EdgeChoice(built.graph), prefix=None)
    outcome = logged(
        inner,
        lambda: cpsat.solve_cpsat(
            built.model,
            inner,
            decode=lambda value: (value(built.length), formulation.decode(built, value)),
            to_objective=lambda ticks: ticks,
        ),
    )
    if inner.bound is not None and not outcome.infeasible:
        context.raise_bound(inner.bound * built.tick, kind=KIND)
    return None if inner.answer is None else inner.answer[1], outcome


def _break_conflicts(
    problem: MemoryEdges, context: Context, built: ConflictModel, edges: Sequence[Arc]
) -> int | None:
    """Add the conflicts that edges leave, and offer edges without one.

    Return how many are new; None if one has no pair.

    Raises
    ------
    RuntimeError
        If the edges leave no new conflict, though a moment is above the bound: a defect.
    """
    graph, growing, fresh = problem.graph, Growing(problem.graph), 0
    for u, v in edges:
        growing.add(u, v)
    while not context.expired:
        found = search(
            growing.cut(), problem.processors, target=problem.bound, expired=lambda: context.expired
        )
        if found.moment is None:
            if found.bound <= problem.bound:
                context.offer(Edges(edges=tuple(growing.edges), flow=found.proof()))
            return fresh
        pairs = formulation.conflict_pairs(graph, found.moment, problem.bound)
        if not pairs:
            return None
        if formulation.add_conflict(built, pairs):
            fresh += 1
        elif not fresh:
            raise RuntimeError(f"a conflict of {len(pairs)} pairs came again though the edges break it")
        left = [(u, v) for u, v in pairs if not growing.after[v] >> u & 1]
        if not left:
            return fresh

        def through(edge: Arc) -> tuple[int, Arc]:
            u, v = edge
            return growing.start[u] + growing.duration[u] + growing.bottom[v], edge

        best = min(left, key=through)
        if context.incumbent is not None and through(best)[0] >= context.incumbent:
            return fresh
        growing.add(*best)
    return fresh
