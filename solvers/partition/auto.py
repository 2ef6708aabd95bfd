"""`auto` for `partition`: the program over ideals, else cuts of the reference order and the MILP.

1. What runs again is to be chosen: `chain`.
2. Contiguous stages: `ideals`, which begins with `chain`.
3. Any stages, for the largest load: `branch-price` for some rounds, of many classes a part of the time at
   most. It proves few large classes in seconds; of many its linear programs do not converge, and the MILP
   finds better splits.
4. The latency: `serial`, the bound of `latency`, and the MILP of `latency_milp`.
5. Else, or too many ideals: the MILP where it states the problem, from cuts of the reference order.
"""

from __future__ import annotations

from ...formulations.partition.data import partition_data
from ...models.problems.partition import Partition
from ..context import Context, Outcome
from .branch_price import solve_branch_price
from .chain import solve_chain
from .ideals import solve_ideals
from .models import solve_milp
from .serial import solve_serial

FEW, PRICED, ROUNDS = 40, 1 / 3, 500
"""Classes of which `branch-price` gets all the time; of more: its part; and its rounds in any case."""


def solve_auto(problem: Partition, context: Context) -> Outcome:
    """Stop as soon as the optimum is proved."""
    if problem.recompute == "choose":
        return solve_chain(problem, context)
    if problem.objective == "latency":
        outcome = solve_serial(problem, context)
        return outcome if context.closed or outcome.reason == "interrupted" else solve_milp(problem, context)
    if problem.contiguous:
        outcome = solve_ideals(problem, context)
        if context.closed or outcome.infeasible or outcome.reason is not None:
            return outcome
    else:
        part = 1.0 if partition_data(problem).n <= FEW else PRICED
        inner = context.inner(problem, part * context.remaining(), engine_options={})  # they are the MILP's
        inner.log = None
        outcome = solve_branch_price(problem, inner, rounds=ROUNDS)
        if inner.answer is not None:
            context.offer(inner.answer)
        if inner.bound is not None:
            context.raise_bound(inner.bound, kind=inner.bound_kind)
        if context.closed or outcome.infeasible or outcome.reason in ("interrupted", "memory"):
            return outcome
    return solve_milp(problem, context)
