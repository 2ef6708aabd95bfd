"""`--addresses` of `recompute`, and `--page` of both: plans of any method that meet what is demanded."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.lowering.residencies import residencies
from lowtide.models.problems.recompute import Allocated
from lowtide.models.verifier.allocation import verify_allocation
from tests.effort import seeds
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.placement import machine, random_graph, working_set
from tests.problems.recompute import needed, tight_problem, with_disk


def held(problem: Any, plan: lt.Plan, page: int) -> int:
    """Most bytes of pages in the first tier when anything comes there, page by page."""
    tier, found = problem.machine.tiers[0].name, residencies(problem.graph, plan)
    parts = [
        (str(r.tensor), a, b, range((r.low + low) // page, -(-(r.low + high) // page)))
        for r, buffer in zip(found, buffers_from_plan(problem.graph, plan).buffers, strict=False)
        for a, b, low, high in buffer.rectangles
        if buffer.pool == tier
    ]
    for run in plan.runs:
        workspace = problem.graph.ops[run.op].workspace
        parts.append((f"run {run.op} at {run.start}", run.start, run.end, range(-(-workspace // page))))
    moments = {a for _, a, *_ in parts}
    return max(page * len({(x, k) for x, a, b, some in parts if a <= t < b for k in some}) for t in moments)


def swapped(seed: int, **demands: Any) -> lt.Placement:
    graph = random_graph(seed)
    return lt.Placement(graph, machine(2 * working_set(graph), None, ssd=False), **demands)


def again(seed: int, **demands: Any) -> lt.Recompute:
    """A training step with tensors of many sizes, in less memory than its reference order takes."""
    rng = Random(seed)
    graph = lt.load("gen:unet?depth=2&train=1")
    graph = replace(graph, tensors=tuple(replace(t, nbytes=rng.randint(1, 40)) for t in graph.tensors))
    least = max(lt.Recompute(graph).least_bytes(i) for i in range(len(graph.ops)))
    return lt.Recompute(graph, memory=(least + 2 * needed(graph)) // 3, **demands)


@pytest.mark.parametrize("method", ["planner", "belady"])
@pytest.mark.parametrize("seed", seeds(6))
def test_plans_have_room_for_whole_pages(method: str, seed: int) -> None:
    problem = swapped(seed, page=4)
    room = problem.machine.tiers[0].capacity
    assert room is not None
    bare = replace(problem, page=None)
    first, result = lt.solve(bare, method, threads=1), lt.solve(problem, method, threads=1)
    assert first.plan is not None
    fits = held(problem, first.plan, 4) <= room
    assert {v.kind for v in problem.judge(first.plan).violations} == (set() if fits else {"pages"})
    assert not bare.judge(first.plan).violations
    assert (result.facts["rounds"] == 1) == fits
    if result.plan is not None:
        assert held(problem, result.plan, 4) <= room
        assert result.bound == first.bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8))
def test_recomputation_in_pages_is_that_of_larger_tensors(seed: int) -> None:
    """With copies to a disk, which move bytes and not pages, only the answers are the same."""
    bare = tight_problem(seed)
    if bare is None:
        return
    problem = replace(bare, page=2)
    result = lt.solve(problem, "auto", threads=1)
    larger, same = problem.in_pages()
    assert same
    assert result.objective == fastest_recomputation(larger.graph, larger.machine)
    if result.plan is not None:
        assert result.bound <= result.objective  # type: ignore[operator]
        assert held(problem, result.plan, 2) <= problem.memory  # type: ignore[operator]
    disk = with_disk(problem, Random(seed))
    paged = lt.solve(disk, "auto", threads=1)
    free = lt.solve(replace(disk, page=None), "auto", threads=1)
    if paged.objective is not None:
        assert paged.bound is not None
        assert free.bound is not None
        assert paged.objective >= free.bound
        assert result.objective is None or paged.bound <= result.objective


@pytest.mark.parametrize("seed", seeds(3))
def test_recomputation_with_addresses(seed: int) -> None:
    problem, few = again(seed, addresses=True), {"moves": "5"}
    bare = lt.solve(replace(problem, addresses=False), "eviction", threads=1, options=few)
    result = lt.solve(problem, "eviction", threads=1, options=few)
    if result.plan is None:
        return
    assert result.bound == bare.bound
    allocation = result.plan.allocation
    assert allocation is not None
    heights = verify_allocation(buffers_from_plan(problem.graph, result.plan), allocation).heights
    assert heights["memory"] <= problem.memory  # type: ignore[operator]
    answer = problem.read(result.plan)
    assert isinstance(answer, Allocated)
    assert problem.evaluate(answer) == result.objective
    assert {v.kind for v in problem.judge(answer.steps).violations} == {"allocation"}
    name = max(allocation, key=lambda k: (allocation[k], k))
    for change, kind in (({name: 10**6}, "capacity"), ({name: -1}, "offset"), ({"x": 0}, "unknown")):
        wrong = Allocated(answer.steps, {**allocation, **change})
        assert f"allocation-{kind}" in {v.kind for v in problem.judge(wrong).violations}


def test_demands_are_part_of_the_question() -> None:
    problem = again(1)
    asked = [problem, replace(problem, addresses=True), replace(problem, page=4), replace(problem, page=8)]
    assert len({p.instance.sha256 for p in asked}) == 4
    assert asked[2].within((7,)).demands == ()
    assert asked[2].within((7,)).memory == 7
    for wrong in ({"page": 0}, {"page": 4, "addresses": True}):
        for known in (problem, swapped(1)):
            with pytest.raises(lt.InstanceError, match="page"):
                replace(known, **wrong)  # type: ignore[arg-type]


def test_a_page_larger_than_the_memory_leaves_no_plan() -> None:
    assert lt.solve(again(1, page=10**6), "eviction", threads=1).status is lt.Status.INFEASIBLE
    assert lt.solve(swapped(1, page=10**6), "belady", threads=1).plan is None


def test_both_demands_are_refused_by_their_flags() -> None:
    said = r"found addresses \(--addresses\) and page=4 \(--page\), expected one of them"
    with pytest.raises(lt.InstanceError, match=said):
        swapped(0, addresses=True, page=4)
