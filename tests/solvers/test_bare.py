"""Models alone, as the experiment on formulations compares them: rooms declare what is not exported."""

from __future__ import annotations

import pytest

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
