"""`milp`: stages, degrees and modes in one MILP, for few layers and devices."""

from __future__ import annotations

from ...formulations.hybrid import stages_milp
from ...models.problems.hybrid import Hybrid
from ..context import Context, Outcome
from ..engines.model import solve_question
from .bounds import raise_bound


def solve_milp(problem: Hybrid, context: Context) -> Outcome:
    """Solve the model."""
    raise_bound(problem, context)
    return solve_question(problem, context, stages_milp, "the MILP of stages")
