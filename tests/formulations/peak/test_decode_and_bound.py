"""A constant in place of decode or bound is noticed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.peak.data import forced_bound, peak_data
from lowtide.models.graph import Graph
from tests.problems.peak import FORMULATIONS, battery, solve_model

BATTERY = battery()


def solves(formulation: ModuleType, graph: Graph, optimum: int) -> bool:
    """Whether the model of the formulation has the optimum and proves it."""
    try:
        context, outcome = solve_model(formulation, graph)
    except lt.InstanceError:  # the solution is no valid order
        return False
    return (context.incumbent, context.bound, outcome.infeasible) == (optimum, optimum, False)


@pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())
def test_constant_decode_is_noticed(formulation: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def reference_order(built: Any, value: Any) -> tuple[int, ...]:
        return tuple(range(built.data.n))

    monkeypatch.setattr(formulation, "decode", reference_order)
    assert not all(solves(formulation, graph, optimum) for graph, optimum in BATTERY)


@pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())
def test_bound_is_below_the_optimum_and_often_meets_it(formulation: ModuleType) -> None:
    met = 0
    for graph, optimum in BATTERY:
        data = peak_data(lt.Peak(graph))
        bound = formulation.bound(data) * data.unit
        assert bound <= optimum
        met += bound == optimum > 0
    assert met >= 30


@pytest.mark.parametrize("method", FORMULATIONS)
def test_bound_above_the_optimum_is_noticed(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FORMULATIONS[method], "bound", lambda data, *_: forced_bound(data) + 1)
    graph = next(g for g, optimum in BATTERY if forced_bound(peak_data(lt.Peak(g))) == optimum > 0)
    result = lt.solve(lt.Peak(graph), method, threads=1)
    assert result.status is not lt.Status.OPTIMAL
