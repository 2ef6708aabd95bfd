"""`auto` for `pipeline`: the published schedules that fit, then CP-SAT from the best, in turns.

The bound in closed form comes first. A rule is for stages that are placed in its way; where they are not, it
refuses, and the others go on (`lowtide.solvers.portfolio`).
"""

from __future__ import annotations

from functools import partial

from ...formulations.model import BuildTimeout
from ...formulations.pipeline import intervals_cpsat
from ...models.errors import UsageError
from ...models.problems.pipeline import Pipeline
from ..context import Context, Outcome
from ..parts import Part
from ..portfolio import run
from .exact import solve_intervals
from .rules import RULES, offer_rule, raise_first_bound

TERMS_PER_SECOND = 50_000
"""Of the model: built, presolved and searched once."""


def solve_auto(problem: Pipeline, context: Context) -> Outcome:
    """Offer the schedules of all rules that fit, and prove the best one, or find a better one."""
    raise_first_bound(problem, context)
    return run(PARTS, problem, context)


def _by_rule(rule: str, problem: Pipeline, context: Context) -> Outcome:
    try:
        return offer_rule(problem, context, rule)
    except BuildTimeout:
        return Outcome(reason="time")
    except UsageError as error:  # the stages are placed in another way
        return Outcome(refused=str(error))


def _intervals(problem: Pipeline, context: Context) -> Outcome:
    try:
        return solve_intervals(problem, context)
    except UsageError as error:  # its numbers are too large for the model, not for the schedules
        return Outcome(refused=str(error))


PARTS = (
    *(Part(name=rule, run=partial(_by_rule, rule)) for rule in RULES),
    Part(
        name="cpsat",
        run=_intervals,
        seconds=lambda problem: intervals_cpsat.size(problem).terms / TERMS_PER_SECOND,
        pauses=False,
    ),
)
