"""The planner: every plan that it makes verifies, on graphs and machines of all kinds."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.placement import auto
from lowtide.solvers.placement.planner import method as planner
from lowtide.solvers.placement.planner.method import planned
from lowtide.solvers.placement.planner.setting import PlannerSetting
from lowtide.solvers.registry import unserved
from tests.effort import seeds
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine, random_graph, working_set
from tests.solvers.placement.planner.plans import plans_of_small_cases
from tests.solvers.stand_ins import stand_in


@pytest.mark.parametrize("seed", seeds(60))
def test_plans_on_random_graphs_verify(seed: int) -> None:
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    outputs = sum(t.nbytes for t in graph.tensors if t.final and not t.initial)
    device = working_set(graph) + outputs + int(rng.integers(0, 12))
    bench = machine(
        device, [None, 10, 0][seed % 3], latency=[0, 700][seed % 2], shared=seed % 5 > 0, ssd=seed % 6 > 0
    )
    everywhere = tuple(t.name for t in bench.tiers)
    start = [None, {"input": everywhere}, {"input": everywhere[seed % 3 :]}, {"input": ("gpu",)}][seed % 4]
    problem = Placement(graph, bench, periodic=True, whole=seed % 7 == 0, start=start)
    found = 0
    for setting in (
        PlannerSetting(chunk=3, slots=0),
        PlannerSetting(chunk=2, slots=seed % 2, gate=False),
        PlannerSetting(chunk=5, lead=0),
        PlannerSetting(chunk=2, slots=0, eager=False),
    ):
        plan = planned(problem, setting)
        if isinstance(plan, str):
            continue
        found += 1
        judgement = problem.judge(plan)
        assert not judgement.violations, judgement.violations[0]
        assert judgement.objective is not None
        assert judgement.objective >= sum(op.duration_ns for op in graph.ops)
    assert found or device < working_set(graph) + outputs + 6


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("seed", [811, 1998, *seeds(120, least=40)])  # no bytes to drop; a cap below a rate
def test_plans_on_small_machines_of_all_kinds_verify(seed: int, accounting: Accounting) -> None:
    """Tiers with little room, the slowest one too; joint caps, latencies, tensors of no bytes."""
    problem = random_placement(seed, ops=8, accounting=accounting)
    for setting in (
        PlannerSetting(chunk=1, slots=0),
        PlannerSetting(chunk=2, gate=False),
        PlannerSetting(chunk=9, lead=40),
    ):
        if unserved(problem, "planner"):
            return
        plan = planned(problem, setting)
        if isinstance(plan, lt.Plan):
            assert not problem.judge(plan).violations


def drained(slow: int, periodic: bool) -> Placement:
    """Three tensors of 4 bytes rest while a fourth is made; the device holds two, the host one."""
    tensors = tuple(lt.Tensor(name=x, nbytes=4) for x in "abcd")
    ops = [lt.Op(name=f"make {x.name}", writes=(t,), duration_ns=9000) for t, x in enumerate(tensors)]
    ops += [lt.Op(name=f"use {tensors[t].name}", reads=(t,), duration_ns=9000) for t in (3, 2, 1, 0)]
    bench = machine(8, 4, shared=False)
    tiers = (*bench.tiers[:2], replace(bench.tiers[2], capacity=slow))
    graph = lt.Graph(name="drained", tensors=tensors, ops=tuple(ops))
    return Placement(graph, replace(bench, tiers=tiers), periodic=periodic)


@pytest.mark.parametrize("periodic", [False, True])
def test_the_slowest_tier_is_not_overfilled(periodic: bool) -> None:
    for slow in (12, 4):
        problem = drained(slow, periodic)
        for chunk in (2, 4):
            plan = planned(problem, PlannerSetting(chunk=chunk, slots=0))
            assert isinstance(plan, lt.Plan)
            assert not problem.judge(plan).violations
    problem = drained(3, periodic)  # a byte too little for what rests
    for chunk in (1, 4):
        assert "stuck" in str(planned(problem, PlannerSetting(chunk=chunk, slots=0)))


@pytest.mark.parametrize(("start", "copied"), [(("gpu", "host", "ssd"), 0), (("gpu",), 1)])
def test_an_input_that_may_start_outside_is_not_copied_there(start: tuple[str, ...], copied: int) -> None:
    graph = lt.Graph(
        name="late again",
        tensors=(
            lt.Tensor(name="in", nbytes=6, kind="input", initial=True),
            lt.Tensor(name="a", nbytes=1),
            lt.Tensor(name="b", nbytes=8),
            lt.Tensor(name="c", nbytes=1),
        ),
        ops=(
            lt.Op(name="first", reads=(0,), writes=(1,), duration_ns=9000),
            lt.Op(name="large", reads=(1,), writes=(2,), duration_ns=9000),
            lt.Op(name="small", reads=(2,), writes=(3,), duration_ns=9000),
            lt.Op(name="last", reads=(0, 3), writes=(), duration_ns=9000),
        ),
    )
    problem = Placement(graph, machine(12, 100), periodic=True, start={"input": start})
    plan = planned(problem, PlannerSetting(chunk=10, slots=0))
    assert not isinstance(plan, str)
    assert not problem.judge(plan).violations
    assert len([copy for copy in plan.copies if copy.src == "gpu"]) == copied
    assert len([copy for copy in plan.copies if copy.dst == "gpu"]) == 1


@pytest.mark.parametrize("seed", seeds(20))
def test_plans_made_on_line_under_noise_verify(seed: int) -> None:
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    believed = [op.duration_ns for op in graph.ops]
    actual = [max(1, int(ns * rng.lognormal(0, 0.25))) for ns in believed]
    ops = tuple(replace(op, duration_ns=ns) for op, ns in zip(graph.ops, actual, strict=True))
    bench = machine(working_set(graph) + 8, [None, 10][seed % 2], latency=700 * (seed % 3))
    start = {"input": ("gpu", "host", "ssd")}
    problem = Placement(replace(graph, ops=ops), bench, periodic=True, whole=seed % 4 == 0, start=start)
    setting = PlannerSetting(chunk=2, slots=seed % 2, lead=40)
    if seed % 3 == 0:  # no latencies, without which others are planned
        assert planned(problem, setting, believed=actual) == planned(problem, setting)
    plan = planned(problem, setting, believed=believed)
    if not isinstance(plan, str):
        judgement = problem.judge(plan)
        assert not judgement.violations, judgement.violations[0]
        assert [run.end - run.start for run in sorted(plan.runs, key=lambda run: run.op)] == actual


def test_the_planner_needs_a_belief_about_every_op() -> None:
    problem = Placement(random_graph(1), machine(60, 60), periodic=True)
    with pytest.raises(lt.UsageError, match="found 2 of at least 1 ns, expected 14"):
        planned(problem, PlannerSetting(chunk=3), believed=[1, 2])


@pytest.mark.parametrize("seed", seeds(40))
def test_plans_of_single_runs_verify(seed: int) -> None:
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    device = working_set(graph) + int(rng.integers(0, 12))
    bench = machine(device, [None, 30][seed % 2], latency=[0, 700][seed % 2], ssd=seed % 3 > 0)
    tiers = tuple(t.name for t in bench.tiers)
    everything = sum(t.nbytes for t in graph.tensors if t.initial)
    starts = [None, {"input": tiers}, {"weight": tiers[1:], "input": tiers[-1:]}]
    if everything <= device:
        starts.append({"weight": tiers[:1], "input": tiers[:1]})
    ideal = sum(op.duration_ns for op in graph.ops)
    found = 0
    for start in starts:
        problem = Placement(graph, bench, start=start)
        for setting in (
            PlannerSetting(chunk=3, slots=0),
            PlannerSetting(chunk=2),
            PlannerSetting(chunk=5, lead=0, gate=False),
        ):
            plan = planned(problem, setting)
            if isinstance(plan, str):
                continue
            found += 1
            assert plan.period is None
            judgement = problem.judge(plan)
            assert not judgement.violations, judgement.violations[0]
            assert judgement.objective is not None
            assert judgement.objective >= ideal
    assert found or device < working_set(graph) + 6


def test_a_single_run_that_fits_needs_no_time() -> None:
    graph = random_graph(3)
    bench = machine(sum(t.nbytes for t in graph.tensors) + 10, None)
    result = lt.solve(Placement(graph, bench, start={"weight": ("gpu",), "input": ("gpu",)}), "planner")
    assert result.status == "optimal"
    assert result.objective == sum(op.duration_ns for op in graph.ops)


@pytest.mark.slow
def test_auto_closes_the_gap_of_a_single_run() -> None:
    graph = random_graph(2, 8)
    result = lt.solve(Placement(graph, machine(working_set(graph) + 6, None)), "auto", time_limit=None)
    assert result.status in ("optimal", "feasible")
    assert result.gap is not None
    assert result.gap < 0.1


@pytest.mark.slow
def test_auto_closes_the_gap_of_a_period_by_the_slot_model() -> None:
    spec = "onnx:squeezenet?train=1&batch=64&blocks=12&machine=v100-16g-pcie3&device=1000MiB&periodic=1"
    problem = load_problem(Placement, spec)
    planner, both = (lt.solve(problem, name, threads=1) for name in ("planner", "auto"))
    assert planner.objective is not None
    assert both.objective is not None
    assert both.bound is not None
    assert both.objective - both.bound < 100 < planner.objective - both.objective  # ns, of 72 million


@pytest.mark.slow
def test_auto_tries_all_that_the_planner_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[str]()

    def nothing(problem: Placement, context: Context) -> None:  # which may be better
        turns.append("slot-lp")

    stand_in(monkeypatch, auto, slot_lp=nothing)
    for seed in range(8):
        graph = random_graph(seed, 10)
        problem = Placement(graph, machine(working_set(graph) + 4, None, ssd=False), start={})
        planner, both = (lt.solve(problem, name, threads=1, time_limit=None) for name in ("planner", "auto"))
        assert planner.objective is not None
        assert both.objective is not None
        assert both.objective <= planner.objective, seed
    assert turns


def test_no_setting_begins_when_the_longest_one_would_end_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan takes 10 seconds by a clock that only plans move; of 45 the last 5 are not enough for one."""
    clock, begun = [0.0], []

    def slow(problem: Placement, setting: PlannerSetting, context: Context) -> tuple[str, None]:
        begun.append(clock[0])
        clock[0] += 10
        return "no room", None

    monkeypatch.setattr(Context, "elapsed", lambda self: clock[0])
    monkeypatch.setattr(planner, "_planned", slow)
    problem = Placement(random_graph(3), machine(10**6, None))
    context = Context(problem=problem, time_limit=45)
    assert [*planner.try_settings(problem, context, lambda: context.expired)] == ["no room"] * 4
    assert begun == [0, 10, 20, 30]
    assert context.late()
    assert not context.expired


def test_what_must_start_on_the_device_does_not_fit() -> None:
    graph = random_graph(3)
    weights = sum(t.nbytes for t in graph.tensors if t.kind == "weight")
    problem = Placement(graph, machine(weights - 1, None), start={"weight": ("gpu",)})
    assert "exceeds the capacity by 1 bytes" in str(planned(problem, PlannerSetting(chunk=3, slots=0)))


PLAIN = """
import numba, sys
from tests.solvers.placement.planner.plans import plans_of_small_cases
from tests.solvers.stand_ins import stand_in
from tests.effort import seeds
assert numba.config.DISABLE_JIT
sys.stdout.write(plans_of_small_cases())
"""


@pytest.mark.slow
def test_the_compiled_kernel_does_what_the_plain_one_does() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).resolve().parents[4],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == plans_of_small_cases()
    assert done.stdout.count("Plan(") >= 7


def test_enough_memory_needs_no_time() -> None:
    graph = random_graph(3)
    total = sum(t.nbytes for t in graph.tensors) + 10
    problem = Placement(graph, machine(total, None), periodic=True, start={"input": ("gpu",)})
    result = lt.solve(problem, "planner")
    assert result.status == "optimal"
    assert result.objective == sum(op.duration_ns for op in graph.ops)
    assert result.bound_kind == "sum of durations"


@pytest.mark.slow
def test_a_real_workload_runs_without_a_stall() -> None:
    problem = lt.Placement(
        lt.load("catalogue:g10/bert_base-256"),
        lt.load_machine("a100-40g-pcie3"),
        periodic=True,
        start={"input": ("gpu", "host", "ssd")},
    )
    result = lt.solve(problem, "planner", time_limit=None)
    assert result.status == "optimal"
    assert result.objective == 7_285_465_834


@pytest.mark.slow
def test_a_host_that_is_not_eager_is_kept_for_what_slow_cannot_do() -> None:
    graph = lt.load("catalogue:g10/inceptionv3-1536")
    bench = lt.load_machine("a100-40g-pcie3")
    tiers = (bench.tiers[0], replace(bench.tiers[1], capacity=32 * 2**30), bench.tiers[2])
    start = {"input": ("gpu", "host", "ssd")}
    problem = Placement(graph, replace(bench, tiers=tiers), periodic=True, start=start)
    ideal = sum(op.duration_ns for op in graph.ops)
    stalls = []
    for eager in (True, False):
        plan = planned(problem, PlannerSetting(chunk=64 * 2**20, slots=0, gate=False, eager=eager))
        assert not isinstance(plan, str)
        stalls.append(problem.evaluate(plan) - ideal)
    assert stalls[0] > 7_900_000_000
    assert stalls[1] < 7_600_000_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: replace(p, machine=lt.Machine.single(capacity=50)), "found one tier, expected none"),
        (lambda p: replace(p, start={"weight": ("gpu",)}), "found start tiers of kind 'weight'"),
    ],
)
def test_what_the_planner_does_not_do(change, message) -> None:  # type: ignore[no-untyped-def]
    problem = Placement(random_graph(1), machine(60, 60), periodic=True)
    with pytest.raises(lt.UsageError, match=message):
        lt.solve(change(problem), "planner")


@pytest.mark.parametrize(("seed", "ops", "spare", "host"), [(1036, 7, 6, 10), (1043, 11, 3, 3)])
def test_moves_that_lead_nowhere_end(seed: int, ops: int, spare: int, host: int) -> None:
    """Once copies went to and fro for ever before the next op."""
    graph = random_graph(seed, ops=ops)
    bench = machine(working_set(graph) + spare, host, ssd=False)
    start = {"input": ("gpu", "host")} if seed % 2 == 0 else {"weight": ("gpu",), "input": ("gpu",)}
    problem = Placement(graph, bench, periodic=seed % 2 == 0, start=start)
    for chunk in (1, 2):
        assert "stuck" in str(planned(problem, PlannerSetting(chunk=chunk, slots=0)))


def test_what_no_op_accesses_takes_room_on_the_host() -> None:
    graph = lt.Graph(
        name="idle weight",
        tensors=(
            lt.Tensor(name="idle", nbytes=8, kind="weight", initial=True, final=True),
            lt.Tensor(name="w", nbytes=6, kind="weight", initial=True, final=True),
            lt.Tensor(name="x", nbytes=6),
        ),
        ops=(lt.Op(name="read", reads=(1,)), lt.Op(name="fill", writes=(2,))),
    )
    for host in (None, 14, 13, 8, 7):
        problem = Placement(graph, machine(10, host, ssd=False), periodic=True)
        plan = planned(problem, PlannerSetting(chunk=1))
        if isinstance(plan, lt.Plan):
            assert problem.judge(plan).objective is not None
        assert isinstance(plan, lt.Plan) == (host is None or host >= 8 + 6)


def test_a_rate_that_changes_at_the_boundary() -> None:
    """An input appears there, and what the host has brought so far has just arrived."""
    graph = random_graph(2661, ops=15)
    last = replace(
        graph.ops[14], reads=tuple(t for t in graph.ops[14].reads if t not in graph.ops[14].writes)
    )
    graph = replace(graph, ops=(*graph.ops[:14], last))
    problem = Placement(graph, machine(38, None), periodic=True)
    plan = planned(problem, PlannerSetting(chunk=2))
    assert isinstance(plan, lt.Plan)
    assert problem.judge(plan).objective is not None
