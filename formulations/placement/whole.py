"""Plans of whole tensors on two tiers, from the times of everything.

The outer tier has no limit; copies move whole tensors, one at a time in each direction. A life (`data`) has
an *absence* between each two consecutive uses: its birth, its accesses and, if it is kept, the end. In each
absence it stays or is away once; it is copied out at most once, which stays valid.

Where channels have joint caps, each way keeps to a rate that leaves the other its own (`apart`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ...models.errors import UsageError
from ...models.lowering.builder import PlanBuilder
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..linear_program import SECOND
from .data import Lifetime, Link, PlacementData
from .states import weightless


@dataclass(frozen=True)
class Absence:
    """An absence: its life, the op of the use before it (-1: none) and of that behind it (n: the end)."""

    life: int
    before: int
    behind: int


@dataclass(frozen=True, kw_only=True)
class Timing:
    """When everything happens, in ns: starts of ops, of copies out by life; release and return by absence."""

    start: Sequence[int]
    out: dict[int, int]
    release: Sequence[int | None]
    back: Sequence[int | None]


def check(data: PlacementData, what: str) -> None:
    """Raise `UsageError` for a machine with another hierarchy."""
    found = None
    if len(data.outer) != 1:
        found = f"{len(data.outer)} outer tiers, expected one"
    elif data.outer[0].capacity is not None:
        found = f"capacity {data.outer[0].capacity} of {data.outer[0].name!r}, expected no limit"
    elif not (data.outer[0].out.rate and data.outer[0].into.rate):
        found = f"no channel to or from {data.outer[0].name!r}, expected both"
    if found:
        raise UsageError(f"{what}: found {found}")


def apart(data: PlacementData) -> PlacementData:
    """Return the data with rates at which a copy out and one in may always go, beside each other.

    A joint cap of one direction limits its rate; of one over both, each has its share of the cap, in
    proportion to the rates, if together they exceed it.

    Raises
    ------
    UsageError
        If a share is less than a byte per second.
    """
    host = data.outer[0]
    out, into = host.out.rate, host.into.rate
    for cap in data.caps:
        if cap.out and not cap.into:
            out = min(out, cap.rate)
        elif cap.into and not cap.out:
            into = min(into, cap.rate)
    for cap in data.caps:
        if cap.out and cap.into and out + into > cap.rate:
            out = max(1, out * cap.rate // (out + into))
            into = min(into, cap.rate - out)
    if into < 1:
        raise UsageError(f"channels of {host.name!r}: found a joint cap of 1 byte per second, expected more")
    own = replace(host, out=replace(host.out, rate=out), into=replace(host.into, rate=into))
    return replace(data, outer=(own,), caps=())


def copy_time(nbytes: int, link: Link) -> int:
    """Return the ns of a copy: its latency and its bytes, rounded up."""
    return link.latency - (-nbytes * SECOND // link.rate)


def is_clean(life: Lifetime) -> bool:
    """Whether the outer tier may have a copy from the start."""
    return life.born < 0 and life.outer[0]


def absences(data: PlacementData) -> tuple[Absence, ...]:
    """Return the absences, life by life."""
    found = []
    for number, life in enumerate(data.lives):
        uses = [life.born, *life.accesses, *([data.n] if life.kept else [])]
        found += [Absence(number, before, behind) for before, behind in pairwise(uses)]
    return tuple(found)


def longest_stall(data: PlacementData) -> int:
    """Return ns of stall that suffice if there is a plan at all: all copies, one after the other.

    The order of any plan, whatever its copies share, leads to the end (`timing`): what something waits for
    comes before it in the plan. In such a timing something is under way at every moment.
    """
    host = data.outer[0]
    total = 0
    for absence in absences(data):
        nbytes = data.lives[absence.life].nbytes
        total += copy_time(nbytes, host.out) + copy_time(nbytes, host.into)
    return total


def plan(data: PlacementData, problem: Placement, some: Sequence[Absence], times: Timing) -> Plan:
    """Return the plan of a timing."""
    machine, graph = problem.machine, problem.graph
    device, host = (tier.name for tier in machine.tiers)
    out = PlanBuilder(graph, machine)
    first = weightless(problem)
    delay = max((ns for _, _, ns in first), default=0)  # everything waits for them
    by_life: dict[int, list[int]] = {}
    for g, absence in enumerate(some):
        by_life.setdefault(absence.life, []).append(g)
    born = {(life.tensor, life.born) for life in data.lives}
    for number, life in enumerate(data.lives):
        t, own = life.tensor, by_life.get(number, [])
        away = [g for g in own if times.release[g] is not None]
        first_away = is_clean(life) and bool(own) and times.release[own[0]] is not None
        clean = is_clean(life) and bool(away)
        if life.born < 0:
            for tier, there in ((device, not first_away), (host, clean)):
                if there:
                    out.start(t, tier)
        done = 0
        if number in times.out:
            at = times.out[number]
            done = at + copy_time(life.nbytes, data.outer[0].out)
            out.copy(t, device, host, at + delay, done + delay)
        for g in away:
            released, back = times.release[g], times.back[g]
            assert released is not None
            if not (first_away and g == own[0]):
                out.free(t, device, released + delay)
            if back is not None:
                taken = copy_time(life.nbytes, data.outer[0].into)
                out.copy(t, host, device, back + delay, back + taken + delay)
        if not life.kept:
            last = life.accesses[-1]
            if number in times.out or clean:
                out.free(t, host, max(times.start[last], done) + delay)
            if t not in graph.ops[last].writes:
                out.free(t, device, times.start[last] + data.duration[last] + delay)
    for k, op in enumerate(graph.ops):
        for t in op.writes:
            if graph.tensors[t].nbytes and (t, k) not in born:
                out.free(t, device, times.start[k] + data.duration[k] + delay)
    for t, tier, ns in first:
        out.start(t, tier)
        if tier != device:
            out.copy(t, tier, device, 0, ns)
    for k, (s, d) in enumerate(zip(times.start, data.duration, strict=True)):
        out.run(k, 0, s + delay, s + d + delay, machine.processors[0].name)
    return out.plan()
