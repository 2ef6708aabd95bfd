r"""Exact search for minimum peak memory: descents, components, waists, heights.

Executed sets, intervals and components: `lowtide.solvers.peak.search.executed_sets`; M is submodular. A
*path* from X to T is *within* P if none of its steps costs more. A step costs a constant of its op plus M
before or after it, so **a path whose states have at most the M of another one's, op by op, costs at
most as much**; that is all that the accounting has to do with the following. Everything holds for
several writers, initial, final and dead tensors and workspace, because they only fix the numbers in M;
and for paths that remove ops, with unions and intersections exchanged.

1. *Least states are reachable.* T is reachable from X within P, Y is of least M in [X, T]. Then Y is
   reachable within P, by the path restricted to Y: its states S & Y have M(S & Y) <= M(S) + M(Y) - M(S | Y)
   <= M(S), because S | Y is in [X, T].
2. *Descents commit.* T is reachable from X within P and of least M in [X, T], and B contains T. If B is
   reachable from X within P, then from T: along S | T for the states S of the path, with M(S | T) <= M(S) +
   M(T) - M(S & T) <= M(S). So an order may continue from T, and nothing else from X is worth a look.
3. *One component descends.* M(B) <= M(A), and B is reachable from A within P. Then some component of
   [A, B] alone leads within P to a T != A with M(T) <= M(A). Proof: M - M(A) is a sum over components; on the
   path some component that has moved is first to have a term <= 0 (at B the sum is <= 0). Until then the
   terms of the others that have moved are positive, so that component alone costs at most as much.
4. *Hence an interval is solved without choices between components.* While A != B: if M(B) <= M(A), take a
   descent of any component from A, else one of any component backward from B, and move A or B there (2).
   By 3, if no component has one, B is not reachable from A within P.
5. *A descent within a component K from X.* Its first op v: if M falls or stays, that is the descent. Else
   descents are taken from X + v, in the components of what is left of K, until M <= M(X). If they end
   earlier, v begins no descent: were T reachable through X + v with M(T) <= M(X) < M(X + v), some
   component would have one by 3, and by 2 the rest of the way to T (or to more, with no more M) stays.
   The result is of least M among the states with v (by 2 each part is, and least states of successive
   intervals are least over their union); the least state over all of [X, T] is found by a minimum cut.
6. *Waists.* If an op f of K is comparable with all others, every path beyond it passes the same state: L =
   the ops of K before f. A descent either stays in L, then one of L's components has one (3), or it
   solves the interval [X, X | L] in any way, steps over f, and goes on as in 5.
7. *Heights.* What can happen inside a component depends on the component alone (and on which of its
   groups complete in the interval), up to M(X). So what is remembered is the *height* above M(X)
   within which it has a descent, and the height below which it has none: the least cost that was cut
   off. Both serve for any P and whatever the other components have done.
8. *Bounds.* A search under P that fails returns the least cost above P that it cut off: under any limit below
   it, the same steps are taken and the search fails again. So the next limit is that cost, and the
   first limit that succeeds is the optimum.
9. *From the high end.* By 3 the direction is towards the end with less M. The other one is possible too:
   add an op after all others that takes M to 0; M stays submodular, and 1-8 hold with everything as one
   component. It has no components to profit from, but on training graphs the forward pass leaves
   no choice that way, and it is the faster one.

For in-trees this is Liu's optimal traversal (1987), for series-parallel graphs with one tensor per edge
the merging of Kayaaslan et al. (2018): every component there has a single candidate at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from ....models.graph import Graph
from .descent_records import (
    UNREACHED,
    Call,
    Descended,
    Frame,
    Hill,
    Key,
    Spot,
    Stuck,
    StuckAtWaist,
    StuckBetween,
    WayKey,
    carried_out,
)
from .executed_sets import ExecutedSets, Part, mask_of, members

BYTES_PER_HILL = 450
"""Of one remembered component, without its mask and path."""


class GaveUp(Exception):
    """The states or the time allowed are used up."""


class DescentSearch:
    """Searches on one graph that share what they learn.

    Attributes
    ----------
    effort
        Steps looked at so far, with a surcharge for large components and long paths.
    hills, ways
        What is known of components and of intervals.
    whole
        Why the last search of everything as one component failed; None if reasons are not recorded.
    """

    def __init__(self, graph: Graph, *, record: bool = False) -> None:
        self.sets = ExecutedSets(graph)
        self.effort = 0
        self.whole: StuckBetween | None = None
        self._record = record
        self._until_check = 0
        self._limit = 0
        self._most = 0
        self._nbytes = 0
        self._stored = 0
        self._expired: Callable[[], bool] = lambda: False
        self.hills: dict[Key, Hill] = {}
        self.ways: dict[WayKey, Hill] = {}
        self._splits: dict[Key, list[Part]] = {}

    @property
    def nbytes(self) -> int:
        """About how much memory the search holds, in bytes."""
        known = len(self.hills) + len(self.ways) + len(self._splits)
        return known * (BYTES_PER_HILL + self.sets.n // 4) + 8 * self._stored

    def decide(
        self,
        limit: int,
        *,
        whole: bool,
        most: int,
        expired: Callable[[], bool] = lambda: False,
        nbytes: int = 2**62,
    ) -> tuple[int, ...] | int | None:
        """Return an order whose peak is at most `limit`, or a bound above it on every peak, or None.

        Parameters
        ----------
        limit
            Bytes.
        whole
            Search towards the end with more memory, everything as one component (9).
        most
            Give up (None) after that much effort.
        expired
            Asked now and then; give up when it holds.
        nbytes
            Give up when `nbytes` of the search grow beyond it.
        """
        self._limit, self._most, self._expired, self._nbytes = limit, self.effort + most, expired, nbytes
        sets = self.sets
        start, end = sets.space.start, sets.memory(sets.everything)
        if not sets.n:
            return () if start <= limit else start
        try:
            if not whole:
                way: tuple[int, ...] | int = carried_out(self._way(0, sets.everything, start, end))
                return way
            back = end <= start
            done, memory = (sets.everything, end) if back else (0, start)
            place = Spot(Frame(0, 0, whole=True), back, done, memory)
            ready = sets.first(back, 0, sets.everything)
            end_of: Descended = carried_out(self._descend_all(place, sets.everything, ready, -UNREACHED))
        except GaveUp:
            return None
        if len(end_of.ops) < sets.n:
            if self._record:
                paths, parts = tuple(end_of.paths), self._keys(place, end_of.parts)
                head, tail = ((), paths) if back else (paths, ())
                self.whole = StuckBetween(back, head, tail, parts)
            return end_of.memory + end_of.least
        return tuple(reversed(end_of.ops)) if back else tuple(end_of.ops)

    def _frame(self, low: int, high: int) -> Frame:
        mates = self.sets.mates(high & ~low)
        return Frame(mates & ~high, mates & low)

    def _way_key(self, low: int, high: int) -> WayKey:
        return high & ~low, self.sets.mates(high & ~low) & ~high

    def _way(self, low: int, high: int, low_memory: int, high_memory: int) -> Call:
        """Return the ops of an interval in an order within the limit, or the least limit above it (4)."""
        sets = self.sets
        hill = self.ways.setdefault(self._way_key(low, high), Hill())
        budget = self._limit - low_memory
        if hill.high <= budget:
            return hill.path
        if hill.low > budget:
            return low_memory + hill.low
        head, tail = list[tuple[int, ...]](), list[tuple[int, ...]]()
        a, b, memory_a, memory_b = low, high, low_memory, high_memory
        while a != b:
            back = memory_b > memory_a
            place = Spot(self._frame(a, b), back, b if back else a, memory_b if back else memory_a)
            found = yield self._descend_all(place, b & ~a, sets.first(back, a, b), -UNREACHED)
            if not found.ops:
                hill.low = found.memory + found.least - low_memory
                if self._record:
                    parts = self._keys(place, found.parts)
                    hill.why = StuckBetween(back, tuple(head), tuple(tail), parts)
                return found.memory + found.least
            if back:
                tail += found.paths
                b, memory_b = b & ~mask_of(found.ops), found.memory
            else:
                head += found.paths
                a, memory_a = a | mask_of(found.ops), found.memory
        forward, backward = chain.from_iterable(head), list(chain.from_iterable(tail))
        self._store(hill, False, low, (*forward, *reversed(backward)))
        return hill.path

    def _descend_all(self, place: Spot, ops: int, ready: list[int], goal: int) -> Call:
        """Take descents within `ops` until M is at most `goal` or there are none.

        Returns a `Descended`.
        """
        frame, back, done, memory = place
        sets, walked, paths = self.sets, list[int](), list[tuple[int, ...]]()
        stuck: list[tuple[Part, int]] = []
        parts = self._parts(place, ops, ready)
        while parts:
            part, ready = parts.pop()
            hill = self._hill(place, part)
            budget = self._limit - memory
            if hill.low <= budget < hill.high:
                yield self._descend(hill, Spot(frame, back, done, memory), part, ready)
            if hill.high > budget:
                stuck.append(((part, ready), hill.low))
                continue
            walked += hill.path
            paths.append(hill.path)
            memory += hill.change
            for v in hill.path:
                done ^= 1 << v
                part ^= 1 << v
                ready = [u for u in ready if u != v] + sets.enabled(back, v, done, part)
            if memory <= goal or (frame.whole and not part):
                return Descended(walked, paths, memory, UNREACHED, [])
            if hill.change < 0:  # with less memory, others may have descents now
                parts += [other for other, _ in stuck]
                stuck = []
            parts += self._parts(Spot(frame, back, done, memory), part, ready)
        least = min((low for _, low in stuck), default=UNREACHED)
        return Descended(walked, paths, memory, least, [part for (part, _), _ in stuck])

    def _parts(self, place: Spot, ops: int, ready: list[int]) -> list[Part]:
        """Return the components of some ops (one if all must be done), remembered."""
        if place.frame.whole or len(ready) < 2:
            return [(ops, ready)] if ops else []
        key = (place.back, False, place.frame[place.back], ops)
        if key in self.hills:
            return [(ops, ready)]
        parts = self._splits.get(key)
        if parts is None:
            parts = self.sets.components(place.done & ~ops, ops, ready)
            if len(parts) > 1:
                self._splits[key] = parts
        return list(parts)

    def _hill(self, place: Spot, part: int) -> Hill:
        """Return what is known of a component."""
        (key,) = self._keys(place, [part])
        hill = self.hills.get(key)
        if hill is None:
            hill = self.hills[key] = Hill()
        return hill

    def _keys(self, place: Spot, parts: list[int]) -> tuple[Key, ...]:
        frame, back = place.frame, place.back
        return tuple((back, frame.whole, frame[back], part) for part in parts)

    def _descend(self, hill: Hill, place: Spot, part: int, ready: list[int]) -> Call:
        """Search a component for a descent within the limit, and fill its hill (5)."""
        _, back, done, memory = place
        budget = self._limit - memory
        self._count(1 + len(ready) + part.bit_count() // 32)
        if self._fall(hill, place, part, ready):
            return
        waist = self.sets.waist(back, part, ready) if len(ready) > 1 else None
        if waist is not None:
            yield self._descend_by_waist(hill, place, part, ready, waist)
            return
        least, why = UNREACHED, list[Stuck]()
        for increase, v in sorted((self.sets.increase(back, v, done), v) for v in ready):
            rise = self.sets.rise(back, v, increase)
            if rise > budget:
                least = min(least, rise)
                continue
            others = [u for u in ready if u != v]
            above, stuck = yield self._beyond(hill, place, part, [v], increase, part ^ 1 << v, others)
            if above is None:
                return
            least = min(least, above)
            if self._record:
                why.append(stuck)
        hill.low, hill.why = least, tuple(why) if self._record else None

    def _fall(self, hill: Hill, place: Spot, part: int, ready: list[int]) -> bool:
        """Take the steps that do not increase M, as long as there are any; return whether there were."""
        _, back, done, memory = place
        sets, path, fallen = self.sets, list[int](), True
        while fallen:
            fallen, waiting = False, list[int]()
            pending = list(ready)
            for v in pending:  # grows
                increase = sets.increase(back, v, done)
                if increase <= 0 and memory + sets.rise(back, v, increase) <= self._limit:
                    done ^= 1 << v
                    part ^= 1 << v
                    memory += increase
                    path.append(v)
                    pending += sets.enabled(back, v, done, part)
                    fallen = True
                else:
                    waiting.append(v)
            ready = waiting
        if path:
            self._store(hill, back, place.done, path)
        return bool(path)

    def _descend_by_waist(self, hill: Hill, place: Spot, part: int, ready: list[int], waist: int) -> Call:
        """Search for a descent in a component with a waist (6)."""
        _, back, done, memory = place
        sets, least = self.sets, UNREACHED
        neck = part & (sets.descendants if back else sets.ancestors)[waist]
        low, high = (done & ~neck, done) if back else (done, done | neck)
        inner = Spot(self._frame(low, high), back, done, memory)
        pieces = self._parts(inner, neck, ready)
        for piece, some in pieces:
            found, budget = self._hill(inner, piece), self._limit - memory
            if found.low <= budget < found.high:
                yield self._descend(found, inner, piece, some)
            if found.high <= budget:
                hill.path, hill.high, hill.change = found.path, found.high, found.change
                return
            least = min(least, found.low)
        _, change = sets.height(back, done, sorted(members(neck), reverse=back))
        ends = (memory + change, memory) if back else (memory, memory + change)
        why = StuckAtWaist(waist, self._keys(inner, [piece for piece, _ in pieces])) if self._record else None
        way = yield self._way(low, high, *ends)
        if isinstance(way, int):
            hill.low, hill.why = min(least, way - memory), why and why._replace(way=self._way_key(low, high))
            return
        increase = sets.increase(back, waist, done ^ neck)
        rise = change + sets.rise(back, waist, increase)
        if rise > self._limit - memory:
            hill.low, hill.why = min(least, rise), why
            return
        path = [*(reversed(way) if back else way), waist]
        rest = part & ~mask_of(path)
        above, stuck = yield self._beyond(hill, place, part, path, change + increase, rest, [])
        if above is not None:
            hill.low, hill.why = min(least, above), why and why._replace(beyond=stuck)

    def _beyond(
        self, hill: Hill, place: Spot, part: int, path: list[int], change: int, rest: int, ready: list[int]
    ) -> Call:
        """Go on from the end of a path until M is at most M at its origin; fill the hill if that succeeds.

        `change` is that of M across the path, `rest` what it leaves of the component, `ready` what may
        be next there apart from what its last op enables. Returns None if it succeeds, else the least
        height above the origin at which it might; and what it is stuck at, if that is recorded.
        """
        frame, back, done, memory = place
        pivot, found = len(path) - 1, Descended([], [], memory + change, UNREACHED, [])
        if change > 0 and rest:
            end = done ^ mask_of(path)
            ready = ready + self.sets.enabled(back, path[pivot], end, rest)
            found = yield self._descend_all(Spot(frame, back, end, found.memory), rest, ready, memory)
        stuck = None
        if self._record:
            stuck = Stuck(path[pivot], tuple(found.paths), self._keys(place, found.parts))
        path = path + found.ops
        finished = frame.whole and mask_of(path) == part
        if found.memory > memory and not finished:
            return found.memory - memory + found.least, stuck
        self._store(hill, back, done, path if finished else self.sets.least(back, done, path, pivot))
        return None, stuck

    def _count(self, effort: int) -> None:
        self.effort += effort
        self._until_check -= effort
        if self.effort > self._most:
            raise GaveUp
        if self._until_check < 0:
            self._until_check = 256
            if self._expired() or self.nbytes > self._nbytes:
                raise GaveUp

    def _store(self, hill: Hill, back: bool, done: int, path: Sequence[int]) -> None:
        """Remember a path."""
        hill.path = tuple(path)
        hill.high, hill.change = self.sets.height(back, done, path)
        self._stored += len(path)
        self.effort += len(path) // 8
