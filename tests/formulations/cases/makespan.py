"""Cases of `makespan`: a schedule."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.makespan import intervals_cpsat, ticks_milp
from lowtide.formulations.makespan.data import makespan_data
from lowtide.models.derived.memory import sequential_memory
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.problems.makespan import optimum, problem_of_identical, problem_with_kinds


def makespan(formulation: ModuleType, problem: lt.Makespan, **options: Any) -> Verdict:
    data = makespan_data(problem)
    built = formulation.build(data, horizon=data.horizon, **options)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda ticks: ticks * data.tick))


def reservoir(formulation: ModuleType, problem: lt.Makespan) -> Verdict:
    return makespan(formulation, problem, form=intervals_cpsat.RESERVOIR)


@cache
def makespan_battery() -> list[tuple[Any, Verdict | None]]:
    """Problems in which what is there at the start fits: it is looked at before a model is built."""
    problems = [make(seed) for seed in range(30) for make in (problem_of_identical, problem_with_kinds)]
    return [
        (problem, proved(optimum(problem)))
        for problem in problems
        if problem.memory is None or sequential_memory(problem.graph).initial_bytes <= problem.memory
    ]


CASES = [
    Case("makespan cumulative", intervals_cpsat, makespan_battery, makespan),
    Case("makespan reservoir", intervals_cpsat, makespan_battery, reservoir),
    Case("makespan ticks", ticks_milp, makespan_battery, makespan),
]
