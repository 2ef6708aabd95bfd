"""Limits that are over before a method has begun: every method says how it ended, truthfully."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.models.errors import LowtideError
from lowtide.models.result import Status
from lowtide.solvers.registry import ROOMS
from tests.question_of_each import problem_of

SECONDS = (1e-4, 1e-3, 0.05)

SPECS = ("gen:intree?n=100&seed=2", "gen:randwire?n=100&seed=1", "gen:backprop-chain?l=30")
"""A tree, a network, a chain with backwards."""


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", ROOMS)
def test_every_method_ends_with_a_status_and_no_false_bound(name: str, spec: str) -> None:
    problem = problem_of(name, lt.load(spec))
    objectives, bounds = [], []
    for method in ROOMS[name].methods:
        for seconds in SECONDS:
            try:
                result = lt.solve(problem, method.name, time_limit=seconds, threads=1)
            except LowtideError:
                break  # it says that the question is not one of its own
            said = (method.name, seconds, result.status, result.reason, result.detail)
            assert result.status in (Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN), said
            assert (result.objective is None) == (result.status is Status.UNKNOWN), said
            assert result.status is not Status.UNKNOWN or result.reason or result.detail, said
            objectives += [] if result.objective is None else [result.objective]
            bounds += [] if result.bound is None else [(result.bound, said)]
    if objectives:
        sign = -1 if problem.maximize else 1
        best = min(sign * objective for objective in objectives)
        assert not [said for bound, said in bounds if sign * bound > best]


@pytest.mark.parametrize(("name", "spec"), [("makespan", SPECS[0]), ("memory-edges", SPECS[2])])
def test_models_are_given_up_while_they_are_built(name: str, spec: str) -> None:
    graph = lt.load(spec)
    problem = problem_of(name, graph) if name == "memory-edges" else lt.Makespan(graph, 4, 60)
    result = lt.solve(problem, "milp", time_limit=1e-4, threads=1)
    assert result.reason == "time"
    assert "not built in time" in result.detail
