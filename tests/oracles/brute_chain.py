"""Exhaustive search for the fastest run of a plain chain with slower tiers, from the definitions.

x_0 .. x_l and y_0 .. y_l as in `lowtide.instances.generators.backprop_chain`, accounting ``coexist``,
channels between the first tier and each other one. A* over states: in which tiers each tensor is. Things are
dropped when room lacks, any least set of them; what still must run at least once is the estimate. Nothing is
shared with the package but its raw fields.

With `nested`, only schedules of H-Revolve's form: nothing but some x_i is copied, outwards right after it was
made or read back. When it is, to or from tier k, all else but the last gradient is dropped from the memory
before, and everything from tiers 1 .. k - 1. What was copied is not made again; each backward runs once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import combinations

import lowtide as lt

Places = tuple[frozenset[int], ...]
"""By tier what is there: i for x_i, l + 1 + i for y_i. Then what is not made again, what was just made."""


def fastest_chain(problem: lt.Recompute, *, nested: bool = False, order: Sequence[str] = ()) -> int | None:
    """Return the least time in ns, None if there is no way; `order`: the slower tiers, the nearest first."""
    graph, machine = problem.graph, problem.machine
    n = len(graph.ops) // 2 + 1
    fast, *others = [tier.name for tier in machine.tiers]
    names = [fast, *(order or others)]
    room = [next(t.capacity for t in machine.tiers if t.name == name) for name in names]
    x = [graph.ops[0].reads[0], *(op.writes[0] for op in graph.ops[: n - 1])]
    y = [graph.ops[2 * (n - 1) - i].writes[0] for i in range(n)]
    size = [graph.tensors[t].nbytes for t in (*x, *y)]
    forward = [op.duration_ns for op in graph.ops[: n - 1]]
    backward = [op.duration_ns for op in graph.ops[n - 1 :]][::-1]
    space = [op.all_modes[0].workspace for op in graph.ops]
    cost = {}
    nothing = frozenset[int]()
    for channel in machine.channels:
        a, b = names.index(channel.src), names.index(channel.dst)
        for i, nbytes in enumerate(size):
            cost[i, a, b] = channel.latency_ns + -(-nbytes * 10**9 // channel.bytes_per_s)

    def with_room(
        held: frozenset[int], needed: frozenset[int], k: int, extra: int
    ) -> Iterator[frozenset[int]]:
        """Yield what tier k may have with what is needed: dropped is a least set of the others."""
        limit, loose = room[k], sorted(held - needed)
        if limit is None or sum(size[i] for i in held | needed) + extra <= limit:
            yield held | needed
            return
        base = sum(size[i] for i in needed) + extra
        for i_gone in range(len(loose) + 1):
            for gone in combinations(loose, i_gone):
                total = base + sum(size[i] for i in loose if i not in gone)
                if total <= limit and all(total + size[i] > limit for i in gone):
                    yield (held | needed) - {*gone}

    def estimate(places: Places) -> int:
        there = frozenset[int]().union(*places[:-2])
        last = min((i for i in range(n) if n + i in there), default=n)
        if last < n:
            return sum(backward[:last])
        return sum(forward[max(i for i in range(n) if i in there) :]) + sum(backward)

    def ways(places: Places) -> Iterator[tuple[int, Places]]:
        memory, kept, fresh = places[0], places[-2], places[-1]
        last = min((i for i in range(n) if n + i in memory), default=n)
        for i in range(n - 1):
            if i in memory and i + 1 not in memory and i + 1 not in kept:
                for held in with_room(memory, frozenset((i, i + 1)), 0, space[i]):
                    yield forward[i], (held, *places[1:-1], frozenset((i + 1,)) if nested else fresh)
        for i in range(n):
            used = frozenset((i, n + i, *((n + i + 1,) if i + 1 < n else ())))
            if n + i not in memory and used - {n + i} <= memory and not (nested and last != i + 1):
                for held in with_room(memory, used, 0, space[2 * (n - 1) - i]):
                    gone = {n + i + 1} if nested else set()
                    yield backward[i], (held - gone, *places[1:-1], frozenset())
        for (i, a, b), ns in cost.items():
            if i not in places[a] or i in places[b]:
                continue
            now = list(places)
            if nested:
                if i >= n or (a == 0 and i not in fresh):
                    continue
                now[: max(a, b)] = [memory & {i, n + last}, *[frozenset()] * (max(a, b) - 1)]
            for held in with_room(now[b], frozenset((i,)), b, 0):
                after = list(now)
                after[b] = held
                if nested:
                    after[-2:] = [kept | {i}, frozenset((i,))]
                yield ns, tuple(after)

    begin: Places = (frozenset((0,)), *(nothing for _ in others), nothing, frozenset((0,)))
    best = {begin: 0}
    queue = [(estimate(begin), 0, 0, begin)]
    count = 0
    while queue:
        _, _, time, places = heapq.heappop(queue)
        if best[places] < time:
            continue
        if any(n in held for held in places[:-2]):
            return time
        for ns, then in ways(places):
            if time + ns < best.get(then, time + ns + 1):
                best[then] = time + ns
                count += 1
                heapq.heappush(queue, (time + ns + estimate(then), count, time + ns, then))
    return None
