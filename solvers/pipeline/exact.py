"""`cpsat`: the model of intervals, from the bound and the best schedule that are known."""

from __future__ import annotations

from typing import Any

from ...formulations.pipeline import intervals_cpsat
from ...models.problems.pipeline import Pipeline
from ..context import Context, Outcome
from ..engines.model import solve_model
from .rules import raise_first_bound


def stated(problem: Pipeline) -> dict[str, Any]:
    """Return what the model is built of."""
    return {"problem": problem}


def solve_cpsat(problem: Pipeline, context: Context) -> Outcome:
    """Solve the model from the bounds in closed form."""
    raise_first_bound(problem, context)
    return solve_intervals(problem, context)


def solve_intervals(problem: Pipeline, context: Context) -> Outcome:
    """Solve the model from the bound and the incumbent of the context."""
    return solve_model(
        context,
        intervals_cpsat,
        lambda: intervals_cpsat.build(
            problem,
            lower=context.bound or 0,
            upper=context.incumbent,
            hint=context.answer,
            expired=lambda: context.expired,
        ),
        what="the CP-SAT model of intervals",
        size=intervals_cpsat.size(problem),
        decode=intervals_cpsat.decode,
        to_objective=int,
    )
