"""The planner within its time: it stops in the midst of a simulation, and goes on where it was left off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.placement import auto
from lowtide.solvers.placement.planner import planner, planner_run
from lowtide.solvers.placement.planner.planner import NO_TIME, planned, portfolio
from lowtide.solvers.placement.planner.planner_kernel import simulate
from lowtide.solvers.placement.planner.setting import Setting
from tests.effort import seeds
from tests.placement_cases import behind, machine, random_graph, working_set


def test_a_simulation_in_pieces_is_the_one_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a look at the time at every event, and a log that is too short again and again."""
    problems = []
    for seed in seeds(12, least=6):
        graph = random_graph(seed)
        bench = machine(working_set(graph) + 3 + seed % 4, 10, latency=seed % 2 * 700)
        problems.append(Placement(graph, bench, periodic=seed % 3 > 0))
    whole = [planned(problem, Setting(chunk=1, slots=0)) for problem in problems]
    monkeypatch.setattr(planner_run, "EVENTS", 1)
    monkeypatch.setattr(planner_run, "LOG_ROWS", 1)
    assert [planned(problem, Setting(chunk=1, slots=0)) for problem in problems] == whole
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
    planned(problem, Setting())
    assert calls[0] > 5  # events of the graph
    calls[0] = 0
    monkeypatch.setattr(Context, "elapsed", elapsed)
    assert planned(problem, Setting(), context=Context(problem=problem, time_limit=3)) == NO_TIME
    assert calls[0] <= 3


def test_no_plan_is_offered_that_nobody_could_judge_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Placement(random_graph(3), machine(10**6, None))
    context = Context(problem=problem, time_limit=100)
    assert isinstance(planned(problem, Setting(), context=context), lt.Plan)
    monkeypatch.setattr(planner, "JUDGING", 100.0)
    assert planned(problem, Setting(), context=context) == NO_TIME
    assert isinstance(planned(problem, Setting(), context=Context(problem=problem)), lt.Plan)


@pytest.mark.parametrize("periodic", [False, True])
def test_auto_goes_on_with_settings_behind_the_bounds(
    monkeypatch: pytest.MonkeyPatch, periodic: bool
) -> None:
    """Each takes 300 seconds of 2000; two of them at most come before the bounds."""
    clock, order = [0.0], list[str]()

    def slow(*_: object) -> Iterator[str]:
        for number in range(5):
            order.append(f"setting {number}")
            clock[0] += 300
            yield "no room"

    def bounds(*_: object, **given: object) -> Outcome:
        order.extend(["bounds"] * ("rounds" not in given))
        return Outcome()

    def steps(*_: object) -> Iterator[str]:
        order.append("bounds")
        yield ""

    monkeypatch.setattr(Context, "elapsed", lambda self: clock[0])
    monkeypatch.setattr(auto, "try_settings", slow)
    monkeypatch.setattr(auto, "raise_by_prices", bounds)
    monkeypatch.setattr(auto, "price_steps", steps)
    monkeypatch.setattr(auto, "solve_slots", bounds)
    monkeypatch.setattr(Context, "closed", False)
    graph = random_graph(3, 6)
    lt.solve(Placement(graph, machine(10**6, None), periodic=periodic), "auto", time_limit=2000, threads=1)
    assert order.index("bounds") <= 2
    assert [name for name in order if name != "bounds"] == [f"setting {number}" for number in range(5)]


def test_nothing_is_staged_on_its_way_to_a_drive_behind_the_host() -> None:
    """A chunk of the host would go through the device and back to the host, where it is already."""
    settings = portfolio(Placement(random_graph(3), behind(10**6, 10**6)))
    assert {setting.slots for setting in settings} == {0}
    assert len({*settings}) == len(settings) > 2
