"""`auto` for `makespan`: bounds, list schedules, local search, labels, then CP-SAT for the rest of the time.

A graph is cut where everything meets in one op, into parts that are solved one by one, small ones first; if
there is one part only, or memory and time for the parts were not enough, the whole:

1. A fallback order within the memory (or the proof that there is no schedule).
2. Safe list schedules by every priority; bounds.
3. Local search over rankings and fallback orders for a part of the time, or until it stagnates; on trees
   also over the sequences of MemBooking; then, on identical processors, annealing of sequences on lanes
   towards the best bound (`lists.filling`).
4. Labels on the sets of started ops (`labels.method`), if there are few ops; on trees whose schedules are
   not near the bound, before that those of reduced trees, both ways in time (`trees.two_way_method`): before
   MemBooking if they are far from it.
5. CP-SAT with the best schedule as hint and all bounds; where the model is too large, the local search goes
   on.

Large graphs have a search over MemBooking, on trees, and one in windows of time instead of 3
(`lists.lns`), and are bounded by their heaviest ops alone (`bounds.core`), trees by reduced ones
(`trees.two_way_method`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ...formulations.makespan.data import makespan_data
from ...formulations.makespan.intervals_cpsat import LARGEST_AREA, RESERVOIR
from ...models.graph import Accounting
from ...models.problems.makespan import Makespan
from ..context import Context, Outcome
from .bounds.core import core_problem
from .labels.method import has_labels, set_labels
from .lists.lns import improve_large, search_booking
from .lists.local_search import improve
from .lists.method import Started, TimeIsUp, begin, rankings
from .lists.priorities import PRIORITIES
from .lists.series import Part, in_series, joined
from .models import solve_intervals
from .trees.two_way_method import has_two_way, two_way

MOST_OPS = 1500
"""Of graphs that CP-SAT is tried for."""

LARGE = 300
"""From so many ops on windows of time are searched, on identical processors."""

CORE = 0.2
"""Part of the time for the bounds by cores."""

CORES = (12, 16, 20, 24, 28, 32, 40)
"""Ops of the cores of large graphs."""

STAGNATION = 300
"""Moves per op of the local search without a better schedule, before CP-SAT."""

SEARCHED = 0.4
"""Part of the time for the local search before CP-SAT: with little memory it finds the better schedules."""

GLANCE = 0.03
"""The same before the labels, which find better ones."""

BOOKED = 0.1
"""Part of the time for MemBooking on trees before the labels."""

FILLED = (0.15, 3), (0.4, 40)
"""The two turns of filling processors (`lists.filling`): each turn's share of the time that is left, and the
rounds without a faster schedule after which it ends. The second, longer turn is only for an incumbent that
`CLOSE` calls close to the bound: filling is a search for schedules that attain the bound."""

CLOSE = 0.003
"""An incumbent is close to the bound if it exceeds it by at most this fraction of the bound."""

TWO_WAY = 0.6
"""Part of the time that is left for two-way labels."""

FAR_APART, APART = 0.05, 0.01
"""Gaps between incumbent and bound, as fractions of the incumbent, that decide when two-way labels run on a
tree: above the first before MemBooking and filling, because these cannot close such a gap; above the second
after them; below it not at all."""

TOO_LARGE = (
    "the instance is too large for the model of CP-SAT, so only bounds and searches were tried; "
    "fewer ops, less memory or coarser durations make it smaller"
)

LABELLED = 0.9
"""Part of the time that is left for the labels."""


def solve_auto(problem: Makespan, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    parts = in_series(problem)
    return _solve_whole(problem, context) if len(parts) == 1 else _solve_parts(problem, parts, context)


def _solve_parts(problem: Makespan, parts: Sequence[Part], context: Context) -> Outcome:
    """Solve the parts, small ones first, each in its share of the time that is left; join them.

    Time that parts did not need goes to those without a proof, which are then tried again.
    """
    started = begin(problem, context, lists=PRIORITIES)
    if isinstance(started, Outcome):
        return started if started.infeasible or context.expired else _solve_whole(problem, context)
    if context.closed or context.expired:
        return Outcome(reason=None if context.closed else "time")
    answers = [_restricted(part, context.answer) for part in parts]
    bounds, proofs = [0] * len(parts), ["exact"] * len(parts)
    todo = sorted(range(len(parts)), key=lambda k: (len(parts[k].problem.graph.ops), k))
    outcome, turn = Outcome(), 0
    while todo and not context.expired:
        still = []
        for place, k in enumerate(todo):
            part = parts[k].problem
            share = len(part.graph.ops) / sum(len(parts[x].problem.graph.ops) for x in todo[place:])
            prefix = f"part {place + 1} of {len(todo)}: "
            inner = context.inner(part, share * context.remaining(), prefix, turn=turn)
            inner.offer(answers[k])
            if bounds[k]:
                inner.raise_bound(bounds[k], proofs[k])
            last = _solve_whole(part, inner)
            assert inner.answer is not None
            answers[k], bounds[k], proofs[k] = inner.answer, inner.bound or 0, inner.proof or "exact"
            context.offer(joined(parts, answers))
            proof = "floating" if "floating" in proofs else "exact"
            context.raise_bound(sum(bounds), proof, kind="parts in series")
            if last.infeasible or last.reason in ("interrupted", "memory"):
                return last
            if not inner.closed:
                outcome = last if outcome.reason != "time" else outcome
                still += [k] if last.reason == "time" else []
        todo = still
        turn += 1
    return Outcome() if context.closed else outcome


def _restricted(part: Part, answer: Sequence[int]) -> tuple[int, ...]:
    """Return the starts of the ops of a part, from when the part before has ended."""
    some = answer[part.first : part.end]
    begin = min(some)
    return tuple(s - begin for s in some)


def _solve_whole(problem: Makespan, context: Context) -> Outcome:
    part = 0.5 if len(problem.graph.ops) <= MOST_OPS else 0.9
    until = context.elapsed() + part * context.remaining()
    started = begin(problem, context, lambda: context.elapsed() >= until, PRIORITIES)
    if isinstance(started, Outcome):
        if started.infeasible or context.expired:
            return started
        data = makespan_data(problem)
        small = _is_small(data.n, data.memory, data.horizon)
        return solve_intervals(data, context, RESERVOIR) if small else started
    if context.closed or context.expired:
        return Outcome(reason=None if context.closed else "time")
    data = started.data
    assert context.incumbent is not None
    small = _is_small(data.n, data.memory, context.incumbent // data.tick)
    if data.n >= LARGE and problem.identical:
        if has_two_way(problem):
            ended = two_way(problem, context, CORE * context.remaining())
        else:
            ended = _raise_core_bounds(problem, context)
        if ended.reason in ("interrupted", "memory"):
            return ended
        improve_large(problem, context, started)
    else:
        labels = has_labels(problem, data)
        moves = STAGNATION * data.n if small or labels else None
        part = GLANCE if labels else SEARCHED if small else 1.0
        search(problem, context, started, part=part, moves=moves)
        trees = has_two_way(problem)
        first = trees and _is_apart(context, FAR_APART)
        if first:
            ended = two_way(problem, context, (TWO_WAY if labels else CORE) * context.remaining())
            if ended.reason in ("interrupted", "memory"):
                return ended
        if labels and not context.closed:
            search_booking(problem, context, started, BOOKED)
        if problem.identical and not context.closed:
            search_filling(problem, context, started)
        if labels and trees and not (first or context.closed) and _is_apart(context, APART):
            ended = two_way(problem, context, TWO_WAY * context.remaining())
            if ended.reason in ("interrupted", "memory"):
                return ended
        if labels and not context.closed:
            ended = set_labels(data, context, (LABELLED if small else 1.0) * context.remaining())
            if ended.reason in ("interrupted", "memory"):
                return ended
            if ended.detail and not context.closed:  # they gave up
                search(problem, context, started, part=SEARCHED, moves=moves)
    if context.closed:
        return Outcome()
    if not small:
        if context.time_limit is not None and data.n < LARGE:
            search(problem, context, started, part=1.0, moves=None, turn=1)
        if context.closed:
            return Outcome()
        return Outcome(reason="time" if context.expired else None, detail=TOO_LARGE)
    return solve_intervals(data, context)


def _raise_core_bounds(problem: Makespan, context: Context) -> Outcome:
    """Bound the makespan by those of larger and larger cores, for a part of the time; say how it ended."""
    ended = Outcome()
    if problem.memory is None or problem.graph.accounting is not Accounting.COEXIST:
        return ended
    until = context.elapsed() + CORE * context.remaining()
    for count in CORES:
        left = until - context.elapsed()
        if context.closed or left <= 0:
            return ended
        core = core_problem(problem, count)
        inner = context.inner(core, left, f"core of {count} ops: ")
        ended = _solve_whole(core, inner)
        if inner.bound is not None:
            context.raise_bound(inner.bound, inner.proof or "exact", kind="core")
        if not inner.closed:
            return ended
    return ended


def solve_local_search(problem: Makespan, context: Context) -> Outcome:
    """Search until the time is up, or for so many moves in a row without a better schedule."""
    moves = context.options["moves"]
    started = begin(problem, context, lists=PRIORITIES)
    if isinstance(started, Outcome):
        return started
    if not context.closed:
        search(problem, context, started, part=1.0, moves=moves)
    return Outcome(reason="time" if context.expired and not context.closed else None)


def search(
    problem: Makespan,
    context: Context,
    started: Started,
    *,
    part: float,
    moves: int | None,
    turn: int = 0,
) -> None:
    """Run the local search for a part of the time that is left, from the best list schedule.

    `turn` is added to the seed.
    """
    until = context.elapsed() + part * context.remaining()
    context.progress("local search")
    with contextlib.suppress(TimeIsUp):
        rank, least = None, 0
        for other in rankings(problem, started):
            value = context.offer(started.list_schedule(other))
            if rank is None or value < least:
                rank, least = other, value
            if context.closed or context.elapsed() >= until:
                return
        assert rank is not None
        improve(
            problem,
            decode=started.list_schedule,
            rank=rank,
            order=started.order,
            seed=context.seed + turn,
            offer=context.offer,
            stop=lambda: context.closed or context.elapsed() >= until,
            moves=moves,
        )


def search_filling(problem: Makespan, context: Context, started: Started) -> None:
    """Anneal sequences on lanes from the best schedule."""
    from .lists.filling import fill

    context.progress("filling of processors")
    for turn, (part, rounds) in enumerate(FILLED):
        assert context.answer is not None
        assert context.incumbent is not None
        bound = context.bound or 0
        if context.closed or (turn and context.incumbent - bound > CLOSE * bound):
            return
        until = context.elapsed() + part * context.remaining()
        fill(
            problem,
            started.data,
            started.shop,
            context.answer,
            goal=lambda: context.bound or 0,
            seed=2 * context.seed + turn,
            offer=context.offer,
            stop=lambda until=until: context.closed or context.elapsed() >= until,  # type: ignore[misc]
            rounds=rounds,
        )


def _is_apart(context: Context, part: float) -> bool:
    """Return whether the bound is farther from the incumbent than a part of that."""
    assert context.incumbent is not None
    return context.incumbent - (context.bound or 0) > part * context.incumbent


def _is_small(n: int, memory: int, horizon: int) -> bool:
    return n <= MOST_OPS and (memory + 1) * (horizon + 1) < LARGEST_AREA
