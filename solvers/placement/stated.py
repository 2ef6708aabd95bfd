"""What the model of intervals of `placement` is stated of, where it is written for other solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...formulations.placement import intervals_cpsat
from ...formulations.placement.data import placement_data
from ...formulations.placement.intervals_cpsat import WHAT, common_tick
from ...formulations.placement.whole import apart, check, longest_stall
from ...models.plan import Plan
from ...models.problems.placement import Placement


def stated(problem: Placement) -> dict[str, Any]:
    """Return the data, the longest time that a plan may take, and the steps of time."""
    data = placement_data(problem)
    check(data, WHAT)
    own = apart(data)
    horizon = data.ideal + longest_stall(own)
    return {"data": own, "problem": problem, "horizon": horizon, "tick": common_tick(own)}


def tick(stated: Mapping[str, Any]) -> int:
    """Return the ns of a step."""
    found: int = stated["tick"]
    return found


def plan(problem: Placement, stated: Mapping[str, Any], built: Any, value: Callable[[Any], Any]) -> Plan:
    """Return the plan of a solution."""
    return intervals_cpsat.decode(built, value, problem)
