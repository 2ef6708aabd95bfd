"""Answers that take no search: `auto` has one however short the limit, also where its method crashes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lowtide as lt
from lowtide.models.problems.problem import Problem
from lowtide.solvers.method import Method, load
from lowtide.solvers.registry import ROOMS
from tests.effort import seeds
from tests.problems.hybrid import random_hybrid
from tests.problems.partition import random_partition
from tests.problems.pipeline import small
from tests.question_of_each import problem_of

LAYERED = lt.load("gen:layered?layers=50&width=10&seed=1")
STEP = lt.load("gen:chain?n=200,train=1,seed=1")
BACKWARD = tuple(range(len(STEP.ops) // 2, len(STEP.ops)))

QUESTIONS: dict[str, Problem] = {
    **{name: problem_of(name, LAYERED) for name, room in ROOMS.items() if room.trivial},
    "stages in any order": lt.Partition(LAYERED, 4, contiguous=False),
    "what runs again is chosen": lt.Partition(STEP, 4, backward=BACKWARD, recompute="choose"),
    "time of a batch": lt.Partition(LAYERED, 4, micro=8, objective="time"),
    "time of a sample": lt.Partition(LAYERED, 4, link=10**9, objective="latency"),
    "1f1b": lt.Partition(STEP, 4, backward=BACKWARD, schedule="1f1b", micro=4),
    "one micro-batch fits": lt.Pipeline(lt.load("gen:stages?p=4&m=30"), memory=4),
}


def crash(problem: object, context: object) -> object:
    raise RuntimeError("a defect")


@pytest.mark.parametrize("name", QUESTIONS)
def test_there_is_an_answer_when_the_method_has_no_time(name: str) -> None:
    result = lt.solve(QUESTIONS[name], time_limit=1e-9, threads=1)
    assert result.status in (lt.Status.FEASIBLE, lt.Status.OPTIMAL), result
    assert result.verification is not None
    assert result.verification.valid


@pytest.mark.parametrize("name", QUESTIONS)
def test_there_is_an_answer_when_the_method_crashes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = QUESTIONS[name]
    monkeypatch.setattr(Method, "load", lambda method: crash)
    result = lt.solve(problem, threads=1)
    assert (result.status, result.reason, result.detail) == (
        lt.Status.FAILED,
        "crash",
        "RuntimeError: a defect",
    )
    assert result.objective is not None
    assert result.verification is not None
    assert result.verification.valid


@pytest.mark.parametrize("make", [random_partition, random_hybrid, small])
def test_what_does_not_fit_is_not_offered(make: Callable[[int], Problem]) -> None:
    """Small problems with and without room for all in one place: optima stay optima."""
    for seed in seeds(30):
        problem = make(seed)
        name = load(ROOMS[problem.name].trivial)
        for answer in name(problem):
            judged = problem.judge(problem.read(answer))
            best = lt.solve(problem, time_limit=None, threads=1)
            if judged.objective is not None:
                assert best.objective is not None
                assert best.objective <= judged.objective
