"""`auto` for `partition`: the program over ideals, else cuts of the reference order and the MILP.

1. What runs again is to be chosen: `chain`.
2. Contiguous stages: `ideals`, which begins with `chain`.
3. Any stages, or too many ideals: the MILP where it states the problem, from cuts of the reference order.
"""

from __future__ import annotations

from ...models.problems.partition import Partition
from ..context import Context, Outcome
from .chain import solve_chain
from .ideals import solve_ideals
from .models import solve_milp


def solve_auto(problem: Partition, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    if problem.recompute == "choose":
        return solve_chain(problem, context)
    if problem.contiguous:
        outcome = solve_ideals(problem, context)
        if context.closed or outcome.infeasible or outcome.reason is not None:
            return outcome
    return solve_milp(problem, context)
