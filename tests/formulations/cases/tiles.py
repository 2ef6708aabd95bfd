"""Cases of `tiles`: which groups run."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.tiles import groups_cpsat
from lowtide.solvers.tiles.models import stated
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.naive_tiles import optimum
from tests.problems.tiles import random_tiles, tiles_problem

CIRCLE: dict[str, object] = {
    "widths": [2] * 7,
    "heights": [2] * 7,
    "inputs": [[0, 1], [3], [4, 2], [3, 5]],
    "outputs": [[3], [4], [5], [6]],
    "base_costs": [1] * 4,
    "op_types": ["Pointwise", "Pointwise", "MatMul", "Pointwise"],
    "fast_memory_capacity": 5,
    "slow_memory_bandwidth": 1,
    "native_granularity": [1, 1],
}
"""Ops 0, 1 and 3 together make what op 2 reads, and read what it makes: cheapest if that were allowed."""


def tiles_groups(formulation: ModuleType, problem: lt.Tiles) -> Verdict:
    built = formulation.build(**stated(problem))
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    return verdict_of(solved(formulation, problem, built, read, int))


def tiles_problems() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for problem in (tiles_problem(CIRCLE), *(random_tiles(seed, most_ops=3) for seed in range(12))):
        best = optimum(problem, keeps=False)
        found.append((problem, proved(None if best is None else int(best * problem.scale))))
    return found


CASES = [Case("tiles groups", groups_cpsat, tiles_problems, tiles_groups)]
