"""`pofo`: the chain of a placement in which ops may run again, and the plan of the program's segments."""

from __future__ import annotations

from ....formulations.model import ticker
from ....models.errors import UsageError
from ....models.graph import Accounting
from ....models.problems.placement import Placement
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...recompute.chains.chain import is_taped, plain_chain, taped_chain
from ...recompute.chains.hetero import Stages, program, stages_of_plain, stages_of_taped
from .channel import rate_of
from .emission import emit
from .program import Chain, pofo

SLOTS = 200
"""Slots of memory that the program distinguishes, unless it is told another number."""


def solve_pofo(problem: Placement, context: Context) -> Outcome:
    """Offer the plan of the program.

    Raises
    ------
    UsageError
        If the graph is no chain, ops may not run again, copies must be whole, no outer tier has room for
        every value and channels from and to the device, or nothing leads there from where inputs must start.
    """
    if not problem.recompute:
        raise UsageError("method pofo: found ops that run once, expected --recompute")
    if problem.whole:
        raise UsageError("method pofo: found copies of whole tensors, expected copies of parts")
    graph, machine = problem.graph, problem.machine
    if graph.accounting is not Accounting.COEXIST:
        raise UsageError(f"method pofo: found accounting {graph.accounting}, expected coexist")
    stages, inputs, tapes, given = stages_of(problem)
    outer = _outer_tier(problem, sum(graph.tensors[t].nbytes for t in (*inputs, *tapes[:-1], *given)))
    device = machine.tiers[0].name
    context.raise_bound(sum(op.all_modes[0].duration_ns for op in graph.ops), kind="each op once")
    most = max(map(max, (stages.back, stages.save, stages.need_next)))
    every = 2 * sum(tensor.nbytes for tensor in graph.tensors) + most
    memory = every if machine.tiers[0].capacity is None else min(machine.tiers[0].capacity, every)
    slots = context.options.get("memory-slots", SLOTS)
    found = program(stages, memory, slots, lambda length: not context.expired)
    if found is None:
        return Outcome(reason="time")
    first = {t: _first_tier(problem, t, outer) for t in (inputs[0], *given)}
    most_ns = sum(stages.forward) + sum(stages.backward) + max(c.latency_ns for c in machine.channels)
    chain = Chain(
        graph=graph,
        found=found,
        inputs=inputs,
        tapes=tapes,
        given=given,
        memory=memory,
        out=rate_of(machine, device, outer, every, most_ns),
        back=rate_of(machine, outer, device, every, most_ns),
        outside=outer in problem.may_start(graph.tensors[inputs[0]].kind),
        tick=ticker(lambda: context.expired),
    )
    context.progress(f"segments of {len(inputs)} stages")
    segments = pofo(chain, slots)
    if segments is None and context.expired:
        return Outcome(reason="time")
    if segments is None:
        return Outcome(detail="found no plan of its form in the memory, counted in slots")
    ways = {tier: rate_of(machine, tier, device, every, most_ns) for tier in first.values() if tier != device}
    context.offer(emit(chain, segments, machine, outer, first, ways))
    away = sum(segment.away for segment in segments)
    return Outcome(
        reason="time" if context.expired else None,
        detail=f"{len(segments)} segments, {away} of whose inputs leave",
    )


def stages_of(problem: Placement) -> tuple[Stages, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the stages of a chain, what they begin with, what they save, and the gradient that is given.

    Raises
    ------
    UsageError
        If the graph is no chain, or the machine lacks the tiers that modes of a taped one name.
    """
    graph, (fast, *others) = problem.graph, problem.machine.tiers
    if not is_taped(graph):
        plain = plain_chain(Recompute(graph), "pofo")
        return stages_of_plain(plain, in_place=False), plain.x, (), ()
    question = Recompute(graph)
    taped = taped_chain(question, "pofo")
    lost = {tier for op in graph.ops[: taped.stages] for _, tier in op.all_modes[1].operands}
    if fast.name != question.fast or not lost <= {tier.name for tier in others if tier.capacity is None}:
        raise UsageError(
            f"method pofo: found tiers {[tier.name for tier in problem.machine.tiers]}, expected "
            f"{question.fast!r} first, and {sorted(lost)} without a limit, which modes name"
        )
    tapes = tuple(t for op in graph.ops[: taped.stages] for t, _ in op.all_modes[1].operands)
    given = (*(t for t in graph.ops[taped.stages].reads if graph.tensors[t].initial and t != taped.a[0]),)
    return stages_of_taped(taped), taped.a[:-1], tapes, given


def _outer_tier(problem: Placement, nbytes: int) -> str:
    """Return the tier where values go; raise unless there is one, beside one processor on the device."""
    machine = problem.machine
    device = machine.tiers[0]
    channels = {(c.src, c.dst) for c in machine.channels}
    linked = {tier for ends in channels for tier in ends}
    access = [x for p in machine.processors for x in p.tiers if x.tier in {device.name, *linked}]
    if len(machine.processors) > 1 or [(x.tier, x.bytes_per_s) for x in access] != [(device.name, None)]:
        raise UsageError("method pofo: found other processors, expected one that uses the first tier only")
    for tier in machine.tiers[1:]:
        both = {(device.name, tier.name), (tier.name, device.name)} <= channels
        if both and (tier.capacity is None or tier.capacity >= nbytes):
            return tier.name
    raise UsageError(
        f"method pofo: found no tier with channels from and to {device.name!r} and room for {nbytes} bytes"
    )


def _first_tier(problem: Placement, t: int, outer: str) -> str:
    """Return where an initial tensor starts: on the device, else outside, else in a tier that leads there."""
    machine, tensor = problem.machine, problem.graph.tensors[t]
    device, tiers = machine.tiers[0].name, problem.may_start(tensor.kind)
    room = {tier.name for tier in machine.tiers if tier.capacity is None or tier.capacity >= tensor.nbytes}
    near = {outer} | {c.src for c in machine.channels if c.dst == device} & room
    for tier in (device, outer, *tiers):
        if tier in tiers and tier in near | {device}:
            return tier
    raise UsageError(
        f"method pofo: found tensor {tensor.name!r} at first in {' or '.join(tiers)}, expected a tier with "
        f"room for it and a channel to {device!r}"
    )
