r"""Lowering: from the orders of streams, or from stages, to the plan of a device with contention.

Events under ``proportional`` contention are those of a processor-sharing queue: between two events all that
runs advances at the rate :math:`\min(1, S / \sum_i u_i)`. Each event is put off to the next whole nanosecond.
With :math:`U \ge 2^{32}` a power of 2 above the sum of all shares, rates are rounded down to multiples of
:math:`2^{-64} / U`, and an op is done when at most 1 / U ns of it is left. What is then missing of all ops is
below one part times ns, and whether works fit is a maximum flow in integers, which lacks none or at least
one: so the plan is possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..derived.precedence import precedence
from ..derived.streams import stream_edges
from ..machine import Access, Contention, Machine, Processor, Tier
from ..plan import Run
from .builder import PlanBuilder

if TYPE_CHECKING:
    from ..graph import Graph
    from ..plan import Plan

_TIER = "memory"
_LEFT = 1 << 64
"""Units of work that may be left of an op that is taken as done."""


def stream_machine(streams: int, contention: Contention, memory: int | None) -> Machine:
    """Return the machine of a device with streams `s0`, `s1`, … and one memory."""
    access = (Access(tier=_TIER),)
    plain = contention.model == "none" and not contention.sync_ns
    return Machine(
        name="streams",
        tiers=(Tier(name=_TIER, capacity=memory),),
        processors=tuple(Processor(name=f"s{k}", tiers=access) for k in range(max(streams, 1))),
        contention=None if plain else contention,
    )


def share_of(graph: Graph, i: int, parts: int) -> int:
    """Return the parts of the device that op i can fill."""
    share = graph.ops[i].all_modes[0].share
    return parts if share is None else min(share, parts)


def stream_runs(
    graph: Graph,
    streams: Sequence[Sequence[int]],
    contention: Contention,
    waits: Sequence[tuple[int, int]] = (),
    *,
    devices: Sequence[int] = (),
    transfers: Mapping[tuple[int, int], int] = MappingProxyType({}),
) -> list[Run]:
    """Return the runs, each stream starting its next op as soon as what precedes it has ended.

    Parameters
    ----------
    graph, streams
        The orders must agree with the precedence; nothing else is checked (the verifier does).
    contention
        Of each device.
    waits
        Pairs of ops, the first of which is to end before the second starts, besides the precedence.
    devices
        Of each stream; empty: there is one device.
    transfers
        Nanoseconds from the end of an op until what it writes is on another device, for an op there.

    Notes
    -----
    All that runs on a device advances at one rate, so the time that an op would have had alone by now is that
    of all: an op ends when this *virtual time* has grown by its own time since it began.
    """
    n = len(graph.ops)
    alone = [op.all_modes[0].duration_ns for op in graph.ops]
    shares = [share_of(graph, i, contention.parts) for i in range(n)]
    full = _LEFT << max(32, sum(shares).bit_length())  # units of work in a nanosecond alone
    stream = {i: k for k, some in enumerate(streams) for i in some}
    on = [devices[stream[i]] if devices else 0 for i in range(n)]
    after: list[list[int]] = [list(some) for some in precedence(graph).successors]
    for i, j in (*stream_edges(streams), *waits):
        after[i].append(j)
    missing = [0] * n
    for some in after:
        for j in some:
            missing[j] += 1
    begun, ended, ready = [0] * n, [0] * n, [0] * n
    waiting = [(0, i) for i in range(n) if not missing[i]]
    count = max(devices, default=0) + 1
    running: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    virtual, asked = [0] * count, [0] * count
    now = 0
    while waiting or any(running):
        while waiting and waiting[0][0] <= now:
            _, i = heappop(waiting)
            begun[i] = now
            asked[on[i]] += shares[i]
            heappush(running[on[i]], (virtual[on[i]] + alone[i] * full, i))
        rates = [full if u <= contention.parts else contention.parts * full // u for u in asked]
        if contention.model == "none":
            rates = [full] * count
        steps = [
            max(1, -(-(some[0][0] - v - _LEFT) // rate))
            for some, v, rate in zip(running, virtual, rates, strict=True)
            if some
        ]
        step = min([*steps, *([waiting[0][0] - now] if waiting else [])])
        now += step
        for d, busy in enumerate(running):
            virtual[d] += rates[d] * step
            while busy and busy[0][0] - virtual[d] <= _LEFT:
                _, i = heappop(busy)
                ended[i] = now
                asked[d] -= shares[i]
                for j in after[i]:
                    lag = contention.sync_ns if stream[i] != stream[j] else 0
                    if on[j] != d:
                        lag = max(lag, transfers.get((i, j), 0))
                    ready[j] = max(ready[j], now + lag)
                    missing[j] -= 1
                    if not missing[j]:
                        heappush(waiting, (ready[j], j))
    names = _names(devices) if devices else [f"s{k}" for k in range(len(streams))]
    return [Run(i, 0, begun[i], ended[i], names[stream[i]]) for i in range(n)]


def _names(devices: Sequence[int]) -> list[str]:
    """Return the names of streams: of which device, and which of it."""
    return [f"d{d}s{devices[:k].count(d)}" for k, d in enumerate(devices)]


def stage_prices(
    graph: Graph, stages: Sequence[Sequence[Sequence[int]]], contention: Contention
) -> list[int]:
    """Return the nanoseconds of each stage, rounded up; formulas at `Contention`."""
    parts, half = contention.parts, contention.model == "half-serial"
    alone = [op.all_modes[0].duration_ns for op in graph.ops]
    work = [ns * share_of(graph, i, parts) for i, ns in enumerate(alone)]
    prices = []
    for groups in stages:
        lengths = [sum([alone[i] for i in group]) for group in groups]
        fluid = max(parts * max(lengths, default=0), sum([work[i] for group in groups for i in group]))
        price = -(-(parts * sum(lengths) + fluid) // (2 * parts)) if half else -(-fluid // parts)
        prices.append(price + contention.sync_ns * (len(groups) > 1))
    return prices


def lower_stages(
    graph: Graph,
    stages: Sequence[Sequence[Sequence[int]]],
    contention: Contention,
    memory: int | None = None,
) -> Plan:
    """Return the plan that runs the stages one after another, the ops of each group stretched to fill it.

    What a stage reads or writes and nothing later needs is freed at its end, so that the memory of a stage
    does not depend on how its groups happen to overlap.
    """
    machine = stream_machine(max(map(len, stages), default=0), contention, memory)
    out = PlanBuilder(graph, machine)
    begins, now = [], 0
    released: dict[int, int] = {}
    for groups, price in zip(stages, stage_prices(graph, stages, contention), strict=True):
        begins.append(now)
        end = now + price
        for k, group in enumerate(groups):
            total = sum(graph.ops[i].all_modes[0].duration_ns for i in group)
            done = 0
            for i in group:
                first = now + (end - now) * done // total
                done += graph.ops[i].all_modes[0].duration_ns
                out.run(i, 0, first, now + (end - now) * done // total, f"s{k}")
                released |= dict.fromkeys((*graph.ops[i].reads, *graph.ops[i].writes), end)
        now = end
    out.start_used(_TIER)
    for t in sorted(released):
        if not graph.tensors[t].final:
            out.free(t, _TIER, released[t])
    return out.plan(stages=tuple(begins))
