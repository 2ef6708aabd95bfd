"""Exhaustive search for the fastest schedule within a memory, straight from the definitions.

Every op takes one of its modes, on a processor of a kind that the mode allows. With these as they are, some
fastest schedule starts every op at time 0 or at the end of another one. Take one whose starts have the
least sum, and the ops that start at an instant s > 0 at which none ends: the ops before them have ended
before s, no processor becomes idle at s, and memory is released at s only by these starts themselves; so
all of them could start a little earlier. The search goes from end to end and tries every set of ready ops
at each.

Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from lowtide.models.graph import Accounting, Graph
from tests.oracles.brute_force import must_precede

Running = tuple[int, int, int, str]
"""Of a running op: index, end, mode, kind of its processor."""


def live_bytes(
    graph: Graph, started: frozenset[int], ended: frozenset[int], mode: Mapping[int, int] | None = None
) -> int:
    """Return the bytes that are live while exactly these ops have started, and these have ended.

    `mode`: of each running op; None: the first one.
    """
    total = sum(graph.ops[i].all_modes[mode[i] if mode else 0].workspace for i in started - ended)
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


def fastest_schedule(
    graph: Graph, processors: int | Mapping[str, int] | tuple[tuple[str, int], ...], memory: int | None
) -> int | None:
    """Return the least makespan in ns, None if no schedule keeps within the memory."""
    n = len(graph.ops)
    counts = {"any": processors} if isinstance(processors, int) else dict(processors)
    pairs = must_precede(graph)
    before = [frozenset(i for i, j in pairs if j == k) for k in range(n)]
    ways = [
        [
            (number, kind)
            for number, mode in enumerate(op.all_modes)
            for kind in counts
            if not mode.processors or kind in mode.processors
        ]
        for op in graph.ops
    ]
    best: int | None = None
    seen: dict[tuple[frozenset[int], frozenset[Running]], int] = {}

    def choices(ready: list[int], running: frozenset[Running], now: int) -> Iterator[frozenset[Running]]:
        """Yield what runs after any set of ready ops has started in any way."""
        for count in range(min(len(ready), sum(counts.values()) - len(running)) + 1):
            for chosen in combinations(ready, count):
                for taken in product(*(ways[i] for i in chosen)):
                    new = {
                        (i, now + graph.ops[i].all_modes[m].duration_ns, m, kind)
                        for i, (m, kind) in zip(chosen, taken, strict=True)
                    }
                    busy = running | new
                    if all(sum(r[3] == kind for r in busy) <= most for kind, most in counts.items()):
                        yield busy

    def visit(now: int, started: frozenset[int], running: frozenset[Running]) -> None:
        """Start any set of ops at `now`."""
        nonlocal best
        ended = started - {r[0] for r in running}
        if len(started) == n:
            end = max((r[1] for r in running), default=now)
            best = end if best is None else min(best, end)
            return
        key = (started, frozenset((i, e - now, m, kind) for i, e, m, kind in running))
        if seen.get(key, now + 1) <= now or (best is not None and now >= best):
            return
        seen[key] = now
        ready = [i for i in range(n) if i not in started and before[i] <= ended]
        for busy in choices(ready, running, now):
            more = started | {r[0] for r in busy}
            if not busy:
                continue
            modes = {i: m for i, _, m, _ in busy}
            if memory is not None and live_bytes(graph, more, ended, modes) > memory:
                continue
            step = min(r[1] for r in busy)
            visit(step, more, frozenset(r for r in busy if r[1] > step))

    if memory is not None and live_bytes(graph, frozenset(), frozenset()) > memory:
        return None
    visit(0, frozenset(), frozenset())
    return best
