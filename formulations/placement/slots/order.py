"""The order of a solution of the slot model for whole tensors: stays, copies, and the places of events.

Of a solution only what is needed is kept: from each access of a life backwards, the stay in tier 0 and, if it
began with a copy, the stay from which most of that came, and so on; at the end of an iteration any stay. A
copy begins with the first piece in which something of it passes its channel, and ends with the last one. One
to a tier without capacity comes as early in the order as its life and the copies before it on its channel
allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..states import Life
from ..whole.sequence import At, Copying, EventResidency, Order
from .pieces import Cut
from .whole_milp import EPSILON, Value

WHOLE = 1 - 1e-4
"""Part of a life in a tier from which on it is there as a whole: solvers have tolerances of 1e-6 or so."""


class Parts(Protocol):
    """A solution's variables, or their values, in the notation of `whole_milp`."""

    @property
    def cut(self) -> Cut: ...  # noqa: D102
    def part(self, number: int, e: int, x: int) -> Any: ...  # noqa: D102
    def flow(self, number: int, p: int, ways: list[int]) -> Sequence[Any]: ...  # noqa: D102


def order(built: Parts, value: Value) -> Order | None:
    """Return the order of a solution; None if it moves what is nowhere whole before."""
    cut = built.cut
    result = Order(
        stays=[],
        copies=[],
        place=[(float(cut.at(k)), float(cut.end(k))) for k in range(cut.data.n)],
        length=len(cut.pieces),
    )
    for number in range(len(cut.data.lives)):
        if not _Trace(built, value, number, result).follow():
            return None
    _early(built, result)
    return result


class _Trace:
    """One life, over three iterations if it is a ring: what is kept of it."""

    def __init__(self, built: Parts, value: Value, number: int, found: Order) -> None:
        self.built, self.value, self.number, self.found = built, value, number, found
        cut = built.cut
        self.life: Life = cut.data.lives[number]
        self.span = len(cut.pieces)
        some = cut.instants(self.life)
        self.first, self.last = some[0], some[-1]
        if self.life.ring:
            self.last = 3 * self.span
        self.stays: dict[tuple[int, int], EventResidency] = {}
        self.recent: EventResidency | None = None

    def follow(self) -> bool:
        """Keep what each access, and the end, need; return whether all of it has a beginning."""
        life, cut = self.life, self.built.cut
        ring = 2 if life.ring else 0
        for k in life.accesses:
            if not self._use(0, cut.at(k) + ring * self.span, (k % cut.data.n, k // cut.data.n + ring)):
                return False
            for (x, _), stay in self.stays.items():
                stay.last = x == 0 and stay is self.recent
        if life.kept and (not life.ring or not life.accesses):
            at = self.span * (1 + ring)
            there = [x for x in range(len(cut.data.capacity)) if self._part(at, x) > WHOLE]
            allowed = [x for x in there if life.starts[x] or not life.lasting]
            if not allowed or not self._use(allowed[0], at, (cut.data.n, at // self.span)):
                return False
        for stay in self.stays.values() if life.ring else ():
            turn = int(stay.since // self.span)
            stay.since -= turn * self.span
            stay.uses = [(i, y - turn) for i, y in stay.uses]
            if stay.begin is not None:
                stay.begin = stay.begin[0], stay.begin[1] - turn
        return True

    def _use(self, x: int, e: int, use: At) -> bool:
        """Let the stay in a tier at an instant last to the end of an event; return whether there is one."""
        begin = e
        while begin > self.first and self._part(begin - 1, x) > WHOLE:
            begin -= 1
        if begin == e and self._part(e, x) <= WHOLE:
            return False
        root = begin == self.first
        key = (x, begin % self.span if self.life.ring and not root else begin)
        stay = self.stays.get(key)
        if stay is None:
            stay = self.stays[key] = EventResidency(life=self.number, tier=x, begin=None, since=float(begin))
            if root:
                stay.begin = (self.life.born, 0) if self.life.born >= 0 else None
            elif not self._copied(stay, begin):
                del self.stays[key]
                return False
            self.found.stays.append(stay)
        elif stay.begin is None and not root and begin == stay.since:
            return False  # it would begin with a copy of itself; a ring's comes from an iteration before
        turn = 0 if root else round((begin - stay.since) / self.span)
        if (use[0], use[1] - turn) not in stay.uses:
            stay.uses.append((use[0], use[1] - turn))
        self.recent = stay
        return True

    def _part(self, e: int, x: int) -> float:
        """Return which part of the life is in a tier."""
        part = self.built.part(self.number, e % self.span if self.life.ring else e, x)
        return 1.0 if isinstance(part, int) else self.value(part)

    def _flow(self, p: int, w: int) -> float:
        p = p % self.span if self.life.ring else p
        flow = self.built.flow(self.number, p, [w])
        return self.value(flow[0]) if flow else 0.0

    def _copied(self, stay: EventResidency, e: int) -> bool:
        """Let a stay that is whole at an instant begin with a copy; return whether there is one."""
        ways, n = self.built.cut.data.ways, self.built.cut.data.n
        came: dict[int, list[tuple[int, float]]] = {}
        for p in range(e - 1, self.first - 1, -1):
            for w, way in enumerate(ways):
                if way.dst == stay.tier and (part := self._flow(p, w)) > EPSILON:
                    came.setdefault(w, []).append((p, part))
            if self._part(p, stay.tier) <= EPSILON:
                break
        for w in sorted(came, key=lambda w: (-sum(part for _, part in came[w]), w)):
            begin, end = came[w][-1][0], came[w][0][0]
            turn = begin // self.span
            event = n + 1 + len(self.found.copies)
            copy = Copying(
                life=self.number,
                way=w,
                begin=begin - turn * self.span + 0.25,
                end=end - turn * self.span + 0.75,
            )
            self.found.copies.append(copy)
            if any(self._use(ways[w].src, at, (event, turn)) for at in range(end + 1, begin - 1, -1)):
                stay.begin = event, turn
                return True
            self.found.copies.pop()
        return False


def _early(built: Parts, order: Order) -> None:
    """Move copies to tiers without capacity to the front of the order as far as they can go."""
    data, n = built.cut.data, built.cut.data.n
    for w, way in enumerate(data.ways):
        if data.capacity[way.dst] is not None or data.periodic:
            continue
        some = [i for i, copy in enumerate(order.copies) if copy.way == w]
        before = 0.0
        for i in sorted(some, key=lambda i: (order.copies[i].begin + order.copies[i].end, i)):
            copy = order.copies[i]
            source = next(stay for stay in order.stays if (n + 1 + i, 0) in stay.uses)
            if source.begin is not None:
                event = source.begin[0]
                free = order.place[event][1] if event < n else order.copies[event - n - 1].begin
                before = max(before, free)
            before += 1e-3
            order.copies[i] = replace(copy, begin=before)


def neighbours(order: Order) -> Iterator[Order]:
    """Yield orders in which one copy comes elsewhere: behind another event, or at first."""
    events = [0.0, *(end for _, end in order.place), *(start for start, _ in order.place)]
    events += [copy.begin for copy in order.copies]
    places = sorted({place for place in events if place < order.length})
    for i, copy in enumerate(order.copies):
        for place in places:
            begin = place + 1e-4 * (1 + i)
            if abs(begin - copy.begin) > 1e-3:
                copies = list(order.copies)
                copies[i] = replace(copy, begin=begin, end=max(copy.end, begin))
                yield replace(order, copies=copies)
