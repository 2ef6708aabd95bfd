"""From the steps of the search one by one to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ....models.graph import Op
from ....models.lowering.builder import PlanBuilder
from ....models.machine import Processor
from ....models.plan import Plan
from ....models.units import SECOND
from .tables import Execution, SerialMove, SerialTables, Where


def serial_emission(tables: SerialTables, start: Where, path: Sequence[SerialMove]) -> Plan:
    """Return the plan of steps, each begun when the one before has ended."""
    graph, names = tables.graph, tables.names
    now = 0
    where = list(start)
    out = PlanBuilder(graph, tables.machine)
    for t, bits in enumerate(start):
        for x in range(len(names)):
            if bits >> x & 1:
                out.start(t, names[x])

    def release(t: int, bits: int) -> None:
        for x in range(len(names)):
            if where[t] & bits & 1 << x:
                out.free(t, names[x], now)
        where[t] &= ~bits

    for t in range(len(where)):
        if not tables.needed(t, 0):
            release(t, -1)
    k = 0
    for step in path:
        if step.released is not None:
            release(step.released[0], 1 << step.released[1])
        elif step.copied is not None:
            t, src, dst = step.copied
            end = now + _copy_ns(tables, t, src, dst)
            out.copy(t, names[src], names[dst], now, end)
            where[t] |= 1 << dst
            now = end
        elif step.run is not None:
            run, op = step.run, graph.ops[k]
            for t, x in run.writes:
                release(t, ~(1 << x))
            end = now + _run_ns(tables, op, run, where)
            if tables.replace:
                for t in sorted({*op.reads} - {*op.writes}):
                    if not tables.needed(t, k + 1):
                        release(t, -1)
                for t, x in step.dropped:
                    release(t, 1 << x)
            out.run(k, run.mode, now, end, tables.machine.processors[run.processor].name)
            for t, x in run.writes:
                where[t] = 1 << x
            k, now = k + 1, end
            for t in sorted({*op.reads, *op.writes}):
                if not tables.needed(t, k):
                    release(t, -1)
    if tables.problem.periodic:
        for t, tensor in enumerate(graph.tensors):
            if tensor.initial:
                release(t, ~start[t])
    return out.plan(period=now if tables.problem.periodic else None)


def _copy_ns(tables: SerialTables, t: int, src: int, dst: int) -> int:
    """Return the ns of a copy, at least 1: at one instant frees come before starts."""
    pair = tables.names[src], tables.names[dst]
    channel = next(c for c in tables.machine.channels if (c.src, c.dst) == pair)
    rate = min([channel.bytes_per_s, *(g.bytes_per_s for g in tables.machine.groups if pair in g.channels)])
    return max(1, channel.latency_ns - (-tables.size[t] * SECOND // rate))


def _run_ns(tables: SerialTables, op: Op, run: Execution, where: Sequence[int]) -> int:
    """Return the ns of a run: the mode's, and those of slow accesses, each read where it is fastest."""
    processor = tables.machine.processors[run.processor]
    rates = {tables.names.index(access.tier): access.bytes_per_s for access in processor.tiers}
    touched = {*run.writes}
    for t, mask in run.reads:
        served = [x for x in rates if where[t] & mask & 1 << x]
        touched.add((t, min(served, key=lambda x: _slowness(processor, tables.names[x]))))
    extra = Fraction(0)
    for t, x in touched:
        if (rate := rates[x]) is not None:
            extra += Fraction(tables.size[t] * SECOND, rate)
    return op.all_modes[run.mode].duration_ns + int(-(-extra // 1))


def _slowness(processor: Processor, tier: str) -> tuple[float, int]:
    """Return what orders the tiers of a processor, the fastest first."""
    return next(
        (0.0 if access.bytes_per_s is None else 1 / access.bytes_per_s, k)
        for k, access in enumerate(processor.tiers)
        if access.tier == tier
    )
