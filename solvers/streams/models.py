"""The model of stages through CP-SAT: an independent judge of the dynamic program, for few ops."""

from __future__ import annotations

from ...formulations.streams import stages_cpsat
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from ..engines.model import solve_question
from .bounds import raise_first_bound
from .memory import is_too_little


def solve_stages(problem: Streams, context: Context) -> Outcome:
    """Solve the model of stages, from nothing that other methods find."""
    raise_first_bound(problem, context)
    if is_too_little(problem):
        return Outcome(infeasible=True, detail="what is there from first to last is above the memory")
    return solve_question(problem, context, stages_cpsat, "the CP-SAT model of stages")
