"""`checkmate` and its rounding: recomputation in stages through HiGHS or another MILP solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ....formulations.recompute import stages_milp
from ....formulations.recompute.data import RecomputeData, fits, recompute_data
from ....formulations.recompute.stages_hint import set_values
from ....models.errors import UsageError
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...engines.memory import refuse_if_too_large
from ...engines.model import solve_model
from ..heuristics.method import STOPPED, first_bound, known_runs, offer, offer_heuristics
from .moments import raise_bounds, with_slower_tiers
from .rounding import rounded

STARTED, BOUNDED = 0.1, 0.2
"""Parts of the time until which heuristics, and bounds before the model, may take."""

MARGINS = (0, 5, 10, 15, 20, 25, 30, 40, 50)
"""Percents of the memory that are left free for the rounding."""


def solve_checkmate(problem: Recompute, context: Context) -> Outcome:
    """Solve the MILP in stages, after heuristics and bounds; then bounds for the rest of the time.

    Option ``stages``: ``partitioned`` (default), ``free`` (as many as a fastest schedule can need, given the
    best one that is known; then the bound holds for the problem, unless values can come back from a slower
    tier), or a number of free stages. Option ``start``: ``lists`` (default: heuristics first) or ``none``.
    Option ``solver``: another solver.
    """
    free = _free_stages(context)
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    prepared = heuristics_and_bounds(problem, data, context)
    if prepared.infeasible or context.closed or prepared.reason in STOPPED:
        return prepared
    if free == 0:
        if context.incumbent is None:
            return Outcome(detail="the number of free stages needs a known schedule: give stages=NUMBER")
        free = stages_milp.enough_stages(data, context.incumbent // data.tick)
    outcome = solve_stages(problem, data, context, free)
    return bounds_to_the_end(problem, context, outcome)


def _free_stages(context: Context) -> int | None:
    """Return the number of free stages, 0 for as many as are enough, None for partitioned ones."""
    text = context.options["stages"]
    if text == "partitioned":
        return None
    if text == "free":
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"option stages: found {text!r}, expected partitioned, free, or a number of stages")
    return int(text)


def heuristics_and_bounds(problem: Recompute, data: RecomputeData, context: Context) -> Outcome:
    """Take heuristics (option ``start=lists``, the default) and bounds by moments for a part of the time."""
    whole = context.remaining()
    if context.options["start"] == "lists":
        until = context.elapsed() + STARTED * whole
        offer_heuristics(context, data, lambda: context.elapsed() >= until)
    if context.closed:
        return Outcome()
    return raise_bounds(problem, context, min((BOUNDED - STARTED) * whole, 60.0))


def bounds_to_the_end(problem: Recompute, context: Context, outcome: Outcome) -> Outcome:
    """Spend the time that is left on bounds on the problem; return what to say in the end."""
    if context.closed or context.expired or outcome.reason is not None:
        return outcome
    bounds = raise_bounds(problem, context, math.inf)
    if bounds.infeasible:
        return bounds
    return Outcome(reason=bounds.reason, detail="; ".join(x for x in (outcome.detail, bounds.detail) if x))


def solve_stages(problem: Recompute, data: RecomputeData, context: Context, free: int | None) -> Outcome:
    """Solve the MILP from the best schedule; its bound counts where it is one on the problem."""
    form = "partitioned stages" if free is None else f"{free} free stages"

    def build() -> stages_milp.StagesModel:
        built = stages_milp.build(data, stages=free, expired=lambda: context.expired)
        if (known := known_runs(context)) is not None:
            set_values(built, known)
        return built

    best = math.inf if context.incumbent is None else context.incumbent // data.tick
    enough = math.inf if math.isinf(best) else stages_milp.enough_stages(data, int(best))
    whole = free is not None and free >= enough and not with_slower_tiers(problem)
    statement = [sum(data.duration)]

    def to_objective(ticks: int) -> int:
        statement[0] = max(statement[0], ticks)
        return data.ns(ticks) if whole else problem.least_time

    def decode(built: stages_milp.StagesModel, value: Callable[[Any], float]) -> list[int] | None:
        runs = stages_milp.decode(built, value)
        return runs if fits(data, runs) else None  # within the solver's tolerances is not within the memory

    outcome = solve_model(
        context,
        stages_milp,
        build,
        what=f"the MILP in {form}",
        size=stages_milp.size(data, free),
        decode=decode,
        to_objective=to_objective,
    )
    return say_of_statement(data, context, outcome, statement[0], form)


def say_of_statement(
    data: RecomputeData, context: Context, outcome: Outcome, statement: int, form: str
) -> Outcome:
    """Return an outcome that says of the problem only what holds of it, and of its statement the rest."""
    if outcome.infeasible:
        return Outcome(detail=f"no schedule in {form}; {outcome.detail}")
    known = context.incumbent
    if known is not None and known <= data.ns(statement) and outcome.reason not in STOPPED:
        is_one = known == data.ns(statement)
        words = f"a fastest schedule in {form}" if is_one else f"faster than all schedules in {form}"
        return Outcome(detail=f"{words}; {outcome.detail}")
    words = f"in {form} none takes less than {data.ns(statement)} ns; {outcome.detail}"
    return Outcome(reason=outcome.reason, detail=words)


def solve_rounding(problem: Recompute, context: Context) -> Outcome:
    """Round the linear relaxation in partitioned stages, for several shares of the memory."""
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    refused = refuse_if_too_large(
        stages_milp.size(data, None),
        bytes_per_term=stages_milp.BYTES_PER_TERM,
        context=context,
        what="the relaxed MILP in partitioned stages",
    )
    if refused is not None:
        return refused
    relaxation = None
    for percent in MARGINS:
        if context.expired or context.closed:
            break
        solved = relax(data, context, data.memory * (100 - percent) // 100)
        if solved is None:
            break
        value, kept = solved
        relaxation = value if relaxation is None else relaxation
        for runs in _roundings(data, context, kept):
            offer(context, data, runs)
        context.progress(f"rounded with {percent} % of the memory left free")
    words = (
        ""
        if relaxation is None
        else (f"the relaxation in partitioned stages takes {math.ceil(data.ns(1) * relaxation - 1e-6)} ns")
    )
    return Outcome(reason="time" if context.expired else None, detail=words)


THRESHOLDS = (0.5, 0.3, 0.7, 0.1, 0.9)
"""Values of a relaxed decision above which it is rounded up, one schedule for each; 1/2 comes first."""

RANDOM_ROUNDINGS = 20
"""Random roundings: each decision is rounded up with the probability that is its value."""


def _roundings(data: RecomputeData, context: Context, kept: list[list[float]]) -> Iterator[list[int]]:
    import random

    for threshold in THRESHOLDS:
        yield rounded(data, kept, threshold.__lt__)
    rng = random.Random(context.seed)
    for _ in range(RANDOM_ROUNDINGS):
        yield rounded(data, kept, lambda share: share > rng.random())


def relaxed_time(problem: Recompute, context: Context) -> int | None:
    """Return the optimum of the relaxation, in ns of whole ticks; None if the limits end it before."""
    data = recompute_data(problem)
    found = relax(data, context, data.memory)
    return None if found is None else data.ns(round(found[0]))


def relax(data: RecomputeData, context: Context, memory: int) -> tuple[float, list[list[float]]] | None:
    """Return the optimum of the relaxation in ticks, and of each stage the shares of values kept until it."""
    own = context.inner(context.problem, options={}, engine_options={})
    shares: list[tuple[float, list[list[float]]]] = []

    def look(built: stages_milp.StagesModel, value: Callable[[Any], float]) -> None:
        shares[:] = [(stages_milp.objective(built, value), stages_milp.kept_shares(built, value))]

    solve_model(
        context,
        stages_milp,
        lambda: stages_milp.build(data, memory=memory, relaxed=True, expired=lambda: own.expired),
        what="the relaxation in partitioned stages",
        size=None,
        decode=look,
        to_objective=lambda ticks: 0,
        run=own,
        quiet=True,
    )
    return shares[0] if shares else None
