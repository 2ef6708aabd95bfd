"""The compiled MemBooking is the plain one, and its search keeps to topological orders within the memory."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.solvers.makespan.trees.booking import booking_schedule
from lowtide.solvers.makespan.trees.booking_kernel import book, choose, moved, search, sequential_peak
from lowtide.solvers.makespan.trees.booking_search import improve_by_booking, nodes_of, pair
from lowtide.solvers.trees.task_tree import TaskTree, task_tree
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_tree


def tight(rng: Random, n: int) -> tuple[lt.Makespan, TaskTree, tuple[int, ...]]:
    """Return a problem with little memory, its tree and an order of its ops within the memory."""
    graph = random_tree(rng, n, largest=6, reaches=(4,))
    peak = lt.solve(lt.Peak(graph), "liu")
    assert peak.objective is not None
    assert peak.plan is not None
    problem = lt.Makespan(graph, rng.randint(2, 4), peak.objective + rng.choice((0, 2, 6)))
    return problem, task_tree(problem, "test"), tuple(peak.plan.order)


def test_kernel_is_the_plain_method_on_random_sequences() -> None:
    for seed in range(120):
        rng = Random(seed)
        problem, tree, order = tight(rng, rng.randint(1, 25))
        nodes, rank = nodes_of(tree), np.array(rng.sample(range(tree.n), tree.n))
        memory, starts = problem.memory, np.empty(tree.n, dtype=np.int64)
        assert memory is not None
        kernel = book if seed % 4 else book.py_func
        made = kernel(nodes, problem.count, memory, np.array(order), rank, starts)
        plain = booking_schedule(tree, problem.count, memory, order, [(int(r),) for r in rank])
        assert tuple(starts.tolist()) == plain
        assert made == problem.evaluate(plain)
        assert sequential_peak(nodes, np.array(order)) == sequential_memory(problem.graph).peak(order)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_moves_of_activation_orders_stay_topological_and_move_something(whole: bool) -> None:
    changed = 0
    for seed in range(200):
        rng = Random(seed)
        _, tree, order = tight(rng, rng.randint(2, 20))
        nodes, current, new = nodes_of(tree), np.array(order), np.empty(tree.n, dtype=np.int64)
        place, chosen = np.argsort(current), np.zeros(tree.n, dtype=np.bool_)
        x = rng.randrange(tree.n)
        choose.py_func(nodes, x, whole, chosen)
        assert np.flatnonzero(chosen).tolist() == (sorted(tree.subtree(x)) if whole else [x])
        np.random.seed(seed)
        moved.py_func(nodes, current, place, chosen, True, new)
        assert sorted(new.tolist()) == list(range(tree.n))
        at = np.argsort(new)
        assert all(at[i] < at[above] for i, above in enumerate(tree.parent[:-1]))
        assert new[~chosen[new]].tolist() == current[~chosen[current]].tolist()
        changed += new.tolist() != current.tolist()
    assert changed >= 40


def test_search_leaves_the_best_pair_and_its_schedule() -> None:
    better = 0
    for seed in range(40):
        rng = Random(1000 + seed)
        problem, tree, order = tight(rng, 30)
        nodes, memory = nodes_of(tree), problem.memory
        assert memory is not None
        pairs = pair(nodes, problem.count, memory, np.array(order), np.array(rng.sample(range(30), 30)))
        first = int(pairs.numbers[1])
        search(nodes, problem.count, memory, pairs, 200, seed)
        again = pair(nodes, problem.count, memory, pairs.best_activation, pairs.best_ranking)
        starts = tuple(pairs.best_starts.tolist())
        assert tuple(again.best_starts.tolist()) == starts
        assert problem.evaluate(starts) == pairs.numbers[1] <= first
        assert not problem.judge(starts).violations
        assert sequential_peak(nodes, pairs.activation) <= memory
        better += pairs.numbers[1] < first
    assert better >= 20


def test_never_below_exhaustive_search_and_the_same_again() -> None:
    met = 0
    for seed in range(30):
        rng = Random(2000 + seed)
        problem, tree, order = tight(rng, rng.randint(4, 6))
        memory = problem.memory
        assert memory is not None
        best = fastest_schedule(problem.graph, problem.count, memory)
        runs: list[list[int]] = [[], []]
        for seen in runs:

            def offer(starts: np.ndarray, problem: lt.Makespan = problem, seen: list[int] = seen) -> None:
                seen.append(problem.evaluate(tuple(starts.tolist())))

            improve_by_booking(
                tree, problem.count, memory, [order], seed=7, offer=offer, stop=lambda: False, moves=60
            )
        assert runs[0] == runs[1] == sorted(runs[0], reverse=True)
        assert best is not None
        assert runs[0][-1] >= best
        met += runs[0][-1] == best
    assert met >= 15


def test_auto_leaves_a_schedule_when_the_time_is_up_before_the_bounds() -> None:
    graph = lt.load("gen:assembly?grid=45x45&leaf=1")
    least = lt.solve(lt.Peak(graph), "liu").objective
    assert least is not None
    result = lt.solve(lt.Makespan(graph, 4, least), "auto", threads=1, time_limit=1e-3)
    assert result.status == "unknown" or result.objective is not None
    result = lt.solve(lt.Makespan(graph, 4, 2 * least), "auto", threads=1, time_limit=1e-3)
    assert result.objective is not None
    assert result.bound is not None
