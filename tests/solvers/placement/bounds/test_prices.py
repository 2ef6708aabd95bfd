"""Bounds by windows and by prices: never above a plan, exact in small cases, safe whatever the prices are."""

from dataclasses import replace

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.prices import price_bound, window_prices
from lowtide.formulations.placement.bounds.samples_lp import build, sampled_prices
from lowtide.formulations.placement.bounds.windows import disjoint, windows
from lowtide.instances import load_problem
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs_lp import dual_values
from lowtide.solvers.placement.bounds.prices import price_rounds, sample_data, unsampled
from lowtide.solvers.placement.planner.method import planned
from lowtide.solvers.placement.planner.setting import PlannerSetting
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.problems.placement import machine, random_graph, tiny_placement, working_set
from tests.solvers.placement.bounds.price_cases import any_prices, overwritten


def by_program(problem: Placement, samples: list[int] | None = None) -> int:
    """Return the bound of the linear program at some samples, or at every instant."""
    data = sample_data(problem)
    sampled = build(data, samples or range(2 * len(data.duration)))
    values = dual_values(sampled.program, Context(problem=problem), 60)
    assert values is not None
    return price_bound(data, sampled_prices(data, sampled, values))


def by_windows(problem: Placement) -> int:
    """Return the bound of the best windows, after a look at whether their prices say the same."""
    data = sample_data(problem)
    chosen = disjoint(windows(data), data)
    if not chosen:
        return 0
    low = sum(w.stall for w in chosen)
    bound = price_bound(data, window_prices(data, chosen))
    assert low - len(chosen) - low // 10**6 <= bound <= low  # each stall is rounded up by itself
    return max(low, bound)


def stall_of_plans(problem: Placement) -> int | None:
    """Return the least stall of some plans."""
    ideal = sum(op.duration_ns for op in problem.graph.ops)
    found = []
    for setting in (
        PlannerSetting(chunk=1, slots=0),
        PlannerSetting(chunk=2),
        PlannerSetting(chunk=9, gate=False, lead=40),
    ):
        plan = planned(problem, setting)
        if isinstance(plan, lt.Plan):
            objective = problem.judge(plan).objective
            assert objective is not None
            found.append(objective - ideal)
    return min(found, default=None)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("seed", seeds(40))
def test_no_plan_is_below_the_bounds(seed: int, periodic: bool) -> None:
    graph = random_graph(seed)
    if seed % 3 == 0:
        graph = overwritten(graph, seed)
    rng = np.random.default_rng(seed)
    bench = machine(working_set(graph) + int(rng.integers(0, 9)), [None, 10][seed % 2], shared=seed % 5 > 0)
    problem = Placement(graph, bench, periodic=periodic, start={"input": ("gpu", "host", "ssd")})
    stall = stall_of_plans(problem)
    if stall is None:
        return
    assert by_windows(problem) <= stall
    bound = by_program(problem)
    assert bound <= stall
    few = sorted({int(c) for c in rng.integers(0, 2 * len(graph.ops), size=5)})
    assert by_program(problem, few) <= stall
    data = sample_data(problem)
    for k in range(20):
        assert price_bound(data, any_prices(data, 100 * seed + k)) <= stall


@pytest.mark.parametrize("seed", seeds(60))
def test_no_optimum_of_a_tiny_run_is_below_the_bounds(seed: int) -> None:
    problem = tiny_placement(seed)
    assert problem.start is not None
    start = {
        t: DEVICE if problem.start[str(tensor.kind)] == ("gpu",) else COPY
        for t, tensor in enumerate(problem.graph.tensors)
        if tensor.initial
    }
    optimum = fastest(problem.graph, problem.machine, start)
    if optimum is None:
        return
    stall = optimum - sum(op.duration_ns for op in problem.graph.ops)
    assert by_windows(problem) <= stall
    assert by_program(problem) <= stall
    data = sample_data(problem)
    for k in range(20):
        assert price_bound(data, any_prices(data, 100 * seed + k)) <= stall


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
    assert by_windows(problem) == 1800 + 1500
    assert by_program(problem) == 1800 + 1500
    plan = planned(problem, PlannerSetting(chunk=3, lead=0, slots=0))
    assert isinstance(plan, lt.Plan)
    objective = problem.judge(plan).objective
    assert objective is not None
    assert objective - ideal >= 3300


def test_a_single_run_need_not_bring_the_weight_back() -> None:
    problem = Placement(chain(12, 1000), machine(15, None, ssd=False), start={"weight": ("gpu",)})
    assert by_windows(problem) == 1800
    assert by_program(problem) == 1800


def test_what_starts_outside_must_come_in_first() -> None:
    problem = Placement(chain(12, 1000), machine(15, None, ssd=False), start={"weight": ("host",)})
    assert by_program(problem) == 2000 + 1800  # 12 bytes at 6 MB/s before `update`, then 9 at 5 MB/s


def test_what_is_overwritten_unread_need_not_be_anywhere() -> None:
    graph = chain(12, 1000)
    update = replace(graph.ops[0], reads=())
    problem = Placement(replace(graph, ops=(update, graph.ops[1])), machine(15, None, ssd=False))
    again = replace(problem.graph, ops=(*problem.graph.ops, update))
    assert by_program(replace(problem, graph=again)) == 0
    assert by_program(problem) == 1800


@pytest.mark.parametrize("seed", seeds(10))
def test_prices_are_as_good_as_the_program(seed: int) -> None:
    """All instants sampled: windows say no more than the program, up to the rounding of its solver."""
    graph = random_graph(seed)
    problem = Placement(graph, machine(working_set(graph), [None, 10][seed % 2]), periodic=seed % 3 > 0)
    data = sample_data(problem)
    low = price_bound(data, window_prices(data, disjoint(windows(data), data)))
    assert by_program(problem) >= low - 1 - low // 10**5


def test_prices_that_prove_too_much_are_refused() -> None:
    problem = Placement(chain(12, 1000), machine(15, None, ssd=False), periodic=True)
    data = sample_data(problem)
    good = window_prices(data, disjoint(windows(data), data))
    assert price_bound(data, good) == 3300
    dear = tuple(tuple(3 * p for p in row) for row in good.carried)
    with pytest.raises(ValueError, match="worth more"):
        price_bound(data, replace(good, carried=dear))
    with pytest.raises(ValueError, match="below 0"):
        price_bound(data, replace(good, memory=tuple(-p for p in good.memory)))
    with pytest.raises(ValueError, match="without a capacity"):
        price_bound(data, replace(good, room=(tuple(1 for _ in good.samples),)))


def test_rounds_raise_the_bound_of_a_single_run() -> None:
    problem = load_problem(
        lt.Placement, "gen:skipchain?n=40,seed=1,machine=v100-16g-pcie3,device=900MB,start=gpu"
    )
    found = list(price_rounds(problem, Context(problem=problem, time_limit=60), lambda: False))
    kinds = [kind for _, kind, _ in found]
    assert kinds[0] == "windows"
    assert "prices" in kinds
    assert max(bound for *_, bound in found) >= found[0][2] > 0


def test_what_the_bound_does_not_cover_is_refused() -> None:
    problem = Placement(chain(12, 1000), machine(15, None), periodic=True)
    bound = replace(problem.graph.ops[0], modes=(lt.Mode(duration_ns=1, operands=((0, "host"),)),))
    graph = replace(problem.graph, ops=(bound, problem.graph.ops[1]))
    assert unsampled(problem) == ""
    assert "modes that name tiers" in unsampled(replace(problem, graph=graph))
    slow = lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu", bytes_per_s=1000),))
    machine_of_slow = replace(problem.machine, processors=(slow,))
    assert "slows down" in unsampled(replace(problem, machine=machine_of_slow))
