"""What the model of intervals of `placement` is stated of, where it is written for other solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....formulations.placement.states import state_data
from ....formulations.placement.whole import intervals_cpsat
from ....formulations.placement.whole.sequence import longest_stall, rates
from ....models.plan import Plan
from ....models.problems.placement import Placement


def stated(problem: Placement) -> dict[str, Any]:
    """Return the data, the longest time that a plan may take, and the steps of time."""
    data = state_data(problem, modes=True)
    tick = intervals_cpsat.common_tick(data, rates(data, beside=False)[0])
    return {"data": data, "horizon": data.slowest + longest_stall(data), "tick": tick}


def tick(stated: Mapping[str, Any]) -> int:
    """Return the ns of a step."""
    found: int = stated["tick"]
    return found


def plan(problem: Placement, stated: Mapping[str, Any], built: Any, value: Callable[[Any], Any]) -> Plan:
    """Return the plan of a solution."""
    return intervals_cpsat.decode(built, value, problem)
