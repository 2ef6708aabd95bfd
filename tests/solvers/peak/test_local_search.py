"""Local search over orders: what the kernel says of an order, and how close it comes to the optimum."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from lowtide.instances import load
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import check_order
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.problems.peak import Peak
from lowtide.solvers.context import Context
from lowtide.solvers.peak.orders import order_kernel
from lowtide.solvers.peak.orders.greedy import greedy_order
from lowtide.solvers.peak.orders.local_search import improve_by_local_search, solve_local_search
from lowtide.solvers.peak.orders.order_kernel import advance, anneal, delay, order_arrays
from lowtide.solvers.peak.search.state_space import state_space
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, order_peak
from tests.problems.peak import DEFAULTS
from tests.strategies import graphs, random_graph

CHECKED = many(100)


def improved(graph: Graph, runs: int = 4, seed: int = 0) -> Context:
    """Return the context after some runs from the reference order."""
    context = Context(problem=Peak(graph), seed=seed)
    context.offer(range(len(graph.ops)))
    assert improve_by_local_search(Peak(graph), context, runs)
    return context


@CHECKED
@given(graphs(max_ops=7))
def test_small_graphs_are_solved_and_nothing_is_claimed(graph: Graph) -> None:
    context = improved(graph, runs=3)
    assert context.answer is not None
    check_order(graph, context.answer)
    assert context.incumbent == order_peak(graph, context.answer) == brute_force_peak(graph)[0]
    assert context.bound is None


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_annealing_keeps_orders_valid_and_counts_their_memory_right(seed: int, plain: bool) -> None:
    """The kernel updates memory block by block for the whole slice; its last word is a peak."""
    graph = random_graph(Random(seed), min_ops=40, max_ops=40, max_tensors=60, max_nbytes=50)
    arrays = order_arrays(state_space(graph))
    memory = sequential_memory(graph)
    order = np.arange(40)
    best = order.copy()
    start = memory.peak(order.tolist())
    peak, left = (anneal.py_func if plain else anneal)(
        arrays, order, best, start, 20.0, 1.0, 30, 20_000, seed
    )
    for found in (order, best):
        check_order(graph, found.tolist())
    assert peak == memory.peak(best.tolist()) <= start
    assert left <= 0


def test_a_peak_that_the_last_move_of_a_slice_lowers_counts() -> None:
    """Slices of one move each: what a move finds is not lost between them."""
    graph = load("catalogue:accumulate")
    arrays, order = order_arrays(state_space(graph)), np.arange(7)
    best, peak = order.copy(), 16
    for seed in range(300):
        peak, _ = anneal(arrays, order, best, peak, 8.0, 8.0, 7, 1, seed)
        assert peak == sequential_memory(graph).peak(best.tolist())
    assert peak == 8


def moved(graph: Graph, first: int, end: int) -> tuple[list[int], list[int]]:
    """Return the block of the reference order after a delay, and after an advance."""
    n, arrays = len(graph.ops), order_arrays(state_space(graph))
    results = []
    for move in (delay, advance):
        block, mark = np.full(n, -1), np.zeros(n, np.int64)
        move(arrays, np.arange(n), first, end, block, mark, 1)
        results.append(block[: end - first].tolist())
    return results[0], results[1]


def test_blocks_move_with_what_depends_on_them() -> None:
    """Two branches of two ops between a source and a join, listed in turn: a (b0 c0) (b1 c1) d."""
    graph = Graph(
        name="branches",
        tensors=tuple(Tensor(name=x, nbytes=1) for x in "abcdef"),
        ops=(
            Op(name="a", writes=(0,)),
            Op(name="b0", reads=(0,), writes=(1,)),
            Op(name="c0", reads=(0,), writes=(2,)),
            Op(name="b1", reads=(1,), writes=(3,)),
            Op(name="c1", reads=(2,), writes=(4,)),
            Op(name="d", reads=(3, 4), writes=(5,)),
        ),
    )
    assert moved(graph, 1, 5) == ([2, 4, 1, 3], [2, 4, 1, 3])
    assert moved(graph, 0, 6) == ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5])
    assert moved(graph, 1, 4) == ([2, 1, 3], [1, 3, 2])


@pytest.mark.slow
def test_it_finds_the_optimum_that_greedy_and_beam_miss() -> None:
    """Both proven: randwire-60-1 by the search by descents, intree-200 by Liu's traversal."""
    for name, optimum in (("randwire-60-1", 230), ("intree-200", 67)):
        graph = load(f"catalogue:{name}")
        assert sequential_memory(graph).peak(greedy_order(graph)) > optimum
        context = Context(problem=Peak(graph), options={"runs": 25})
        assert solve_local_search(Peak(graph), context).reason is None
        assert context.incumbent == optimum


def test_same_seed_same_orders_and_other_seeds_other_ways() -> None:
    graph = random_graph(Random(1), min_ops=60, max_ops=60, max_tensors=90, max_nbytes=90)
    assert improved(graph, seed=3).answer == improved(graph, seed=3).answer
    assert len({improved(graph, runs=1, seed=seed).answer for seed in range(5)}) > 1


def test_every_third_run_starts_from_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[tuple[int, ...]] = []

    def kernel(arrays: Any, order: Any, best: Any, peak: int, *rest: Any) -> tuple[int, int]:
        starts.append(tuple(order.tolist()))
        return peak, 0

    monkeypatch.setattr(order_kernel, "anneal", kernel)
    graph = load("catalogue:harpoon")
    context = Context(problem=Peak(graph), options=DEFAULTS)
    best, *others = greedy_order(graph), tuple(range(10)), greedy_order(graph, "least")
    context.offer(best)
    assert improve_by_local_search(Peak(graph), context, 9, lambda: others)
    assert starts == [best, best, others[0], best, best, others[1], best, best, others[0]]


def test_it_stops_when_told_and_keeps_what_it_has() -> None:
    graph = load("catalogue:randwire-60-0")
    context = Context(problem=Peak(graph), options=DEFAULTS)
    start = context.offer(range(len(graph.ops)))
    looks = iter([False, False, False])
    assert not improve_by_local_search(Peak(graph), context, expired=lambda: next(looks, True))
    assert context.incumbent is not None
    assert context.incumbent < start
    late = Context(problem=Peak(graph), time_limit=0.0, options=DEFAULTS)
    assert solve_local_search(Peak(graph), late).reason == "time"
    assert late.incumbent == start


def test_it_stops_at_the_largest_working_set() -> None:
    context = Context(problem=Peak(load("gen:chain?n=30")), time_limit=None, options=DEFAULTS)
    assert solve_local_search(Peak(load("gen:chain?n=30")), context).reason is None
    assert context.incumbent == context.bound


def test_sizes_whose_sums_pass_64_bits_keep_the_greedy_order() -> None:
    graph = load("catalogue:harpoon")
    huge = Graph(
        name="huge",
        tensors=tuple(Tensor(name=t.name, nbytes=t.nbytes << 56, final=t.final) for t in graph.tensors),
        ops=graph.ops,
    )
    context = Context(problem=Peak(huge), options=DEFAULTS)
    assert solve_local_search(Peak(huge), context).reason is None
    assert context.incumbent == sequential_memory(huge).peak(greedy_order(huge)) == 15 << 56


def test_graph_without_ops() -> None:
    graph = Graph(name="empty", tensors=(Tensor(name="w", nbytes=7, initial=True, final=True),), ops=())
    context = Context(problem=Peak(graph), options=DEFAULTS)
    assert solve_local_search(Peak(graph), context).reason is None
    assert context.incumbent == 7
