"""`cpsat` for `placement`: the interval model through CP-SAT, for tiny graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....formulations.placement.data import placement_data
from ....formulations.placement.intervals_cpsat import WHAT, build, common_tick, decode
from ....formulations.placement.slots_lp import window_bound
from ....formulations.placement.whole import apart, check, longest_stall
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...engines.cpsat import solve_cpsat


def solve_intervals(problem: Placement, context: Context) -> Outcome:
    """Find the fastest plan with whole tensors and one copy at a time in each direction.

    The bound is that of all plans; what CP-SAT proves about its own ones is in the detail of the result.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:skipchain?n=4,machine=v100-16g-pcie3,device=400MB,start=gpu,whole=1"
    >>> problem = load_problem("placement", spec)
    >>> lt.solve(problem, "cpsat", threads=1).verification.valid
    True
    """
    data = placement_data(problem)
    check(data, WHAT)
    context.raise_bound(data.ideal, kind="sum of durations")
    context.raise_bound(window_bound(data, expired=lambda: context.expired), kind="single ops")
    own = apart(data)
    tick = context.options.get("tick") or common_tick(own)
    built = build(own, problem, data.ideal + longest_stall(own), tick)
    known = context.bound or data.ideal

    def plan(value: Callable[[Any], int]) -> Any:
        return decode(built, value, problem)

    outcome = solve_cpsat(
        built.model,
        context,
        decode=plan,
        to_objective=lambda ticks: min(ticks * tick, known),
        defaults={"search_branching": "FIXED_SEARCH"} if context.threads == 1 else None,
    )
    scope = (
        f"{outcome.detail}, among plans of whole tensors in steps of {tick} ns, one copy at a time each way"
    )
    return replace(outcome, infeasible=False, detail=scope)
