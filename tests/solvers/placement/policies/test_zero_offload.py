"""ZeRO-Offload: by hand, its rule to the byte, verified plans at and above their bound."""

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.heads import heads_bound
from lowtide.models.graph import Accounting
from lowtide.models.lowering.builder import PlanBuilder
from lowtide.solvers.placement.policies.zero_infinity import Infinity, StepLimits
from lowtide.solvers.placement.policies.zero_offload import Offload
from tests.effort import seeds
from tests.oracles.brute_processors import fastest
from tests.solvers.placement.policies.zero_training import (
    bench,
    carried_out,
    delayed_layers,
    rule,
    trained,
    two_layers,
)


def step(problem: lt.Placement, bucket: int) -> int:
    plan = carried_out(problem, bucket)
    assert isinstance(plan, lt.Plan), plan
    judgement = problem.judge(plan)
    assert judgement.objective is not None, judgement.verification
    return int(judgement.objective)


@pytest.mark.parametrize("periodic", [False, True])
def test_buckets_by_hand(periodic: bool) -> None:
    """A gradient takes 4000 ns to the host; updates take 3000 each; weights return in 2000 each."""
    problem = lt.Placement(two_layers(), bench(None), periodic=periodic)
    # Half a bucket of 8 is one gradient: g1 leaves at 2000, g0 behind it, at 6000; both are there at 10 000.
    # Adam until 13 000 and 16 000, w0 back at 18 000.
    assert step(problem, 8) == 18_000
    # A bucket of 16 leaves as a whole behind b0, at 3000.
    assert step(problem, 16) == 3000 + 8000 + 6000 + 2000
    # One of 4 has no room for g0 before g1 has left: b0 starts at 6000, g0 is there at 11 000.
    assert step(problem, 4) == 7000 + 4000 + 6000 + 2000
    assert "gradients of 4 bytes exceed the bucket" in str(carried_out(problem, 3))
    # Half of a link for 1.5 bytes per us is 0.75 each way: 5434 ns, so that w0 waits for w1 on the way back.
    shared = replace(problem, machine=bench(None, latency=100, cap=1_500_000))
    assert step(shared, 8) == 2000 + 2 * 5434 + 3000 + 2 * 5434


def test_delayed_updates_run_beside_the_gpu() -> None:
    graph = delayed_layers()
    assert [op.name for op in graph.ops] == ["u1", "u0", "f", "b1", "u1/change", "b0", "u0/change"]
    problem = lt.Placement(graph, bench(None), periodic=True)
    # The gradients are there at 10 000, as before; Adam ran from 0 to 6000. Each change takes 1 ns, w1 is
    # back at 12 001, w0 at 14 001.
    assert step(problem, 8) == 14_001
    # Gradients that leave as one are there at 11 000.
    assert step(problem, 16) == 15_001
    longer = replace(
        graph,
        ops=tuple(
            replace(op, modes=(replace(op.modes[0], duration_ns=9000),)) if op.name in ("u1", "u0") else op
            for op in graph.ops
        ),
    )
    assert step(replace(problem, graph=longer), 8) == 18_000 + 1 + 4000
    assert heads_bound(replace(problem, graph=longer)) >= 18_000


@pytest.mark.parametrize("seed", seeds(40, least=10))
def test_delayed_updates_start_at_once(seed: int) -> None:
    graph = trained(seed, delayed=True)
    problem = lt.Placement(graph, bench(10**6), periodic=bool(seed % 2), start={"input": ("gpu",)})
    plan = carried_out(problem, 10**4)
    assert isinstance(plan, lt.Plan)
    judgement = problem.judge(plan)
    assert judgement.objective is not None, judgement.verification
    runs = {run.op: run for run in plan.runs}
    updates = [k for k, op in enumerate(graph.ops) if op.kind == "Update"]
    changes = [k for k, op in enumerate(graph.ops) if op.kind == "Change"]
    assert len(updates) == len(changes) > 0
    busy = sum(graph.ops[k].modes[0].duration_ns for k in updates)
    assert [runs[updates[0]].start, runs[updates[-1]].end] == [0, busy]
    arrived = max((copy.end for copy in plan.copies if copy.dst == "host"), default=0)
    readers = [k for k, op in enumerate(graph.ops) if {*op.reads} & {*graph.ops[changes[0]].writes}]
    last = max((runs[k].end for k in readers if k not in updates), default=0)
    assert runs[changes[0]].start == max(busy, arrived, last)


def tiny(seed: int) -> lt.Graph:
    """`two_layers` with an activation, sizes, durations and workspace at random."""
    random, plain = Random(seed), two_layers()
    tensors = [replace(t, nbytes=random.randint(1, 4)) for t in plain.tensors]
    tensors.append(lt.Tensor(name="x", nbytes=random.randint(1, 4)))
    ops = []
    for op in plain.ops:
        kind = op.modes[0].processors
        workspace = random.randint(0, 2) if kind == ("gpu",) else 0
        mode = lt.Mode(duration_ns=100 * random.randint(1, 60), workspace=workspace, processors=kind)
        reads = (*op.reads, 6) if op.name in ("b1", "b0") else op.reads
        writes = (6,) if op.name == "f" else op.writes
        ops.append(replace(op, reads=reads, writes=writes, modes=(mode,), duration_ns=mode.duration_ns))
    return replace(plain, tensors=tuple(tensors), ops=tuple(ops))


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(8, least=2))
def test_no_plan_is_faster_than_exhaustive_search(block: int) -> None:
    """Of both systems; nor is a bound above it."""
    found = 0
    for seed in range(5 * block, 5 * block + 5):
        random, graph = Random(seed), tiny(seed)
        bucket = sum(graph.tensors[t].nbytes for t in (2, 3)) - random.randint(0, 2)
        problem = lt.Placement(graph, bench(rule(graph, bucket)), whole=True)
        for name, home in (("zero-offload", 0), ("zero-infinity", 1)):
            start = {0: home, 1: home, 4: 1, 5: 1}
            best = fastest(problem, start, 60_000)
            if best is None:
                continue
            limits = StepLimits(
                prefetch=random.randint(0, 9),
                live=9,
                reuse=random.randint(0, 9),
                buffer=0,
                group=1,
                persistent=0,
            )
            cpu, gpu = problem.machine.processors
            policy = (
                Offload(problem, gpu, cpu, bucket)
                if name == "zero-offload"
                else Infinity(problem, gpu, cpu, bucket, "host", limits)
            )
            plan = policy.carry_out()
            assert heads_bound(problem) <= best, (seed, name)
            if isinstance(plan, lt.Plan):
                objective = problem.judge(plan).objective
                assert objective is not None, (seed, name)
                assert objective >= best, (seed, name)
                found += 1
    assert found > 2


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("seed", seeds(100, least=25))
def test_it_refuses_exactly_what_does_not_fit(seed: int, accounting: Accounting) -> None:
    graph = replace(trained(seed), accounting=accounting)
    start = {"input": ("gpu",)} if seed % 3 else None
    gradients = sum(t.nbytes for t in graph.tensors if t.kind == "gradient")
    for bucket in (gradients + 1, gradients // 2 + 1, 12):
        needed = rule(graph, bucket)
        problem = lt.Placement(graph, bench(needed), periodic=bool(seed % 2), start=start)
        plan = carried_out(problem, bucket)
        if isinstance(plan, str):
            assert "gradients of" in plan
            assert bucket < gradients
            continue
        judgement = problem.judge(plan)
        assert judgement.objective is not None, judgement.verification
        durations = {
            kind: sum(op.modes[0].duration_ns for op in graph.ops if kind in op.modes[0].processors)
            for kind in ("gpu", "cpu")
        }
        assert judgement.objective >= max(durations.values())
        if bucket > gradients and start:  # nothing holds the GPU up
            assert max(run.end for run in plan.runs if run.processor == "gpu0") == durations["gpu"]
        refused = carried_out(replace(problem, machine=bench(needed - 1)), bucket)
        assert f"exceed {needed - 1} bytes" in str(refused)


def test_results_and_refusals() -> None:
    """The method: its bound, a host that is too small, machines and graphs that it does not serve."""
    graph = trained(1)
    result = lt.solve(lt.Placement(graph, bench(10**10)), "zero-offload")
    assert result.plan is not None
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= result.objective
    states = sum(t.nbytes for t in graph.tensors if t.kind == "state")
    small = lt.solve(lt.Placement(graph, bench(10**10, states - 1)), "zero-offload")
    assert (small.plan, small.status) in ((None, "unknown"), (None, "infeasible"))
    assert "exceed 99 bytes" in lt.solve(lt.Placement(graph, bench(99)), "zero-offload").detail
    one = lt.load_machine("v100-16g-pcie3")
    with pytest.raises(lt.UsageError, match="found 1 processors, expected two with a tier each"):
        lt.solve(lt.Placement(lt.load("gen:chain?n=3"), one), "zero-offload")
    early = replace(two_layers(), ops=(*two_layers().ops[:3], *two_layers().ops[3:], two_layers().ops[0]))
    fault = carried_out(lt.Placement(early, bench(None)), 8)
    assert "op 5 'f' of the GPU depends on what runs on the host's processor before it" in str(fault)


def eager(problem: lt.Placement) -> lt.Plan:
    """Return a steady state in which gradients leave, updates run and weights return as soon as they can.

    Copies of weights go on beside the next iteration until its first use of each.
    """
    graph, latency = problem.graph, problem.machine.channels[0].latency_ns
    free = {"gpu": 0, "cpu": 0, "out": 0, "in": 0}
    size, rate = [t.nbytes for t in graph.tensors], {"out": 1_000_000, "in": 2_000_000}
    there: dict[int, int] = {}
    runs, copies, ends = [], [], dict[int, int]()

    def copied(t: int, way: str, begin: int) -> tuple[int, int]:
        begin = max(begin, free[way])
        free[way] = begin + latency - (-size[t] * 10**9 // rate[way])
        return begin, free[way]

    for k, op in enumerate(graph.ops):
        (kind,), duration = op.modes[0].processors, op.modes[0].duration_ns
        readers = [ends[j] for j in range(k) if {*graph.ops[j].reads} & {*op.writes}]
        begin = max([free[kind], *readers, *(there.get(t, 0) for t in op.reads)])
        ends[k] = free[kind] = begin + duration
        runs.append((k, begin, ends[k], "gpu0" if kind == "gpu" else "cpu0"))
        for t in op.writes:
            if t in (2, 3):
                copies.append((t, "gpu", "host", *copied(t, "out", ends[k])))
                there[t] = copies[-1][-1]
            if t in (0, 1):
                copies.append((t, "host", "gpu", *copied(t, "in", ends[k])))
    uses = {t: [run for run in runs if run[3] == "gpu0" and t in graph.ops[run[0]].reads] for t in (0, 1)}
    back = {t: (begin, end) for t, src, _, begin, end in copies if src == "host"}
    period = max(
        *(run[2] for run in runs),
        *(end for _, src, _, _, end in copies if src == "gpu"),
        *(back[t][1] - uses[t][0][1] for t in (0, 1)),
        max(end for _, end in back.values()) - min(begin for begin, _ in back.values()),
    )
    out = PlanBuilder(graph, problem.machine)
    for t in (4, 5):
        out.start(t, "host")
    for k, begin, end, processor in runs:
        out.run(k, 0, begin, end, processor)
    for t, src, dst, begin, end in copies:
        if src == "gpu":
            out.copy(t, src, dst, begin, end)
            out.free(t, src, end)
            out.free(t, dst, next(run[2] for run in runs if t in graph.ops[run[0]].reads))
            continue
        late = period if begin >= period else 0
        out.copy(t, src, dst, begin - late, end - late)
        out.free(t, src, end - period if end > period else end)
        out.free(t, dst, uses[t][-1][2])
        if end > period:
            out.start(t, "host")
        if begin < period:
            out.start(t, "gpu", valid=end <= period)
    out.free(6, "gpu", max(run[2] for run in runs if 6 in graph.ops[run[0]].reads))
    return out.plan(period=period)


@pytest.mark.parametrize("seed", seeds(80, least=20))
def test_no_period_is_shorter_than_the_bound(seed: int) -> None:
    problem = lt.Placement(tiny(seed), bench(None, latency=700 * (seed % 2)), periodic=True)
    judgement = problem.judge(eager(problem))
    assert judgement.objective is not None, judgement.verification
    assert heads_bound(problem) <= judgement.objective


def test_some_bounds_are_periods() -> None:
    met = 0
    for seed in range(60):
        problem = lt.Placement(tiny(seed), bench(None, latency=700 * (seed % 2)), periodic=True)
        single = heads_bound(replace(problem, periodic=False))
        bound = heads_bound(problem)
        met += single < bound == eager(problem).period
    assert met > 10
