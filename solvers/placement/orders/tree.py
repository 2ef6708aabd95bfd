"""`orders`: the best of all orders that a question allows, by branch and bound.

A node is what comes first, an order of some ops; its children have one more op that is ready. What is
certain in every order that begins so (`lowtide.solvers.placement.bounds.any_order`, with more ops before
others) is its bound; the node of least bound comes next, of equal ones that of more ops. A complete order
is solved as if it were fixed. *Proof*: the bound of a node holds for all plans whose order begins so;
each plan that was not seen is in an order of an open node, or in one that was solved, whose own bound it
obeys. So the least of these bounds is one for every plan. An order is left out only where it is proved to
have no plan. QED.

With a fixed order there is one node.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace

from ....formulations.placement.bounds.releases import ideal_time
from ....models.derived.precedence import precedence
from ....models.derived.reordered import in_order
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ..bounds.any_order import bound_of_orders, raise_order_bounds
from ..bounds.prices import unsampled
from ..reductions.orders import Order, of_first

Solve = Callable[[Placement, Context], Outcome]

MOST_NODES = 100_000
"""Partial orders open at once before the search ends with their least bound; each keeps its ops."""


def solve_every_order(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Go through orders until the bound of those that are left meets the best plan.

    Parameters
    ----------
    problem, context
        Of the solve.
    solve
        Solves a problem whose order is fixed, plan and bound.
    """
    context.careful = True
    graph, n = problem.graph, len(problem.graph.ops)
    fixed = replace(problem, order="reference")
    before = precedence(graph).predecessors
    if problem.freedoms:
        raise_order_bounds(problem, context)
    heap: list[tuple[int, int, Order]] = [(0, 0, () if problem.freedoms else tuple(range(n)))]
    solved: int | None = None  # the least bound of orders that were solved
    floating = False

    def known(bound: int | None) -> None:
        """Raise the bound to what holds for open nodes and orders that were solved."""
        least = min((x for x in (bound, solved, context.incumbent) if x is not None), default=None)
        if least is not None:
            context.raise_bound(least, "floating" if floating else "exact", kind="all orders")

    while heap:
        bound, _, head = heap[0]
        known(bound)
        if context.closed or (context.incumbent is not None and bound >= context.incumbent):
            break
        if context.expired or len(heap) > MOST_NODES:
            return Outcome(reason="time" if context.expired else None, detail="not all orders were seen")
        heapq.heappop(heap)
        if len(head) == n:
            ordered = replace(fixed, graph=in_order(graph, head))
            if ordered.impossible() is not None:
                continue
            inner = context.inner(ordered, context.remaining(), f"order {head}: ")
            outcome = solve(ordered, inner)
            if inner.answer is not None:
                context.offer(of_first(inner.answer, graph, head))
            if not outcome.infeasible:
                proved = max(bound, inner.bound or 0)
                floating |= inner.proof == "floating" and proved > bound
                solved = proved if solved is None else min(solved, proved)
            continue
        for longer in _children(head, before):
            heapq.heappush(heap, (max(bound, _bound(fixed, longer)), -len(longer), longer))
    else:
        known(None)
    if solved is None and not heap and context.answer is None:
        return Outcome(infeasible=True, detail="no order has a plan")
    return Outcome(detail="" if context.answer is not None else "orders: no plan was found in any order")


def _children(head: Order, before: tuple[tuple[int, ...], ...]) -> list[Order]:
    """Return what is one op longer, and more where only one op is ready."""
    while True:
        done = {*head}
        ready = [k for k in range(len(before)) if k not in done and done.issuperset(before[k])]
        if len(ready) != 1:
            break
        head = (*head, ready[0])
    return [(*head, k) for k in ready] or [head]


def _bound(fixed: Placement, head: Order) -> int:
    """Return the bound in ns on plans whose order begins with `head`."""
    if unsampled(fixed):
        return ideal_time(fixed)
    done = {*head}
    order = (*head, *(k for k in range(len(fixed.graph.ops)) if k not in done))
    ordered = replace(fixed, graph=in_order(fixed.graph, order))
    first = len(head)
    masks = [(1 << min(k, first)) - 1 | mask for k, mask in enumerate(precedence(ordered.graph).ancestors)]
    return bound_of_orders(ordered, masks)
