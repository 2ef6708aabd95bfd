"""Cases of `recompute`: what runs again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any

import lowtide as lt
from lowtide.formulations.recompute import layers_milp, moccasin_cpsat, moments_milp, stages_milp
from lowtide.formulations.recompute.data import in_ns, recompute_data
from lowtide.formulations.recompute.stages_paging import CONSTRAINTS as PAGING
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.recompute.models.moments import relaxed_data
from lowtide.solvers.recompute.models.paging import paging
from tests.formulations.cases.case import Case, Verdict, solved, verdict_of
from tests.oracles.brute_layers import Run, fastest, judged, random_layers
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.brute_stages import fastest_in_stages
from tests.problems import recompute as recompute_problems


def stages(formulation: ModuleType, problem: lt.Recompute, *, free: bool = False) -> Verdict:
    count = len(problem.graph.ops) + 2 if free else None
    built = formulation.build(recompute_data(problem), stages=count)
    found = recompute_problems.milp(problem, built.model, lambda value: formulation.decode(built, value))
    return found.incumbent, found.answer is None or not problem.judge(found.answer).violations


def stages_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (fastest_in_stages(problem.graph, problem.memory or 0), True))
        for problem in recompute_problems.battery()
    ]


def free_stages(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    return stages(formulation, problem, free=True)


def free_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (fastest_recomputation(problem.graph, problem.machine), True))
        for problem in recompute_problems.battery()
    ]


def paged(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    data = recompute_data(problem)
    built = formulation.build(in_ns(data), paging=paging(problem, data))
    read = lambda value: problem.with_discards(formulation.decode_paged(built, value))  # noqa: E731
    found = recompute_problems.milp(problem, built.model, read)
    return found.incumbent, found.answer is None or not problem.judge(found.answer).violations


def paged_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        (problem, (fastest_recomputation(problem.graph, problem.machine), True))
        for problem in recompute_problems.paged_battery()
    ]


def relaxation(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    """The bound by all moments of a longest path; None if the relaxation has no solution."""
    relaxed = relaxed_data(problem)
    assert relaxed is not None
    data, slower = relaxed
    built = formulation.build(data, formulation.longest_path(data), slower=slower)
    return (solved(formulation, problem, built, lambda value: None, data.ns).bound,)


def relaxation_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [*recompute_problems.battery(), *recompute_problems.paged_battery()]
    more = ("ends_on_the_disk", "beside_the_path", "after_the_update")
    return [
        (problem, None) for problem in [*problems, *(getattr(recompute_problems, name)() for name in more)]
    ]


def retentions(formulation: ModuleType, problem: lt.Recompute) -> Verdict:
    data = recompute_data(problem)
    built = formulation.build(data, copies=data.n)
    read = lambda value: formulation.decode(built, value)  # noqa: E731
    context = solved(formulation, problem, built, read, data.ns)
    return context.incumbent, verdict_of(context)[3]


def layers(formulation: ModuleType, data: layers_milp.Layers) -> Verdict:
    """The least ticks, and those of what a solution says runs, if it fits."""
    context = Context(problem=recompute_problems.battery()[0], time_limit=None, threads=1)
    judged_as = list[int | None]()
    built = formulation.build(data)

    def read(value: Callable[[Any], float]) -> None:
        passes = dict[int, list[Run]]()
        for step in formulation.decode(built, value):
            kind = "back" if step.is_back else "forward"
            passes.setdefault(step.turn, []).append((kind, step.layer, step.option))
        judged_as.append(judged(data, list(passes.values())))

    outcome = solve_highs(built.model, context, decode=read, to_objective=lambda ticks: ticks)
    if outcome.infeasible:
        return None, None
    return context.bound, judged_as[-1] if judged_as else None


def layers_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[tuple[Any, Verdict | None]] = []
    for seed in (5, 71, 76):  # each row decides one of them
        data = random_layers(Random(seed))
        best = fastest(data)
        found.append((data, (best, best)))
    return found


FREE = ("runs_once", "runs_after")
"""Rows that only free stages have."""

ROWS = [name for name in stages_milp.CONSTRAINTS if name not in (*FREE, *PAGING)]

CASES = [
    Case("recompute stages", stages_milp, stages_battery, stages, ("leaves_something",), tuple(ROWS)),
    Case("recompute free stages", stages_milp, free_battery, free_stages, (), FREE),
    Case("recompute paging", stages_milp, paged_battery, paged, (), PAGING),
    Case("recompute moments", moments_milp, relaxation_battery, relaxation, (), moments_milp.CONSTRAINTS),
    Case("recompute layers", layers_milp, layers_battery, layers, (), layers_milp.CONSTRAINTS),
    Case("recompute retentions", moccasin_cpsat, stages_battery, retentions, implied=(2,)),
]
