"""The room of problem `arena`."""

from __future__ import annotations

from ...models.problems.arena import Arena
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..offsets.methods import OFFSETS_KERNELS
from ..peak.methods import PEAK_KERNELS
from ..room import Room

ORDERS = (
    *("reference", "greedy", "inductor", "inductor-lpmf", "inductor-dfs", "inductor-bfs"),
    *("xla", "xla-list", "xla-dfs", "xla-post-order", "xla-bfs", "auto"),
)
_ALLOCATIONS = ("tflm", "size", "breadth", "usmp-size", "usmp-conflicts", "xla", "run-time", "auto")

ROOM = Room(
    problem=Arena,
    methods=(
        Method(
            "auto",
            ".arena.auto:solve_auto",
            "least peaks as bounds, orders with their addresses, and CP-SAT in turns",
            proves=OPTIMUM,
            late=True,
            engine="cpsat",
            kernels=(*PEAK_KERNELS, *OFFSETS_KERNELS),
        ),
        Method(
            "cpsat",
            ".arena.models:solve_joint",
            "CP-SAT: positions of ops, rectangles of positions and addresses, in one model",
            proves=OPTIMUM,
            engine="cpsat",
            kernels=OFFSETS_KERNELS,
            model=Export("arena.rectangles_cpsat", "..formulations.arena.data:arena_data"),
        ),
        Method(
            "milp",
            ".arena.models:solve_milp",
            "MILP of OLLA in Pyomo, order and addresses in one: for small cases",
            proves=OPTIMUM,
            source="Steiner et al., OLLA, 2022 (MODeL, ICML 2023)",
            options=(PYOMO_SOLVER,),
            engine="highs",
            kernels=OFFSETS_KERNELS,
            model=Export("arena.olla_milp", "..formulations.arena.data:arena_data"),
        ),
        Method(
            "two-step",
            ".arena.two_step:solve_two_step",
            "an order by one published rule, then addresses for it by another",
            proves=BOUND,
            options=(
                Option("order", "reference", "a method of peak", choices=ORDERS),
                Option("allocation", "tflm", "a rule for addresses", choices=_ALLOCATIONS),
            ),
            source="TensorFlow Lite Micro, TVM, XLA, PyTorch",
            kernels=(*PEAK_KERNELS, *OFFSETS_KERNELS),
        ),
    ),
    certify=".arena.certify:certify_height",
    bound=".arena.two_step:raise_cheap_bound",
    judging=16.0,
    shared=("offsets", "peak"),
)
