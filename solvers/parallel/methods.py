"""The rooms of problems `parallel-memory` and `memory-edges`."""

from __future__ import annotations

from ...models.problems.memory_edges import MemoryEdges
from ...models.problems.parallel_memory import ParallelMemory
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, family
from ..peak.methods import PEAK_KERNELS
from ..room import Room

GROWING = (".parallel.growing_kernel",)
"""Of edges that are added one by one."""

EDGE_KERNELS = (*GROWING, *PEAK_KERNELS)
"""Of these, and of orders within the memory."""

_MARCHAL = "Marchal, Nagy, Simon and Vivien, IPDPS 2018"

ROOM = Room(
    problem=ParallelMemory,
    methods=(
        Method(
            "auto",
            ".parallel.models:solve_auto",
            "minimum flow; if that leaves a gap, branch and milp in turns",
            proves=OPTIMUM,
            options=(PYOMO_SOLVER,),
            engine="highs",
        ),
        Method(
            "flow",
            ".parallel.flow:solve_flow",
            "minimum flow; an upper bound where a tensor has several last accesses",
            proves=BOUND,
            source=_MARCHAL,
        ),
        Method(
            "lp",
            ".parallel.lp:solve_lp",
            "linear program of the maximum topological cut; bounds as flow",
            proves=BOUND,
            source=_MARCHAL,
            model=Export(
                "parallel.cut_lp",
                ".parallel.stated:cuts",
                scope="moments of a relaxation where tensors are shared or processors are few",
                decode=".parallel.stated:moment_of",
            ),
        ),
        Method(
            "branch",
            ".parallel.flow:solve_branch",
            "branch and bound on flows: exact also for shared tensors and a number of processors",
            proves=OPTIMUM,
        ),
        Method(
            "milp",
            ".parallel.models:solve_milp",
            "MILP: exact also for shared tensors and a number of processors",
            proves=OPTIMUM,
            source="Bathie, Marchal, Robert and Thibault, 2020 (processors)",
            options=(PYOMO_SOLVER,),
            engine="highs",
            model=Export("parallel.cut_milp", ".parallel.stated:moments"),
        ),
    ),
    certify=".parallel.certify:certify_memory",
    judging=3.5,
)

EDGES = Room(
    problem=MemoryEdges,
    trivial=".parallel.trivial:one_at_a_time",
    methods=(
        Method(
            "auto",
            ".parallel.edges_auto:solve_auto",
            "the four heuristics and cpsat in turns",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=EDGE_KERNELS,
            late=True,
        ),
        Method(
            "cpsat",
            ".parallel.edges_cpsat:solve_cpsat",
            "CP-SAT chooses edges that break conflicts, found as needed: exact for every graph",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=EDGE_KERNELS,
            late=True,
            model=Export(
                "parallel.edges_cpsat",
                ".parallel.stated:conflicts",
                unit="tick",
                scope="edges that break the conflicts that are found in a minute",
                decode=".parallel.stated:edges_without_conflict",
            ),
        ),
        Method(
            "milp",
            ".parallel.edges_models:solve_milp",
            "MILP with the flow that proves the bound inside; exact if no tensor is shared; small graphs",
            proves=OPTIMUM,
            source=_MARCHAL,
            options=(PYOMO_SOLVER,),
            engine="highs",
            kernels=EDGE_KERNELS,
            late=True,
            model=Export(
                "parallel.edges_milp",
                ".parallel.stated:edges",
                unit="",
                scope="edges that one flow certifies",
                decode=".parallel.edges_models:edges_of",
            ),
        ),
        *family(
            ".parallel.edges:solve_by_rule",
            ("min-levels", "edges that make the shortest path through them, against each too large moment"),
            ("respect-order", "edges that agree with an order of small peak; fails only if there is none"),
            ("max-size", "edges between the ops that hold and allocate the most bytes together"),
            ("max-min-size", "edges between the ops that hold and allocate the most bytes each"),
            proves=BOUND,
            source=_MARCHAL,
            kernels=EDGE_KERNELS,
            late=True,
        ),
    ),
    certify=".parallel.certify:certify_edges",
    complete=".parallel.edges:with_flow",
    judging=6.0,
    shared=("peak",),  # its orders
)
