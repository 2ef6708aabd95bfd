"""What the planner makes of some small questions, to be compared between two ways to run it."""

from __future__ import annotations

from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.planner.method import planned
from lowtide.solvers.placement.planner.setting import PlannerSetting
from tests.problems.placement import machine, random_graph, working_set


def plans_of_small_cases() -> str:
    """Return what the planner makes of some small cases, plans with all that is in them."""
    found = []
    for seed in (2, 6, 11, 12, 15):
        graph = random_graph(seed)
        bench = machine(working_set(graph) + 4, [None, 10][seed % 2], latency=700 * (seed % 3))
        problem = Placement(graph, bench, periodic=True, start={"input": ("gpu", "host", "ssd")})
        found += [
            repr(planned(problem, setting))
            for setting in (PlannerSetting(chunk=3), PlannerSetting(chunk=2, slots=0))
        ]
    return "\n".join(found)
