"""Exhaustive search for the fewest bytes written, straight from the definition; nothing of the package.

Dijkstra over states: which ops have run, and of every tensor that is live how many of its bytes are in the
memory and how many the storage has. Bytes move one by one, or with `whole` all of a tensor at once. A byte
may only be released from the memory if the storage has it; writing it costs 1, reading it back nothing. An
op needs all it accesses in the memory, which then also holds its workspace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from lowtide.models.graph import Graph

State = tuple[frozenset[int], tuple[tuple[int, int, int], ...]]
"""Ops that have run; of each live tensor: index, bytes in the memory, bytes in the storage."""

Live = dict[int, tuple[int, int]]


def fewest_bytes(
    graph: Graph, memory: int, *, whole: bool = False, order: Sequence[int] | None = None
) -> int | None:
    """Return the fewest bytes written, over all orders or in the given one; None if there is no way.

    Parameters
    ----------
    graph
        Without initial and final tensors, each written once.
    """
    assert not any(tensor.initial or tensor.final for tensor in graph.tensors)
    size = [tensor.nbytes for tensor in graph.tensors]
    readers = [{i for i, op in enumerate(graph.ops) if t in op.reads} for t in range(len(size))]
    writer = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    before = [{*op.after, *(writer[t] for t in op.reads)} for op in graph.ops]

    def runs(done: frozenset[int], live: Live, used: int) -> Iterator[State]:
        ready = range(len(graph.ops)) if order is None else order[len(done) : len(done) + 1]
        for i in ready:
            op = graph.ops[i]
            if i in done or not before[i] <= done or any(live[t][0] < size[t] for t in op.reads if size[t]):
                continue
            if used + sum(size[t] for t in op.writes) + op.all_modes[0].workspace > memory:
                continue
            now = done | {i}
            left = {t: some for t, some in live.items() if not readers[t] <= now}
            left |= {t: (size[t], 0) for t in op.writes if size[t] and readers[t]}
            yield now, tuple(sorted((t, a, b) for t, (a, b) in left.items()))

    def moves(done: frozenset[int], live: Live, used: int) -> Iterator[tuple[int, State]]:
        for t, (here, there) in live.items():
            step = size[t] if whole else 1
            changes = []
            if there < size[t]:
                changes.append((step, here, there + step))
            if size[t] - here < there:
                changes.append((0, here - step, there))
            if here < size[t] and used + step <= memory:
                changes.append((0, here + step, there))
            for cost, a, b in changes:
                now = {**live, t: (a, b)}
                yield cost, (done, tuple(sorted((u, *some) for u, some in now.items())))

    start: State = (frozenset(), ())
    best = {start: 0}
    heap: list[tuple[int, int, State]] = [(0, 0, start)]
    count = 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if best[state] < cost:
            continue
        done, held = state
        if len(done) == len(graph.ops):
            return cost
        live = {t: (here, there) for t, here, there in held}
        used = sum(here for here, _ in live.values())
        found = [(0, after) for after in runs(done, live, used)] + list(moves(done, live, used))
        for more, after in found:
            if cost + more < best.get(after, cost + more + 1):
                best[after] = cost + more
                count += 1
                heapq.heappush(heap, (cost + more, count, after))
    return None
