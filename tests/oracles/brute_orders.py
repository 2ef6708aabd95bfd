"""The partial orders that extend the precedence, all of them, and the memory of all schedules of each.

A schedule under a partial order is at some moment in a state: ops that have finished and ops that run. Its
memory there depends on these two sets only (`tests.oracles.brute_parallel.memory_at` reads it off a clock),
so the states above a bound are found once, and an order is within the bound if none of them can occur
under it. Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from lowtide.models.graph import Graph
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_parallel import memory_at

Masks = tuple[int, ...]
"""Per op: the ops that must end before it starts, as bits."""


def masks(n: int, pairs: set[tuple[int, int]]) -> Masks | None:
    """Return what must precede each op under pairs and what follows from them; None if there is a cycle."""
    before = [sum(1 << i for i, k in pairs if k == j) for j in range(n)]
    for _ in range(n):
        for j in range(n):
            for i in range(n):
                if before[j] >> i & 1:
                    before[j] |= before[i]
    return None if any(before[j] >> j & 1 for j in range(n)) else tuple(before)


def partial_orders(graph: Graph) -> Iterator[Masks]:
    """Yield every partial order of the ops that contains the precedence, once."""
    n = len(graph.ops)
    base = masks(n, must_precede(graph))
    assert base is not None
    pairs = [(i, j) for j in range(n) for i in range(j)]

    def extend(before: Masks, at: int, apart: list[tuple[int, int]]) -> Iterator[Masks]:
        if any(before[j] >> i & 1 or before[i] >> j & 1 for i, j in apart):
            return
        if at == len(pairs):
            yield before
            return
        i, j = pairs[at]
        if before[j] >> i & 1 or before[i] >> j & 1:
            yield from extend(before, at + 1, apart)
            return
        for u, v in ((i, j), (j, i)):
            new = before[u] | 1 << u
            more = tuple(b | new if x == v or b >> v & 1 else b for x, b in enumerate(before))
            yield from extend(more, at + 1, apart)
        yield from extend(before, at + 1, [*apart, (i, j)])

    return extend(base, 0, [])


def states_above(graph: Graph, bound: int, processors: int | None = None) -> list[tuple[int, int]]:
    """Return the states (finished, running) whose memory is above a bound, whatever the precedence."""
    n = len(graph.ops)
    found = []
    for state in product((0, 1, 2), repeat=n):
        finished = frozenset(i for i in range(n) if state[i] == 2)
        running = frozenset(i for i in range(n) if state[i] == 1)
        if processors is not None and len(running) > processors:
            continue
        if memory_at(graph, (finished, running)) > bound:
            found.append((sum(1 << i for i in finished), sum(1 << i for i in running)))
    return found


def within(before: Masks, above: Sequence[tuple[int, int]]) -> bool:
    """Return whether none of the states can occur under a partial order."""
    return not any(
        all(not (finished | running) >> i & 1 or before[i] & ~finished == 0 for i in range(len(before)))
        for finished, running in above
    )


def longest_path(graph: Graph, before: Masks) -> int:
    """Return the length in ns of the longest chain under a partial order, each op in its shortest mode."""
    spent = [min(m.duration_ns for m in op.all_modes) for op in graph.ops]
    end: dict[int, int] = {}
    for i in sorted(range(len(before)), key=lambda i: before[i].bit_count()):
        end[i] = spent[i] + max((end[k] for k in range(len(before)) if before[i] >> k & 1), default=0)
    return max(end.values(), default=0)


def shortest_within(graph: Graph, bound: int, processors: int | None = None) -> int | None:
    """Return the least critical path of the partial orders within a bound; None if there is none."""
    above = states_above(graph, bound, processors)
    lengths = (longest_path(graph, order) for order in partial_orders(graph) if within(order, above))
    return min(lengths, default=None)
