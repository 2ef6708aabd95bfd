"""Exhaustive search for the fastest schedule within a memory, straight from the definitions.

Some fastest schedule starts every op at time 0 or at the end of another one. Take one whose starts have the
least sum, and the ops that start at an instant s > 0 at which none ends: the ops before them have ended
before s, no processor becomes idle at s, and memory is released at s only by these starts themselves; so
all of them could start a little earlier. The search goes from end to end and tries every set of ready ops
at each.

Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from itertools import combinations

from lowtide.models.graph import Accounting, Graph
from tests.oracles.brute_force import must_precede


def live_bytes(graph: Graph, started: frozenset[int], ended: frozenset[int]) -> int:
    """Return the bytes that are live while exactly these ops have started, and these have ended."""
    total = sum(graph.ops[i].all_modes[0].workspace for i in started - ended)
    for t, tensor in enumerate(graph.tensors):
        accessors = {i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes}
        if not accessors:
            total += tensor.nbytes if tensor.initial and tensor.final else 0
            continue
        if not tensor.initial and not started & accessors:
            continue
        holders = accessors - ended
        if graph.accounting is Accounting.REPLACE:
            holders = {i for i in holders if i not in started or t in graph.ops[i].writes}
        if tensor.final or holders:
            total += tensor.nbytes
    return total


def fastest_schedule(graph: Graph, processors: int, memory: int | None) -> int | None:
    """Return the least makespan in ns, None if no schedule keeps within the memory."""
    n = len(graph.ops)
    pairs = must_precede(graph)
    before = [frozenset(i for i, j in pairs if j == k) for k in range(n)]
    duration = [op.all_modes[0].duration_ns for op in graph.ops]
    best: int | None = None
    seen: dict[tuple[frozenset[int], frozenset[tuple[int, int]]], int] = {}

    def visit(now: int, started: frozenset[int], running: frozenset[tuple[int, int]]) -> None:
        """Start any set of ops at `now`; `running` are pairs of op and end."""
        nonlocal best
        ended = started - {i for i, _ in running}
        if len(started) == n:
            end = max((e for _, e in running), default=now)
            best = end if best is None else min(best, end)
            return
        key = (started, frozenset((i, e - now) for i, e in running))
        if seen.get(key, now + 1) <= now or (best is not None and now >= best):
            return
        seen[key] = now
        ready = [i for i in range(n) if i not in started and before[i] <= ended]
        for count in range(min(len(ready), processors - len(running)) + 1):
            for chosen in combinations(ready, count):
                more = started | set(chosen)
                if not count and not running:
                    continue
                if memory is not None and live_bytes(graph, more, ended) > memory:
                    continue
                busy = running | {(i, now + duration[i]) for i in chosen}
                step = min(e for _, e in busy)
                visit(step, more, frozenset((i, e) for i, e in busy if e > step))

    visit(0, frozenset(), frozenset())
    return best
