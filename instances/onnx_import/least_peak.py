"""The least peak memory of a small graph: an exact search over its executed sets.

The graph has one writer for each tensor that is not initial and none for others, the accounting ``coexist``,
and ops without ``after`` or modes: so are the bodies of control flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from ...models.graph import Graph

MOST_STATES = 20_000
"""Largest number of executed sets that one search keeps, chosen by hand; a few seconds on 1,000 ops."""


def least_peak(graph: Graph, states: int = MOST_STATES) -> int | None:
    """Return the least peak of a graph in bytes; None if that takes more than so many executed sets.

    Sets are taken in the order of the least peak with which they are reached, so the first complete one has
    the least peak of all orders.

    Proof of the shortcut
    ---------------------
    From a set S reached with peak p, an op i is run at once, and no other is tried, if it needs no more than
    p and leaves no more bytes than before. Take any completion of S and move i to its front. Each set X of
    the completion before i becomes X + i. The bytes that i adds are the same after any set; what it releases
    only grows with the set, since a tensor is released by its last reader. So X + i holds no more bytes
    than X, no op needs more than it did, and i itself needs at most p: the peak does not grow.
    """
    steps = _Steps(graph)
    heap = [(steps.start, 0, 0, steps.start, steps.first)]
    least = {0: steps.start}
    while heap:
        peak, _, done, live, ready = heappop(heap)
        if peak > least[done]:
            continue
        while free := next((x for x in steps.of(ready, done, live) if x[1] <= peak and x[2] <= live), None):
            op, _, live = free
            done |= 1 << op
            ready = steps.ready_after(op, done, ready)
        if not ready:
            return peak
        for op, need, left in steps.of(ready, done, live):
            following, reached = done | 1 << op, max(peak, need)
            if following in least and least[following] <= reached:
                continue
            if len(least) >= states:
                return None
            least[following] = reached
            entry = (reached, -following.bit_count(), following, left)
            heappush(heap, (*entry, steps.ready_after(op, following, ready)))
    raise AssertionError("an acyclic graph has an order")


def peak_of_reference(graph: Graph) -> int:
    """Return the peak of the order in which the ops stand, in bytes."""
    steps = _Steps(graph)
    peak = live = steps.start
    for op in range(len(graph.ops)):
        _, need, live = next(steps.of((op,), (1 << op) - 1, live))
        peak = max(peak, need)
    return peak


class _Steps:
    """What it takes to run an op after a set of others; sets of ops are bit masks."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers = [0] * len(graph.tensors)
        writer: dict[int, int] = {}
        for i, op in enumerate(graph.ops):
            writer.update(dict.fromkeys(op.writes, i))
            for t in op.reads:
                self.readers[t] |= 1 << i
        self.before = [0] * len(graph.ops)
        self.followers: list[list[int]] = [[] for _ in graph.ops]
        for i, op in enumerate(graph.ops):
            for j in sorted({writer[t] for t in op.reads if t in writer}):
                self.before[i] |= 1 << j
                self.followers[j].append(i)
        self.start = sum(
            t.nbytes
            for t, readers in zip(graph.tensors, self.readers, strict=True)
            if t.initial and (readers or t.final)
        )
        self.first = tuple(i for i, before in enumerate(self.before) if not before)

    def ready_after(self, op: int, done: int, ready: Iterable[int]) -> tuple[int, ...]:
        """Return the ops that are ready once `op`, one of the ready ones, belongs to the `done` ones."""
        new = [i for i in self.followers[op] if not self.before[i] & ~done]
        return (*(i for i in ready if i != op), *new)

    def of(self, ready: Iterable[int], done: int, live: int) -> Iterator[tuple[int, int, int]]:
        """Yield each ready op, the bytes while it runs, and the bytes held behind it."""
        tensors = self.graph.tensors
        for i in ready:
            op = self.graph.ops[i]
            held = live + sum(tensors[t].nbytes for t in op.writes)
            after = done | 1 << i
            freed = sum(
                tensors[t].nbytes
                for t in (*op.reads, *op.writes)
                if not tensors[t].final and not self.readers[t] & ~after
            )
            yield i, held + op.workspace, held - freed
