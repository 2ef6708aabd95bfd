"""`pofo`: the chain of a placement in which ops may run again, and the plan of the program's segments."""

from __future__ import annotations

from ....formulations.model import ticker
from ....models.errors import UsageError
from ....models.graph import Accounting
from ....models.problems.placement import Placement
from ....models.problems.recompute import Recompute
from ...context import Context, Outcome
from ...recompute.chains.chain import plain_chain
from ...recompute.chains.hetero import program, stages_of_plain
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
        If the graph is no plain chain, ops may not run again, copies must be whole, or no outer tier has room
        for every value and channels from and to the device.
    """
    if not problem.recompute:
        raise UsageError("method pofo: found ops that run once, expected --recompute")
    if problem.whole:
        raise UsageError("method pofo: found copies of whole tensors, expected copies of parts")
    graph, machine = problem.graph, problem.machine
    if graph.accounting is not Accounting.COEXIST:
        raise UsageError(f"method pofo: found accounting {graph.accounting}, expected coexist")
    numbers = plain_chain(Recompute(graph), "pofo")
    outer = _outer_tier(problem, sum(numbers.x_bytes))
    device = machine.tiers[0].name
    context.raise_bound(sum(op.all_modes[0].duration_ns for op in graph.ops), kind="each op once")
    stages = stages_of_plain(numbers, in_place=False)
    every = 2 * sum(tensor.nbytes for tensor in graph.tensors) + max(stages.back) + max(stages.need_next)
    memory = every if machine.tiers[0].capacity is None else min(machine.tiers[0].capacity, every)
    slots = context.options.get("memory-slots", SLOTS)
    found = program(stages, memory, slots, lambda length: not context.expired)
    if found is None:
        return Outcome(reason="time")
    first = problem.may_start(graph.tensors[numbers.x[0]].kind)
    most_ns = sum(numbers.forward_ns) + sum(numbers.backward_ns) + max(c.latency_ns for c in machine.channels)
    chain = Chain(
        graph=graph,
        found=found,
        x=numbers.x,
        memory=memory,
        out=rate_of(machine, device, outer, every, most_ns),
        back=rate_of(machine, outer, device, every, most_ns),
        outside=outer in first,
        tick=ticker(lambda: context.expired),
    )
    context.progress(f"segments of {len(chain.x)} stages")
    segments = pofo(chain, slots)
    if segments is None and context.expired:
        return Outcome(reason="time")
    if segments is None:
        return Outcome(detail="found no plan of its form in the memory, counted in slots")
    context.offer(emit(chain, segments, machine, outer, inside=device in first))
    away = sum(segment.away for segment in segments)
    return Outcome(
        reason="time" if context.expired else None,
        detail=f"{len(segments)} segments, {away} of whose inputs leave",
    )


def _outer_tier(problem: Placement, nbytes: int) -> str:
    """Return the tier where values go; raise unless there is one, beside one processor on the device."""
    machine = problem.machine
    device = machine.tiers[0]
    access = [x for processor in machine.processors for x in processor.tiers]
    if len(machine.processors) > 1 or [(x.tier, x.bytes_per_s) for x in access] != [(device.name, None)]:
        raise UsageError("method pofo: found other processors, expected one that uses the first tier only")
    channels = {(c.src, c.dst) for c in machine.channels}
    for tier in machine.tiers[1:]:
        both = {(device.name, tier.name), (tier.name, device.name)} <= channels
        if both and (tier.capacity is None or tier.capacity >= nbytes):
            return tier.name
    raise UsageError(
        f"method pofo: found no tier with channels from and to {device.name!r} and room for {nbytes} bytes"
    )
