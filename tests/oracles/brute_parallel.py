"""The most memory that parallel schedules need, by enumeration of every state of execution.

Each state is carried out on a clock, and the memory is read off the lifetimes of the tensors as the design
defines them. Nothing here is shared with the package but the raw fields of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from lowtide.models.graph import Accounting, Graph
from tests.oracles.brute_force import must_precede

State = tuple[frozenset[int], frozenset[int]]
Pairs = set[tuple[int, int]]


def states(n: int, before: Pairs, processors: int | None = None) -> Iterator[State]:
    """Yield every (finished, running) that can occur."""
    everything = range(n)
    for size in range(n + 1):
        for some in combinations(everything, size):
            finished = frozenset(some)
            if any(j in finished and i not in finished for i, j in before):
                continue
            ready = [j for j in everything if j not in finished]
            ready = [j for j in ready if all(i in finished for i, k in before if k == j)]
            for count in range(min(len(ready), processors or n) + 1):
                for running in combinations(ready, count):
                    yield finished, frozenset(running)


def memory_at(graph: Graph, state: State) -> int:
    """Return the bytes held while exactly `running` run after exactly `finished`."""
    finished, running = state
    clock: dict[int, tuple[int, int]] = {}
    now = 0
    for i in sorted(finished):
        clock[i] = (now, now + 1)
        now += 1
    moment = now
    for i in running:
        clock[i] = (now, now + 1)
    now += 1
    for i in range(len(graph.ops)):
        if i not in clock:
            clock[i] = (now, now + 1)
            now += 1
    total = sum(max(m.workspace for m in graph.ops[i].all_modes) for i in running)
    for t, tensor in enumerate(graph.tensors):
        users = [i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        writers = [i for i in users if t in graph.ops[i].writes]
        if not users and not (tensor.initial and tensor.final):
            continue
        birth = 0 if tensor.initial else min(clock[i][0] for i in writers)
        if tensor.final:
            death = now + 1
        elif graph.accounting is Accounting.COEXIST:
            death = max(clock[i][1] for i in users)
        else:
            death = max([clock[i][0] for i in users] + [clock[i][1] for i in writers])
        if birth <= moment < death:
            total += tensor.nbytes
    return total


def most_memory(graph: Graph, extra: Pairs = frozenset(), processors: int | None = None) -> int:  # type: ignore[assignment]
    """Return the largest memory over all states, with further pairs (i, j): i before j."""
    before = must_precede(graph) | set(extra)
    return max(memory_at(graph, state) for state in states(len(graph.ops), before, processors))


def critical_path(graph: Graph, before: Pairs) -> int | None:
    """Return the length of the longest chain of shortest durations in ns; None if there is a cycle."""
    n = len(graph.ops)
    end = [0] * n
    for _ in range(n + 1):
        new = [
            max((end[i] for i, k in before if k == j), default=0)
            + min(m.duration_ns for m in graph.ops[j].all_modes)
            for j in range(n)
        ]
        if new == end:
            return max(end, default=0)
        end = new
    return None


def least_critical_path(graph: Graph, bound: int) -> int | None:
    """Return the least critical path of extensions in which no state exceeds the bound; None if none does."""
    base = must_precede(graph)
    open_pairs = [p for p in combinations(range(len(graph.ops)), 2) if p not in base]
    best: int | None = None
    for choice in product((0, 1, 2), repeat=len(open_pairs)):
        extra = {(i, j) if c == 1 else (j, i) for c, (i, j) in zip(choice, open_pairs, strict=True) if c}
        length = critical_path(graph, base | extra)
        if length is None or (best is not None and length >= best):
            continue
        if most_memory(graph, extra) <= bound:
            best = length
    return best
