"""Accounting ``replace``: what an op only reads may go at its start, before what it writes is allocated.

Judges are the verifier and exhaustive search: the fastest of tiny single runs with two tiers, and whether
there is any plan with everything that the data model allows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.serial.search import serial_plan
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.oracles.brute_tiers import faster
from tests.oracles.feasible_placement import TooLarge, is_feasible
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine, tiny_placement, working_set

REPLACE, COEXIST = Accounting.REPLACE, Accounting.COEXIST


def optimum(problem: Placement) -> int | None:
    """Return the least makespan of a tiny placement by exhaustive search."""
    graph, host = problem.graph, problem.machine.tiers[1].name
    start = {
        t: COPY if problem.may_start(x.kind) == (host,) else DEVICE
        for t, x in enumerate(graph.tensors)
        if x.initial
    }
    return fastest(graph, problem.machine, start)


def swap(device: int, accounting: Accounting = REPLACE) -> Placement:
    """a makes x and y, b makes z from x, c reads y and z: 4 bytes and 1000 ns each."""
    x, y, z = (lt.Tensor(name=name, nbytes=4) for name in "xyz")
    ops = (
        lt.Op(name="a", writes=(0, 1), duration_ns=1000),
        lt.Op(name="b", reads=(0,), writes=(2,), duration_ns=1000),
        lt.Op(name="c", reads=(1, 2), duration_ns=1000),
    )
    graph = lt.Graph(name="swap", tensors=(x, y, z), ops=ops, accounting=accounting)
    return Placement(graph, machine(device, None, ssd=False), whole=True)


def test_exhaustive_search_by_hand() -> None:
    assert optimum(swap(8)) == 3000  # z takes the place of x
    assert optimum(swap(8, COEXIST)) == 3000 + 800 + 667  # y goes behind a and comes back behind b
    assert optimum(swap(12, COEXIST)) == 3000
    assert optimum(swap(7)) is None  # c reads both


def test_the_planner_lets_go_of_what_an_op_only_reads_at_its_start() -> None:
    result = lt.solve(swap(8), "planner", threads=1)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, 3000)
    two = replace(swap(8), periodic=True, whole=False)
    assert lt.solve(two, "auto", threads=1).objective == 3000


@pytest.mark.parametrize("seed", seeds(100, least=30))
def test_the_planner_is_never_faster_than_exhaustive_search_and_often_as_fast(seed: int) -> None:
    problem = tiny_placement(seed, REPLACE)
    best, result = optimum(problem), lt.solve(problem, "planner", threads=1)
    assert (result.objective is None) == (best is None)
    if best is not None and result.objective is not None:
        assert best <= result.objective <= 2 * best


@pytest.mark.parametrize("seed", seeds(60))
def test_both_exhaustive_searches_agree(seed: int) -> None:
    for accounting in Accounting:
        problem = tiny_placement(seed, accounting)
        assert faster(problem, 10**6) == optimum(problem)


@pytest.mark.parametrize("seed", seeds(60))
def test_exhaustive_search_is_never_slower_than_with_coexist(seed: int) -> None:
    tight = tiny_placement(seed, REPLACE)
    best, other = optimum(tight), optimum(replace(tight, graph=replace(tight.graph, accounting=COEXIST)))
    assert other is None or (best is not None and best <= other)
    total = sum(op.duration_ns for op in tight.graph.ops)
    assert best is None or best >= total


@pytest.mark.parametrize("seed", seeds(400, least=100))
def test_serial_finds_a_plan_of_what_has_one(seed: int) -> None:
    problem = random_placement(seed, accounting=REPLACE)
    plan = serial_plan(problem)
    if plan is not None:
        assert not problem.judge(plan).violations
        return
    try:
        assert not is_feasible(problem)
    except TooLarge:
        pytest.skip("too many states")


@pytest.mark.parametrize("seed", seeds(100, least=40))
def test_serial_is_never_faster_than_exhaustive_search(seed: int) -> None:
    problem = tiny_placement(seed, REPLACE)
    assert problem.machine.tiers[0].capacity is not None
    problem = replace(problem, machine=machine(working_set(problem.graph) + seed % 3, None, ssd=False))
    best, result = optimum(problem), lt.solve(problem, "serial", threads=1)
    if best is None:
        assert result.plan is None
    else:
        assert result.objective is not None
        assert result.objective >= best
        assert result.bound is not None
        assert result.bound <= best


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(160, least=60))
def test_bounds_and_plans_meet_exhaustive_search(seed: int) -> None:
    """No bound is above the fastest plan, no plan of whole tensors below; local search is mostly there."""
    problem = tiny_placement(seed, REPLACE)
    best = optimum(problem)
    found = {name: lt.solve(problem, name, threads=1, time_limit=20) for name in ("lp-bound", "auto")}
    if best is None:
        assert found["auto"].plan is None
        return
    for result in found.values():
        assert result.bound is not None
        assert result.bound <= best
    assert found["auto"].objective is not None
    assert found["auto"].objective >= best


def test_the_bound_counts_reads_at_the_start() -> None:
    """z takes the place of x: no stall is certain under ``replace`` where there is one under ``coexist``."""
    free, tight = (lt.solve(swap(8, some), "lp-bound", threads=1).bound for some in (REPLACE, COEXIST))
    assert free == 3000
    assert tight is not None
    assert tight > 3000
    graph = swap(8).graph
    large = replace(graph.tensors[2], nbytes=8)  # beside it 3 of the 4 bytes of y have room: 1 goes and comes
    last = replace(graph.ops[2], reads=(1,))
    graph = replace(graph, tensors=(*graph.tensors[:2], large), ops=(*graph.ops[:2], last))
    moved = replace(swap(11), graph=graph)
    assert optimum(moved) == 3000 + 800 + 667
    assert lt.solve(moved, "lp-bound", threads=1).bound == 3000 + 200 + 167
