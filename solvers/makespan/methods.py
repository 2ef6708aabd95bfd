"""The methods of problem `makespan`, in the order in which they are listed."""

from __future__ import annotations

from ..method import PYOMO_SOLVER, Method
from ..peak.methods import PEAK_KERNELS

_LISTS = (
    ".makespan.bounds.chain_kernel",
    ".makespan.lists.list_kernel",
    *PEAK_KERNELS,  # of the fallback order
)
_LABELS = (
    *_LISTS,
    ".makespan.labels.dominance_kernel",
    ".makespan.labels.ideals_kernel",
    ".makespan.labels.label_kernel",
)
_BOOKING = (".makespan.trees.booking_kernel",)
_ALL = (*_LABELS, *_BOOKING, ".makespan.lists.filling_kernel")

_START = (("start", "lists (default): from bounds and list schedules; none: from bounds alone"),)

_TREES = "Eyraud-Dubois, Marchal, Sinnen, Vivien 2015"
_LEAVES = (("leaves", "free (default), or limited: a leaf starts only if it fits or nothing else can go on"),)

MAKESPAN_METHODS = (
    Method(
        name="auto",
        problem="makespan",
        run=".makespan.auto:solve_auto",
        summary="bounds, list schedules, local search, label setting, then CP-SAT with what they find",
        exact=True,
        engine="cpsat",
        kernels=_ALL,
    ),
    Method(
        name="cpsat",
        problem="makespan",
        run=".makespan.models:solve_cumulative",
        summary="CP-SAT, intervals: processors and memory cumulative, from bounds and list schedules",
        exact=True,
        options=_START,
        engine="cpsat",
        kernels=_LISTS,
    ),
    Method(
        name="cpsat-reservoir",
        problem="makespan",
        run=".makespan.models:solve_reservoir",
        summary="CP-SAT, the same with the memory as a reservoir",
        exact=True,
        options=_START,
        engine="cpsat",
        kernels=_LISTS,
    ),
    Method(
        name="milp",
        problem="makespan",
        run=".makespan.milp:solve_milp",
        summary="time-indexed MILP, for few ops and coarse durations: an independent judge",
        exact=True,
        source="Pritsker, Watters 1968; Christofides, Alvarez-Valdes, Tamarit 1987",
        options=(*_START, PYOMO_SOLVER),
        engine="highs",
        kernels=_LISTS,
    ),
    Method(
        name="label-setting",
        problem="makespan",
        run=".makespan.labels.method:solve_labels",
        summary="labels on the sets of started ops, dominance, bounds, beams that widen (up to 62 ops)",
        exact=True,
        kernels=_LABELS,
    ),
    Method(
        name="two-way-labels",
        problem="makespan",
        run=".makespan.trees.two_way_method:solve_two_way",
        summary="trees: labels on reduced trees that grow, forwards and backwards (up to 62 ops)",
        exact=True,
        kernels=_LABELS,
    ),
    Method(
        name="list",
        problem="makespan",
        run=".makespan.lists.method:solve_list",
        summary="bounds, and list schedules that never get stuck, by several priorities",
        options=(("priority", "critical, fallback, successors, longest, bytes or all (default all)"),),
        kernels=_LISTS,
    ),
    Method(
        name="local-search",
        problem="makespan",
        run=".makespan.auto:solve_local_search",
        summary="annealing over priorities and fallback orders, each decoded by the list scheduler",
        options=(("moves", "without a better schedule, after which it ends (default 10000)"),),
        kernels=_ALL,
    ),
    Method(
        name="lns",
        problem="makespan",
        run=".makespan.lists.lns:solve_lns",
        summary="large graphs: list schedules, on trees MemBooking, then windows of time scheduled anew",
        options=(
            (
                "windows",
                "or moves of MemBooking, without a faster schedule, after which it ends (default 200000)",
            ),
        ),
        kernels=(*_LISTS, *_BOOKING),
    ),
    Method(
        name="mem-booking",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_booking",
        summary="trees: nodes activated in a sequential order, each books the memory that it will need",
        source="Aupy, Brasseur, Marchal 2017",
        kernels=_LISTS,
    ),
    Method(
        name="par-subtrees",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_subtrees",
        summary="trees: subtrees side by side, each on one processor, then the rest (may exceed the memory)",
        source=_TREES,
        options=(("parallel", "heaviest (default): as many as processors; all: those left over too"),),
        kernels=_LISTS,
    ),
    Method(
        name="par-inner-first",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_inner_first",
        summary="trees: list schedule, inner nodes before leaves (may exceed the memory)",
        source=_TREES,
        options=_LEAVES,
        kernels=_LISTS,
    ),
    Method(
        name="par-deepest-first",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_deepest_first",
        summary="trees: list schedule, longest chain to the end first (may exceed the memory)",
        source=_TREES,
        options=_LEAVES,
        kernels=_LISTS,
    ),
    Method(
        name="proportional-mapping",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_proportional",
        summary="trees: subtrees share the processors by their work (may exceed the memory)",
        source="Pothen, Sun 1993",
        kernels=_LISTS,
    ),
    Method(
        name="memory-aware-mapping",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_memory_aware",
        summary="trees: the same in batches of subtrees that fit together",
        source="Agullo, Amestoy, Buttari, Guermouche, L'Excellent, Rouet 2016",
        kernels=_LISTS,
    ),
    Method(
        name="all-to-all",
        problem="makespan",
        run=".makespan.trees.methods_of_trees:solve_all_to_all",
        summary="trees: best post-order, each node on all processors (one of them: ops are sequential)",
        source="Liu 1986",
        kernels=_LISTS,
    ),
)
