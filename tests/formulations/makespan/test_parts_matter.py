"""Leaving out a numbered constraint of a makespan model is noticed: a wrong plan, or one that is too good."""

from __future__ import annotations

from types import ModuleType

import pytest

import lowtide as lt
from lowtide.formulations.makespan import intervals_cpsat as makespan_cpsat
from lowtide.formulations.makespan import ticks_milp as makespan_milp
from lowtide.formulations.makespan.data import makespan_data
from lowtide.models.derived.memory import sequential_memory
from lowtide.solvers.context import Context
from lowtide.solvers.engines.cpsat import solve_cpsat
from lowtide.solvers.engines.highs import solve_highs
from tests.makespan_problems import optimum, problem_of_identical, problem_with_kinds

FORMULATIONS: dict[str, tuple[ModuleType, dict[str, str]]] = {
    "cumulative": (makespan_cpsat, {}),
    "reservoir": (makespan_cpsat, {"form": makespan_cpsat.RESERVOIR}),
    "milp": (makespan_milp, {}),
}


def fits_at_first(problem: lt.Makespan) -> bool:
    """Whether what is there at the start fits: it is looked at before a model is built."""
    return problem.memory is None or sequential_memory(problem.graph).initial_bytes <= problem.memory


BATTERY = [
    (problem, optimum(problem))
    for problem in (make(seed) for seed in range(30) for make in (problem_of_identical, problem_with_kinds))
    if fits_at_first(problem)
]

NUMBERED = [
    pytest.param(form, number, id=f"{form}-{number + 1}-{constrain.__name__.strip('_')}")
    for form, (formulation, _) in FORMULATIONS.items()
    for number, constrain in enumerate(formulation.CONSTRAINTS)
]


def solves(form: str, problem: lt.Makespan, best: int | None) -> bool:
    """Whether the model alone proves the optimum with a plan that verifies, or that there is none."""
    formulation, options = FORMULATIONS[form]
    data = makespan_data(problem)
    context = Context(problem=problem, threads=1, time_limit=None)
    built = formulation.build(data, horizon=data.horizon, **options)
    outcome = (solve_highs if formulation is makespan_milp else solve_cpsat)(
        built.model,
        context,
        decode=lambda value: formulation.decode(built, value),
        to_objective=lambda ticks: ticks * data.tick,
    )
    if (context.incumbent, outcome.infeasible) != (best, best is None):
        return False
    return best is None or (context.bound == best and not problem.judge(context.answer).violations)


@pytest.mark.parametrize("form", FORMULATIONS)
def test_complete_models_solve_the_battery(form: str) -> None:
    assert all(solves(form, problem, best) for problem, best in BATTERY)


@pytest.mark.parametrize(("form", "number"), NUMBERED)
def test_leaving_out_a_constraint_is_noticed(form: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    formulation, _ = FORMULATIONS[form]
    rest = formulation.CONSTRAINTS[:number] + formulation.CONSTRAINTS[number + 1 :]
    monkeypatch.setattr(formulation, "CONSTRAINTS", rest)
    assert not all(solves(form, problem, best) for problem, best in BATTERY)


@pytest.mark.parametrize("formulation", [makespan_cpsat, makespan_milp])
def test_constraints_are_numbered_as_on_the_page(formulation: ModuleType) -> None:
    assert formulation.__doc__ is not None
    for number, constrain in enumerate(formulation.CONSTRAINTS, 1):
        assert f"\n{number}. " in formulation.__doc__
        assert (constrain.__doc__ or "").startswith(f"Constraint {number}")
    assert f"\n{len(formulation.CONSTRAINTS) + 1}. " not in formulation.__doc__
