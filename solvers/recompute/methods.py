"""The room of problem `recompute`."""

from __future__ import annotations

from functools import partial

from ...models.problems.recompute import Recompute
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..peak.methods import PEAK_KERNELS
from ..room import DEMANDED, Room

CHAIN_KERNELS = (
    ".recompute.chains.disk_revolve",
    ".recompute.chains.h_revolve",
    ".recompute.chains.hetero",
    ".recompute.chains.mixed",
    ".recompute.chains.revolve",
)
GRAPH_KERNELS = (".recompute.heuristics.runs_kernel",)
RECOMPUTE_KERNELS = (*CHAIN_KERNELS, *GRAPH_KERNELS, *PEAK_KERNELS)

_START = Option("start", "lists", "lists: after heuristics; none: from nothing", choices=("lists", "none"))
_STAGES = Option(
    "stages", "partitioned", "partitioned, free (as many as can be needed), or a number of free stages"
)
_POINTS = Option(
    "points",
    "linearized",
    "linearized: checkpoints anywhere; articulation: where one value crosses",
    choices=("linearized", "articulation"),
)
_READS = Option(
    "reads",
    "many",
    "of what the second tier keeps: many, or once as published",
    choices=("once", "many"),
)
_SLOTS = Option("memory-slots", 500, "that are distinguished; sizes are rounded up to them")
_PROGRAMS = Option(
    "programs", "moment", "within blocks: moment, or checkmate", choices=("moment", "checkmate")
)
_model = partial(Export.stated, "recompute", unit="tick")
_CHEN = "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016"
_CHECKMATE = "Jain et al., Checkmate, MLSys 2020"


def _chain(name: str, summary: str, source: str = "", *options: Option) -> Method:
    return Method(
        name,
        f".recompute.chains.methods_of_chains:solve_{name.replace('-', '_')}",
        summary,
        proves=BOUND,
        source=source,
        options=options,
        kernels=CHAIN_KERNELS,
    )


_graph = partial(Method, proves=BOUND, kernels=GRAPH_KERNELS)

ROOM = Room(
    problem=Recompute,
    methods=(
        Method(
            "auto",
            ".recompute.auto:solve_auto",
            "each op once in an order that fits; else chain programs, heuristics, moments, blocks, intervals",
            proves=OPTIMUM,
            kernels=RECOMPUTE_KERNELS,
            late=True,
        ),
        Method(
            "store-all",
            ".recompute.pieces:solve_store_all",
            "each op once, in the reference order, nothing computed again",
            proves=BOUND,
            kernels=(".recompute.chains.hetero", *GRAPH_KERNELS),
        ),
        _chain(
            "recompute-all", "plain chains: nothing kept but x_0, every backward after a sweep of its own"
        ),
        _chain(
            "hybrid", "plain chains: as many equal segments as slots, each computed again for every backward"
        ),
        _chain(
            "sqrt",
            "plain chains: sqrt(n) segments, each computed again once and stored",
            "Chen et al. 2016, section 4",
        ),
        _chain(
            "revolve",
            "plain chains: least forwards for the slots beside the buffers in work",
            "Griewank and Walther, ACM TOMS 26, 2000",
        ),
        _chain(
            "disk-revolve",
            "uniform plain chains: slots in memory, and any number on the second tier",
            "Aupy et al., SIAM J. Sci. Comput. 38, 2016",
            _READS,
        ),
        _chain(
            "periodic-disk-revolve",
            "uniform plain chains: the same with equal distances between what the second tier keeps",
            "after Aupy and Herrmann, Optim. Methods Softw. 32, 2017",
        ),
        _chain(
            "h-revolve",
            "uniform plain chains: slots in any number of tiers with costs of writing and reading",
            "Herrmann and Pallez, ACM TOMS 46, 2020",
        ),
        _chain(
            "mixed",
            "taped chains: slots keep states or what backwards need, of one size",
            "Maddison, J. Comput. Sci. 82, 2024",
        ),
        _chain(
            "hetero-chain",
            "plain and taped chains of any sizes and times: best persistent schedule",
            "Beaumont et al. 2019 (rotor)",
            _SLOTS,
        ),
        _chain(
            "tiered-chain",
            "plain and taped chains of any sizes and times: checkpoints in any number of slower tiers",
            "after Herrmann and Pallez 2020, and Beaumont et al. 2019",
            _SLOTS,
        ),
        Method(
            "rockmate",
            ".recompute.blocks.rockmate:solve_rockmate",
            "programs within the blocks of a chain for several budgets, then rotor's over the blocks",
            proves=BOUND,
            source="Zhao et al., Rockmate, ICML 2023",
            options=(
                Option("save-budgets", 10, "of what a block saves", least=1),
                Option("peak-budgets", 3, "of a block's peak, for each of what it saves", least=1),
                _PROGRAMS,
            ),
            kernels=(".recompute.chains.hetero", *GRAPH_KERNELS),
        ),
        Method(
            "hiremate",
            ".recompute.blocks.hiremate:solve_hiremate",
            "programs over parts of parts of the graph: solutions for several budgets are options above",
            proves=BOUND,
            source="Gusak et al., HiRemate, ICML 2025",
            options=(
                Option("save-budgets", 6, "of what a part saves", least=1),
                Option("peak-budgets", 3, "of a part's peak, for each of what it saves", least=1),
                Option("parts", 8, "of a graph or a part, at most", least=2),
                Option("leaf", 32, "forwards that are not cut further, at most", least=1),
                _PROGRAMS,
            ),
            engine="highs",
            kernels=(".recompute.chains.hetero", *GRAPH_KERNELS),
        ),
        Method(
            "checkmate",
            ".recompute.models.stages:solve_checkmate",
            "MILP in stages, then bounds on the problem by moments",
            proves=OPTIMUM,
            source=f"{_CHECKMATE}, eqs. 1 to 8",
            options=(_STAGES, _START, PYOMO_SOLVER),
            engine="highs",
            kernels=GRAPH_KERNELS,
            model=_model("stages_milp", "stages", "runs", "schedules in partitioned stages"),
        ),
        _graph(
            "checkmate-rounding",
            ".recompute.models.stages:solve_rounding",
            "its linear relaxation, rounded in two phases for several shares of the memory",
            source=f"{_CHECKMATE}, Algorithm 2",
        ),
        Method(
            "moccasin",
            ".recompute.models.moccasin:solve_moccasin",
            "CP-SAT, retention intervals on the grid of stages, then bounds on the problem by moments",
            proves=OPTIMUM,
            source="Bartan et al., Moccasin, ICML 2023",
            options=(Option("copies", 3, "most runs of each op"), _START),
            engine="cpsat",
            kernels=GRAPH_KERNELS,
            model=_model(
                "moccasin_cpsat",
                "retentions",
                "runs",
                "schedules in partitioned stages that run no op more often than option copies says",
            ),
        ),
        Method(
            "poet",
            ".recompute.models.paging:solve_poet",
            "MILP in stages that recomputes and pages to slower tiers",
            proves=OPTIMUM,
            source="Patil et al., POET, ICML 2022",
            options=(_START, PYOMO_SOLVER),
            engine="highs",
            kernels=GRAPH_KERNELS,
            model=_model(
                "stages_milp", "paged_stages", "paged", "schedules in partitioned stages with paging"
            ),
        ),
        _graph(
            "moments",
            ".recompute.models.moments:solve_moments",
            "only a bound: what must be in memory at the first runs of some ops (MILP)",
            options=(PYOMO_SOLVER,),
            model=_model(
                "moments_milp", "moments", "", "relaxed schedules, at the moments of a longest path"
            ),
        ),
        _graph(
            "local-search",
            ".recompute.heuristics.method:solve_local_search",
            "annealing of sequences of runs, from the best of segments and rules of eviction",
            options=(Option("rounds", 3, "without a faster schedule, after which it ends"),),
        ),
        _graph(
            "eviction",
            ".recompute.heuristics.method:solve_heuristics",
            "segments, then a search over rules that evict by cost, size and next use",
            source="Kirisame et al., Dynamic Tensor Rematerialization, ICLR 2021, section 3",
            options=(Option("moves", 200, "without a better schedule, after which it ends"),),
        ),
        _graph(
            "tw-remat",
            ".recompute.heuristics.treewidth:solve_tw_remat",
            "across the separators of a tree decomposition; the best depth that fits",
            source="Kumar et al., Efficient Rematerialization for Deep Networks, NeurIPS 2019",
            options=(
                Option(
                    "decomposition",
                    "both",
                    "min-degree, min-fill, or both: the op that is eliminated next",
                    choices=("both", "min-degree", "min-fill"),
                ),
            ),
        ),
        _graph(
            "chen-greedy",
            ".recompute.heuristics.method:solve_chen_greedy",
            "checkpoints where segments exceed a size; the best size that fits",
            source=f"{_CHEN}, Algorithm 3",
            options=(_POINTS,),
        ),
        _graph(
            "segments",
            ".recompute.heuristics.method:solve_segments",
            "equal segments of the forward pass, each run again whole when its backward begins",
            source="torch.utils.checkpoint (PyTorch), after Chen et al. 2016",
            options=(Option("segments", "best", "best of up to 2 sqrt(n), sqrt, or a number"),),
        ),
        _graph(
            "chen-sqrt",
            ".recompute.heuristics.method:solve_chen_sqrt",
            "a checkpoint at every sqrt(n)-th gap of the forward pass",
            source=_CHEN,
            options=(_POINTS,),
        ),
    ),
    demanded=(".offsets.demanded:search", DEMANDED),
    shared=("offsets", "peak"),
    trade_off=".recompute.trade_off:sweep",
    judging=6.0,
)
