"""Search in windows of time: every window leaves a schedule that verifies, and what follows moves up."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.errors import UsageError
from lowtide.solvers.makespan.lists.layout import shop_of
from lowtide.solvers.makespan.lists.list_kernel import schedule
from lowtide.solvers.makespan.lists.window_kernel import anneal, cut, reschedule
from lowtide.solvers.makespan.lists.windows import improve_by_windows
from tests.oracles.brute_makespan import fastest_schedule, live_bytes
from tests.problems.makespan import problem_of_identical
from tests.strategies import random_graph


def scheduled(seed: int) -> tuple[lt.Makespan, np.ndarray, Random]:
    """Return a random problem of either accounting, a poor list schedule of it, and random numbers."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=8, max_ops=14, max_tensors=12)
    peak = lt.solve(lt.Peak(graph), "downsets", threads=1)
    assert peak.objective is not None
    assert peak.plan is not None
    problem = lt.Makespan(graph, rng.randint(2, 3), peak.objective + rng.randint(0, 9))
    rank = np.array(rng.sample(range(len(graph.ops)), len(graph.ops)))
    shop = shop_of(problem)
    shop.numbers[5] = rng.randint(1, 3)
    return problem, schedule(shop, np.array(peak.plan.order), rank), rng


@pytest.mark.slow
def test_windows_start_with_the_bytes_that_are_live_and_leave_valid_schedules() -> None:
    """Each found window, put in with its gain, verifies; also when it is worse than what was there."""
    moved = left = 0
    for seed in range(150):
        problem, starts, rng = scheduled(seed)
        shop = shop_of(problem)
        order = np.argsort(starts, kind="stable")
        first = rng.randrange(len(order))
        last = rng.randint(first + 1, len(order))
        fits, part, ops, running, begin, latest, _ = cut(shop, starts, order, first, last)
        if not fits or problem.impossible():
            left += 1
            continue
        began = frozenset(order[:first].tolist())
        ended = frozenset(i for i in began if starts[i] + problem.durations[i] <= begin)
        assert part.numbers[2] == live_bytes(problem.graph, began, ended), f"seed {seed}"
        assert sorted(ops.tolist()) == sorted({*order[:last].tolist()} - ended)
        moves = 60 if seed % 3 else 2
        anneal(shop, starts.copy(), order, np.empty(0, np.int64), 1, 1.0, seed)  # draws from here
        late, new = reschedule(part, running, latest, 10**9, 0, moves)  # anything is good enough
        assert late == (new + part.duration - latest).max()
        after = starts.copy()
        after[ops[running:]] = begin + new[running:]
        after[order[last:]] += late
        violations = problem.judge(tuple(after.tolist())).violations
        assert not violations, f"seed {seed}: {violations[0].message}"
        end = problem.evaluate(tuple(starts.tolist())) + late
        assert problem.evaluate(tuple(after.tolist())) <= end
        moved += late < 0
    assert moved >= 20
    assert left <= 30


@pytest.mark.slow
def test_search_only_offers_faster_schedules_and_ends_with_the_last() -> None:
    improved = 0
    for seed in range(200, 240):
        problem, starts, _ = scheduled(seed)
        offered = [starts]
        improve_by_windows(
            shop_of(problem),
            lambda offered=offered: offered[-1].copy(),  # type: ignore[misc]
            seed=1,
            offer=offered.append,
            stop=lambda: False,
            windows=20,
        )
        answers = [tuple(some.tolist()) for some in offered]
        assert not any(problem.judge(answer).violations for answer in answers)
        seen = list(map(problem.evaluate, answers))
        assert seen == sorted(set(seen), reverse=True)
        improved += len(seen) > 1
    assert improved >= 10


def test_annealing_that_accepts_delays_keeps_schedules_valid_and_in_order() -> None:
    """At a temperature of many times the durations."""
    delayed = 0
    for seed in range(400, 440):
        problem, starts, _ = scheduled(seed)
        order = np.argsort(starts, kind="stable")
        before = problem.evaluate(tuple(starts.tolist()))
        made = anneal(shop_of(problem), starts, order, np.full(30, 5), 2, 60.0, seed)
        assert not problem.judge(tuple(starts.tolist())).violations
        assert made == problem.evaluate(tuple(starts.tolist()))
        assert starts[order].tolist() == sorted(starts.tolist())
        delayed += made > before
    assert delayed >= 3


def test_window_compiled_is_window_in_plain_python() -> None:
    for seed in range(60, 70):
        problem, starts, rng = scheduled(seed)
        order = np.argsort(starts, kind="stable")
        first = rng.randrange(len(order))
        last = rng.randint(first + 1, len(order))
        compiled = cut(shop_of(problem), starts, order, first, last)
        plain = cut.py_func(shop_of(problem), starts, order, first, last)
        assert [np.asarray(x).tolist() for x in compiled[2:]] == [np.asarray(x).tolist() for x in plain[2:]]
        for a, b in zip(compiled[1], plain[1], strict=True):
            assert a.tolist() == b.tolist()


def test_never_below_exhaustive_search() -> None:
    for seed in range(40):
        problem = problem_of_identical(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        result = lt.solve(problem, "lns", threads=1, options={"windows": "20"})
        if best is None:
            assert result.status in ("infeasible", "unknown")
        else:
            assert result.status in ("optimal", "feasible", "unknown"), f"seed {seed}: {result.detail}"
            assert result.objective is None or result.objective >= best


@pytest.mark.parametrize("reach", [1, 2, 5])
def test_list_schedule_with_a_reach_is_valid_and_runs_in_sequence_with_reach_one(reach: int) -> None:
    for seed in range(300, 320):
        problem, _, rng = scheduled(seed)
        order = lt.solve(lt.Peak(problem.graph), "downsets", threads=1).plan
        assert order is not None
        shop = shop_of(problem)
        shop.numbers[5] = reach
        n = len(order.order)
        starts = schedule(shop, np.array(order.order), np.array(rng.sample(range(n), n)))
        assert not problem.judge(tuple(starts.tolist())).violations
        if reach == 1:
            assert starts[list(order.order)].tolist() == sorted(starts.tolist())


@pytest.mark.slow
def test_large_graph_is_better_than_its_list_schedules_and_the_same_again() -> None:
    problem = lt.Makespan(lt.load("gen:tasks?shape=tree&n=400&cores=20&seed=1"), 4, 120)
    lists = lt.solve(problem, "list", threads=1)
    runs = [lt.solve(problem, "lns", threads=1, options={"windows": "60"}, seed=3) for _ in range(2)]
    assert lists.objective is not None
    assert runs[0].objective is not None
    assert runs[0].objective < 0.97 * lists.objective
    assert runs[0].plan == runs[1].plan


def test_kinds_are_refused() -> None:
    modes = (lt.Mode(duration_ns=5, processors=("cpu",)), lt.Mode(duration_ns=2, processors=("gpu",)))
    graph = lt.Graph(name="two", tensors=(), ops=tuple(lt.Op(name=x, modes=modes) for x in "ab"))
    with pytest.raises(UsageError, match="method lns: found processors of several kinds"):
        lt.solve(lt.Makespan(graph, processors={"cpu": 1, "gpu": 1}), "lns")
