"""What methods of `placement` and parts of `auto` serve, in traits (`traits`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from ...models.errors import UsageError
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction
from ..parts import Part
from .methods import ROOM
from .models.choices import useful
from .planner.planner import check_machine
from .pofo.method import stages_of
from .policies.zero_offload import processors_of
from .replicas.share import replicas
from .traits import (
    BRANCHED,
    FREEDOMS,
    IN_ORDER,
    LISTED,
    PLANNED,
    SAMPLED,
    SEVERAL,
    SIMULATED,
    STATES,
    Trait,
    traits,
)


def refusing(run: RunFunction) -> RunFunction:
    """Return the function for which what it refuses late is an outcome, too."""

    @wraps(run)
    def own(problem: Placement, context: Context) -> Any:
        try:
            return run(problem, context)
        except UsageError as error:
            return Outcome(refused=str(error))

    return own


def refused_by(check: Callable[[Placement], object]) -> Callable[[Placement], str]:
    """Return what says why a check of shapes refuses a problem, or that of one of its replicas."""

    def refuses(problem: Placement) -> str:
        found = replicas(problem) if traits(problem) & Trait.REPLICAS else None
        try:
            check(problem if found is None else found.shared)
        except UsageError as error:
            return str(error)
        return ""

    return refuses


def beyond_planner(problem: Placement) -> str:
    """Return why the planner does not serve a problem: far tiers, or starts, that it cannot do without."""
    return refused_by(check_machine)(problem)


def _beyond_simulator(problem: Placement) -> str:
    found = replicas(problem) if traits(problem) & Trait.REPLICAS else None
    machine = problem.machine if found is None else found.shared.machine
    first, ways = machine.tiers[0].name, {(c.src, c.dst) for c in machine.channels}
    joined = any({(first, x.name), (x.name, first)} <= ways for x in machine.tiers[1:])
    return "" if joined else "found no outer tier with channels from and to the first tier, expected one"


def _beyond_online(problem: Placement) -> str:
    both = {Trait.PERIOD, Trait.REPLICAS} <= {*traits(problem)}
    return (
        "found a period of several processors, expected a single run" if both else _beyond_simulator(problem)
    )


def _listed_in_place(problem: Placement) -> str:
    both = {Trait.REPLACE, Trait.IN_PLACE} <= {*traits(problem)}
    return (
        "found outputs that take the place of inputs, read in place, expected one of the two" if both else ""
    )


def _named_elsewhere(problem: Placement) -> str:
    first = problem.machine.tiers[0].name
    for op, kept in zip(problem.graph.ops, useful(problem), strict=True):
        if any(tier != first for m in kept for _, tier in op.all_modes[m].operands):
            return "found modes that name another tier than the first and are no worse, expected none"
    return ""


def _beyond_dropping(problem: Placement) -> str:
    """Return why a policy that drops values does not serve a problem: in one tier there is nothing else."""
    has = traits(problem)
    if {Trait.RERUN, Trait.REPLICAS} <= {*has}:
        return "found ops that may run again on several processors, expected one processor"
    if has & Trait.ONE_TIER:
        return "" if problem.recompute else "found one tier, expected more where ops run once"
    return _beyond_simulator(problem)


_ONE = Trait.REPLICAS | SIMULATED
_OFFLOAD = IN_ORDER & ~(Trait.MODES | Trait.OPERANDS | Trait.ELSEWHERE)

SERVED: Mapping[str, Mapping[str, Any]] = {
    "auto": {"supports": IN_ORDER | FREEDOMS},
    "orders": {"supports": IN_ORDER | Trait.FREE_ORDER},
    "planner": {"supports": Trait.REPLICAS | PLANNED, "refuses": beyond_planner},
    "lp-bound": {"supports": Trait.REPLICAS | SAMPLED},
    "swapadvisor": {"supports": _ONE | Trait.FREE_ORDER, "refuses": _beyond_simulator},
    "tmof-online": {"supports": _ONE, "refuses": _beyond_online},
    "capuchin": {"supports": _ONE | Trait.RERUN | Trait.ONE_TIER, "refuses": _beyond_dropping},
    "superneurons": {"supports": _ONE | Trait.RERUN | Trait.ONE_TIER, "refuses": _beyond_dropping},
    "zero-offload": {"supports": _OFFLOAD, "refuses": refused_by(lambda p: processors_of(p, "zero-offload"))},
    "zero-infinity": {
        "supports": _OFFLOAD,
        "refuses": refused_by(lambda p: processors_of(p, "zero-infinity")),
    },
    "first-touch": {"supports": IN_ORDER & ~SEVERAL},
    "pofo": {
        "supports": (IN_ORDER | FREEDOMS) & ~(SEVERAL | Trait.WHOLE | Trait.REPLACE),
        "needs": Trait.RERUN,
        "refuses": refused_by(stages_of),
    },
    "serial": {"supports": IN_ORDER},
    "slot-lp": {"supports": Trait.REPLICAS | BRANCHED, "refuses": _named_elsewhere},
    "slot-milp": {
        "supports": Trait.REPLICAS | BRANCHED,
        "needs": Trait.WHOLE,
        "refuses": _named_elsewhere,
    },
    "cpsat": {"supports": STATES},
    "tmof": {
        "supports": (BRANCHED | Trait.LANES | Trait.REPLICAS) & ~Trait.WHOLE,
        "refuses": _named_elsewhere,
    },
    **{
        f"autotm-{form}": {"supports": LISTED, "refuses": _listed_in_place}
        for form in ("static", "sync", "async")
    },
}
"""What methods serve that are no policies on the simulator."""

DECLARED: Mapping[str, Part] = {
    method.name: Part(
        name=method.name,
        run=method.run,
        **SERVED.get(method.name, {"supports": _ONE, "refuses": _beyond_simulator}),
    )
    for method in ROOM.methods
}
"""Each method, and what it serves."""
