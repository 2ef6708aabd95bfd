"""The methods of problem `makespan`, in the order in which they are listed."""

from __future__ import annotations

from .method import Method

_START = (("start", "lists (default): from bounds and list schedules; none: from bounds alone"),)

MAKESPAN_METHODS = (
    Method(
        name="auto",
        problem="makespan",
        run=".makespan_auto:solve_auto",
        summary="bounds, list schedules, local search, then CP-SAT with the best schedule as hint",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="cpsat",
        problem="makespan",
        run=".makespan_cpsat:solve_cumulative",
        summary="CP-SAT, intervals: processors and memory cumulative, from bounds and list schedules",
        exact=True,
        options=_START,
        engine="cpsat",
    ),
    Method(
        name="cpsat-reservoir",
        problem="makespan",
        run=".makespan_cpsat:solve_reservoir",
        summary="CP-SAT, the same with the memory as a reservoir",
        exact=True,
        options=_START,
        engine="cpsat",
    ),
    Method(
        name="list",
        problem="makespan",
        run=".makespan_list:solve_list",
        summary="bounds, and list schedules that never get stuck, by several priorities",
        options=(("priority", "critical, fallback, successors, longest, bytes or all (default all)"),),
    ),
    Method(
        name="local-search",
        problem="makespan",
        run=".makespan_auto:solve_local_search",
        summary="annealing over priorities and fallback orders, each decoded by the list scheduler",
        options=(("moves", "without a better schedule, after which it ends (default 10000)"),),
    ),
)
