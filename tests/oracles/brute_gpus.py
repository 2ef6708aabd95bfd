"""Exhaustive search for the fastest placement on GPUs that do the same and share one link to a host.

Whole tensors; the link carries one copy at a time each way, of any GPU, at its full rate, uninterrupted; the
host is unlimited. Things start at the beginning or when something ends, and releases wait until something
needs the room. With two GPUs, tensors may start on the other one; they leave it when they have been copied
out. It reads the raw fields only.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import combinations, product

import lowtide as lt
from tests.oracles.feasible_placement import is_needed

DEVICE, HOST, OTHER = 1, 2, 4
OUT, IN = 0, 1
Gpu = tuple[int, int, tuple[int, ...]]
"""The next op, ns to the end of the one that runs (-1: none does), where each tensor is as bits."""
Flight = tuple[int, int, int, int]
"""Direction, GPU, tensor, ns to the end."""
State = tuple[tuple[Gpu, ...], tuple[Flight, ...]]


class TooLarge(Exception):
    """More states than the search may look at."""


class Search:
    """The rules: a graph on `many` GPUs, bytes of each, rates of the link in bytes/s by direction."""

    def __init__(self, graph: lt.Graph, memory: int, rates: tuple[int, int], many: int, most: int) -> None:
        self.graph, self.memory, self.rates, self.many, self.most = graph, memory, rates, many, most
        self.size = [t.nbytes for t in graph.tensors]
        self.n = len(graph.ops)
        self.rest = [sum(op.duration_ns for op in graph.ops[k:]) for k in range(self.n + 1)]

    def used(self, state: State, g: int) -> int:
        """Return the bytes allocated on a GPU."""
        k, run, where = state[0][g]
        held = {t for t, bits in enumerate(where) if bits & DEVICE}
        held |= {t for way, other, t, _ in state[1] if way == IN and other == g}
        foreign = [
            t
            for other, gpu in enumerate(state[0])
            for t, bits in enumerate(gpu[2])
            if other != g and bits & OTHER
        ]
        workspace = 0
        if run >= 0:
            held |= {*self.graph.ops[k].reads, *self.graph.ops[k].writes}
            workspace = self.graph.ops[k].workspace
        return workspace + sum(self.size[t] for t in (*held, *foreign))

    def room(self, state: State, g: int) -> Iterator[State]:
        """Yield the state with room on a GPU: as it is, or with as little released as suffices."""
        if self.used(state, g) <= self.memory:
            yield state
            return
        k, run, where = state[0][g]
        busy = {t for way, other, t, _ in state[1] if way == OUT and other == g}
        if run >= 0:
            busy |= {*self.graph.ops[k].reads, *self.graph.ops[k].writes}
        some = [t for t, bits in enumerate(where) if bits == DEVICE | HOST and t not in busy]
        found: list[set[int]] = []
        for count in range(1, len(some) + 1):
            for gone in combinations(some, count):
                if not any(less <= {*gone} for less in found):
                    left = tuple(HOST if t in gone else bits for t, bits in enumerate(where))
                    other = self.put(state, g, (k, run, left))
                    if self.used(other, g) <= self.memory:
                        found.append({*gone})
                        yield other

    def put(self, state: State, g: int, gpu: Gpu) -> State:
        """Return the state with another GPU in place of one."""
        return (*state[0][:g], gpu, *state[0][g + 1 :]), state[1]

    def starts(self, state: State) -> Iterator[State]:
        """Yield what may start now."""
        gpus, flights = state
        for g, (k, run, where) in enumerate(gpus):
            moving = {t for _, other, t, _ in flights if other == g}
            if run < 0 and k < self.n:
                op = self.graph.ops[k]
                if all(where[t] & DEVICE for t in op.reads) and not moving & {*op.writes}:
                    during = tuple(
                        (b & DEVICE if t in op.reads else 0) if t in op.writes else b
                        for t, b in enumerate(where)
                    )
                    yield from self.room(self.put(state, g, (k, op.duration_ns, during)), g)
            writing = {*self.graph.ops[k].writes} if run >= 0 else set()
            for way, src, dst in ((OUT, DEVICE | OTHER, HOST), (IN, HOST, DEVICE)):
                if any(other == way for other, *_ in flights):
                    continue
                for t, bits in enumerate(where):
                    if (
                        bits & src
                        and not bits & dst
                        and t not in writing | moving
                        and is_needed(self.graph, t, k)
                    ):
                        time = -(-self.size[t] * 10**9 // self.rates[way])
                        more = (gpus, tuple(sorted([*flights, (way, g, t, time)])))
                        yield from self.room(more, g)

    def later(self, state: State) -> tuple[int, State] | None:
        """Return the ns to the next end, and the state then."""
        gpus, flights = state
        ends = [f[3] for f in flights] + [run for _, run, _ in gpus if run >= 0]
        if not ends:
            return None
        step = min(ends)
        now = []
        for g, (k, run, where) in enumerate(gpus):
            bits = list(where)
            if run == step:
                for t in self.graph.ops[k].writes:
                    bits[t] = DEVICE
                k, run = k + 1, -1
            elif run >= 0:
                run -= step
            for way, other, t, left in flights:
                if other == g and left == step:
                    bits[t] = bits[t] & ~OTHER | (HOST if way == OUT else DEVICE)
            moving = {t for _, other, t, left in flights if other == g and left > step}
            busy = {*self.graph.ops[k].reads, *self.graph.ops[k].writes} if run >= 0 else set()
            kept = tuple(
                b if t in moving | busy or is_needed(self.graph, t, k) else 0 for t, b in enumerate(bits)
            )
            now.append((k, run, kept))
        rest = tuple((way, g, t, left - step) for way, g, t, left in flights if left > step)
        return step, (tuple(now), rest)

    def least(self, state: State) -> int:
        """Return ns that pass at least until the end."""
        return max(
            self.rest[k] - (self.graph.ops[k].duration_ns - run if run >= 0 else 0) for k, run, _ in state[0]
        )


def fastest(
    graph: lt.Graph,
    memory: int,
    rates: tuple[int, int],
    many: int,
    start: tuple[int, ...],
    most: int = 200_000,
) -> int | None:
    """Return the least makespan in ns; None if there is no plan.

    Parameters
    ----------
    graph
        Of each GPU; ops with one mode that take some time.
    memory, rates, many
        Bytes of each GPU, bytes/s of the link out and in, how many GPUs.
    start
        Per tensor, bits of where it is at time 0; `OTHER` beside `DEVICE`: it is on either GPU.
    most
        States that are looked at.

    Raises
    ------
    TooLarge
        If there are more.
    """
    search = Search(graph, memory, rates, many, most)
    some = [
        [x for x in (DEVICE, HOST, OTHER) if x & bits] if bits & OTHER else [bits]
        for bits in (x * is_needed(graph, t, 0) for t, x in enumerate(start))
    ]
    starts = product(product(*some), repeat=many)
    states: list[State] = [(tuple((0, -1, where) for where in wheres), ()) for wheres in starts]
    firsts = [x for x in states if all(search.used(x, g) <= memory for g in range(many))]
    queue = [(search.least(first), 0, first) for first in firsts]
    heapq.heapify(queue)
    best = dict.fromkeys(firsts, 0)
    while queue:
        _, now, state = heapq.heappop(queue)
        if best[state] < now:
            continue
        if all(k == search.n for k, _, _ in state[0]) and not state[1]:
            return now
        following = [(now, other) for other in search.starts(state)]
        after = search.later(state)
        if after is not None:
            following.append((now + after[0], after[1]))
        for time, other in following:
            if time < best.get(other, time + 1):
                best[other] = time
                heapq.heappush(queue, (time + search.least(other), time, other))
                if len(best) > most:
                    raise TooLarge
    return None
