"""`auto` for `placement`: the trivial bound, then the planner until its plan meets it."""

from __future__ import annotations

from ..models.placement import Placement
from .algorithms.placement.planner import solve_planner
from .context import Context, Outcome


def solve_auto(problem: Placement, context: Context) -> Outcome:
    """Offer the planner's plans; stop as soon as the bound is met."""
    return solve_planner(problem, context)
