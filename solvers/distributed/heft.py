r"""`heft`: list schedules by upward rank, each op where it ends first, within the memories.

Upward rank: :math:`r_i = \bar d_i + \max_j (\bar c_{ij} + r_j)` over the successors j of op i, with the mean
time of i over the processors that can run it, and the mean time of what i sends to j over all pairs of
processors. The ready op of the highest rank goes to the processor where it ends first, into a gap between
runs if one is long enough; what it reads is sent as early as links and the memory there allow.

Memory (after Herrmann, Marchal and Robert): what comes to a memory must find room for good, until all ops
that access it are scheduled, which shows when it leaves. If the op of the highest rank finds no place, the
next one is tried; if none does, there is no list schedule.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from ...formulations.distributed.data import DistributedData
from ...models.problems.distributed import DistributedSchedule, Send
from ...models.problems.processors import Alternative
from .profile import NEVER, Calendar, MemoryLevel, free_together


def upward_ranks(data: DistributedData, tick: Callable[[], None] = lambda: None) -> list[Fraction]:
    """Return the upward rank of each op in ticks; higher ones go first.

    `tick` is called for each op, and may raise. Sums are integers over the common denominator of all means.
    Source: Topcuoglu, Hariri and Wu, IEEE Transactions on Parallel and Distributed Systems 13(3), 2002.
    """
    memory = [m for m, count in zip(data.memory_of, data.counts, strict=True) for _ in range(count)]
    pairs = Counter((a, b) for x, a in enumerate(memory) for y, b in enumerate(memory) if x != y)
    ways = [(way, count) for way, count in pairs.items() if way in data.latency]
    kinds = [{a.kind for a in some} for some in data.alternatives]
    weights = [sum(data.counts[q] for q in some) for some in kinds]
    many = pairs.total() or 1
    whole = math.lcm(many, *set(weights))
    sends: list[dict[int, int]] = [{} for _ in range(data.n)]
    for y, value in enumerate(data.sent):
        tick()
        cost = sum(count * data.takes(y, way) for way, count in ways) * (whole // many)
        maker = sends[data.maker[y]]
        for j in value.readers:
            maker[j] = max(maker.get(j, 0), cost)
    ranks = [0] * data.n
    for i in reversed(range(data.n)):
        tick()
        best: dict[int, int] = {}
        for a in data.alternatives[i]:
            best[a.kind] = min(best.get(a.kind, a.duration), a.duration)
        own = sum(data.counts[q] * d for q, d in best.items()) * (whole // weights[i])
        ranks[i] = own + max((sends[i].get(j, 0) + ranks[j] for j in data.successors[i]), default=0)
    return [Fraction(rank, whole) for rank in ranks]


@dataclass(kw_only=True)
class _Trial:
    """What placing an op books besides its run."""

    start: int
    transfers: list[tuple[int, int, int]] = field(default_factory=list)
    """Number of the value in `sent`, start, end."""
    comes: set[int] = field(default_factory=set)
    """Tensors that come to the memory."""
    first: int = 0
    """Bytes of them that are there at time 0."""
    undo: list[Callable[[], None]] = field(default_factory=list)

    def take_back(self) -> None:
        """Undo all that was booked."""
        for undo in reversed(self.undo):
            undo()


class ListScheduler:
    """A list schedule as it grows; times in ticks, bytes in units."""

    def __init__(self, data: DistributedData, tick: Callable[[], None] = lambda: None) -> None:
        self.data = data
        self.processors = [[Calendar() for _ in range(count)] for count in data.counts]
        self.lanes = {lane: Calendar() for some in data.lanes.values() for lane in some}
        self.levels = [MemoryLevel(room) for room in data.capacity]
        self.first = [0] * len(data.capacity)
        self.start, self.chosen = [-1] * data.n, [0] * data.n
        self.end, self.memory = [0] * data.n, [0] * data.n
        self.transfers: dict[tuple[int, int], tuple[int, int]] = {}
        """By number of a value in `sent`, and memory: start and end."""
        self.stays: dict[int, dict[int, int]] = {}
        """By tensor, and memory where it has come: its last use so far."""
        self.reads: list[list[int]] = [[] for _ in range(data.n)]
        for y, value in enumerate(data.sent):
            tick()
            for i in value.readers:
                self.reads[i].append(y)
        self.initial: list[list[int]] = [[] for _ in range(data.n)]
        users: dict[int, set[int]] = {}
        self.settled: dict[int, int | None] = {}
        """Of each final tensor the op that writes it last, None if no op does."""
        for value in data.values:
            tick()
            mine = users.setdefault(value.tensor, set())
            mine |= {*value.present, *(() if value.writer is None else (value.writer,))}
            if value.writer is None:
                for i in value.present:
                    self.initial[i].append(value.tensor)
            if value.last and data.final[value.tensor]:
                self.settled[value.tensor] = value.writer
        self.left = {t: len(some) for t, some in users.items()}
        self.tensors: list[list[int]] = [[] for _ in range(data.n)]
        for t, some in users.items():
            for i in some:
                self.tensors[i].append(t)

    def run(self, rank: Sequence[Fraction | int], tick: Callable[[], None] = lambda: None) -> bool:
        """Schedule all ops, the highest rank first; return whether all found a place."""
        data = self.data
        missing = [len(some) for some in data.predecessors]
        ready = sorted((-rank[i], i) for i in range(data.n) if not missing[i])
        while ready:
            tick()
            place = next((k for k, (_, i) in enumerate(ready) if self.place(i)), None)
            if place is None:
                return False
            _, i = ready.pop(place)
            for j in data.successors[i]:
                missing[j] -= 1
                if not missing[j]:
                    ready.append((-rank[j], j))
            ready.sort()
        return True

    def place(self, i: int) -> bool:
        """Schedule an op where it ends first; return whether there is a place."""
        best: tuple[int, int] | None = None
        for k, a in enumerate(self.data.alternatives[i]):
            if (trial := self._try(i, a)) is not None:
                trial.take_back()
                best = min(best or (NEVER, k), (trial.start + a.duration, k))
        if best is None:
            return False
        trial = self._try(i, self.data.alternatives[i][best[1]])
        assert trial is not None
        self._settle(i, best[1], trial)
        return True

    def answer(self) -> DistributedSchedule:
        """Return the schedule, in ns."""
        data = self.data
        return DistributedSchedule(
            starts=tuple(s * data.tick for s in self.start),
            chosen=tuple(self.chosen),
            transfers=tuple(
                Send(data.maker[y], data.sent[y].tensor, m, begin * data.tick)
                for (y, m), (begin, _) in sorted(self.transfers.items())
            ),
        )

    def _try(self, i: int, a: Alternative) -> _Trial | None:
        """Book what an op needs in an alternative besides its run; None, nothing booked, if it cannot be."""
        data, m = self.data, self.data.memory_of[a.kind]
        trial = _Trial(start=max((self.end[j] for j in data.predecessors[i]), default=0))
        begin = self._bring(i, m, trial)
        new = [t for t in data.writes[i] if not self._is_there(t, m, trial)]
        if begin is not None:
            begin = self._free(a, begin, sum(data.nbytes[t] for t in new))
        if begin is None:
            trial.take_back()
            return None
        trial.start = begin
        for t in new:
            self._come(t, m, begin, trial)
        return trial

    def _is_there(self, t: int, m: int, trial: _Trial) -> bool:
        return t in trial.comes or m in self.stays.get(t, {})

    def _come(self, t: int, m: int, time: int, trial: _Trial) -> None:
        """Book room for a tensor, for good."""
        level, nbytes = self.levels[m], self.data.nbytes[t]
        level.change(nbytes, time)
        trial.comes.add(t)
        trial.undo.append(lambda: level.undo(nbytes, time))

    def _bring(self, i: int, m: int, trial: _Trial) -> int | None:
        """Book initial tensors and transfers of an op; return from when on all is there."""
        data, ready = self.data, trial.start
        for t in self.initial[i]:
            if not self._is_there(t, m, trial):
                trial.first += data.nbytes[t]
                room = data.capacity[m]
                full = room is not None and self.first[m] + trial.first > room
                if full or self.levels[m].room_from(0, data.nbytes[t]) != 0:
                    return None
                self._come(t, m, 0, trial)
        for y in sorted(self.reads[i], key=lambda y: (self.end[data.maker[y]], y)):
            value = data.sent[y]
            way = self.memory[data.maker[y]], m
            if way[0] == m or (y, m) in self.transfers:
                ready = max(ready, self.transfers.get((y, m), (0, 0))[1])
                continue
            there = self._is_there(value.tensor, m, trial)
            nbytes = 0 if there else data.nbytes[value.tensor]
            begin = self._sending(y, way, nbytes) if way in data.latency else None
            if begin is None:
                return None
            if not there:
                self._come(value.tensor, m, begin, trial)
            end = begin + data.takes(y, way)
            for lane in data.lanes[way] if data.busy[y][way] else ():
                calendar, busy = self.lanes[lane], (begin + data.latency[way], end)
                calendar.book(*busy)
                trial.undo.append(partial(calendar.cancel, *busy))
            trial.transfers.append((y, begin, end))
            ready = max(ready, end)
        return ready

    def _sending(self, y: int, way: tuple[int, int], nbytes: int) -> int | None:
        """Return the first instant at which a transfer can begin and finds room for good."""
        data = self.data
        lanes, wait = [self.lanes[lane] for lane in data.lanes[way]], data.latency[way]
        time: int | None = self.end[data.maker[y]]
        while time is not None:
            begin = free_together(lanes, time + wait, data.busy[y][way]) - wait
            time = self.levels[way[1]].room_from(begin, nbytes)
            if time == begin:
                break
        return time

    def _free(self, a: Alternative, ready: int, nbytes: int) -> int | None:
        """Return the first instant at which a processor is free, and what is written finds room for good."""
        level, time = self.levels[self.data.memory_of[a.kind]], ready
        while True:
            begin = min(c.free_from(time, a.duration) for c in self.processors[a.kind])
            room = level.room_from(begin, nbytes, a.workspace, a.duration)
            if room is None or room == begin:
                return room
            time = room

    def _settle(self, i: int, chosen: int, trial: _Trial) -> None:
        """Run an op as tried; tensors that no other op will access leave after their last use."""
        data, a = self.data, self.data.alternatives[i][chosen]
        m, start, end = data.memory_of[a.kind], trial.start, trial.start + a.duration
        self.start[i], self.end[i], self.chosen[i], self.memory[i] = start, end, chosen, m
        idle = (c for c in self.processors[a.kind] if c.free_from(start, a.duration) == start)
        next(idle).book(start, end)
        self.levels[m].change(a.workspace, start)
        self.levels[m].change(-a.workspace, end)
        self.first[m] += trial.first
        for t in trial.comes:
            self.stays.setdefault(t, {})[m] = 0
        for y, begin, arrival in trial.transfers:
            self.transfers[y, m] = begin, arrival
            self._use(data.sent[y].tensor, m, arrival)
            self._use(data.sent[y].tensor, self.memory[data.maker[y]], arrival)
        for t in self.tensors[i]:
            self._use(t, m, end if not data.replace or t in data.writes[i] else start)
            self.left[t] -= 1
            if not self.left[t]:
                self._leave(t)

    def _use(self, t: int, m: int, time: int) -> None:
        self.stays[t][m] = max(self.stays[t][m], time)

    def _leave(self, t: int) -> None:
        """Free a tensor after its last use in each memory but where it stays."""
        writer = self.settled.get(t)
        for m, time in self.stays[t].items():
            kept = t in self.settled and (writer is None or self.memory[writer] == m)
            if not kept:
                self.levels[m].change(-self.data.nbytes[t], time)
