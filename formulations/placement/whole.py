"""Plans of whole tensors that follow from an order: who leaves, in which order copies go and room is taken.

Two tiers, the outer one without limit; copies move whole tensors, one at a time in each direction. A life
(`data`) has an *absence* between each two consecutive uses: its birth, its accesses and, if it is kept,
the end. In each absence it stays or is away once; it is copied out at most once, which stays valid.

An *order* says which absences are away, in which order lives are copied out, and in which order ops start and
returns begin: these take room in the fast memory, one after the other. Everything else follows, each thing as
early as it can: a copy out begins when its life is born and the copy before it is through; an away life is
released when it has its copy and its last use is through; a return or an op begins when the one before it in
the order has begun, there is room, and what it needs is there.

Where channels have joint caps, each way keeps to a rate that leaves the other its own (`apart`).

*What an order loses.* Without joint caps of both ways, nothing: take any feasible plan of this kind and its
own order. By induction along the order, with the same copies out before each moment, everything happens no
later than in the plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ...models.errors import UsageError
from ...models.lowering.builder import PlanBuilder
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..linear_program import SECOND
from .data import Lifetime, Link, PlacementData, weightless


@dataclass(frozen=True)
class Absence:
    """An absence: its life, the op of the use before it (-1: none) and of that behind it (n: the end)."""

    life: int
    before: int
    behind: int


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is decided.

    Attributes
    ----------
    away
        Per absence, whether the life is away.
    out
        Lives that are copied out, in their order.
    room
        Ops as ``(k, -1)`` and returns as ``(behind, absence)``, in the order in which they take room.
    """

    away: Sequence[bool]
    out: Sequence[int]
    room: Sequence[tuple[int, int]]


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


@dataclass
class _Walk:
    """The time reached in the order, and what is known so far."""

    data: PlacementData
    used: int
    clock: int = 0
    releases: list[tuple[int, int]] = field(default_factory=list)
    """Heap of moments and bytes."""

    def take(self, nbytes: int, earliest: int) -> bool:
        """Take room at the first moment from `earliest` on that has enough; False if none has."""
        self.clock = max(self.clock, earliest)
        while self.releases and (self.releases[0][0] <= self.clock or self.used + nbytes > self.data.memory):
            moment, gone = heapq.heappop(self.releases)
            self.clock = max(self.clock, moment)
            self.used -= gone
        self.used += nbytes
        return self.used <= self.data.memory


def timing(data: PlacementData, problem: Placement, some: Sequence[Absence], order: Order) -> Timing | None:
    """Return when everything happens in an order; None if room is never enough, or the order is impossible.

    Parameters
    ----------
    data, problem
        See `data`.
    some
        From `absences`.
    order
        It names every op once, and the return of each away absence that does not lead to the end.
    """
    host = data.outer[0]
    first_away = {g.life for g, away in zip(some, order.away, strict=True) if away and g.before < 0}
    at_start = [n for n, life in enumerate(data.lives) if life.born < 0 and life.device]
    used = sum(data.lives[n].nbytes for n in at_start if not _starts_away(data.lives[n], n, first_away))
    if used > data.memory:
        return None
    walk = _Walk(data, used)
    by_use: dict[int, list[int]] = {}
    for g, absence in enumerate(some):
        if order.away[g]:
            by_use.setdefault(absence.before, []).append(g)
    start, end = [-1] * data.n, {-1: 0}
    out, copied = dict[int, int](), dict[int, int]()
    release: list[int | None] = [None] * len(some)
    back: list[int | None] = [None] * len(some)
    arrived = dict[int, int]()
    queue, out_free, in_free = list(order.out), 0, 0

    def settle(k: int) -> None:
        """Begin the copies out that may begin now that op k is placed, and release what may be released."""
        nonlocal out_free
        fresh = list(by_use.get(k, ()))
        while queue and data.lives[queue[0]].born in end:
            number = queue.pop(0)
            out[number] = max(out_free, end[data.lives[number].born])
            out_free = copied[number] = out[number] + copy_time(data.lives[number].nbytes, host.out)
            fresh += [g for g, absence in enumerate(some) if absence.life == number and absence.before in end]
        for g in fresh:
            life = data.lives[some[g].life]
            if not order.away[g] or release[g] is not None:
                continue
            if is_clean(life) or some[g].life in copied:
                moment = max(end[some[g].before], copied.get(some[g].life, 0))
                release[g] = moment
                if not (some[g].before < 0 and _starts_away(life, some[g].life, first_away)):
                    heapq.heappush(walk.releases, (moment, life.nbytes))

    settle(-1)
    for k, g in order.room:
        if g >= 0:
            released = release[g]
            if released is None:
                return None
            if not walk.take(data.lives[some[g].life].nbytes, max(in_free, released)):
                return None
            back[g] = walk.clock
            in_free = arrived[g] = walk.clock + copy_time(data.lives[some[g].life].nbytes, host.into)
            continue
        ready = [arrived.get(i) for i, absence in enumerate(some) if absence.behind == k and order.away[i]]
        if None in ready:
            return None
        earliest = max([end.get(k - 1, -1), *(moment for moment in ready if moment is not None)])
        if k - 1 not in end or not walk.take(_births(problem, k), earliest):
            return None
        start[k], end[k] = walk.clock, walk.clock + data.duration[k]
        heapq.heappush(walk.releases, (end[k], _deaths(data, problem, k)))
        settle(k)
    if queue or min(start) < 0:
        return None
    return Timing(start=start, out=out, release=release, back=back)


def _starts_away(life: Lifetime, number: int, first_away: set[int]) -> bool:
    """Whether an initial life is not in the fast memory at time 0."""
    return not life.device or (is_clean(life) and number in first_away)


def _births(problem: Placement, k: int) -> int:
    """Return the bytes that op k needs besides what is there: its workspace and what it writes anew."""
    op = problem.graph.ops[k]
    new = set(op.writes) - set(op.reads)
    return op.all_modes[0].workspace + sum(problem.graph.tensors[t].nbytes for t in new)


def _deaths(data: PlacementData, problem: Placement, k: int) -> int:
    """Return the bytes that op k releases at its end."""
    graph, op = problem.graph, problem.graph.ops[k]
    living = {life.tensor for life in data.lives if life.born == k}
    living |= {
        life.tensor
        for life in data.lives
        if life.tensor not in op.writes and life.born < k and (life.kept or life.accesses[-1] > k)
    }
    gone = {*op.reads, *op.writes} - living
    return op.all_modes[0].workspace + sum(graph.tensors[t].nbytes for t in gone)


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
