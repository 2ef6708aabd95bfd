"""ZeRO-Infinity: by hand, its rule to the byte, limits that are kept, ZeRO-Offload where nothing leaves."""

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.policies.zero_infinity import Infinity, StepLimits
from tests.effort import seeds
from tests.solvers.placement.policies.zero_training import (
    bench,
    carried_out,
    delayed_layers,
    rule,
    trained,
    two_layers,
)

AMPLE = StepLimits(prefetch=10**6, live=10**6, reuse=10**6, buffer=10**6, group=10**6, persistent=0)


def with_drive(machine: lt.Machine) -> lt.Machine:
    """The machine and a drive behind the host, 1 byte per 2 us each way."""
    ways = (("host", "nvme"), ("nvme", "host"))
    channels = (lt.Channel(src=a, dst=b, bytes_per_s=500_000) for a, b in ways)
    return replace(
        machine, tiers=(*machine.tiers, lt.Tier(name="nvme")), channels=(*machine.channels, *channels)
    )


def carried(problem: lt.Placement, bucket: int, home: str, limits: StepLimits) -> lt.Plan | str:
    cpu, gpu = problem.machine.processors
    return Infinity(problem, gpu, cpu, bucket, home, limits).carry_out()


def step(problem: lt.Placement, bucket: int, home: str, limits: StepLimits = AMPLE) -> int:
    plan = carried(problem, bucket, home, limits)
    assert isinstance(plan, lt.Plan), plan
    judgement = problem.judge(plan)
    assert judgement.objective is not None, judgement.verification
    return int(judgement.objective)


def gpu_end(problem: lt.Placement, limits: StepLimits) -> int:
    plan = carried(problem, 8, "host", limits)
    assert isinstance(plan, lt.Plan), plan
    return max(run.end for run in plan.runs if run.processor == "gpu0")


@pytest.mark.parametrize("periodic", [False, True])
def test_parameters_come_for_their_ops(periodic: bool) -> None:
    problem = lt.Placement(two_layers(), bench(None), periodic=periodic)
    # w0 and w1 arrive at 2000 and 4000, f ends at 5000, b1 at 6000, b0 at 7000. The gradients are on the host
    # at 10 000 and 14 000; Adam until 20 000. What it writes rests there.
    assert step(problem, 8, "host") == 20_000
    assert gpu_end(problem, AMPLE) == 7000
    # Without reuse w0 goes behind f; it returns beside b1, whose end it comes with at 7000, or behind b1.
    assert gpu_end(problem, AMPLE._replace(reuse=0)) == 8000
    assert gpu_end(problem, AMPLE._replace(reuse=0, prefetch=3)) == 9000
    # Small parameters stay, and are those of zero-offload.
    assert step(problem, 8, "host", AMPLE._replace(persistent=5)) == 18_000


@pytest.mark.parametrize("group", [4, 99])
def test_states_come_from_the_drive_and_go_back(group: int) -> None:
    problem = lt.Placement(two_layers(), with_drive(bench(None)), periodic=True)
    # A tensor takes 8000 ns from or to the drive: w0 and w1 are on the host at 8000 and 16 000, w1 on the GPU
    # at 18 000, b0 ends at 21 000, g0 is on the host at 28 000. The states come at 36 000 and 44 000, and
    # behind Adam w1, its state, w0 and its state leave: from 39 000 to 71 000.
    assert step(problem, 8, "nvme", AMPLE._replace(group=group)) == 71_000
    # A buffer of one parameter: w1 is read when f is due, no sooner than with a larger one, for f needs both.
    assert step(problem, 8, "nvme", AMPLE._replace(group=group, buffer=4)) == 71_000


def test_a_third_group_waits_for_the_first_to_be_written() -> None:
    graph = two_layers()
    tensors = list(graph.tensors)
    for kind in ("weight", "gradient", "state"):
        like = next(t for t in tensors if t.kind == kind)
        tensors.append(replace(like, name=f"{kind}2"))  # 6, 7, 8
    f, b1, u1, b0, u0 = graph.ops
    third = (
        replace(b0, name="b2", reads=(6,), writes=(7,)),
        replace(u0, name="u2", reads=(7, 8), writes=(6, 8)),
    )
    graph = replace(graph, tensors=tuple(tensors), ops=(f, b1, u1, b0, u0, *third))
    problem = lt.Placement(graph, with_drive(bench(None)), periodic=True)
    plan = carried(problem, 99, "nvme", AMPLE._replace(group=4))
    assert isinstance(plan, lt.Plan)
    assert problem.judge(plan).objective is not None
    copies = {(graph.tensors[c.tensor].name, c.dst): c for c in plan.copies if "nvme" in (c.src, c.dst)}
    assert copies["state0", "host"].start == copies["state1", "host"].end
    assert copies["state2", "host"].start == copies["state1", "nvme"].end > copies["state0", "host"].end


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("seed", seeds(80, least=20))
def test_it_refuses_exactly_what_does_not_fit(seed: int, accounting: Accounting) -> None:
    """And keeps to its limits: the verifier sees the device, the copies are counted."""
    random = Random(seed)
    graph = replace(trained(seed), accounting=accounting)
    limits = StepLimits._make([*(random.randint(0, 20) for _ in range(5)), random.choice((0, 1, 2, 99))])
    on_gpu = [op for op in graph.ops if "gpu" in op.modes[0].processors]
    kept = {
        t
        for t, x in enumerate(graph.tensors)
        if x.initial and x.final and any(t in op.reads for op in on_gpu)
        if x.nbytes >= limits.persistent and not any(t in op.writes for op in on_gpu)
    }
    window = max(sum(graph.tensors[t].nbytes for t in kept & {*op.reads}) for op in on_gpu)
    bucket = sum(t.nbytes for t in graph.tensors if t.kind == "gradient") + 1
    needed = rule(graph, bucket) - sum(graph.tensors[t].nbytes for t in kept) + window
    machine = with_drive(bench(needed))
    problem = lt.Placement(graph, machine, periodic=bool(seed % 2), start={"input": ("gpu",)})
    home = random.choice(("host", "nvme"))
    plan = carried(problem, bucket, home, limits)
    assert isinstance(plan, lt.Plan), plan
    judgement = problem.judge(plan)
    assert judgement.objective is not None, judgement.verification
    fetched = [c for c in plan.copies if c.tensor in kept and c.dst == "gpu"]
    assert {c.tensor for c in fetched} == {t for t in kept for op in on_gpu if t in op.reads}
    if home == "host":
        assert not any("nvme" in (c.src, c.dst) for c in plan.copies)
    tight = replace(problem, machine=with_drive(bench(needed - 1)))
    assert f"exceed {needed - 1} bytes" in str(carried(tight, bucket, home, limits))
    if not limits.prefetch:  # then nothing comes before it is due
        runs = {run.op: run for run in plan.runs}
        for c in (c for c in fetched if graph.tensors[c.tensor].nbytes):
            due = min(
                runs[k].start
                for k, op in enumerate(graph.ops)
                if c.tensor in op.reads and runs[k].start >= c.end
            )
            ends = [run.end for run in plan.runs if run.processor == "gpu0" and run.end <= due]
            assert c.start >= max(ends, default=0)


@pytest.mark.parametrize("seed", seeds(20))
def test_where_all_parameters_stay_it_is_zero_offload(seed: int) -> None:
    graph = trained(seed)
    bucket = sum(t.nbytes for t in graph.tensors if t.kind == "gradient") + 1
    problem = lt.Placement(
        graph, bench(rule(graph, bucket)), periodic=bool(seed % 2), start={"input": ("gpu",)}
    )
    limits = StepLimits._make([*(seed % 7 for _ in range(5)), 10**9])
    assert carried(problem, bucket, "host", limits) == carried_out(problem, bucket)


def test_results_and_refusals() -> None:
    """The method: where parameters rest by default, and what it does not serve."""
    problem = lt.Placement(two_layers(), with_drive(bench(10**10)), periodic=True)
    options = {"persistent": "0"}
    found = lt.solve(problem, "zero-infinity", options=options)
    assert found.objective == step(problem, 10**9, "nvme")
    assert found.bound is not None
    assert found.bound <= found.objective
    host = lt.solve(problem, "zero-infinity", options={**options, "home": "host"})
    assert (
        host.objective
        == lt.solve(replace(problem, machine=bench(10**10)), "zero-infinity", options=options).objective
    )
    with pytest.raises(lt.UsageError, match="expected a drive, or home=host"):
        lt.solve(replace(problem, machine=bench(None)), "zero-infinity", options={"home": "drive"})
    delayed = lt.Placement(delayed_layers(), bench(None), periodic=True)
    assert "reads no gradient, as delayed updates do" in str(carried(delayed, 8, "host", AMPLE))
    nowhere = replace(problem, start={"weight": ("gpu",)})
    assert "may start in no tier" in str(carried(nowhere, 8, "nvme", AMPLE))
