"""How decisions of policies that have ops run again become a result: one sequence of runs after the other.

The graph of a sequence (`reductions.reruns`) is a graph like any other, on whose absences the
policy decides, and `follow.follow` carries that out. On a machine of one tier it is beside a tier that
nobody may use: then nothing leaves. (Every plan is verified for the problem as it was asked.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ....formulations.model import BuildTimeout
from ....formulations.recompute.data import RecomputeData, recompute_data
from ....models.graph import KINDS
from ....models.machine import Channel, Tier
from ....models.problems.placement import Placement
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ..reductions.replicas.together import for_replicas
from ..reductions.reruns import Sequenced, sequenced
from ..simulator.problem import SimulatedProblem, simulated_problem
from ..traits import Trait, traits
from .follow import NOT_DECIDED, Candidates, follow

NOWHERE = "nowhere"
"""The tier beside the only one of a machine."""


@dataclass(frozen=True, kw_only=True)
class Laid:
    """A case of a sequence of runs.

    Attributes
    ----------
    case
        Its ops are the runs.
    tensors
        By tensor of the problem, that of the first graph.
    place
        By op of the first graph, its first run.
    """

    case: SimulatedProblem
    tensors: tuple[int, ...]
    place: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RerunTrial:
    """A sequence of runs, what it is called, and the policy's decisions on its absences."""

    name: str
    runs: tuple[int, ...]
    decide: Callable[[Laid], Candidates]


Trials = Callable[[SimulatedProblem, RecomputeData | None], Iterator[RerunTrial]]
"""From the problem in which each op runs once, and its tensors' versions (None if no op may run again)."""


@for_replicas
def follow_in_turn(problem: Placement, context: Context, trials: Trials) -> Outcome:
    """Offer the plan of the first sequence that fits; if there is none, with emergency evictions.

    Those are tried on the last sequence, of which the least stays, and then on the first.
    """
    context.careful = True
    once = replace(problem, recompute=False)
    data: RecomputeData | None = None
    alone = problem.recompute and len(problem.machine.tiers) == 1
    if problem.recompute:
        durations = (min(mode.duration_ns for mode in op.all_modes) for op in problem.graph.ops)
        context.raise_bound(sum(durations), kind="each op once")
        if not traits(problem) & (Trait.MODES | Trait.OPERANDS):  # others run once
            data = recompute_data(Recompute(problem.graph), bundled=False)
    if alone:
        once = _beside_nothing(once)

    def carried(trial: RerunTrial, strict: bool) -> Outcome:
        several = sequenced(problem.graph, trial.runs) if len(trial.runs) > len(problem.graph.ops) else None
        part = once if several is None else replace(once, graph=several.graph)
        inner = context.inner(part, options={**context.options, "strict": strict})
        outcome = follow(part, inner, lambda case: trial.decide(_laid(case, several)))
        if inner.answer is not None:
            plan = inner.answer if several is None else several.of_first(inner.answer)
            context.offer(replace(plan, machine=problem.machine))
        if inner.bound is not None and not problem.recompute:
            context.raise_bound(inner.bound, kind=inner.bound_kind)
        words = ", ".join(x for x in (trial.name, outcome.detail) if x)
        return replace(outcome, detail=words)

    tried: list[RerunTrial] = []
    unfinished = outcome = Outcome(reason="time", detail=NOT_DECIDED)
    try:
        first = simulated_problem(once, None, lambda: context.expired)
        for trial in trials(first, data):
            if context.expired and tried:
                return unfinished
            tried.append(trial)
            outcome = carried(trial, strict=True)
            if context.answer is not None:
                return outcome
    except BuildTimeout:
        return unfinished
    for k in () if context.options["strict"] or alone else dict.fromkeys((len(tried) - 1, 0)):
        outcome = unfinished if context.expired else carried(tried[k], strict=False)
        if context.answer is not None or context.expired:
            break
    return outcome


def _laid(case: SimulatedProblem, several: Sequenced | None) -> Laid:
    tensors = case.tensor.tolist()
    if several is None:
        return Laid(case=case, tensors=tuple(tensors), place=all_once(case))
    place: dict[int, int] = {}
    for k, op in enumerate(several.runs):
        place.setdefault(op, k)
    return Laid(
        case=case,
        tensors=tuple(several.tensor_of[t] for t in tensors),
        place=tuple(place[op] for op in range(len(place))),
    )


def _beside_nothing(problem: Placement) -> Placement:
    """Return the problem of one tier beside another one, in which nothing starts."""
    machine, device = problem.machine, problem.machine.tiers[0].name
    name = NOWHERE if device != NOWHERE else f"not {device}"
    ways = tuple(Channel(src=a, dst=b, bytes_per_s=10**9) for a, b in ((device, name), (name, device)))
    machine = replace(machine, tiers=(*machine.tiers, Tier(name=name)), channels=ways)
    return replace(problem, machine=machine, start=dict.fromkeys(KINDS, (device,)))


def all_once(case: SimulatedProblem) -> tuple[int, ...]:
    """Return the sequence in which each op runs once."""
    return tuple(range(case.ops))


def absences_within(laid: Laid, spans: Sequence[tuple[int, int, int]], *, every: bool = False) -> list[int]:
    """Return for tensors of the first graph, between two of its ops, the longest absence of each.

    Parameters
    ----------
    laid
        In which runs again may have parted the absences.
    spans
        The tensor, and the ops.
    every
        Return all parts of the absences instead.
    """
    case, within = laid.case, list[int]()
    of: dict[int, list[int]] = {}
    for g, i in enumerate(case.absence_tensor.tolist()):
        of.setdefault(laid.tensors[i], []).append(g)
    for t, first, after in spans:
        low, high = laid.place[first], laid.place[after] if after < len(laid.place) else after
        some = [g for g in of.get(t, ()) if low <= case.absence_first[g] and case.absence_next[g] <= high]
        within += some if every else sorted(some, key=lambda g: (-away_ns(case, g), g))[:1]
    return within


def away_ns(case: SimulatedProblem, absence: int) -> int:
    """Return the ns between the ops of an absence, while nothing waits."""
    return int(case.clock[case.absence_next[absence]] - case.clock[case.absence_first[absence] + 1])
