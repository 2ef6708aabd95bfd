"""Makespans of graphs that are too large for sets of ops: the same answers, and valid bounds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.makespan import data as data_module
from lowtide.formulations.makespan.data import makespan_data
from lowtide.formulations.peak.data import accessed_bound, forced_bound, peak_data
from lowtide.models.derived.precedence import precedence
from lowtide.solvers.context import Context, Known
from lowtide.solvers.makespan.bounds import bounds
from lowtide.solvers.makespan.lists import fallback
from lowtide.solvers.makespan.lists import method as makespan_list
from lowtide.solvers.makespan.lists.layout import shop_of
from lowtide.solvers.makespan.lists.list_kernel import schedule, schedule_until
from lowtide.solvers.makespan.lists.local_search import search
from lowtide.solvers.makespan.lists.method import Started, TimeIsUp, begin, offer_lists
from lowtide.solvers.makespan.lists.series import ordered_with_all
from tests.effort import LONG_AGO
from tests.strategies import random_graph

SPECS = (
    *(f"gen:tasks?shape=inception&n=20&cores=2&seed={seed}" for seed in range(4)),
    *(f"gen:randwire?n=9&seed={seed}" for seed in range(4)),
    *(f"gen:layered?layers=4&width={1 + seed}&seed={seed}" for seed in range(3)),
    "gen:chain?n=6&seed=1",
    "gen:intree?n=12&seed=1",
)


@pytest.mark.parametrize("spec", SPECS)
def test_ops_that_are_ordered_with_all_others_need_no_sets(spec: str) -> None:
    order = precedence(lt.load(spec))
    n = len(order.predecessors)
    related = [a.bit_count() + d.bit_count() for a, d in zip(order.ancestors, order.descendants, strict=True)]
    assert ordered_with_all(order) == [count == n - 1 for count in related]


@pytest.mark.parametrize("accounting", lt.Accounting)
@pytest.mark.parametrize("spec", SPECS)
def test_what_an_op_accesses_is_a_bound_without_sets(spec: str, accounting: lt.Accounting) -> None:
    graph = lt.load(spec)
    if accounting is not graph.accounting:
        graph = lt.Graph(name=graph.name, tensors=graph.tensors, ops=graph.ops, accounting=accounting)
    problem = lt.Peak(graph)
    whole, bare = peak_data(problem), peak_data(problem, masks=False)
    assert accessed_bound(bare) * bare.unit <= forced_bound(whole) * whole.unit
    peak = lt.solve(problem, threads=1)
    assert peak.objective is not None
    assert accessed_bound(bare) * bare.unit <= peak.objective


@pytest.mark.parametrize("spec", SPECS)
def test_answers_without_sets_are_those_with_them(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = lt.load(spec)
    memory = lt.solve(lt.Peak(graph), threads=1).objective
    assert memory is not None
    for bound in (memory, memory * 5 // 4, 1):
        problem = lt.Makespan(graph, 2, bound)
        monkeypatch.setattr(data_module, "MASKED", 10**6)
        whole = lt.solve(problem, "list", threads=1)
        for module in (data_module, bounds):
            monkeypatch.setattr(module, "MASKED", 0)
        bare = lt.solve(problem, "list", threads=1)
        exact = lt.solve(problem, threads=1)
        if exact.objective is None:
            assert bare.objective is None
            continue
        assert bare.objective == whole.objective
        assert bare.bound is not None
        assert bare.bound <= exact.objective


def test_of_many_heads_some_are_tried_and_give_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        data = makespan_data(lt.Makespan(lt.load(f"gen:layered?layers=12&width=3&seed={seed}"), 2))
        monkeypatch.setattr(bounds, "MOST_STEPS", 10**9)
        best = bounds.load(data)
        monkeypatch.setattr(bounds, "MOST_STEPS", 1)
        few = bounds.load(data)
        assert -(-int(np.sum(data.duration)) // 2) <= few <= best


def test_a_local_search_that_has_no_time_makes_one_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = lt.Makespan(lt.load("gen:layered?layers=6&width=3&seed=1"), 2)
    started = begin(problem, Context(problem=problem))
    assert isinstance(started, Started)
    made: list[object] = []
    whole = Started.list_schedule

    def list_schedule(self: Started, rank: Any) -> Any:
        made.append(rank)
        return whole(self, rank)

    monkeypatch.setattr(Started, "list_schedule", list_schedule)
    late = Context(problem=problem, time_limit=1.0, started=LONG_AGO)
    search(started, problem, late, moves=None)
    assert len(made) == 1
    assert late.incumbent is not None


@pytest.mark.parametrize(("slow", "count"), [(10, 0), (100, 1)])
def test_no_list_schedule_of_a_large_graph_when_the_time_is_up(
    slow: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = lt.Makespan(lt.load("gen:layered?layers=6&width=3&seed=1"), 2)
    started = begin(problem, Context(problem=problem))
    assert isinstance(started, Started)
    monkeypatch.setattr(makespan_list, "SLOW", slow)
    late = Context(problem=problem, time_limit=1.0, started=LONG_AGO)
    offer_lists(problem, late, started, ("critical", "fallback"))
    assert len(late.trace) == count


class Bell:
    """A number that is 0 for so many looks, then 1."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def __getitem__(self, place: int) -> int:
        self.looks -= 1
        return int(self.looks < 0)


def test_a_list_schedule_is_stopped_at_the_next_ready_op() -> None:
    problem = lt.Makespan(lt.load("gen:layered?layers=6&width=3&seed=1"), 2)
    n = len(problem.graph.ops)
    shop, order = shop_of(problem), np.arange(n)
    for looks in (0, 1, n // 2):
        bell = Bell(looks)
        assert len(schedule_until.py_func(shop, order, order, bell)) == 0
        assert bell.looks == -1, "it was not asked again"
    whole = schedule_until.py_func(shop, order, order, np.zeros(1, np.int64))
    assert whole.tolist() == schedule(shop, order, order).tolist()
    assert len(schedule_until(shop, order, order, np.ones(1, np.int64))) == 0


def test_a_list_schedule_of_a_large_graph_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there before stays; with time it is the schedule that small graphs get."""
    problem = lt.Makespan(lt.load("gen:layered?layers=6&width=3&seed=1"), 2)
    monkeypatch.setattr(makespan_list, "WATCHED", 10)
    monkeypatch.setattr(makespan_list, "SMALL", 10)
    ample = Context(problem=problem, time_limit=86_400.0)
    started = begin(problem, ample)
    assert isinstance(started, Started)
    rank = np.arange(started.data.n)
    assert started.list_schedule(rank) == tuple(
        schedule(started.shop, np.array(started.order), rank).tolist()
    )

    def stopped(context: Context, stop: Any, go: Callable[[Callable[[], bool]], None], least: float) -> str:
        stop[0] = 1
        go(lambda: True)
        return "time"

    monkeypatch.setattr(makespan_list, "run_passes", stopped)
    with pytest.raises(TimeIsUp):
        started.list_schedule(rank)
    for method in ("list", "local-search"):
        result = lt.solve(problem, method, time_limit=86_400.0)
        assert result.verification is not None
        assert result.verification.valid
        assert result.objective == problem.evaluate(makespan_list.in_sequence(problem, started.order))
    monkeypatch.setattr(makespan_list, "run_passes", lambda *_: "interrupted")
    with pytest.raises(KeyboardInterrupt):
        started.list_schedule(rank)


class Alarm:
    """A clock whose time is up at its n-th look."""

    def __init__(self, last: int) -> None:
        self.last, self.looks = last, 0

    def __call__(self) -> bool:
        self.looks += 1
        return self.looks >= self.last


def test_memory_area_without_time_is_a_weaker_bound() -> None:
    weaker = 0
    for seed in range(30):
        graph = random_graph(Random(seed), min_ops=4, max_ops=7, max_duration=4)
        problem = lt.Makespan(graph, 2, lt.solve(lt.Peak(graph), "downsets", threads=1).objective)
        data = makespan_data(problem)
        whole = bounds.memory_area(problem, data)
        for last in (1, 2, 10**6):
            alarm = Alarm(last)
            part = bounds.memory_area(problem, data, alarm)
            assert (part is None) == (whole is None)
            assert alarm.looks <= last, "it is not asked again"
            if part is not None and whole is not None:
                assert part <= whole
                assert last < 10**6 or part == whole
                weaker += part < whole
    assert weaker


def test_large_graphs_without_time_have_the_critical_path_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = lt.Makespan(lt.load("gen:layered?layers=6&width=3&seed=1"), 2, 10**6)
    late = Context(problem=problem, time_limit=0.0)
    bounds.raise_bounds(problem, makespan_data(problem), late)
    assert late.bound_kind == "load"
    monkeypatch.setattr(bounds, "LARGE", 10)
    hurried = Context(problem=problem, time_limit=0.0)
    bounds.raise_bounds(problem, makespan_data(problem), hurried)
    assert hurried.bound_kind == "critical path"


def test_fallback_of_a_large_graph_without_time_is_the_reference_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = lt.load("gen:layered?layers=6&width=3&seed=1")
    reference = tuple(range(len(graph.ops)))
    enough = lt.Peak(graph).evaluate(reference)
    monkeypatch.setattr(fallback, "LARGE", 10)
    monkeypatch.setattr(fallback, "greedy_orders", None)
    for memory, order in ((enough, reference), (enough - 1, None)):
        problem = lt.Makespan(graph, 2, memory)
        late = Context(problem=problem, time_limit=0.0)
        assert fallback.find_fallback(problem, late, search=True, orders=Known()) == order
