r"""Plans of whole tensors that follow from an order, on any tiers, single runs and periods.

A *stay* is a life (`states`) whole in one tier: it begins at the birth, at time 0, or with a *copy* from
another stay, and ends when its last use has ended: an op that accesses it (under ``replace``, one that only
reads it uses it at its start alone), a copy from it, or the end of the iteration. *Events* are the starts of
ops, of copies and of the iteration. An *order* says which stays there are, and in which order events come,
within the iteration; in a period that order repeats.

*Times.* Each event starts as early as it can: behind the op, copies and births that it needs; copies on one
channel, or on channels whose joint cap does not carry all of them at once, one after another in the order
(those of a *batch* share their channel: they begin and end together, after as long as all their bytes take);
and what takes room in a tier behind the event before it that takes room there, and behind the ends of as many
stays, those of the first ends first, as make enough of it. These are constraints :math:`S_j + h_{ij} \Pi \ge
S_i + w_{ij}` with h iterations between the two and the period :math:`\Pi`: a longest path in a single run
(h = 0 only), and the least period without a cycle of positive length otherwise. By induction along the order
no tier holds more than its capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ....models.units import SECOND
from ..states import StateData

WARM = 4
"""Iterations of a period after which the walk along an order repeats."""

At = tuple[int, int]
"""An event, and how many iterations later."""


@dataclass(kw_only=True)
class EventResidency:
    """A life in a tier: the event with which it begins, or None; the events whose ends it lasts to.

    `since` orders the stays of a life; `last`: whether the last access of the life is in it.
    """

    life: int
    tier: int
    begin: At | None
    uses: list[At] = field(default_factory=list)
    since: float = 0.0
    last: bool = False


@dataclass(frozen=True, kw_only=True)
class Copying:
    """A copy of a life on a channel, and its place in the order: when it begins and ends, as instants.

    Copies on a channel of the same `batch` (-1: none) share it, and begin and end together.
    """

    life: int
    way: int
    begin: float
    end: float
    batch: int = -1


@dataclass(kw_only=True)
class Order:
    """What is decided. Events are ops 0..n-1, the beginning n of the iteration, then the copies.

    Attributes
    ----------
    stays, copies
        What there is.
    place
        Per op, its place in the order: its start and its end.
    length
        Places in an iteration.
    """

    stays: list[EventResidency]
    copies: list[Copying]
    place: Sequence[tuple[float, float]]
    length: int


@dataclass(frozen=True, kw_only=True)
class Timing:
    """When events start, in ns from the beginning of the iteration; the period, or None."""

    start: Sequence[int]
    period: int | None


def longest_stall(data: StateData) -> int:
    """Return ns of stall that suffice if there is a plan at all, for as many moves as any sensible plan has.

    Between two uses, a life leaves and returns, through every tier on its way, one copy after the other.
    """
    rate = rates(data, beside=True)[0]
    total = 0
    for life in data.lives:
        once = sum(way.latency - (-life.nbytes * SECOND // r) for way, r in zip(data.ways, rate, strict=True))
        total += once * (len(life.accesses) + 1)
    return total


def rates(data: StateData, *, beside: bool) -> tuple[list[int], list[list[int]]]:
    """Return the rate of each channel, and groups of channels that carry one copy at a time together.

    Parameters
    ----------
    data
        From `states`.
    beside
        Whether channels under a joint cap share it in proportion to their rates, rather than to take turns.
    """
    rate = [way.rate for way in data.ways]
    for ways, cap in data.caps:
        for w in ways:
            rate[w] = max(1, min(rate[w], cap))
    turns = []
    for ways, cap in data.caps:
        total = sum(rate[w] for w in ways)
        if total > cap and beside:
            for w in ways:
                rate[w] = max(1, rate[w] * cap // total)
        elif total > cap:
            turns.append(list(ways))
    return rate, turns


@dataclass
class _Graph:
    """The constraints: events, ns and iterations between them."""

    rows: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, first: At, then: At, wait: int) -> None:
        """`then` starts no earlier than so many ns behind the start of `first`."""
        self.rows.append((first[0], then[0], wait, then[1] - first[1]))

    def longest(self, events: int, period: int | None) -> list[int] | None:
        """Return the earliest starts; None if there is a cycle of positive length."""
        arcs = np.array([row for row in self.rows if period is not None or not row[3]], dtype=np.int64)
        start = np.zeros(events, dtype=np.int64)
        if not len(arcs):
            return [0] * events
        wait = arcs[:, 2] - arcs[:, 3] * (period or 0)
        for _ in range(events + 1):
            following = start.copy()
            np.maximum.at(following, arcs[:, 1], start[arcs[:, 0]] + wait)
            if np.array_equal(following, start):
                return [int(s) for s in start]
            start = following
        return None


def lasts(data: StateData, stay: EventResidency, event: int) -> bool:
    """Return whether a use of a stay lasts to the end of an event, or ends as that starts."""
    return event >= data.n or stay.life < 0 or data.lives[stay.life].tensor in data.keeps[event]


def timing(data: StateData, order: Order, *, beside: bool = False) -> Timing | None:
    """Return when events start in an order; None if room is never enough, or the order is impossible."""
    rate, turns = rates(data, beside=beside)
    n, graph = data.n, _Graph()
    length = lengths(data, order, rate)
    first: dict[int, int] = {}
    for event, copy in enumerate(order.copies, n + 1):
        if copy.batch >= 0 and first.setdefault(copy.batch, event) != event:
            graph.add((first[copy.batch], 0), (event, 0), 0)
            graph.add((event, 0), (first[copy.batch], 0), 0)
    for k in range(n):
        graph.add((k - 1, 0) if k else (n, 0), (k, 0), data.duration[k - 1] if k else 0)
    graph.add((n - 1, 0), (n, 1), data.duration[-1])
    for stay in order.stays:
        for event, later in stay.uses:
            if stay.begin is not None and event != stay.begin[0]:
                wait = length[stay.begin[0]]
                graph.add(stay.begin, (event, later), wait)
            elif stay.begin is None and event > n and not data.lives[stay.life].lasting:
                graph.add((n, 0), (event, later), 0)
            if event > n and not data.lives[stay.life].lasting:
                graph.add((event, later), (n, 1), length[event])
            life = data.lives[stay.life]
            if life.lasting and stay.begin is not None and not life.starts[stay.tier]:
                graph.add((n, stay.begin[1]), stay.begin, 0)  # it is not there between iterations
                used = length[event] if lasts(data, stay, event) else 0
                graph.add((event, later), (n, stay.begin[1] + 1), used)
    _one_by_one(data, order, length, graph)
    if not _EventWalk(data, order, length, graph).take(turns):
        return None
    events = n + 1 + len(order.copies)
    if not data.periodic:
        start = graph.longest(events, None)
        return None if start is None else Timing(start=start, period=None)
    return _in_least_period(graph, events, n, max(1, data.ideal), sum(length) + data.ideal)


def _in_least_period(graph: _Graph, events: int, first: int, low: int, most: int) -> Timing | None:
    """Return the times, from that of `first` on, in the least period of `low` to `most` ns that has some."""
    high = max(low, most)
    if graph.longest(events, high) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if graph.longest(events, middle) is None:
            low = middle + 1
        else:
            high = middle
    start = graph.longest(events, high)
    assert start is not None
    return Timing(start=[s - start[first] for s in start], period=high)


def lengths(data: StateData, order: Order, rate: Sequence[int]) -> list[int]:
    """Return the ns of all events: a copy takes what all bytes of its batch do."""
    total: dict[int, int] = {}
    for copy in order.copies:
        total[copy.batch] = total.get(copy.batch, 0) + data.lives[copy.life].nbytes
    length = [*data.duration, 0]
    for copy in order.copies:
        nbytes = total[copy.batch] if copy.batch >= 0 else data.lives[copy.life].nbytes
        length.append(data.ways[copy.way].latency - (-nbytes * SECOND // rate[copy.way]))
    return length


def _one_by_one(data: StateData, order: Order, length: Sequence[int], graph: _Graph) -> None:
    """Let the stays of a tensor in a tier follow each other."""
    stays_of: dict[tuple[int, int], list[EventResidency]] = {}
    for stay in order.stays:
        stays_of.setdefault((data.lives[stay.life].tensor, stay.tier), []).append(stay)
    for stays in stays_of.values():
        stays.sort(key=lambda stay: stay.since)
        again = [(stays[0], 1)] if data.lives[stays[0].life].lasting or len(stays) > 1 else []
        for stay, (following, later) in zip(stays, [*((x, 0) for x in stays[1:]), *again], strict=False):
            if following.begin is None or (later and not data.periodic):
                continue
            event, shift = following.begin
            for i, y in stay.uses:
                if (i, y) != (event, shift + later) and i != data.n:
                    graph.add((i, y), (event, shift + later), length[i] if lasts(data, stay, i) else 0)


Held = tuple[float, int, EventResidency, int]
"""Until which place something holds room, its bytes, its stay, and the iteration from which that counts."""


class _EventWalk:
    """Walks along the order, takes turns on channels and room in tiers, and notes who waits for whom."""

    def __init__(self, data: StateData, order: Order, length: Sequence[int], graph: _Graph) -> None:
        self.data, self.order, self.length, self.graph = data, order, length, graph
        self.place = [*order.place, (0.0, 0.0), *((copy.begin, copy.end) for copy in order.copies)]
        self.takes: dict[int, list[EventResidency]] = {}
        self.used = [0] * len(data.capacity)
        self.constant = [0] * data.n
        """By op, bytes that it accesses of what never leaves."""
        self.held: list[list[Held]] = [[] for _ in data.capacity]
        self.done: dict[int, int] = {}
        self.noted = False
        for stay in order.stays:
            life = data.lives[stay.life]
            if stay.begin is None and life.lasting:
                self.used[stay.tier] += life.nbytes
                for event, _ in stay.uses:
                    if event < data.n and not stay.tier and life.tensor in data.keeps[event]:
                        self.constant[event] += life.nbytes
            else:
                self.takes.setdefault(data.n if stay.begin is None else stay.begin[0], []).append(stay)

    def take(self, turns: Sequence[Sequence[int]]) -> bool:
        """Walk, in a period until it repeats; return whether there is room for all."""
        data, n = self.data, self.data.n
        line = sorted(range(len(self.place)), key=lambda i: (i != n, self.place[i], i))
        groups = [[w] for w in range(len(data.ways))] + [list(some) for some in turns]
        carried: list[At | None] = [None] * len(groups)
        taken: list[At | None] = [None] * len(data.capacity)
        rounds = WARM if data.periodic else 1
        for turn in range(rounds):
            self.noted = turn == rounds - 1
            for event in line:
                at = event, turn
                self.done[event] = turn
                for g, group in enumerate(groups):
                    if event > n and self.order.copies[event - n - 1].way in group:
                        if (last := carried[g]) is not None and not self._beside(last, at):
                            self._wait(last, at, self.length[last[0]])
                        carried[g] = at
                for tier, nbytes, more in self._demands(at):
                    if not self._release(tier, nbytes, at) and self.noted:
                        return False
                    before = taken[tier]
                    if before is not None and before != at and self.noted:
                        self.graph.add(before, at, 0)
                    taken[tier] = at
                    self.used[tier] += nbytes
                    self.held[tier] += more
        return True

    def _beside(self, first: At, then: At) -> bool:
        """Whether two copies are of one batch."""
        batch = self.order.copies[first[0] - self.data.n - 1].batch
        return first[1] == then[1] and 0 <= batch == self.order.copies[then[0] - self.data.n - 1].batch

    def _wait(self, first: At, then: At, wait: int) -> None:
        """Let an event wait so many ns behind the start of another one."""
        if first != then and self.noted:
            self.graph.add(first, then, wait)

    def _demands(self, at: At) -> Iterator[tuple[int, int, list[Held]]]:
        """Yield tiers, the bytes that an event takes there, and what holds them."""
        event, turn = at
        lives, span = self.data.lives, self.order.length
        new: dict[int, list[Held]] = {}
        for stay in self.takes.get(event, ()):
            base = turn if stay.begin is None else turn - stay.begin[1]
            until = max((base + y) * span + self.place[i][lasts(self.data, stay, i)] for i, y in stay.uses)
            new.setdefault(stay.tier, []).append((until, lives[stay.life].nbytes, stay, base))
        if event < self.data.n:
            keeps = self.data.keeps[event]
            over = [x for x in self.held[0] if any((i, x[3] + y) == at for i, y in x[2].uses)]
            over = [x for x in over if lives[x[2].life].tensor in keeps]
            rest = self.data.need[event] - self.constant[event] - sum(x[1] for x in over)
            for born in new.pop(0, []):
                old = [x for x in over if lives[x[2].life].tensor == lives[born[2].life].tensor]
                if old:  # the new version has the room of the old one
                    self.held[0].remove(old[0])
                    self.held[0].append(born)
                else:
                    rest -= born[1]
                    yield 0, born[1], [born]
            own = EventResidency(life=-1, tier=0, begin=(event, 0), uses=[(event, 0)])
            yield 0, rest, [(turn * span + self.place[event][1], rest, own, turn)]
        for tier, some in new.items():
            yield tier, sum(x[1] for x in some), some

    def _release(self, tier: int, nbytes: int, at: At) -> bool:
        """Wait until there is room in a tier; return whether that comes."""
        capacity, n, held = self.data.capacity[tier], self.data.n, self.held[tier]
        held.sort(key=lambda x: x[0])
        if at[0] == n:  # what is kept to the end of an iteration is gone when the next one begins
            for x in [x for x in held if any((i, x[3] + y) == at for i, y in x[2].uses)]:
                if x[2].life < 0 or not self.data.lives[x[2].life].lasting:
                    held.remove(x)
                    self.used[tier] -= x[1]
        while capacity is not None and self.used[tier] + nbytes > capacity:
            for x in held:
                uses = [(i, x[3] + y, lasts(self.data, x[2], i)) for i, y in x[2].uses]
                if all(self.done.get(i, -1) >= y and ((i, y) != at or not last) for i, y, last in uses):
                    break
            else:
                return False
            held.remove(x)
            self.used[tier] -= x[1]
            for i, y, last in uses:
                self._wait((i, y), at, self.length[i] if last else 0)
        return True
