"""Mutated answers on one device: orders of streams, waits and flows, and stages, against the definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

import lowtide as lt
from lowtide.models.problems.stream_answers import Stages, StreamOrder
from lowtide.solvers.streams.memory import with_flow
from tests.effort import share
from tests.forged_flows import changed_proof
from tests.mutated_schedules import mutate
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_parallel import most_memory
from tests.oracles.brute_streams import closure, price, stage_bytes
from tests.oracles.schedule_rules import end_of, faults
from tests.solvers.streams.events import question as question_of_orders
from tests.solvers.streams.stages import question as question_of_stages

Rows = tuple[tuple[int, ...], ...]


def moved(rng: Random, rows: Rows) -> Rows:
    """Return rows with one op elsewhere, two swapped, one more or less, or a row cut in two."""
    lists = [list(row) for row in rows] or [[]]
    full = [row for row in lists if row]
    kind = rng.choice(("move", "move", "swap", "drop", "double", "cut", "join"))
    if not full:
        return rows
    row = rng.choice(full)
    k = rng.randrange(len(row))
    if kind == "move":
        to = rng.choice(lists)
        op = row.pop(k)
        to.insert(rng.randint(0, len(to)), op)
    elif kind == "swap":
        other = rng.choice(full)
        m = rng.randrange(len(other))
        row[k], other[m] = other[m], row[k]
    elif kind == "drop" and rng.random() < 0.3:
        del row[k]
    elif kind == "double" and rng.random() < 0.3:
        rng.choice(lists).append(row[k])
    elif kind == "cut":
        lists.append(row[k:])
        del row[k:]
    elif kind == "join" and len(lists) > 1:
        lists[0] += lists.pop()
    return tuple(map(tuple, lists))


def longest(problem: lt.Streams, answer: StreamOrder) -> int | None:
    """Return the end of the last op if each starts as soon as it can, alone as fast; None of a cycle."""
    n, sync = len(problem.graph.ops), problem.sync_ns
    on = {i: k for k, row in enumerate(answer.streams) for i in row}
    pairs = must_precede(problem.graph) | {p for row in answer.streams for p in pairwise(row)}
    pairs |= set(answer.waits)
    end = [0] * n
    for _ in range(n + 2):
        new = [
            op.duration_ns + max([0, *(end[i] + sync * (on[i] != on[j]) for i, k in pairs if k == j)])
            for j, op in enumerate(problem.graph.ops)
        ]
        if new == end:
            return max(end, default=0)
        end = new
    return None


def each_once(problem: lt.Streams, rows: Rows) -> bool:
    return sorted(i for row in rows for i in row) == list(range(len(problem.graph.ops)))


def change_of_order(rng: Random, problem: lt.Streams, answer: StreamOrder) -> StreamOrder:
    n = len(problem.graph.ops)
    kind = rng.choice(("rows", "rows", "wait", "no wait", "flow", "flow"))
    if kind == "rows":
        return replace(answer, streams=moved(rng, answer.streams))
    if kind == "wait":
        pair = rng.randrange(n), rng.randrange(n)
        return replace(answer, waits=(*answer.waits, pair) if pair[0] != pair[1] else answer.waits)
    if kind == "no wait" and answer.waits:
        k = rng.randrange(len(answer.waits))
        return replace(answer, waits=(*answer.waits[:k], *answer.waits[k + 1 :]))
    if answer.flow.cases:
        return replace(answer, flow=changed_proof(rng, problem.graph, answer.flow))
    return answer


def attack_orders(seed: int, changes: int = 10) -> Counter[str]:
    rng, problem, seen = Random(seed), question_of_orders(seed), Counter[str]()
    result = lt.solve(problem, rng.choice(("matching", "lios", "asap", "sequential", "auto")), threads=1)
    if result.plan is None:
        return seen
    answer = problem.read(result.plan)
    assert isinstance(answer, StreamOrder)
    answer = with_flow(problem, answer)
    assert isinstance(answer, StreamOrder)
    for _ in range(changes):
        changed = change_of_order(rng, problem, answer)
        if rng.random() < 0.3:
            changed = change_of_order(rng, problem, changed)
        rows = tuple(row for row in changed.streams if row)
        narrow = problem.streams is None or len(rows) <= problem.streams
        known = longest(problem, replace(changed, streams=rows)) if each_once(problem, rows) else None
        where = (seed, changed)
        try:
            read = problem.read(changed)
        except lt.InstanceError:
            assert known is None or not narrow, where
            seen["refused"] += 1
            continue
        assert isinstance(read, StreamOrder)
        assert known is not None
        assert narrow
        judged = problem.judge(read)
        if judged.objective is None:
            assert problem.memory is not None, where
            seen["rejected"] += 1
            continue
        seen["accepted"] += 1
        assert judged.plan is not None
        assert judged.objective == end_of(judged.plan)
        assert faults(problem.graph, judged.plan) == set(), where
        runs = {run.op: run for run in judged.plan.runs}
        assert all(runs[i].end <= runs[j].start for i, j in read.edges), where
        assert judged.objective == known if problem.contention == "none" else judged.objective >= known, where
        if problem.memory is not None:
            assert most_memory(problem.graph, set(read.edges)) <= problem.memory, where
    for _ in range(changes // 2):
        what, plan = mutate(rng, problem.graph, result.plan)
        if lt.verify(problem.graph, plan, rerun=False).valid:
            seen["valid"] += 1
            assert faults(problem.graph, plan) == set(), (seed, what)
    return seen


def stages_price(problem: lt.Streams, stages: tuple[Rows, ...]) -> int | None:
    """Return the time of stages, None if they break a rule."""
    graph = problem.graph
    place = {
        i: (k, g, x) for k, some in enumerate(stages) for g, row in enumerate(some) for x, i in enumerate(row)
    }
    if sorted(i for some in stages for row in some for i in row) != list(range(len(graph.ops))):
        return None
    for i, j in closure(graph):
        (k, g, x), (m, h, y) = place[i], place[j]
        if k > m or (k == m and (g != h or x > y)):
            return None
    total, past = 0, set[int]()
    for some in stages:
        groups = [list(row) for row in some]
        if problem.streams is not None and len(groups) > problem.streams:
            return None
        if problem.memory is not None and stage_bytes(graph, past, groups) > problem.memory:
            return None
        assert problem.parts is not None
        total += price(graph, groups, problem.contention, problem.parts, problem.sync_ns)
        past |= {i for row in some for i in row}
    return total


def without_empty(stages: tuple[Rows, ...]) -> tuple[Rows, ...]:
    some = (tuple(row for row in rows if row) for rows in stages)
    return tuple(rows for rows in some if rows)


def change_of_stages(rng: Random, stages: tuple[Rows, ...]) -> tuple[Rows, ...]:
    lists = list(stages)
    if not lists:
        return stages
    k = rng.randrange(len(lists))
    kind = rng.choice(("inside", "inside", "join", "cut", "swap", "across", "across"))
    if kind == "inside":
        lists[k] = moved(rng, lists[k])
    elif kind == "join" and k:
        lists[k - 1 : k + 1] = [(*lists[k - 1], *lists[k])]
    elif kind == "cut":
        at = rng.randint(0, len(lists[k]))
        lists[k : k + 1] = [lists[k][:at], lists[k][at:]]
    elif kind == "swap":
        m = rng.randrange(len(lists))
        lists[k], lists[m] = lists[m], lists[k]
    elif kind == "across":
        m = rng.randrange(len(lists))
        rows = moved(rng, (*lists[k], *lists[m])) if m != k else lists[k]
        if m != k:
            lists[k], lists[m] = rows[: len(lists[k])], rows[len(lists[k]) :]
    return tuple(lists)


def attack_stages(seed: int, changes: int = 10) -> Counter[str]:
    rng, problem, seen = Random(seed), question_of_stages(seed), Counter[str]()
    result = lt.solve(problem, rng.choice(("ios", "greedy", "auto")), threads=1)
    if result.plan is None:
        return seen
    answer = problem.read(result.plan)
    assert isinstance(answer, Stages)
    assert stages_price(problem, answer.stages) == result.objective
    for _ in range(changes):
        changed = change_of_stages(rng, answer.stages)
        if rng.random() < 0.3:
            changed = change_of_stages(rng, changed)
        tight = replace(problem, memory=None)
        known = stages_price(tight, without_empty(changed))
        if known is not None and problem.memory is not None:
            tight = replace(problem, memory=rng.randint(0, 14))
            known = stages_price(tight, without_empty(changed))
        where = (seed, changed, tight.memory)
        try:
            judged = tight.judge(tight.read(Stages(stages=changed)))
        except lt.InstanceError:
            assert known is None, where
            seen["refused"] += 1
            continue
        assert judged.objective == known, where
        seen["rejected" if known is None else "accepted"] += 1
    for _ in range(changes // 2):
        what, plan = mutate(rng, problem.graph, result.plan)
        if lt.verify(problem.graph, plan, rerun=False).valid:
            seen["valid"] += 1
            again = problem.read(plan)
            assert isinstance(again, Stages)
            known = stages_price(replace(problem, memory=None), without_empty(again.stages))
            assert known is not None, (seed, what)
            assert end_of(plan) >= known, (seed, what)
    return seen


ATTACKS = {"orders": attack_orders, "stages": attack_stages}


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_the_judge_of_mutated_answers(name: str) -> None:
    seen: Counter[str] = sum((ATTACKS[name](seed) for seed in range(share(400))), Counter())
    assert min(seen[x] for x in ("accepted", "rejected", "refused", "valid")) > 0, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_the_judge_of_more_mutated_answers(name: str) -> None:
    assert sum((ATTACKS[name](seed) for seed in range(1000, 1000 + share(1000))), Counter())["accepted"]
