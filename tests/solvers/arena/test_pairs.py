"""`auto` beside the pairs of `two-step`: each is tried, and none is below what `auto` ends with."""

from __future__ import annotations

import pytest

import lowtide as lt
from lowtide.formulations.arena.data import arena_data
from lowtide.solvers.arena.methods import ORDERS
from lowtide.solvers.arena.pairs import offer_by_rules, orders_of_pairs, search_each
from lowtide.solvers.arena.two_step import ALLOCATIONS
from lowtide.solvers.context import Context


def two_step(problem: lt.Arena, order: str, allocation: str) -> int:
    options = {"order": order, "allocation": allocation}
    found = lt.solve(problem, "two-step", options=options, threads=1).objective
    assert found is not None
    return found


@pytest.mark.parametrize(("seed", "alignment"), [(1, 1), (2, 16)])
def test_the_rules_reach_the_best_pair_and_not_more(seed: int, alignment: int) -> None:
    problem = lt.Arena(lt.load(f"gen:randwire?n=7&seed={seed}"), alignment)
    names = ORDERS if alignment > 1 else ORDERS[:-1]  # the caller's bound comes with the order of least peak
    pairs = [two_step(problem, order, rule) for order in names for rule in ALLOCATIONS]
    context, data = Context(problem=problem), arena_data(problem)
    orders = orders_of_pairs(problem, context)
    offer_by_rules(context, data, orders, lambda order: 0)
    assert context.incumbent == min(pairs) < max(pairs)


def test_an_order_that_cannot_be_lower_is_passed_over() -> None:
    problem = lt.Arena(lt.load("gen:randwire?n=10&seed=1"))
    context, data = Context(problem=problem), arena_data(problem)
    order = tuple(range(data.n))
    context.offer(data.answer(order, {str(k): 10**9 * k for k in range(len(data.pieces))}))
    high = context.incumbent
    assert high is not None
    offer_by_rules(context, data, [order], lambda order: high)
    search_each(context, data, [order], lambda order: high, 1.0)
    assert context.incumbent == high
    search_each(context, data, [order], lambda order: high - 1, 1.0)
    assert context.incumbent == two_step(problem, "reference", "auto")


@pytest.mark.slow(reason="solves a training step of 2,300 ops")
def test_pairs_close_what_the_order_of_least_peak_leaves_open() -> None:
    problem = lt.Arena(lt.load("onnx:densenet121?batch=1&train=1"))
    result = lt.solve(problem, threads=1, time_limit=60)
    assert result.objective == result.bound == 193_574_564
