"""Cases of `sharding`: what the model of the local polytope finds, against all choices."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.sharding import local_milp
from lowtide.formulations.sharding.reduction import sharding_data
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_sharding import least_cost, random_network


def sharding(formulation: ModuleType, problem: lt.Sharding) -> Verdict:
    built = formulation.build(problem)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, int))


def networks() -> list[tuple[Any, Verdict | None]]:
    problems = [lt.Sharding(random_network(seed, most_nodes=7)) for seed in range(60)]
    return [
        (problem, proved(least_cost(problem.network)))
        for problem in problems
        if (data := sharding_data(problem)).empty is None and (data.room >= 0).all() and data.costs
    ]


CASES = [Case("sharding", local_milp, networks, sharding)]
