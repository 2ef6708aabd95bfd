"""The room of problem `placement`, tensor placement."""

from __future__ import annotations

from functools import partial

from ...models.problems.placement import Placement
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option
from ..recompute.methods import RECOMPUTE_KERNELS
from ..room import DEMANDED, Room
from .policies.methods import POLICIES, SIMULATOR

_PLANNER = (".placement.planner.planner_kernel", ".placement.reductions.latencies_kernel")
_AUTOTM = (".placement.autotm.autotm_kernel",)
_IN_PLACE = tuple(f".placement.in_place.{x}_kernel" for x in ("paths", "gaps", "plan", "moves"))
_ADDRESSES = (".offsets.first_come", ".offsets.placing_kernel")
_LINES = (".placement.whole.event_moves_kernel", ".placement.whole.event_orders_kernel")
_CHAINS = (".recompute.chains.hetero",)
_EVERY = (*_PLANNER, *SIMULATOR, *_LINES, *_AUTOTM, *_IN_PLACE, *_ADDRESSES, *RECOMPUTE_KERNELS)
_FREE = ("order=free",)
_model = partial(Export.stated, "placement")


def _autotm(form: str, stated: str, summary: str, *options: Option) -> Method:
    return Method(
        f"autotm-{form}",
        f".placement.autotm.method:solve_{form}",
        f"model of AutoTM: {summary}",
        proves=BOUND,
        source="Hildebrand et al., AutoTM, ASPLOS 2020, and its artifact",
        options=(
            *options,
            Option("rounds", 20, "searches for prices and plans, at most, before the MILP", least=0),
            Option("gap", 0.0, "percent above the form's bound at which a plan is good enough", least=0),
            Option(
                "addresses",
                "none",
                "how plans get addresses; rooms become tighter until they have some: none, first-fit, greedy",
                choices=("none", "first-fit", "greedy"),
            ),
            PYOMO_SOLVER,
        ),
        engine="highs",
        kernels=(*_AUTOTM, *_ADDRESSES),
        model=_model("autotm.walks_milp", stated, "plan_of_walks", "plans of AutoTM's form"),
    )


ROOM = Room(
    problem=Placement,
    trivial=".placement.trivial:keep_all",
    declared=".placement.parts:DECLARED",
    traits=".placement.traits:traits",
    methods=(
        Method(
            "auto",
            ".placement.auto:solve_auto",
            "bounds, the planner, then slot models and searches, until a plan meets a bound",
            proves=OPTIMUM,
            kernels=_EVERY,
            freedoms=(*_FREE, "recompute"),
        ),
        Method(
            "orders",
            ".placement.auto:solve_orders",
            "branch and bound over orders of the ops; each is solved as if it were fixed; few ops",
            proves=OPTIMUM,
            kernels=_EVERY,
            freedoms=_FREE,
        ),
        Method(
            "planner",
            ".placement.planner.method:solve_planner",
            "event-driven: copies ahead of a forecast deficit, run to its periodic state",
            proves=BOUND,
            source="after G10, MICRO 2023, and SwapAdvisor, ASPLOS 2020",
            kernels=_PLANNER,
        ),
        Method(
            "lp-bound",
            ".placement.bounds.method:solve_price_bound",
            "bounds by windows in closed form and by prices from linear programs over sample instants",
            proves=BOUND,
            kernels=_PLANNER,
            model=_model("bounds.samples_lp", "samples", "", "relaxed states at sample instants"),
        ),
        Method(
            "local-search",
            ".placement.policies.local_search:solve_local_search",
            "annealing over decisions on the simulator, from the best policy",
            proves=BOUND,
            options=(
                Option("runs", 20_000, "simulations after which it ends by itself"),
                Option("chunk", int, "largest copy in MiB (default: a 256th of the device, at least 8)"),
            ),
            kernels=SIMULATOR,
        ),
        *POLICIES,
        Method(
            "pofo",
            ".placement.pofo.method:solve_pofo",
            "plain and taped chains with --recompute: values are kept, offloaded beside ops or made again",
            proves=BOUND,
            source="Beaumont, Eyraud-Dubois and Shilova, NeurIPS 2021",
            options=(Option("memory-slots", 200, "that are distinguished; sizes are rounded up to them"),),
            kernels=_CHAINS,
            freedoms=(*_FREE, "recompute"),
        ),
        Method(
            "serial",
            ".placement.serial.search:solve_serial",
            "any plan of whole tensors, one op or copy after the other: depth-first search",
            proves=BOUND,
            source="furthest next use first: Belady, 1966",
        ),
        Method(
            "slot-lp",
            ".placement.slots.bytes:solve_slots",
            "in bytes, any tiers, single runs and periods: linear programs over pieces of time, plans and "
            "bounds that converge",
            proves=OPTIMUM,
            model=_model(
                "slots.bytes_lp",
                "bytes_in_rounds",
                "plan_of_rounds",
                "plans of eight rounds in each piece of time, or a bound of whole tensors",
            ),
        ),
        Method(
            "slot-milp",
            ".placement.slots.whole:solve_slot_milp",
            "whole tensors, any tiers, single runs and periods: MILPs over pieces of time that get finer",
            proves=BOUND,
            engine="highs",
            kernels=SIMULATOR,
            model=_model(
                "slots.whole_milp",
                "whole_tensors",
                "plan_of_whole",
                "a relaxation by pieces of time, one for each run and stall",
            ),
            options=(PYOMO_SOLVER,),
        ),
        Method(
            "cpsat",
            ".placement.whole.intervals:solve_intervals",
            "any tiers, single runs and periods: windows for a bound, intervals for plans of whole "
            "tensors, and whole bytes near a solution of the slot model",
            proves=BOUND,
            options=(
                Option(
                    "tick", int, "ns between the times at which things may start (default: loses nothing)"
                ),
            ),
            engine="cpsat",
            kernels=(*SIMULATOR, *_LINES),
            model=_model(
                "whole.intervals_cpsat",
                "intervals",
                "plan_of_intervals",
                "plans of whole tensors in steps of time, one copy at a time each way",
                unit="tick",
            ),
        ),
        Method(
            "tmof",
            ".placement.tmof.method:solve_tmof",
            "one GPU or several, any outer tiers, single runs and periods: MILP of whole tensors that leave "
            "and return in parts beside the ops between",
            proves=BOUND,
            options=(
                Option(
                    "share",
                    "joint",
                    "how GPUs share a host link: joint, disjoint, bidirectional, both, oblivious",
                    choices=("joint", "disjoint", "bidirectional", "both", "oblivious"),
                ),
                PYOMO_SOLVER,
            ),
            source="Lin et al., TMOF, HPCA 2023, as inferred",
            engine="highs",
            model=_model("tmof.swaps_milp", "swaps", "plan_of_tmof", "plans of TMOF's form"),
        ),
        Method(
            "in-place",
            ".placement.in_place.method:solve_in_place",
            "where ops use a second tier in place: prices of memory and channels, a bound of all plans, "
            "and paths of whole tensors near them, annealed",
            proves=BOUND,
            source="column generation: Dantzig and Wolfe, 1960; ascent: Kingma and Ba, 2015",
            kernels=_IN_PLACE,
        ),
        _autotm(
            "static", "static", "tensors stay where they are made, ops read and write slow memory in place"
        ),
        _autotm("sync", "sync", "they also move before and behind ops that use them, while nothing runs"),
        _autotm(
            "async",
            "beside",
            "they also move beside other ops, each move within one of them",
            Option("window", 15, "ops between a move and the nearest op that uses the tensor, at most"),
            Option(
                "read-beside",
                str,
                "bytes per second of moves to fast memory beside ops (default: the channel's)",
            ),
            Option("write-beside", str, "the same for moves to slow memory"),
        ),
    ),
    bound=".placement.bounds.cheap:raise_cheap_bounds",
    demanded=(".placement.reductions.demands:solve_demanding", DEMANDED),
    largest=True,
    ideal="..formulations.placement.bounds.releases:ideal_time",
    bare={"cpsat": ".bare:windows", "slot-milp": ".bare:slots"},
    certify=".placement.bounds.certify:certify_time",
    judging=12.0,
    shared=("offsets", "peak", "recompute"),
)
