"""From the log of the planner's last iteration to a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from ....models.graph import Graph
from ....models.lowering.builder import PlanBuilder
from ....models.machine import Machine
from ....models.plan import Plan
from ..world import channels as names
from ..world.emission import Action, plan_of_log
from .tables import PlannerTables
from .workload import Workload


def emitted_plan(
    graph: Graph,
    machine: Machine,
    work: Workload,
    world: PlannerTables,
    period: int | None,
    tiers: Sequence[str],
    tick: Callable[[], object],
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
    tick
        Is called again and again, and may raise.
    """
    out = PlanBuilder(graph, machine)
    if period is None:
        places = work.tensor["place"][:-1].tolist()
        for t, place in zip(work.index.tolist(), places, strict=True):
            if place:
                out.start(t, tiers[place - 1])
    else:
        _start(out, work, world, tiers)
    return plan_of_log(out, _actions(out, work, world, period, tick), tiers, period)


def _actions(
    out: PlanBuilder, work: Workload, world: PlannerTables, period: int | None, tick: Callable[[], object]
) -> Iterator[Action]:
    """Yield the rows of the log, but no release of an output at the end of the period: there it leaves."""
    outputs = {t for t, x in enumerate(out.graph.tensors) if x.final and not x.initial}
    each = (len(world.op) - 1) // len(out.graph.ops)
    index, lows = work.index[world.chunk["owner"]].tolist(), work.low.tolist()
    for kind, what, where, low, high, start, end in world.log[: world.state[0].logged].tolist():
        if kind == names.LOG_RUN:
            tick()
            yield kind, what // each, 0, None, start, end
            continue
        t, base = index[what], lows[what]
        if kind == names.LOG_COPY or period is None or t not in outputs or start < period:
            yield kind, t, where, out.part(t, base + low, base + high), start, end


def _start(out: PlanBuilder, work: Workload, world: PlannerTables, tiers: Sequence[str]) -> None:
    """Put persistent tensors and inputs where they are at the boundary, without what is in flight."""
    ranges: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    landed = {(int(x.carried), channel): int(x.low) for channel, x in enumerate(world.channel)}
    entry, persistent = world.tensor["entry"].tolist(), world.tensor["persistent"].tolist()
    for c, (i, nbytes, device, on_host, on_slow, *_) in enumerate(world.chunk.tolist()):
        t, low = int(work.index[i]), int(work.low[c])
        if entry[i]:
            for bit, tier in ((1, tiers[0]), (2, tiers[-1]), (4, tiers[1])):
                if entry[i] & bit:
                    ranges[t, tier].append((low, low + nbytes))
            continue
        if not persistent[i]:
            continue
        if device == names.PRESENT:
            ranges[t, tiers[0]].append((low, low + nbytes))
        elif device in (names.ARRIVING, names.STAGED):
            part = min(landed.get((c, ch), nbytes) for ch in (names.HOST_IN, names.SLOW_IN))
            ranges[t, tiers[0]].append((low, low + part))
        for held, channel, tier in (
            (on_host, names.HOST_OUT, tiers[1]),
            (on_slow, names.SLOW_OUT, tiers[-1]),
        ):
            if held == names.VALID:
                ranges[t, tier].append((low, low + nbytes))
            elif held == names.COMING:
                ranges[t, tier].append((low, low + landed[c, channel]))
    tensors = out.graph.tensors
    for (t, tier), spans in sorted(ranges.items()):
        for a, b in _merged(spans):
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
