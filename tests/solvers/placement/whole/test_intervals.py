"""The models of windows and intervals: as fast as exhaustive search, never below a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.whole import windows_cpsat
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.slots import whole as slots_milp
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.oracles.brute_tiers import faster
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine, odd_placement, tiny_placement, with_modes
from tests.solvers.placement.slots.cases import plan_by, start_of

BOTH = pytest.mark.parametrize("accounting", list(lt.Accounting))
SHORT = {"max_deterministic_time": "0.2"}
"""Of each of CP-SAT's models: the search for better plans of three tiers may be long."""


@BOTH
@pytest.mark.parametrize("seed", seeds(32))
def test_as_fast_as_exhaustive_search(seed: int, accounting: lt.Accounting) -> None:
    problem = tiny_placement(seed, accounting)
    best = fastest(problem.graph, problem.machine, start_of(problem))
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    assert result.objective == best, result.detail
    assert best is not None
    assert result.bound is not None
    assert result.bound <= best


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6, 8, 10])
def test_where_a_tensor_may_start_anywhere(seed: int) -> None:
    problem = replace(tiny_placement(seed), start=None)
    choices = [DEVICE, COPY, DEVICE + COPY]
    places = [choices if t.kind == "weight" else [COPY] for t in problem.graph.tensors if t.initial]
    assert all(t.initial == (k < len(places)) for k, t in enumerate(problem.graph.tensors))
    options = [(w, *(p[0] for p in places[1:])) for w in places[0]]
    found = [fastest(problem.graph, problem.machine, dict(enumerate(option))) for option in options]
    best = min((x for x in found if x is not None), default=None)
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    assert result.status is not lt.Status.FAILED, result.detail
    assert result.objective == best


def question(seed: int, accounting: lt.Accounting) -> Placement:
    """A run or period of up to six ops, any channels and joint caps, in whole tensors, on any tiers."""
    return replace(random_placement(seed, ops=6, accounting=accounting), whole=True)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("method", ["local-search", "belady", "serial", "slot-milp"])
@pytest.mark.parametrize("seed", seeds(20, 8))
def test_every_plan_is_a_point_of_the_windows(
    seed: int, method: str, accounting: lt.Accounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ortools.sat.python import cp_model

    monkeypatch.setattr(slots_milp, "ROUNDS", 1)
    problem = question(seed, accounting)
    if method != "slot-milp":
        problem = with_modes(problem, seed)
    found = plan_by(problem, method)
    if found is None:
        return
    data = state_data(problem, modes=True)
    built = windows_cpsat.build(data, problem.evaluate(found))
    for run in found.runs:
        built.model.add(built.start[run.op] == run.start)
        for i, mode in enumerate(data.modes.get(run.op, ())):
            built.model.add(built.mode[run.op, i] == (mode.number == run.mode))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(built.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


@pytest.mark.parametrize(
    ("seed", "method", "met"),
    [(5, "serial", False), (644, "belady", False), (795, "belady", True)],
)
def test_windows_reach_into_the_next_iteration(seed: int, method: str, met: bool) -> None:
    """No plan of a period is below their bound, and where a plan meets it, it is no lower."""
    from ortools.sat.python import cp_model

    problem = replace(random_placement(seed, ops=4), whole=True)
    assert problem.periodic
    found = plan_by(problem, method)
    assert found is not None
    best = problem.evaluate(found)
    data = state_data(problem, modes=True)
    built = windows_cpsat.build(data, best)
    assert any(c >= 2 * data.n for some in built.within for c in some)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(built.model) == cp_model.OPTIMAL
    assert data.ideal < solver.objective_value <= best
    assert (solver.objective_value == best) == met


def test_windows_let_workspaces_of_modes_be_where_tier_0_has_no_limit() -> None:
    from ortools.sat.python import cp_model

    # the weight comes from the host in 16,667 ns
    ways = (lt.Mode(duration_ns=100), lt.Mode(duration_ns=50, workspace=10))
    weight = lt.Tensor(name="w", nbytes=100, kind="weight", initial=True, final=True)
    a = lt.Op(name="a", reads=(0,), writes=(1,), duration_ns=100, modes=ways)
    b = lt.Op(name="b", reads=(1,), duration_ns=100, modes=ways)
    graph = lt.Graph(name="roomy", tensors=(weight, lt.Tensor(name="t", nbytes=100)), ops=(a, b))
    bench = machine(10**6, None, ssd=False)
    problem = Placement(graph, bench, periodic=True, whole=True, start={"weight": ("host",)})
    built = windows_cpsat.build(state_data(problem, modes=True), 10**5)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(built.model) == cp_model.OPTIMAL
    assert solver.objective_value == lt.solve(problem, "planner", threads=1).objective == 16_667 + 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 9, 35, 107])
def test_bounds_hold_and_nothing_aborts_where_numbers_are_large(seed: int) -> None:
    """CP-SAT 9.15 loses optima of windows, and aborts on linear relaxations of intervals, if it is let."""
    problem = odd_placement(seed)
    result = lt.solve(problem, "cpsat", threads=1, time_limit=None, options=SHORT)
    assert result.status is not lt.Status.FAILED, result.detail
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= result.objective


@pytest.mark.parametrize(("tiers", "best"), [(("host",), 350), (("gpu", "host"), 200)])
def test_a_copy_crosses_the_end_of_a_period_only_to_where_its_tensor_may_start(
    tiers: tuple[str, ...], best: int
) -> None:
    # w comes beside `g` and in 50 ns without ops, 10 of them in the next iteration: 250 ns
    graph = lt.Graph(
        name="crossing",
        tensors=(lt.Tensor(name="w", nbytes=150, kind="weight", initial=True, final=True),),
        ops=(lt.Op(name="f", reads=(0,), duration_ns=100), lt.Op(name="g", duration_ns=100)),
    )
    bench = machine(200, None, ssd=False)
    bench = replace(bench, channels=tuple(replace(c, bytes_per_s=10**9) for c in bench.channels))
    problem = Placement(graph, bench, periodic=True, whole=True, start={"weight": tiers})
    crossing = lt.Plan(
        machine=bench,
        accounting=graph.accounting,
        start=(lt.Resident(tensor=0, tier="host", bytes=None),),
        runs=tuple(
            lt.Run(op=k, mode=0, start=100 * k + 10, end=100 * k + 110, processor="gpu0") for k in (0, 1)
        ),
        copies=(lt.Copy(tensor=0, src="host", dst="gpu", start=110, end=260),),
        frees=(lt.Free(tensor=0, tier="gpu", time=110),),
        period=250,
    )
    assert [v.kind for v in problem.judge(crossing).violations] == ["start"] * (tiers == ("host",))
    assert faster(problem, 10**4) == best
    for method in ("cpsat", "slot-milp"):
        options = SHORT if method == "cpsat" else {}
        result = lt.solve(problem, method, threads=1, time_limit=None, options=options)
        assert (result.status, result.objective) == (lt.Status.OPTIMAL, best)
