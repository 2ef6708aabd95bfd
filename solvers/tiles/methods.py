"""The room of problem `tiles`."""

from __future__ import annotations

from ...models.problems.tiles import Tiles
from ..method import BOUND, OPTIMUM, Export, Method, Option
from ..room import Room

_KERNELS = (".tiles.group_kernel",)
_MOST = Option("most", 50_000, "groups of joined ops at most")
_STEPS = Option("steps", 3_000, "changes that are tried")

ROOM = Room(
    problem=Tiles,
    methods=(
        Method(
            "auto",
            ".tiles.auto:solve_auto",
            "local search over sequences of groups, prices of first runs, and the shortest path, in turns",
            proves=OPTIMUM,
            kernels=_KERNELS,
            options=(_MOST, _STEPS),
            engine="highs",
        ),
        Method(
            "exact",
            ".tiles.exact:solve_exact",
            "a bound by prices, then the shortest path over what is in slow and fast memory",
            proves=OPTIMUM,
            kernels=_KERNELS,
            options=(_MOST,),
        ),
        Method(
            "prices",
            ".tiles.prices:solve_prices",
            "a bound alone: linear program over sets of ops that run for the first time in one group",
            proves=BOUND,
            kernels=_KERNELS,
            options=(_MOST,),
        ),
        Method(
            "cpsat",
            ".tiles.models:solve_cpsat",
            "which groups run, none of which keeps a tensor in fast memory",
            proves=OPTIMUM,
            kernels=_KERNELS,
            options=(_MOST,),
            engine="cpsat",
            model=Export(
                "tiles.groups_cpsat", ".tiles.models:stated", scope="answers that keep nothing in fast memory"
            ),
        ),
        Method(
            "local-search",
            ".tiles.local_search:solve_local_search",
            "sequences of ops, each divided into its best groups; ops move, and run again",
            proves=BOUND,
            kernels=_KERNELS,
            options=(_STEPS,),
        ),
        Method(
            "fused-layer",
            ".tiles.local_search:solve_fused_layer",
            "groups of ops that follow each other in the instance, at least latency; nothing is kept "
            "(Alwani et al., MICRO 2016)",
            proves=BOUND,
            kernels=_KERNELS,
        ),
        Method(
            "greedy",
            ".tiles.fusion:solve_greedy",
            "merge the two groups that save most, each group in its best tiles and order",
            proves=BOUND,
            kernels=_KERNELS,
        ),
        Method(
            "single",
            ".tiles.fusion:solve_single",
            "each op in a group of its own, in its best tiles and order",
            proves=BOUND,
            kernels=_KERNELS,
        ),
    ),
    bound=".tiles.bounds:raise_bound",
)
