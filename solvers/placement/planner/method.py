"""The event-driven planner of tensor placement, run to its periodic state.

The simulation of an on-line policy over several iterations; when the state at the end of an iteration is
that at its beginning, the log of the iteration is a periodic plan. After a few iterations the state is held:
what will live across the boundary is copied only to the tier where it was then, and what was not on the
device leaves it, so that the states do not go round in circles. A single run is one iteration, its
forecasts end with it, and final tensors are needed at its end, anywhere. Tensors are cut into equal chunks. A
chunk is on the device or not, has a copy of its current version on the host tier, on the slow tier, on both
or on neither (then it is *dirty*, else *clean*). Inputs of a period start on the device and outside, wherever
they may: what has a copy need not be copied out. There are at most four channels, device to host, device to
slow, and back, one chunk on each at a time; the slow tier goes first where they share a cap, and the rate
of the other follows at once (the copy goes on as another one). For every op of the next iteration two
forecasts are kept:

* ``load``: bytes on the device if nothing more is dropped;
* ``least``: the same without all that is clean and could be away then: in the absences of its current version
  between accesses, each shortened at its end by the *lead*, the time that its return takes.

The first op whose ``least`` exceeds the memory is the *deficit*. Under ``replace`` an op counts as two, one
that reads in no time and one that writes, which start together: what it only reads may be away while it runs,
and goes at its start if nobody accesses it any more. At every event, until nothing changes:

1. The next op starts if its tensors are there and what it creates fits, perhaps after clean chunks were
   dropped, furthest next use first. A write cancels copies under way and makes those that exist stale.
2. While there is a deficit, each channel outwards copies the dirty chunk that could be away at the deficit
   and whose use behind it is furthest (Belady's rule seen from the deficit); reads before the deficit do
   not matter: copying is not releasing. Where nothing could be away at the first deficit, any other one
   counts. A full outer tier forgets copies of chunks that are also on the device, nearest use first. A host
   channel that is not *eager* waits until it would be late for a deficit, so that the host's room is left
   for what the slow tier's channel cannot do.
3. Each channel inwards fetches the absent chunk whose use is nearest, if the load stays within the memory
   until then, perhaps after dropping chunks with a later use; else it waits. The host looks a horizon
   ahead. While it waits, the channel to the host copies dirty chunks with a later use.
4. *Staging*: with a full host and nothing else to fetch from it, the chunk there with the furthest use is
   fetched into a slot of its own and passed on to the slow tier.

What the slow tier alone holds must come back through its channel before it is used. The *tail cap* says for
each op u of this iteration that bytes only there with a use at u or later are at most what the channel
brings from the start of u to the iteration's end, plus a slack; staging obeys it, and so does copying to
the slow tier while an op is running.

Where nothing can happen any more, one round without lead, cap and horizon is tried; if that does not help
either, the setting has failed. A portfolio of settings is tried, whole tensors or chunks as the problem says;
where ops have several modes, `choosing` finds some with the first of these.

Sources: forecast and rules are this project's; eager copies out and in after Zhang et al., G10, MICRO 2023;
the choice by furthest next use is Belady's (1966), used for tensors by SwapAdvisor (ASPLOS 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ....formulations.model import BuildTimeout, ticker
from ....formulations.placement.bounds.releases import ideal_time
from ....models.errors import UsageError
from ....models.machine import Machine
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..reductions.modes import in_modes, reference_modes
from ..reductions.replicas.together import for_replicas
from .choosing import chosen_modes
from .setting import PlannerSetting

SHORT_HORIZON = 2 * 10**9
"""Nanoseconds before its use from which on a tensor comes back from the host, where it comes late."""
ENDLESS_HORIZON = 10**15
"""The same where it comes as soon as it can: more than any run takes."""

PARTS = 512
"""Of a small device: larger chunks are too coarse for it."""
FINER = (0.5, 0.25, 2.0)
"""Chunks at which the best settings are tried again, in those of the first round."""
COARSE = 4
"""Chunks of the first plan, in those of the first round."""
AGAIN = 2
"""Best settings of the first round, which are tried again at the chunks of `FINER`."""

NO_TIME = "no time to make a plan, or to judge it"

JUDGING = 7e-6
"""Seconds of the verifier for an action of a plan of hundreds of thousands."""
GRACE = 0.5
"""Seconds over its time limit that the verifier may take."""


def portfolio(problem: Placement) -> list[PlannerSetting]:
    """Return the settings of the first round, the most promising first.

    Nothing is staged where the slow tier is behind the host (`reductions.relays`): it would go
    from the host through the device and the host again.
    """
    capacity = problem.machine.tiers[0].capacity
    base = PlannerSetting() if _without_channels(problem.machine) is None else PlannerSetting(slots=0)
    if problem.whole:  # a slot would be as large as the largest tensor
        base = replace(base, slots=0, gate=False)
        return [
            base,
            replace(base, gate=True),
            replace(base, displace=False),
            replace(base, horizon=SHORT_HORIZON),
            replace(base, lead=80, displace=False, gate=True),
        ]
    if capacity is not None:
        base = replace(base, chunk=min(base.chunk, max(1, capacity // PARTS)))
    settings = [
        replace(base, gate=False),
        replace(base, slots=0, gate=False),
        base,
        replace(base, slots=0, gate=False, eager=False),
        replace(base, horizon=ENDLESS_HORIZON),
        replace(base, lead=80),
    ]
    return list(dict.fromkeys(settings))


@for_replicas
def solve_planner(problem: Placement, context: Context) -> Outcome:
    """Offer the plan of every setting until the time is up."""
    context.careful = True
    context.raise_bound(ideal_time(problem), kind="sum of durations", averages=True)
    context.progress("planner")
    with context.attempt():
        plan = first_plan(problem, context)
        if isinstance(plan, Plan):
            context.offer(plan)
    detail = ""
    for reason in () if context.closed else try_settings(problem, context, lambda: context.expired):
        detail = reason or detail
    if context.closed:
        return Outcome()
    expired = context.late()
    return Outcome(reason="time" if expired else None, detail=detail if context.answer is None else "")


def try_settings(problem: Placement, context: Context, expired: Callable[[], bool]) -> Iterator[str]:
    """Offer the plan of every setting, then of the best ones at other chunks; yield why each has none, or "".

    None begins when less time is left than the longest one took.

    Parameters
    ----------
    problem, context
        Of the solve.
    expired
        Whether the search for modes of ops ends, with the best so far.
    """
    results: list[tuple[int, int]] = []
    settings = portfolio(problem)
    if any(len(op.modes) > 1 for op in problem.graph.ops):
        modes, plan = chosen_modes(
            problem,
            lambda chosen: planned(problem, replace(settings[0], modes=tuple(chosen)), context=context),
            lambda: expired() or context.closed,
        )
        settings = [replace(setting, modes=tuple(modes)) for setting in settings]
        if plan is not None:
            context.offer(plan)
            yield ""
    for number, setting in enumerate(settings):
        if context.late() or context.closed:
            return
        with context.attempt():
            value = _attempt(problem, setting, context)
        if isinstance(value, int):
            results.append((value, number))
        yield value if isinstance(value, str) else ""
    for _, number in [] if problem.whole else sorted(results)[:AGAIN]:
        for factor in FINER:
            if context.late(1 / factor) or context.closed:
                return
            chunk = max(1, int(settings[number].chunk * factor))
            with context.attempt(1 / factor):
                value = _attempt(problem, replace(settings[number], chunk=chunk), context)
            yield value if isinstance(value, str) else ""


def _attempt(problem: Placement, setting: PlannerSetting, context: Context) -> int | str:
    """Offer the plan of a setting if it is the best so far; return its time, or why there is none."""
    plan, finished = _planned(problem, setting, context=context)
    if isinstance(plan, str):
        return plan
    value = problem.evaluate(plan)
    if context.incumbent is not None and value >= context.incumbent:
        return value
    answer = _finished(plan, finished, context)
    return answer if isinstance(answer, str) else context.offer(answer)


def first_plan(problem: Placement, context: Context) -> Plan | str:
    """Return the plan of the first setting that has one, else why the last one has none.

    The very first setting is that of the portfolio with larger chunks, for an answer in seconds.
    """
    plan: Plan | str = NO_TIME
    settings = portfolio(problem)
    if not problem.whole:
        settings.insert(0, replace(settings[0], chunk=COARSE * settings[0].chunk))
    for setting in settings:
        if context.late():
            break
        plan = planned(problem, setting, context=context)
        if isinstance(plan, Plan):
            break
    return plan


def unplanned(problem: Placement) -> str:
    """Return why the planner does not serve a problem of `traits.PLANNED`.

    There are more than two outer tiers, or one is behind the others and is needed; what outlives a period,
    and is written or may start on the device, may not start in every tier; or an input that an op writes may
    start in none that keeps it.
    """
    from ..reductions.recurring import as_inputs

    simplified, _ = as_inputs(problem)
    device, *outer = (tier.name for tier in simplified.machine.tiers)
    if len(outer) > 2:
        return f"found {len(outer) + 1} tiers, expected two or three that the first one sees"
    if apart := _without_channels(simplified.machine):
        return f"found no channels of tier {apart!r} from and to the first tier, expected both"
    if problem.periodic and (bound := _bound_kinds(simplified)):
        return f"found start tiers of kind {bound[0]!r}, expected none for what outlives a period"
    written = {t for op in simplified.graph.ops for t in op.writes}
    for t in sorted(written) if problem.periodic else ():
        tensor = simplified.graph.tensors[t]
        allowed = simplified.may_start(tensor.kind)
        if tensor.initial and not tensor.final and not {*allowed} & {device, *outer[1:]}:
            return (
                f"found input {tensor.name!r}, which an op writes, with start tiers {list(allowed)}, "
                f"expected {device!r} or the slow tier among them"
            )
    return ""


def _without_channels(machine: Machine) -> str | None:
    """Return an outer tier that is not joined to the first one in both directions."""
    device, *outer = (tier.name for tier in machine.tiers)
    pairs = {(c.src, c.dst) for c in machine.channels}
    return next((x for x in outer if not {(device, x), (x, device)} <= pairs), None)


def _bound_kinds(problem: Placement) -> list[str]:
    """Return the kinds of persistent tensors that may not start in every tier."""
    return sorted({*problem.starts} & {str(t.kind) for t in problem.graph.tensors if t.initial and t.final})


def planned(
    problem: Placement,
    setting: PlannerSetting,
    *,
    believed: Sequence[int] | None = None,
    context: Context | None = None,
) -> Plan | str:
    """Return the plan of a setting, or why there is none.

    Where channels have latencies it is made without, and has the times that these leave
    (`reductions.latencies`).

    Parameters
    ----------
    problem, setting
        What is planned, and how.
    believed
        Per op, the duration in ns by which the policy forecasts; default: the true one, that of the graph.
        With others it shows what the policy does on line, when ops last longer or shorter than it knows:
        its decisions follow the events as they happen, latencies too. The plan is one of the graph, with
        true durations.
    context
        Whose time limit ends the simulation, and the plan is one that the verifier can judge by then.

    Raises
    ------
    UsageError
        If there are not as many durations as ops, or one is negative.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:chain?n=8&seed=1")
    >>> problem = lt.Placement(graph, lt.load_machine("a100-40g-pcie3"), periodic=True)
    >>> plan = planned(problem, PlannerSetting(), believed=[10**6] * len(graph.ops))
    >>> problem.judge(plan).violations
    ()
    """
    ops = len(problem.graph.ops)
    if believed is not None and (len(believed) != ops or min(believed, default=0) < 0):
        raise UsageError(
            f"placement by the planner, believed durations: found {len(believed)} of at least "
            f"{min(believed, default=0)} ns, expected {ops} of at least 0 ns"
        )
    plan, finished = _planned(problem, setting, believed, context)
    return _finished(plan, finished, context)


def _planned(
    problem: Placement,
    setting: PlannerSetting,
    believed: Sequence[int] | None = None,
    context: Context | None = None,
) -> tuple[Plan | str, Callable[[Plan], Plan | str]]:
    """Return a plan or why there is none, and what makes it one for the problem, hardly a faster one."""
    from ..reductions.latencies import without_latencies
    from ..reductions.recurring import as_inputs
    from .run import simulated_plan

    chosen, moded = in_modes(problem, setting.modes or reference_modes(problem))
    simplified, restored = as_inputs(chosen)
    prompt, timed = without_latencies(simplified) if believed is None else (simplified, lambda plan: plan)

    tick = ticker(lambda: context is not None and context.expired)

    def finished(plan: Plan) -> Plan | str:
        answer = timed(plan) or simulated_plan(simplified, setting, tick=tick)
        return moded(restored(answer)) if isinstance(answer, Plan) else answer

    try:
        return simulated_plan(prompt, setting, believed, tick), finished
    except BuildTimeout:
        return NO_TIME, finished


def _finished(
    plan: Plan | str, finished: Callable[[Plan], Plan | str], context: Context | None
) -> Plan | str:
    """Return the plan of the problem, if there is time to make and to judge it, or why there is none."""
    if isinstance(plan, str):
        return plan
    try:
        plan = finished(plan)
    except BuildTimeout:
        return NO_TIME
    if isinstance(plan, str) or context is None:
        return plan
    actions = len(plan.runs) + len(plan.copies) + len(plan.frees)
    return NO_TIME if JUDGING * actions > context.remaining() + GRACE else plan
