"""Several devices that ops share at any rates: the least makespan by enumeration, from raw fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, count, product

from lowtide.models.graph import Graph
from tests.oracles.brute_force import must_precede

Span = tuple[int, int]


def fits(spans: Sequence[Span], shares: Sequence[int], works: Sequence[int], parts: int) -> bool:
    """Return whether a device can do works within spans: by each set of ops, a cut of the network."""
    for size in range(1, len(spans) + 1):
        for some in combinations(range(len(spans)), size):
            room = 0
            for t in range(max(end for _, end in spans)):
                room += min(parts, sum(shares[i] for i in some if spans[i][0] <= t < spans[i][1]))
            if sum(works[i] for i in some) > room:
                return False
    return True


def fastest_at_any_rates(
    graph: Graph, devices: int, streams: int | None, parts: int, *, link: int, latency_ns: int
) -> int:
    """Return the least end of the last op; `link` in bytes a ns."""
    n = len(graph.ops)
    pairs = must_precede(graph)
    time = [op.duration_ns for op in graph.ops]
    share = [min(op.share or parts, parts) for op in graph.ops]

    def lag(i: int, j: int) -> int:
        sent = set(graph.ops[i].writes) & set(graph.ops[j].reads)
        return max((latency_ns - (-graph.tensors[t].nbytes // link) for t in sent), default=0)

    def spans(on: Sequence[int], last: int, found: list[Span]) -> Iterator[list[Span]]:
        i = len(found)
        for d in range(devices):
            here = [j for j in range(i) if on[j] == d]
            mine = [found[j] for j in here]
            if here and not fits(mine, [share[j] for j in here], [share[j] * time[j] for j in here], parts):
                return
            meet = (sum(a <= t < b for a, b in mine) for t in range(last))
            if streams is not None and max(meet, default=0) > streams:
                return
        if i == n:
            yield found
            return
        before = [j for j in range(i) if (j, i) in pairs]
        ready = max((found[j][1] + (on[j] != on[i]) * lag(j, i) for j in before), default=0)
        for start in range(ready, last + 1) if streams is not None else (ready,):
            for end in range(last, start + time[i] - 1, -1):
                yield from spans(on, last, [*found, (start, end)])

    for last in count():
        for on in product(range(devices), repeat=n):
            if not n or (on[0] == 0 and next(spans(on, last, []), None) is not None):
                return last
    raise AssertionError
