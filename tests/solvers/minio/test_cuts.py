"""Least I/O by waiting sizes: peaks, cuts, bounds, expansions and decomposition, against brute force."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.minio import cuts_cpsat as minio_decomposition
from lowtide.formulations.minio.data import MinIOData, written_at_once
from lowtide.solvers.context import Context
from lowtide.solvers.minio.bounds import packed_cuts, subtree_bounds
from lowtide.solvers.minio.evictions import evict
from lowtide.solvers.minio.expansion import FEW, expanded_order
from lowtide.solvers.minio.models import offer_rules
from lowtide.solvers.minio.orders import ORDERS, Expired
from lowtide.solvers.minio.rules import tree_data
from lowtide.solvers.minio.waiting import Sequencer, TreeCut, WaitingTree, disjoint_cuts
from tests.oracles.brute_minio import fewest_bytes
from tests.solvers.minio.trees import orders_of, random_tree, small_problems, tight


def peak_of(data: MinIOData, order: tuple[int, ...], waiting: list[int]) -> int:
    """Return the peak of an order by its definition."""
    place = {v: step for step, v in enumerate(order)}
    return max(
        data.need[v]
        + sum(waiting[u] for u in order[:step] if u != order[-1] and place[data.parent[u]] > step)
        for step, v in enumerate(order)
    )


PACKED = (54, 1278, 1384, 1534, 1576, 1665, 1728, 1830, 1875, 2127)
"""Seeds of trees on which packed cuts are above the largest excess of disjoint subtrees."""

GAP = (361, 391, 713, 723, 908, 990, 1022, 1031, 1531, 1538)
"""Seeds of trees on which packed cuts are below the fewest bytes, or expansion is above them."""


def hard_problems(whole: bool) -> list[lt.MinIO]:
    """Return trees of 9 ops in as little memory as they can have: more than one peak matters."""
    problems = []
    for seed in (*range(10), *PACKED, *GAP):
        graph = random_tree(Random(f"packing {seed}"), 9, most=4, reach=5)
        least = max(tree_data(lt.MinIO(graph, memory=10**6), "test").need)
        problems.append(lt.MinIO(graph, memory=least, whole=whole))
    return problems


def test_least_peaks_of_waiting_sizes_are_those_of_all_orders() -> None:
    for rng, problem in small_problems(25, whole=False, n=7, most=6):
        data = tree_data(problem, "test")
        tree = WaitingTree(data)
        for _ in range(3):  # kept up to date by changes of one file at a time
            v = rng.randrange(data.n)
            tree.resize({v: rng.randint(0, data.out[v])}, data.n - 1)
            orders = list(orders_of(problem.graph))
            assert tree.peak(data.n - 1) == min(peak_of(data, order, tree.waiting) for order in orders)
            assert peak_of(data, tuple(tree.order(data.n - 1)), tree.waiting) == tree.peak(data.n - 1)
        fresh = WaitingTree(data, tree.waiting)
        assert [fresh.peak(i) for i in range(data.n)] == [tree.peak(i) for i in range(data.n)]


def random_order(rng: Random, data: MinIOData) -> tuple[int, ...]:
    """Return an order in which each node is drawn from those whose children have run."""
    order: list[int] = []
    while len(order) < data.n:
        ready = [v for v in range(data.n) if v not in order and set(data.children[v]) <= {*order}]
        order.append(rng.choice(ready))
    return tuple(order)


def covered(cut: TreeCut, data: MinIOData, written: list[int]) -> bool:
    """Return whether what is written by node meets a cut, by its definition."""
    spared = sum(max(0, written[v] - (data.out[v] - s)) for v, s in cut.waiting.items())
    return spared >= cut.gain


def test_cuts_hold_for_all_that_some_order_writes() -> None:
    tested = sharp = 0
    rng = Random(3)
    for problem in hard_problems(whole=False):
        data = tree_data(problem, "test")
        orders = [random_order(rng, data) for _ in range(20)]
        for i in range(data.n):
            tree = WaitingTree(data)
            for cut in disjoint_cuts(tree, i, data.memory, rng.shuffle):
                smaller = [
                    TreeCut(waiting={**cut.waiting, v: s - 1}, gain=cut.gain) for v, s in cut.waiting.items()
                ]
                for order in orders:
                    written = [0] * data.n
                    for eviction in evict(data, order).evictions:
                        written[data.maker[data.tensor.index(eviction.tensor)]] += eviction.nbytes
                    assert covered(cut, data, written)
                    sharp += sum(not covered(one, data, written) for one in smaller)
                    tested += 1
    assert tested > 500
    assert sharp > 100  # sizes a byte smaller would be wrong: the cuts are no trivial ones


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_packed_cuts_bound_the_fewest_bytes_and_each_subtree(whole: bool) -> None:
    better = 0
    for problem in hard_problems(whole):
        data = tree_data(problem, "test")
        bounds, cuts = packed_cuts(data)
        plain = subtree_bounds(problem.graph, data)
        least = fewest_bytes(problem.graph, problem.memory, whole=whole)
        assert least is not None
        assert plain[-1] <= bounds[-1] <= least
        assert bounds[-1] == sum(cut.gain for cut in cuts)
        assert all(bounds[c] <= bounds[i] for c, i in enumerate(data.parent[:-1]))
        for v in range(data.n):
            assert sum(cut.waiting.get(v, 0) for cut in cuts) <= data.out[v]
        better += bounds[-1] > plain[-1]
    assert better >= len(PACKED)


def test_expansion_finds_orders_that_write_no_less_than_the_fewest_bytes() -> None:
    best = 0
    for _, problem in small_problems(40, whole=False):
        data = tree_data(problem, "test")
        least = fewest_bytes(problem.graph, problem.memory)
        for most in (FEW, None):
            traversal = evict(data, expanded_order(data, most=most))
            judged = problem.judge(problem.read(traversal))
            assert judged.objective is not None
            assert least is not None
            assert judged.objective >= least
            best += judged.objective == least
    assert best > 60


def test_full_expansion_improves_on_the_order_of_the_least_peak() -> None:
    values = []
    for order in ("postorder-io", "liu", "rec-expand", "full-rec-expand"):
        problem = lt.MinIO(lt.load("gen:intree?n=300&arity=2&largest=100&seed=2"), memory=272)
        values.append(lt.solve(problem, "furthest", options={"order": order}).objective)
    assert all(a is not None and b is not None and a >= b for a, b in pairwise(values))
    assert values[0] != values[1] != values[2]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_decomposition_finds_the_fewest_bytes(whole: bool) -> None:
    gaps = 0
    for problem in hard_problems(whole):
        least = fewest_bytes(problem.graph, problem.memory, whole=whole)
        result = lt.solve(problem, "benders", threads=1)
        assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, least, least)
        data = tree_data(problem, "test")
        gaps += packed_cuts(data)[0][-1] < (least or 0)
    assert gaps


@pytest.mark.parametrize("whole", [False, True])
def test_decomposition_agrees_with_intervals_on_larger_trees(whole: bool) -> None:
    for seed in (1, 4):
        rng = Random(f"both {seed}")
        problem = tight(rng, random_tree(rng, 18, most=9, reach=6), whole)
        one, other = (lt.solve(problem, name, threads=1) for name in ("benders", "cpsat"))
        assert (one.status, other.status) == (lt.Status.OPTIMAL, lt.Status.OPTIMAL)
        assert one.objective == other.objective


def test_decomposition_closes_a_tree_of_100_ops_that_the_heuristics_leave_open() -> None:
    graph = lt.load("gen:intree?n=100&arity=2&largest=100&seed=3")
    data = tree_data(lt.MinIO(graph, memory=10**6), "test")
    problem = lt.MinIO(graph, memory=max(data.need))
    result = lt.solve(problem, "auto", threads=1)
    packed = packed_cuts(tree_data(problem, "test"))[0][-1]
    assert result.status is lt.Status.OPTIMAL
    assert result.objective is not None
    assert packed < result.objective
    assert all(
        (lt.solve(problem, name).objective or 0) >= result.objective for name in ("rec-expand", "postorder")
    )


@pytest.mark.parametrize("whole", [False, True])
def test_a_cut_that_no_traversal_need_meet_is_a_failure(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[TreeCut] = []

    def one_raised(
        tree: WaitingTree, i: int, memory: int, sequencer: Sequencer, expired: Expired
    ) -> list[TreeCut]:
        found = disjoint_cuts(tree, i, memory, sequencer, expired)
        if found and not raised:
            raised.append(TreeCut(waiting=found[0].waiting, gain=found[0].gain + 1))
            found[0] = raised[0]
        return found

    monkeypatch.setattr("lowtide.solvers.minio.benders.disjoint_cuts", one_raised)
    for seed in (GAP[0], GAP[2]):
        raised.clear()
        graph = random_tree(Random(f"packing {seed}"), 9, most=4, reach=5)
        least = max(tree_data(lt.MinIO(graph, memory=10**6), "test").need)
        result = lt.solve(lt.MinIO(graph, memory=least, whole=whole), "benders", threads=1)
        assert result.status is lt.Status.FAILED
        assert f"does not meet its gain of {raised[0].gain} bytes" in result.detail


def test_what_is_written_of_a_file_counts_once_in_a_cut() -> None:
    data = MinIOData(
        memory=8, whole=False, parent=(1, -1), need=(8, 8), maker=(0, 0), size=(4, 2), tensor=(0, 1)
    )
    master = minio_decomposition.build(data)  # one part of 3 units of 2 bytes

    def met(gain: int, written: list[int]) -> bool:
        return minio_decomposition.is_met(
            master, [(0, 2)], gain, minio_decomposition.part_bytes(master, written)
        )

    assert met(2, [4, 0])
    assert met(1, [3, 0])
    assert not met(2, [3, 0])
    assert not met(3, [8, 0])


def after(calls: int) -> Expired:
    """Return a clock by which the time is up after so many calls."""
    times = iter([False] * calls)
    return lambda: next(times, True)


@pytest.mark.slow
def test_bounds_without_the_time_for_cuts_are_those_of_subtrees() -> None:
    between = 0
    graph = lt.load("gen:intree?n=100&arity=2&largest=100&seed=1")
    for problem in (lt.MinIO(graph, memory=230), *hard_problems(whole=False)[10:14]):
        data = tree_data(problem, "test")
        plain, (packed, _) = subtree_bounds(problem.graph, data), packed_cuts(data)
        assert packed_cuts(data, expired=lambda: True) == (plain, [])
        for calls in range(1, 400, 13):
            bounds, cuts = packed_cuts(data, expired=after(calls))
            assert all(a <= b <= c for a, b, c in zip(plain, bounds, packed, strict=True))
            assert sum(cut.gain for cut in cuts) <= bounds[-1]
            for v in range(data.n):
                assert sum(cut.waiting.get(v, 0) for cut in cuts) <= data.out[v]
            between += plain[-1] < bounds[-1] < packed[-1]
    assert between


def test_cuts_hold_wherever_they_were_cut_short() -> None:
    tested = 0
    rng = Random(4)
    for problem in hard_problems(whole=False):
        data = tree_data(problem, "test")
        order = random_order(rng, data)
        written = [0] * data.n
        for eviction in evict(data, order).evictions:
            written[data.maker[data.tensor.index(eviction.tensor)]] += eviction.nbytes
        for calls in range(1, 16):
            tree = WaitingTree(data)
            for cut in disjoint_cuts(tree, data.n - 1, data.memory, list.sort, after(calls)):
                alone = WaitingTree(data, [cut.waiting.get(v, 0) for v in range(data.n)])
                assert alone.peak(data.n - 1) - data.memory == cut.gain
                assert covered(cut, data, written)
                tested += 1
    assert tested > 100


def test_with_no_time_left_the_post_order_for_io_is_offered() -> None:
    problem = lt.MinIO(lt.load("gen:intree?n=100&arity=2&largest=100&seed=1"), memory=230)
    data, context = tree_data(problem, "test"), Context(problem=problem, time_limit=0)
    best = offer_rules(problem, data, context)
    assert best == evict(data, ORDERS["postorder-io"](problem.graph, data, lambda: False))
    assert context.incumbent == problem.evaluate(problem.read(best))
    expand = ORDERS["full-rec-expand"]
    early, late = expand(problem.graph, data, lambda: True), expand(problem.graph, data, lambda: False)
    written = [problem.evaluate(problem.read(evict(data, order))) for order in (early, late)]
    assert written[0] > written[1]
    assert early == ORDERS["liu"](problem.graph, data, lambda: False)


@pytest.mark.parametrize("whole", [False, True])
def test_program_counts_what_is_written_beyond_what_a_cut_lets_wait(whole: bool) -> None:
    """Against enumeration, by the formula of cuts; parts of 4, 3 and 2 units."""
    from ortools.sat.python import cp_model

    sizes = (4, 3, 2)
    for seed in range(12):
        rng = Random(f"program {seed}")
        data = MinIOData(
            memory=9, whole=whole, parent=(3, 3, 3, -1), need=(9, 9, 9, 9), maker=(0, 1, 2), size=sizes,
            tensor=(0, 1, 2),
        )  # fmt: skip
        master = minio_decomposition.build(data)
        cuts = []
        for _ in range(3):
            parts = tuple((j, rng.randint(1, size)) for j, size in enumerate(sizes) if rng.random() < 0.8)
            cuts.append((parts, rng.randint(0, sum(s for _, s in parts))))
            if parts:
                minio_decomposition.add_cut(master, *cuts[-1])
            for w in product(*((0, size) if whole else range(size + 1) for size in sizes)):
                spared = sum(max(0, w[j] - (sizes[j] - s)) for j, s in parts)
                assert minio_decomposition.is_met(master, parts, cuts[-1][1], w) == (spared >= cuts[-1][1])
        solver = cp_model.CpSolver()
        solver.parameters.catch_sigint_signal = False
        solver.parameters.num_workers = 1
        assert solver.solve(master.model) == cp_model.OPTIMAL
        assert solver.objective_value == min(
            sum(w)
            for w in product(*((0, size) if whole else range(size + 1) for size in sizes))
            if all(sum(max(0, w[j] - (sizes[j] - s)) for j, s in parts) >= gain for parts, gain in cuts)
        )


def test_bytes_of_files_share_out_what_a_node_writes() -> None:
    data = MinIOData(
        memory=8, whole=False, parent=(1, -1), need=(8, 8), maker=(0, 0), size=(4, 2), tensor=(0, 1)
    )
    master = minio_decomposition.build(data)
    assert minio_decomposition.file_bytes(master, {0: 2}) == [4, 0]  # units of 2 bytes
    with pytest.raises(ValueError, match="beyond what waits"):
        minio_decomposition.shares(master, {0: 6}, {0: 1})
    assert written_at_once(data, (0, 1), [4, 0]).evictions == ()  # nothing waits in between


def test_bounds_of_subtrees_hold_wherever_the_time_is_up() -> None:
    problem = lt.MinIO(lt.load("gen:intree?n=300&arity=2&largest=100&seed=1"), memory=230)
    data = tree_data(problem, "test")
    whole, before = subtree_bounds(problem.graph, data), 0
    for looks in range(6):
        left = iter([False] * looks)
        found = subtree_bounds(problem.graph, data, expired=lambda left=left: next(left, True))  # type: ignore[misc]
        assert all(a <= b for a, b in zip(found, whole, strict=True))
        assert found[-1] >= before
        before = found[-1]
    assert 0 == subtree_bounds(problem.graph, data, expired=lambda: True)[-1] < before == whole[-1]
