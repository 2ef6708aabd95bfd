"""Plans of whole tensors for single runs, near a bound: copies share channels (`formulations`: `batches`).

Where no more ns are left than there are copies, it may be rounding alone that is in the way.
"""

from __future__ import annotations

from ....formulations.placement.states import StateData
from ....formulations.placement.whole.batches import batched
from ....formulations.placement.whole.intervals_cpsat import order_for, planned
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ...context import Context
from .event_orders import case_of, line_of, moves_of, times_for

STEPS = 3000
"""Moves of the walk that looks for copies to carry at once."""


def search_batches(problem: Placement, context: Context, data: StateData, plan: Plan) -> None:
    """Let copies of a plan share channels, if it is so near to the bound that this may be all."""
    if context.closed or context.bound is None:
        return
    if problem.evaluate(plan) - context.bound > len(plan.copies):
        return
    case = case_of(data)
    line = line_of(case, data, problem, plan)
    if line is None:
        return
    moves = moves_of(case, data, line, times_for(case))
    order, times = order_for(data, moves)
    chosen = data.chosen(moves.modes)
    order, times = batched(
        chosen,
        order,
        times,
        steps=STEPS,
        least=context.bound - chosen.duration[-1],
        seed=context.seed,
        expired=lambda: context.expired,
    )
    context.offer(planned(data, problem, order, times, moves.modes))
