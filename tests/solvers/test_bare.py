"""Models alone, as the experiment on formulations compares them: rooms declare what is not exported."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.solvers.bare import solve_bare
from lowtide.solvers.registry import ROOMS
from tests.solvers.model_problems import SPECS, problem_of


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, room in ROOMS.items() for method in room.bare]
)
def test_declared_models_are_built_and_passed_on(name: str, method: str) -> None:
    assert name in SPECS
    problem = problem_of(name, method)
    found = solve_bare(problem, method, time_limit=5)
    assert found.variables > 0
    assert found.rows > 0


def test_the_bound_of_a_linear_program_is_its_optimum() -> None:
    """Of a program without integers HiGHS says 0 for the bound of a MILP."""
    problem = problem_of("parallel-memory", "flow")
    least = -(lt.solve(problem, "flow").bound or 0)
    assert least < 0
    assert solve_bare(problem, "lp", time_limit=5).bound == least
