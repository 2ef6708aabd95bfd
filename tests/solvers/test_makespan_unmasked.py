"""Makespans of graphs that are too large for sets of ops: the same answers, and valid bounds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations import makespan_data as data_module
from lowtide.formulations.makespan_data import makespan_data
from lowtide.formulations.peak_data import accessed_bound, forced_bound, peak_data
from lowtide.models.precedence import precedence
from lowtide.solvers import makespan_list
from lowtide.solvers.algorithms.makespan import bounds
from lowtide.solvers.algorithms.makespan.series import ordered_with_all
from lowtide.solvers.context import Context
from lowtide.solvers.makespan_auto import search
from lowtide.solvers.makespan_list import Started, begin, offer_lists

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
    late = Context(problem=problem, time_limit=1.0, started=time.perf_counter() - 86_400)
    search(problem, late, started, part=1.0, moves=None)
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
    late = Context(problem=problem, time_limit=1.0, started=time.perf_counter() - 86_400)
    offer_lists(problem, late, started, ("critical", "fallback"))
    assert len(late.trace) == count
