"""`milp`: stages, degrees and modes in one MILP, for few layers and devices."""

from __future__ import annotations

from typing import Any

from ...formulations.hybrid import stages_milp
from ...models.problems.hybrid import Hybrid
from ..context import Context, Outcome
from ..engines.model import solve_model
from .bounds import raise_bound


def stated(problem: Hybrid) -> dict[str, Any]:
    """Return what the model is built of."""
    return {"problem": problem}


def solve_milp(problem: Hybrid, context: Context) -> Outcome:
    """Solve the model."""
    raise_bound(problem, context)
    return solve_model(
        context,
        stages_milp,
        lambda: stages_milp.build(problem, expired=lambda: context.expired),
        what="the MILP of stages",
        size=stages_milp.size(problem),
        to_objective=int,
        decode=stages_milp.decode,
    )
