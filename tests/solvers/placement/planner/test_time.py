"""The planner within its time: it stops in the midst of a simulation, and goes on where it was left off."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.solvers.clock import Clock
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.method import RunFunction
from lowtide.solvers.placement import auto
from lowtide.solvers.placement.planner import method as planner
from lowtide.solvers.placement.planner import run as planner_run
from lowtide.solvers.placement.planner.method import NO_TIME, planned, portfolio
from lowtide.solvers.placement.planner.planner_kernel import simulate
from lowtide.solvers.placement.planner.setting import PlannerSetting
from tests.effort import seeds
from tests.problems.placement import behind, machine, random_graph, working_set
from tests.solvers.stand_ins import stand_in


def test_a_simulation_in_pieces_is_the_one_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a look at the time at every event, and a log that is too short again and again."""
    problems = []
    for seed in seeds(12, least=6):
        graph = random_graph(seed)
        bench = machine(working_set(graph) + 3 + seed % 4, 10, latency=seed % 2 * 700)
        problems.append(Placement(graph, bench, periodic=seed % 3 > 0))
    whole = [planned(problem, PlannerSetting(chunk=1, slots=0)) for problem in problems]
    monkeypatch.setattr(planner_run, "EVENTS", 1)
    monkeypatch.setattr(planner_run, "LOG_ROWS", 1)
    assert [planned(problem, PlannerSetting(chunk=1, slots=0)) for problem in problems] == whole
    assert sum(isinstance(plan, lt.Plan) for plan in whole) > 3


def test_a_simulation_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by a second with each look at it."""
    clock, calls = [0.0], [0]

    def elapsed(context: Context) -> float:
        clock[0] += 1
        return clock[0]

    def counted(*arguments: object) -> object:
        calls[0] += 1
        return simulate(*arguments)

    monkeypatch.setattr(planner_run, "EVENTS", 1)
    monkeypatch.setattr(planner_run, "simulate", counted)
    problem = Placement(random_graph(3), machine(10**6, None))
    planned(problem, PlannerSetting())
    assert calls[0] > 5  # events of the graph
    calls[0] = 0
    monkeypatch.setattr(Context, "elapsed", elapsed)
    assert planned(problem, PlannerSetting(), context=Context(problem=problem, time_limit=3)) == NO_TIME
    assert calls[0] <= 3


def test_no_plan_is_offered_that_nobody_could_judge_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Placement(random_graph(3), machine(10**6, None))
    context = Context(problem=problem, time_limit=100)
    assert isinstance(planned(problem, PlannerSetting(), context=context), lt.Plan)
    monkeypatch.setattr(planner, "JUDGING", 100.0)
    assert planned(problem, PlannerSetting(), context=context) == NO_TIME
    assert isinstance(planned(problem, PlannerSetting(), context=Context(problem=problem)), lt.Plan)


@pytest.mark.parametrize("periodic", [False, True])
def test_auto_takes_turns_between_settings_and_bounds(
    monkeypatch: pytest.MonkeyPatch, periodic: bool
) -> None:
    """Each step takes 100 seconds of 2000, by a clock that nothing else moves."""
    clock, order = [0.0], list[str]()
    problem = Placement(random_graph(3, 6), machine(10**6, None), periodic=periodic)

    def steps(name: str) -> RunFunction:
        def run(problem: Placement, context: Context) -> None:
            for _ in range(5):
                order.append(name)
                clock[0] += 100
                context.remaining()  # its turn may end

        return run

    stand_in(
        monkeypatch, auto, planner=steps("planner"), prices=steps("prices"), others=lambda *given: Outcome()
    )
    context = Context(problem=problem, time_limit=2000.0, clock=Clock(source=lambda: clock[0]))
    auto.solve_auto(problem, context)
    assert sorted(order) == ["planner"] * 5 + ["prices"] * 5
    assert {*order[:2]} == {"planner", "prices"}


def test_nothing_is_staged_on_its_way_to_a_drive_behind_the_host() -> None:
    """A chunk of the host would go through the device and back to the host, where it is already."""
    settings = portfolio(Placement(random_graph(3), behind(10**6, 10**6)))
    assert {setting.slots for setting in settings} == {0}
    assert len({*settings}) == len(settings) > 2
