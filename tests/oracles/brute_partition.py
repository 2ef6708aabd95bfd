"""Splits into stages by the letter of the rules, one op and one tensor at a time, and the best of all."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations, product
from math import ceil

import lowtide as lt
from lowtide.models.split import Split


def source(graph: lt.Graph, i: int, t: int) -> int | None:
    """Return the op whose version of tensor t op i reads; None for what is there at the start."""
    return next((j for j in range(i - 1, -1, -1) if t in graph.ops[j].writes), None)


def objective(problem: lt.Partition, split: Split) -> int | None:
    """Return the objective of a split, None if it breaks a rule."""
    graph, stage, back = problem.graph, split.stage, set(problem.backward)
    n = len(graph.ops)
    counts = dict(problem.kinds)
    for kind in counts:
        if problem.objective == "latency" and kind == "cpu":
            continue
        if sum(r for k, r in zip(split.kinds, split.replicas, strict=True) if k == kind) > counts[kind]:
            return None
    if any(stage[i] != stage[j] for some in problem.together for i in some for j in some):
        return None
    if any(r > problem.replicate for r in split.replicas):
        return None
    mirrored = {
        i for i in back if not any(i in some and set(some) - back for some in linked(problem.together, n))
    }
    needs = {(j, i) for i in range(n) for j in graph.ops[i].after}
    needs |= {(j, i) for i in range(n) for t in graph.ops[i].reads if (j := source(graph, i, t)) is not None}
    for j, i in needs if problem.contiguous else ():
        if i not in back and j not in back and stage[i] < stage[j]:
            return None
        if i in back and j in back and {i, j} & mirrored and stage[i] > stage[j]:
            return None
    loads = []
    for s, kind in enumerate(split.kinds):
        here = [i for i in range(n) if stage[i] == s]
        work = Fraction(0)
        for i in here:
            took = min(
                m.duration_ns for m in graph.ops[i].all_modes if not m.processors or kind in m.processors
            )
            work += took
            if i not in back and (problem.recompute == "all" or i in split.again):
                work += took
        for w in range(n):
            for t in graph.ops[w].writes:
                readers = [i for i in range(n) if t in graph.ops[i].reads and source(graph, i, t) == w]
                outside = (
                    any(stage[i] != s for i in readers)
                    if stage[w] == s
                    else any(stage[i] == s for i in readers)
                )
                if outside and kind != "cpu" and problem.link is not None:
                    work += ceil(Fraction(graph.tensors[t].nbytes * 10**9, problem.link))
        weights = {
            t for i in here for t in (*graph.ops[i].reads, *graph.ops[i].writes) if graph.tensors[t].initial
        }
        held = sum(graph.tensors[t].nbytes for t in weights)
        r = split.replicas[s]
        if problem.sync is not None:
            work += Fraction(4 * (r - 1) * held * 10**9, r * problem.sync)
        loads.append(ceil(work / r))
        held += kept(problem, split, s, here)
        if problem.memory is not None and kind != "cpu" and held > problem.memory:
            return None
    if problem.objective == "latency":
        ends: dict[int, int] = {}
        while len(ends) < len(loads):
            for s in set(range(len(loads))) - set(ends):
                needed = {stage[j] for j, i in needs if stage[i] == s} - {s}
                if needed <= set(ends):
                    ends[s] = loads[s] + max((ends[r] for r in needed), default=0)
        return max(ends.values())
    return max(loads) if problem.objective == "load" else sum(loads) + (problem.micro - 1) * max(loads)


def kept(problem: lt.Partition, split: Split, s: int, here: list[int]) -> int:
    """Return the bytes of micro-batches on a stage."""
    if problem.schedule == "none":
        return 0
    graph, back, n = problem.graph, set(problem.backward), len(problem.graph.ops)
    copies = problem.micro if problem.schedule == "gpipe" else min(problem.micro, len(split.kinds) - s)
    total = 0
    redone: dict[int, int] = {}
    for w in sorted(set(range(n)) - back):
        for t in graph.ops[w].writes:
            readers = {i for i in here if t in graph.ops[i].reads and source(graph, i, t) == w}
            size = graph.tensors[t].nbytes
            rerun = problem.recompute == "all" or w in split.again
            if split.stage[w] != s and (readers if problem.recompute != "none" else readers & back):
                total += copies * size
            elif split.stage[w] == s and readers & back and rerun:
                redone[w] = redone.get(w, 0) + size
            elif split.stage[w] == s and readers & back:
                total += copies * size
    return total + (sum(redone.values()) if problem.recompute == "all" else max(redone.values(), default=0))


def linked(together: tuple[tuple[int, ...], ...], n: int) -> list[set[int]]:
    """Return the classes, those that share ops as one, with each other op alone."""
    found = [{i} for i in range(n)]
    for some in together:
        joined = set(some).union(*(group for group in found if group & set(some)))
        found = [group for group in found if not group & joined] + [joined]
    return found


def splits(problem: lt.Partition) -> Iterator[Split]:
    """Yield every split that can be stated."""
    groups = linked(problem.together, len(problem.graph.ops))
    devices = sum(count for _, count in problem.kinds)
    if problem.objective == "latency" and "cpu" in dict(problem.kinds):
        devices = len(groups)
    ahead = sorted(set(range(len(problem.graph.ops))) - set(problem.backward))
    subsets = chain.from_iterable(combinations(ahead, k) for k in range(len(ahead) + 1))
    reruns = list(subsets) if problem.recompute == "choose" else [()]
    for places in product(range(min(devices, len(groups))), repeat=len(groups)):
        count = max(places) + 1
        if set(places) != set(range(count)):
            continue
        stage = [0] * len(problem.graph.ops)
        for group, s in zip(groups, places, strict=True):
            for i in group:
                stage[i] = s
        for kinds in product([kind for kind, _ in problem.kinds], repeat=count):
            if any(kinds[s] not in problem.modes[i] for i, s in enumerate(stage)):
                continue
            for replicas in product(range(1, problem.replicate + 1), repeat=count):
                for again in reruns:
                    yield Split(stage=tuple(stage), kinds=kinds, replicas=replicas, again=again)


def best(problem: lt.Partition) -> int | None:
    """Return the least objective of all splits, None if there is none."""
    return min((x for split in splits(problem) if (x := objective(problem, split)) is not None), default=None)


def least_block(graph: lt.Graph, blocks: int, link: int) -> int:
    """Return the least largest cost of blocks in a row: ops, and tensors once in each block they cross."""
    n = len(graph.ops)
    crossing = []
    needs = [set(op.after) for op in graph.ops]
    for w, op in enumerate(graph.ops):
        for t in op.writes:
            readers = [i for i in range(n) if t in graph.ops[i].reads and source(graph, i, t) == w]
            crossing.append((w, readers, ceil(Fraction(graph.tensors[t].nbytes * 10**9, link))))
            for i in readers:
                needs[i].add(w)
    found = []
    block: list[int] = []

    def extend() -> None:
        if len(block) < n:
            first = max((block[j] for j in needs[len(block)]), default=0)
            for b in range(first, blocks):
                block.append(b)
                extend()
                block.pop()
            return
        cost = [0] * blocks
        for i, b in enumerate(block):
            cost[b] += graph.ops[i].duration_ns
        for w, readers, time in crossing:
            touched = {block[w], *(block[i] for i in readers)}
            for b in touched if len(touched) > 1 else ():
                cost[b] += time
        found.append(max(cost))

    extend()
    return min(found)
