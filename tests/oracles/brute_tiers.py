"""Exhaustive search for the fastest placement of whole tensors on any tiers, single runs and periods.

Any processors, each with its ops in their order and a tier of its own, which they use.

Each channel carries one copy at a time, at its own rate or that of the least joint cap it is under, without
interruption; several go at once where the joint caps allow it. A start can be moved earlier until an op or a
copy ends at that instant, and a release later until something needs the room: so things start at such
instants only, and nothing is released before that. In a period, an iteration may begin with any copies under
way, each at any ns of it: all of them are tried where they are few (`STEADY`; else those with which one ends
that began without), and it ends when it leaves them as it found them. What may not be in a tier then is
released at the end. Under the accounting ``replace`` an op reads at its start, and what it only reads may be
released then, before what it writes is allocated. It reads the raw fields only.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from math import prod

from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from tests.oracles.brute_force import must_precede

Lane = tuple[int, int]
"""Of a processor: how many of its ops have ended, and ns to the end of the one that runs (-1: none does)."""
Flight = tuple[int, int, int]
"""A tensor, the number of its channel, ns to the end."""
State = tuple[tuple[Lane, ...], tuple[Flight, ...], tuple[int, ...]]
"""Processors, copies, and tensors' tiers as bits."""


Border = tuple[tuple[int, ...], tuple[Flight, ...]]
"""What one iteration leaves to the next: where lasting tensors are, and copies of them."""
STEADY = 3_000
"""Beginnings of an iteration up to which all are tried."""


class TooLarge(Exception):
    """More states than the search may look at."""


class Search:
    """The rules of one problem."""

    def __init__(self, problem: Placement, most: int = 300_000) -> None:
        graph, machine = problem.graph, problem.machine
        self.problem, self.graph, self.most = problem, graph, most
        names = [tier.name for tier in machine.tiers]
        self.capacity = [tier.capacity for tier in machine.tiers]
        self.size = [t.nbytes for t in graph.tensors]
        self.ways = [(names.index(c.src), names.index(c.dst)) for c in machine.channels]
        pairs = [(c.src, c.dst) for c in machine.channels]
        self.caps = [([pairs.index(p) for p in g.channels], g.bytes_per_s) for g in machine.groups]
        self.rate = [
            min([c.bytes_per_s, *(cap for some, cap in self.caps if w in some)])
            for w, c in enumerate(machine.channels)
        ]
        self.latency = [c.latency_ns for c in machine.channels]
        self.allowed = [
            sum(1 << names.index(x) for x in problem.may_start(str(t.kind))) for t in graph.tensors
        ]
        self.lasting = [problem.periodic and t.initial and t.final for t in graph.tensors]
        self.replace = graph.accounting is Accounting.REPLACE
        self.held = [{*op.writes} if self.replace else {*op.reads, *op.writes} for op in graph.ops]
        order = must_precede(graph)
        self.before = [{i for i, j in order if j == k} for k in range(len(graph.ops))]
        kinds = [op.all_modes[0].processors for op in graph.ops]
        self.lanes = [
            [k for k, some in enumerate(kinds) if not some or p.kind in some] for p in machine.processors
        ]
        assert sorted(k for lane in self.lanes for k in lane) == list(range(len(graph.ops)))
        self.home = [names.index(p.tiers[0].tier) for p in machine.processors]
        self.rest = [
            [sum(graph.ops[k].duration_ns for k in lane[i:]) for i in range(len(lane) + 1)]
            for lane in self.lanes
        ]
        self._needed: dict[tuple[int, tuple[int, ...]], bool] = {}

    @property
    def least(self) -> int:
        """The most ns that the ops of a processor take."""
        return max(rest[0] for rest in self.rest)

    def running(self, state: State) -> list[tuple[int, int]]:
        """Return the ops that run, each with its tier."""
        lanes = zip(self.lanes, self.home, state[0], strict=True)
        return [(ops[k], x) for ops, x, (k, run) in lanes if run >= 0]

    def awaited(self, t: int, state: State) -> bool:
        """Whether the content will be needed."""
        ended = tuple(k + (self.replace and run >= 0) for k, run in state[0])
        if (t, ended) not in self._needed:
            rest = sorted(k for ops, i in zip(self.lanes, ended, strict=True) for k in ops[i:])
            uses = [op for op in (self.graph.ops[k] for k in rest) if t in op.reads or t in op.writes]
            self._needed[t, ended] = t in uses[0].reads if uses else self.graph.tensors[t].final
        return self._needed[t, ended]

    def used(self, state: State) -> list[int]:
        """Return the bytes allocated per tier."""
        _, flights, where = state
        used = [
            sum(z for z, bits in zip(self.size, where, strict=True) if bits >> x & 1)
            for x in range(len(self.capacity))
        ]
        held = {(t, x) for k, x in self.running(state) for t in self.held[k]}
        for k, x in self.running(state):
            used[x] += self.graph.ops[k].workspace
        held |= {(t, self.ways[w][1]) for t, w, _ in flights}
        for t, x in held:
            used[x] += self.size[t] * (not where[t] >> x & 1)
        return used

    def fits(self, state: State) -> bool:
        """Whether all tiers hold what is allocated."""
        return all(c is None or u <= c for u, c in zip(self.used(state), self.capacity, strict=True))

    def room(self, state: State, x: int) -> Iterator[State]:
        """Yield the state with room in a tier: as it is, or with as little released as suffices."""
        lanes, flights, where = state
        if self.fits(state):
            yield state
            return
        kept = {t for t, w, _ in flights if self.ways[w][0] == x}
        kept |= {t for k, home in self.running(state) if home == x for t in self.held[k]}
        some = [t for t, bits in enumerate(where) if bits >> x & 1 and bits & ~(1 << x) and t not in kept]
        found: list[set[int]] = []
        for count in range(1, len(some) + 1):
            for gone in combinations(some, count):
                if not any(less <= set(gone) for less in found):
                    less = tuple(b & ~(1 << x) if t in gone else b for t, b in enumerate(where))
                    if self.fits((lanes, flights, less)):
                        found.append(set(gone))
                        yield lanes, flights, less

    def tidy(self, state: State) -> State:
        """Release what nobody needs any more."""
        lanes, flights, where = state
        busy = {t for t, _, _ in flights} | {t for k, _ in self.running(state) for t in self.held[k]}
        return (
            lanes,
            flights,
            tuple(b if t in busy or self.awaited(t, state) else 0 for t, b in enumerate(where)),
        )

    def starts(self, state: State) -> Iterator[State]:
        """Yield what may start now."""
        lanes, flights, where = state
        ended = {k for ops, (i, _) in zip(self.lanes, lanes, strict=True) for k in ops[:i]}
        moving = {t for t, _, _ in flights}
        for p, (i, run) in enumerate(lanes):
            if run >= 0 or i == len(self.lanes[p]):
                continue
            number, x = self.lanes[p][i], self.home[p]
            op = self.graph.ops[number]
            if (
                self.before[number] <= ended
                and all(where[t] >> x & 1 for t in op.reads)
                and not moving & set(op.writes)
            ):
                during = tuple(
                    (b & 1 << x if t in op.reads else 0) if t in op.writes else b for t, b in enumerate(where)
                )
                then = (*lanes[:p], (i, op.duration_ns), *lanes[p + 1 :])
                yield from self.room(self.tidy((then, flights, during)), x)
        writing = {t for k, _ in self.running(state) for t in self.graph.ops[k].writes}
        for w, (src, dst) in enumerate(self.ways):
            going = [other for _, other, _ in flights]
            if w in going or not self.within_caps((*flights, (0, w, 0))):
                continue
            for t, bits in enumerate(where):
                landing = any(t == f[0] and self.ways[f[1]][1] == dst for f in flights)
                if not bits >> src & 1 or bits >> dst & 1 or t in writing or landing:
                    continue
                if not self.awaited(t, state):
                    continue
                flight = t, w, self.length(t, w)
                yield from self.room((lanes, tuple(sorted([*flights, flight])), where), dst)

    def later(self, state: State) -> tuple[int, State] | None:
        """Return the ns to the next end, and the state then."""
        lanes, flights, where = state
        step = min([*(f[2] for f in flights), *(run for _, run in lanes if run >= 0)], default=None)
        if step is None:
            return None
        now = list(where)
        then = []
        for ops, x, (i, run) in zip(self.lanes, self.home, lanes, strict=True):
            if run == step:
                for t in self.graph.ops[ops[i]].writes:
                    now[t] = 1 << x
            then.append((i + 1, -1) if run == step else (i, run - step if run >= 0 else -1))
        for t, w, left in flights:
            if left == step:
                now[t] |= 1 << self.ways[w][1]
        rest = tuple(sorted((t, w, left - step) for t, w, left in flights if left > step))
        return step, self.tidy((tuple(then), rest, tuple(now)))

    def left(self, state: State) -> int:
        """Return ns that pass at least until the end."""
        lanes = zip(self.lanes, self.rest, state[0], strict=True)
        return max(
            rest[i] - (self.graph.ops[ops[i]].duration_ns - run if run >= 0 else 0)
            for ops, rest, (i, run) in lanes
        )

    def iteration(self, first: Iterable[State], below: int) -> Iterator[tuple[int, State]]:
        """Yield how an iteration may end, before `below` ns, the earliest first."""
        queue = [(0, state) for state in first if self.fits(state)]
        heapq.heapify(queue)
        best = {state: 0 for _, state in queue}
        through = tuple((len(ops), -1) for ops in self.lanes)
        while queue:
            now, state = heapq.heappop(queue)
            if best[state] < now:
                continue
            if state[0] == through:
                yield now, state
            following = [(now, self.tidy(other)) for other in self.starts(state)]
            after = self.later(state)
            if after is not None:
                following.append((now + after[0], after[1]))
            for time, other in following:
                if time + self.left(other) < below and time < best.get(other, time + 1):
                    best[other] = time
                    heapq.heappush(queue, (time, other))
                    if len(best) > self.most:
                        raise TooLarge

    def inputs(self, where: tuple[int, ...], flights: tuple[Flight, ...]) -> Iterator[State]:
        """Yield the beginnings of an iteration: lasting tensors where they are, the others where they may."""
        lanes = ((0, -1),) * len(self.lanes)
        choices = []
        for t, tensor in enumerate(self.graph.tensors):
            if self.lasting[t]:
                choices.append([where[t]])
            elif tensor.initial and self.awaited(t, (lanes, (), ())):
                choices.append([b for b in range(1, self.allowed[t] + 1) if not b & ~self.allowed[t]])
            else:
                choices.append([0])
        for some in product(*choices):
            if self.fits((lanes, flights, some)):
                yield self.tidy((lanes, flights, some))

    def ended(self, state: State) -> Border | None:
        """Return what an iteration leaves to the next one, less what may not be there; None if it may not."""
        _, flights, where = state
        if any(t.final and not where[i] for i, t in enumerate(self.graph.tensors)):
            return None
        kept = tuple(
            b & a if last else 0 for b, a, last in zip(where, self.allowed, self.lasting, strict=True)
        )
        if any(last and not b for b, last in zip(kept, self.lasting, strict=True)):
            return None
        return (kept, flights) if self.crosses(kept, flights) else None

    def crosses(self, where: tuple[int, ...], flights: tuple[Flight, ...]) -> bool:
        """Whether copies may be under way as an iteration begins."""
        ways = [(t, *self.ways[w]) for t, w, _ in flights]
        return all(
            self.lasting[t] and where[t] >> src & 1 and self.allowed[t] >> dst & 1 for t, src, dst in ways
        )

    def borders(self) -> Iterator[Border]:
        """Yield everything that an iteration can begin with: lasting tensors, and copies of them."""
        places = [
            [b for b in range(1, a + 1) if not b & ~a] if last else [0]
            for a, last in zip(self.allowed, self.lasting, strict=True)
        ]
        some = [t for t, last in enumerate(self.lasting) if last]
        ways = range(len(self.ways))
        many = prod(len(bits) for bits in places)
        many *= prod(1 + sum(self.length(t, w) for t in some) for w in ways)
        copies = [
            [(t, w, left) for t in some for left in range(1, self.length(t, w) + 1)] if many <= STEADY else []
            for w in ways
        ]
        for where in product(*places):
            for chosen in product(*([None, *each] for each in copies)):
                flights = tuple(sorted(f for f in chosen if f is not None))
                goals = [(t, self.ways[w][1]) for t, w, _ in flights]
                new = len({*goals}) == len(goals) and not any(where[t] >> x & 1 for t, x in goals)
                if new and self.crosses(where, flights) and self.within_caps(flights):
                    yield where, flights

    def length(self, t: int, w: int) -> int:
        """Return the ns of a copy of a tensor on a channel."""
        return self.latency[w] - (-self.size[t] * 10**9 // self.rate[w])

    def within_caps(self, flights: tuple[Flight, ...]) -> bool:
        """Whether joint caps carry some copies together."""
        some = [w for _, w, _ in flights]
        return all(
            sum(self.rate[w] for w in some if w in ways) <= cap or sum(w in ways for w in some) < 2
            for ways, cap in self.caps
        )


def faster(problem: Placement, below: int, most: int = 300_000) -> int | None:
    """Return the least makespan or period in ns if it is less than `below`, else None.

    Raises
    ------
    TooLarge
        If more than `most` states were seen in one iteration before that is known.
    """
    search = Search(problem, most)
    nothing = (0,) * len(search.size)
    if not problem.periodic:
        ends = search.iteration(search.inputs(nothing, ()), below)
        return next((now for now, state in ends if not state[1] and search.ended(state)), None)
    begins = dict.fromkeys(search.borders())
    if not any(flights for _, flights in begins):
        for where, _ in list(begins):
            for _, state in search.iteration(search.inputs(where, ()), below):
                if (left := search.ended(state)) is not None:
                    begins.setdefault(left, None)
    best: int | None = None
    for begin in begins:
        for now, state in search.iteration(search.inputs(*begin), best or below):
            left = search.ended(state)
            more = None if left is None else _until(left, begin)
            if more is not None and now + more < (best or below):
                best = now + more
        if best == search.least:
            break
    return best


def _until(left: Border, begin: Border) -> int | None:
    """Return the ns until what an iteration leaves is what another one begins with; None: never."""
    if [f[:2] for f in left[1]] != [f[:2] for f in begin[1]]:
        return None
    waits = {f[2] - g[2] for f, g in zip(left[1], begin[1], strict=True)} or {0}
    covers = all(a & b == b for a, b in zip(left[0], begin[0], strict=True))
    return min(waits) if covers and len(waits) == 1 and min(waits) >= 0 else None
