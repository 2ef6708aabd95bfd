"""From the log of the planner's last iteration to a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ....models.graph import Graph
from ....models.lowering.builder import PlanBuilder
from ....models.machine import Machine
from ....models.plan import Plan
from . import planner_kernel as kernel
from .planner_kernel import World
from .workload import Workload


def emitted_plan(
    graph: Graph,
    machine: Machine,
    work: Workload,
    world: World,
    period: int | None,
    tiers: Sequence[str],
) -> Plan:
    """Return the plan of a period, or of a single run.

    Parameters
    ----------
    graph, machine
        What it is for.
    work, world
        Of a simulation whose state repeats, the state at the boundary, the log of its last iteration; or of
        a single run.
    period
        ns; None for a single run.
    tiers
        Names of the device, host and slow tier.
    """
    ends = {
        kernel.HOST_OUT: (tiers[0], tiers[1]),
        kernel.HOST_IN: (tiers[1], tiers[0]),
        kernel.SLOW_OUT: (tiers[0], tiers[-1]),
        kernel.SLOW_IN: (tiers[-1], tiers[0]),
    }
    processor = machine.processors[0].name
    last = {t for t, x in enumerate(graph.tensors) if x.final and not x.initial}
    numbers = [_least_mode(graph, k) for k in range(len(graph.ops))]
    out = PlanBuilder(graph, machine)
    if period is None:
        places = work.tensor[kernel.PLACE, :-1].tolist()
        for t, place in zip(work.index.tolist(), places, strict=True):
            if place:
                out.start(t, tiers[place - 1])
    else:
        _start(out, work, world, tiers)
    index, lows = work.index[world.chunk[kernel.OWNER]].tolist(), work.low.tolist()
    for kind, what, where, low, high, begin, end in world.log[: world.scalar[kernel.LOGGED]].tolist():
        if kind == kernel.LOG_RUN:
            out.run(what, numbers[what], begin, end, processor)
            continue
        t, base = index[what], lows[what]
        part = out.part(t, base + low, base + high)
        if kind == kernel.LOG_COPY:
            src, dst = ends[where]
            if period is not None and begin < 0:  # in flight at the boundary
                out.start(t, dst, part, valid=end <= 0)
                begin, end = begin + period, end + period
            out.copy(t, src, dst, begin, end, part)
        elif period is None or t not in last or begin < period:
            out.free(t, tiers[min(where, len(tiers) - 1)], begin, part)
    return out.plan(period=period)


def _least_mode(graph: Graph, k: int) -> int:
    modes = graph.ops[k].all_modes
    return min(range(len(modes)), key=lambda m: (modes[m].workspace, modes[m].duration_ns))


def _start(out: PlanBuilder, work: Workload, world: World, tiers: Sequence[str]) -> None:
    """Put persistent tensors and inputs where they are at the boundary, without what is in flight."""
    ranges: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    landed = {}
    for channel in range(4):
        carried = int(world.channel[channel, kernel.CARRIED])
        if carried >= 0:
            landed[carried, channel] = int(world.channel[channel, kernel.LOW])
    entry, persistent = world.tensor[kernel.ENTRY].tolist(), world.tensor[kernel.PERSISTENT].tolist()
    for c, (i, nbytes, device, on_host, on_slow) in enumerate(world.chunk[:5].T.tolist()):
        t, low = int(work.index[i]), int(work.low[c])
        if entry[i]:
            for bit, tier in ((1, tiers[0]), (2, tiers[-1]), (4, tiers[1])):
                if entry[i] & bit:
                    ranges[t, tier].append((low, low + nbytes))
            continue
        if not persistent[i]:
            continue
        if device == kernel.PRESENT:
            ranges[t, tiers[0]].append((low, low + nbytes))
        elif device in (kernel.ARRIVING, kernel.STAGED):
            part = min(landed.get((c, ch), nbytes) for ch in (kernel.HOST_IN, kernel.SLOW_IN))
            ranges[t, tiers[0]].append((low, low + part))
        for held, channel, tier in (
            (on_host, kernel.HOST_OUT, tiers[1]),
            (on_slow, kernel.SLOW_OUT, tiers[-1]),
        ):
            if held == kernel.VALID:
                ranges[t, tier].append((low, low + nbytes))
            elif held == kernel.COMING:
                ranges[t, tier].append((low, low + landed[c, channel]))
    tensors = out.graph.tensors
    for (t, tier), some in sorted(ranges.items()):
        for a, b in _merged(some):
            if a < b or not tensors[t].nbytes:
                out.start(t, tier, out.part(t, a, b))
    accessed = set(work.index.tolist())
    for t, x in enumerate(tensors):
        if x.initial and x.final and t not in accessed:
            out.start(t, tiers[-1])


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges with adjacent ones joined."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        elif low < high or not joined:
            joined.append((low, high))
    return joined
