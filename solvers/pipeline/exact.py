"""`auto` and `cpsat`: published schedules and list schedules within the memory, then CP-SAT from the best."""

from __future__ import annotations

from typing import Any

from ...formulations.model import BuildTimeout
from ...formulations.pipeline import intervals_cpsat
from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline
from ..context import Context, Outcome
from ..engines.model import solve_model
from .rules import RULES, offer_rule, raise_first_bound


def stated(problem: Pipeline) -> dict[str, Any]:
    """Return what the model is built of."""
    return {"problem": problem}


def solve_auto(problem: Pipeline, context: Context) -> Outcome:
    """Offer the schedules of all rules that fit, and prove the best one, or find a better one."""
    raise_first_bound(problem, context)
    for rule in RULES:
        if context.closed or context.expired:
            break
        try:
            offer_rule(problem, context, rule)
        except (BuildTimeout, UsageError):  # the stages are placed in another way
            continue
    if context.closed or context.expired:
        return Outcome(reason=None if context.closed else "time")
    try:
        return _solve_intervals(problem, context)
    except UsageError as error:  # its numbers are too large for the model, not for the schedules
        return Outcome(detail=str(error))


def solve_cpsat(problem: Pipeline, context: Context) -> Outcome:
    """Solve the model from the bounds in closed form."""
    raise_first_bound(problem, context)
    return _solve_intervals(problem, context)


def _solve_intervals(problem: Pipeline, context: Context) -> Outcome:
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
