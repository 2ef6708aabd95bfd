"""The methods of problems `parallel-memory` and `memory-edges`, in the order in which they are listed."""

from __future__ import annotations

from ..method import PYOMO_SOLVER, Method

_GROWING = (".parallel.growing_kernel",)

_MARCHAL = "Marchal, Nagy, Simon and Vivien, IPDPS 2018"

PARALLEL_METHODS = (
    Method(
        name="auto",
        problem="parallel-memory",
        run=".parallel.models:solve_auto",
        summary="minimum flow; if that leaves a gap, branch, then milp",
        exact=True,
        engine="highs",
    ),
    Method(
        name="flow",
        problem="parallel-memory",
        run=".parallel.flow:solve_flow",
        summary="minimum flow; an upper bound where a tensor has several last accesses",
        source=_MARCHAL,
    ),
    Method(
        name="lp",
        problem="parallel-memory",
        run=".parallel.lp:solve_lp",
        summary="linear program of the maximum topological cut; bounds as flow",
        source=_MARCHAL,
    ),
    Method(
        name="branch",
        problem="parallel-memory",
        run=".parallel.flow:solve_branch",
        summary="branch and bound on flows: exact also for shared tensors and a number of processors",
        exact=True,
    ),
    Method(
        name="milp",
        problem="parallel-memory",
        run=".parallel.models:solve_milp",
        summary="MILP: exact also for shared tensors and a number of processors",
        exact=True,
        source="Bathie, Marchal, Robert and Thibault, 2020 (processors)",
        options=(PYOMO_SOLVER,),
        engine="highs",
    ),
    Method(
        name="auto",
        problem="memory-edges",
        run=".parallel.edges_auto:solve_auto",
        summary="best of the four heuristics, then cpsat",
        exact=True,
        engine="cpsat",
        kernels=_GROWING,
    ),
    Method(
        name="cpsat",
        problem="memory-edges",
        run=".parallel.edges_cpsat:solve_cpsat",
        summary="CP-SAT chooses edges that break conflicts, found as needed: exact for every graph",
        exact=True,
        engine="cpsat",
        kernels=_GROWING,
    ),
    Method(
        name="milp",
        problem="memory-edges",
        run=".parallel.edges_models:solve_milp",
        summary="MILP with the flow that proves the bound inside; exact if no tensor is shared; small graphs",
        exact=True,
        source=_MARCHAL,
        options=(PYOMO_SOLVER,),
        engine="highs",
        kernels=_GROWING,
    ),
    *(
        Method(
            name=name,
            problem="memory-edges",
            run=f".parallel.edges:solve_{name.replace('-', '_')}",
            summary=summary,
            source=_MARCHAL,
            kernels=_GROWING,
        )
        for name, summary in (
            ("min-levels", "edges that make the shortest path through them, against each too large moment"),
            ("respect-order", "edges that agree with an order of small peak; fails only if there is none"),
            ("max-size", "edges between the ops that hold and allocate the most bytes together"),
            ("max-min-size", "edges between the ops that hold and allocate the most bytes each"),
        )
    ),
)
