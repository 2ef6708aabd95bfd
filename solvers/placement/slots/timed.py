"""The plan of an order of whole copies."""

from __future__ import annotations

from ....formulations.placement.states import StateData
from ....formulations.placement.whole.sequence import Order, timing
from ....formulations.placement.whole.sequence_plan import plan
from ....models.plan import Plan
from ....models.problems.placement import Placement


def plan_of(problem: Placement, data: StateData, order: Order | None) -> Plan | None:
    """Return the fastest plan of an order, without and with copies beside each other; None if it has none."""
    plans = []
    for beside in (False, True) if data.caps else (False,):
        if order is not None and (times := timing(data, order, beside=beside)) is not None:
            plans.append(plan(data, problem, order, times, beside=beside))
    return min(plans, key=problem.evaluate, default=None)
