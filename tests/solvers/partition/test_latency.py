"""The latency of one sample: methods and bounds against exhaustive search, and the public inputs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.partition import latency_milp
from lowtide.formulations.partition.data import partition_data
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.partition.latency import KIND, ClassOrder, Cuts, raise_latency
from tests.effort import seeds
from tests.formulations.cases.case import proved
from tests.formulations.cases.partition import one_after_another, partition
from tests.oracles.brute_partition import best, objective
from tests.problems.partition import random_latency, random_split


def test_no_latency_is_below_the_cuts_of_a_path() -> None:
    reached = 0
    for seed in seeds(10):
        problem = random_latency(seed)
        context, expected = Context(problem=problem), best(problem)
        raise_latency(problem, context)
        if expected is not None and context.bound is not None:
            assert context.bound <= expected, seed
            reached += context.bound == expected
    assert reached


def test_no_cut_is_computed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[Cuts, int, int]] = []
    cut = Cuts.cut

    def noted(self: Cuts, i: int, j: int) -> int:
        found.append((self, i, j))
        return cut(self, i, j)

    monkeypatch.setattr(Cuts, "cut", noted)
    for seed in range(6):
        problem = random_latency(seed)
        raise_latency(problem, Context(problem=problem))
    assert len({(id(cuts), i, j) for cuts, i, j in found}) == len(found) > 5


def test_a_cut_counts_what_a_stage_may_take_besides() -> None:
    """From a to d in a stage of its own, b or c alone: with the other one it sends 1 ns less."""
    g = lt.GraphBuilder()
    g.op("a", writes=[g.tensor("x", 7)], duration=5)
    g.op("b", reads=["x"], writes=[g.tensor("y", 2)], duration=5)
    g.op("c", reads=["x"], writes=[g.tensor("z", 1)], duration=3)
    g.op("d", reads=["y", "z"], duration=5)
    problem = lt.Partition(g.build(), 4, link=10**9, objective="latency")
    cuts = Cuts(order=ClassOrder(problem=problem, data=partition_data(problem)), path=[0, 1, 3])
    cuts.begin(Context(problem=problem))
    assert cuts.least[0, 2] == 5 + 5 + 2  # c is on neither side: only y crosses for certain
    assert cuts.cut(0, 2) == 5 + 5 + 2 + min(7, 3 + 1)
    assert cuts.cut(0, 3) == cuts.least[0, 3] == 5 + 5 + 5 + 3


def test_the_latency_is_judged_by_the_letter() -> None:
    broken = 0
    for seed in seeds(40):
        problem, rng = random_latency(seed), Random(seed)
        split = random_split(problem, rng)
        judged = problem.judge(problem.read(split))
        assert judged.objective == objective(problem, split), (seed, split, judged.violations)
        broken += judged.objective is None
    assert broken


@pytest.mark.parametrize("problem", [one_after_another(), *map(random_latency, (1, 3, 9, 11))])
def test_the_program_alone_proves_the_least_latency(problem: lt.Partition) -> None:
    assert partition(latency_milp, problem) == proved(best(problem))


@pytest.mark.slow  # a MILP each
def test_latencies_that_exhaustive_search_finds() -> None:
    for seed in seeds(12):
        problem = random_latency(seed)
        expected = best(problem)
        for method in ("milp", "auto"):
            result = lt.solve(problem, method, threads=1)
            assert result.objective == expected, (seed, method)
            assert expected is None or result.bound == expected, (seed, method)
            assert result.status == ("infeasible" if expected is None else "optimal"), (seed, method)


@pytest.mark.parametrize(
    "change",
    [
        {"contiguous": False},
        {"backward": (1,)},
        {"replicate": 2},
        {"recompute": "all"},
        {"schedule": "gpipe"},
    ],
)
def test_what_has_no_latency(change: dict[str, Any]) -> None:
    with pytest.raises(lt.InstanceError, match="expected for the latency contiguous stages of forward ops"):
        replace(random_latency(0), **change)


def test_other_methods_refuse_it_or_are_judged_by_it() -> None:
    problem = random_latency(3)
    optimum = best(problem)
    assert optimum is not None
    for method in ("ideals", "chain", "cpsat", "branch-price"):
        assert lt.solve(problem, method, threads=1).objective is None, method
    for method in ("torchgpipe", "pipedream", "alpa", "serial"):
        found = lt.solve(problem, method, threads=1).objective
        assert found is None or found >= optimum, method


def test_bert_24_takes_what_its_greedy_split_takes() -> None:
    """100.2185 ms by the public greedy; the program's bound was 26 after four minutes."""
    problem = load_problem(lt.Partition, "catalogue:layers/bert24-latency", objective="latency")
    result = lt.solve(problem, "serial", threads=1, time_limit=None)
    assert (result.objective, result.bound, result.bound_kind) == (100_218_501, 100_218_501, KIND)
