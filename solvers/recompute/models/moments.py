"""Proved bounds on recomputation: the MILP of moments, with one moment and with many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ....formulations.recompute import moments_milp
from ....formulations.recompute.data import RecomputeData, fits, in_ns, levels, recompute_data, time_of
from ....formulations.recompute.moments_hint import set_values
from ....formulations.recompute.moments_milp import Slower
from ....models.lowering.actions import transfer_ns
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...engines.model import solve_model
from ..heuristics.method import STOPPED, data_of, first_bound, known_runs, offer, part_of
from .rounding import from_moments

KIND = "moments"

SINGLE = 6
"""Ops whose first run is tried as the only moment."""


def relaxed_data(problem: Recompute) -> tuple[RecomputeData, Slower | None] | None:
    """Return the data of the relaxation and the costs of slower tiers.

    None where runs may find what they read in a slower tier, which the relaxation does not know.
    """
    machine, fast = problem.machine, problem.fast
    if not with_slower_tiers(problem):
        return data_of(problem), None
    if {access.tier for access in machine.processors[0].tiers} != {fast}:
        return None
    data = in_ns(recompute_data(problem, bundled=False))
    if not (ways_out := [channel.dst for channel in machine.channels if channel.src == fast]):
        return data, None
    ways_back = [channel.src for channel in machine.channels if channel.dst == fast]
    sizes = [x.nbytes * data.unit for x in data.values]
    back = [min((transfer_ns(machine, k, fast, b) for k in ways_back), default=None) for b in sizes]
    written = [min(transfer_ns(machine, fast, k, b) for k in ways_out) for b in sizes]
    return data, Slower(back=tuple(back), written=tuple(written))


def raise_moments(
    data: RecomputeData,
    context: Context,
    moments: Sequence[int],
    seconds: float,
    slower: Slower | None = None,
    on_path: Callable[[list[int]], object] | None = None,
    bounds: bool = True,
) -> Outcome:
    """Solve the relaxation with these moments for at most so many seconds, and raise the bound.

    Parameters
    ----------
    on_path
        Called with the runs that come of each solution (`from_moments`), which need not fit.
    bounds
        Whether a bound counts: not where the data have less memory than the problem.

    Returns
    -------
    Outcome
        ``infeasible`` if it has no solution: then the problem has none either.
    """
    what = f"the MILP of {len(moments)} moments"
    own = part_of(context, seconds, engine_options={})

    def build() -> moments_milp.MomentsModel:
        built = moments_milp.build(data, moments, slower=slower, expired=lambda: own.expired)
        if (known := known_runs(context)) is not None and fits(data, known):
            set_values(built, known)
        return built

    def note(ticks: int) -> int:
        value = data.ns(ticks)
        if bounds:
            context.raise_bound(value, "floating", kind=KIND)
        return value

    def look(built: moments_milp.MomentsModel, value: Callable[[Any], float]) -> None:
        if on_path is not None:
            on_path(from_moments(data, moments, moments_milp.values_there(built, value)))

    outcome = solve_model(
        context,
        moments_milp,
        build,
        what=what,
        size=moments_milp.size(data, len(moments)),
        decode=look,
        to_objective=note,
        run=own,
        quiet=True,
    )
    if outcome.infeasible:
        return Outcome(infeasible=True, detail=f"{what} has no solution")
    return outcome


def with_slower_tiers(problem: Recompute) -> bool:
    """Return whether values can come back from another tier."""
    return len(problem.machine.tiers) > 1


def raise_bounds(
    problem: Recompute,
    context: Context,
    seconds: float,
    *,
    first: int = 0,
    last: float = math.inf,
    singles: int = SINGLE,
    on_path: Callable[[list[int]], object] | None = None,
) -> Outcome:
    """Raise the bound by one moment, those that need most first, then by more and more.

    Nothing is done where runs may find what they read in a slower tier. What was solved to its end before is
    not solved again.

    Parameters
    ----------
    seconds
        Time limit.
    first, last
        The least and the most number of moments.
    singles
        Ops whose first run is tried as the only moment.
    on_path
        Called with what comes of solutions, as in `raise_moments`.
    """
    relaxed = relaxed_data(problem)
    if relaxed is None:
        return Outcome()
    data, slower = relaxed
    until = context.elapsed() + min(seconds, context.remaining())
    path = moments_milp.longest_path(data)
    sets = [[i] for i in moments_milp.by_need(data)[:singles]]
    count = 2
    while count < len(path):
        sets.append([path[(2 * k + 1) * len(path) // (2 * count)] for k in range(count)])
        count *= 2
    sets.append(path)
    refused = Outcome()
    for moments in [some for some in sets if (len(some) >= first or some is path) and len(some) <= last]:
        left = until - context.elapsed()
        if context.closed or left <= 0:
            break
        step = f"{len(moments)} moments, op {moments[0]}"
        if step in context.known.done:
            continue
        share = left if moments is path or last == 1 or math.isinf(left) else left / 3
        context.progress(f"bound by {len(moments)} moments")
        if moments_milp.size(data, len(moments)).terms > MOST_TERMS:
            break
        outcome = raise_moments(data, context, moments, share, slower, None if slower else on_path)
        if outcome.infeasible or outcome.reason in STOPPED:
            return outcome
        if outcome.reason == "memory":
            refused = outcome
        elif outcome.reason is None:
            context.known.done.add(step)
    if context.closed:
        return Outcome()
    return Outcome(reason="time") if context.expired else refused


MOST_TERMS = 4_000_000
"""Coefficients of a program, at most: HiGHS does not look at the clock while it presolves."""


TRIES, SMALLER = 8, 0.98
"""Programs in less memory while nothing fits, each in what is right by proportion, or in this share."""


def round_moments(
    problem: Recompute, data: RecomputeData, context: Context, seconds: float
) -> tuple[Outcome, list[int] | None]:
    """Raise the bound by the worst moment, and offer what comes of its solutions.

    While that does not fit, and nothing else is known, it is solved in less and less memory.

    Returns
    -------
    Outcome
        That of `raise_bounds`.
    list of int, optional
        Of what does not fit what needs least, and of that the fastest; None if something fits.
    """
    best: list[tuple[int, int, list[int]]] = []

    def take(runs: list[int]) -> None:
        try:
            needed = max(levels(data, runs))
        except ValueError:
            return
        if needed <= data.memory:
            offer(context, data, runs)
        best[:] = [min([*best, (needed, time_of(data, runs), runs)])]

    until = context.elapsed() + seconds
    outcome = raise_bounds(problem, context, 0.7 * seconds, last=1, singles=1, on_path=take)
    worst, smaller = moments_milp.by_need(data)[:1], data
    for _ in range(TRIES):
        left = until - context.elapsed()
        if not worst or not best or outcome.infeasible or context.answer is not None or left <= 0:
            break
        less = smaller.memory * min(SMALLER, data.memory / best[0][0])
        smaller = replace(data, memory=math.floor(less))
        tried = raise_moments(smaller, context, worst, left, None, take, bounds=False)
        if tried.infeasible or tried.reason in STOPPED:
            break
    return outcome, best[0][2] if best and best[0][0] > data.memory else None


def solve_moments(problem: Recompute, context: Context) -> Outcome:
    """Prove a bound; offer only the reference order, if it fits."""
    first_bound(problem, context)
    if context.closed:
        return Outcome()
    return raise_bounds(problem, context, math.inf)
