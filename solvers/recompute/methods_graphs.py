"""The methods of problem `recompute` for general graphs, in the order in which they are listed."""

from __future__ import annotations

from ..method import PYOMO_SOLVER, Method

GRAPH_KERNELS = (".recompute.heuristics.runs_kernel",)

_START = ("start", "lists (default): after heuristics; none: from nothing")
_POINTS = ("points", "linearized (default): checkpoints anywhere; articulation: where one value crosses")
_CHEN = "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016"
_CHECKMATE = "Jain et al., Checkmate, MLSys 2020"

RECOMPUTE_GRAPH_METHODS = (
    Method(
        name="checkmate",
        problem="recompute",
        run=".recompute.models.stages:solve_checkmate",
        summary="MILP in stages, then bounds on the problem by moments",
        exact=True,
        source=f"{_CHECKMATE}, eqs. 1 to 8",
        options=(
            ("stages", "partitioned (default), free (as many as can be needed), or a number of free stages"),
            _START,
            PYOMO_SOLVER,
        ),
        engine="highs",
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="checkmate-rounding",
        problem="recompute",
        run=".recompute.models.stages:solve_rounding",
        summary="its linear relaxation, rounded in two phases for several shares of the memory",
        source=f"{_CHECKMATE}, Algorithm 2",
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="moccasin",
        problem="recompute",
        run=".recompute.models.moccasin:solve_moccasin",
        summary="CP-SAT, retention intervals on the grid of stages, then bounds on the problem by moments",
        exact=True,
        source="Bartan et al., Moccasin, ICML 2023",
        options=(("copies", "most runs of each op (default 3)"), _START),
        engine="cpsat",
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="poet",
        problem="recompute",
        run=".recompute.models.paging:solve_poet",
        summary="MILP in stages that recomputes and pages to slower tiers",
        exact=True,
        source="Patil et al., POET, ICML 2022",
        options=(_START,),
        engine="highs",
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="moments",
        problem="recompute",
        run=".recompute.models.moments:solve_moments",
        summary="only a bound: what must be in memory at the first runs of some ops (MILP)",
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="local-search",
        problem="recompute",
        run=".recompute.heuristics.method:solve_local_search",
        summary="annealing of sequences of runs, from the best of segments and rules of eviction",
        options=(("rounds", "without a faster schedule, after which it ends (default 3)"),),
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="eviction",
        problem="recompute",
        run=".recompute.heuristics.method:solve_heuristics",
        summary="segments, then a search over rules that evict by cost, size and next use",
        source="Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, section 3",
        options=(("moves", "without a better schedule, after which it ends (default 200)"),),
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="chen-greedy",
        problem="recompute",
        run=".recompute.heuristics.method:solve_chen_greedy",
        summary="checkpoints where segments exceed a size; the best size that fits",
        source=f"{_CHEN}, Algorithm 3",
        options=(_POINTS,),
        kernels=GRAPH_KERNELS,
    ),
    Method(
        name="chen-sqrt",
        problem="recompute",
        run=".recompute.heuristics.method:solve_chen_sqrt",
        summary="a checkpoint at every sqrt(n)-th gap of the forward pass",
        source=_CHEN,
        options=(_POINTS,),
        kernels=GRAPH_KERNELS,
    ),
)
