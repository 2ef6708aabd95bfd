"""The trade-off curve against exhaustive search, and what it keeps when it is stopped."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.solvers.makespan import trade_off as module
from lowtide.solvers.solve import solve
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_graph


def check_against_exhaustive_search(curve: lt.TradeOff, problem: lt.Makespan) -> None:
    """At each memory: the curve's schedules above the fastest one, its bounds below."""
    looked = {p.memory + k for p in curve.points for k in (-1, 0, 1)} | {curve.least_memory - 1}
    for memory in sorted(m for m in looked if m >= 0):
        best = fastest_schedule(problem.graph, problem.processors, memory)
        if memory < curve.least_memory:
            assert best is None
        known = [makespan for peak, makespan in curve.front if peak <= memory]
        if known:
            assert best is not None
            assert min(known) >= best
        bound = curve.bound_within(memory)
        if best is not None and bound is not None:
            assert bound <= best
    for point in curve.points:
        assert point.plan is not None
        assert point.plan.machine.tiers[0].capacity == point.memory
        verdict = lt.verify(problem.graph, point.plan)
        assert (verdict.makespan, max(verdict.peaks.values())) == (point.makespan, point.peak)


def small_problem(seed: int, kinds: tuple[str, ...] = ()) -> lt.Makespan:
    """Return a problem of 4 to 6 ops on 1 to 3 processors, or two of the first kind and one of each other."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=4, max_ops=6, mode_kinds=kinds)
    return lt.Makespan(graph, {k: 1 + (k == kinds[0]) for k in kinds} if kinds else rng.randint(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "seeds", "kinds"),
    [("list", range(20), ()), ("list", range(40, 52), ("cpu", "gpu")), ("auto", range(20, 28), ())],
)
def test_curves_enclose_the_fastest_schedules(method: str, seeds: range, kinds: tuple[str, ...]) -> None:
    for seed in seeds:
        problem = small_problem(seed, kinds)
        curve = lt.sweep_memory(problem, 4, method=method, threads=1)
        assert curve.reason is None
        assert 1 <= len(curve.points) <= 4
        check_against_exhaustive_search(curve, problem)
        if method == "auto":
            assert all(point.optimal for point in curve.points)


@pytest.mark.slow
def test_every_memory_is_settled_if_there_are_enough_points() -> None:
    problem = lt.Makespan(lt.load("gen:sp?n=8&seed=1&largest=9"), processors=2)
    curve = lt.sweep_memory(problem, 40, threads=1)
    for memory in range(curve.least_memory, curve.points[-1].memory + 1):
        best = fastest_schedule(problem.graph, 2, memory)
        assert min(makespan for peak, makespan in curve.front if peak <= memory) == best
        assert curve.bound_within(memory) == best
    assert len(curve.front) > 1
    assert len(curve.points) < 40


@pytest.mark.slow
def test_memories_are_multiples_of_what_can_be_live() -> None:
    graph = lt.load("gen:sp?n=8&seed=1")
    coarse = replace(graph, tensors=tuple(replace(t, nbytes=1000 * t.nbytes) for t in graph.tensors))
    fine, scaled = (lt.sweep_memory(lt.Makespan(g, 2), 12, threads=1) for g in (graph, coarse))
    assert [p.memory for p in scaled.points] == [1000 * p.memory for p in fine.points]
    assert scaled.least_memory == 1000 * fine.least_memory


@pytest.mark.slow
def test_neighbours_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solve starts from the schedule of less memory and needs no better one than the bound of more."""
    seen: list[tuple[int | None, int | None, Any]] = []

    def watched(problem: Any, *arguments: Any, **named: Any) -> lt.Result:
        if problem.name == "makespan":
            hint = named["hint"]
            within = None if hint is None else problem.evaluate(problem.read(hint))
            seen.append((problem.memory, problem.target, within))
        return solve(problem, *arguments, **named)

    monkeypatch.setattr(module, "solve", watched)
    problem = lt.Makespan(lt.load("gen:sp?n=8&seed=1"), processors=2)
    curve = lt.sweep_memory(problem, 3, threads=1)
    assert [p.memory for p in curve.points] == [36, 43, 51]
    assert seen == [(None, None, 8), (36, 5, 8), (43, 5, 7)]


def test_target_is_none_of_the_questions_that_methods_make() -> None:
    asked = lt.Makespan(lt.load("gen:sp?n=8&seed=1"), processors=2, memory=43)
    question = module._WithTarget(asked.graph, asked.processors, asked.memory, target=6, asked=asked)
    assert question.satisfied(6)
    assert not question.satisfied(7)
    part = lt.load("gen:sp?n=4&seed=1")
    for other in (
        replace(question, graph=part),
        replace(question, memory=36),
        replace(question, processors=1),
    ):
        assert not other.satisfied(6)


@pytest.mark.parametrize(("calls", "memories"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_interrupt_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, calls: int, memories: int) -> None:
    done: list[str] = []

    def stopped(problem: Any, *arguments: Any, **named: Any) -> lt.Result:
        if len(done) == calls:
            raise KeyboardInterrupt
        done.append(problem.name)
        return solve(problem, *arguments, **named)

    monkeypatch.setattr(module, "solve", stopped)
    problem = lt.Makespan(lt.load("gen:sp?n=8&seed=1"), processors=2)
    curve = lt.sweep_memory(problem, 4, threads=1, method="list")
    assert curve.reason == "interrupted"
    assert len(curve.points) == memories
    check_against_exhaustive_search(curve, problem)


def test_interrupted_solve_leaves_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the schedule without limit is improved: it is the largest memory of the curve."""

    def interrupt(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lowtide.solvers.makespan.lists.local_search.search", interrupt)
    problem = lt.Makespan(lt.load("gen:tasks?shape=layered&n=30&seed=1"), processors=2)
    curve = lt.sweep_memory(problem, 4, threads=1, method="local-search")
    assert curve.reason == "interrupted"
    assert [result.reason for result in curve.runs] == [None, "interrupted"]
    assert len(curve.points) == 2
    assert curve.points[1].makespan < curve.points[0].makespan


def test_no_time_is_no_curve() -> None:
    curve = lt.sweep_memory(small_problem(1), time_limit=1e-9)
    assert (curve.reason, curve.points, curve.runs) == ("time", (), ())


def test_method_that_fails_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*arguments: Any) -> None:
        raise ValueError("no such luck")

    monkeypatch.setattr("lowtide.solvers.makespan.lists.method.offer_lists", crash)
    curve = lt.sweep_memory(lt.Makespan(lt.load("gen:sp?n=8&seed=1"), processors=2), method="list")
    assert curve.reason == "crash"
    assert "no such luck" in curve.runs[-1].detail
    assert [p.makespan for p in curve.points] == [8]


def test_memory_below_the_sequential_peak_is_not_refuted_where_readers_replace() -> None:
    """Two ops that read 10 bytes and write 5 each need 15 one after the other, 10 side by side."""
    sizes = {"x": 10, "y": 5, "z": 5}
    graph = lt.Graph(
        name="readers",
        tensors=tuple(lt.Tensor(name=k, nbytes=v, final=k != "x") for k, v in sizes.items()),
        ops=(
            lt.Op(name="load", writes=(0,)),
            lt.Op(name="left", reads=(0,), writes=(1,)),
            lt.Op(name="right", reads=(0,), writes=(2,)),
        ),
        accounting=lt.Accounting.REPLACE,
    )
    curve = lt.sweep_memory(lt.Makespan(graph, processors=2), threads=1)
    assert curve.least_memory == 10
    assert curve.front == ((10, 2),)
    assert lt.sweep_memory(lt.Makespan(graph, processors=1), threads=1).least_memory == 15


def test_memory_below_what_is_there_at_the_start_is_refuted() -> None:
    """x gives way as the first op starts, so the ops need 4 bytes; but 10 are there before."""
    sizes = {"x": 10, "y": 4}
    graph = lt.Graph(
        name="begin",
        tensors=tuple(
            lt.Tensor(name=k, nbytes=v, initial=k == "x", final=k == "y") for k, v in sizes.items()
        ),
        ops=(lt.Op(name="a", reads=(0,), writes=(1,)),),
        accounting=lt.Accounting.REPLACE,
    )
    assert lt.solve(lt.Peak(graph)).objective == 10
    curve = lt.sweep_memory(lt.Makespan(graph, processors=1), threads=1)
    assert (curve.least_memory, curve.front) == (10, ((10, 1),))
    within = lt.solve(lt.Makespan(graph, processors=1, memory=9), threads=1)
    assert (within.status, within.detail) == ("infeasible", "at the start 10 B are in the memory, of 9 B")


def test_wrong_questions_are_refused() -> None:
    graph = lt.load("gen:sp?n=8&seed=1")
    with pytest.raises(lt.UsageError, match="found memory 40, expected a problem without one"):
        lt.sweep_memory(lt.Makespan(graph, memory=40))
    with pytest.raises(lt.UsageError, match="found 1 points, expected an integer >= 2"):
        lt.sweep_memory(lt.Makespan(graph), 1)
    with pytest.raises(lt.UsageError, match="method"):
        lt.sweep_memory(lt.Makespan(graph), method="magic")
