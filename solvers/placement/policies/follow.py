"""How a policy's decisions become a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ....formulations.model import BuildTimeout
from ....formulations.placement.bounds.releases import ideal_time
from ....models.problems.placement import Placement
from ....models.units import MIB
from ...context import Context, Outcome
from ..reductions.replicas.together import for_replicas
from ..simulator.problem import SimulatedProblem, simulated_problem
from ..simulator.simulator import Decisions, SimulatedRun, simulate

Candidates = Iterable[tuple[str, Decisions]]
"""Variants of a policy, the preferred first, each with what it is called."""

LATE_OPS = 20_000
"""Up to so many ops, decisions that stand when the time is up are carried out and judged within a second."""


class DoesNotFit(Exception):
    """What a policy raises that finds by its own count that it fails.

    Parameters
    ----------
    reason
        Why.
    closest
        The decisions that come closest, for emergencies.
    """

    def __init__(self, reason: str, closest: Decisions) -> None:
        super().__init__(reason)
        self.reason, self.closest = reason, closest


NOT_DECIDED = "the time was up before the policy had decided everything and a plan could follow"


@for_replicas
def follow(
    problem: Placement,
    context: Context,
    decide: Callable[[SimulatedProblem], Candidates],
    *,
    first: bool = False,
    chunk: int | None = None,
) -> Outcome:
    """Carry out the variants of a policy and offer their plans.

    Where no variant fits, each is carried out once more with emergency evictions, which the detail counts; of
    variants that are tried in turn the last one, which keeps the least on the device; of a policy that gives
    up (`DoesNotFit`) what comes closest.

    Parameters
    ----------
    problem, context
        Of the solve.
    decide
        The policy.
    first
        Whether the first variant that fits is taken, as a policy does that tries in turn; else the best.
    chunk
        Largest copy in bytes; None for whole tensors.
    """
    if "chunk" in context.options:
        chunk = context.options["chunk"] * MIB
    context.careful = True
    case = simulated_problem(problem, chunk, lambda: context.expired)
    unused = _unused_tiers(problem, case)
    context.raise_bound(ideal_time(problem), kind="sum of durations", averages=True)
    variants: list[tuple[str, Decisions]] = []
    closest: list[tuple[str, Decisions]] = []
    gives_up: dict[str, int] = {}
    try:
        for variant in decide(case):
            if variants and context.expired:
                break
            variants.append(variant)
            if case.ops > LATE_OPS:
                case.tick()
            if first and simulate(case, variant[1]).time is not None:
                variants = [variant]
                break
    except BuildTimeout:
        if len(variants) <= (case.ops > LATE_OPS):
            return Outcome(reason="time", detail=NOT_DECIDED)
    except DoesNotFit as failure:
        closest, gives_up = [(failure.reason, failure.closest)], {"gives_up": 1}
    for rescued in (False, True):
        if rescued and context.options["strict"]:
            break
        tried: list[tuple[str, SimulatedRun]] = []
        for name, d in (closest or variants[-1 if first else 0 :]) if rescued else variants:
            if tried and context.expired:
                break
            tried.append((name, simulate(case, d.with_emergencies() if rescued else d)))
        fitting = [(run.time, k) for k, (_, run) in enumerate(tried) if run.time is not None]
        for _, k in sorted(fitting):
            name, run = tried[k]
            context.offer(run.plan())
            if context.refused:
                continue
            facts = {"emergencies": run.emergencies, "evictions": run.evictions, **gives_up}
            return Outcome(detail=_joined(_remark(name, run), unused), facts=facts)
    faults: dict[str, list[str]] = {}
    for name, run in tried:
        if run.fault:
            faults.setdefault(run.fault, []).append(name)
    said = "; ".join(f"{_names(names)}{fault}" for fault, names in faults.items())
    said = said or "".join(reason for reason, _ in closest)
    return Outcome(detail=_joined(said, unused), facts=gives_up)


def _unused_tiers(problem: Placement, case: SimulatedProblem) -> str:
    """Return a remark on the tiers of a problem that decisions do not use; empty if there is none."""
    used = {tier.name for tier in case.machine.tiers}
    unused = ", ".join(tier.name for tier in problem.machine.tiers if tier.name not in used)
    return f"does not use {unused}: no channels from and to {case.machine.tiers[0].name}" if unused else ""


def _joined(*remarks: str) -> str:
    return ", ".join(filter(None, remarks))


def _names(names: list[str]) -> str:
    """Name the variants that have the same fault."""
    others = f" and {len(names) - 1} others" if len(names) > 3 else ""
    said = names[0] if others else "; ".join(name for name in names if name)
    return f"{said}{others}: " if said else ""


def _remark(name: str, run: SimulatedRun) -> str:
    """Return the name of the variant that ran, and its evictions."""
    if run.emergencies:
        return _joined(name, f"does not fit by itself: emergency evictions: {run.emergencies}")
    return _joined(name, f"evictions at run time: {run.evictions}" if run.evictions else "")
