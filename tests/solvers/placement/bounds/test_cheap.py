"""The gap of a policy is one to a bound that means something, not to the sum of the durations."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.releases import ideal_time
from lowtide.instances import load_problem
from lowtide.models.problems.placement import Placement


def stated(device: str, **values: object) -> Placement:
    values = {"machine": "a100-40g-pcie3", "device": device, **values}
    problem = load_problem("placement", "catalogue:unet-4-train", **values)
    assert isinstance(problem, Placement)
    return problem


@pytest.fixture(scope="module")
def windows() -> int | None:
    return lt.solve(stated("90MiB", periodic=True), "lp-bound", threads=1).bound


@pytest.mark.slow
@pytest.mark.parametrize("method", ["belady", "vdnn", "planner"])
def test_policies_are_held_against_the_bound_by_windows(method: str, windows: int | None) -> None:
    problem = stated("90MiB", periodic=True)
    result = lt.solve(problem, method, threads=1)
    assert result.bound is not None
    assert windows is not None
    assert ideal_time(problem) < result.bound <= windows
    assert str(result.bound_kind).startswith("windows")


def test_a_network_that_fits_waits_for_its_inputs_alone_and_is_optimal() -> None:
    for method in ("auto", "belady"):
        result = lt.solve(stated("1GiB"), method, threads=1)
        assert (result.status, result.bound_kind) == (lt.Status.OPTIMAL, "release times")


def test_a_machine_that_the_bound_does_not_know_keeps_its_plan() -> None:
    problem = load_problem("placement", "catalogue:unet-4-train", machine="optane-node")
    result = lt.solve(problem, "first-touch", threads=1)
    assert result.objective is not None
