"""`slot-lp`, `slot-milp` and `tmof` on any tiers: exhaustive search, and identities that need no oracle.

`test_slots_tiers` holds `slot-milp` against exhaustive search in whole tensors.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.slots import whole as slots_milp
from tests.effort import seeds
from tests.oracles.brute_tiers import TooLarge, faster
from tests.oracles.random_placement import random_placement
from tests.problems.placement import machine, tiny_graph, working_set
from tests.solvers.placement.bounds.claim_cases import in_bytes
from tests.solvers.placement.graphs import scaled
from tests.solvers.placement.machines import without_host

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("accounting", list(lt.Accounting))
FORMS = pytest.mark.parametrize("form", ["slot-lp", "slot-milp", "tmof"])
SCALE = 20_000
MOST = 15_000
"""States that an exhaustive search looks at; of what needs more, nothing is said."""
FEW = 8
"""Bytes in all up to which it is searched byte by byte too."""
ROUNDING = 10_000
"""ns: plans move whole bytes, and leave up to one free for each life; 10 bytes of the slowest channel."""


@pytest.fixture(autouse=True)
def _few_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_milp, "ROUNDS", 3)


def question(seed: int, accounting: lt.Accounting) -> Placement:
    """Up to six ops on any tiers with any channels and joint caps, runs and periods; copies may be cut."""
    return replace(random_placement(seed, ops=6, accounting=accounting), whole=False)


def solved(problem: Placement, form: str, limit: float | None = None) -> lt.Result | None:
    """Return a result that verifies; None where the form does not serve the problem."""
    some = replace(problem, whole=form == "slot-milp")
    try:
        result = lt.solve(some, form, threads=1, time_limit=limit)
    except lt.UsageError:
        return None
    assert result.status is not lt.Status.FAILED, result.detail
    return result


def slower(problem: Placement, bound: int) -> None:
    """Fail if exhaustive search finds a plan that is faster than a bound, in whole tensors or in bytes."""
    few = sum(t.nbytes for t in problem.graph.tensors) <= FEW
    for some in (replace(problem, whole=True), *([in_bytes(problem)] * few)):
        try:
            assert faster(some, bound, MOST) is None
        except TooLarge:
            continue


@BOTH
@pytest.mark.parametrize("seed", seeds(100))
def test_no_plan_is_faster_than_what_is_proved_of_bytes(seed: int, accounting: lt.Accounting) -> None:
    problem = question(seed, accounting)
    result = solved(problem, "slot-lp")
    if result is not None and result.bound is not None:
        slower(problem, result.bound)
    swapped = solved(problem, "tmof")
    if swapped is not None and swapped.objective is not None:
        assert result is not None
        assert result.bound is not None
        assert swapped.bound is not None
        assert result.bound <= swapped.objective
        slower(problem, swapped.bound)


@BOTH
@pytest.mark.parametrize("block", seeds(10, least=2))
def test_plans_in_rounds_meet_the_bound_where_bytes_are_many(block: int, accounting: lt.Accounting) -> None:
    """Of 20 problems with thousands of bytes for each, all but one have a plan within 0.2 % of the bound."""
    apart = {}
    for seed in range(20 * block, 20 * block + 20):
        problem = question(seed, accounting)
        bench, graph = problem.machine, scaled(problem.graph, SCALE)
        tiers = tuple(
            replace(t, capacity=None if (c := t.capacity) is None else c * SCALE) for t in bench.tiers
        )
        result = solved(replace(problem, graph=graph, machine=replace(bench, tiers=tiers)), "slot-lp")
        if result is not None and result.gap is not None and result.gap > 0.002:
            apart[seed] = result.gap
    assert len(apart) <= 1, apart


def small(seed: int, accounting: lt.Accounting, bench: lt.Machine | None = None) -> Placement:
    """A tiny iteration with thousands of bytes and little room, anything anywhere at the start."""
    graph = replace(scaled(tiny_graph(seed), 1000), accounting=accounting)
    bench = bench or machine(working_set(graph) + seed % 4 * 1000, 12_000, shared=seed % 2 == 0)
    names = tuple(tier.name for tier in bench.tiers)
    return Placement(graph, bench, start=dict.fromkeys(("input", "weight"), names))


def on(problem: Placement, bench: lt.Machine) -> Placement:
    return replace(
        problem, machine=bench, start=dict.fromkeys(("input", "weight"), tuple(t.name for t in bench.tiers))
    )


def host_of(bench: lt.Machine, capacity: int | None) -> lt.Machine:
    return replace(bench, tiers=(bench.tiers[0], replace(bench.tiers[1], capacity=capacity), bench.tiers[2]))


def agree(one: Placement, other: Placement, form: str) -> None:
    """Two problems with the same plans: one optimum of the form, and no bound above a plan of the other."""
    a, b = solved(one, form), solved(other, form)
    assert a is not None
    assert b is not None
    assert (a.objective is None) == (b.objective is None)
    if a.objective is not None and b.objective is not None and a.bound is not None and b.bound is not None:
        assert max(a.bound, b.bound) <= min(a.objective, b.objective)
        assert abs(a.objective - b.objective) <= ROUNDING


@FORMS
@BOTH
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("seed", seeds(11, least=3))
def test_a_host_of_no_bytes_is_no_host(
    seed: int, periodic: bool, accounting: lt.Accounting, form: str
) -> None:
    problem = replace(small(seed, accounting), periodic=periodic)
    none = host_of(machine(problem.machine.tiers[0].capacity or 0, 0, shared=False), 0)
    agree(on(problem, none), on(problem, without_host(none)), form)


@FORMS
@BOTH
@pytest.mark.parametrize("seed", seeds(16, least=3))
def test_a_drive_that_takes_for_ever_is_no_drive(seed: int, accounting: lt.Accounting, form: str) -> None:
    problem = small(seed, accounting)
    bench = machine(problem.machine.tiers[0].capacity or 0, None, shared=False)
    two = replace(bench, tiers=bench.tiers[:2], channels=bench.channels[:2])
    slow = tuple(replace(c, bytes_per_s=1) if "ssd" in (c.src, c.dst) else c for c in bench.channels)
    agree(on(problem, replace(bench, channels=slow)), on(problem, two), form)


@FORMS
@BOTH
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("seed", seeds(16, least=3))
def test_enough_memory_takes_the_sum_of_the_durations(
    seed: int, periodic: bool, accounting: lt.Accounting, form: str
) -> None:
    problem = replace(small(seed, accounting, machine(10**7, 5)), periodic=periodic)
    on_device = replace(problem, start=dict.fromkeys(("input", "weight"), ("gpu",)))
    result = solved(on_device, form)
    if result is None:  # TMOF's form, whose lasting tensors may be anywhere
        assert (form, periodic) == ("tmof", True)
        result = solved(problem, form)
    assert result is not None
    total = sum(op.duration_ns for op in problem.graph.ops)
    assert (result.objective, result.bound) == (total, total)


@FORMS
@BOTH
@pytest.mark.parametrize("tier", ["gpu", "host", "ssd"])
@pytest.mark.parametrize("seed", seeds(6, least=3))
def test_more_bytes_or_a_tier_never_hurt(seed: int, tier: str, accounting: lt.Accounting, form: str) -> None:
    problem = small(seed, accounting)
    device, host = problem.machine.tiers[0].capacity or 0, 12_000
    less = machine(device, host, shared=False, ssd=tier != "ssd")
    more = machine(device + 2_000 * (tier == "gpu"), host + 2_000 * (tier == "host"), shared=False)
    before, after = solved(on(problem, less), form), solved(on(problem, more), form)
    assert before is not None
    assert after is not None
    if before.objective is not None:
        assert after.objective is not None
        assert after.bound is not None
        assert after.bound <= before.objective
        if form == "tmof":  # the optimum of its form
            assert after.objective <= before.objective + ROUNDING


@FORMS
def test_nothing_is_below_the_fluid_bound_of_three_tiers(form: str) -> None:
    spec = "onnx:squeezenet?train=1,batch=64,blocks=14,start=device,device=1000MiB,machine=a100-40g-pcie3"
    result = solved(load_problem(Placement, spec), form, None if form == "slot-lp" else 5)
    assert result is not None
    least = 51_840_296  # ns: the bound of the fluid relaxation of the three tiers
    best = 51_840_297  # ns: of a verified plan, and the bound in whole bytes and ns
    if form == "slot-lp":
        assert (result.objective, result.bound) == (best, best)
    assert result.objective is None or result.objective >= least
    assert result.bound is not None
    assert form == "slot-milp" or result.bound <= best
