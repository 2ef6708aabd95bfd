"""Several devices: against enumeration, and what no plan may do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.formats.native_plan import read_plan
from lowtide.models.plan import Copy, Plan
from lowtide.results.result_picture import picture_of
from lowtide.solvers.streams.hios import Mapper
from tests.effort import seeds
from tests.oracles.brute_distributed import fastest_distributed
from tests.solvers.streams.devices import question, rates_question

FIVE = range(1000, 1012)
"""Seeds of questions of up to five ops, whose enumeration takes seconds."""

LISTS = ("heft", "hios-lp", "hios-mr")


def fastest(problem: lt.Streams) -> int | None:
    assert problem.distributed is not None
    return fastest_distributed(problem.graph, problem.distributed.machine)


def solved(problem: lt.Streams, method: str) -> lt.Result:
    result = lt.solve(problem, method, threads=1, time_limit=None)
    assert result.status != "failed", result.detail
    if result.objective is not None and result.bound is not None:
        assert result.bound <= result.objective
    return result


@pytest.mark.parametrize("seed", [*seeds(32), *(pytest.param(k, marks=pytest.mark.slow) for k in FIVE)])
def test_the_model_is_enumeration_and_lists_are_not_faster(seed: int) -> None:
    problem = question(seed, most=5 if seed in FIVE else 4)
    known = fastest(problem)
    assert known is not None
    for method in ("cpsat", "auto"):
        result = solved(problem, method)
        assert (str(result.status), result.objective, result.bound) == ("optimal", known, known)
    for method in LISTS:
        found = solved(problem, method).objective
        assert found is not None
        assert found >= known


@pytest.mark.parametrize("seed", seeds(32))
def test_within_a_memory_the_model_is_enumeration(seed: int) -> None:
    problem = question(seed, most=4, memory=True)
    known = fastest(problem)
    status = "infeasible" if known is None else "optimal"
    for method in ("cpsat", "auto"):
        result = solved(problem, method)
        assert (str(result.status), result.objective) == (status, known)
    for method in LISTS:
        result = solved(problem, method)
        if result.objective is None:
            assert "not verify" in result.detail or method == "heft"
            assert result.status == "unknown" or known is None
        else:
            assert known is not None
            assert result.objective >= known


@pytest.mark.parametrize("seed", seeds(24))
def test_contention_of_each_device(seed: int, tmp_path: Path) -> None:
    plain = replace(question(seed), streams=2, memory=12 if seed % 4 == 0 else None)
    problem = replace(plain, contention="proportional", sync_ns=seed % 3)
    least = solved(plain, "cpsat").objective
    for method in ("auto", *LISTS):
        result = solved(problem, method)
        if result.objective is None:
            assert problem.memory is not None
            continue
        assert result.objective >= (least or 0)
        assert problem.evaluate(problem.read(result.plan)) == result.objective
        assert result.plan is not None
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(result.plan.to_dict()))
        assert lt.verify(problem.graph, read_plan(path)).valid


@pytest.mark.parametrize("seed", seeds(32))
def test_under_contention_the_model_of_rates_is_enumeration(seed: int) -> None:
    problem, known = rates_question(seed)
    result = solved(problem, "rates-cpsat" if seed % 4 else "auto")
    assert (str(result.status), result.objective, result.bound) == ("optimal", known, known)


def test_what_a_long_op_waits_for_is_not_slowed_down() -> None:
    """Three ops of half a device; behind one of them 40 ns: lists run all three at once, for 15 ns."""
    ops = tuple(lt.Op(name=f"o{i}", duration_ns=10, share=1) for i in range(3))
    graph = lt.Graph(name="four", tensors=(), ops=(*ops, lt.Op(name="last", after=(2,), duration_ns=40)))
    problem = lt.Streams(graph, devices=2, contention="proportional", parts=2)
    assert solved(problem, "heft").objective == 55
    assert (solved(problem, "rates-cpsat").objective, solved(problem, "auto").status) == (50, "optimal")
    for memory, sync in ((5, 0), (None, 1)):
        with pytest.raises(lt.UsageError, match="proportional, 0 and none of the CP-SAT model of rates"):
            lt.solve(replace(problem, memory=memory, sync_ns=sync), "rates-cpsat")


def three() -> lt.Graph:
    """Return a fork: one tensor of 2 bytes that two ops read, of which one writes a final tensor."""
    tensors = (lt.Tensor(name="a", nbytes=2), lt.Tensor(name="b", nbytes=3, final=True))
    return lt.Graph(
        name="three",
        tensors=tensors,
        ops=(
            lt.Op(name="make", duration_ns=5, writes=(0,)),
            lt.Op(name="left", duration_ns=10, reads=(0,), writes=(1,)),
            lt.Op(name="right", duration_ns=10, reads=(0,)),
        ),
    )


FORK = lt.Streams(three(), devices=2, streams=1, link=10**9, memory=5)


def test_a_fork_on_two_devices_takes_17() -> None:
    result = solved(FORK, "auto")
    assert (str(result.status), result.objective) == ("optimal", 17)
    assert isinstance(result.plan, Plan)
    assert picture_of(result) == "timeline"
    facts = {fact.name: fact.text for fact in FORK.facts(FORK.judge(result.plan))}
    assert (facts["peak in d0"], facts["traffic d0->d1"]) == ("5 B", "2 B")
    assert solved(replace(FORK, latency_ns=3), "auto").objective == 20
    assert solved(replace(FORK, latency_ns=9), "auto").objective == 25
    assert solved(replace(FORK, memory=4), "auto").status == "infeasible"
    assert solved(replace(FORK, streams=2), "auto").objective == 15


def moved(plan: Plan, number: int, **change: Any) -> Plan:
    runs = list(plan.runs)
    runs[number] = replace(runs[number], **change)
    return replace(plan, runs=tuple(runs))


def copies(plan: Plan, *some: Copy) -> Plan:
    return replace(plan, copies=some)


def tight(plan: Plan) -> Plan:
    tiers = tuple(replace(tier, capacity=4) for tier in plan.machine.tiers)
    return replace(plan, machine=replace(plan.machine, tiers=tiers))


def far(memory: int) -> lt.Streams:
    """Return ops of which one on device 0 has no room until what another one reads has left it."""
    tensors = (lt.Tensor(name="a", nbytes=2), lt.Tensor(name="k", nbytes=10))
    ops = (
        lt.Op(name="make", duration_ns=5, writes=(0, 1)),
        lt.Op(name="big", duration_ns=10, reads=(1,), workspace=4),
        lt.Op(name="right", duration_ns=5, reads=(0,)),
    )
    graph = lt.Graph(name="far", tensors=tensors, ops=ops)
    return lt.Streams(graph, devices=2, streams=1, link=10**9, memory=memory)


def test_an_op_waits_until_a_tensor_has_left() -> None:
    assert solved(far(16), "auto").objective == 15
    assert solved(far(14), "auto").objective == 17


MUTATIONS: dict[str, tuple[Callable[[Plan, Copy], Plan], set[str]]] = {
    "no transfer": (lambda plan, copy: copies(plan), {"read"}),
    "a transfer in less than its time": (
        lambda plan, copy: moved(copies(plan, replace(copy, end=6)), 2, start=6, end=16),
        {"channel-rate"},
    ),
    "a transfer before its writer ends": (
        lambda plan, copy: copies(plan, replace(copy, start=4, end=6)),
        {"copy-source"},
    ),
    "a reader before the transfer ends": (lambda plan, copy: moved(plan, 2, start=6, end=16), {"read"}),
    "a shorter run": (lambda plan, copy: moved(plan, 2, end=16), {"duration"}),
    "two runs at a time": (
        lambda plan, copy: copies(moved(plan, 2, start=5, end=15, processor="d0s0")),
        {"processor-overlap"},
    ),
    "a device of too little memory": (
        lambda plan, copy: tight(plan),
        {"capacity"},
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_a_plan_may_not_do(name: str) -> None:
    change, kinds = MUTATIONS[name]
    plan = solved(FORK, "auto").plan
    assert plan is not None
    plan = replace(plan, runs=tuple(sorted(plan.runs, key=lambda run: run.op)))
    (copy,) = plan.copies
    changed = change(plan, copy)
    found = {v.kind for v in lt.verify(FORK.graph, changed, rerun=False, start_tiers={}).violations}
    assert kinds <= found
    problem = replace(FORK, memory=4) if "memory" in name else FORK
    try:
        assert problem.judge(problem.read(changed)).objective is None
    except lt.InstanceError:
        assert "before its writer" in name


@pytest.mark.parametrize("seed", seeds(16))
def test_nothing_is_faster_than_the_optimum_by_a_nanosecond(seed: int) -> None:
    problem = question(seed)
    plan = solved(problem, "cpsat").plan
    assert plan is not None
    last = max(range(len(plan.runs)), key=lambda k: plan.runs[k].end)
    early = moved(plan, last, start=plan.runs[last].start - 1, end=plan.runs[last].end - 1)
    if plan.runs[last].end > max([0, *(run.end for k, run in enumerate(plan.runs) if k != last)]):
        assert problem.judge(problem.read(early)).objective is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan: copies(plan, replace(plan.copies[0], bytes=(0, 1))), "expected all of it"),
        (lambda plan: copies(plan, replace(plan.copies[0], src="d1", dst="d0")), "expected all of it"),
        (lambda plan: copies(plan, replace(plan.copies[0], start=4)), "expected all of it"),
        (lambda plan: moved(plan, 0, processor="d2s0"), "a stream of 2 devices"),
        (lambda plan: moved(plan, 0, processor="d0s1"), "a stream of 2 devices"),
        (lambda plan: moved(plan, 0, processor="d0s00"), "expected a Plan"),
        (lambda plan: replace(plan, runs=plan.runs[:2]), "expected one of each of 3 ops"),
        (lambda plan: replace(plan, graph_sha256="0"), "another graph"),
        (lambda plan: [[[0, 1, 2]], [], []], "found 3 devices"),
        (lambda plan: [[[0], [1, 2]]], "found 2 streams"),
        (lambda plan: [[[0, 1]]], "expected each of 3 once"),
        (lambda plan: [[[1, 0, 2]]], "cycle"),
        (lambda plan: [[0, 1, 2]], "devices of streams of ops"),
        (lambda plan: lt.StreamOrder(streams=((0, 1, 2),)), "devices of streams of ops"),
    ],
)
def test_what_is_no_answer(change: Callable[[Plan], object], words: str) -> None:
    plan = FORK.read([[[0, 1]], [[2]]])
    assert isinstance(plan, Plan)
    with pytest.raises(lt.InstanceError, match=words):
        FORK.read(change(plan))


def test_questions_that_are_none() -> None:
    with pytest.raises(lt.InstanceError, match="stages of one device"):
        replace(FORK, contention="fluid")
    with pytest.raises(lt.UsageError, match="expected 1"):
        lt.solve(FORK, "lios")
    with pytest.raises(lt.UsageError, match="expected several"):
        lt.solve(replace(FORK, devices=1), "heft")
    with pytest.raises(lt.UsageError, match="expected none and 0"):
        lt.solve(replace(FORK, contention="proportional"), "cpsat")


def test_merging_runs_small_ops_side_by_side() -> None:
    """Two ops that need half a device each share one; in groups of one op they would take 20."""
    ops = tuple(lt.Op(name=f"o{i}", duration_ns=ns, share=1) for i, ns in enumerate((15, 10, 10)))
    problem = lt.Streams(
        lt.Graph(name="three", tensors=(), ops=ops), devices=2, contention="proportional", parts=2
    )
    for method in ("hios-lp", "hios-mr"):
        assert solved(problem, method).objective == 15
        assert lt.solve(problem, method, threads=1, options={"window": "1"}).objective == 20


def test_recorded_mappings_and_longest_paths_of_a_chain_stay_on_a_device() -> None:
    graph = lt.load("gen:chain?n=6&seed=1")
    problem = lt.Streams(graph, devices=3, streams=1)
    assert problem.cluster is not None
    mapper = Mapper(problem, problem.cluster, lambda: None)
    assert set(mapper.by_longest_paths().values()) == {0}
    assert set(mapper.by_recorded_mappings().values()) == {0}
    assert solved(problem, "auto").status == "optimal"


@pytest.mark.parametrize("contention", ["none", "proportional"])
@pytest.mark.parametrize(
    ("devices", "methods"), [(1, ("auto", "lios")), (2, ("auto", "heft", "hios-lp", "hios-mr"))]
)
def test_a_graph_without_ops_takes_no_time(contention: str, devices: int, methods: tuple[str, ...]) -> None:
    nothing = lt.Graph(name="nothing", tensors=(), ops=())
    problem = lt.Streams(nothing, streams=2, devices=devices, contention=contention)
    for method in methods:
        result = solved(problem, method)
        assert (str(result.status), result.objective) == ("optimal", 0)


def test_auto_keeps_its_plan_where_work_is_too_large_for_the_model_of_rates() -> None:
    ops = tuple(lt.Op(name=f"o{i}", duration_ns=2**41 + i, share=2**20 // (i + 1)) for i in range(4))
    huge = lt.Graph(name="huge", tensors=(), ops=(*ops, lt.Op(name="last", after=(0, 1, 2), duration_ns=1)))
    problem = lt.Streams(huge, devices=2, contention="proportional")
    assert solved(problem, "auto").status == "feasible"
    with pytest.raises(lt.UsageError, match="less than 2"):
        lt.solve(problem, "rates-cpsat", threads=1)
