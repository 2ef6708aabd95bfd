"""The room of problem `makespan`."""

from __future__ import annotations

from functools import partial

from ...models.problems.makespan import Makespan
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..peak.methods import PEAK_KERNELS
from ..room import Room

LISTS = (
    ".makespan.bounds.chain_kernel",
    ".makespan.lists.list_kernel",
    *PEAK_KERNELS,  # of the fallback order
)
_LABELS = (
    *LISTS,
    ".makespan.labels.dominance_kernel",
    ".makespan.labels.ideals_kernel",
    ".makespan.labels.label_kernel",
)
_BOOKING = (".makespan.trees.booking_kernel",)
_WINDOWS = (*LISTS, ".makespan.lists.window_kernel")
ALL = (*_LABELS, *_BOOKING, ".makespan.lists.window_kernel", ".makespan.lists.filling_kernel")

_START = Option(
    "start",
    "lists",
    "lists: from bounds and list schedules; none: from bounds alone",
    choices=("lists", "none"),
)
_PRIORITY = Option(
    "priority",
    "all",
    "critical, fallback, successors, longest, bytes or all",
    choices=("critical", "fallback", "successors", "longest", "bytes", "all"),
)
_SUBTREES = Option(
    "parallel",
    "heaviest",
    "heaviest: as many as processors; all: those left over too",
    choices=("heaviest", "all"),
)
_LEAVES = Option(
    "leaves",
    "free",
    "free, or limited: a leaf starts only if it fits or nothing else can go on",
    choices=("free", "limited"),
)


def _tree(name: str, function: str, summary: str, source: str, *options: Option) -> Method:
    return Method(
        name,
        f".makespan.trees.methods_of_trees:{function}",
        f"trees: {summary}",
        proves=BOUND,
        source=source,
        options=options,
        kernels=LISTS,
    )


_EYRAUD = "Eyraud-Dubois, Marchal, Sinnen, Vivien 2015"

_DATA = ".makespan.stated:stated"
_ROWS = ".makespan.stated:unhurried"

_model = partial(Method, proves=OPTIMUM, kernels=LISTS)

ROOM = Room(
    problem=Makespan,
    methods=(
        Method(
            "auto",
            ".makespan.auto:solve_auto",
            "list schedules and bounds, then searches, labels, bounds by heavy ops and CP-SAT in turns",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=ALL,
        ),
        _model(
            "cpsat",
            ".makespan.models:solve_cpsat",
            "CP-SAT, intervals: processors and memory cumulative, from bounds and list schedules",
            options=(_START,),
            engine="cpsat",
            model=Export("makespan.intervals_cpsat", _DATA, unit="tick", for_rows=_ROWS),
        ),
        _model(
            "cpsat-reservoir",
            ".makespan.models:solve_cpsat",
            "CP-SAT, the same with the memory as a reservoir",
            options=(_START,),
            engine="cpsat",
            model=Export(
                "makespan.intervals_cpsat", _DATA, {"form": "reservoir"}, unit="tick", for_rows=_ROWS
            ),
        ),
        _model(
            "milp",
            ".makespan.models:solve_milp",
            "time-indexed MILP, for few ops and coarse durations: an independent judge",
            source="Pritsker, Watters 1968; Christofides, Alvarez-Valdes, Tamarit 1987",
            options=(_START, PYOMO_SOLVER),
            engine="highs",
            model=Export("makespan.ticks_milp", _DATA, unit="tick", for_rows=_ROWS),
        ),
        Method(
            "label-setting",
            ".makespan.labels.method:solve_labels",
            "labels on the sets of started ops, dominance, bounds, beams that widen (up to 62 ops)",
            proves=OPTIMUM,
            kernels=_LABELS,
        ),
        Method(
            "two-way-labels",
            ".makespan.trees.two_way_method:solve_two_way",
            "trees: labels on reduced trees that grow, forwards and backwards (up to 62 ops)",
            proves=OPTIMUM,
            kernels=_LABELS,
        ),
        Method(
            "list",
            ".makespan.lists.method:solve_list",
            "bounds, and list schedules that never get stuck, by several priorities",
            proves=BOUND,
            options=(_PRIORITY,),
            kernels=LISTS,
        ),
        Method(
            "local-search",
            ".makespan.lists.local_search:solve_local_search",
            "annealing over priorities and fallback orders, each decoded by the list scheduler",
            proves=BOUND,
            options=(Option("moves", 10_000, "without a better schedule, after which it ends"),),
            kernels=LISTS,
        ),
        Method(
            "lns",
            ".makespan.lists.lns:solve_lns",
            "large graphs: list schedules, on trees MemBooking, then windows of time scheduled anew",
            proves=BOUND,
            options=(
                Option(
                    "windows",
                    200_000,
                    "or moves of MemBooking, without a faster schedule, after which it ends",
                ),
            ),
            kernels=(*_WINDOWS, *_BOOKING),
        ),
        _tree(
            "mem-booking",
            "solve_booking",
            "nodes activated in a sequential order, each books the memory that it will need",
            "Aupy, Brasseur, Marchal 2017",
        ),
        _tree(
            "par-subtrees",
            "solve_subtrees",
            "subtrees side by side, each on one processor, then the rest (may exceed the memory)",
            _EYRAUD,
            _SUBTREES,
        ),
        _tree(
            "par-inner-first",
            "solve_list",
            "list schedule, inner nodes before leaves (may exceed the memory)",
            _EYRAUD,
            _LEAVES,
        ),
        _tree(
            "par-deepest-first",
            "solve_list",
            "list schedule, longest chain to the end first (may exceed the memory)",
            _EYRAUD,
            _LEAVES,
        ),
        _tree(
            "proportional-mapping",
            "solve_mapping",
            "subtrees share the processors by their work (may exceed the memory)",
            "Pothen, Sun 1993",
        ),
        _tree(
            "memory-aware-mapping",
            "solve_memory_aware",
            "the same in batches of subtrees that fit together",
            "Agullo, Amestoy, Buttari, Guermouche, L'Excellent, Rouet 2016",
        ),
        _tree(
            "all-to-all",
            "solve_mapping",
            "best post-order, each node on all processors (one of them: ops are sequential)",
            "Liu 1986",
        ),
    ),
    trade_off=".makespan.trade_off:sweep",
    largest=True,
    judging=2.0,
    shared=("peak",),
    files={
        ".mzn": "..formulations.makespan.minizinc:text",
        ".sm": "..formulations.makespan.psplib:text",
        ".mm": "..formulations.makespan.psplib:text_of_modes",
    },
)
