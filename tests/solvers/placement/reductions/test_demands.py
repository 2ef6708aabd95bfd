"""`placement --addresses`: plans of any method with an allocation within the capacities."""

from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.context import Context
from lowtide.solvers.offsets import demanded
from tests.effort import seeds
from tests.problems.placement import machine, random_graph, working_set


def case(seed: int, room: int = 2) -> lt.Placement:
    graph = random_graph(seed)
    return lt.Placement(graph, machine(working_set(graph) + room, None, ssd=False), addresses=True)


def needs_less(problem: lt.Placement, allocation: Any, plan: lt.Plan) -> bool:
    """Whether all ends are within the capacities, by the buffers that lowering gives."""
    heights = verify_allocation(buffers_from_plan(problem.graph, plan), allocation).heights
    return all(t.capacity is None or heights[t.name] <= t.capacity for t in problem.machine.tiers)


@pytest.mark.parametrize("method", ["planner", "belady", "vdnn", "slot-lp"])
@pytest.mark.parametrize("seed", seeds(8))
def test_plans_of_any_method_get_addresses(method: str, seed: int) -> None:
    problem = case(seed, 4)
    bare = lt.solve(replace(problem, addresses=False), method, threads=1)
    result = lt.solve(problem, method, threads=1)
    assert result.bound == bare.bound or method == "slot-lp"  # whose last bound is taken near the incumbent
    if result.plan is None:
        assert result.status is lt.Status.UNKNOWN
        return
    assert result.verification is not None
    assert result.verification.valid
    assert result.plan.allocation is not None
    assert needs_less(problem, result.plan.allocation, result.plan)
    if result.facts["rounds"] == 1:
        assert result.objective == bare.objective


@pytest.mark.slow
@pytest.mark.parametrize(("method", "seed"), [("planner", 21), ("belady", 29)])
def test_a_plan_that_fits_and_has_no_addresses_is_made_again(method: str, seed: int) -> None:
    whole = replace(case(seed), whole=True)
    bare = lt.solve(replace(whole, addresses=False), method, threads=1)
    result = lt.solve(whole, method, threads=1)
    assert result.facts["rounds"] > 1
    assert result.facts["first_excess"] > 0  # at most what the search saw before it was sure
    assert result.facts["first_objective"] == bare.objective
    assert result.plan is not None
    assert result.plan.allocation is not None


def test_addresses_are_part_of_the_question() -> None:
    problem = case(1)
    bare = replace(problem, addresses=False)
    assert problem.instance.sha256 != bare.instance.sha256
    plan = lt.solve(bare, "planner", threads=1).plan
    assert plan is not None
    assert not bare.judge(plan).violations
    assert {v.kind for v in problem.judge(plan).violations} == {"allocation"}
    placed = lt.solve(problem, "planner", threads=1).plan
    assert placed is not None
    assert not problem.judge(placed).violations
    name, at = max((placed.allocation or {}).items(), key=lambda item: item[1])
    for broken, kind in (({name: at + 10**6}, "capacity"), ({name: -1}, "offset"), ({"x": 0}, "unknown")):
        wrong = replace(placed, allocation={**(placed.allocation or {}), **broken})
        assert f"allocation-{kind}" in {v.kind for v in problem.judge(wrong).violations} or (
            kind == "capacity" and "host" in name
        )


def test_a_hint_needs_addresses_too() -> None:
    problem = case(1)
    bare = lt.solve(replace(problem, addresses=False), "planner", threads=1)
    with pytest.raises(lt.InstanceError, match="hint: found a plan without an allocation"):
        lt.solve(problem, "planner", hint=bare.plan)
    with pytest.raises(lt.UsageError, match="found a problem with addresses"):
        lt.solve(problem, "cpsat", constrain=lambda built: None)
    with pytest.raises(lt.UsageError, match="found a problem with addresses"):
        lt.build(problem, "cpsat")


def test_addresses_of_the_method_are_taken_and_its_exact_bound_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = case(1)
    plan = lt.solve(problem, "planner", threads=1).plan
    assert plan is not None

    def run(part: lt.Placement, inner: Context) -> lt.Plan:
        inner.raise_bound(5, kind="first")
        inner.raise_bound(7, "floating", kind="second")
        return plan

    monkeypatch.setattr(demanded, "Components", None)
    context = Context(problem=problem)
    demanded.search(run, problem, context)
    assert context.answer.allocation == plan.allocation
    assert context.exact == (5, "first", None)
    assert (context.bound, context.proof) == (7, "floating")


@pytest.mark.parametrize(("refinements", "rooms"), [(0, [22, 20]), (3, [22, 20, 21])])
def test_after_the_first_plan_with_addresses_come_some_rounds(
    monkeypatch: pytest.MonkeyPatch, refinements: int, rooms: list[int]
) -> None:
    """Tiers of 21 bytes lie between those that fit and those that do not; then nothing is left to try."""
    problem = case(1)
    plan = lt.solve(problem, "planner", threads=1).plan
    assert plan is not None
    fitted = iter([(None, {0: 2}), (plan, {}), (plan, {})])
    tried: list[int | None] = []

    def run(part: lt.Placement, inner: Context) -> lt.Plan:
        tried.append(part.machine.tiers[0].capacity)
        return replace(plan, machine=part.machine)

    monkeypatch.setattr(demanded, "_fitted", lambda *args: next(fitted))
    monkeypatch.setattr(demanded, "REFINEMENTS", refinements)
    outcome = demanded.search(run, problem, Context(problem=problem))
    assert tried == rooms
    assert outcome.detail == f"{len(rooms)} rounds for a plan with addresses"


def test_what_cannot_fit_is_refuted_as_without_addresses() -> None:
    problem = load_problem("placement", "gen:chain?n=5,seed=1,machine=a100-40g-pcie3,device=10B,addresses=1")
    assert problem.addresses  # type: ignore[attr-defined]
    assert lt.solve(problem, "planner", threads=1).status is lt.Status.INFEASIBLE
