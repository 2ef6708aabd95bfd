"""The methods of problem `offsets`, offset allocation, in the order in which they are listed."""

from __future__ import annotations

from ..method import Method

_GREEDY = (".offsets.first_come", ".offsets.placing_kernel")
_SQUEEZE = (*_GREEDY, ".offsets.dense_kernel", ".offsets.squeeze_kernel")

OFFSETS_METHODS = (
    Method(
        name="auto",
        problem="offsets",
        run=".offsets.auto:solve_auto",
        summary="greedy first; then branch and bound, local searches and CP-SAT in turns",
        exact=True,
        engine="cpsat",
        kernels=(*_SQUEEZE, ".offsets.search_kernel"),
    ),
    Method(
        name="search",
        problem="offsets",
        run=".offsets.auto:solve_search",
        summary="branch and bound over canonical placements, at rising bounds and falling heights",
        exact=True,
        source="Moffitt, MiniMalloc, ASPLOS 2023",
        kernels=(*_SQUEEZE, ".offsets.search_kernel"),
    ),
    Method(
        name="greedy",
        problem="offsets",
        run=".offsets.greedy:solve_greedy",
        summary="allocators at run time, and seven orders with first fit and best fit",
        source="TFLite, TVM and XLA planners",
        kernels=_GREEDY,
    ),
    Method(
        name="local-search",
        problem="offsets",
        run=".offsets.local_search:solve_local_search",
        summary="greedy orders that blame what ends too high, and guided ejection",
        source="Joslin and Clements, 1999; Nagata and Bräysy, 2009",
        kernels=_SQUEEZE,
    ),
    Method(
        name="cpsat",
        problem="offsets",
        run=".offsets.models:solve_cpsat",
        summary="CP-SAT: rectangles of time and addresses that do not overlap",
        exact=True,
        engine="cpsat",
        kernels=_GREEDY,
    ),
    Method(
        name="cpsat-sections",
        problem="offsets",
        run=".offsets.models:solve_cpsat_sections",
        summary="CP-SAT: in each section of time, addresses that do not overlap",
        exact=True,
        engine="cpsat",
        kernels=_GREEDY,
    ),
    Method(
        name="milp",
        problem="offsets",
        run=".offsets.milp:solve_milp",
        summary="MILP in Pyomo: which of two buffers lies below, for small cases",
        exact=True,
        options=(("solver", "any solver that Pyomo finds (default highs)"),),
        engine="highs",
        kernels=_GREEDY[:1],
    ),
)
