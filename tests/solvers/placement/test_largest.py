"""The largest batch that fits: against exhaustive search on tiny graphs, more memory, what is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

import lowtide as lt
from lowtide.formulations.placement.releases import ideal_time
from lowtide.solvers.placement import largest as module
from lowtide.solvers.placement.largest import largest
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.oracles.feasible_placement import is_feasible
from tests.placement_cases import tiny_graph, two_tiers

MANY = 40
"""Batches among which exhaustive search looks for the largest."""


def family(seed: int, device: int, host: int | None) -> Callable[[int], lt.Placement]:
    """Return tiny graphs whose tensors and workspaces grow with the batch, weights alone do not."""
    graph = tiny_graph(seed)
    bench = two_tiers(device, 5_000_000, 10_000_000)
    bench = replace(bench, tiers=(bench.tiers[0], lt.Tier(name="host", capacity=host)))
    start = {"input": ("host",) if seed % 2 else ("gpu",), "weight": ("gpu",)}

    def problem_of(batch: int) -> lt.Placement:
        tensors = tuple(
            t if t.kind == "weight" else replace(t, nbytes=t.nbytes * batch) for t in graph.tensors
        )
        ops = tuple(replace(op, workspace=op.workspace * batch) for op in graph.ops)
        scaled = replace(graph, tensors=tensors, ops=ops)
        return lt.Placement(scaled, bench, whole=True, start=start)

    return problem_of


@pytest.mark.parametrize("seed", seeds(40))
def test_it_is_that_of_exhaustive_search(seed: int) -> None:
    problem_of = family(seed, 60 + 7 * (seed % 5), [None, 20, 60][seed % 3])
    fits = [batch for batch in range(1, MANY) if is_feasible(problem_of(batch))]
    found = largest(problem_of, most=MANY - 1, method="serial", time_limit=None, threads=1)
    if found.refuted is not None:
        assert found.refuted not in fits
        assert found.reason
    if found.number:
        assert found.number in fits
        assert found.result is not None
        assert found.result.plan is not None
        assert not problem_of(found.number).judge(found.result.plan).violations
    if found.certified:
        assert found.number == max(fits, default=0)
    else:
        assert found.number + 1 not in fits or found.next
        assert found.number == MANY - 1 or found.next


@pytest.mark.parametrize("seed", seeds(40))
def test_a_target_bounds_the_time(seed: int) -> None:
    problem_of = family(seed, 40 + 3 * (seed % 7), None)
    target = Fraction(10 + seed % 4 * 5, 10)
    found = largest(problem_of, target=target, most=MANY - 1, method="planner", threads=1)

    def fits(batch: int) -> bool:
        problem = problem_of(batch)
        places = {"gpu": DEVICE, "host": COPY}
        start = {
            t: places[problem.may_start(x.kind)[0]] for t, x in enumerate(problem.graph.tensors) if x.initial
        }
        least = fastest(problem.graph, problem.machine, start)
        return least is not None and least <= target * ideal_time(problem)

    if found.number:
        assert found.result is not None
        assert found.result.objective is not None
        assert found.result.objective <= target * ideal_time(problem_of(found.number))
        assert fits(found.number)
    if found.refuted is not None:
        assert not fits(found.refuted)
        assert found.number < found.refuted
    else:
        assert found.number == MANY - 1 or found.next


@pytest.mark.parametrize("seed", seeds(12))
def test_more_memory_serves_no_smaller_batch(seed: int) -> None:
    found = [
        largest(family(seed, device, None), most=10**6, method="serial") for device in (50, 80, 200, 999)
    ]
    numbers = [one.number for one in found if one.certified]
    assert numbers
    assert numbers == sorted(numbers)


def test_what_is_not_refuted_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that gives up is no proof; an interrupt ends the search."""
    problem_of = family(3, 160, None)
    whole = largest(problem_of, method="serial")
    assert whole.certified
    assert problem_of(whole.number + 1).impossible() == whole.reason
    half = whole.number // 2
    limit = max(t.nbytes for t in problem_of(half).graph.tensors)

    def gives_up(problem: lt.Placement, **options: object) -> lt.Result:
        result = lt.solve(problem, "serial")
        if max(t.nbytes for t in problem.graph.tensors) <= limit:
            return result
        return replace(result, status=lt.Status.UNKNOWN, objective=None, plan=None, detail="gave up")

    monkeypatch.setattr(module, "solve", gives_up)
    found = largest(problem_of)
    assert (found.number, found.certified, found.next) == (half, False, "gave up")
    tried: list[lt.Placement] = []

    def stopped(problem: lt.Placement, **options: object) -> lt.Result:
        tried.append(problem)
        return replace(lt.solve(problem, "serial"), reason="interrupted")

    monkeypatch.setattr(module, "solve", stopped)
    largest(problem_of, target=Fraction(1))
    assert len(tried) == 1


def test_a_target_is_at_least_the_ideal() -> None:
    with pytest.raises(lt.UsageError, match=r"largest, target: found 0\.5, expected at least 1"):
        largest(family(1, 60, None), target=Fraction(1, 2))
