"""The bound by chained efforts: below exhaustive search, and above the other bounds where it should be."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.makespan.data import makespan_data
from lowtide.solvers.makespan.bounds import chained_efforts as module
from lowtide.solvers.makespan.bounds.bounds import critical_path, load, memory_area
from lowtide.solvers.makespan.bounds.chained_efforts import chained_efforts
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_graph


def others(problem: lt.Makespan) -> int:
    data = makespan_data(problem)
    return max(critical_path(data), load(data), memory_area(problem, data) or 0)


def heavy(seed: int) -> lt.Makespan:
    """Return a problem of 5 to 7 ops with few bytes to spare."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=5, max_ops=7, max_nbytes=6)
    return lt.Makespan(graph, rng.randint(2, 3), brute_force_peak(graph)[0] + rng.choice((0, 0, 2, 5)))


@pytest.mark.slow
def test_never_above_exhaustive_search_and_sometimes_above_all_other_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    better = 0
    for seed in range(120):
        problem = heavy(seed)
        best = fastest_schedule(problem.graph, problem.count, problem.memory)
        if best is None:
            continue
        data = makespan_data(problem)
        for hubs in (2, 1000):
            monkeypatch.setattr(module, "HUBS", hubs)
            bound = chained_efforts(data)
            assert bound * data.tick <= best, f"seed {seed}"
        better += bound > others(problem)
    assert better >= 3


def test_modules_in_a_row_are_bounded_one_by_one() -> None:
    """Between each two of 11 joints, five branches of 3 ns take two rounds of two processors and one more."""
    ops, joint = [lt.Op(name="0", duration_ns=1)], 0
    for _ in range(10):
        first = len(ops)
        ops += [lt.Op(name=str(first + k), duration_ns=3, after=(joint,)) for k in range(5)]
        joint = len(ops)
        ops.append(lt.Op(name=str(joint), duration_ns=1, after=tuple(range(first, joint))))
    problem = lt.Makespan(lt.Graph(name="modules", tensors=(), ops=tuple(ops)), processors=2)
    data = makespan_data(problem)
    # 15 ns of work on two processors: at least 8 ns a module; the other bounds know the sum only.
    assert chained_efforts(data) * data.tick == 11 + 10 * 8
    assert others(problem) == -(-(11 + 150) // 2) + 1


def test_ops_of_more_than_half_the_memory_run_one_after_another() -> None:
    """Ops of 4, 4 and 5 bytes in 7: never two at once, although 13 bytes * 5 ns are only 65 / 7 ns."""
    ops = tuple(lt.Op(name=str(i), duration_ns=5, workspace=4 + i // 2) for i in range(3))
    problem = lt.Makespan(lt.Graph(name="large", tensors=(), ops=ops), 3, 7)
    data = makespan_data(problem)
    assert (chained_efforts(data) * data.tick, others(problem) * data.tick) == (15, 10)
    larger = makespan_data(replace(problem, memory=8))
    assert chained_efforts(larger) == 2


def test_a_shared_operand_counts_for_one_reader_only() -> None:
    """Both readers hold the same 4 bytes: they fit into 5 together."""
    tensors = (lt.Tensor(name="x", nbytes=4),)
    ops = (lt.Op(name="w", writes=(0,)), *(lt.Op(name=f"r{i}", reads=(0,)) for i in range(2)))
    problem = lt.Makespan(lt.Graph(name="shared", tensors=tensors, ops=ops), 2, 5)
    assert chained_efforts(makespan_data(problem)) == 2
    assert lt.solve(problem, threads=1).objective == 2


def test_very_large_graphs_have_their_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPS", 2)
    ops = tuple(lt.Op(name=str(i), duration_ns=5, workspace=4 + i // 2) for i in range(3))
    assert chained_efforts(makespan_data(lt.Makespan(lt.Graph(name="g", tensors=(), ops=ops), 3, 7))) == 3
