"""Bounds by sampled states: never above a plan, exact in small cases, safe whatever the multipliers are."""

from dataclasses import replace

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.linear_program import dual_bound
from lowtide.formulations.placement_samples import build
from lowtide.models.placement import Placement
from lowtide.solvers.algorithms.placement.planner import Setting, planned
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs_lp import dual_values
from lowtide.solvers.placement_samples import DENOMINATOR, chosen_samples, sample_data
from tests.placement_cases import machine, random_graph, working_set


def bound_of(problem: Placement, stall: int, samples: list[int] | None = None) -> int:
    data = sample_data(problem, stall)
    program = build(data, samples or chosen_samples(data, None, 0, 0))
    values = dual_values(program, Context(problem=problem), 60)
    assert values is not None
    return dual_bound(program, [round(y * DENOMINATOR) for y in values], DENOMINATOR)


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_is_below_the_bound(seed: int) -> None:
    graph = random_graph(seed)
    ideal = sum(op.duration_ns for op in graph.ops)
    rng = np.random.default_rng(seed)
    bench = machine(working_set(graph) + int(rng.integers(0, 9)), [None, 10][seed % 2], shared=seed % 5 > 0)
    problem = Placement(graph, bench, periodic=True, start={"input": ("gpu", "host", "ssd")})
    plans = [
        planned(problem, setting)
        for setting in (Setting(chunk=1, slots=0), Setting(chunk=2), Setting(chunk=9, gate=False, lead=40))
    ]
    stalls = [plan.period - ideal for plan in plans if isinstance(plan, lt.Plan) and plan.period is not None]
    if not stalls:
        return
    bound = bound_of(problem, max(stalls))
    assert 0 <= bound <= min(stalls)
    few = sorted({int(c) for c in rng.integers(0, 2 * len(graph.ops), size=5)})
    assert bound_of(problem, max(stalls), few) <= min(stalls)


def chain(nbytes: int, duration: int) -> lt.Graph:
    """One weight that an op updates; a second op fills the memory."""
    return lt.Graph(
        name="swap",
        tensors=(
            lt.Tensor(name="w", nbytes=nbytes, kind="weight", initial=True, final=True),
            lt.Tensor(name="x", nbytes=nbytes),
        ),
        ops=(
            lt.Op(name="update", reads=(0,), writes=(0,), duration_ns=duration),
            lt.Op(name="fill", writes=(1,), duration_ns=duration),
        ),
    )


def test_a_weight_that_must_leave_and_return_each_time() -> None:
    problem = Placement(chain(12, 1000), machine(15, None, ssd=False), periodic=True)
    ideal = 2000
    # of 15 bytes 12 are for x: 9 leave at 5 MB/s between `update` and `fill`, and return at 6 MB/s behind it
    bound = bound_of(problem, 10**6)
    assert bound == 1800 + 1500
    plan = planned(problem, Setting(chunk=3, lead=0, slots=0))
    assert isinstance(plan, lt.Plan)
    objective = problem.judge(plan).objective
    assert objective is not None
    assert objective - ideal >= bound


def test_any_multipliers_give_a_bound() -> None:
    problem = Placement(chain(12, 1000), machine(15, None, ssd=False), periodic=True)
    data = sample_data(problem, 10**6)
    program = build(data, [0, 1, 2, 3])
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = [int(y) for y in rng.integers(0, 2**20, size=len(program.low))]
        assert dual_bound(program, values, 2**20 * 10**9) <= 3300
    assert dual_bound(program, [0] * len(program.low), 1) == 0


def test_what_the_bound_does_not_cover_is_refused() -> None:
    problem = Placement(chain(12, 1000), machine(15, None), periodic=True)
    with pytest.raises(lt.UsageError, match="a single run"):
        sample_data(replace(problem, periodic=False), 0)
    path = (*problem.machine.channels, lt.Channel(src="host", dst="ssd", bytes_per_s=1000))
    with pytest.raises(lt.UsageError, match="a channel between outer tiers"):
        sample_data(replace(problem, machine=replace(problem.machine, channels=path)), 0)
