"""Exhaustive search for the fewest bytes moved in any graph, from the definition; nothing of the package.

Dijkstra over states: which ops have run, and of every tensor that exists how many of its bytes are in the
memory and how many the storage has. Bytes move one by one, or with `whole` all of a tensor at once. A byte
may only be released from the memory if the storage has it, which forgets it when an op changes the tensor. A
write costs 1, a read costs 1 if traffic counts. An op needs all it accesses in the memory, and its workspace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from lowtide.models.graph import Graph

State = tuple[frozenset[int], tuple[tuple[int, int, int], ...]]
"""Ops that have run; of each tensor that exists: index, bytes in the memory, bytes in the storage."""


class Search:
    """What is fixed: sizes, who needs whom, what counts."""

    def __init__(self, graph: Graph, memory: int, whole: bool, count: str, stored: bool) -> None:
        self.graph, self.memory, self.whole, self.stored = graph, memory, whole, stored
        self.reading = int(count == "traffic")
        self.size = [tensor.nbytes for tensor in graph.tensors]
        self.users = [
            {i for i, op in enumerate(graph.ops) if t in {*op.reads, *op.writes}}
            for t in range(len(self.size))
        ]
        self.before: list[set[int]] = []
        for i, op in enumerate(graph.ops):
            earlier = graph.ops[:i]
            conflicts = {
                j for j, p in enumerate(earlier)
                if {*p.writes} & {*op.reads, *op.writes} or {*p.reads} & {*op.writes}
            }  # fmt: skip
            self.before.append(conflicts | set(op.after))

    def start(self) -> State:
        first = []
        for t, tensor in enumerate(self.graph.tensors):
            if tensor.initial and (self.users[t] or tensor.final):
                first.append((t, 0, self.size[t]) if self.stored else (t, self.size[t], 0))
        return frozenset(), tuple(first)

    def steps(self, state: State, order: Sequence[int] | None) -> Iterator[tuple[int, State]]:
        done, held = state
        live = {t: (here, there) for t, here, there in held}
        used = sum(here for here, _ in live.values())
        for i in range(len(self.graph.ops)) if order is None else order[len(done) : len(done) + 1]:
            op = self.graph.ops[i]
            operands = {*op.reads, *op.writes}
            if i in done or not self.before[i] <= done:
                continue
            if any(live[t][0] < self.size[t] for t in operands if t in live):
                continue
            made = operands - live.keys()
            if used + sum(self.size[t] for t in made) + op.all_modes[0].workspace > self.memory:
                continue
            now = done | {i}
            left = dict(live)
            for t in op.writes:
                left[t] = self.size[t], 0
            gone = {t for t in left if self.users[t] <= now and not self.graph.tensors[t].final}
            yield 0, (now, tuple(sorted((t, *some) for t, some in left.items() if t not in gone)))
        for t, (here, there) in live.items():
            step = self.size[t] if self.whole else 1
            changes = []
            if there < self.size[t]:
                changes.append((step, here, there + step))
            if self.size[t] - here < there:
                changes.append((0, here - step, there))
            if here < self.size[t] and used + step <= self.memory:
                changes.append((step * self.reading, here + step, there))
            for cost, a, b in changes:
                now_live = {**live, t: (a, b)}
                yield cost, (done, tuple(sorted((u, *some) for u, some in now_live.items())))

    def ended(self, state: State) -> bool:
        if len(state[0]) < len(self.graph.ops):
            return False
        return not self.stored or all(
            there == self.size[t] for t, _, there in state[1] if self.graph.tensors[t].final
        )


def fewest_moved(
    graph: Graph,
    memory: int,
    *,
    whole: bool = False,
    count: str = "writes",
    stored: bool = False,
    order: Sequence[int] | None = None,
) -> int | None:
    """Return the fewest bytes that count, over all orders or in the given one; None if there is no plan.

    Parameters
    ----------
    graph
        No op writes what exists without reading it.
    """
    search = Search(graph, memory, whole, count, stored)
    start = search.start()
    if sum(here for _, here, _ in start[1]) > memory:
        return None
    best = {start: 0}
    heap: list[tuple[int, int, State]] = [(0, 0, start)]
    number = 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if best[state] < cost:
            continue
        if search.ended(state):
            return cost
        for more, after in search.steps(state, order):
            if cost + more < best.get(after, cost + more + 1):
                best[after] = cost + more
                number += 1
                heapq.heappush(heap, (cost + more, number, after))
    return None
