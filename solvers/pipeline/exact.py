"""`cpsat`: the model of intervals, from the bound and the best schedule that are known."""

from __future__ import annotations

from ...formulations.pipeline import intervals_cpsat
from ...models.problems.pipeline import Pipeline
from ..context import Context, Outcome
from ..engines.model import solve_question
from .rules import raise_first_bound


def solve_cpsat(problem: Pipeline, context: Context) -> Outcome:
    """Solve the model from the bounds in closed form."""
    raise_first_bound(problem, context)
    return solve_intervals(problem, context)


def solve_intervals(problem: Pipeline, context: Context) -> Outcome:
    """Solve the model from the bound and the incumbent of the context."""
    known = {"lower": context.bound or 0, "upper": context.incumbent, "hint": context.answer}
    return solve_question(problem, context, intervals_cpsat, "the CP-SAT model of intervals", **known)
