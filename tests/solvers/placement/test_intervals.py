"""The interval model: as fast as exhaustive search, never below a bound."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.placement.states import state_data
from lowtide.solvers.context import Context
from lowtide.solvers.placement.models.slots import raise_by_slots
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.placement_cases import tiny_placement

SLOW = (0, 7, 20, 21, 26)
"""Seeds that CP-SAT takes seconds for, with one thread."""


def start_of(problem: lt.Placement) -> dict[int, int]:
    assert problem.start is not None
    places = {"gpu": DEVICE, "host": COPY}
    return {
        t: sum(places[tier] for tier in problem.start[x.kind])
        for t, x in enumerate(problem.graph.tensors)
        if x.initial
    }


@pytest.mark.parametrize("seed", [s for s in range(32) if s not in SLOW])
def test_as_fast_as_exhaustive_search(seed: int) -> None:
    problem = tiny_placement(seed)
    best = fastest(problem.graph, problem.machine, start_of(problem))
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    assert result.status in (lt.Status.OPTIMAL, lt.Status.FEASIBLE, lt.Status.UNKNOWN), result.detail
    assert result.objective == best
    if best is None:
        assert "INFEASIBLE" in result.detail
        return
    context = Context(problem=problem)
    raise_by_slots(state_data(problem), context)
    assert context.bound is not None
    assert context.bound <= best


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6, 8, 10])
def test_where_a_tensor_may_start_anywhere(seed: int) -> None:
    problem = replace(tiny_placement(seed), start=None)
    choices = [DEVICE, COPY, DEVICE + COPY]
    places = [choices if t.kind == "weight" else [COPY] for t in problem.graph.tensors if t.initial]
    assert all(t.initial == (k < len(places)) for k, t in enumerate(problem.graph.tensors))
    options = [(w, *(p[0] for p in places[1:])) for w in places[0]]
    found = [fastest(problem.graph, problem.machine, dict(enumerate(option))) for option in options]
    best = min((x for x in found if x is not None), default=None)
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    assert result.status is not lt.Status.FAILED, result.detail
    assert result.objective == best


def test_what_the_model_does_not_cover_is_refused() -> None:
    problem = tiny_placement(0)
    host = replace(problem.machine.tiers[1], capacity=5)
    limited = replace(problem.machine, tiers=(problem.machine.tiers[0], host))
    with pytest.raises(lt.UsageError, match="expected no limit"):
        lt.solve(replace(problem, machine=limited), "cpsat")
