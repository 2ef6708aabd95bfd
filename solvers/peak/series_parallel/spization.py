"""The method `sp-ization`: orders of series-parallel precedences that contain that of the graph.

From the reference order and from each of the greedy orders:

1. The graph is made series-parallel where it is not, guided by the order (`synchronization`): a new order.
2. As long as that helps, the order is improved within a series-parallel precedence that contains it
   (`division`); so is the order that was the guide.

From the best of these orders a walk over random divisions goes on (`division`).

The peaks are upper bounds, for any graph. On a series-parallel graph with additive memory step 1 adds
nothing, and its order is optimal, but `series-parallel` says so.

That a graph can be made series-parallel by synchronization, at the cost of some orders, is the idea of A.
González-Escribano, A. J. C. van Gemund, V. Cardeñoso-Payo, "Mapping unstructured applications into nested
parallelism", VECPAR 2002, who aim at time, and of the public code memDAG, which goes with Kayaaslan et al.
(see `blocks`). Which ops are synchronized, and that an order guides it, is this project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ...trees.blocks import ops_of
from ..orders.greedy import greedy_orders
from ..search.state_space import state_space
from .division import divided_blocks
from .synchronization import synchronized_blocks

PATIENCE = 3
"""Repetitions of step 2 without a better order."""

ROUNDS = 100
"""Divisions of the walk: with no time limit they end it."""


def solve_sp_ization(problem: Peak, context: Context) -> Outcome:
    """Offer the orders of all guides until the time is up."""
    space = state_space(problem.graph)
    reference = tuple(range(space.n))
    context.offer(reference)
    for guide in (reference, *greedy_orders(problem.graph)):
        if context.expired:
            return Outcome(reason="time")
        for order in (ops_of(synchronized_blocks(space, guide)), guide):
            context.offer(improved_by_division(problem, order, lambda: context.expired))
    walk_over_divisions(problem, context, context.options["rounds"], lambda: context.expired)
    return Outcome(reason="time") if context.expired else Outcome()


def walk_over_divisions(problem: Peak, context: Context, rounds: int, expired: Callable[[], bool]) -> None:
    """Go on from the incumbent by random divisions, and offer what is better.

    Parameters
    ----------
    context
        Has an incumbent, and the seed.
    expired
        Asked after each; when it holds, the walk ends.
    """
    space, rng = state_space(problem.graph), Random(context.seed)
    order = context.answer
    assert order is not None
    for _ in range(rounds):
        if context.closed or expired():
            return
        order = ops_of(divided_blocks(space, order, rng, expired))
        if not order:
            return
        context.offer(order)


def improved_by_division(
    problem: Peak, order: Sequence[int], expired: Callable[[], bool] = lambda: False
) -> tuple[int, ...]:
    """Return an order whose peak is at most that of a valid one."""
    space = state_space(problem.graph)
    best, least, tried = tuple(order), problem.evaluate(order), 0
    while tried < PATIENCE and (order := ops_of(divided_blocks(space, order, expired=expired))):
        tried += 1
        peak = problem.evaluate(order)
        if peak < least:
            best, least, tried = tuple(order), peak, 0
    return best
