"""POFO's program on chains: exhaustive search, limits, and what `auto` makes of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.errors import UsageError
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.placement.jointly import solve_jointly
from tests.oracles.brute_jointly import fastest_jointly
from tests.placement_cases import working_set
from tests.solvers.placement.test_jointly import chain, start_of, two_tiers

Starts = dict[str, tuple[str, ...]]
ANYWHERE: Starts = {}
GPU: Starts = {"input": ("gpu",)}
HOST: Starts = {"input": ("host",)}


def in_cells(seed: int, forwards: int, rates: tuple[int, ...]) -> lt.Placement:
    """Return a chain of tensors of one byte or none, which leave the device at once or not at all."""
    rng = Random(seed)
    graph = lt.load(f"gen:backprop-chain?l={forwards}")
    tensors = (replace(x, nbytes=rng.choice((0, 1, 1)) if t else 1) for t, x in enumerate(graph.tensors))
    ops = (replace(op, duration_ns=rng.randint(1, 2)) for op in graph.ops)
    graph = replace(graph, tensors=tuple(tensors), ops=tuple(ops))
    machine = two_tiers(working_set(graph) + rng.randint(0, 1), rng.choice(rates))
    return lt.Placement(graph, machine, start=rng.choice((GPU, HOST)), recompute=True)


def best_and_found(problem: lt.Placement) -> tuple[int | None, int | None]:
    """Return what exhaustive search finds and the program."""
    start = {t: (1 if "gpu" in problem.may_start("input") else 2) for t in start_of(problem)}
    best = fastest_jointly(problem.graph, problem.machine, start)
    return best, lt.solve(problem, "pofo", threads=1).objective


@pytest.mark.slow
def test_the_optimum_where_each_op_has_time_for_whole_bytes() -> None:
    """200 chains on which a copy takes no longer than an op: nothing that it leaves out is worth anything."""
    waiting = 0
    for seed in range(200):
        problem = in_cells(seed, 1 + seed % 2, (10**9,))
        best, found = best_and_found(problem)
        assert found == best
        waiting += found is not None and found > sum(op.duration_ns for op in problem.graph.ops)
    assert waiting > 50


def test_never_below_the_optimum() -> None:
    """Where copies take several ops, those of whole bytes may begin before one op and end behind the next."""
    above = 0
    for seed in range(12):
        best, found = best_and_found(in_cells(seed, 2, (10**9 // 2, 10**9 // 4)))
        assert best is not None
        assert found is not None
        assert found >= best
        above += found > best
    assert above < 6


def test_plans_of_any_sizes_verify_and_are_between_the_limits() -> None:
    """No slower than recomputation alone; without a rate, that; at once, each op once."""
    joined = 0
    for seed in range(24):
        rng = Random(seed)
        graph = chain(rng, rng.randint(0, 7))
        memory = working_set(graph) + rng.randint(0, 5)
        machine = two_tiers(memory, 10**9 // rng.choice((1, 2)))
        latency = rng.choice((0, 0, 1))
        machine = replace(machine, channels=tuple(replace(c, latency_ns=latency) for c in machine.channels))
        problem = lt.Placement(graph, machine, start=rng.choice((ANYWHERE, GPU, HOST)), recompute=True)
        result = lt.solve(problem, "pofo", threads=1)
        assert result.objective is not None, result.detail
        once = sum(op.duration_ns for op in graph.ops)
        assert (result.bound, result.status == "optimal") == (once, result.objective == once)
        joined += (
            result.plan is not None and len(result.plan.runs) > len(graph.ops) and bool(result.plan.copies)
        )
        alone = lt.solve(lt.Recompute(graph, memory=memory), "hetero-chain", threads=1).objective
        inside = replace(problem, start=GPU)
        slow = replace(inside, machine=two_tiers(memory, 1))
        if alone is not None:
            assert lt.solve(inside, "pofo", threads=1).objective <= alone  # type: ignore[operator]
            assert lt.solve(slow, "pofo", threads=1).objective == alone
        longer = tuple(replace(op, duration_ns=1000 * op.duration_ns) for op in graph.ops)
        fast = two_tiers(memory, 10**12)
        at_once = replace(problem, graph=replace(graph, ops=longer), machine=fast, start=ANYWHERE)
        assert lt.solve(at_once, "pofo", threads=1).objective // 1000 == once  # type: ignore[operator]
    assert joined > 1


def test_coarse_slots_are_safe() -> None:
    graph = lt.load("gen:backprop-chain?l=12&largest=1000&forward=900&backward=900&spread=3&seed=2")
    machine = two_tiers(working_set(graph) + 500, 10**9 // 4)
    problem = lt.Placement(graph, machine, start={}, recompute=True)
    fine, coarse = (
        lt.solve(problem, "pofo", threads=1, options={"memory-slots": x}).objective for x in ("400", "40")
    )
    assert fine is not None
    assert coarse is not None
    assert fine <= coarse


def test_auto_starts_from_its_plan() -> None:
    problem = replace(in_cells(3, 2, (10**9 // 4,)), start=ANYWHERE)
    found = Context(problem=problem)
    solve_jointly(problem, found, lambda once, context: Outcome())
    assert found.incumbent is not None
    best = lt.solve(problem, "pofo", threads=1).objective
    assert best is not None
    assert found.trace[0].incumbent == best


def test_what_it_refuses() -> None:
    problem = lt.Placement(lt.load("gen:backprop-chain?l=2"), two_tiers(9, 10**9), recompute=True)
    small = replace(problem.machine, tiers=(problem.machine.tiers[0], lt.Tier(name="host", capacity=1)))
    other = replace(problem, graph=lt.load("catalogue:diamond"))
    for wrong, words in (
        (replace(problem, recompute=False), "expected --recompute"),
        (replace(problem, whole=True), "expected copies of parts"),
        (replace(problem, machine=small), "room for 3 bytes"),
        (other, "is no such chain"),
    ):
        with pytest.raises(UsageError, match=words):
            lt.solve(wrong, "pofo")


def test_what_leaves_before_a_forward_stays_until_it_has_run() -> None:
    """A wait of whole ns lets more out than it is for: a byte of x2, which F2 reads behind the wait."""
    graph = lt.load("gen:backprop-chain?l=4")
    sizes, ns, spaces = (
        (3, 5, 2, 5, 4, 1, 0, 0, 1, 1),
        (1, 1, 2, 1, 1, 1, 1, 1, 1),
        (0, 0, 1, 0, 0, 1, 1, 1, 0),
    )
    tensors = (replace(x, nbytes=size) for x, size in zip(graph.tensors, sizes, strict=True))
    ops = (replace(op, duration_ns=d, workspace=w) for op, d, w in zip(graph.ops, ns, spaces, strict=True))
    graph = replace(graph, tensors=tuple(tensors), ops=tuple(ops))
    result = lt.solve(lt.Placement(graph, two_tiers(9, 3 * 10**9), start=GPU, recompute=True), "pofo")
    assert result.objective == 15, result.detail
    assert result.plan is not None
    start = next(run.start for run in result.plan.runs if run.op == 2)
    assert [x.bytes for x in result.plan.copies if x.tensor == 2 and x.end <= start] == [(0, 1)]
