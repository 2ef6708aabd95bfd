"""Published schedules of trees: within the memory where they promise it, never below the optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations, product
from random import Random

import pytest

import lowtide as lt
from lowtide.models.errors import UsageError
from lowtide.models.verifier.verdict import Verification
from lowtide.solvers.makespan.trees.booking import booking_schedule
from lowtide.solvers.makespan.trees.list_schedules import deepest_first, inner_first, list_schedule
from lowtide.solvers.makespan.trees.mappings import all_to_all, mapped_schedule, memory_aware, proportional
from lowtide.solvers.makespan.trees.subtrees import split, subtrees_schedule
from lowtide.solvers.trees.task_tree import TaskTree, task_tree
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_tree

MEMORY_KNOWN = ("mem-booking", "memory-aware-mapping")
UNAWARE = ("par-subtrees", "par-inner-first", "par-deepest-first", "proportional-mapping", "all-to-all")


def trees(start: int, count: int, most: int = 25) -> Iterator[tuple[Random, int, lt.Makespan, TaskTree]]:
    """Yield random trees on 2 to 4 processors, with the random numbers that go on."""
    for seed in range(start, start + count):
        rng = Random(seed)
        graph, p = random_tree(rng, rng.randint(2, most)), rng.randint(2, 4)
        problem = lt.Makespan(graph, processors=p)
        yield rng, p, problem, task_tree(problem, "test")


def check(problem: lt.Makespan, starts: tuple[int, ...], memory: int | None = None) -> None:
    violations = replace(problem, memory=memory).judge(starts).violations
    assert not violations, violations[0].message


@pytest.mark.slow
def test_booking_is_never_stuck_and_never_over_the_memory() -> None:
    sequential = parallel = 0
    for rng, p, problem, tree in trees(0, 300):
        least = lt.solve(lt.Peak(problem.graph), "downsets", threads=1)
        assert least.status == "optimal"
        assert least.objective is not None
        assert least.plan is not None
        memory = least.objective + rng.choice((0, 3, 10))
        keys = rng.choice((deepest_first, inner_first))(tree)
        starts = booking_schedule(tree, p, memory, least.plan.order, keys)
        check(problem, starts, memory)
        sequential += sum(tree.duration)
        parallel += problem.evaluate(starts)
    assert parallel < 0.85 * sequential


@pytest.mark.slow
def test_memory_aware_mapping_keeps_within_every_memory_of_at_least_the_post_order() -> None:
    faster = 0
    for rng, p, problem, tree in trees(1000, 300):
        memory = tree.peak[tree.root] + rng.choice((0, 1, 5, 20, 80))
        starts = mapped_schedule(tree, p, memory_aware(tree, memory))
        check(problem, starts, memory)
        faster += problem.evaluate(starts) < sum(tree.duration)
    assert faster >= 100


SCHEDULES: dict[str, Callable[[TaskTree, int], tuple[int, ...]]] = {
    "subtrees": subtrees_schedule,
    "balanced subtrees": lambda tree, p: subtrees_schedule(tree, p, balanced=True),
    "inner first": lambda tree, p: list_schedule(tree, p, inner_first(tree)),
    "deepest first": lambda tree, p: list_schedule(tree, p, deepest_first(tree)),
    "limited": lambda tree, p: list_schedule(tree, p, inner_first(tree), tree.peak[tree.root]),
    "proportional": lambda tree, p: mapped_schedule(tree, p, proportional(tree)),
    "all to all": lambda tree, p: mapped_schedule(tree, p, all_to_all(tree)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_valid_and_know_the_bytes_that_they_need(name: str) -> None:
    for _, p, problem, tree in trees(2000, 100):
        starts = SCHEDULES[name](tree, p)
        needed = tree.memory(starts)
        check(problem, starts, needed)
        if needed:
            assert replace(problem, memory=needed - 1).judge(starts).violations


@pytest.mark.slow
def test_methods_are_never_below_exhaustive_search() -> None:
    met = set()
    for seed in range(40):
        rng = Random(seed)
        graph = random_tree(rng, rng.randint(3, 6), largest=4)
        tree = task_tree(lt.Makespan(graph), "test")
        least = lt.solve(lt.Peak(graph), threads=1).objective
        assert least is not None
        p, memory = rng.randint(1, 3), least + rng.randint(-1, 8)
        problem = lt.Makespan(graph, p, memory)
        best = fastest_schedule(graph, p, memory)
        for method in (*MEMORY_KNOWN, *UNAWARE):
            result = lt.solve(problem, method, threads=1)
            if best is None:
                assert result.status in ("infeasible", "unknown")
                continue
            assert result.status in ("optimal", "feasible", "unknown"), f"{seed}, {method}: {result.detail}"
            assert result.objective is None or result.objective >= best
            assert result.bound is not None
            assert result.bound <= best
            if method in MEMORY_KNOWN:
                fits = method == "mem-booking" or tree.peak[tree.root] <= memory
                assert (result.objective is not None) == fits
            if result.objective == best:
                met.add(method)
    assert met == {*MEMORY_KNOWN, *UNAWARE}


@pytest.mark.parametrize("keys", [inner_first, deepest_first])
def test_list_schedules_are_within_grahams_factor(
    keys: Callable[[TaskTree], list[tuple[int, ...]]],
) -> None:
    for seed in range(3000, 3040):
        rng = Random(seed)
        graph, p = random_tree(rng, rng.randint(4, 7)), rng.randint(2, 3)
        problem = lt.Makespan(graph, processors=p)
        best = fastest_schedule(graph, p, None)
        assert best is not None
        starts = list_schedule(task_tree(problem, "test"), p, keys(task_tree(problem, "test")))
        assert p * problem.evaluate(starts) <= (2 * p - 1) * best


def test_subtrees_side_by_side_need_at_most_p_post_orders() -> None:
    for _, p, _, tree in trees(4000, 300):
        starts = subtrees_schedule(tree, p)
        assert tree.memory(starts) <= p * tree.peak[tree.root]


def test_split_is_the_cheapest_prefix_of_the_splits_of_the_heaviest() -> None:
    """The cost from its definition, for each prefix made by hand with a plain list."""
    for _, p, _, tree in trees(5000, 100, most=15):
        queue, cut, costs = [tree.root], list[int](), list[tuple[int, set[int]]]()
        while True:
            queue.sort(key=lambda i: (-tree.work[i], i))
            rest = sum(tree.work[i] for i in queue[p:]) + sum(tree.duration[i] for i in cut)
            costs.append((tree.work[queue[0]] + rest, set(queue)))
            if not tree.children[queue[0]]:
                break
            cut.append(queue.pop(0))
            queue += tree.children[cut[-1]]
        least = min(cost for cost, _ in costs)
        assert set(split(tree, p)) == next(roots for cost, roots in costs if cost == least)


def test_best_post_order_is_the_best_of_all_and_its_peak_is_that_of_its_schedule() -> None:
    for _, _, problem, tree in trees(6000, 60, most=7):
        order = tree.post_order()
        assert peak(problem, order) == tree.peak[tree.root]
        rows = [permutations(below) for below in tree.children]
        peaks = []
        for below in product(*rows):
            stack, found = [tree.root], []
            while stack:
                found.append(stack.pop())
                stack.extend(below[found[-1]])
            peaks.append(peak(problem, tuple(reversed(found))))
        assert min(peaks) == tree.peak[tree.root]


def peak(problem: lt.Makespan, order: tuple[int, ...]) -> int:
    starts, now = [0] * len(order), 0
    for i in order:
        starts[i] = now
        now += problem.durations[i]
    verification = problem.judge(starts).verification
    assert isinstance(verification, Verification)
    return verification.peaks["memory"]


def test_harpoon_needs_less_than_its_post_order_and_booking_runs_there() -> None:
    problem = lt.Makespan(lt.load("catalogue:harpoon"), processors=2, memory=15)
    mapped = lt.solve(problem, "memory-aware-mapping", threads=1)
    assert (mapped.status, mapped.objective) == ("unknown", None)
    assert "best post-order needs 21 bytes, of 15" in mapped.detail
    assert lt.solve(problem, "mem-booking", threads=1).status in ("feasible", "optimal")
    over = lt.solve(problem, "par-deepest-first", threads=1)
    assert over.objective is None
    assert "bytes, of 15: no plan" in over.detail


def graph_of(*ops: lt.Op, final: int = -1, initial: int = -1, accounting: str = "coexist") -> lt.Graph:
    tensors = (lt.Tensor(name=f"t{i}", nbytes=1, final=i == final, initial=i == initial) for i in range(3))
    return lt.Graph(name="g", tensors=tuple(tensors), ops=ops, accounting=lt.Accounting(accounting))


A, B = lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,), writes=(1,))

NO_TREES = {
    "2 ops that precede none": graph_of(A, lt.Op(name="b", writes=(1,))),
    "2 ops that follow it directly": graph_of(A, B, lt.Op(name="c", reads=(0, 1))),
    "found accounting replace": graph_of(A, B, accounting="replace"),
    "initial tensor": graph_of(lt.Op(name="a", reads=(0,)), initial=0),
    "final tensor of an inner op": graph_of(
        lt.Op(name="a", writes=(0, 2)), lt.Op(name="b", reads=(0,)), final=2
    ),
    "final tensor that the root reads": graph_of(A, B, final=0),
    "expected its writer and one reader": graph_of(A, lt.Op(name="b", reads=(0,), writes=(0,))),
}


@pytest.mark.parametrize("method", [*MEMORY_KNOWN, *UNAWARE])
@pytest.mark.parametrize("said", NO_TREES)
def test_other_graphs_are_refused(said: str, method: str) -> None:
    with pytest.raises(UsageError, match=f"method {method}, graph 'g'.*{said}"):
        lt.solve(lt.Makespan(NO_TREES[said]), method)


def test_what_nobody_reads_and_control_edges_belong_to_the_tree() -> None:
    """The second tensor of a dies with a."""
    graph = graph_of(lt.Op(name="a", writes=(0, 1)), lt.Op(name="b", after=(0,), reads=(0,)))
    tree = task_tree(lt.Makespan(graph), "test")
    assert (tree.held, tree.out, tree.parent) == ((1, 0), (1, 0), (1, -1))


def test_unknown_choice_is_refused() -> None:
    problem = lt.Makespan(lt.load("gen:chain?n=3"))
    with pytest.raises(UsageError, match="option leaves: found 'late', expected one of free, limited"):
        lt.solve(problem, "par-inner-first", options={"leaves": "late"})
