"""Cases of `pipeline`: starts."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.pipeline import intervals_cpsat as pipeline_cpsat
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_pipeline import least as least_of_pipeline
from tests.problems.pipeline import small as pipeline_of_two


def pipeline(formulation: ModuleType, problem: lt.Pipeline) -> Verdict:
    built = formulation.build(problem)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, int))


def pipeline_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [pipeline_of_two(seed) for seed in (0, 1, 2, 3, 4, 5, 6, 7)]
    return [(p, proved(least_of_pipeline(p))) for p in problems if p.impossible() is None]


CASES = [
    Case("pipeline intervals", pipeline_cpsat, pipeline_battery, pipeline, implied=(5,)),
]
