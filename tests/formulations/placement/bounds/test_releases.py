"""Release times: hand-worked cases, exhaustive search, and no verified plan below the bound."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.releases import release_bound
from lowtide.formulations.placement.bounds.windows import windows
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.bounds.prices import sample_data
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.problems.placement import machine, random_graph, tiny_graph, working_set
from tests.random_plans import random_case

NS = 10**9


def two_inputs(first: int = 12, second: int = 4) -> lt.Graph:
    """Three ops of 1000 ns; the second and the third read an input each."""
    x = lt.Tensor(name="x", nbytes=first, kind="input", initial=True)
    y = lt.Tensor(name="y", nbytes=second, kind="input", initial=True)
    ops = [lt.Op(name=f"op{k}", reads=reads, duration_ns=1000) for k, reads in enumerate([(), (0,), (1,)])]
    return lt.Graph(name="two inputs", tensors=(x, y), ops=tuple(ops))


@pytest.mark.parametrize(
    ("start", "latency", "expected"),
    [
        (None, 0, 0),  # periodic: anywhere
        (("gpu", "ssd"), 0, 0),
        (("ssd",), 0, 9000),  # 16 bytes at 2 MB/s, then the third op
        (("ssd",), 50, 9050),
        (("host",), 0, 4000),  # 12 bytes at 6 MB/s, then two ops
        (("host", "ssd"), 0, 4000),  # 12 bytes at 6 MB/s, the joint cap
    ],
)
def test_inputs_pass_their_channel_before_they_are_read(
    start: tuple[str, ...] | None, latency: int, expected: int
) -> None:
    starts = None if start is None else {"input": start}
    problem = Placement(two_inputs(), machine(100, None, latency=latency), periodic=True, start=starts)
    assert release_bound(problem) == expected
    result = lt.solve(problem, threads=1)
    assert result.bound == max(expected, 3000)
    assert result.bound_kind == ("release times" if expected else "sum of durations")
    assert result.objective is not None
    assert result.objective <= result.bound + 1 + 3 * latency  # in chunks, rounded up to whole ns


def test_without_the_joint_cap_both_channels_carry() -> None:
    problem = Placement(
        two_inputs(), machine(100, None, shared=False), periodic=True, start={"input": ("host", "ssd")}
    )
    assert release_bound(problem) == 3500  # 12 bytes at 6 and 2 MB/s


def test_on_a_way_of_two_channels_both_latencies_count() -> None:
    bench = machine(100, None, latency=70)
    channels = (lt.Channel(src="ssd", dst="host", bytes_per_s=4_000_000, latency_ns=300), *bench.channels[:3])
    behind = replace(bench, channels=channels, groups=())  # the SSD leads to the host only
    problem = Placement(two_inputs(), behind, periodic=True, start={"input": ("ssd",)})
    assert release_bound(problem) == 370 + 3000 + 2000  # at the SSD: 12 bytes at 4 MB/s, then two ops


def test_what_a_processor_reads_where_it_is_needs_no_copy() -> None:
    bench = machine(100, None)
    reader = lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"), lt.Access(tier="ssd")))
    problem = Placement(two_inputs(), replace(bench, processors=(reader,)), start={"input": ("ssd",)})
    assert release_bound(problem) == 0


def test_several_processors_start_their_ops_when_they_like() -> None:
    graph = two_inputs()
    bench = machine(100, None)
    two = tuple(replace(bench.processors[0], name=name) for name in ("gpu0", "gpu1"))
    problem = Placement(graph, replace(bench, processors=two), start={"input": ("ssd",)})
    assert release_bound(problem) == 12 * 500 + 1000


def test_what_is_overwritten_or_outlives_the_period_is_not_late() -> None:
    x = lt.Tensor(name="x", nbytes=9, initial=True)
    ops = (lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,)))
    graph = lt.Graph(name="overwritten", tensors=(x,), ops=ops)
    starts = {"other": ("ssd",), "activation": ("ssd",)}
    assert release_bound(Placement(graph, machine(100, None), start=starts)) == 0
    kept = replace(graph, tensors=(replace(x, final=True),), ops=ops[::-1])
    assert release_bound(Placement(kept, machine(100, None), periodic=True, start=starts)) == 0
    assert release_bound(Placement(kept, machine(100, None), start=starts)) > 0


@pytest.mark.parametrize("seed", seeds(60))
def test_exhaustive_search_is_never_faster(seed: int) -> None:
    """Tensors that start on the host, all of them or the inputs only; often the bound is the optimum."""
    graph = tiny_graph(seed)
    bench = machine(working_set(graph) + 100, None, ssd=False)
    start = {"input": ("host",), "weight": ("host",) if seed % 2 else ("gpu",)}
    problem = Placement(graph, bench, whole=True, start=start)
    places = {
        t: COPY if problem.may_start(x.kind) == ("host",) else DEVICE for t, x in enumerate(graph.tensors)
    }
    best = fastest(graph, bench, {t: places[t] for t, x in enumerate(graph.tensors) if x.initial})
    assert best is not None
    assert release_bound(problem) <= best
    late = [t for t, x in enumerate(graph.tensors) if x.initial and places[t] == COPY]
    if len(late) == 1 and release_bound(problem) and graph.tensors[late[0]].nbytes:
        durations = sum(op.duration_ns for op in graph.ops)
        assert best == max(release_bound(problem), durations)  # room for everything, one copy


@pytest.mark.parametrize("seed", seeds(24))
def test_no_plan_of_the_steady_state_is_faster(seed: int) -> None:
    graph = random_graph(seed)
    graph = replace(
        graph,
        tensors=tuple(replace(t, nbytes=t.nbytes * 40) if t.kind == "input" else t for t in graph.tensors),
    )
    start = [("ssd",), ("host",), ("host", "ssd")][seed % 3]
    bench = machine(working_set(graph) + 10 * (seed % 4), None, latency=seed % 2 * 500)
    problem = Placement(graph, bench, periodic=seed % 4 > 0, start={"input": start})
    result = lt.solve(problem, "planner", threads=1)
    if result.objective is not None:
        data = sample_data(problem)
        assert release_bound(problem, windows(data)) <= result.objective
        assert release_bound(problem) <= release_bound(problem, windows(data))


def test_windows_behind_the_release_add_their_stalls() -> None:
    """The input comes for 6000 ns; later a weight must leave and come back between two ops."""
    x = lt.Tensor(name="x", nbytes=12, kind="input", initial=True)
    w = lt.Tensor(name="w", nbytes=50, kind="weight", initial=True, final=True)
    t = lt.Tensor(name="t", nbytes=50)
    ops = (
        lt.Op(name="a", reads=(0, 1), duration_ns=1000),
        lt.Op(name="b", writes=(2,), duration_ns=1000),
        lt.Op(name="c", reads=(1,), duration_ns=1000),
    )
    graph = lt.Graph(name="leave", tensors=(x, w, t), ops=ops)
    problem = Placement(graph, machine(62, None), periodic=True, start={"input": ("ssd",)})
    alone, behind = release_bound(problem), release_bound(problem, windows(sample_data(problem)))
    assert alone == 6000 + 3000
    assert behind > alone
    result = lt.solve(problem, threads=1)
    assert result.bound is not None
    assert behind <= result.bound <= (result.objective or 0)


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ["tiered", "periodic"])
def test_no_random_plan_on_any_machine_is_faster(flavour: str) -> None:
    """Modes, joint caps, latencies, slow accesses, several processors, two to three tiers."""
    counted = 0
    for seed in range(300):
        case = random_case(Random(f"releases {flavour} {seed}"), flavour)
        rng = np.random.default_rng(seed)
        plan, tiers = case.plan, [tier.name for tier in case.plan.machine.tiers]
        used: dict[str, set[str]] = {}
        for entry in plan.start:
            used.setdefault(case.graph.tensors[entry.tensor].kind, set()).add(entry.tier)
        start = {
            kind: tuple(x for x in tiers if x in some or rng.random() < 0.2) for kind, some in used.items()
        }
        if not case.graph.ops:
            continue
        try:
            problem = Placement(case.graph, plan.machine, periodic=plan.period is not None, start=start)
        except lt.InstanceError:
            continue
        judged = problem.judge(replace(plan, start_tiers=None))
        if judged.objective is not None:
            counted += release_bound(problem) > 0
            assert release_bound(problem) <= judged.objective
    assert counted >= 3


@pytest.mark.parametrize("seed", range(4))
def test_windows_end_with_the_time_and_those_found_stay(seed: int) -> None:
    graph = random_graph(seed)
    problem = Placement(graph, machine(working_set(graph), None), periodic=True)
    data = sample_data(problem)
    whole, looks = windows(data), iter(range(1, 10**6))
    assert windows(data, lambda: next(looks) > len(graph.ops)) == whole
    assert next(looks) == len(graph.ops) + 1, "one look for each op"
    for count in (0, 1, len(graph.ops) // 2):
        looks = iter(range(1, 10**6))
        part = windows(data, lambda looks=looks, count=count: next(looks) > count)  # type: ignore[misc]
        assert set(part) <= set(whole)
        assert {w.instant // 2 % len(graph.ops) for w in part} <= set(range(count))
        assert bool(part) == (count > 1) or count == 1
