"""The room of problem `peak`, minimum peak memory."""

from __future__ import annotations

from functools import partial

from ...models.problems.peak import Peak
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option, family
from ..room import Room

PEAK_KERNELS = (".flows.closure_kernel", ".peak.orders.order_kernel", ".peak.search.pass_kernel")

_START = Option(
    "start",
    "reference",
    "reference, or bounds: first what auto takes first, as hint and bound",
    choices=("reference", "bounds"),
)
_PLAIN = Option("plain", False, "1: without the orders of pairs that the known order's peak forces")
_CHAIN_WINDOWS = Option("plain", False, "1: without forced orders, and with OLLA's windows: longest chains")

_OLLA = "Steiner et al., OLLA, 2022 (MODeL, ICML 2023), section 3"

_DATA = "..formulations.peak.data:peak_data"

_search = partial(Method, proves=OPTIMUM, kernels=PEAK_KERNELS)

ROOM = Room(
    problem=Peak,
    methods=(
        _search(
            "auto",
            ".peak.auto:solve_auto",
            "bounds and heuristics first; if they do not meet, exact search with hint and bound",
            late=True,
            engine="cpsat",
        ),
        Method(
            "reference",
            ".peak.orders.reference:solve_reference",
            "the order in which the graph lists its ops",
        ),
        Method(
            "greedy",
            ".peak.orders.greedy:solve_greedy",
            "list scheduling by least memory, ties broken by looking ahead",
        ),
        Method(
            "beam",
            ".peak.search.beam:solve_beam",
            "beam search over executed sets, best peak first",
            proves=BOUND,
            options=(Option("width", 64, "states kept per step"),),
            kernels=PEAK_KERNELS[::2],
        ),
        _search(
            "downsets",
            ".peak.search.rounds:solve_downsets",
            "exhaustive search over executed sets, under limits that close in on the optimum",
        ),
        _search(
            "cpsat",
            ".peak.models:solve",
            "CP-SAT, time-indexed: which op at which step",
            options=(_START, _PLAIN),
            engine="cpsat",
            model=Export("peak.steps_cpsat", _DATA, {"names": True}),
        ),
        _search(
            "cpsat-positions",
            ".peak.models:solve",
            "CP-SAT, positions: permutation and cumulative lifetimes",
            options=(_START, _PLAIN),
            engine="cpsat",
            model=Export("peak.positions_cpsat", _DATA, {"names": True}),
        ),
        _search(
            "milp",
            ".peak.models:solve",
            "MILP of OLLA in Pyomo: create binaries per op, preserve binaries per tensor and step",
            source=_OLLA,
            options=(PYOMO_SOLVER, _START, _PLAIN),
            engine="highs",
            model=Export("peak.olla_milp", _DATA),
        ),
        _search(
            "milp-tensors",
            ".peak.models:solve",
            "MILP of OLLA in Pyomo: create and preserve binaries per tensor, several ops per step",
            source=_OLLA,
            options=(PYOMO_SOLVER, _START, _CHAIN_WINDOWS),
            engine="highs",
            model=Export("peak.olla_tensors_milp", _DATA),
        ),
        _search(
            "milp-steps",
            ".peak.models:solve",
            "MILP in Pyomo, time-indexed by executed sets: a stronger relaxation than OLLA's",
            options=(PYOMO_SOLVER, _START, _PLAIN),
            engine="highs",
            model=Export("peak.steps_milp", _DATA),
        ),
        Method(
            "local-search",
            ".peak.orders.local_search:solve_local_search",
            "annealing by moves of blocks, aimed at where the memory is highest; any size",
            proves=BOUND,
            options=(Option("runs", 100, "after which it ends by itself"),),
            kernels=PEAK_KERNELS[:2],
        ),
        Method(
            "liu",
            ".peak.trees.liu:solve_liu",
            "trees with a datum for each edge: hill and valley segments; optimal",
            proves=OPTIMUM,
            source="Liu, SIAM J. Algebraic Discrete Methods 8 (1987)",
        ),
        Method(
            "minmem",
            ".peak.trees.minmem:solve_minmem",
            "trees with a datum for each edge: explored under a memory that grows; optimal",
            proves=OPTIMUM,
            source="Jacquelin, Marchal, Robert, Uçar, IPDPS 2011",
        ),
        Method(
            "postorder",
            ".peak.trees.postorder:solve_postorder",
            "trees with a datum for each edge: the best order that finishes each subtree it begins",
            source="Liu, ACM Trans. Mathematical Software 12 (1986)",
        ),
        Method(
            "series-parallel",
            ".peak.series_parallel.dominant:solve_series_parallel",
            "series-parallel graphs with a datum for each edge: a dominant order; optimal",
            proves=OPTIMUM,
            source="Kayaaslan, Lambert, Marchal, Uçar, TCS 707 (2018)",
        ),
        Method(
            "sp-ization",
            ".peak.series_parallel.spization:solve_sp_ization",
            "any graph, made series-parallel along good orders; then a walk over such precedences",
            options=(Option("rounds", 100, "divisions of the walk"),),
        ),
        Method(
            "pumpkin",
            ".peak.series_parallel.pumpkin:solve_pumpkin",
            "disjoint paths between a source and a sink, shared outputs: search over positions; optimal",
            proves=OPTIMUM,
        ),
        Method(
            "serenity",
            ".peak.orders.serenity:solve_serenity",
            "dynamic programming over signatures with an adaptive soft budget",
            proves=OPTIMUM,
            source="Ahn et al., SERENITY, MLSys 2020, sections 3.1 and 3.2",
            options=(Option("signatures", 4096, "per level, before the budget is halved"),),
        ),
        *family(
            ".peak.orders.compilers",
            ("inductor", "best of the reference order and the three that inductor compares with it"),
            (
                "inductor-lpmf",
                "least peak memory first: what fits under the highest memory so far, then by increase",
            ),
            ("inductor-dfs", "depth-first, ops with few bytes first"),
            ("inductor-bfs", "breadth-first by the places of the predecessors"),
            source="PyTorch, torch/_inductor/memory.py",
        ),
        *family(
            ".peak.orders.compilers",
            ("xla", "best of list, depth-first and post-order"),
            ("xla-list", "most bytes freed less bytes defined, then most users"),
            ("xla-dfs", "depth-first, operands with many extra users, then many bytes, first"),
            ("xla-post-order", "depth-first, operands as listed; so does TVM's Relay"),
            ("xla-bfs", "first in, first out"),
            source="XLA, hlo_memory_scheduler.cc",
        ),
    ),
    certify=".peak.certify.certify:certify_peak",
    judging=2.5,
    files={".mzn": "..formulations.peak.minizinc:text"},
)
