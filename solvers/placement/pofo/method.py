"""`pofo`: the chain of a placement in which ops may run again, and the plan of the program's segments."""

from __future__ import annotations

from ....formulations.model import ticker
from ....models.problems.placement import Placement
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...recompute.chains.chain import is_taped, plain_chain, taped_chain, why_no_chain
from ...recompute.chains.hetero import Costs, program, stages_of_plain, stages_of_taped
from .channel import rate_of
from .emission import emit
from .program import OpChain, pofo

SLOTS = 200
"""Slots of memory that the program distinguishes, unless it is told another number."""


def solve_pofo(problem: Placement, context: Context) -> Outcome:
    """Offer the plan of the program."""
    graph, machine = problem.graph, problem.machine
    stages, inputs, tapes, given = stages_of(problem)
    outer = _outer_tier(problem)
    assert outer is not None
    device = machine.tiers[0].name
    context.raise_bound(sum(op.all_modes[0].duration_ns for op in graph.ops), kind="each op once")
    most = max(map(max, (stages.back, stages.save, stages.need_next)))
    every = 2 * sum(tensor.nbytes for tensor in graph.tensors) + most
    memory = every if machine.tiers[0].capacity is None else min(machine.tiers[0].capacity, every)
    slots = context.options.get("memory-slots", SLOTS)
    solution = program(stages, memory, slots, lambda length: not context.expired)
    if solution is None:
        return Outcome(reason="time")
    first = {t: _first_tier(problem, t, outer) or outer for t in (inputs[0], *given)}
    most_ns = sum(stages.forward) + sum(stages.backward) + max(c.latency_ns for c in machine.channels)
    tiers = {outer, *first.values()} - {device}
    into = {tier: rate_of(machine, tier, device, every, most_ns) for tier in tiers}
    out = rate_of(machine, device, outer, every, most_ns)
    ways = {tier: rate for tier, rate in into.items() if rate is not None}
    if out is None or len(ways) < len(into):
        return Outcome(
            refused="method pofo: found a channel too slow to count its bytes a ns, expected faster ones"
        )
    chain = OpChain(
        graph=graph,
        found=solution,
        inputs=inputs,
        tapes=tapes,
        given=given,
        memory=memory,
        out=out,
        back=ways[outer],
        outside=outer in problem.may_start(graph.tensors[inputs[0]].kind),
        tick=ticker(lambda: context.expired),
    )
    context.progress(f"segments of {len(inputs)} stages")
    segments = pofo(chain, slots)
    if segments is None and context.expired:
        return Outcome(reason="time")
    if segments is None:
        return Outcome(detail="found no plan of its form in the memory, counted in slots")
    started = {tier: ways[tier] for tier in first.values() if tier != device}
    context.offer(emit(chain, segments, machine, outer, first, started))
    away = sum(segment.away for segment in segments)
    return Outcome(
        reason="time" if context.expired else None,
        detail=f"{len(segments)} segments, {away} of whose inputs leave",
    )


def unchained(problem: Placement) -> str:
    """Return why the program does not serve a problem, whose graph must be a chain."""
    graph, machine = problem.graph, problem.machine
    question = Recompute(graph)
    if words := why_no_chain(question):
        return words
    fast, *others = machine.tiers
    if is_taped(graph):
        lost = {tier for op in graph.ops[: len(graph.ops) // 2] for _, tier in op.all_modes[1].operands}
        if fast.name != question.fast or not lost <= {tier.name for tier in others if tier.capacity is None}:
            return (
                f"found tiers {[tier.name for tier in machine.tiers]}, expected {question.fast!r} first, and "
                f"{sorted(lost)} without a limit, which modes name"
            )
    linked = {tier for c in machine.channels for tier in (c.src, c.dst)}
    access = [x for p in machine.processors for x in p.tiers if x.tier in {fast.name, *linked}]
    if [(x.tier, x.bytes_per_s) for x in access] != [(fast.name, None)]:
        return "found other processors, expected one that uses the first tier only"
    if (outer := _outer_tier(problem)) is None:
        nbytes = _kept_bytes(problem)
        return f"found no tier with channels from and to {fast.name!r} and room for {nbytes} bytes"
    _, inputs, _, given = stages_of(problem)
    for t in (inputs[0], *given):
        if _first_tier(problem, t, outer) is None:
            tensor = graph.tensors[t]
            return (
                f"found tensor {tensor.name!r} at first in {' or '.join(problem.may_start(tensor.kind))}, "
                f"expected a tier with room for it and a channel to {fast.name!r}"
            )
    return ""


def stages_of(problem: Placement) -> tuple[Costs, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the stages of a chain, what they begin with, what they save, and the gradient that is given."""
    graph = problem.graph
    if not is_taped(graph):
        plain = plain_chain(Recompute(graph), "pofo")
        return stages_of_plain(plain, in_place=False), plain.x, (), ()
    taped = taped_chain(Recompute(graph), "pofo")
    tapes = tuple(t for op in graph.ops[: taped.stages] for t, _ in op.all_modes[1].operands)
    given = (*(t for t in graph.ops[taped.stages].reads if graph.tensors[t].initial and t != taped.a[0]),)
    return stages_of_taped(taped), taped.a[:-1], tapes, given


def _kept_bytes(problem: Placement) -> int:
    """Return the bytes of all that may have to leave."""
    _, inputs, tapes, given = stages_of(problem)
    return sum(problem.graph.tensors[t].nbytes for t in (*inputs, *tapes[:-1], *given))


def _outer_tier(problem: Placement) -> str | None:
    """Return the tier where values go, None if there is none."""
    device, *outer = problem.machine.tiers
    channels, nbytes = {(c.src, c.dst) for c in problem.machine.channels}, _kept_bytes(problem)
    for tier in outer:
        both = {(device.name, tier.name), (tier.name, device.name)} <= channels
        if both and (tier.capacity is None or tier.capacity >= nbytes):
            return tier.name
    return None


def _first_tier(problem: Placement, t: int, outer: str) -> str | None:
    """Return where an initial tensor starts: on the device, else outside, else in a tier that leads there."""
    machine, tensor = problem.machine, problem.graph.tensors[t]
    device, tiers = machine.tiers[0].name, problem.may_start(tensor.kind)
    room = {tier.name for tier in machine.tiers if tier.capacity is None or tier.capacity >= tensor.nbytes}
    near = {outer} | {c.src for c in machine.channels if c.dst == device} & room
    return next((x for x in (device, outer, *tiers) if x in tiers and x in near | {device}), None)
