"""Limits that need no oracle: what two machines must agree on, or which of them must not be worse.

No bound of one machine is above a plan of another that can do no more. Both accountings.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.simulator.problem import simulated_problem
from lowtide.solvers.placement.simulator.simulator import simulate, stay
from tests.effort import many
from tests.problems.placement import machine, random_graph, working_set
from tests.solvers.placement.machines import without_host

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("accounting", list(Accounting))
METHODS = {
    Accounting.COEXIST: ("lp-bound", "slot-lp", "planner", "belady", "local-search", "auto"),
    Accounting.REPLACE: ("lp-bound", "planner", "belady", "local-search", "auto"),
}
OPTIONS = {"local-search": {"runs": "100"}}
SECONDS = {"auto": 1}
"""What it finds it finds at once; where a gap is open it goes on for seconds."""
SEED = st.integers(0, 10**6)


def problem_of(seed: int, accounting: Accounting, bench: lt.Machine, *, periodic: bool = False) -> Placement:
    graph = replace(random_graph(seed, 6), accounting=accounting)
    names = tuple(t.name for t in bench.tiers)
    return Placement(graph, bench, periodic=periodic, start={"input": names, "weight": names})


def solved(problem: Placement, method: str) -> lt.Result | None:
    """Return the result; None where a method of single runs, or of start tiers, does not serve a period."""
    try:
        seconds = SECONDS.get(method, 20)
        result = lt.solve(problem, method, threads=1, time_limit=seconds, options=OPTIONS.get(method))
    except lt.UsageError:
        assert problem.periodic
        return None
    assert result.status is not lt.Status.FAILED, result.detail
    return result


def claims(problem: Placement) -> tuple[int, int | None]:
    """Return the best bound and the fastest plan of all methods that claim bounds."""
    bound, best = 0, None
    for method in METHODS[problem.graph.accounting]:
        result = solved(problem, method)
        if result is None:
            continue
        bound = max(bound, result.bound or 0)
        if result.objective is not None:
            best = result.objective if best is None else min(best, result.objective)
    assert best is None or bound <= best
    return bound, best


def slow_ssd(bench: lt.Machine) -> lt.Machine:
    """Return a machine whose SSD takes a second for a few kilobytes."""
    slow = tuple(replace(c, bytes_per_s=1000) if "ssd" in (c.src, c.dst) else c for c in bench.channels)
    return replace(bench, channels=slow)


def agree(one: Placement, other: Placement) -> None:
    """Two problems with the same plans: no bound of one is above a plan of the other."""
    (low, best), (other_low, other_best) = claims(one), claims(other)
    assert other_best is None or low <= other_best
    assert best is None or other_low <= best


@BOTH
@many(16)
@given(seed=SEED, periodic=st.booleans())
def test_a_host_of_no_bytes_is_no_host(accounting: Accounting, seed: int, periodic: bool) -> None:
    graph = problem_of(seed, accounting, machine(10**6, 0)).graph
    bench = machine(working_set(graph) + seed % 5, 0, shared=False)
    three = problem_of(seed, accounting, bench, periodic=periodic)
    two = problem_of(seed, accounting, without_host(bench), periodic=periodic)
    agree(three, two)


@BOTH
@many(16)
@given(seed=SEED)
def test_an_ssd_that_takes_for_ever_is_no_ssd(accounting: Accounting, seed: int) -> None:
    """Beside a host without limit the SSD saves nothing: one byte there takes longer than two plans."""
    graph = problem_of(seed, accounting, machine(10**6, None)).graph
    room = working_set(graph) + seed % 5
    two = problem_of(seed, accounting, machine(room, None, ssd=False))
    three = replace(two, machine=slow_ssd(machine(room, None, shared=False)), start=None)
    three = replace(three, start={"input": ("gpu", "host"), "weight": ("gpu", "host")})
    agree(three, two)


@BOTH
@many(16)
@given(seed=SEED, periodic=st.booleans())
def test_memory_of_the_peak_is_enough(accounting: Accounting, seed: int, periodic: bool) -> None:
    """With everything on the device the sum of the durations is the optimum, and bounds say no more."""
    start = dict.fromkeys(("input", "weight"), ("gpu",))
    roomy = replace(problem_of(seed, accounting, machine(10**6, 10), periodic=periodic), start=start)
    plan = simulate(simulated_problem(roomy), stay(simulated_problem(roomy))).plan()
    peak = lt.verify(roomy.graph, plan, start_tiers=start).peaks["gpu"]
    problem = replace(roomy, machine=machine(peak, 10))
    total = sum(op.duration_ns for op in problem.graph.ops)
    assert claims(problem) == (total, total)
    policies = ("belady", "demand-lru", "deepum", "autoswap")  # of systems that know ``coexist``
    for method in ("planner", "auto", *(policies if accounting is Accounting.COEXIST else ())):
        result = solved(problem, method)
        assert result is None or result.objective == total, method


@BOTH
@many(16)
@given(seed=SEED, more=st.integers(1, 6), tier=st.sampled_from(["gpu", "host", "ssd"]))
def test_more_bytes_or_a_tier_never_hurt(accounting: Accounting, seed: int, more: int, tier: str) -> None:
    """No bound with more is above a plan with less; whatever has a plan keeps it."""
    graph = problem_of(seed, accounting, machine(10**6, 10)).graph
    device, host = working_set(graph) + seed % 5, 12
    less = problem_of(seed, accounting, machine(device, host, shared=False, ssd=tier != "ssd"))
    richer = machine(device + more * (tier == "gpu"), host + more * (tier == "host"), shared=False)
    low, best = claims(replace(less, machine=richer))
    _, before = claims(less)
    if before is not None:
        assert low <= before
        assert best is not None


@BOTH
@many(12)
@given(seed=SEED, periodic=st.booleans())
def test_more_bytes_or_a_tier_never_hurt_auto(accounting: Accounting, seed: int, periodic: bool) -> None:
    """With the plan of the smaller machine at hand."""
    graph = problem_of(seed, accounting, machine(10**6, 10)).graph
    device, host = working_set(graph) + seed % 5, 12
    steps = (
        machine(device, host, shared=False, ssd=False),
        machine(device, host, shared=False),
        machine(device, host + 5, shared=False),
        machine(device + 4, host + 5, shared=False),
    )
    plan: lt.Plan | None = None
    last: int | None = None
    for bench in steps:
        problem = problem_of(seed, accounting, bench, periodic=periodic)
        hint = None if plan is None else replace(plan, machine=bench)
        result = lt.solve(problem, "auto", threads=1, time_limit=SECONDS["auto"], hint=hint)
        assert last is None or (result.objective is not None and result.objective <= last)
        plan, last = result.plan, result.objective


@BOTH
@many(16)
@given(seed=SEED)
def test_replace_needs_no_more_than_coexist(accounting: Accounting, seed: int) -> None:
    """Every plan under ``coexist`` is one under ``replace``: no bound of the latter is above it."""
    graph = problem_of(seed, Accounting.COEXIST, machine(10**6, 10)).graph
    tight = problem_of(seed, Accounting.COEXIST, machine(working_set(graph) + seed % 5, None))
    result = lt.solve(tight, "local-search", threads=1, time_limit=20, options=OPTIONS["local-search"])
    other = replace(tight, graph=replace(tight.graph, accounting=accounting))
    if result.plan is not None and result.objective is not None:
        plan = replace(result.plan, accounting=accounting, graph_sha256=other.graph.sha256)
        assert other.judge(plan).objective == result.objective
        low = lt.solve(other, "lp-bound", threads=1).bound
        assert low is not None
        assert low <= result.objective
