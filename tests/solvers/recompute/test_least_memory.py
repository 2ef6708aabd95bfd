"""Memory that every schedule needs, from searches backwards: against exhaustive search, and on a U-Net."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import recompute_data
from lowtide.solvers.recompute.models.least_memory import least_need, none_fits
from tests.effort import seeds
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute import needed, tight_problem, with_disk
from tests.strategies import random_graph


def least_memory(graph: lt.Graph) -> int:
    """The least bytes in which exhaustive search finds a schedule."""
    memory = needed(graph)
    while memory and fastest_recomputation(graph, lt.Recompute(graph, memory=memory - 1).machine) is not None:
        memory -= 1
    return memory


def check(graph: lt.Graph) -> tuple[bool, bool]:
    """Bounds for each memory; return whether one is above what ops need alone, and whether one is tight."""
    least = least_memory(graph)
    used = {t for op in graph.ops for t in (*op.reads, *op.writes)}
    idle = sum(x.nbytes for t, x in enumerate(graph.tensors) if x.initial and x.final and t not in used)
    found, alone = [], []
    for memory in range(max(0, least - 3), least + 2):
        data = recompute_data(lt.Recompute(graph, memory=memory))
        found.append(least_need(data)[0] * data.unit + idle)
        alone.append(least_need(data, stop=lambda: True)[0] * data.unit + idle)
        assert found[-1] <= least, memory
    return max(found) > max(alone), max(found) == least


@pytest.mark.slow
def test_bounds_are_never_above_the_least_memory_and_mostly_are_it() -> None:
    told = [check(random_graph(Random(seed), min_ops=3, max_ops=6, max_tensors=7)) for seed in range(40)]
    assert sum(tight for _, tight in told) == 37


@pytest.mark.parametrize("seed", [130, 178, 214, 265])
def test_bounds_may_be_above_what_any_op_needs_alone(seed: int) -> None:
    more, _ = check(random_graph(Random(seed), min_ops=4, max_ops=7, max_tensors=8))
    assert more


@pytest.mark.slow  # a hundred graphs, each in several memories
def test_bounds_are_never_above_the_least_memory_of_more_graphs() -> None:
    graphs = [random_graph(Random(k), min_ops=4, max_ops=7, max_tensors=8) for k in range(100, 200)]
    told = [check(graph) for graph in graphs]
    assert [sum(some) for some in zip(*told, strict=True)] == [3, 82]


def test_a_skip_that_cannot_be_held_across_a_wide_op_is_counted() -> None:
    """Each op alone needs 11 bytes; the second value of the sum costs 11 beside the 4 of the first one."""
    sizes = {"x": 1, "wide": 7, "a": 4, "broad": 7, "b": 4, "sum": 1}
    tensors = [lt.Tensor(name=name, nbytes=size, final=name == "sum") for name, size in sizes.items()]
    tensors[0] = lt.Tensor(name="x", nbytes=1, initial=True)
    reads = {"wide": "x", "a": "wide", "broad": "x", "b": "broad", "sum": "a b"}
    names = list(sizes)
    ops = [
        lt.Op(name=name, reads=tuple(map(names.index, found.split())), writes=(names.index(name),))
        for name, found in reads.items()
    ]
    graph = lt.Graph(name="skip", tensors=tuple(tensors), ops=tuple(ops))
    assert least_memory(graph) == 15
    for memory, need in ((13, 15), (14, 15), (15, 11), (11, 15)):
        problem = lt.Recompute(graph, memory=memory)
        data = recompute_data(problem)
        assert least_need(data)[0] == need
        assert bool(none_fits(problem, data, lambda: False)) == (memory < 15)
        assert bool(none_fits(problem, data, lambda: True)) == (memory < 11)
    idle = lt.Tensor(name="idle", nbytes=5, initial=True, final=True)
    result = lt.solve(lt.Recompute(replace(graph, tensors=(*tensors, idle)), memory=19), time_limit=None)
    assert result.status == "infeasible"
    assert result.detail.startswith("every schedule needs 20 B at least up to the first run of op 4 'sum'")


def test_the_u_net_in_35_percent_has_no_schedule() -> None:
    """The gradient of the last skip is a sum of two of 82.6 MB.

    While the one runs that pools (228.4 MB with the input) there is no room for what the other one comes of,
    and what is concatenated for that takes 200.6 MB beside the first one and the input.
    """
    graph = lt.load("catalogue:original-unet-train")
    data = recompute_data(lt.Recompute(graph, memory=283_194_004))
    assert least_need(data)[0] * data.unit == 284_506_176
    data = recompute_data(lt.Recompute(graph, memory=300_000_000))
    assert least_need(data, stop=lambda: True)[0] * data.unit < 283_194_004


@pytest.mark.slow
def test_nothing_is_refuted_that_slower_tiers_make_possible() -> None:
    """What was discarded comes back by a copy there."""
    for seed in seeds(40, 10):
        problem = tight_problem(seed)
        if problem is None:
            continue
        paged = with_disk(problem, Random(seed))
        result = lt.solve(paged, time_limit=None, threads=1)
        if result.status == "infeasible":
            assert fastest_recomputation(problem.graph, paged.machine) is None, seed
