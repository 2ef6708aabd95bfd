"""`moccasin`: retention intervals through CP-SAT."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....formulations.recompute import moccasin_cpsat
from ....formulations.recompute.data import RecomputeData, reordered
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...engines.model import solve_model
from ..heuristics.method import STOPPED, first_bound, known_runs, part_of
from .stages import bounds_to_the_end, heuristics_and_bounds, say_of_statement

COPIES = 3
"""Runs of each op unless option ``copies`` says otherwise."""


def solve_moccasin(problem: Recompute, context: Context) -> Outcome:
    """Solve the CP-SAT model, after heuristics and bounds; then bounds for the rest of the time.

    Option ``copies``: most runs of each op (default 3); with as many as there are ops, no schedule in
    partitioned stages is left out. Option ``start``: ``lists`` (default: heuristics first) or ``none``.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=4)
    >>> few = lt.solve(problem, "moccasin", threads=1, options={"start": "none"})
    >>> print(few.status, few.detail)
    unknown no schedule in partitioned stages with at most 3 copies; CP-SAT: INFEASIBLE
    >>> lt.solve(problem, "moccasin", threads=1, options={"copies": "6"}).objective
    17
    """
    copies = context.options["copies"]
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    prepared = heuristics_and_bounds(problem, data, context)
    if prepared.infeasible or context.closed or prepared.reason in STOPPED:
        return prepared
    return bounds_to_the_end(problem, context, solve_intervals(problem, data, context, copies))


def solve_intervals(
    problem: Recompute,
    data: RecomputeData,
    context: Context,
    copies: int,
    *,
    by_first_runs: bool = False,
    seconds: float = math.inf,
) -> Outcome:
    """Solve the model from the best schedule that is known; its bound is none on the problem.

    Parameters
    ----------
    copies
        Most runs of each op.
    by_first_runs
        Stages follow the order of the first runs of that schedule instead of the reference order.
    """
    known = known_runs(context)
    order = list(dict.fromkeys(known)) if by_first_runs and known else list(range(data.n))
    place = {i: k for k, i in enumerate(order)}
    hint = None if known is None else [place[i] for i in known]
    statement = [sum(data.duration)]

    def to_objective(ticks: int) -> int:
        statement[0] = max(statement[0], ticks)
        return problem.least_time

    complete = [False]

    def read(built: moccasin_cpsat.MoccasinModel, value: Callable[[Any], int]) -> list[int]:
        runs = [order[k] for k in moccasin_cpsat.decode(built, value)]
        context.offer(runs)
        return runs

    def build() -> moccasin_cpsat.MoccasinModel:
        built = moccasin_cpsat.build(
            reordered(data, order), copies=copies, hint=hint, expired=lambda: context.expired
        )
        complete[0] = built.complete
        return built

    outcome = solve_model(
        context,
        moccasin_cpsat,
        build,
        what="CP-SAT, retention intervals",
        size=None,
        decode=read,
        to_objective=to_objective,
        run=part_of(context, seconds),
    )
    form = "partitioned stages" if complete[0] else f"partitioned stages with at most {copies} copies"
    if by_first_runs:
        form += ", by the first runs of a known schedule"
    return say_of_statement(data, context, outcome, statement[0], form)
