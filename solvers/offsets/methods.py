"""The room of problem `offsets`, offset allocation."""

from __future__ import annotations

from functools import partial

from ...models.problems.offsets import Offsets
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..room import Room

_GREEDY = (".offsets.first_come", ".offsets.placing_kernel")
_SQUEEZE = (*_GREEDY, ".offsets.dense_kernel", ".offsets.squeeze_kernel")
OFFSETS_KERNELS = (*_SQUEEZE, ".offsets.search_kernel")

_DATA = ".offsets.stated:stated"
_ROWS = ".offsets.stated:unordered"
_ANSWER = ".offsets.stated:answer"

_model = partial(Method, proves=OPTIMUM, kernels=_GREEDY[:1])

ROOM = Room(
    problem=Offsets,
    methods=(
        Method(
            "auto",
            ".offsets.auto:solve_auto",
            "branch and bound, greedy placements, local search and CP-SAT in turns",
            proves=OPTIMUM,
            late=True,
            engine="cpsat",
            kernels=OFFSETS_KERNELS,
            freedoms=("banks",),
        ),
        Method(
            "search",
            ".offsets.auto:solve_search",
            "branch and bound over canonical placements, at rising bounds and falling heights",
            proves=OPTIMUM,
            source="Moffitt, MiniMalloc, ASPLOS 2023",
            kernels=OFFSETS_KERNELS,
        ),
        Method(
            "greedy",
            ".offsets.greedy:solve_greedy",
            "allocators at run time, and seven orders with first fit and best fit",
            proves=BOUND,
            source="TFLite, TVM and XLA planners",
            kernels=_GREEDY,
        ),
        Method(
            "smartpool",
            ".offsets.smart_pool:solve_smartpool",
            "by falling size into the tightest hole; what crosses an iteration's end has its region twice",
            proves=BOUND,
            source="Zhang et al., SmartPool and AutoSwap, 2019",
            options=(Option("fit", "best", "tightest or lowest hole", choices=("best", "first")),),
            kernels=_GREEDY,
        ),
        Method(
            "local-search",
            ".offsets.local_search:solve_local_search",
            "greedy orders that blame what ends too high, and guided ejection",
            proves=BOUND,
            source="Joslin and Clements, 1999; Nagata and Bräysy, 2009",
            kernels=_SQUEEZE,
        ),
        _model(
            "cpsat",
            ".offsets.models:solve_cpsat",
            "CP-SAT: rectangles of time and addresses that do not overlap",
            engine="cpsat",
            model=Export("offsets.rectangles_cpsat", _DATA, {"names": True}, for_rows=_ROWS, decode=_ANSWER),
        ),
        _model(
            "cpsat-sections",
            ".offsets.models:solve_cpsat",
            "CP-SAT: in each section of time, addresses that do not overlap",
            engine="cpsat",
            model=Export("offsets.sections_cpsat", _DATA, {"names": True}, for_rows=_ROWS, decode=_ANSWER),
        ),
        _model(
            "milp",
            ".offsets.models:solve_milp",
            "MILP in Pyomo: which of two buffers lies below, for small cases",
            options=(PYOMO_SOLVER,),
            engine="highs",
            model=Export("offsets.orders_milp", _DATA, for_rows=_ROWS, decode=_ANSWER),
        ),
    ),
    parts=True,
    judging=12.0,
    files={".mzn": "..formulations.offsets.minizinc:text"},
)
