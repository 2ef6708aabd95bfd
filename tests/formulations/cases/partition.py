"""Cases of `partition`: stages."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.partition import latency_milp
from lowtide.formulations.partition import stages_milp as partition_milp
from tests.formulations.cases.case import Case, Verdict, proved, solved, verdict_of
from tests.oracles.brute_partition import best as least_load
from tests.problems.partition import random_latency, random_partition


def partition(formulation: ModuleType, problem: lt.Partition) -> Verdict:
    built = formulation.build(problem)
    return verdict_of(solved(formulation, problem, built, partial(formulation.decode, built), int))


@cache
def partition_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for seed in range(24):
        problem = random_partition(seed, most_ops=4)
        problem = replace(problem, schedule="none", recompute="none", replicate=1, contiguous=seed % 3 > 0)
        problem = replace(problem, memory=seed % 8) if seed % 2 else problem
        found.append((problem, proved(least_load(problem))))
    return found


def one_after_another() -> lt.Partition:
    """Two ops that one memory has no room for: both, and what passes between them, out and in: 14 ns."""
    g = lt.GraphBuilder()
    weights = [g.tensor(f"w{k}", 4, initial=True, final=True) for k in range(2)]
    modes = [lt.Mode(duration_ns=3, processors=("acc",))]
    g.op("a", reads=[weights[0]], writes=[g.tensor("x", 4)], modes=modes)
    g.op("b", reads=[weights[1], "x"], modes=modes)
    return lt.Partition(g.build(), {"acc": 2}, 5, 10**9, objective="latency")


@cache
def latency_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [*(random_latency(seed) for seed in range(12)), one_after_another()]
    return [(p, proved(least_load(p))) for p in problems]


CASES = [
    Case("partition stages", partition_milp, partition_battery, partition),
    Case("partition latency", latency_milp, latency_battery, partition),
]
