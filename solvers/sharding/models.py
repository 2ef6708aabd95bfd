"""Methods of `sharding` that solve a model: `milp` and `lp-bound`, over the local polytope.

Both begin with some rounds of `descent`: what alone costs more than its answer is left out of the model.
"""

from __future__ import annotations

from typing import Any

from ...formulations.sharding import local_lp, local_milp
from ...formulations.sharding.data import sharding_data
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from ..engines.model import solve_question
from .bounds import hopeless, raise_bound
from .descent import Descent

FEWER = 0.5
"""Share of the known cost from which on the model is built again: smaller numbers round off less."""

BEFORE = 30
"""Rounds of the descent before a model: a second on a thousand nodes."""


def solve_milp(problem: Sharding, context: Context) -> Outcome:
    """Solve the model with binaries."""
    return _solve(problem, context, local_milp)


def solve_lp_bound(problem: Sharding, context: Context) -> Outcome:
    """Solve the linear program."""
    return _solve(problem, context, local_lp)


def _solve(problem: Sharding, context: Context, formulation: Any) -> Outcome:
    data = sharding_data(problem)
    if (ended := hopeless(data)) is not None:
        return ended
    raise_bound(problem, context)
    if context.incumbent is None:
        Descent(data, context).run(BEFORE)
    if context.closed:
        return Outcome()
    context.careful = True  # rows hold within a solver's tolerances
    while True:
        before = context.incumbent
        outcome = solve_question(
            problem, context, formulation, "the model of the local polytope", most=before
        )
        better = before is None or (context.incumbent is not None and context.incumbent < FEWER * before)
        if outcome.reason or outcome.infeasible or context.closed or not better or context.expired:
            return outcome
