"""`cpsat` for `placement`: the interval model through CP-SAT, for tiny graphs."""

from __future__ import annotations

from dataclasses import replace

from ....formulations.placement import intervals_cpsat
from ....formulations.placement.data import placement_data
from ....formulations.placement.intervals_cpsat import WHAT, common_tick
from ....formulations.placement.single_ops import window_bound
from ....formulations.placement.states import state_data
from ....formulations.placement.whole import apart, check, longest_stall
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...engines.model import solve_model


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
    context.raise_bound(window_bound(state_data(problem), expired=lambda: context.expired), kind="single ops")
    own = apart(data)
    tick = context.options.get("tick") or common_tick(own)
    known = context.bound or data.ideal
    outcome = solve_model(
        context,
        intervals_cpsat,
        lambda: intervals_cpsat.build(own, problem, data.ideal + longest_stall(own), tick),
        what=WHAT,
        size=None,
        decode=lambda built, value: intervals_cpsat.decode(built, value, problem),
        to_objective=lambda ticks: min(ticks * tick, known),
        settings=({"search_branching": "FIXED_SEARCH"} if context.threads == 1 else {},),
    )
    scope = (
        f"{outcome.detail}, among plans of whole tensors in steps of {tick} ns, one copy at a time each way"
    )
    return replace(outcome, infeasible=False, detail=scope)
