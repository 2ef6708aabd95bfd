"""Tiers that are faster one behind the other: every bound and plan against exhaustive search."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.slots import whole as slots_milp
from tests.effort import seeds
from tests.oracles.brute_tiers import TooLarge, faster
from tests.oracles.linked_placement import in_units, linked_placement

IN_PARTS, WHOLE = ("slot-lp", "lp-bound", "tmof", "auto"), ("slot-milp", "auto")
MOST, FEWER = 4_000, 1_000
"""States of an iteration in an exhaustive search of whole tensors, of single bytes; few need more."""
GB = 10**9


@pytest.fixture(autouse=True)
def _few_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_milp, "ROUNDS", 3)


def least(problem: Placement) -> tuple[int, int] | None:
    """Return the least ns in whole tensors, and the least known in parts; None if there is no plan."""
    try:
        whole = faster(problem, 1000, MOST)
    except TooLarge:
        return None
    if whole is None:
        return None
    try:
        return whole, faster(in_units(problem), whole, FEWER) or whole
    except TooLarge:
        return whole, whole


LIMITS = {"auto": 0.5}
"""Seconds, of what searches on while the gap is open."""


def check(seed: int, accounting: Accounting, *, periodic: bool) -> bool:
    """Hold all methods against exhaustive search; return whether the fastest plan has a stall."""
    problem = linked_placement(seed, accounting, periodic=periodic)
    times = least(problem)
    if times is None:
        return False
    for methods, some, time in (
        (WHOLE, problem, times[0]),
        (IN_PARTS, replace(problem, whole=False), times[1]),
    ):
        for method in methods:
            result = lt.solve(some, method, threads=1, time_limit=LIMITS.get(method, 3))
            assert result.status not in (lt.Status.FAILED, lt.Status.INFEASIBLE), (method, result.detail)
            assert (result.bound or 0) <= time, (method, result.bound_kind)
            if result.status is lt.Status.OPTIMAL:
                assert result.objective is not None
                assert result.objective <= time, method
    return times[0] > sum(op.duration_ns for op in problem.graph.ops)


@pytest.mark.slow
def test_no_claim_is_false_where_outer_tiers_are_linked() -> None:
    few = seeds(5, least=1)
    stalls = sum(
        check(seed, accounting, periodic=periodic)
        for seed in few
        for periodic in (False, True)
        for accounting in Accounting
    )
    assert stalls >= len(few)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1000 + 10 * k for k in seeds(26)])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("accounting", list(Accounting))
def test_no_claim_of_many_is_false(seed: int, periodic: bool, accounting: Accounting) -> None:
    stalls = sum(check(seed + i, accounting, periodic=periodic) for i in range(10))
    assert stalls > 0


def machine(*channels: tuple[str, str, int], sizes: tuple[int | None, ...]) -> lt.Machine:
    names = ("gpu", "host", "ssd")
    return lt.Machine(
        tiers=tuple(lt.Tier(name=x, capacity=c) for x, c in zip(names, sizes, strict=True)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="gpu"),)),),
        channels=tuple(lt.Channel(src=a, dst=b, bytes_per_s=rate) for a, b, rate in channels),
    )


@pytest.mark.slow
def test_an_input_comes_over_two_channels_in_the_first_piece() -> None:
    x = lt.Tensor(name="x", nbytes=GB, initial=True, kind="input")
    graph = lt.Graph(name="input", tensors=(x,), ops=(lt.Op(name="a", reads=(0,), duration_ns=1),))
    around = (("host", "gpu", GB), ("host", "ssd", 10 * GB), ("ssd", "gpu", 10 * GB), ("gpu", "host", GB))
    problem = Placement(graph, machine(*around, sizes=(None, None, None)), start={"input": ("host",)})
    for method in ("auto", "slot-lp"):
        result = lt.solve(problem, method, threads=1)
        assert result.bound is not None
        assert result.bound <= 10**8 * 11 // 10  # ten parts of it on both channels at once
        assert result.objective is not None
        assert result.objective <= 2 * 10**8 + 1


@pytest.mark.slow
def test_a_new_tensor_leaves_over_two_channels_in_its_first_piece() -> None:
    x, y = (lt.Tensor(name=name, nbytes=100, final=True) for name in "xy")
    ops = tuple(lt.Op(name=name, writes=(t,), duration_ns=1) for t, name in enumerate("ab"))
    channels = [(a, b, GB) for a in ("gpu", "host", "ssd") for b in ("gpu", "host", "ssd") if a != b]
    channels[1] = ("gpu", "ssd", GB // 100)
    bench = machine(*channels, sizes=(100, 10, None))
    result = lt.solve(Placement(lt.Graph(name="new", tensors=(x, y), ops=ops), bench), "slot-lp", threads=1)
    assert result.bound is not None
    assert result.bound <= 202  # ten times ten bytes to the host and on to the drive
    assert result.objective is not None
    assert result.objective <= 202


def test_inputs_behind_the_host_get_plans() -> None:
    x = lt.Tensor(name="x", nbytes=100, initial=True, kind="input")
    graph = lt.Graph(name="far", tensors=(x,), ops=(lt.Op(name="a", reads=(0,), duration_ns=1),))
    chain = (("host", "gpu", GB), ("gpu", "host", GB), ("host", "ssd", GB), ("ssd", "host", GB))
    problem = Placement(graph, machine(*chain, sizes=(100, None, None)), start={"input": ("ssd",)})
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.objective is not None, result.detail
    assert result.bound == 101


@pytest.mark.slow
def test_whole_tensors_are_not_copied_from_where_they_would_come_themselves() -> None:
    """A solution of the slot model for whole tensors whose trace leads back to its own stay."""
    problem = linked_placement(58, periodic=False)
    result = lt.solve(problem, "slot-milp", threads=1, time_limit=20)
    assert result.status is not lt.Status.FAILED, result.detail
