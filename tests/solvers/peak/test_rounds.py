"""Widening search and `auto` against brute force; their bounds; limits."""

from __future__ import annotations

import pytest
from hypothesis import given

import lowtide as lt
from lowtide.models.graph import Graph
from lowtide.solvers.context import Context
from lowtide.solvers.peak.search import rounds
from lowtide.solvers.peak.search.rounds import widen
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak
from tests.strategies import graphs

EXAMPLES = many(100)


@EXAMPLES
@given(graphs(max_ops=7))
@pytest.mark.parametrize("method", ["downsets", "auto"])
def test_exact_methods_find_the_brute_force_optimum(method: str, graph: Graph) -> None:
    result = lt.solve(lt.Peak(graph), method, threads=1)
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == result.bound == brute_force_peak(graph)[0]


@EXAMPLES
@given(graphs(max_ops=7, min_ops=3))
def test_narrow_rounds_leave_true_bounds(graph: Graph) -> None:
    """With a few steps per pass most limits are given up: the bound must stay below the optimum."""
    context = Context(problem=lt.Peak(graph))
    context.offer(range(len(graph.ops)))
    context.raise_bound(0)
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 30

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "SMALL_EFFORT", 2)
        patch.setattr(rounds, "DESCENTS", 2)
        patch.setattr(rounds, "SECOND_EFFORT", 4)
        patch.setattr(rounds, "GROWTH", 2)
        widen(lt.Peak(graph), context, expired)
    optimum, _ = brute_force_peak(graph)
    assert context.bound is not None
    assert context.incumbent is not None
    assert context.bound <= optimum <= context.incumbent


@pytest.mark.slow
def test_time_limit_leaves_incumbent_and_bound() -> None:
    graph = lt.load("gen:randwire?n=300&seed=0")
    result = lt.solve(lt.Peak(graph), "downsets", time_limit=1.0, threads=1)
    assert result.status is lt.Status.FEASIBLE
    assert result.reason == "time"
    assert result.bound is not None
    assert result.objective is not None
    assert 0 < result.bound < result.objective
    assert result.verification is not None
    assert result.verification.valid


@pytest.mark.slow
def test_memory_limit_leaves_incumbent_and_bound() -> None:
    """Too little for either search: passes and descents give up, and no further round could do more."""
    graph = lt.load("gen:randwire?n=100&seed=0")
    result = lt.solve(lt.Peak(graph), "downsets", time_limit=None, threads=1, memory_limit=2**20)
    assert result.status is lt.Status.FEASIBLE
    assert result.reason == "memory"
    assert result.bound is not None
    assert result.objective is not None
    assert 300 < result.bound < result.objective < 400
    assert result.verification is not None
    assert result.verification.valid


def test_an_interrupt_in_a_pass_leaves_incumbent_and_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds, "beam_pass", interrupted)
    result = lt.solve(lt.Peak(lt.load("gen:randwire?n=100&seed=0")), "downsets", threads=1)
    assert result.status is lt.Status.FEASIBLE
    assert result.reason == "interrupted"
    assert result.bound is not None
    assert result.objective is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 4])
def test_wired_networks_of_100_ops_are_closed_by_compiled_passes(seed: int) -> None:
    """The optima were proved by passes step by step up from the cut bound, in another process."""
    optimum = {1: 347, 3: 384, 4: 331}[seed]
    result = lt.solve(lt.Peak(lt.load(f"gen:randwire?n=100&seed={seed}")), "downsets", threads=1)
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == optimum


@pytest.mark.parametrize("n", [20, 40])
def test_same_inputs_same_result(n: int) -> None:
    graph = lt.load(f"gen:randwire?n={n}&seed=3")
    one, two = (lt.solve(lt.Peak(graph), "auto", threads=1) for _ in range(2))
    assert one.plan == two.plan
    assert one.status is lt.Status.OPTIMAL


def test_auto_refuses_a_mistyped_option_though_it_never_reaches_the_solver() -> None:
    problem = lt.Peak(lt.load("catalogue:diamond"))
    with pytest.raises(lt.UsageError, match="num_workrs"):
        lt.solve(problem, "auto", options={"num_workrs": "1"})
    assert lt.solve(problem, "auto", options={"num_workers": "1"}).status is lt.Status.OPTIMAL
