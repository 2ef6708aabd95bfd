"""The room of problem `sharding`."""

from __future__ import annotations

from ...models.problems.sharding import Sharding
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..room import Room

_KERNELS = (".sharding.message_kernel",)
_ALL_KERNELS = (*_KERNELS, ".sharding.beam_kernel")

ROOM = Room(
    problem=Sharding,
    methods=(
        Method(
            "auto",
            ".sharding.auto:solve_auto",
            "prices of usage and messages between groups, beams that these guide, and the MILP",
            proves=OPTIMUM,
            kernels=_ALL_KERNELS,
            engine="highs",
        ),
        Method(
            "milp",
            ".sharding.models:solve_milp",
            "MILP in Pyomo: a binary of each strategy, a share of each pair",
            proves=OPTIMUM,
            options=(PYOMO_SOLVER,),
            kernels=_KERNELS,
            engine="highs",
            model=Export("sharding.local_milp"),
        ),
        Method(
            "lp-bound",
            ".sharding.models:solve_lp_bound",
            "the linear program of the same model",
            proves=BOUND,
            options=(PYOMO_SOLVER,),
            kernels=_KERNELS,
            engine="highs",
            model=Export("sharding.local_lp", scope="shares of strategies"),
        ),
        Method(
            "beam",
            ".sharding.beams:solve_beams",
            "beams over all groups and over some of them, guided by prices and messages",
            options=(Option("rounds", 2**31, "beams over all groups, each with moves after it"),),
            kernels=_ALL_KERNELS,
        ),
        Method(
            "prices",
            ".sharding.ascent:solve_prices",
            "a bound by prices of usage and messages between groups; answers are read off them",
            proves=BOUND,
            options=(Option("rounds", 2000, "steps of the prices"),),
            kernels=_KERNELS,
        ),
    ),
    bound=".sharding.bounds:raise_bound",
)
