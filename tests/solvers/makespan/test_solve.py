"""Makespan under a memory bound: exact methods against exhaustive search, bounds, list schedules."""

from __future__ import annotations

import heapq
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.makespan.data import makespan_data
from lowtide.models.derived.precedence import precedence
from lowtide.solvers.makespan.bounds.bounds import critical_path, load, memory_area
from lowtide.solvers.makespan.lists.layout import shop_of
from lowtide.solvers.makespan.lists.list_kernel import schedule
from tests.effort import share
from tests.oracles.brute_makespan import live_bytes
from tests.problems.makespan import optimum, problem_of_identical


def tight_problem(seed: int) -> tuple[lt.Makespan, tuple[int, ...]]:
    """Return a problem of 9 ops at or just above the least sequential peak, and an order that has it.

    Each op writes one tensor, of 1 to 9 bytes, and reads up to two of others.
    """
    rng = Random(seed)
    reads = [tuple(sorted(rng.sample(range(i), min(i, rng.choice((0, 1, 1, 2)))))) for i in range(9)]
    graph = lt.Graph(
        name="tight",
        tensors=tuple(lt.Tensor(name=f"t{i}", nbytes=rng.randint(1, 9)) for i in range(9)),
        ops=tuple(
            lt.Op(name=f"op{i}", duration_ns=rng.randint(1, 9), reads=reads[i], writes=(i,)) for i in range(9)
        ),
        accounting=rng.choice(list(lt.Accounting)),
    )
    least = lt.solve(lt.Peak(graph), "downsets", threads=1)
    assert least.objective is not None
    assert least.plan is not None
    return lt.Makespan(graph, rng.randint(2, 4), least.objective + rng.randint(0, 3)), least.plan.order


def chunks(start: int) -> range:
    return range(start, start + 20)


@pytest.mark.parametrize("start", range(0, share(120), 20))
@pytest.mark.parametrize(("method", "options"), [("cpsat", {"start": "none"}), ("auto", {})])
def test_exact_methods_equal_exhaustive_search(method: str, options: dict[str, str], start: int) -> None:
    for seed in chunks(start):
        problem = problem_of_identical(seed)
        best = optimum(problem)
        result = lt.solve(problem, method, threads=1, options=options)
        expected = ("infeasible", None) if best is None else ("optimal", best)
        assert (result.status, result.objective) == expected, f"seed {seed}: {result.detail}"


@pytest.mark.parametrize("start", range(1000, 1000 + share(60), 20))
def test_reservoir_equals_exhaustive_search(start: int) -> None:
    for seed in chunks(start):
        problem = problem_of_identical(seed)
        best = optimum(problem)
        result = lt.solve(problem, "cpsat-reservoir", threads=1, options={"start": "none"})
        expected = ("infeasible", None) if best is None else ("optimal", best)
        assert (result.status, result.objective) == expected, f"seed {seed}: {result.detail}"


@pytest.mark.parametrize("method", ["list", "local-search"])
def test_heuristics_are_valid_and_never_below_the_optimum(method: str) -> None:
    options = {"moves": "30"} if method == "local-search" else {}
    for seed in range(200, 260):
        problem = problem_of_identical(seed)
        best = optimum(problem)
        result = lt.solve(problem, method, threads=1, options=options)
        if best is None:
            assert result.status in ("infeasible", "unknown")
        else:
            assert result.status in ("optimal", "feasible", "unknown"), f"seed {seed}: {result.detail}"
            assert result.bound is None or result.bound <= best
            assert result.objective is None or result.objective >= best
        if problem.graph.accounting == "coexist":
            assert (result.status == "infeasible") == (best is None)


@pytest.mark.slow
def test_bounds_are_valid_and_each_is_best_somewhere() -> None:
    best_one = set()
    for seed in range(300, 700):
        problem = problem_of_identical(seed)
        best = optimum(problem)
        if best is None:
            continue
        data = makespan_data(problem)
        found = {
            "path": critical_path(data) * data.tick,
            "load": load(data) * data.tick,
            "area": (memory_area(problem, data) or 0) * data.tick,
        }
        assert max(found.values()) <= best, f"seed {seed}: {found}"
        top = [name for name, value in found.items() if value == max(found.values())]
        if len(top) == 1:
            best_one.add(top[0])
    assert best_one == {"path", "load", "area"}


def naive_list_schedule(problem: lt.Makespan, rank: list[int]) -> int | None:
    """Return the makespan of list scheduling that looks at the memory of the moment only; None if stuck."""
    graph, n = problem.graph, len(problem.graph.ops)
    assert problem.memory is not None
    before = precedence(graph).predecessors
    started, ended = set[int](), set[int]()
    running: list[tuple[int, int]] = []
    now = 0
    while len(ended) < n:
        for i in sorted(set(range(n)) - started, key=lambda i: rank[i]):
            fits = live_bytes(graph, frozenset(started | {i}), frozenset(ended)) <= problem.memory
            if len(running) < problem.count and set(before[i]) <= ended and fits:
                started.add(i)
                heapq.heappush(running, (now + problem.durations[i], i))
        if not running:
            return None
        now = running[0][0]
        while running and running[0][0] == now:
            ended.add(heapq.heappop(running)[1])
    return now


@pytest.mark.slow
def test_list_scheduling_never_gets_stuck_where_the_naive_one_does() -> None:
    stuck = 0
    for seed in range(150):
        problem, order = tight_problem(seed)
        rng = Random(seed)
        rank = list(range(len(order)))
        rng.shuffle(rank)
        starts = schedule.py_func(shop_of(problem), np.array(order), np.array(rank)).tolist()
        verdict = problem.judge(starts)
        assert not verdict.violations, f"seed {seed}: {verdict.violations[0].message}"
        stuck += naive_list_schedule(problem, rank) is None
    assert stuck >= 25


def test_compiled_list_schedule_equals_the_plain_one() -> None:
    for seed in range(40):
        problem, order = tight_problem(seed)
        rank = np.array(Random(seed).sample(range(len(order)), len(order)))
        shop = shop_of(problem)
        plain = schedule.py_func(shop, np.array(order), rank)
        assert plain.tolist() == schedule(shop, np.array(order), rank).tolist()


def test_start_is_refused_when_later_ops_would_not_fit() -> None:
    """Memory 4: if a second branch starts before the first one has ended, neither can end."""
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=2) for k in range(4))
    ops = (
        lt.Op(name="a", writes=(0,)),
        lt.Op(name="a2", reads=(0,), writes=(1,)),
        lt.Op(name="a3", reads=(1,)),
        lt.Op(name="b", writes=(2,)),
        lt.Op(name="b2", reads=(2,), writes=(3,)),
        lt.Op(name="b3", reads=(3,)),
    )
    problem = lt.Makespan(lt.Graph(name="branches", tensors=tensors, ops=ops), processors=2, memory=4)
    result = lt.solve(problem, threads=1)
    assert (result.status, result.objective) == ("optimal", 5)
    assert naive_list_schedule(problem, list(range(6))) is None


def readers_that_replace() -> lt.Graph:
    """Return a graph under `replace`: two ops read x, 10 bytes, and each writes 5."""
    sizes = {"x": 10, "y": 5, "z": 5}
    return lt.Graph(
        name="readers",
        tensors=tuple(lt.Tensor(name=k, nbytes=v, final=k != "x") for k, v in sizes.items()),
        ops=(
            lt.Op(name="load", writes=(0,)),
            lt.Op(name="left", reads=(0,), writes=(1,)),
            lt.Op(name="right", reads=(0,), writes=(2,)),
        ),
        accounting=lt.Accounting.REPLACE,
    )


@pytest.mark.parametrize(("processors", "status"), [(1, "infeasible"), (2, "optimal")])
def test_readers_side_by_side_need_less_than_the_sequential_peak(processors: int, status: str) -> None:
    graph = readers_that_replace()
    assert lt.solve(lt.Peak(graph)).objective == 15
    result = lt.solve(lt.Makespan(graph, processors=processors, memory=10), threads=1)
    assert result.status == status
    assert result.objective == (None if status == "infeasible" else 2)


def test_hint_is_the_first_incumbent() -> None:
    problem, _ = tight_problem(3)
    known = lt.solve(problem, "list", threads=1)
    again = lt.solve(problem, "cpsat", threads=1, hint=known.plan)
    assert known.objective is not None
    assert again.objective is not None
    assert again.objective <= known.objective
    assert again.trace[0].incumbent == known.objective


def test_same_seed_same_schedule() -> None:
    problem, _ = tight_problem(5)
    runs = [lt.solve(problem, "local-search", threads=1, options={"moves": "50"}, seed=4) for _ in range(2)]
    assert runs[0].plan == runs[1].plan
