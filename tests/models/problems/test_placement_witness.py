"""Placements without a plan: the witness is true, and misses no bottleneck that one memory shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.models.problems.placement import Placement
from lowtide.models.problems.placement_machine import LARGEST
from lowtide.models.verifier.verdict import Verification
from tests.effort import seeds
from tests.problems.placement import machine, random_graph, working_set

ANYWHERE = {"input": ("gpu", "host", "ssd")}
EITHER = {"input": ("gpu", "host")}


def two_tiers(device: int, host: int) -> lt.Machine:
    bench = machine(device, host, ssd=False)
    return replace(bench, tiers=(bench.tiers[0], lt.Tier(name="host", capacity=host)))


@pytest.mark.parametrize("seed", seeds(20))
def test_a_moment_needs_what_one_memory_holds_then(seed: int) -> None:
    """Tensors of these graphs have content from first write to last access: the peak is needed."""
    graph = random_graph(seed)
    (peak,) = lt.verify(graph, lt.Plan.from_order(graph, range(len(graph.ops)))).peaks.values()
    for device in {peak, working_set(graph)}:
        assert Placement(graph, two_tiers(device, peak - device), start=EITHER).impossible() is None
        if device < peak:
            witness = Placement(graph, two_tiers(device, peak - device - 1), periodic=True).impossible()
            assert witness is not None
            assert f"{peak} bytes are needed then or later, expected at most {peak - 1}" in witness
    assert "needs" in str(Placement(graph, two_tiers(working_set(graph) - 1, peak)).impossible())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("periodic", [False, True])
def test_what_has_a_plan_is_not_impossible(seed: int, periodic: bool) -> None:
    graph = random_graph(seed)
    problem = Placement(graph, machine(working_set(graph), 20), periodic=periodic, start=ANYWHERE)
    result = lt.solve(problem, "belady", time_limit=None)
    assert result.status in ("feasible", "optimal")
    assert isinstance(result.verification, Verification)
    host, ssd = (result.verification.peaks[tier] for tier in ("host", "ssd"))
    tiers = (problem.machine.tiers[0], lt.Tier(name="host", capacity=host), lt.Tier(name="ssd", capacity=ssd))
    assert replace(problem, machine=replace(problem.machine, tiers=tiers)).impossible() is None


def test_content_that_is_overwritten_unread_needs_no_room() -> None:
    """x is written, read, and later made anew: in between y has all of the memory."""
    graph = lt.Graph(
        name="twice",
        tensors=(lt.Tensor(name="x", nbytes=6), lt.Tensor(name="y", nbytes=8)),
        ops=(
            lt.Op(name="a", writes=(0,)),
            lt.Op(name="b", reads=(0,)),
            lt.Op(name="c", writes=(1,)),
            lt.Op(name="d", writes=(0,)),
        ),
    )
    problem = Placement(graph, two_tiers(8, 0))
    assert problem.impossible() is None
    runs = tuple(lt.Run(k, 0, k, k + 1, "gpu0") for k in range(4))
    frees = (lt.Free(0, "gpu", 2), lt.Free(1, "gpu", 3), lt.Free(0, "gpu", 4))
    assert problem.judge(lt.Plan(machine=problem.machine, runs=runs, frees=frees)).objective == 4
    kept = replace(graph, ops=(*graph.ops[:3], replace(graph.ops[3], reads=(0,))))
    assert "at op 2 'c' 14 bytes" in str(Placement(kept, two_tiers(8, 0)).impossible())


def test_final_content_counts_at_the_end() -> None:
    tensors = (lt.Tensor(name="x", nbytes=6, final=True), lt.Tensor(name="y", nbytes=5, final=True))
    graph = lt.Graph(
        name="ends", tensors=tensors, ops=(lt.Op(name="a", writes=(0,)), lt.Op(name="b", writes=(1,)))
    )
    assert Placement(graph, two_tiers(6, 5)).impossible() is None
    assert "11 bytes" in str(Placement(graph, two_tiers(6, 4)).impossible())


def test_replaced_reads_leave_room_for_writes() -> None:
    graph = lt.Graph(
        name="replaced",
        accounting=lt.Accounting.REPLACE,
        tensors=(lt.Tensor(name="x", nbytes=5), lt.Tensor(name="y", nbytes=7)),
        ops=(lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,), writes=(1,))),
    )
    fits = Placement(graph, lt.Machine.single(capacity=7))
    assert fits.impossible() is None
    assert fits.judge(lt.Plan.from_order(graph, (0, 1), fits.machine)).objective == 2
    witness = Placement(graph, lt.Machine.single(capacity=6)).impossible()
    assert "op 1 'b' needs 7 bytes at once, expected at most 6" in str(witness)


def test_what_must_start_together_needs_room_together() -> None:
    """x and y need content at time 0; z is overwritten unread, u is never accessed and not kept."""
    sizes = {"x": 4, "y": 3, "z": 9, "u": 9}
    graph = lt.Graph(
        name="starts",
        tensors=tuple(
            lt.Tensor(name=name, nbytes=nbytes, kind="weight" if name == "x" else "state", initial=True)
            for name, nbytes in sizes.items()
        ),
        ops=(lt.Op(name="a", reads=(0, 1)), lt.Op(name="b", writes=(2,))),
    )
    anywhere = Placement(graph, two_tiers(9, 3))
    assert anywhere.impossible() is None
    weights = replace(anywhere, start={"weight": ("host",)})
    assert weights.impossible() == "at time 0, 4 bytes must be in tier 'host', expected at most 3"
    assert replace(weights, machine=two_tiers(9, 4)).impossible() is None
    both = replace(weights, machine=two_tiers(9, 6), start={"weight": ("host",), "state": ("host",)})
    assert both.impossible() == "at time 0, 7 bytes must be in tier 'host', expected at most 6"
    nowhere = replace(anywhere, start={"state": ()})
    assert nowhere.impossible() == "at time 0, 3 bytes must be in no tier at all, expected at most 0"
    kept = replace(graph, tensors=(*graph.tensors[:3], replace(graph.tensors[3], final=True)))
    states = Placement(kept, two_tiers(9, 9), start={"state": ("gpu",)})
    assert states.impossible() == "at time 0, 12 bytes must be in tier 'gpu', expected at most 9"
    for method in ("auto", "planner", "belady", "slot-lp"):
        result = lt.solve(weights, method, threads=1)
        assert (result.status, result.objective) == ("infeasible", None)


def test_the_result_is_infeasible_with_the_witness() -> None:
    graph = random_graph(1)
    for method in ("auto", "planner", "lp-bound", "belady"):
        result = lt.solve(Placement(graph, two_tiers(working_set(graph), 1), periodic=True), method)
        assert (result.status, result.objective) == ("infeasible", None)
        assert "are needed then or later, expected at most" in result.detail


def test_what_makes_no_sense_is_refused() -> None:
    graph, bench = random_graph(1), machine(30, 30)
    none = lt.Graph(name="none", tensors=(), ops=())
    with pytest.raises(lt.InstanceError, match="graph 'none': found no ops, expected at least one"):
        Placement(none, bench)
    with pytest.raises(lt.InstanceError, match="start: found kind 'wight', expected one of input, weight"):
        Placement(graph, bench, start={"wight": ("gpu",)})
    for changed in (
        replace(bench, tiers=(lt.Tier(name="gpu", capacity=LARGEST + 1), *bench.tiers[1:])),
        replace(bench, channels=(replace(bench.channels[0], latency_ns=LARGEST + 1), *bench.channels[1:])),
        replace(bench, groups=(replace(bench.groups[0], bytes_per_s=LARGEST + 1), *bench.groups[1:])),
    ):
        with pytest.raises(lt.InstanceError, match=f"expected at most {LARGEST}"):
            Placement(graph, changed)


def test_an_op_needs_a_mode_whose_processors_and_tiers_the_machine_has() -> None:
    modes = (
        lt.Mode(duration_ns=5, operands=((0, "moon"),)),
        lt.Mode(duration_ns=7, processors=("tpu",)),
        lt.Mode(duration_ns=9, operands=((0, "gpu"),)),
    )
    x = lt.Tensor(name="x", nbytes=4)
    for some, fits in ((modes, True), (modes[:2], False), (modes[:1], False)):
        graph = lt.Graph(name="modes", tensors=(x,), ops=(lt.Op(name="a", writes=(0,), modes=some),))
        problem = Placement(graph, machine(8, None))
        assert (problem.impossible() is None) is fits
        result = lt.solve(problem, "serial", threads=1)
        if fits:
            assert result.objective == 9
        else:
            assert result.status is lt.Status.INFEASIBLE
            assert "found no mode whose processors and tiers machine 'machine' has" in result.detail
