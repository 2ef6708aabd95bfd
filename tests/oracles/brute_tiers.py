"""Exhaustive search for the fastest placement of whole tensors on any tiers, single runs and periods.

Each channel carries one copy at a time, at its own rate or that of the least joint cap it is under, without
interruption; several go at once where the joint caps allow it. A start can be moved earlier until an op or a
copy ends at that instant, and a release later until something needs the room: so things start at such
instants only, and nothing is released before that. In a period, an iteration may begin with copies under way:
those with which one that began with none may end, in the same time at most. They may go where their tensors
may not be then; what is there is released at any end, and may come again. Under the accounting ``replace`` an
op reads at its start, and what it only reads may be released then, before what it writes is allocated. It
reads the raw fields only.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import combinations, product

from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from tests.oracles.feasible_placement import is_needed

Flight = tuple[int, int, int]
"""A tensor, the number of its channel, ns to the end."""
State = tuple[int, int, tuple[Flight, ...], tuple[int, ...]]
"""The next op, ns to the end of the one that runs (-1: none does), copies, and tensors' tiers as bits."""


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
        self.n = len(graph.ops)
        self.rest = [sum(op.duration_ns for op in graph.ops[k:]) for k in range(self.n + 1)]

    def awaited(self, t: int, k: int, run: int) -> bool:
        """Whether the content will be needed, if op k is the next one or runs."""
        return is_needed(self.graph, t, k + (self.replace and run >= 0))

    def used(self, state: State) -> list[int]:
        """Return the bytes allocated per tier."""
        k, run, flights, where = state
        used = [
            sum(z for z, bits in zip(self.size, where, strict=True) if bits >> x & 1)
            for x in range(len(self.capacity))
        ]
        if run >= 0:
            used[0] += self.graph.ops[k].workspace
            used[0] += sum(self.size[t] for t in self.held[k] if not where[t] & 1)
        for t, w, _ in flights:
            x = self.ways[w][1]
            if x or run < 0 or t not in self.held[k]:
                used[x] += self.size[t]
        return used

    def fits(self, state: State) -> bool:
        """Whether all tiers hold what is allocated."""
        return all(c is None or u <= c for u, c in zip(self.used(state), self.capacity, strict=True))

    def room(self, state: State, x: int) -> Iterator[State]:
        """Yield the state with room in a tier: as it is, or with as little released as suffices."""
        k, run, flights, where = state
        if self.fits(state):
            yield state
            return
        sources = {(t, self.ways[w][0]) for t, w, _ in flights}
        busy = set(self.held[k]) if run >= 0 and not x else set()
        some = [
            t
            for t, bits in enumerate(where)
            if bits >> x & 1 and bits & ~(1 << x) and (t, x) not in sources and t not in busy
        ]
        found: list[set[int]] = []
        for count in range(1, len(some) + 1):
            for gone in combinations(some, count):
                if not any(less <= set(gone) for less in found):
                    less = tuple(b & ~(1 << x) if t in gone else b for t, b in enumerate(where))
                    if self.fits((k, run, flights, less)):
                        found.append(set(gone))
                        yield k, run, flights, less

    def tidy(self, state: State) -> State:
        """Release what nobody needs any more."""
        k, run, flights, where = state
        moving = {t for t, _, _ in flights}
        busy = set(self.held[k]) if run >= 0 else set()
        return (
            k,
            run,
            flights,
            tuple(b if {t} & (moving | busy) or self.awaited(t, k, run) else 0 for t, b in enumerate(where)),
        )

    def starts(self, state: State) -> Iterator[State]:
        """Yield what may start now."""
        k, run, flights, where = state
        if run < 0 and k < self.n:
            op = self.graph.ops[k]
            moving = {t for t, _, _ in flights}
            if all(where[t] & 1 for t in op.reads) and not moving & set(op.writes):
                during = tuple(
                    (b & 1 if t in op.reads else 0) if t in op.writes else b for t, b in enumerate(where)
                )
                if op.duration_ns:
                    yield from self.room(self.tidy((k, op.duration_ns, flights, during)), 0)
        writing = set(self.graph.ops[k].writes) if run >= 0 else set()
        for w, (src, dst) in enumerate(self.ways):
            going = [other for _, other, _ in flights]
            if w in going:
                continue
            full = any(
                w in some and self.rate[w] + sum(self.rate[o] for o in going if o in some) > cap
                for some, cap in self.caps
            )
            if full:
                continue
            for t, bits in enumerate(where):
                landing = any(t == f[0] and self.ways[f[1]][1] == dst for f in flights)
                if not bits >> src & 1 or bits >> dst & 1 or t in writing or landing:
                    continue
                if not self.awaited(t, k, run):
                    continue
                time = self.latency[w] - (-self.size[t] * 10**9 // self.rate[w])
                yield from self.room((k, run, tuple(sorted([*flights, (t, w, time)])), where), dst)
        sources = {(t, self.ways[w][0]) for t, w, _ in flights}
        for t, bits in enumerate(where):  # what may not be there as an iteration begins may come again then
            barred = bits & ~self.allowed[t] if self.lasting[t] else 0
            for x in range(barred.bit_length()):
                less = bits & ~(1 << x)
                kept = (t, x) in sources or (not x and run >= 0 and t in self.held[k])
                if barred >> x & 1 and less and not kept:
                    yield k, run, flights, (*where[:t], less, *where[t + 1 :])

    def later(self, state: State) -> tuple[int, State] | None:
        """Return the ns to the next end, and the state then."""
        k, run, flights, where = state
        step = min([*(f[2] for f in flights), *([run] if run >= 0 else [])], default=None)
        if step is None:
            return None
        now = list(where)
        if run == step:
            for t in self.graph.ops[k].writes:
                now[t] = 1
            k, run = k + 1, -1
        elif run >= 0:
            run -= step
        for t, w, left in flights:
            if left == step:
                now[t] |= 1 << self.ways[w][1]
        rest = tuple(sorted((t, w, left - step) for t, w, left in flights if left > step))
        return step, self.tidy((k, run, rest, tuple(now)))

    def iteration(self, first: Iterable[State], below: int) -> Iterator[tuple[int, State]]:
        """Yield how an iteration may end, before `below` ns, the earliest first."""
        queue = [(0, state) for state in first if self.fits(state)]
        heapq.heapify(queue)
        best = {state: 0 for _, state in queue}
        while queue:
            now, state = heapq.heappop(queue)
            if best[state] < now:
                continue
            if state[0] == self.n and state[1] < 0:
                yield now, state
            following = [(now, self.tidy(other)) for other in self.starts(state)]
            after = self.later(state)
            if after is not None:
                following.append((now + after[0], after[1]))
            for time, other in following:
                left = self.rest[other[0]] - (
                    self.graph.ops[other[0]].duration_ns - other[1] if other[1] >= 0 else 0
                )
                if time + left < below and time < best.get(other, time + 1):
                    best[other] = time
                    heapq.heappush(queue, (time, other))
                    if len(best) > self.most:
                        raise TooLarge

    def inputs(self, where: tuple[int, ...], flights: tuple[Flight, ...]) -> Iterator[State]:
        """Yield the beginnings of an iteration: lasting tensors where they are, the others where they may."""
        choices = []
        for t, tensor in enumerate(self.graph.tensors):
            if self.lasting[t]:
                choices.append([where[t]])
            elif tensor.initial and is_needed(self.graph, t, 0):
                choices.append([b for b in range(1, self.allowed[t] + 1) if not b & ~self.allowed[t]])
            else:
                choices.append([0])
        for some in product(*choices):
            if self.fits((0, -1, flights, some)):
                yield self.tidy((0, -1, flights, some))

    def ended(self, state: State) -> tuple[tuple[int, ...], tuple[Flight, ...]] | None:
        """Return what an iteration leaves to the next one, less what may not be there; None if it may not."""
        _, _, flights, where = state
        if any(t.final and not where[i] for i, t in enumerate(self.graph.tensors)):
            return None
        kept = tuple(
            b & a if last else 0 for b, a, last in zip(where, self.allowed, self.lasting, strict=True)
        )
        if any(last and not b for b, last in zip(kept, self.lasting, strict=True)):
            return None
        if any(not kept[t] >> self.ways[w][0] & 1 for t, w, _ in flights):
            return None
        return kept, flights


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
        return next((now for now, state in ends if not state[2] and search.ended(state)), None)
    choices = [
        [b for b in range(1, a + 1) if not b & ~a] if last else [0]
        for a, last in zip(search.allowed, search.lasting, strict=True)
    ]
    begins: dict[tuple[tuple[int, ...], tuple[Flight, ...]], None] = {
        (where, ()): None for where in product(*choices)
    }
    for where, _ in list(begins):
        for _, state in search.iteration(search.inputs(where, ()), below):
            left = search.ended(state)
            if left is not None:
                begins.setdefault(left, None)
    best: int | None = None
    for where, flights in begins:
        for now, state in search.iteration(search.inputs(where, flights), best or below):
            left = search.ended(state)
            if left is not None and _covers(left, (where, flights)):
                best = now
                break
    return best


def _covers(
    left: tuple[tuple[int, ...], tuple[Flight, ...]], begin: tuple[tuple[int, ...], tuple[Flight, ...]]
) -> bool:
    """Whether an iteration leaves what another one begins with."""
    return left[1] == begin[1] and all(a & b == b for a, b in zip(left[0], begin[0], strict=True))
