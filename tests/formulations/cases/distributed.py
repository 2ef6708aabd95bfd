"""Cases of `distributed`: a schedule, transfers."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.distributed import intervals_cpsat as distributed_cpsat
from lowtide.formulations.distributed.data import distributed_data
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.problems.distributed import optimum as fastest
from tests.problems.distributed import problem_of


def distributed(formulation: ModuleType, problem: lt.Distributed) -> Verdict:
    data = distributed_data(problem)
    built = formulation.build(data, horizon=data.horizon)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, lambda ticks: ticks * data.tick))


@cache
def distributed_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [problem_of(seed) for seed in range(25)]
    return [(p, proved(fastest(p))) for p in problems if p.impossible() is None]


CASES = [
    Case("distributed intervals", distributed_cpsat, distributed_battery, distributed),
]
