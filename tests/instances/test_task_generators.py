"""Task graphs with a stated parallelism, and project networks like PSPLIB's."""

from __future__ import annotations

from random import Random
from statistics import fmean, median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances import load
from lowtide.instances.generators.psplib import project_network
from lowtide.instances.generators.tasks import SHAPES, tasks
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Graph, Mode
from tests.effort import many

MANY = many(60)
SEEDS = st.integers(0, 10**6)


def arcs(graph: Graph) -> list[set[int]]:
    """Return the predecessors of each op."""
    writer = {t: i for i, op in enumerate(graph.ops) for t in op.writes}
    return [{writer[t] for t in op.reads} for op in graph.ops]


@pytest.mark.parametrize("processors", [2, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_critical_path_is_between_half_and_all_of_the_average_load(shape: str, processors: int) -> None:
    for n in (40, 60):
        for seed in range(5):
            graph = load(f"gen:tasks?shape={shape}&n={n}&cores={processors}&seed={seed}")
            assert len(graph.ops) == n
            end: list[int] = []
            for op, before in zip(graph.ops, arcs(graph), strict=True):
                end.append(op.duration_ns + max((end[i] for i in before), default=0))
            load_each = sum(op.duration_ns for op in graph.ops) / processors
            assert load_each / 2 <= max(end) <= load_each


@MANY
@given(
    n=st.integers(12, 120), processors=st.integers(1, 6), shape=st.sampled_from(sorted(SHAPES)), seed=SEEDS
)
def test_every_shape_has_all_its_ops_in_order(n: int, processors: int, shape: str, seed: int) -> None:
    successors = SHAPES[shape](n, processors, Random(seed))
    assert len(successors) == n
    for i, readers in enumerate(successors):
        assert len(set(readers)) == len(readers)
        assert all(i < j < n for j in readers)
    sinks = [i for i, readers in enumerate(successors) if not readers]
    sources = set(range(n)) - {j for readers in successors for j in readers}
    if shape == "tree":
        assert sinks == [n - 1]
        assert max(map(len, successors)) == 1
    elif shape == "layered":
        assert max(sources) < 3 * processors
    else:
        assert sinks == [n - 1]
        assert shape == "workflow" or sources == {0}


def test_forks_have_branches_of_one_op_and_modules_longer_ones() -> None:
    fork = arcs(load("gen:tasks?shape=forkjoin&seed=2"))
    joins = [i for i, before in enumerate(fork) if len(before) != 1]
    # A branch stands directly between two joins (or the source).
    assert all(next(iter(fork[i])) in joins for i in range(len(fork) - 2) if i not in joins)
    module = arcs(load("gen:tasks?shape=inception&seed=2"))
    joins = [i for i, before in enumerate(module) if len(before) != 1]
    assert any(next(iter(module[i])) not in joins for i in range(len(module)) if i not in joins)


def test_workflow_is_that_of_montage() -> None:
    graph = arcs(load("gen:tasks?shape=workflow&n=40&seed=1"))
    images = sum(not before for before in graph)
    fit = next(i for i, before in enumerate(graph) if before and min(before) >= images)
    pairs = graph[images:fit]
    assert all(len(pair) == 2 and max(pair) < images for pair in pairs)
    assert {(i, i + 1) for i in range(images - 1)} <= {tuple(sorted(pair)) for pair in pairs}
    assert graph[fit] == set(range(images, fit))
    assert graph[fit + 1] == {fit}
    backgrounds = range(fit + 2, fit + 2 + images)
    assert [graph[b] for b in backgrounds] == [{k, fit + 1} for k in range(images)]
    assert graph[backgrounds.stop] == set(backgrounds)
    assert graph[backgrounds.stop + 1] == {*backgrounds, backgrounds.stop}


def test_durations_are_lognormal_about_their_median() -> None:
    from math import log

    logs = [log(op.duration_ns / 1000) for op in load("gen:tasks?n=5000&sigma=0.8").ops]
    assert abs(fmean(logs)) < 0.05
    assert abs(stdev(logs) - 0.8) < 0.05
    assert {op.duration_ns for op in load("gen:tasks?sigma=0").ops} == {1000}


def test_workspaces() -> None:
    assert {op.workspace for op in load("gen:tasks").ops} == {0}
    assert {op.workspace for op in load("gen:tasks?workspace=2&n=100").ops} == {0, 1, 2}


def test_some_tasks_also_run_on_a_gpu() -> None:
    plain, both = load("gen:tasks?workspace=9&seed=3"), load("gen:tasks?workspace=9&seed=3&gpu=60&speedup=3")
    assert [op.modes for op in plain.ops] == [()] * 50
    assert [(op.reads, op.writes) for op in both.ops] == [(op.reads, op.writes) for op in plain.ops]
    assert [op.modes[0] for op in both.ops] == [
        Mode(duration_ns=op.duration_ns, workspace=op.workspace, processors=("cpu",)) for op in plain.ops
    ]
    fast = [op.modes for op in both.ops if len(op.modes) == 2]
    assert len(fast) == 30
    assert all(mode.processors == ("gpu",) and mode.workspace <= 9 for _, mode in fast)
    factors = [cpu.duration_ns / gpu.duration_ns for cpu, gpu in fast]
    assert 2 < median(factors) < 4.5
    assert load("gen:tasks?workspace=9&seed=3&gpu=60&speedup=3") == both


def test_too_little_parallelism_is_said() -> None:
    with pytest.raises(InstanceError, match="found in 2000 draws no graph of 12 ops with a critical path"):
        tasks(
            shape="workflow",
            n=12,
            cores=9,
            sigma=0.5,
            workspace=0,
            seed=0,
            data="op",
            sizes="random",
            largest=20,
        )


@MANY
@given(n=st.integers(1, 60), complexity=st.floats(1, 2.5), seed=SEEDS)
def test_project_networks_have_no_redundant_arc(n: int, complexity: float, seed: int) -> None:
    successors = project_network(n, complexity, Random(seed))
    below: list[set[int]] = [set() for _ in range(n)]
    for i in reversed(range(n)):
        assert successors[i] == sorted(set(successors[i]))
        below[i] = set(successors[i]).union(*(below[j] for j in successors[i]))
        for j in successors[i]:
            assert i < j
            assert not any(j in below[k] for k in successors[i])


@pytest.mark.parametrize("complexity", [1.5, 1.8, 2.1])
@pytest.mark.parametrize("n", [30, 60, 120])
def test_project_networks_have_the_complexity_of_psplib(n: int, complexity: float) -> None:
    for seed in range(5):
        successors = project_network(n, complexity, Random(seed))
        predecessors = [sum(j in readers for readers in successors) for j in range(n)]
        assert predecessors[:3] == [0, 0, 0]
        assert not any(successors[-3:])
        assert predecessors.count(0) == 3
        assert sum(not readers for readers in successors) == 3
        assert max(map(len, successors)) <= 3
        assert max(predecessors) <= 3
        assert sum(predecessors) + 6 == round(complexity * (n + 2))


@pytest.mark.slow
def test_project_workspaces_and_durations() -> None:
    graph = load("gen:psplib?n=500&factor=0.25&demand=7")
    held = [op.workspace for op in graph.ops if op.workspace]
    assert set(held) == set(range(1, 8))
    assert 90 < len(held) < 160
    assert {op.duration_ns for op in graph.ops} == set(range(1, 11))
    assert not any(op.workspace for op in load("gen:psplib?factor=0").ops)
