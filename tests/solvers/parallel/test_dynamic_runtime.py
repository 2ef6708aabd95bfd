"""A dynamic runtime: never above the largest parallel memory, within the bound with the edges."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.parallel.runtime import simulate
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.brute_parallel import most_memory
from tests.strategies import random_graph


def test_no_run_is_above_the_largest_memory_and_many_reach_it() -> None:
    reached = 0
    for seed in range(60):
        graph = random_graph(Random(seed), max_ops=6)
        for processors in (1, 2, None):
            largest = most_memory(graph, processors=processors)
            peaks = simulate(graph, runs=40, processors=processors, seed=seed)
            assert max(peaks) <= largest
            reached += max(peaks) == largest
    assert reached > 120


def test_one_processor_needs_what_some_order_needs() -> None:
    for seed in range(40):
        graph = random_graph(Random(seed), max_ops=6)
        assert min(simulate(graph, runs=30, processors=1)) >= brute_force_peak(graph)[0]


@pytest.mark.parametrize("spec", ["gen:randwire?n=40&seed=1", "gen:layered?seed=2", "gen:sp?seed=3"])
def test_some_runs_exceed_the_bound_and_none_does_with_the_edges(spec: str) -> None:
    graph = lt.load(spec)
    order = lt.solve(lt.Peak(graph), threads=1).objective
    most = max(simulate(graph, runs=300))
    assert order is not None
    assert most > order
    bound = (order + most) // 2
    result = lt.solve(lt.MemoryEdges(graph, bound), "respect-order", threads=1)
    assert result.edges is not None
    before, after = simulate(graph, runs=1000), simulate(graph, result.edges, runs=1000)
    assert sum(peak > bound for peak in before) > 0
    assert max(after) <= bound


def test_same_seed_same_runs() -> None:
    graph = lt.load("gen:randwire?n=12&seed=1")
    assert simulate(graph, runs=20, seed=3) == simulate(graph, runs=20, seed=3)
    assert simulate(graph, runs=20, seed=3) != simulate(graph, runs=20, seed=4)
    with pytest.raises(lt.UsageError, match="found 0"):
        simulate(graph, runs=0)
