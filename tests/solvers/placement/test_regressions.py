"""Placements on which methods failed: every one has a plan that verifies, and bounds stay below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.placement import auto as placement_auto
from lowtide.solvers.placement.planner.method import planned
from lowtide.solvers.placement.planner.setting import PlannerSetting
from lowtide.solvers.placement.serial.search import serial_plan
from tests.oracles.brute_tiers import faster
from tests.problems.placement import machine, random_graph, working_set
from tests.solvers.stand_ins import stand_in

FAST = 10**9


def pair(device: int | None, **groups: int) -> lt.Machine:
    """A device and a host, 1 byte per ns each way, and groups of one direction."""
    ways = {"out": ("gpu", "host"), "into": ("host", "gpu")}
    return lt.Machine(
        tiers=(lt.Tier(name="gpu", capacity=device), lt.Tier(name="host")),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="gpu"),)),),
        channels=tuple(lt.Channel(src=a, dst=b, bytes_per_s=FAST) for a, b in ways.values()),
        groups=tuple(
            lt.ChannelGroup(name=name, channels=(ways[name],), bytes_per_s=rate)
            for name, rate in sorted(groups.items())
        ),
    )


def solved(problem: Placement, method: str = "auto") -> lt.Result:
    options = {"runs": "100"} if method == "local-search" else {}
    result = lt.solve(problem, method, time_limit=20, threads=1, options=options)
    assert result.status not in ("failed", "infeasible"), result.detail
    return result


@pytest.mark.parametrize("final", [False, True])
def test_more_initial_tensors_than_the_device_holds_need_20_ns_a_period(final: bool) -> None:
    tensors = tuple(
        lt.Tensor(name=f"x{i}", nbytes=2, kind="weight", initial=True, final=final) for i in range(4)
    )
    ops = tuple(lt.Op(name=f"op{i}", reads=(i,), duration_ns=5) for i in range(4))
    problem = Placement(lt.Graph(name="four", tensors=tensors, ops=ops), pair(6), periodic=True)
    assert solved(problem).objective == solved(problem, "planner").objective == 20
    for method in ("belady", "demand-lru", "local-search", "serial", "lp-bound"):
        result = solved(problem, method)
        assert result.objective is not None
        assert result.bound == 20


def input_kept() -> lt.Graph:
    return lt.Graph(
        name="kept input",
        tensors=(
            lt.Tensor(name="x", nbytes=2, kind="input", initial=True, final=True),
            lt.Tensor(name="y", nbytes=2),
        ),
        ops=(
            lt.Op(name="a", reads=(0,), writes=(1,), duration_ns=5),
            lt.Op(name="b", reads=(1,), duration_ns=5),
        ),
    )


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("method", ["auto", "planner", "belady", "g10", "local-search", "serial"])
def test_an_input_that_outlives_the_run_starts_on_the_host(method: str, periodic: bool) -> None:
    problem = Placement(input_kept(), pair(6), periodic=periodic, start={"input": ("host",)})
    assert solved(problem, method).objective == 12


def test_an_input_that_outlives_the_period_and_is_written_is_brought_back() -> None:
    graph = input_kept()
    written = (replace(graph.ops[0], writes=(0, 1)), graph.ops[1])
    problem = Placement(replace(graph, ops=written), pair(6), periodic=True, start={"input": ("host",)})
    result = solved(problem)
    assert result.objective == 12
    assert result.bound in (10, 12)  # each op once; no copy crosses the end to where the input may not start
    assert faster(problem, 12) is None
    with pytest.raises(lt.UsageError, match="expected none for what outlives a period"):
        lt.solve(problem, "planner")
    assert solved(problem, "belady").objective == 14


@pytest.mark.parametrize("flags", [{}, {"initial": True}, {"initial": True, "final": True}])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_tensor_that_nothing_accesses_costs_nothing(flags: dict[str, Any], periodic: bool) -> None:
    tensors = (lt.Tensor(name="x", nbytes=2), lt.Tensor(name="alone", nbytes=3, **flags))
    ops = (lt.Op(name="a", writes=(0,), duration_ns=1), lt.Op(name="b", reads=(0,), duration_ns=2))
    problem = Placement(lt.Graph(name="alone", tensors=tensors, ops=ops), pair(2), periodic=periodic)
    for method in ("auto", "planner", "belady", "serial", *(() if periodic else ("slot-lp",))):
        result = solved(problem, method)
        assert (result.status, result.objective) == ("optimal", 3), method


def spilled(nbytes: int = 7) -> lt.Graph:
    """The first tensor has to leave while another one is made."""
    return lt.Graph(
        name="spilled",
        tensors=tuple(lt.Tensor(name=name, nbytes=nbytes) for name in "xy"),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=10),
            lt.Op(name="beside", writes=(1,), duration_ns=10),
            lt.Op(name="use", reads=(0,), duration_ns=10),
        ),
    )


@pytest.mark.parametrize(
    "method", ["auto", "planner", "belady", "local-search", "slot-milp", "cpsat", "serial"]
)
def test_groups_slower_than_their_channel_carry_whole_tensors(method: str) -> None:
    problem = Placement(spilled(), pair(7, out=FAST // 3, into=FAST // 7 + 1), whole=True)
    out, into = -(-7 * 10**9 // (FAST // 3)), -(-7 * 10**9 // (FAST // 7 + 1))
    result = solved(problem, method)
    assert result.objective is not None
    assert result.objective >= 30 + out + into
    if method in ("slot-milp", "cpsat"):
        assert result.objective == 30 + out + into


@pytest.mark.parametrize("method", ["auto", "slot-milp", "cpsat", "serial"])
def test_a_group_of_both_directions_is_shared(method: str) -> None:
    bench = pair(7)
    both = lt.ChannelGroup(name="both", channels=(("gpu", "host"), ("host", "gpu")), bytes_per_s=FAST // 3)
    assert solved(Placement(spilled(), replace(bench, groups=(both,)), whole=True), method).plan is not None


def test_first_touch_takes_no_mode_whose_workspace_has_no_room() -> None:
    modes = (lt.Mode(duration_ns=1, workspace=9), lt.Mode(duration_ns=5, workspace=1))
    ops = (lt.Op(name="a", writes=(0,), modes=modes), lt.Op(name="b", reads=(0,), duration_ns=1))
    graph = lt.Graph(name="modes", tensors=(lt.Tensor(name="x", nbytes=2),), ops=ops)
    assert solved(Placement(graph, pair(3)), "first-touch").objective == 6


@pytest.mark.parametrize("share", ["joint", "oblivious"])
def test_tmof_places_tensors_of_no_bytes(share: str) -> None:
    problem = Placement(spilled(0), pair(0), start={"input": ("gpu",)})
    result = lt.solve(problem, "tmof", threads=1, options={"share": share})
    assert (result.status, result.objective) == ("optimal", 30)


@pytest.mark.slow
@pytest.mark.parametrize(("periodic", "device"), [(False, None), (True, 2**55)])
def test_tensors_of_2_to_the_53_bytes_on_a_device_that_holds_them(periodic: bool, device: int | None) -> None:
    problem = Placement(spilled(2**53), pair(device), periodic=periodic)
    for method in ("auto", "demand-lru"):
        result = solved(problem, method)
        assert (result.status, result.objective) == ("optimal", 30), method
    with pytest.raises(lt.UsageError, match="found copies of 9007199254740992 bytes"):
        lt.solve(replace(problem, whole=True), "belady")


@pytest.mark.parametrize("method", ["slot-milp", "cpsat", "slot-lp"])
def test_a_tensor_of_no_bytes_starts_where_it_may(method: str) -> None:
    tensors = (lt.Tensor(name="x", nbytes=0, kind="input", initial=True), lt.Tensor(name="y", nbytes=1))
    ops = (lt.Op(name="a", reads=(0,), writes=(1,), duration_ns=4),)
    bench = pair(3)
    channels = tuple(replace(c, latency_ns=11) for c in bench.channels)
    graph = lt.Graph(name="none", tensors=tensors, ops=ops)
    problem = Placement(
        graph, replace(bench, channels=channels), whole=method != "slot-lp", start={"input": ("host",)}
    )
    assert solved(problem, method).objective == 15


def test_a_final_tensor_that_is_overwritten_unread_is_released_in_between() -> None:
    graph = lt.Graph(
        name="overwritten",
        tensors=(lt.Tensor(name="x", nbytes=4, final=True), lt.Tensor(name="y", nbytes=4)),
        ops=(
            lt.Op(name="first", writes=(0,), duration_ns=5),
            lt.Op(name="between", writes=(1,), duration_ns=5),
            lt.Op(name="again", writes=(0,), duration_ns=5),
        ),
    )
    for method in ("slot-lp", "auto", "serial"):
        assert solved(Placement(graph, pair(4)), method).objective == 15


def bypass(*, latency: int = 0) -> lt.Machine:
    """Device, host and SSD, and channels between the outer two."""
    bench = machine(0, None, latency=latency, shared=False)
    ways = tuple(lt.Channel(src=a, dst=b, bytes_per_s=FAST) for a, b in (("host", "ssd"), ("ssd", "host")))
    return replace(bench, channels=(*bench.channels, *ways))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("periodic", [False, True])
def test_channels_between_outer_tiers_end_nothing(periodic: bool, threads: int) -> None:
    graph = random_graph(1)
    bench = bypass()
    tiers = (replace(bench.tiers[0], capacity=working_set(graph) + 6), *bench.tiers[1:])
    problem = Placement(graph, replace(bench, tiers=tiers), periodic=periodic)
    result = lt.solve(problem, "auto", time_limit=20, threads=threads)
    assert result.objective is not None
    assert result.bound is not None
    assert result.objective >= result.bound >= sum(op.duration_ns for op in graph.ops)


def test_what_verified_outlives_plans_that_do_not_and_parts_that_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = random_graph(1)
    problem = Placement(graph, machine(working_set(graph) + 6, None))
    valid = serial_plan(problem)
    assert valid is not None

    def offer(problem: Placement, context: Context) -> None:
        context.offer(valid)
        context.offer(replace(valid, runs=valid.runs[:1], copies=()))

    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("of a part")

    stand_in(monkeypatch, placement_auto, planner=offer, others=fail)
    result = lt.solve(problem, "auto", time_limit=20, threads=1)
    assert result.plan is not None
    assert result.status == "feasible"
    assert result.objective is not None
    assert result.objective <= problem.evaluate(valid)
    assert "slot-lp failed: ZeroDivisionError: of a part" in result.detail


def test_a_plan_of_more_than_fits_into_the_slow_tier_is_told() -> None:
    tensors = tuple(lt.Tensor(name=f"x{i}", nbytes=4, kind="input", initial=True) for i in range(3))
    ops = tuple(lt.Op(name=f"op{i}", reads=(i,), duration_ns=5) for i in range(3))
    graph = lt.Graph(name="three", tensors=tensors, ops=ops)
    bench = machine(4, 0)
    problem = Placement(
        graph,
        replace(bench, tiers=(*bench.tiers[:2], lt.Tier(name="ssd", capacity=8))),
        periodic=True,
        start={"input": ("gpu", "host", "ssd")},
    )
    assert solved(problem).plan is not None
    assert isinstance(planned(problem, PlannerSetting(chunk=1)), lt.Plan | str)
