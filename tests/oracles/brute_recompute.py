"""Exhaustive search for the fastest sequence of runs, transfers and discards, straight from the definitions.

Dijkstra over states: which version of each tensor each tier holds, and which ops have run. A run needs its
operands in the versions of the reference order, makes every copy of what it writes stale (stale bytes are
discarded at once: they are no use and take room), and leaves new versions in the first tier, or where its
mode says. Discards take no time. With `replace`, any part of what a run only reads is released at its start.

Nothing here is shared with the package but the raw fields of graph and machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import combinations

from lowtide.models.graph import Accounting, Graph
from lowtide.models.machine import Machine

Step = tuple[str, int, int, tuple[int, ...]]
"""("run", op, mode, released at its start), ("move", tensor, tier, (tier,)), ("drop", tensor, tier, ())."""

Held = frozenset[tuple[int, int, int]]
"""Tier, tensor and version of all that is held."""


def reference_versions(graph: Graph) -> tuple[list[dict[int, int]], list[dict[int, int]], list[int]]:
    """Return by op the versions that it reads and writes, and by tensor the last one."""
    now = [0] * len(graph.tensors)
    reads, writes = [], []
    for op in graph.ops:
        reads.append({t: now[t] for t in op.reads})
        for t in op.writes:
            now[t] += 1
        writes.append({t: now[t] for t in op.writes})
    return reads, writes, now


def fastest_recomputation(graph: Graph, machine: Machine) -> int | None:
    """Return the least time in ns in which everything runs, None if there is no way.

    All that is initial, and accessed or final, starts in the first tier.
    """
    found = fastest_steps(graph, machine)
    return None if found is None else found[0]


def fastest_steps(graph: Graph, machine: Machine) -> tuple[int, list[Step]] | None:
    """Return the least time, and steps that take it."""
    reads, writes, last = reference_versions(graph)
    names = [tier.name for tier in machine.tiers]
    reach = [names.index(access.tier) for access in machine.processors[0].tiers]
    nbytes = [tensor.nbytes for tensor in graph.tensors]
    everything = frozenset(range(len(graph.ops)))

    def fits(held: Held, extra: int = 0) -> bool:
        used = [0] * len(names)
        used[0] += extra
        for k, t, _ in held:
            used[k] += nbytes[t]
        return all(c.capacity is None or u <= c.capacity for u, c in zip(used, machine.tiers, strict=True))

    def runs(i: int, held: Held) -> Iterator[tuple[int, Held, Step]]:
        op = graph.ops[i]
        for number, mode in enumerate(op.all_modes):
            where = {t: names.index(tier) for t, tier in mode.operands}
            choices = [[where[t]] if t in where else reach for t in op.reads]
            if not all(
                any((k, t, reads[i][t]) in held for k in choice)
                for t, choice in zip(op.reads, choices, strict=True)
            ):
                continue
            kept = frozenset(item for item in held if item[1] not in op.writes)
            new = frozenset((where.get(t, 0), t, version) for t, version in writes[i].items())
            # What the run only reads may go at its start if memory is accounted so; else it stays.
            loose = [item for item in kept if item[1] in op.reads]
            counts = range(len(loose) + 1) if graph.accounting is Accounting.REPLACE else [0]
            for count in counts:
                for gone in combinations(loose, count):
                    after = (kept - frozenset(gone)) | new
                    if fits(after, mode.workspace):
                        step = ("run", i, number, tuple(t for _, t, _ in gone))
                        yield mode.duration_ns, after, step

    def moves(held: Held) -> Iterator[tuple[int, Held, Step]]:
        for k, t, version in held:
            yield 0, held - {(k, t, version)}, ("drop", t, k, ())
            for channel in machine.channels:
                if channel.src != names[k]:
                    continue
                j = names.index(channel.dst)
                more = frozenset(item for item in held if item[:2] != (j, t)) | {(j, t, version)}
                if fits(more):
                    time = channel.latency_ns - (-nbytes[t] * 10**9 // channel.bytes_per_s)
                    yield time, more, ("move", t, k, (j,))

    used = {t for op in graph.ops for t in (*op.reads, *op.writes)}
    begin = frozenset(
        (0, t, 0) for t, tensor in enumerate(graph.tensors) if tensor.initial and (t in used or tensor.final)
    )
    if not fits(begin):
        return None
    first = (begin, frozenset[int]())
    best = {first: 0}
    came: dict[tuple[Held, frozenset[int]], tuple[tuple[Held, frozenset[int]], Step]] = {}
    queue = [(0, 0, first)]
    count = 0
    while queue:
        time, _, state = heapq.heappop(queue)
        held, done = state
        if best[state] < time:
            continue
        if done == everything and all(
            any((k, t, last[t]) in held for k in range(len(names)))
            for t, tensor in enumerate(graph.tensors)
            if tensor.final
        ):
            steps = []
            while state in came:
                state, step = came[state]
                steps.append(step)
            return time, steps[::-1]
        ways = [(cost, (after, done), step) for cost, after, step in moves(held)]
        for i, op in enumerate(graph.ops):
            if set(op.after) <= done:
                ways += [(cost, (after, done | {i}), step) for cost, after, step in runs(i, held)]
        for cost, then, step in ways:
            if time + cost < best.get(then, time + cost + 1):
                best[then] = time + cost
                came[then] = (state, step)
                count += 1
                heapq.heappush(queue, (time + cost, count, then))
    return None
