"""Leaving out a numbered constraint, or a constant in place of decode or bound, is noticed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.peak.data import forced_bound, peak_data
from lowtide.models.graph import Graph
from tests.peak_solving import FORMULATIONS, battery, solve_model

BATTERY = battery()

NUMBERED = [
    pytest.param(formulation, number, id=f"{name}-{number + 1}-{constrain.__name__}")
    for name, formulation in FORMULATIONS.items()
    for number, constrain in enumerate(formulation.CONSTRAINTS)
]


def solves(formulation: ModuleType, graph: Graph, optimum: int) -> bool:
    """Whether the model of the formulation has the optimum and proves it."""
    try:
        context, outcome = solve_model(formulation, graph)
    except lt.InstanceError:  # the solution is no valid order
        return False
    return (context.incumbent, context.bound, outcome.infeasible) == (optimum, optimum, False)


@pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())
def test_complete_models_solve_the_battery(formulation: ModuleType) -> None:
    assert all(solves(formulation, graph, optimum) for graph, optimum in BATTERY)


@pytest.mark.parametrize(("formulation", "number"), NUMBERED)
def test_leaving_out_a_constraint_is_noticed(
    formulation: ModuleType, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = formulation.CONSTRAINTS[:number] + formulation.CONSTRAINTS[number + 1 :]
    monkeypatch.setattr(formulation, "CONSTRAINTS", rest)
    assert not all(solves(formulation, graph, optimum) for graph, optimum in BATTERY)


@pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())
def test_constraints_are_numbered_as_on_the_page(formulation: ModuleType) -> None:
    assert formulation.__doc__ is not None
    for number, constrain in enumerate(formulation.CONSTRAINTS, 1):
        assert f"\n{number}. " in formulation.__doc__
        assert (constrain.__doc__ or "").startswith(f"Constraint {number}")
    assert f"\n{number + 1}. " not in formulation.__doc__


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
