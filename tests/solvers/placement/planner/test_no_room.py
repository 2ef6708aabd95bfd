"""Where the planner finds no room: auto goes on with policies, and hopeless machines are refused at once."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from tests.problems.placement import machine, random_graph, working_set

ANYWHERE = {"input": ("gpu", "host", "ssd")}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_auto_goes_on_with_policies(threads: int) -> None:
    graph = random_graph(1)
    problem = Placement(graph, machine(working_set(graph) + 6, 30), periodic=True, start=ANYWHERE)
    alone = lt.solve(problem, "planner", time_limit=20)
    assert "stuck" in alone.detail
    result = lt.solve(problem, "auto", time_limit=3, threads=threads)
    assert result.status == "feasible"
    assert result.objective is not None
    assert result.bound is not None
    assert sum(op.duration_ns for op in graph.ops) < result.bound <= result.objective


@pytest.mark.slow
def test_where_planner_and_policies_have_no_plan_it_goes_one_by_one_and_says_why() -> None:
    graph = random_graph(1)
    bench = machine(working_set(graph) + 6, 30)
    slow = tuple(replace(c, bytes_per_s=1) for c in bench.channels)
    problem = Placement(graph, replace(bench, channels=slow, groups=()), periodic=True, start=ANYWHERE)
    result = lt.solve(problem, "auto", time_limit=10)
    assert (result.status, result.plan is None) == ("feasible", False)
    assert "stuck before op" in result.detail
    with pytest.raises(lt.UsageError, match="found a channel below 1 kB/s"):
        lt.solve(problem, "belady", time_limit=10)
    alone = lt.solve(problem, "planner", time_limit=10)
    assert (alone.status, alone.objective) == ("unknown", None)
    assert "stuck before op" in alone.detail


@pytest.mark.slow
def test_what_starts_far_away_in_every_period_is_reached_one_by_one() -> None:
    graph = random_graph(1)
    bench = machine(working_set(graph) + 6, 30, shared=False)
    behind = tuple(
        replace(c, src="host") if c.dst == "ssd" else replace(c, dst="host") if c.src == "ssd" else c
        for c in bench.channels
    )
    far = {"input": ("ssd",)}
    problem = Placement(graph, replace(bench, channels=behind), periodic=True, start=far)
    with pytest.raises(lt.UsageError, match="no channels of tier 'ssd' from and to the first tier"):
        lt.solve(problem, "planner", time_limit=10)
    result = lt.solve(problem, "auto", time_limit=10)
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound <= result.objective
    if result.status == "feasible":
        assert "every part was run to its end" in result.detail
