"""`auto` for `distributed`: list schedules, bounds of the memories together, then CP-SAT from what they find.

1. `heft`; the fastest schedule on one memory alone, by the lists of `makespan`.
2. Bounds of the relaxation `Distributed.pooled`; if it is proved to have no schedule, there is none.
3. CP-SAT, with the best schedule as hint and horizon, unless bytes times ns are too large for it.
"""

from __future__ import annotations

from ...formulations.distributed.data import DistributedData, distributed_data
from ...formulations.model import BuildTimeout, ticker
from ...models.errors import InstanceError, UsageError
from ...models.problems.distributed import Distributed, DistributedSchedule
from ...models.problems.makespan import Makespan
from ...models.result import Status
from ..context import Context, Outcome
from ..makespan.lists.method import begin
from ..makespan.lists.priorities import PRIORITIES
from .heft import ListScheduler, upward_ranks
from .models import checked_horizon, solve_intervals

POOLED = 0.2
"""Part of the time that is left for bounds of the relaxation, and again for its own methods."""

ALONE = 0.1
"""Part of the time that is left for the schedules on one memory alone."""


def solve_auto(problem: Distributed, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    data = distributed_data(problem)
    offer_heft(data, context)
    for m in range(len(problem.memories)):
        if not context.expired:
            offer_one_memory(problem, m, context)
    outcome = raise_bounds(problem, context)
    if outcome.infeasible or context.closed or context.expired:
        return _ended(outcome, context)
    if context.time_limit is not None:
        from ..solve import solve

        seconds = POOLED * context.remaining()
        pooled = solve(problem.pooled, time_limit=seconds, seed=context.seed, threads=context.threads)
        if pooled.reason == "interrupted":
            raise KeyboardInterrupt
        if pooled.status is Status.INFEASIBLE:
            return Outcome(infeasible=True, detail=f"all memories together: {pooled.detail}")
        if pooled.bound is not None:
            kind = f"memories together, {pooled.bound_kind}"
            context.raise_bound(pooled.bound, pooled.proof or "exact", kind=kind)
        if context.closed or context.expired:
            return _ended(outcome, context)
    try:
        checked_horizon(data, context)
    except UsageError as error:  # what was found stays
        return Outcome(detail=str(error))
    return solve_intervals(data, context)


def solve_cpsat(problem: Distributed, context: Context) -> Outcome:
    """Solve the model from the list schedule and the bounds of the relaxation."""
    data = distributed_data(problem)
    offer_heft(data, context)
    outcome = raise_bounds(problem, context)
    if outcome.infeasible or context.closed or context.expired:
        return _ended(outcome, context)
    return solve_intervals(data, context)


def solve_heft(problem: Distributed, context: Context) -> Outcome:
    """Offer the list schedule by upward rank, and raise the bounds of the relaxation."""
    found = offer_heft(distributed_data(problem), context)
    outcome = raise_bounds(problem, context)
    if outcome.infeasible or found or context.expired:
        return _ended(outcome, context)
    return Outcome(detail="the list schedule found no place for some op within the memories")


def _ended(outcome: Outcome, context: Context) -> Outcome:
    """Return how a method ends here: with the relaxation's proof, closed, or out of time."""
    if outcome.infeasible:
        return outcome
    return Outcome(reason="time" if context.expired and not context.closed else None)


def offer_heft(data: DistributedData, context: Context) -> bool:
    """Offer the list schedule by upward rank; return whether there is one."""
    lists = ListScheduler(data)
    try:
        tick = ticker(lambda: context.expired)
        found = lists.run(upward_ranks(data, tick), tick)
    except BuildTimeout:
        return False
    if found:
        context.offer(lists.answer())
    return found


def offer_one_memory(problem: Distributed, m: int, context: Context) -> None:
    """Offer the best list schedule of `makespan` on one memory's processors, if all ops can run there."""
    here = {place.kind: q for q, place in enumerate(problem.places) if place.memory == m}
    counts = tuple((kind, len(problem.places[q].processors)) for kind, q in here.items())
    room = problem.capacities[m]
    if room is not None:  # which `makespan` counts as in its memory
        room += sum(problem.graph.tensors[t].nbytes for t in problem.untouched)
    try:
        alone = Makespan(problem.graph, counts, None if room is None else max(room, 0))
    except InstanceError:  # some op runs on no kind that is here, or some kind can run no op
        return
    inner = context.inner(alone, ALONE * context.remaining(), f"on {problem.memories[m]} alone: ")
    begin(alone, inner, lists=PRIORITIES)
    if inner.answer is None:
        return
    starts, ways = alone.split(inner.answer)
    places = list(here.values())
    chosen = []
    for i, way in enumerate(ways):
        mine = ((a.mode, a.kind) for a in problem.alternatives[i])
        chosen.append(list(mine).index((way.mode, places[way.kind])))
    context.offer(DistributedSchedule(starts=tuple(starts), chosen=tuple(chosen)))


def raise_bounds(problem: Distributed, context: Context) -> Outcome:
    """Take over the bounds of the relaxation, if there is time; say if it is proved to have no schedule."""
    if context.expired:
        return Outcome()
    inner = context.inner(problem.pooled, POOLED * context.remaining(), "memories together: ")
    started = begin(problem.pooled, inner)
    if inner.bound is not None:
        context.raise_bound(inner.bound, inner.proof or "exact", kind=inner.bound_kind)
    if isinstance(started, Outcome) and started.infeasible:
        return Outcome(infeasible=True, detail=f"all memories together: {started.detail}")
    return Outcome()
