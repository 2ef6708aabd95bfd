"""The MILP of hybrid stages: an independent judge of the program over ideals."""

from __future__ import annotations

import pytest

import lowtide as lt
from tests.effort import seeds
from tests.problems.hybrid import random_hybrid


@pytest.mark.parametrize("seed", seeds(40))
def test_it_finds_the_time_that_the_program_over_ideals_does(seed: int) -> None:
    problem = random_hybrid(seed)
    known, found = (lt.solve(problem, name, threads=1) for name in ("auto", "milp"))
    assert (found.status, found.objective) == (known.status, known.objective)


def test_a_row_keeps_two_layers_apart() -> None:
    problem = lt.Hybrid(lt.load("catalogue:diamond"), 2, micro=2)

    def apart(built: lt.Built) -> None:
        from pyomo.environ import ConstraintList

        built.model.apart = ConstraintList()
        for s in built.parts.stages:
            here = [x for i in (0, 3) for _, x in built.parts.of(i, s)]
            built.model.apart.add(sum(here) <= 1)

    free, result = (lt.solve(problem, "milp", threads=1, constrain=f) for f in (lambda built: None, apart))
    split = problem.read(result.plan)
    assert isinstance(split, lt.Split)
    assert split.stage[0] != split.stage[3]
    assert "(2 rows)" in result.detail
    assert result.objective is not None
    assert free.objective is not None
    assert result.objective >= free.objective
