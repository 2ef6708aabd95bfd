"""`tw-remat`: separators of tree decompositions, the recursion across them, and second thoughts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import log2
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import fits, levels, recompute_data, time_of
from lowtide.models.derived.memory import sequential_memory
from lowtide.solvers.recompute.heuristics.treewidth import (
    DECOMPOSITIONS,
    Separator,
    held_on,
    outer,
    schedule,
    separators,
    useful,
    with_outer,
)
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute import tight_problem
from tests.strategies import random_graph

STEPS = ("gen:sp?n=7,train=1,seed=1", "gen:skipchain?n=7,train=1", "catalogue:llama-block-train")


def tight(spec: str, percent: int) -> lt.Recompute:
    """A graph with so much of what the reference order needs beyond the largest op."""
    graph = lt.load(spec)
    whole = lt.Recompute(graph)
    least = max(whole.start_bytes, *(whole.least_bytes(i) for i in range(len(graph.ops))))
    most = sequential_memory(graph).reference_peak
    return lt.Recompute(graph, memory=least + (most - least) * percent // 100)


def ways_down(root: Separator) -> Iterator[list[Separator]]:
    """Every way from the root to a separator, that one last."""
    yield [root]
    for x in root.below:
        for way in ways_down(x):
            yield [root, *way]


@pytest.mark.parametrize(("spec", "name"), list(product(STEPS, DECOMPOSITIONS)))
def test_separators_part_the_ops_and_halve_what_is_below(spec: str, name: str) -> None:
    data = recompute_data(lt.Recompute(lt.load(spec)))
    width, root = separators(data, name)
    home: dict[int, list[int]] = {}
    for way in ways_down(root):
        assert way[-1].all == frozenset(way[-1].ops).union(*(x.all for x in way[-1].below))
        assert len(way[-1].ops) <= width + 1
        assert list(way[-1].ops) == sorted(way[-1].ops)
        for i in way[-1].ops:
            assert i not in home
            home[i] = [id(x) for x in way]
    inner = set(range(data.n)) - set(outer(data))
    assert set(home) == inner
    assert root.depth <= log2(data.n) + 1
    for i in inner:
        for j in data.inputs[i]:
            short, long = sorted((home[i], home[j]), key=len)
            assert long[: len(short)] == short  # one of them is above the other


def test_a_chain_takes_logarithmically_many_values_at_the_greatest_depth() -> None:
    """The i-th backward reads x_i-1 alone: with sixty stages each op once holds all, depth by depth fewer."""
    data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=60"), memory=3))
    root = separators(data, "min-degree")[1]
    found = [schedule(data, root, depth) for depth in range(root.depth + 1)]
    peaks = [0 if runs is None else max(levels(data, runs)) for runs in found]
    assert peaks[:5] == [62, 33, 20, 14, 12]
    assert set(peaks[5:]) == {12}


@pytest.mark.parametrize("spec", STEPS)
def test_without_memory_limit_every_depth_is_each_op_once(spec: str) -> None:
    """What goes stays, so that nothing runs again."""
    data = recompute_data(lt.Recompute(lt.load(spec)))
    for name in DECOMPOSITIONS:
        root = separators(data, name)[1]
        for depth in range(root.depth + 1):
            runs = schedule(data, root, depth)
            assert runs is not None
            assert sorted(runs) == list(range(data.n))
            assert fits(data, runs)


@pytest.mark.slow
def test_never_faster_than_exhaustive_search_and_as_fast_on_short_chains() -> None:
    as_fast, found = 0, 0
    for kind in ("backprop-chain?l=3", "backprop-chain?l=4", "backprop-chain?l=5", "sp?n=4,train=1"):
        for percent in (30, 60, 80):
            problem = tight(f"gen:{kind}", percent)
            result = lt.solve(problem, "tw-remat", time_limit=None)
            best = fastest_recomputation(problem.graph, problem.machine)
            if result.objective is not None:
                assert best is not None
                assert problem.least_time <= best <= result.objective
                found += result.objective > problem.least_time
                as_fast += best == result.objective
    assert found >= 5
    assert as_fast >= 5


@pytest.mark.slow  # sixty graphs whose tensors are written more than once
def test_never_faster_than_exhaustive_search_where_tensors_are_written_again() -> None:
    for seed in range(60):
        problem = tight_problem(seed)
        if problem is not None:
            found = lt.solve(problem, "tw-remat", time_limit=None).objective
            best = fastest_recomputation(problem.graph, problem.machine)
            assert found is None or (best is not None and best <= found)


def test_updates_run_after_what_they_overwrite_is_found_for_the_last_time() -> None:
    """Also where the gradient is there before: it stays, or is left once more."""
    sizes = {"x": 1, "w": 2, "a": 1, "b": 1, "d": 2, "e": 1}
    tensors = [lt.Tensor(name=t, nbytes=n, initial=t in "xw", final=t in "we") for t, n in sizes.items()]
    operands = [((0, 1), (2,)), ((2,), (3,)), ((3,), (4,)), ((2, 3), (5,)), ((1, 4), (1,))]
    ops = [lt.Op(name=f"o{i}", reads=reads, writes=writes) for i, (reads, writes) in enumerate(operands)]
    data = recompute_data(lt.Recompute(lt.Graph(name="step", tensors=tuple(tensors), ops=tuple(ops))))
    assert outer(data) == [3, 4]
    assert with_outer(data, [0, 1, 2], [4]) == [0, 1, 2, 4]
    assert with_outer(data, [0, 1, 2, 0], [4]) == [0, 1, 2, 0, 4]
    assert with_outer(data, [0, 1, 2, 0, 1, 2, 0, 1], [3, 4]) == [0, 1, 3, 2, 0, 1, 2, 0, 4, 1]
    assert with_outer(data, [0, 1, 2, 0, 1, 2, 1], [3, 4]) == [0, 1, 3, 2, 0, 1, 2, 4, 1]


def test_runs_of_no_use_are_left_out_and_one_of_each_op_stays() -> None:
    data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=3")))
    once = list(range(data.n))
    assert useful(data, [0, 1, 0, 1, *once]) == once
    assert useful(data, [*once, *once]) == once


def test_what_goes_stays_while_there_is_room() -> None:
    graph = lt.load("gen:backprop-chain?l=5")
    runs = [0, 1, 2, 3, 4, 5, 6, 2, 7, 8, 0, 9, 10]
    for memory, ran in ((5, len(runs)), (6, len(runs) - 1), (7, len(runs) - 2)):
        data = recompute_data(lt.Recompute(graph, memory=memory))
        fewer = held_on(data, runs)
        assert len(fewer) == ran
        assert fits(data, fewer)


def test_what_is_final_takes_its_room_meanwhile() -> None:
    """While `w` is left, 7 bytes must be there, with `a`; `b`, of one byte, may stay in 8."""
    sizes = {"x": 1, "a": 2, "b": 1, "c": 1, "w": 3, "e": 0}
    tensors = [lt.Tensor(name=t, nbytes=n, initial=t == "x", final=t in "ae") for t, n in sizes.items()]
    operands = [((0,), 1), ((0,), 2), ((2,), 3), ((0,), 4), ((2, 3, 4), 5)]
    ops = [lt.Op(name=f"o{i}", reads=reads, writes=(left,)) for i, (reads, left) in enumerate(operands)]
    graph = lt.Graph(name="step", tensors=tuple(tensors), ops=tuple(ops))
    runs = [0, 1, 2, 3, 1, 4]
    assert held_on(recompute_data(lt.Recompute(graph, memory=7)), runs) == runs
    assert held_on(recompute_data(lt.Recompute(graph, memory=8)), runs) == [0, 1, 2, 3, 4]


@pytest.mark.slow  # a step of five hundred ops
def test_an_op_that_overwrites_what_it_finds_runs_once() -> None:
    """Batch norms with their running means."""
    problem = tight("catalogue:resnet50-train", 70)
    found = lt.solve(problem, "tw-remat", time_limit=None, options={"decomposition": "min-fill"})
    assert found.objective is not None
    assert found.objective > problem.least_time


@pytest.mark.slow  # many graphs
def test_second_thoughts_keep_schedules_valid() -> None:
    looked = 0
    for seed in range(300):
        graph = random_graph(Random(seed), min_ops=4, max_ops=9, max_tensors=9, single_writer=True)
        data = recompute_data(lt.Recompute(graph))
        small = replace(data, memory=max(data.footprint))
        for name in DECOMPOSITIONS:
            root = separators(small, name)[1]
            for depth in range(root.depth + 1):
                runs = schedule(small, root, depth)
                assert runs is not None
                levels(small, runs)
                assert set(runs) == set(range(data.n))
                looked += time_of(small, runs) > sum(small.duration)
    assert looked >= 30
