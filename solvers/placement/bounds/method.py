"""`lp-bound`: the bounds of `prices`, behind a plan of the planner, to end where one meets that plan."""

from __future__ import annotations

from ....models.plan import Plan
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...registry import unserved
from ..planner.method import first_plan
from ..reductions.replicas.together import for_replicas
from .prices import raise_by_prices, raise_first_bounds


@for_replicas
def solve_price_bound(problem: Placement, context: Context) -> Outcome:
    """Raise the bound; make a plan first if there is none, to know when to stop."""
    raise_first_bounds(problem, context)
    context.careful = True
    if context.answer is None and not unserved(problem, "planner"):
        plan = first_plan(problem, context)
        if isinstance(plan, Plan):
            context.offer(plan)
    return raise_by_prices(problem, context)
