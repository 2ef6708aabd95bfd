"""Copies that share a channel, and sums of sizes that bounds are rounded up to."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

import lowtide as lt
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.whole import sequence
from lowtide.formulations.placement.whole.batches import batched, finer
from lowtide.formulations.placement.whole.intervals_cpsat import order_for, planned
from lowtide.formulations.placement.whole.windows_cpsat import attainable
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.serial.search import serial_plan
from lowtide.solvers.placement.whole.event_orders import case_of, line_of, moves_of, times_for
from tests.effort import seeds
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_rounded_up_to_the_next_sum(seed: int) -> None:
    draw = random.Random(seed)
    unit = draw.choice((1, 4, 512))
    sizes = [unit * draw.randint(1, 30) for _ in range(draw.randint(1, 7))]
    sums = {sum(some) for k in range(len(sizes) + 1) for some in combinations(sizes, k)}
    for least in range(1, sum(sizes) + 1, draw.randint(1, 9)):
        assert attainable(sizes, least) == min(x for x in sums if x >= least)


def sharing() -> Placement:
    """Three tensors of 100 bytes leave and return, at 3 bytes per ns: 34 ns each, or 100 ns together."""
    some = tuple(lt.Tensor(name=name, nbytes=100) for name in "abc")
    graph = lt.Graph(
        name="sharing",
        tensors=(*some, lt.Tensor(name="x", nbytes=1)),
        ops=(
            lt.Op(name="f", writes=(0, 1, 2), duration_ns=10),
            lt.Op(name="g", writes=(3,), workspace=299, duration_ns=20),
            lt.Op(name="h", reads=(0, 1, 2, 3), duration_ns=10),
        ),
    )
    bench = machine(301, None, ssd=False)
    bench = replace(bench, channels=tuple(replace(c, bytes_per_s=3 * 10**9) for c in bench.channels))
    return Placement(graph, bench, periodic=False, whole=True)


def test_copies_share_a_channel_where_each_would_lose_a_part_of_a_ns() -> None:
    result = lt.solve(sharing(), "cpsat", threads=1, time_limit=None)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, 10 + 100 + 20 + 100 + 10)


@pytest.mark.parametrize("factor", [2**54, 2**56])
def test_numbers_too_large_for_cp_sat_leave_what_is_found(factor: int) -> None:
    problem = sharing()
    ops = tuple(replace(op, duration_ns=factor * op.duration_ns) for op in problem.graph.ops)
    result = lt.solve(replace(problem, graph=replace(problem.graph, ops=ops)), "cpsat", time_limit=None)
    assert result.status is lt.Status.FEASIBLE
    assert result.objective == 40 * factor + 204
    assert result.bound == 40 * factor + 200
    assert "too many for CP-SAT" in result.detail


def test_times_beyond_64_bits_are_no_failure_of_cp_sat() -> None:
    problem = sharing()
    tensors = tuple(replace(x, nbytes=2**40 * x.nbytes) for x in problem.graph.tensors)
    ops = tuple(replace(op, workspace=2**40 * op.workspace) for op in problem.graph.ops)
    graph = replace(problem.graph, tensors=tensors, ops=ops)
    bench = machine(301 * 2**40, None, ssd=False)
    bench = replace(bench, channels=tuple(replace(c, bytes_per_s=1) for c in bench.channels))
    result = lt.solve(replace(problem, graph=graph, machine=bench), "cpsat", time_limit=None)
    assert result.status is not lt.Status.FAILED, result.detail
    assert "too many for CP-SAT" in result.detail


@pytest.mark.parametrize("seed", seeds(24, least=12))
def test_batches_are_plans_that_verify_and_end_no_later(seed: int) -> None:
    problem = replace(random_placement(seed, ops=6), whole=True, periodic=False)
    found = serial_plan(problem, lambda: False)
    if found is None:
        return
    data = state_data(problem)
    case = case_of(data)
    line = line_of(case, data, problem, found)
    if line is None:
        return
    moves = moves_of(case, data, line, times_for(case))
    order, times = order_for(data, moves)
    shared, sooner = batched(data, order, times, steps=200, seed=seed)
    assert sooner.start[data.n - 1] <= times.start[data.n - 1]
    assert not problem.judge(planned(data, problem, shared, sooner, moves.modes)).violations


def test_a_walk_that_ends_later_than_it_was_returns_the_best() -> None:
    problem = sharing()
    data, found = state_data(problem), serial_plan(problem, lambda: False)
    assert found is not None
    case = case_of(data)
    line = line_of(case, data, problem, found)
    assert line is not None
    order, times = order_for(data, moves_of(case, data, line, times_for(case)))
    order, times = batched(data, order, times, steps=400)
    assert times.start[2] == 10 + 100 + 20 + 100
    for seed in range(30):  # one step, which may cut a batch: 101 ns
        assert batched(data, order, times, steps=1, seed=seed)[1].start[2] == times.start[2]


def test_parts_of_a_ns_make_copies_exact() -> None:
    data, parts = finer(state_data(sharing()))
    assert parts == 3
    rate = sequence.rates(data, beside=False)[0]
    assert all(life.nbytes * 10**9 % r == 0 for life in data.lives for r in rate)
