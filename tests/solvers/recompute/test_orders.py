"""Other orders: one that fits is a fastest schedule; what is found in another order is one for the graph."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.solvers.context import Context
from lowtide.solvers.placement.reductions.orders import mutated
from lowtide.solvers.recompute.auto import IN_ANOTHER_ORDER, PARTS
from lowtide.solvers.recompute.orders import BestOrder
from tests.effort import seeds
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute import tight_problem, with_disk

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
    BestOrder().search(problem, context)
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
        context = Context(problem=problem, time_limit=None, careful=True, options=part.options)
        outcome = BestOrder(best=tuple(best)).follow((part,), problem, context)
        if outcome.refused:
            assert sequential_memory(graph).peak(best) == sequential_memory(graph).reference_peak
            continue
        assert not context.refused
        if context.answer is not None:
            found += 1
            assert problem.judge(context.answer).objective == context.incumbent
    assert found


@pytest.mark.slow
def test_no_order_finds_less_than_exhaustive_search_on_any_graph() -> None:
    """Several writers, updates in place, control edges, a disk: whatever a random order gives is valid."""
    parts = [part for part in PARTS if part.name in IN_ANOTHER_ORDER]
    found = 0
    for seed in seeds(120, 24):
        problem = tight_problem(seed)
        if problem is None:
            continue
        rng = Random(seed)
        problem = with_disk(problem, rng) if seed % 3 == 0 else problem
        graph = problem.graph
        orders = [mutated(rng, graph, tuple(range(len(graph.ops))), 0.9) for _ in range(20)]
        best = min(orders, key=sequential_memory(graph).peak)
        context = Context(problem=problem, time_limit=None)
        BestOrder(best=best).follow(parts, problem, context)
        if context.answer is not None:
            found += 1
            least = fastest_recomputation(graph, problem.machine)
            assert least is not None
            assert context.incumbent is not None
            assert problem.judge(context.answer).objective == context.incumbent >= least, seed
    assert found
