"""From the log of the planner's last iteration to a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ....models.graph import Graph
from ....models.machine import Machine
from ....models.plan import ByteRange, Copy, Free, Plan, Resident, Run
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
    runs, copies, frees = list[Run](), list[Copy](), list[Free]()
    start = _first(graph, work, tiers) if period is None else _start(graph, work, world, tiers)
    index, lows = work.index[world.chunk[kernel.OWNER]].tolist(), work.low.tolist()
    for kind, what, where, low, high, begin, end in world.log[: world.scalar[kernel.LOGGED]].tolist():
        if kind == kernel.LOG_RUN:
            runs.append(Run(what, numbers[what], begin, end, processor))
            continue
        t, base = index[what], lows[what]
        part = _part(graph, t, base + low, base + high)
        if kind == kernel.LOG_COPY:
            src, dst = ends[where]
            if period is not None and begin < 0:  # in flight at the boundary
                start.append(Resident(t, dst, part, valid=end <= 0))
                begin, end = begin + period, end + period
            copies.append(Copy(t, src, dst, begin, end, part))
        elif period is None or t not in last or begin < period:
            frees.append(Free(t, tiers[min(where, len(tiers) - 1)], begin, part))
    return Plan(
        machine=machine,
        accounting=graph.accounting,
        start=tuple(start),
        runs=tuple(runs),
        copies=tuple(copies),
        frees=tuple(frees),
        period=period,
        graph_name=graph.name,
        graph_source=graph.source,
        graph_sha256=graph.sha256,
    )


def _least_mode(graph: Graph, k: int) -> int:
    modes = graph.ops[k].all_modes
    return min(range(len(modes)), key=lambda m: (modes[m].workspace, modes[m].duration_ns))


def _part(graph: Graph, t: int, low: int, high: int) -> ByteRange | None:
    """Return a byte range; None for the whole tensor."""
    return None if low == 0 and high == graph.tensors[t].nbytes else (low, high)


def _first(graph: Graph, work: Workload, tiers: Sequence[str]) -> list[Resident]:
    """Return where tensors are before a single run."""
    places = work.tensor[kernel.PLACE, :-1].tolist()
    return [
        Resident(t, tiers[place - 1]) for t, place in zip(work.index.tolist(), places, strict=True) if place
    ]


def _start(graph: Graph, work: Workload, world: World, tiers: Sequence[str]) -> list[Resident]:
    """Return where persistent tensors and inputs are at the boundary, without what is in flight."""
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
    start = []
    for (t, tier), some in sorted(ranges.items()):
        start += [
            Resident(t, tier, _part(graph, t, a, b))
            for a, b in _merged(some)
            if a < b or not graph.tensors[t].nbytes
        ]
    accessed = set(work.index.tolist())
    for t, x in enumerate(graph.tensors):
        if x.initial and x.final and t not in accessed:
            start.append(Resident(t, tiers[-1]))
    return start


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges with adjacent ones joined."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        elif low < high or not joined:
            joined.append((low, high))
    return joined
