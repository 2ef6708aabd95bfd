"""Exhaustive search for the fastest schedule in stages, straight from the words of Checkmate's statement.

Stage t goes through the ops 0 .. t once, in the reference order, may run each that it comes to, and runs op
t. Anything may be discarded at any time. Dijkstra over stage, op that is next, and the versions of tensors
that are held. Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

import heapq
from itertools import combinations

from lowtide.models.graph import Accounting, Graph

from .brute_recompute import reference_versions

Held = frozenset[tuple[int, int]]
"""Tensor and version of all that is held."""


def fastest_in_stages(graph: Graph, memory: int) -> int | None:
    """Return the least time in ns, None if there is no such schedule."""
    reads, writes, last = reference_versions(graph)
    nbytes = [tensor.nbytes for tensor in graph.tensors]
    used = {t for op in graph.ops for t in (*op.reads, *op.writes)}
    begin = frozenset(
        (t, 0) for t, tensor in enumerate(graph.tensors) if tensor.initial and (t in used or tensor.final)
    )

    def weight(held: Held) -> int:
        return sum(nbytes[t] for t, _ in held)

    def subsets(held: Held) -> list[Held]:
        items = sorted(held)
        return [frozenset(c) for k in range(len(items) + 1) for c in combinations(items, k)]

    if weight(begin) > memory:
        return None
    best = {(0, 0, begin): 0}
    queue = [(0, 0, 0, sorted(begin))]
    while queue:
        time, t, i, items = heapq.heappop(queue)
        held = frozenset(items)
        if best[t, i, held] < time:
            continue
        if t == len(graph.ops):
            if all((k, last[k]) in held for k, tensor in enumerate(graph.tensors) if tensor.final):
                return time
            continue
        following = (t, i + 1) if i < t else (t + 1, 0)
        steps: list[tuple[int, int, int, Held]] = []
        if i < t:
            steps.append((0, *following, held))
        for kept in subsets(held):
            if not all((k, version) in kept for k, version in reads[i].items()):
                continue
            op = graph.ops[i]
            rest = frozenset(item for item in kept if item[0] not in op.writes)
            new = rest | frozenset(writes[i].items())
            loose = [item for item in rest if item[0] in op.reads]
            most = len(loose) if graph.accounting is Accounting.REPLACE else 0
            choices = [c for k in range(most + 1) for c in combinations(loose, k)]
            for dropped in choices:
                after = new - frozenset(dropped)
                if weight(after) + op.workspace <= memory:
                    steps.append((op.duration_ns, *following, after))
        for cost, stage, place, after in steps:
            key = (stage, place, after)
            if time + cost < best.get(key, time + cost + 1):
                best[key] = time + cost
                heapq.heappush(queue, (time + cost, stage, place, sorted(after)))
    return None
