"""Other orders: one that fits is a fastest schedule; what is found in another order is one for the graph."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.solvers.context import Context
from lowtide.solvers.recompute.auto import IN_ANOTHER_ORDER, PARTS
from lowtide.solvers.recompute.orders import Orders
from tests.effort import seeds

GRAPHS = [f"gen:layered?layers={k}&width=4&seed={s}" for k in (3, 5) for s in seeds(8, 3)]


def asked(spec: str, percent: int) -> lt.Recompute:
    """Return the question with a memory between the least peak and that of the reference order."""
    graph = lt.load(spec)
    least = lt.solve(lt.Peak(graph)).objective
    assert least is not None
    most = sequential_memory(graph).reference_peak
    return lt.Recompute(graph, least + percent * (most - least) // 100)


@pytest.mark.parametrize("spec", GRAPHS)
def test_an_order_that_fits_is_optimal(spec: str) -> None:
    problem = asked(spec, 0)
    context = Context(problem=problem)
    Orders().search(problem, context)
    if sequential_memory(problem.graph).reference_peak > (problem.memory or 0):
        assert context.incumbent == problem.least_time
        assert problem.judge(context.answer).objective == problem.least_time
    result = lt.solve(problem)
    assert result.objective == problem.least_time
    assert result.status == lt.Status.OPTIMAL


@pytest.mark.parametrize("name", IN_ANOTHER_ORDER)
def test_what_is_found_in_another_order_is_valid_for_the_graph(name: str) -> None:
    """In an order that fits each op once is enough; the parts come to it in other ways too."""
    (part,) = (part for part in PARTS if part.name == name)
    found = 0
    for spec in GRAPHS:
        graph = lt.load(spec)
        best = lt.solve(lt.Peak(graph)).order
        assert best is not None
        problem = lt.Recompute(graph, sequential_memory(graph).peak(best))
        context = Context(problem=problem, time_limit=5.0, careful=True, options=part.options)
        orders = Orders(best=tuple(best))
        outcome = orders.follow((part,), problem, context)
        if outcome.refused:
            assert sequential_memory(graph).peak(best) == sequential_memory(graph).reference_peak
            continue
        assert not context.refused
        if context.answer is not None:
            found += 1
            assert problem.judge(context.answer).objective == context.incumbent
    assert found
