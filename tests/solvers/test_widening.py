"""Widening search and `auto` against brute force; their bounds; limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import lowtide as lt
from lowtide.models.graph import Graph
from lowtide.models.memory import sequential_memory
from lowtide.solvers.algorithms.peak.beam import beam_pass
from lowtide.solvers.algorithms.peak.state_space import state_space
from lowtide.solvers.algorithms.peak.widening import widen
from lowtide.solvers.context import Context
from tests.oracles.brute_force import brute_force_peak
from tests.strategies import graphs

EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True)


@EXAMPLES
@given(graphs(max_ops=7))
@pytest.mark.parametrize("method", ["downsets", "auto"])
def test_exact_methods_find_the_brute_force_optimum(method: str, graph: Graph) -> None:
    result = lt.solve(lt.Peak(graph), method, threads=1)
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == result.bound == brute_force_peak(graph)[0]


@EXAMPLES
@given(graphs(max_ops=7, min_ops=2))
def test_exhaustive_passes_settle_every_limit(graph: Graph) -> None:
    """Within a limit there is an order iff brute force has one; the bound of a failure is proved."""
    optimum, _ = brute_force_peak(graph)
    memory = sequential_memory(graph)
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        for limit in range(max(optimum - 3, 0), optimum + 2):
            found = beam_pass(space, limit, 10**6, exhaustive=True)
            if limit >= optimum:
                assert found.order is not None
                assert memory.peak(found.order) <= limit
            else:
                assert found.order is None
                assert found.bound is not None
                assert limit < found.bound <= optimum


@EXAMPLES
@given(graphs(max_ops=7, min_ops=3))
def test_narrow_rounds_leave_true_bounds(graph: Graph) -> None:
    """With two sets per step most limits are given up: the bound must stay below the optimum."""
    context = Context(problem=lt.Peak(graph))
    context.offer(range(len(graph.ops)))
    context.raise_bound(0)
    import lowtide.solvers.algorithms.peak.widening as module

    first = module.FIRST_WIDTH
    module.FIRST_WIDTH = 2
    try:
        widen(lt.Peak(graph), context, lambda: False, widest=2)
    finally:
        module.FIRST_WIDTH = first
    optimum, _ = brute_force_peak(graph)
    assert context.bound is not None
    assert context.incumbent is not None
    assert context.bound <= optimum <= context.incumbent


def test_time_limit_leaves_incumbent_and_bound() -> None:
    graph = lt.load("gen:randwire?n=100&seed=0")
    result = lt.solve(lt.Peak(graph), "downsets", time_limit=1.0, threads=1)
    assert result.status is lt.Status.FEASIBLE
    assert result.reason == "time"
    assert result.bound is not None
    assert result.objective is not None
    assert 300 < result.bound < result.objective < 400
    assert result.verification is not None
    assert result.verification.valid


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
