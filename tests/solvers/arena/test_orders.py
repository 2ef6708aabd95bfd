"""Orders that `auto` looks for: it ends at or below every pair of `two-step`; steps of its walk."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.arena.data import arena_data
from lowtide.solvers.arena.methods import ORDERS
from lowtide.solvers.arena.orders import Orders, moved, offer_by_rules, orders_of_pairs, search_orders
from lowtide.solvers.arena.two_step import ALLOCATIONS
from lowtide.solvers.context import Context


def two_step(problem: lt.Arena, order: str, allocation: str) -> int:
    options = {"order": order, "allocation": allocation}
    found = lt.solve(problem, "two-step", options=options, threads=1).objective
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "alignment"), [(1, 1), (2, 16)])
def test_the_rules_reach_the_best_pair_and_not_more(seed: int, alignment: int) -> None:
    problem = lt.Arena(lt.load(f"gen:randwire?n=7&seed={seed}"), alignment)
    names = ORDERS if alignment > 1 else ORDERS[:-1]  # the caller's bound comes with the order of least peak
    pairs = [two_step(problem, order, rule) for order in names for rule in ALLOCATIONS]
    context, data = Context(problem=problem), arena_data(problem)
    for _, order in orders_of_pairs(problem, context):
        offer_by_rules(context, data, order, 0)
    assert context.incumbent == min(pairs) < max(pairs)


def test_an_order_that_cannot_be_lower_is_passed_over() -> None:
    problem = lt.Arena(lt.load("gen:randwire?n=10&seed=1"))
    context, data = Context(problem=problem), arena_data(problem)
    order = tuple(range(data.n))
    context.offer(data.answer(order, {str(k): 10**9 * k for k in range(len(data.pieces))}))
    high = context.incumbent
    assert high is not None
    offer_by_rules(context, data, order, high)
    assert context.incumbent == high
    offer_by_rules(context, data, order, 0)
    assert context.incumbent == min(two_step(problem, "reference", rule) for rule in ALLOCATIONS)


def test_rounds_end_below_every_pair_without_a_limit() -> None:
    problem = lt.Arena(lt.load("gen:randwire?n=10&seed=1"))
    context, orders = Context(problem=problem), Orders(problem)
    orders.add("reference", range(orders.data.n))
    assert search_orders(orders, context).reason is None
    assert context.incumbent is not None
    assert context.incumbent <= min(two_step(problem, name, "auto") for name in ("reference", "xla", "auto"))
    assert not {order for order in orders.open(context) if orders.least_height(order) >= context.incumbent}


def test_a_step_of_the_walk_moves_one_op_over_what_does_not_hold_it() -> None:
    """The op that is delayed takes along what depends on it, the one that is advanced what it needs."""
    edges = ((), (0,), (), (1,), (2,))
    ops = tuple(lt.Op(name=str(i), after=after) for i, after in enumerate(edges))
    problem = lt.Arena(lt.Graph(name="two chains", tensors=(), ops=ops))
    met = {tuple(moved(problem, range(5), Random(seed))) for seed in range(200)}
    assert met == {
        (2, 0, 1, 3, 4),
        (2, 4, 0, 1, 3),
        (0, 2, 1, 3, 4),
        (0, 2, 4, 1, 3),
        (0, 1, 3, 2, 4),
        (0, 1, 2, 4, 3),
    }


@pytest.mark.slow(reason="solves a training step of 2,300 ops")
def test_pairs_close_what_the_order_of_least_peak_leaves_open() -> None:
    problem = lt.Arena(lt.load("onnx:densenet121?batch=1&train=1"))
    result = lt.solve(problem, threads=1, time_limit=60)
    assert result.objective == result.bound == 193_574_564
