"""Cases of `parallel`: the most memory, and edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.parallel import cut_milp, edges_cpsat, edges_milp, network
from lowtide.solvers.context import Context
from lowtide.solvers.parallel import edges_cpsat as conflicts
from tests.formulations.cases.case import Case, Verdict, solved
from tests.oracles.brute_parallel import least_critical_path, most_memory
from tests.strategies import random_graph as any_graph
from tests.strategies import readers_graph


def moments(formulation: ModuleType, problem: lt.ParallelMemory) -> Verdict:
    built = formulation.build(network.build(problem.graph), problem.processors)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    context = solved(formulation, problem, built, read, lambda units: -units * built.unit)
    return context.incumbent, context.bound


def parallel_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for seed in range(30):
        graph = any_graph(Random(seed), max_ops=6)
        for processors in (None, 1, 2):
            most = most_memory(graph, processors=processors)
            found.append((lt.ParallelMemory(graph, processors=processors), (most, most)))
    return found


def edges(formulation: ModuleType, problem: lt.MemoryEdges) -> Verdict:
    """The length of the critical path that the model says, and whether its edges keep the bound."""
    graph = problem.graph
    built = formulation.build(graph, problem.bound)
    lengths: list[int] = []
    kept: list[bool] = []

    def read(value: Callable[[Any], float]) -> None:
        some = set(formulation.decode(built, graph, value))
        lengths[:] = [round(value(built.model.length))]
        kept[:] = [most_memory(graph, some) <= problem.bound]

    context = solved(formulation, problem, built, read, lambda ns: ns)
    return (*lengths, *kept, context.refused)


def edges_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for problem, least in edge_problems():
        if not network.build(problem.graph).shared:
            expected = ("infeasible",) if least is None else (least, True, "")
            found.append((problem, expected))
    return found


@cache
def edge_problems() -> list[tuple[lt.MemoryEdges, int | None]]:
    found = []
    for seed in range(24):
        rng = Random(seed)
        if seed % 2:
            graph = readers_graph(rng, max_ops=4)
        else:
            graph = any_graph(rng, min_ops=3, max_ops=4, max_duration=4)
        most = most_memory(graph)
        problem = lt.MemoryEdges(graph, rng.randint(most // 2, most))
        found.append((problem, least_critical_path(graph, problem.bound)))
    return found


def edges_by_conflicts(formulation: ModuleType, problem: lt.MemoryEdges) -> Verdict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conflicts, "formulation", formulation)
        context = Context(problem=problem, threads=1, time_limit=None)
        outcome = conflicts.solve_cpsat(problem, context)
    context.refused = "infeasible" if outcome.infeasible else ""
    return context.incumbent, context.bound if context.incumbent is not None else None, context.refused


def conflicts_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (least, least, "infeasible" if least is None else "")) for problem, least in edge_problems()
    ]


CASES = [
    Case("parallel moments", cut_milp, parallel_battery, moments),
    Case("parallel edges", edges_milp, edges_battery, edges, implied=(1, 2)),
    Case("parallel conflicts", edges_cpsat, conflicts_battery, edges_by_conflicts),
]
