"""Random small placements with every feature of the data model: no method fails, no claim is false.

What is false is known from two sides: exhaustive search says whether whole tensors have any plan
(`tests.oracles.feasible_placement`), and no bound is above a plan of any other method that verifies.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.methods import ROOM
from tests.effort import seeds
from tests.oracles.feasible_placement import TooLarge, is_feasible
from tests.oracles.random_placement import random_placement

OTHERS = tuple(method.name for method in ROOM.methods if method.name != "auto")


OPTIONS = {"local-search": {"runs": "200"}}
LIMITS = {"auto": 2, "cpsat": 2, "orders": 1, "slot-milp": 3}
"""Seconds that these may take to the end; what they claim when they are stopped counts as well."""


def found(problem: Placement, method: str) -> lt.Result | None:
    """Return what a method finds; None if it refuses the problem."""
    try:
        result = lt.solve(
            problem, method, time_limit=LIMITS.get(method, 20), threads=1, options=OPTIONS.get(method)
        )
    except lt.UsageError:
        assert method != "auto"
        return None
    assert result.status is not lt.Status.FAILED, f"{method}: {result.detail}"
    if result.status is lt.Status.UNKNOWN and method != "lp-bound":
        assert result.detail, method
    return result


def check(problem: Placement, results: dict[str, lt.Result]) -> None:
    """Hold what methods claim against each other and against exhaustive search."""
    times = [r.objective for r in results.values() if r.objective is not None]
    for name, result in results.items():
        if result.status is lt.Status.INFEASIBLE:
            assert not times, name
        if result.bound is not None and times:
            assert result.bound <= min(times), f"{name}: bound by {result.bound_kind}"
    if times and results["auto"].objective is not None:
        return
    with suppress(TooLarge):
        assert not is_feasible(problem), results["auto"].detail


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("seed", seeds(160))
def test_auto_finds_a_plan_of_what_has_one(seed: int, accounting: Accounting) -> None:
    problem = random_placement(seed, accounting=accounting)
    results = {name: found(problem, name) for name in ("auto", "serial", OTHERS[seed % len(OTHERS)])}
    check(problem, {name: result for name, result in results.items() if result is not None})


def test_tensors_of_no_bytes_are_released_behind_their_copies() -> None:
    problem = random_placement(12236)
    result = found(problem, "serial")
    assert result is not None
    assert result.plan is not None


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("form", ["any", "star", "pair"])
@pytest.mark.parametrize("seed", [1000 + k for k in seeds(20, least=4)])
def test_no_method_fails_and_no_claim_is_false(seed: int, form: str, accounting: Accounting) -> None:
    problem = random_placement(seed, form=form, accounting=accounting)
    results = {name: found(problem, name) for name in ("auto", *OTHERS)}
    check(problem, {name: result for name, result in results.items() if result is not None})


def test_every_start_of_a_period_is_searched() -> None:
    """x and y take turns on the device and come back to where they were: only exhaustive search is sure."""
    x, y = (lt.Tensor(name=name, nbytes=2, kind="weight", initial=True, final=True) for name in "xy")
    ops = tuple(lt.Op(name=name, reads=(t,), duration_ns=1) for t, name in enumerate("ab"))
    tiers = (lt.Tier(name="gpu", capacity=2), lt.Tier(name="host", capacity=4))
    bench = lt.Machine(
        tiers=tiers,
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="gpu"),)),),
        channels=tuple(
            lt.Channel(src=a, dst=b, bytes_per_s=10**9) for a, b in (("gpu", "host"), ("host", "gpu"))
        ),
    )
    problem = Placement(lt.Graph(name="turns", tensors=(x, y), ops=ops), bench, periodic=True)
    assert is_feasible(problem)
    assert lt.solve(problem, "serial", threads=1).plan is not None
    tight = Placement(
        problem.graph,
        lt.Machine(
            tiers=(tiers[0], lt.Tier(name="host", capacity=1)),
            processors=bench.processors,
            channels=bench.channels,
        ),
        periodic=True,
    )
    assert not is_feasible(tight)
    assert lt.solve(tight, "auto", threads=1, time_limit=20).plan is None
