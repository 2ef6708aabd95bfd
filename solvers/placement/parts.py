"""What methods of `placement` and parts of `auto` serve, in traits (`traits`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...formulations.placement.lanes import lanes
from ...formulations.placement.states import empty_and_far
from ...models.problems.placement import Placement
from ..parts import Part, per_op
from .in_place.prices import beyond_prices
from .methods import ROOM
from .planner.method import unplanned
from .pofo.method import unchained
from .policies.zero_offload import other_processors
from .reductions.choices import useful
from .reductions.outer_tiers import too_fast
from .reductions.recurring import as_inputs
from .reductions.replicas.share import replicas
from .traits import (
    BRANCHED,
    FREEDOMS,
    IN_ORDER,
    LISTED,
    ONCE_ONLY,
    PLANNED,
    SAMPLED,
    SEVERAL,
    SIMULATED,
    STATES,
    Trait,
    traits,
)
from .world.chunks import too_large

seconds_of_planner = per_op(4_000)
"""Until the planner has its first plan of a period."""

Refuses = Callable[[Placement], str]
"""Says why a problem is not served."""


def either(*checks: Refuses) -> Refuses:
    """Return what says why the first of some checks refuses a problem."""
    return lambda problem: next((words for check in checks if (words := check(problem))), "")


def of_one(*checks: Refuses) -> Refuses:
    """Return the same for the problem of one of its replicas, where there are some."""

    def refuses(problem: Placement) -> str:
        split = replicas(problem) if traits(problem) & Trait.REPLICAS else None
        return either(*checks)(problem if split is None else split.shared)

    return refuses


def _unjoined(problem: Placement) -> str:
    """Return why policies do not serve a problem."""
    machine = as_inputs(problem)[0].machine
    first, ways = machine.tiers[0].name, {(c.src, c.dst) for c in machine.channels}
    if len(machine.tiers) > 3:
        return f"found {len(machine.tiers)} tiers, expected two or three that the first one sees"
    if not any({(first, x.name), (x.name, first)} <= ways for x in machine.tiers[1:]):
        return "found no outer tier with channels from and to the first tier, expected one"
    rates = [x.bytes_per_s for x in machine.channels] + [x.bytes_per_s for x in machine.groups]
    return "found a channel below 1 kB/s, expected faster ones" if min(rates) < 1000 else too_large(problem)


def _both(first: Trait, second: Trait, words: str) -> Refuses:
    return lambda problem: f"found {words}" if {first, second} <= {*traits(problem)} else ""


def _at_home(problem: Placement) -> str:
    home = problem.machine.processors[0].tiers[0].tier == problem.machine.tiers[0].name
    return "" if home else "found a processor at home in another tier than the first, expected it there"


def _named_elsewhere(problem: Placement) -> str:
    first = problem.machine.tiers[0].name
    for op, kept in zip(problem.graph.ops, useful(problem), strict=True):
        if any(tier != first for m in kept for _, tier in op.all_modes[m].operands):
            return "found modes that name another tier than the first and are no worse, expected none"
    return ""


def _unequal_lanes(problem: Placement) -> str:
    ops = [len(lane.ops) for lane in lanes(problem)]
    same = len({*ops}) == 1
    return "" if same else f"found {ops} ops on the processors, expected the same number on each"


def _beyond_dropping(problem: Placement) -> str:
    """Return why a policy that drops values does not serve a problem: in one tier there is nothing else."""
    if traits(problem) & Trait.ONE_TIER:
        return "" if problem.recompute else "found one tier, expected more where ops run once"
    return _unjoined(problem)


beyond_planner = of_one(unplanned, too_large)
"""Why the planner does not serve a problem."""

_ONE = Trait.REPLICAS | SIMULATED
_OFFLOAD = IN_ORDER & ~(Trait.MODES | Trait.OPERANDS | Trait.ELSEWHERE | Trait.IN_PLACE | Trait.ONE_TIER)

_IN_STEP = _both(Trait.PERIOD, Trait.REPLICAS, "a period of several processors, expected a single run")
_DROPPING = {
    "supports": _ONE | Trait.RERUN | Trait.ONE_TIER,
    "refuses": either(
        _both(Trait.RERUN, Trait.REPLICAS, "ops that may run again on several processors, expected one"),
        of_one(_beyond_dropping),
    ),
}
_BRANCHING = {"supports": Trait.REPLICAS | BRANCHED, "refuses": of_one(_named_elsewhere, empty_and_far)}
_LISTED = {
    "supports": LISTED,
    "refuses": of_one(
        _at_home,
        _both(
            Trait.REPLACE,
            Trait.IN_PLACE,
            "outputs that take the place of inputs, read in place, expected one of the two",
        ),
    ),
}

SERVED: Mapping[str, Mapping[str, Any]] = {
    "auto": {"supports": IN_ORDER | FREEDOMS},
    "orders": {"supports": IN_ORDER | Trait.FREE_ORDER},
    "planner": {"supports": Trait.REPLICAS | PLANNED, "refuses": beyond_planner},
    "lp-bound": {"supports": Trait.REPLICAS | SAMPLED, "refuses": of_one(too_fast)},
    "swapadvisor": {"supports": _ONE | Trait.FREE_ORDER, "refuses": of_one(_unjoined)},
    "tmof-online": {"supports": _ONE, "refuses": either(_IN_STEP, of_one(_unjoined))},
    "capuchin": _DROPPING,
    "superneurons": _DROPPING,
    "zero-offload": {"supports": _OFFLOAD, "refuses": other_processors},
    "zero-infinity": {"supports": _OFFLOAD, "refuses": other_processors},
    "first-touch": {"supports": IN_ORDER & ~SEVERAL},
    "in-place": {
        "supports": LISTED & ~(Trait.REPLACE | Trait.FOUR_TIERS | Trait.FAR),
        "needs": Trait.IN_PLACE,
        "refuses": either(_at_home, beyond_prices),
    },
    "pofo": {
        "supports": (IN_ORDER | FREEDOMS)
        & ~(SEVERAL | ONCE_ONLY | Trait.WHOLE | Trait.REPLACE | Trait.SLOWED | Trait.ONE_TIER),
        "needs": Trait.RERUN,
        "refuses": unchained,
    },
    "serial": {"supports": IN_ORDER},
    "slot-lp": _BRANCHING,
    "slot-milp": {
        **_BRANCHING,
        "supports": Trait.REPLICAS | BRANCHED & ~Trait.PARTS,
        "needs": Trait.WHOLE,
    },
    "cpsat": {"supports": STATES, "refuses": empty_and_far},
    "tmof": {
        "supports": BRANCHED | Trait.LANES | Trait.REPLICAS,
        "refuses": either(
            *(
                _both(Trait.WHOLE, several, "whole tensors on several processors, expected parts, or one")
                for several in (Trait.LANES, Trait.REPLICAS)
            ),
            _both(Trait.WHOLE, Trait.PERIOD, "whole tensors in a period, expected parts, or a single run"),
            of_one(_named_elsewhere),
            _unequal_lanes,
        ),
    },
    **dict.fromkeys(("autotm-static", "autotm-sync", "autotm-async"), _LISTED),
}
"""What methods serve that are no policies on the simulator."""

DECLARED: Mapping[str, Part] = {
    method.name: Part(
        name=method.name,
        run=method.run,
        **SERVED.get(method.name, {"supports": _ONE, "refuses": of_one(_unjoined)}),
    )
    for method in ROOM.methods
}
"""Each method, and what it serves."""
