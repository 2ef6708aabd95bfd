"""The largest batch that fits: against exhaustive search on tiny graphs, more memory, what is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.releases import ideal_time
from lowtide.solvers import largest as module
from lowtide.solvers.largest import largest
from tests.effort import seeds
from tests.oracles.brute_partition import best
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.oracles.feasible_placement import is_feasible
from tests.oracles.least_peak import least_peak
from tests.problems.partition import random_partition
from tests.problems.placement import tiny_graph, two_tiers

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


def test_what_exceeds_a_target_is_said_with_units() -> None:
    found = largest(family(0, 40, None), target=Fraction(1), most=MANY - 1, method="planner", threads=1)
    words = [text for text in (found.next, found.reason) if text]
    assert words
    assert all("None" not in text for text in words)
    assert any("ns" in text and "1 times the ideal" in text for text in words), words


@pytest.mark.parametrize("seed", seeds(12))
def test_more_memory_serves_no_smaller_batch(seed: int) -> None:
    found = [
        largest(family(seed, device, None), most=10**6, method="serial") for device in (50, 80, 200, 999)
    ]
    numbers = [one.number for one in found if one.certified]
    assert numbers
    assert numbers == sorted(numbers)


def test_splits_of_the_largest_batch_are_those_of_exhaustive_search() -> None:
    certified = 0
    for seed in seeds(40):
        small = random_partition(seed, most_ops=4)
        ops = tuple(replace(op, modes=(), duration_ns=1 + k) for k, op in enumerate(small.graph.ops))
        small = replace(small, graph=replace(small.graph, ops=ops), processors=2, contiguous=True)
        small = replace(small, memory=15, schedule="1f1b", micro=2, recompute="none", replicate=1)

        def problem_of(batch: int, small: lt.Partition = small) -> lt.Partition:
            tensors = (t if t.initial else replace(t, nbytes=t.nbytes * batch) for t in small.graph.tensors)
            return replace(small, graph=replace(small.graph, tensors=tuple(tensors)))

        fits = [batch for batch in range(1, 7) if best(problem_of(batch)) is not None]
        found = largest(problem_of, most=6, threads=1)
        assert found.number == max(fits, default=0), seed
        assert found.certified == (found.number < 6), seed
        certified += found.certified and found.number > 0
    assert certified > 1


def test_layers_are_split_as_long_as_they_fit() -> None:
    """Of layers of 3 bytes of weights and 5 kept by each of two micro-batches two fit 27 bytes, one 13."""

    def problem_of(layers: int, memory: int = 27) -> lt.Partition:
        if layers > 9:
            raise lt.InstanceError("too many layers")
        g = lt.GraphBuilder()
        for j in range(layers):
            g.tensor(f"w{j}", 3, kind="weight")
            g.op(f"f{j}", reads=[f"w{j}", *([f"x{j - 1}"] if j else [])], writes=[g.tensor(f"x{j}", 5)])
        for j in reversed(range(layers)):
            g.op(f"b{j}", reads=[f"w{j}", f"x{j}"])
        n = 2 * layers
        pairs = tuple((j, n - 1 - j) for j in range(layers))
        return lt.Partition(
            g.build(),
            3,
            memory=memory,
            schedule="gpipe",
            micro=2,
            together=pairs,
            backward=tuple(range(layers, n)),
        )

    found = largest(problem_of, threads=1)
    assert (found.number, found.refuted) == (6, 7)
    found = largest(lambda layers: problem_of(layers, 13), threads=1)
    assert (found.number, found.refuted) == (3, 4)
    found = largest(lambda layers: problem_of(layers, 2**40), threads=1)
    assert (found.number, found.refuted, found.next) == (9, None, "too many layers")
    with pytest.raises(lt.InstanceError, match="too many"):
        largest(lambda layers: problem_of(layers + 9))


def test_schedules_of_the_largest_batch_are_those_of_exhaustive_search() -> None:
    certified = 0
    for seed in (1, 3, 4):
        graphs = [family(seed, 1, None)(batch).graph for batch in range(1, 5)]
        problems = [lt.Makespan(graph, processors=2, memory=45) for graph in graphs]
        found = largest(lambda batch, of=problems: of[batch - 1], most=4, threads=1)  # type: ignore[misc]
        fits = [batch for batch, graph in enumerate(graphs, start=1) if least_peak(graph) <= 45]
        assert found.number == max(fits, default=0), seed
        assert found.certified == (found.number < 4), seed
        certified += found.certified
    assert certified == 2


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
    with pytest.raises(lt.UsageError, match="found a target, expected none, as partition has no ideal time"):
        largest(lambda _: random_partition(1), target=Fraction(1))
