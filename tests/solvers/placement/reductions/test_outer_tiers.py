"""Bounds on machines whose outer tiers have channels between them, such as a drive behind the host."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.models.verifier.proofs.prices import proven_time
from lowtide.models.verifier.proofs.refused import Refused
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.certify import TRIVIAL, certify_placement
from lowtide.solvers.placement.bounds.prices import raise_by_prices, sample_data
from lowtide.solvers.placement.reductions import relays
from lowtide.solvers.placement.reductions.near import without_far_tiers
from lowtide.solvers.placement.reductions.outer_tiers import merged, near_as_one
from lowtide.solvers.placement.reductions.relays import through_host
from tests.effort import seeds
from tests.oracles.brute_tiers import TooLarge, faster
from tests.problems.placement import behind, machine, random_graph, tiny_graph, working_set
from tests.solvers.placement.machines import bypass


def test_tiers_that_are_connected_become_one() -> None:
    graph = random_graph(0)
    found = merged(Placement(graph, behind(99, 30), start={"input": ("ssd",)}))
    assert [(t.name, t.capacity) for t in found.machine.tiers] == [("gpu", 99), ("host", None)]
    assert {(c.src, c.dst): c.bytes_per_s for c in found.machine.channels} == {
        ("gpu", "host"): 5_000_000,
        ("host", "gpu"): 6_000_000,
    }
    assert found.starts == {"input": ("host",)}
    both = merged(Placement(graph, bypass(99, 30)))
    assert [c.bytes_per_s for c in both.machine.channels] == [6_000_000, 8_000_000]
    assert [(g.name, g.channels, g.bytes_per_s) for g in both.machine.groups] == [
        ("out", (("gpu", "host"),), 5_000_000),
        ("in", (("host", "gpu"),), 6_000_000),
    ]


def test_sums_of_a_joined_tier_that_no_machine_may_say_are_no_failure() -> None:
    graph, half = random_graph(0), 6 * 10**16
    bench = bypass(half, half)
    tiers = tuple(replace(t, capacity=half) for t in bench.tiers)
    assert merged(Placement(graph, replace(bench, tiers=tiers))).machine.tiers[1].capacity is None
    linked = replace(behind(half, half), tiers=tiers)
    assert near_as_one(Placement(graph, linked)) is None
    fast = replace(bench, channels=tuple(replace(c, bytes_per_s=half) for c in bench.channels), groups=())
    tight = replace(fast, tiers=(replace(tiers[0], capacity=working_set(graph)), *tiers[1:]))
    assert lt.solve(Placement(graph, tight, whole=True), "planner", threads=1).plan is not None
    with pytest.raises(lt.UsageError, match="found 120000000000000000 bytes per second in channels"):
        lt.solve(Placement(graph, fast), "lp-bound")


def test_a_cap_of_a_part_does_not_hold_the_merged_channel() -> None:
    """A cap of one of two channels that become one says nothing of the other."""
    bench = bypass(99, 30)
    into = [c for c in bench.channels if c.dst == "gpu"]
    assert len(into) == 2
    part = lt.ChannelGroup(name="part", channels=((into[0].src, "gpu"),), bytes_per_s=1)
    whole = replace(part, name="whole", channels=tuple((c.src, "gpu") for c in into))
    found = merged(Placement(random_graph(0), replace(bench, groups=(part, whole)))).machine
    assert [(g.name, g.channels) for g in found.groups] == [("whole", ((into[0].src, "gpu"),))]


def test_capacities_add_up_where_all_have_one() -> None:
    bench = behind(99, 30)
    tiers = (*bench.tiers[:2], replace(bench.tiers[2], capacity=12))
    found = merged(Placement(random_graph(0), replace(bench, tiers=tiers)))
    assert [t.capacity for t in found.machine.tiers] == [99, 42]


def test_without_such_channels_nothing_changes() -> None:
    problem = Placement(random_graph(0), machine(99, 30))
    assert merged(problem) is problem


@pytest.mark.slow
@pytest.mark.parametrize("periodic", [True, False])
def test_the_bound_is_above_the_durations_and_below_every_plan(periodic: bool) -> None:
    raised = 0
    for seed in seeds(12, least=6):
        graph = random_graph(seed)
        for bench in (behind(working_set(graph) + 2, 5), bypass(working_set(graph) + 2, 5)):
            problem = Placement(graph, bench, periodic=periodic)
            assert len(sample_data(problem).outer) == 1
            bound = lt.solve(problem, "lp-bound", threads=1, time_limit=20).bound
            assert bound is not None
            raised += bound > sum(op.duration_ns for op in graph.ops)
            for method in ("first-touch", "serial"):
                result = lt.solve(problem, method, threads=1, time_limit=1)
                assert result.status != "failed", result.detail
                if result.objective is not None:
                    assert bound <= result.objective, (seed, bench, method)
    assert raised > 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["planner", "belady", "local-search", "auto"])
@pytest.mark.parametrize("start", [None, {"input": ("ssd",), "weight": ("ssd", "host")}, {}])
def test_planners_and_policies_serve_a_drive_behind_the_host(
    method: str, start: dict[str, tuple[str, ...]] | None
) -> None:
    options = {"runs": "300"} if method == "local-search" else None
    for seed in seeds(4, least=2)[: 2 if method == "auto" else 4]:
        graph = random_graph(seed)
        problem = Placement(graph, behind(working_set(graph) + 12, None), start=start)
        result = lt.solve(problem, method, threads=1, time_limit=20, options=options)
        assert result.objective is not None, (seed, result.detail)
        assert result.plan is not None
        assert result.plan.machine == problem.machine
        if problem.may_start("input") == ("ssd",):
            assert any(c.src == "ssd" for c in result.plan.copies)


@pytest.mark.parametrize("method", ["planner", "belady"])
def test_what_has_no_room_on_device_and_host_is_on_the_drive(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "PIECE", 1)
    found = 0
    for seed in seeds(6, least=4):
        graph = random_graph(seed)
        problem = Placement(graph, behind(working_set(graph) + 3, 10))
        direct = through_host(problem)
        assert direct is not None
        assert without_far_tiers(problem)[0] == direct[0]  # all fit nowhere else
        result = lt.solve(problem, method, threads=1, time_limit=20)
        assert result.status is not lt.Status.FAILED, (seed, result.detail)
        if result.plan is not None and result.objective is not None:
            hops = {(c.src, c.dst) for c in result.plan.copies}
            assert result.plan.machine == problem.machine
            assert hops <= {("gpu", "host"), ("host", "gpu"), ("host", "ssd"), ("ssd", "host")}
            assert ("ssd", "host") in hops, seed
            assert result.bound is not None
            assert result.bound <= result.objective
            found += 1
    assert found > 1


def test_pieces_through_the_host_keep_rates_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight comes in three pieces, each ahead by the time of the longest; others follow by as much."""
    monkeypatch.setattr(relays, "PIECE", 10**6)
    g, second = lt.GraphBuilder(), 4 * 10**9
    g.tensor("w", 3 * 10**6, kind="weight", final=True)
    g.op("a", writes=[g.tensor("x", 2 * 10**6)], duration=second)
    g.op("b", reads=["w"], duration=second)
    g.op("c", reads=["x"], duration=second)
    bench = behind(4 * 10**6, 10**6 * 6)
    problem = Placement(g.build(), bench)
    direct = through_host(problem)
    assert direct is not None
    simpler, carried = direct
    assert [t.capacity for t in simpler.machine.tiers] == [4 * 10**6, 0, None]
    plan = lt.Plan(
        machine=simpler.machine,
        start=(lt.Resident(0, "ssd"),),
        start_tiers=simpler.starts,
        runs=(
            lt.Run(0, 0, 0, second, "gpu0"),
            lt.Run(1, 0, 3 * second, 4 * second, "gpu0"),
            lt.Run(2, 0, 6 * second, 7 * second, "gpu0"),
        ),
        copies=(
            lt.Copy(1, "gpu", "ssd", second, 2 * second),
            lt.Copy(0, "ssd", "gpu", 2 * second, 3 * second),
            lt.Copy(1, "ssd", "gpu", 5 * second, 6 * second),
        ),
        frees=(lt.Free(1, "gpu", 2 * second), lt.Free(0, "gpu", 4 * second), lt.Free(1, "ssd", 6 * second)),
    )
    assert not simpler.judge(plan).violations
    through = carried(plan)
    assert not problem.judge(through).violations
    assert len(through.copies) == 2 * (2 + 3 + 2)
    half = second // 2
    assert [r.start for r in through.runs] == [half, 3 * second + half, 6 * second + half]
    assert max(c.end - c.start for c in through.copies) == half


def test_no_plan_is_faster_than_what_joined_tiers_prove() -> None:
    raised = 0
    for seed in seeds(16, least=6):
        graph = tiny_graph(seed)
        problem = Placement(graph, behind(working_set(graph) + 1, 3), periodic=bool(seed % 2), whole=True)
        joined = near_as_one(problem)
        assert joined is not None
        assert [t.capacity for t in joined.machine.tiers] == [working_set(graph) + 4, None]
        context = Context(problem=problem, threads=1, time_limit=None)
        raise_by_prices(problem, context, rounds=())
        if context.bound_kind == "windows, near tiers as one":
            raised += 1
            with suppress(TooLarge):
                assert faster(problem, context.bound or 0, 20_000) is None, seed
    assert raised > 0


def test_planners_serve_periods_on_the_nearer_tiers() -> None:
    graph = random_graph(1)
    problem = Placement(graph, behind(working_set(graph) + 12, None), periodic=True)
    result = lt.solve(problem, "planner", threads=1, time_limit=10)
    assert result.objective is not None, result.detail
    assert {c.src for c in result.plan.copies} <= {"gpu", "host"} if result.plan else False


def test_bounds_refuse_machines_that_read_in_place_before_they_merge_tiers() -> None:
    graph = random_graph(1, 6)
    bench = bypass(1000, None)
    reader = lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"), lt.Access(tier="ssd")))
    problem = Placement(graph, replace(bench, processors=(reader,)))
    with pytest.raises(lt.UsageError, match="a processor that uses another tier than the first"):
        lt.solve(problem, "lp-bound", threads=1)
    total = sum(op.duration_ns for op in graph.ops)
    assert certify_placement(problem, 10**9) is None
    with pytest.raises(Refused, match="another use of tiers"):
        proven_time(graph, problem.setting(), TRIVIAL)
    assert lt.solve(problem, "serial", threads=1).objective == total


@pytest.mark.slow
def test_auto_bounds_single_runs_of_several_modes_by_prices() -> None:
    """Its ops have several modes: there the slot model takes a program for each branch."""
    graph = random_graph(10)
    first = graph.ops[0]
    modes = tuple(lt.Mode(duration_ns=first.duration_ns * k, workspace=first.workspace) for k in (1, 2))
    graph = replace(graph, ops=(replace(graph.ops[0], modes=modes), *graph.ops[1:]))
    problem = Placement(graph, behind(working_set(graph) + 1, None))
    result, prices = (lt.solve(problem, name, threads=1, time_limit=20) for name in ("auto", "lp-bound"))
    assert result.bound == prices.bound
    assert (result.bound_kind or "").startswith(("prices", "release", "windows"))


def test_a_part_of_a_machine_that_sees_every_tier_is_all_of_it() -> None:
    problem = Placement(random_graph(0), machine(99, 30))
    assert without_far_tiers(problem)[0] is problem
