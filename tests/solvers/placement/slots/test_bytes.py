"""The slot model: plans verify, bounds are below every plan, and both meet where bytes are many."""

import itertools
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.single_ops import window_bound
from lowtide.formulations.placement.slots import bytes_lp as placement_slots
from lowtide.formulations.placement.slots.bytes_lp import build
from lowtide.formulations.placement.states import state_data
from lowtide.instances import load_problem
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs_lp import primal_values
from lowtide.solvers.placement.slots.bytes import plan_in_rounds, raise_by_slots
from lowtide.solvers.placement.slots.plan import decode
from tests.effort import seeds
from tests.oracles.brute_placement import fastest
from tests.problems.placement import machine, random_graph, tiny_placement, working_set
from tests.solvers.placement.graphs import scaled, weights
from tests.solvers.placement.slots.cases import start_of

SCALE = 10_000
STARTS = (None, {"input": ("gpu",), "weight": ("gpu",)}, {"input": ("host",), "weight": ("host", "gpu")})


def bound_of(problem: Placement) -> int:
    context = Context(problem=problem)
    raise_by_slots(state_data(problem), context)
    assert context.bound is not None
    return context.bound


def case(seed: int, *, ops: int = 12, latency: int = 0) -> Placement:
    """A random iteration on two or three tiers, with little room, that may start in different places."""
    rng = np.random.default_rng(seed)
    graph = scaled(random_graph(seed, ops), SCALE)
    room = working_set(graph) + int(rng.integers(0, 20)) * SCALE
    host = None if seed % 2 else 120_000
    bench = machine(room, host, latency=latency, shared=seed % 3 > 0, ssd=seed % 4 > 1)
    return Placement(graph, bench, start=STARTS[seed % 3])


@pytest.mark.parametrize("seed", seeds(36))
def test_plans_verify_and_meet_their_bounds(seed: int) -> None:
    problem = case(seed)
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.status is not lt.Status.FAILED, result.detail
    if result.objective is None:  # only a host without room for what cannot stay
        assert problem.machine.tiers[1].capacity is not None
        assert result.status is lt.Status.INFEASIBLE or "no room on the way" in result.detail
        return
    assert result.bound is not None
    assert result.bound <= result.objective <= 1.002 * result.bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8, least=4))
def test_latencies_only_cost(seed: int) -> None:
    problem, late = case(seed), case(seed, latency=500)
    result = lt.solve(late, "slot-lp", threads=1)
    assert result.status is not lt.Status.FAILED, result.detail
    if result.objective is not None:
        assert result.objective >= bound_of(problem)


@pytest.mark.parametrize("seed", seeds(60))
def test_bounds_are_below_exhaustive_search(seed: int) -> None:
    problem = tiny_placement(seed)
    best = fastest(problem.graph, problem.machine, start_of(problem))
    data = state_data(problem)
    if best is not None:
        assert data.ideal <= window_bound(data) <= best
        assert bound_of(problem) <= best


def test_a_tensor_that_must_leave_and_return_takes_3500_ns() -> None:
    graph = lt.Graph(
        name="spill",
        tensors=(lt.Tensor(name="a", nbytes=10), lt.Tensor(name="b", nbytes=20)),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=100),
            lt.Op(name="fill", writes=(1,), duration_ns=100),
            lt.Op(name="use", reads=(0,), duration_ns=100),
        ),
    )
    # 10 bytes leave at 5 MB/s and return at 6 MB/s; nothing can happen meanwhile
    problem = Placement(scaled(graph, 1000), machine(20_000, None, ssd=False))
    result = lt.solve(problem, "slot-lp", threads=1)
    exact = 300_000 + 2_000_000 + 1_666_667
    assert result.status is lt.Status.OPTIMAL
    assert result.bound == result.objective == exact
    assert window_bound(state_data(problem)) == exact
    loose = Placement(scaled(graph, 1000), machine(25_000, None, ssd=False))
    assert bound_of(loose) == 300_000 + 1_000_000 + 833_334  # half of it


def test_what_does_not_fit_in_the_host_cannot_leave() -> None:
    graph = lt.Graph(
        name="spill",
        tensors=(lt.Tensor(name="a", nbytes=10), lt.Tensor(name="b", nbytes=20)),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=100),
            lt.Op(name="fill", writes=(1,), duration_ns=100),
            lt.Op(name="use", reads=(0,), duration_ns=100),
        ),
    )
    result = lt.solve(Placement(graph, machine(20, 9, ssd=False)), "slot-lp", threads=1)
    assert result.status is lt.Status.INFEASIBLE
    assert "30 bytes are needed then or later, expected at most 29" in result.detail
    tight = lt.solve(Placement(graph, machine(20, 10, ssd=False)), "slot-lp", threads=1)
    assert tight.status is lt.Status.OPTIMAL


@pytest.mark.parametrize(
    ("start", "host", "message"),
    [
        (("gpu",), None, "at time 0, 30 bytes must be in tier 'gpu', expected at most 20"),
        (("host",), 25, "at time 0, 30 bytes must be in tier 'host', expected at most 25"),
        (("gpu", "host"), 9, "30 bytes are needed then or later, expected at most 29"),
    ],
)
def test_what_cannot_start_anywhere(start: tuple[str, ...], host: int | None, message: str) -> None:
    problem = Placement(weights(10, 10, 10), machine(20, host, ssd=False), start={"weight": start})
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.status is lt.Status.INFEASIBLE
    assert message in result.detail


def test_a_host_as_full_as_the_device_lets_nothing_move_and_says_so() -> None:
    problem = Placement(weights(10, 10, 10), machine(10, 20, ssd=False), start={"weight": ("gpu", "host")})
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.status is lt.Status.UNKNOWN
    assert "may find no room on the way" in result.detail


@pytest.mark.parametrize("seed", seeds(80))
def test_what_is_called_infeasible_has_no_plan(seed: int) -> None:
    problem = case(2 * seed)
    rng = np.random.default_rng(seed)
    host = replace(problem.machine.tiers[1], capacity=int(rng.integers(1, 12)) * SCALE)
    tiers = (problem.machine.tiers[0], host, *problem.machine.tiers[2:])
    problem = replace(problem, machine=replace(problem.machine, tiers=tiers))
    if problem.impossible() is not None:
        for method in ("belady", "demand-lru"):
            assert lt.solve(problem, method, threads=1).objective is None
        context = Context(problem=problem)
        assert plan_in_rounds(problem, state_data(problem), context, 64) is None


@pytest.mark.parametrize("seed", range(6))
def test_more_rounds_and_more_memory_only_help(seed: int) -> None:
    problem = case(4 * seed + 1)
    data, context = state_data(problem), Context(problem=problem)
    found = [plan_in_rounds(problem, data, context, rounds) for rounds in (1, 4, 16)]
    times = [problem.evaluate(some.plan) for some in found if some is not None]
    assert len(times) == 3
    for slow, fast in pairwise(times):
        assert fast <= slow + 1000
    tier = problem.machine.tiers[0]
    assert tier.capacity is not None
    larger = replace(
        problem.machine, tiers=(replace(tier, capacity=tier.capacity + 30_000), *problem.machine.tiers[1:])
    )
    assert bound_of(replace(problem, machine=larger)) <= bound_of(problem) + 1


def test_enough_memory_takes_the_sum_of_durations() -> None:
    problem = load_problem(lt.Placement, "gen:skipchain?n=10&seed=2&machine=v100-16g-pcie3&start=gpu")
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == sum(op.duration_ns for op in problem.graph.ops)


def test_whole_tensors_get_a_bound_only() -> None:
    result = lt.solve(replace(case(1), whole=True), "slot-lp", threads=1)
    assert result.plan is None
    assert result.bound == bound_of(case(1))


def test_rounds_need_room_for_what_arrives() -> None:
    problem = case(1)
    data = state_data(problem)
    bound, rounds = build(data, stall=10**9), build(data, stall=10**9, rounds=4)
    assert len(bound.program.cost) == len(rounds.program.cost)
    assert sum(rounds.program.low) != sum(bound.program.low)


@cache
def solved(seed: int) -> lt.Result:
    return lt.solve(case(seed), "slot-lp", threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["_balances", "_presence", "_memory", "_capacities", "_channels"])
def test_every_part_of_the_model_matters(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (0, 1, 3, 14, 23):
        good = solved(seed)
        with monkeypatch.context() as patch:
            patch.setattr(placement_slots, part, lambda *arguments: None)
            found = lt.solve(case(seed), "slot-lp", threads=1)
        assert good.objective is not None
        assert good.bound is not None
        worse = found.objective is None or found.objective > 1.002 * good.objective
        if worse or found.bound is None or found.bound < 0.999 * good.bound:
            return
    pytest.fail("nothing got worse")


@pytest.mark.parametrize("accounting", list(lt.Accounting))
@pytest.mark.parametrize("form", ["slot-lp", "slot-milp", "tmof"])
def test_what_goes_on_unread_is_there_as_a_period_begins(form: str, accounting: lt.Accounting) -> None:
    graph = lt.Graph(
        name="overwritten",
        tensors=(
            lt.Tensor(name="in", nbytes=6, kind="input", initial=True),
            lt.Tensor(name="w", nbytes=4, kind="weight", initial=True, final=True),
        ),
        ops=(
            lt.Op(name="read", reads=(0,), duration_ns=1000),
            lt.Op(name="write", writes=(1,), duration_ns=1000),
            lt.Op(name="leave", duration_ns=1000),
            lt.Op(name="rest", duration_ns=1000),
        ),
        accounting=accounting,
    )
    # no op accesses both, but the input has no room beside the weight, so that leaves: 800 ns beside `leave`
    problem = Placement(graph, machine(9, None, ssd=False), periodic=True, start={"input": ("gpu",)})
    result = lt.solve(replace(problem, whole=form == "slot-milp"), form, threads=1)
    assert result.bound == 4000
    assert result.objective in (4000, 4001)  # slot-lp may release something as the period ends: a ns


def test_reading_a_plan_off_ends_when_the_time_is_up() -> None:
    problem = tiny_placement(3)
    slots = build(state_data(problem), stall=10**9, rounds=1)
    values = primal_values(slots.program, Context(problem=problem), 60, vertex=True)
    assert values is not None
    whole = decode(slots, values, problem)
    assert whole is not None
    asked = itertools.count()
    assert decode(slots, values, problem, lambda: next(asked) < 0) == whole
    for last in range(next(asked)):
        left = iter([False] * last)
        assert decode(slots, values, problem, partial(next, left, True)) is None


def test_too_large_a_program_is_not_built() -> None:
    result = lt.solve(case(1), "slot-lp", threads=1, memory_limit=10**5)
    assert result.status is lt.Status.UNKNOWN
    assert result.reason == "memory"


def test_only_programs_for_plans_lack_moves_from_where_new_bytes_cannot_be() -> None:
    spec = "gen:chain?n=3,seed=1,machine=a100-40g-pcie3,start=gpu"
    data = state_data(load_problem(Placement, spec))
    assert not data.linked
    some = [
        {
            (key, move)
            for key, row in build(data, stall=1, rounds=n, onward=onward).moved.items()
            for move in row
        }
        for n in (None, 8)
        for onward in (True, False)
    ]
    assert some[0] == some[1] == some[2]
    assert some[3] < some[0]
