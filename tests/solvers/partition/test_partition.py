"""Partition: the programs against exhaustive search, the verifier against the letter, published optima."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from tests.effort import seeds
from tests.oracles.brute_partition import best, objective
from tests.partition_problems import CHAIN, KEPT, PASSED, WEIGHTS, chain_of, random_partition, random_split


def test_ideals_find_what_exhaustive_search_finds() -> None:
    seen = set()
    for seed in seeds(80):
        problem = random_partition(seed)
        result, expected = lt.solve(problem, "ideals", threads=1), best(problem)
        assert (result.objective, result.bound) == (expected, expected), (seed, result.detail)
        assert result.status == ("infeasible" if expected is None else "optimal"), seed
        seen.add(result.status)
        along = lt.solve(problem, "chain", threads=1)
        assert along.objective is None or (expected is not None and along.objective >= expected), seed
        assert along.bound in (None, expected), seed
    assert seen == {lt.Status.OPTIMAL, lt.Status.INFEASIBLE}


def test_the_verifier_judges_by_the_letter() -> None:
    broken = 0
    for seed in seeds(100):
        rng = Random(seed)
        problem = random_partition(seed)
        if seed % 3 == 0:
            problem = replace(problem, recompute="choose", objective=rng.choice(("load", "time")))
        if seed % 5 == 0:
            problem = replace(problem, contiguous=False, schedule="none")
        for _ in range(8):
            split = random_split(problem, rng)
            judged = problem.judge(problem.read(split))
            assert judged.objective == objective(problem, split), (seed, split, judged.violations)
            assert bool(judged.violations) == (judged.objective is None)
            broken += bool(judged.violations)
    assert broken


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"memory": 5}, "memory", "stage 0 holds 6 B, expected at most 5 B"),
        ({"stage": (1, 0, 1)}, "contiguity", "op 1 'b' on stage 0 needs op 0 'a' on stage 1"),
        ({"together": ((0, 2),)}, "class", "ops 0 'a' and 2 'c' of one class are on stages 0 and 1"),
        ({"processors": 1}, "devices", "found 2 devices of kind 'any', expected at most 1"),
        ({"replicas": (2, 1)}, "replicas", "stage 0: found 2 replicas, expected 1 to 1"),
    ],
)
def test_each_fault_has_its_witness(change: dict[str, Any], kind: str, words: str) -> None:
    g = lt.GraphBuilder()
    weight = g.tensor("w", 6, initial=True, final=True)
    g.op("a", reads=[weight], writes=[g.tensor("x", 4)], duration=5)
    g.op("b", reads=["x"], writes=[g.tensor("y", 1)], duration=7)
    g.op("c", reads=["y"], duration=9)
    problem = lt.Partition(g.build(), 3, memory=6)
    split = lt.Split(stage=(0, 0, 1), kinds=("any", "any"), replicas=(1, 1))
    assert problem.judge(split).objective == 12
    for key, value in change.items():
        if hasattr(problem, key):
            problem = replace(problem, **{key: value})
        else:
            split = replace(split, **{key: value})
    found = problem.judge(split).violations
    assert [x.kind for x in found] == [kind]
    assert words in found[0].message


def test_backward_ops_without_forward_ones_go_the_other_way() -> None:
    g = lt.GraphBuilder()
    g.op("f", writes=[g.tensor("x", 1)])
    g.op("loss", reads=["x"], writes=[g.tensor("g", 1)])
    g.op("b", reads=["g"])
    problem = lt.Partition(g.build(), 2, together=((0, 2),), backward=(1, 2))
    assert not problem.judge(lt.Split(stage=(0, 1, 0), kinds=("any", "any"), replicas=(1, 1))).violations
    (found,) = problem.judge(lt.Split(stage=(1, 0, 1), kinds=("any", "any"), replicas=(1, 1))).violations
    assert (found.kind, found.op, found.other) == ("contiguity", 1, 2)


def oracle(devices: int, **rules: Any) -> int | None:
    """Return the optimum for a chain of 12 layers in µs, almost all of it in backward ops."""
    graph, classes = chain_of(tuple((1, 1000 * t - 1) for t in CHAIN), WEIGHTS, KEPT, PASSED)
    problem = lt.Partition(graph, devices, micro=8, **classes, **rules)
    found = lt.solve(problem, "chain", threads=1)
    assert found.status in ("optimal", "infeasible"), found.detail
    return None if found.objective is None else found.objective // 1000


def test_the_chain_within_memories() -> None:
    assert [oracle(k) for k in range(1, 7)] == [52, 27, 21, 14, 14, 11]
    memories = (250, 300, 400, 600, 1000)
    assert [oracle(4, memory=m, schedule="gpipe") for m in memories] == [None, None, None, 27, 16]
    assert [oracle(4, memory=m, schedule="1f1b") for m in memories] == [None, 27, 16, 16, 14]
    assert [oracle(4, memory=m, schedule="1f1b", recompute="all") for m in memories] == [16, 14, 14, 14, 14]


PUBLISHED = {
    "bert24-inference": 17.78990625,
    "bert24-training": 41.7458125,
    "gnmt-inference": 32.910658203125,
    "gnmt-training": 107.0044140625,
    "resnet50-inference": 33.774666015625,
    "resnet50-training": 78.6318125,
    "resnet50-ops-inference": 124.34884977404485,
    "resnet50-ops-training": 255.19441645217384,
    "bert-3-ops-inference": 27.9185676799125,
    "bert-3-ops-training": 65.30314912208605,
    "bert-6-ops-inference": 29.57950580645155,
    "bert-6-ops-training": 72.86496632241122,
    "bert-12-ops-inference": 147.47798444934838,
    "bert-12-ops-training": 437.9976378578455,
}
"""Optima in ms, by the dynamic program in the public code of dnn-partitioning."""

QUICK = ("bert24-inference", "bert24-training", "resnet50-training")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PUBLISHED]
)
def test_published_optima_but_for_rounding(name: str) -> None:
    """Durations and transfers are whole ns, at least 1: an error of 1 ns at most for each op and value."""
    problem = load_problem(lt.Partition, f"catalogue:layers/{name}")
    result = lt.solve(problem, "ideals", threads=1)
    graph = problem.graph
    assert result.status is lt.Status.OPTIMAL
    assert result.objective is not None
    assert abs(result.objective - PUBLISHED[name] * 1e6) < len(graph.ops) + len(graph.tensors)


@pytest.mark.parametrize(
    ("network", "replicated", "straight"),
    [("vgg16", 175_732_624, 216_450_000), ("alexnet", 23_165_752, 28_721_000)],
)
def test_pipedream_splits_as_its_code_does(network: str, replicated: int, straight: int) -> None:
    spec = f"catalogue:layers/pipedream-{network}?processors=4"
    assert lt.solve(load_problem("partition", spec), "chain", threads=1).objective == straight
    problem = load_problem("partition", spec, replicate=4, sync="1GB")
    result = lt.solve(problem, "chain", threads=1)
    assert (result.status, result.objective) == ("optimal", replicated)
