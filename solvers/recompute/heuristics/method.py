"""Recomputation on general graphs: what every method begins with, and the heuristics.

What proves something about the problem is told from what proves something about a statement of it: bounds of
models in stages are none on the problem (`lowtide.formulations.recompute.stages_milp`), bounds of moments are
(`lowtide.formulations.recompute.moments_milp`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ....formulations.recompute.data import RecomputeData, check_modes, fits, levels, recompute_data
from ....models.derived.memory import sequential_memory
from ....models.errors import UsageError
from ....models.problems.recompute import Compute, Recompute
from ....models.units import exact_bytes
from ...context import Context, Known, Outcome
from .eviction import RULES, pruned, search
from .segments import (
    ARTICULATION,
    LINEARIZED,
    equal_boundaries,
    every_root,
    gaps,
    greedy_boundaries,
    in_whole_segments,
    with_boundaries,
)

PRUNED_OPS = 400
"""Up to so many ops the runs of heuristics are pruned, and rules of eviction tried before annealing."""

ROUNDS = 3
"""Of annealing without a faster schedule, after which it ends; each is twice as long as the one before."""

STOPPED = ("interrupted", "crash")
"""Why a step ended, after which no other one follows."""


def first_bound(problem: Recompute, context: Context) -> RecomputeData | None:
    """Leave each op once as a bound, and as an answer if that fits; return the data, None if it does.

    What fits as long as every tensor is kept to its last access fits with discards as early as can be, and
    is found without the data.
    """
    check_modes(problem.graph)
    context.raise_bound(problem.least_time, kind="each op once")
    if problem.memory is None or sequential_memory(problem.graph).reference_peak <= problem.memory:
        context.offer(range(len(problem.graph.ops)))
        return None
    data = data_of(problem)
    offer(context, data, range(data.n))
    return None if context.closed else data


def data_of(problem: Recompute) -> RecomputeData:
    """Return the data of a problem, which are made once."""
    known: dict[str, RecomputeData] = problem.__dict__.setdefault("_data", {})
    if "bundled" not in known:
        known["bundled"] = recompute_data(problem)
    return known["bundled"]


def offer(context: Context, data: RecomputeData, runs: Sequence[int]) -> bool:
    """Offer a sequence of runs if it fits; return whether it does."""
    if not fits(data, runs):
        return False
    context.offer([int(i) for i in runs])
    return True


def known_runs(context: Context) -> list[int] | None:
    """Return the runs of the best answer, None if there is none."""
    if context.answer is None:
        return None
    return [action.op for action in context.answer if isinstance(action, Compute)]


def offer_heuristics(
    context: Context, data: RecomputeData, until: Callable[[], bool], *, rounds: int = ROUNDS
) -> None:
    """Offer what segments and rules of eviction find, and what annealing makes of the best of it.

    Parameters
    ----------
    until
        Whether to end.
    rounds
        Of the annealing, without a faster schedule.
    """
    offer_rules(context, data, until, moves=len(RULES) if data.n <= PRUNED_OPS else 0)
    offer_annealed(context, data, until, rounds=rounds)


def offer_annealed(
    context: Context,
    data: RecomputeData,
    until: Callable[[], bool],
    *,
    rounds: int = ROUNDS,
    turn: int = 0,
    start: Sequence[int] | None = None,
) -> None:
    """Offer what annealing makes of `start`, the best known schedule, or each op once; turns draw anew."""

    def stop() -> bool:
        return context.closed or context.expired or until()

    if stop():
        return
    from .annealing import anneal_runs

    context.progress("annealing of sequences of runs")
    known = known_runs(context)
    if start is None:
        start = known if known is not None and fits(data, known) else range(data.n)
    anneal_runs(
        data,
        start,
        seed=context.seed + turn,
        offer=lambda runs: offer(context, data, runs),
        known=lambda: known_runs(context),
        stop=stop,
        rounds=rounds,
    )


def offer_rules(context: Context, data: RecomputeData, until: Callable[[], bool], *, moves: int) -> None:
    """Offer what segments, and the search over rules of eviction, find."""

    def stop() -> bool:
        return context.closed or context.expired or until()

    for kind in (LINEARIZED, ARTICULATION):
        for boundaries in greedy_boundaries(data, gaps(data, kind)):
            if stop():
                return
            runs = with_boundaries(data, boundaries)
            if fits(data, runs):
                offer(context, data, pruned(data, runs, stop) if data.n <= PRUNED_OPS else runs)
    search(data, seed=context.seed, moves=moves, offer=lambda runs: offer(context, data, runs), stop=stop)


def solve_heuristics(problem: Recompute, context: Context) -> Outcome:
    """Offer what segments and the search over rules of eviction find."""
    data = first_bound(problem, context)
    if data is not None:
        offer_rules(context, data, lambda: False, moves=context.options["moves"])
    return Outcome(reason="time" if context.expired and not context.closed else None)


def solve_local_search(problem: Recompute, context: Context) -> Outcome:
    """Anneal the best of segments and rules of eviction."""
    data = first_bound(problem, context)
    if data is not None:
        offer_heuristics(context, data, lambda: False, rounds=context.options["rounds"])
    return Outcome(reason="time" if context.expired and not context.closed else None)


def solve_chen_sqrt(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedule with a boundary at about every sqrt(n)-th gap; option ``points`` as for greedy."""
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    runs = with_boundaries(data, every_root(gaps(data, context.options["points"])))
    try:
        peak = max(levels(data, runs)) * data.unit
    except ValueError as error:
        return Outcome(detail=f"no schedule: {error}")
    if offer(context, data, runs):
        return Outcome()
    return Outcome(detail=f"the schedule needs {exact_bytes(peak)}, of {exact_bytes(problem.memory or 0)}")


def solve_chen_greedy(problem: Recompute, context: Context) -> Outcome:
    """Offer the schedules of growing segments; ``points``: ``linearized`` (default) or ``articulation``."""
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    fits = False
    for boundaries in greedy_boundaries(data, gaps(data, context.options["points"])):
        if context.expired:
            return Outcome(reason="time")
        fits = offer(context, data, with_boundaries(data, boundaries)) or fits
    return Outcome(detail="" if fits else "no choice of segments fits")


def solve_segments(problem: Recompute, context: Context) -> Outcome:
    """Offer equal segments that run again whole; ``segments``: ``best``, ``sqrt`` or how many there are."""
    text = context.options["segments"]
    if text not in ("best", "sqrt") and not (text.isdecimal() and int(text)):
        raise UsageError(f"option segments: found {text!r}, expected best, sqrt, or a number of segments")
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    fits = False
    for kind in (ARTICULATION, LINEARIZED):
        places = gaps(data, kind)
        root = max(2, round(math.sqrt(len(places))))
        for count in range(2, 2 * root + 1) if text == "best" else [root if text == "sqrt" else int(text)]:
            if context.expired:
                return Outcome(reason="time")
            fits = offer(context, data, in_whole_segments(data, equal_boundaries(places, count))) or fits
    return Outcome(detail="" if fits else "no number of segments fits")


def part_of(
    context: Context,
    seconds: float = math.inf,
    *,
    options: Mapping[str, Any] = MappingProxyType({}),
    engine_options: Mapping[str, str] | None = None,
) -> Context:
    """Return a context for one run of a solver, of so many seconds at most, that knows the incumbent."""
    known = Known(answer=context.answer, incumbent=context.incumbent)
    return context.inner(
        context.problem, seconds, None, options=options, engine_options=engine_options, known=known
    )
