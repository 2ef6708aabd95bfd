"""Hybrid stages by the letter of the rules, one op, mode and reader at a time, and the best of all."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil

import lowtide as lt
from tests.oracles.brute_partition import source


def group(kind: str) -> int:
    """Return the devices of a group."""
    return int(kind[1:])


def stage_time(problem: lt.Hybrid, here: dict[int, int], d: int, y: int) -> tuple[int, int]:
    """Return ns for a sample and bytes of ops in modes on d groups, with y micro-batches under way."""
    graph = problem.graph
    work = held = 0
    for i, m in here.items():
        op, need = graph.ops[i], problem.all_needs[i][m]
        work += op.all_modes[m].duration_ns
        held += need.once
        for _ in range(y):
            held += need.each
        if problem.link is None:
            continue
        work += ceil(Fraction(4 * (d - 1) * need.weights * 10**9, problem.micro * problem.link))
        ends = [t for t in op.reads if (w := source(graph, i, t)) is not None and w not in here]
        for j, other in enumerate(graph.ops):
            if j not in here:
                ends += [t for t in other.reads if source(graph, j, t) == i]
        for t in ends:
            nbytes = graph.tensors[t].nbytes + dict(need.sync).get(t, 0)
            work += ceil(Fraction(2 * nbytes * 10**9, problem.link))
    return ceil(Fraction(work, d)), held


def allowed(problem: lt.Hybrid, i: int, t: int) -> list[int]:
    """Return the modes of an op on groups of t."""
    op, needs = problem.graph.ops[i], problem.all_needs[i]
    there = [m for m, mode in enumerate(op.all_modes) if f"t{t}" in (mode.processors or ("t1",))]
    again = [m for m in there if needs[m].again]
    if problem.recompute == "none":
        return [m for m in there if m not in again]
    return again if problem.recompute == "all" and again else there


def objective(problem: lt.Hybrid, split: lt.Split) -> int | None:
    """Return the largest time of a sample, None if the split breaks a rule."""
    graph, stage = problem.graph, split.stage
    degrees = [group(kind) for kind in split.kinds]
    if sum(d * t for d, t in zip(split.replicas, degrees, strict=True)) > problem.processors:
        return None
    if sum(split.replicas) > problem.micro or any(problem.micro % d for d in split.replicas):
        return None
    if problem.replicate is not None and max(split.replicas) > problem.replicate:
        return None
    if problem.tensor is not None and max(degrees) > problem.tensor:
        return None
    for i, op in enumerate(graph.ops):
        before = {*op.after, *(w for t in op.reads if (w := source(graph, i, t)) is not None)}
        if any(stage[j] > stage[i] for j in before):
            return None
        if split.modes[i] not in allowed(problem, i, degrees[stage[i]]):
            return None
    worst = 0
    for s, d in enumerate(split.replicas):
        here = {i: split.modes[i] for i in range(len(stage)) if stage[i] == s}
        y = ceil(Fraction(sum(split.replicas[s:]), d))
        time, held = stage_time(problem, here, d, y)
        if problem.memory is not None and held > problem.memory:
            return None
        worst = max(worst, time)
    return worst


def best(problem: lt.Hybrid) -> int | None:
    """Return the least objective over all stages, degrees and modes; None if there is none.

    Modes of one stage change nothing in the others, so they are tried stage by stage.
    """
    graph, found = problem.graph, None
    n = len(graph.ops)
    known: dict[tuple[frozenset[int], int, int, int], tuple[int, dict[int, int]] | None] = {}

    def chosen(here: frozenset[int], d: int, t: int, y: int) -> tuple[int, dict[int, int]] | None:
        if (here, d, t, y) not in known:
            rows = []
            for some in product(*(allowed(problem, i, t) for i in sorted(here))):
                modes = dict(zip(sorted(here), some, strict=True))
                time, held = stage_time(problem, modes, d, y)
                if problem.memory is None or held <= problem.memory:
                    rows.append((time, modes))
            known[here, d, t, y] = min(rows, key=lambda row: row[0], default=None)
        return known[here, d, t, y]

    degrees = [
        (d, t) for d, t in product(range(1, problem.processors + 1), repeat=2) if d * t <= problem.processors
    ]
    for stage in product(range(n), repeat=n):
        count = max(stage) + 1
        if len(set(stage)) < count:
            continue
        sets = [frozenset(i for i in range(n) if stage[i] == s) for s in range(count)]
        for some in product(degrees, repeat=count):
            if sum(d * t for d, t in some) > problem.processors:
                continue
            behind = [sum(d for d, _ in some[s:]) for s in range(count)]
            rows = [chosen(sets[s], d, t, ceil(Fraction(behind[s], d))) for s, (d, t) in enumerate(some)]
            modes = {i: m for row in rows if row is not None for i, m in row[1].items()}
            if None in rows:
                continue
            worst = objective(
                problem,
                lt.Split(
                    stage=stage,
                    kinds=tuple(f"t{t}" for _, t in some),
                    replicas=tuple(d for d, _ in some),
                    modes=tuple(modes[i] for i in range(n)),
                ),
            )
            if worst is not None and (found is None or worst < found):
                found = worst
    return found
