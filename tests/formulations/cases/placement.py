"""Cases of `placement`: where tensors are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.placement.autotm import walks_milp
from lowtide.formulations.placement.slots import rounded_cpsat, rounded_milp, whole_milp
from lowtide.formulations.placement.slots.pieces import coarse
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.tmof import swaps_milp
from lowtide.formulations.placement.whole import intervals_cpsat as placement_cpsat
from lowtide.formulations.placement.whole import sequence, windows_cpsat
from tests.formulations.cases.case import Case, Verdict, solved, verdict_of
from tests.oracles.autotm_rules import fastest as fastest_by_rules
from tests.oracles.brute_placement import fastest as fastest_placement
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine, random_graph, tiny_placement, with_modes, working_set
from tests.solvers.placement.autotm.cases import case as autotm_case
from tests.solvers.placement.graphs import scaled, spill
from tests.solvers.placement.reductions.replicas.gpu_cases import parallel
from tests.solvers.placement.slots.cases import case as slots_case
from tests.solvers.placement.slots.cases import ragged, start_of
from tests.solvers.placement.slots.near_programs import enumerated, found_by, random_program


def intervals(formulation: ModuleType, problem: lt.Placement) -> Verdict:
    data = state_data(problem)
    horizon = data.ideal + sequence.longest_stall(data)
    tick = formulation.common_tick(data, sequence.rates(data, beside=False)[0])
    built = formulation.build(data, horizon, tick=tick, rows=data.periodic)
    read = lambda value: formulation.decode(built, value, problem)  # noqa: E731
    context = solved(formulation, problem, built, read, lambda ticks: ticks * built.tick)
    return context.incumbent, context.refused, verdict_of(context)[3]


def windows(formulation: ModuleType, problem: lt.Placement) -> Verdict:
    from ortools.sat.python import cp_model

    data = state_data(problem, modes=True)
    built = formulation.build(data, data.ideal + sequence.longest_stall(data))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(built.model)
    return solver.status_name(status), status == cp_model.OPTIMAL and solver.objective_value


@cache
def tiny_placements(*seeds: int) -> list[tuple[Any, Verdict | None]]:
    problems = [tiny_placement(seed) for seed in seeds]
    found = [(p, fastest_placement(p.graph, p.machine, start_of(p))) for p in problems]
    return [(p, (best, "infeasible" if best is None else "", True)) for p, best in found]


def intervals_battery() -> list[tuple[Any, Verdict | None]]:
    return tiny_placements(1, 2, 3, 5, 6, 8, 10)


def periods_battery() -> list[tuple[Any, Verdict | None]]:
    some = [(replace(random_placement(seed), whole=True), None) for seed in (101, 381, 758, 893)]
    to_the_end = random_placement(74, ops=5, accounting=lt.Accounting.REPLACE)  # its last op updates a tensor
    barred = random_placement(525, ops=5)  # what may not start in a tier would stay there round the end
    return [*some, (replace(to_the_end, whole=True), (4859, "", True)), (replace(barred, whole=True), None)]


def windows_battery() -> list[tuple[Any, Verdict | None]]:
    graph = scaled(random_graph(4, 9), 10_000)
    some = [
        lt.Placement(graph, machine(working_set(graph), host, ssd=True), whole=True) for host in (0, 60_000)
    ]
    two = lt.Placement(graph, machine(working_set(graph), 90_000, ssd=False), whole=True)
    tiny = [*map(tiny_placement, (1, 2, 3, 5)), with_modes(tiny_placement(1), 1)]
    return [(problem, None) for problem in [*some, two, *tiny]]


def by_method(method: str, module: ModuleType, **options: str) -> Callable[[ModuleType, Any], Verdict]:
    """Return the verdict of a method of `placement` that builds its models by `build` of a module."""

    def verdict(formulation: ModuleType, problem: lt.Placement) -> Verdict:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "build", formulation.build)
            result = lt.solve(problem, method, threads=1, time_limit=None, options=options)
        return result.objective, str(result.status), result.facts.get("form_bound")

    return verdict


def slots(formulation: ModuleType, item: tuple[lt.Placement, bool]) -> Verdict:
    """The optimum of the lower or upper model where pieces are cut."""
    problem, upper = item
    data = state_data(problem)
    cut = ragged(coarse(data), 1)
    built = formulation.build(cut, most=sequence.longest_stall(data), upper=upper)
    context = solved(formulation, problem, built, lambda value: None, lambda ns: ns)
    return context.bound, context.refused


def trade() -> lt.Placement:
    """One tensor has to leave before another one has room: a stall whose first part must count."""
    tensors = (
        lt.Tensor(name="a", nbytes=10_000),
        lt.Tensor(name="b", nbytes=10_000, initial=True, kind="input"),
    )
    ops = (lt.Op(name="make", writes=(0,)), lt.Op(name="other", reads=(1,)), lt.Op(name="use", reads=(0,)))
    graph = lt.Graph(name="trade", tensors=tensors, ops=ops)
    return lt.Placement(graph, machine(10_000, None, ssd=False), whole=True, start={"input": ("host",)})


def slots_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [trade(), *map(tiny_placement, (1, 2, 3, 5)), *map(slots_case, (0, 1, 4))]
    return [((problem, upper), None) for problem in problems for upper in (False, True)]


def near_battery() -> list[tuple[Any, Verdict | None]]:
    return [
        ((k, every), (enumerated(*random_program(k), every),)) for k in range(8) for every in (False, True)
    ]


def slots_near(formulation: ModuleType, item: tuple[int, bool]) -> Verdict:
    """The least cost near a point of a random program."""
    number, every = item
    return (found_by(formulation, *random_program(number), every),)


def autotm_battery() -> list[tuple[Any, Verdict | None]]:
    problems = [autotm_case(seed, in_place=some) for seed in range(8) for some in (True, False)]
    return [(problem, (fastest_by_rules(problem, "async"),)) for problem in problems]


def autotm(formulation: ModuleType, problem: lt.Placement) -> Verdict:
    return by_method("autotm-async", walks_milp, rounds="0")(formulation, problem)[:1]


def tmof_battery() -> list[tuple[Any, Verdict | None]]:
    found: list[Any] = [lt.Placement(spill(), machine(20_000, None, ssd=False))]
    for seed in (1, 4, 7, 12, 17):
        graph = scaled(random_graph(seed, 9), 10_000)
        bench = machine(working_set(graph) + (seed % 7) * 30_000, None, ssd=False)
        start = {"input": ("gpu",), "weight": ("gpu", "host")[: 1 + seed % 2]}
        found.append(lt.Placement(graph, bench, start=start))
    return [(problem, None) for problem in found]


def tmof_shared(share: str) -> Callable[[ModuleType, Any], Verdict]:
    return by_method("tmof", swaps_milp, share=share)


def tmof_in_turn() -> list[tuple[Any, Verdict | None]]:
    return [(parallel(spill(), 2, 20_000), None), (parallel(spill(), 3, 20_000, shared=2), None)]


CASES = [
    Case("placement intervals", placement_cpsat, intervals_battery, intervals, (9,), (2, 3, 4, 5, 6, 9)),
    Case("placement intervals in periods", placement_cpsat, periods_battery, intervals, (), (6, 7, 8)),
    Case("placement windows", windows_cpsat, windows_battery, windows),
    Case("placement slots", whole_milp, slots_battery, slots),
    Case("placement slots near, CP-SAT", rounded_cpsat, near_battery, slots_near, (2,)),
    Case("placement slots near, MILP", rounded_milp, near_battery, slots_near, (2,)),
    Case("placement autotm", walks_milp, autotm_battery, autotm),
    Case("placement tmof", swaps_milp, tmof_battery, by_method("tmof", swaps_milp), (), (1, 2, 3, 4, 5)),
    Case("placement tmof disjoint", swaps_milp, tmof_in_turn, tmof_shared("disjoint"), (), (6,)),
    Case("placement tmof bidirectional", swaps_milp, tmof_in_turn, tmof_shared("bidirectional"), (), (7,)),
]
