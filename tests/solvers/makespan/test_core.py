"""Cores: a few ops of a graph alone never take longer than the whole."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.makespan.auto import solve_auto
from lowtide.solvers.makespan.bounds.core import bound_by_cores, core_problem, restricted
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.brute_makespan import fastest_schedule
from tests.strategies import random_graph


@pytest.mark.slow
def test_cores_are_never_slower_than_the_whole_and_sometimes_as_slow() -> None:
    equal = 0
    for seed in range(100):
        rng = Random(seed)
        graph = random_graph(rng, min_ops=4, max_ops=6, accountings=(lt.Accounting.COEXIST,))
        p, memory = rng.randint(1, 3), brute_force_peak(graph)[0] + rng.choice((0, 0, 1, 3))
        best = fastest_schedule(graph, p, memory)
        assert best is not None
        n = len(graph.ops)
        core = restricted(graph, sorted(rng.sample(range(n), rng.randint(n - 2, n - 1))))
        alone = fastest_schedule(core, p, memory)
        assert alone is not None, f"seed {seed}"
        assert alone <= best, f"seed {seed}"
        equal += alone == best
    assert equal >= 10


@pytest.mark.slow
def test_core_of_all_ops_is_the_whole() -> None:
    problem = lt.Makespan(lt.load("gen:randwire?n=16&seed=1"), processors=2, memory=100)
    core = core_problem(problem, 1000)
    assert lt.solve(core, threads=1).objective == lt.solve(problem, threads=1).objective


def test_larger_and_larger_cores_bound_the_whole_until_one_is_not_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lowtide.solvers.makespan.bounds.core.CORES", (3, 5, 7, 18))
    problem, asked = lt.Makespan(lt.load("gen:randwire?n=16&seed=2"), processors=2), list[int]()

    def solve(core: lt.Makespan, inner: Context, most: int) -> Outcome:
        asked.append(len(core.graph.ops))
        return solve_auto(core, inner) if len(asked) <= most else Outcome(reason="time")

    def bound(most: int) -> tuple[int | None, str | None]:
        asked.clear()
        context = Context(problem=problem)
        outcome = bound_by_cores(problem, context, solve=lambda core, inner: solve(core, inner, most))
        return context.bound, outcome.reason

    alone = [lt.solve(core_problem(problem, count), threads=1).objective or 0 for count in (3, 5, 7)]
    assert alone[0] < alone[1] < alone[2]
    assert (bound(most=3), asked) == ((alone[2], None), [3, 5, 7])
    assert (bound(most=1), asked) == ((alone[0], "time"), [3, 5])


@pytest.mark.slow
def test_heaviest_ops_of_an_assembly_tree_bound_it_best() -> None:
    graph = lt.load("gen:assembly?grid=40x40&leaf=1")
    least = lt.solve(lt.Peak(graph), threads=1).objective
    assert least is not None
    problem = lt.Makespan(graph, 4, least + least // 4)
    core = lt.solve(core_problem(problem, 16), threads=1)
    assert core.status == "optimal"
    assert core.objective is not None
    lists = lt.solve(problem, "list", threads=1)
    assert lists.bound is not None
    assert lists.objective is not None
    assert lists.bound < core.objective <= lists.objective
