"""What the parts of `auto` do, each with the best order and bound that are known."""

from __future__ import annotations

from ...models.problems.peak import Peak
from ..context import Context, Outcome
from .bounds.cut_bound import cut_bound, working_set_bound
from .bounds.probing import probing_bound
from .orders.greedy import greedy_orders
from .orders.local_search import improve_by_local_search
from .search.rounds import widen
from .series_parallel.dominant import conclude, series_parallel_order
from .series_parallel.spization import walk_over_divisions

WITHOUT_LIMIT = 6
"""Runs of the local search, and divisions of the walk by the hundred, where there is no time limit."""


def offer_greedy(problem: Peak, context: Context) -> Outcome:
    """Offer the reference order, a dominant one if there is one, else greedy ones; bound by working sets."""
    graph = problem.graph
    context.offer(range(len(graph.ops)))
    if context.expired:
        return Outcome(reason="time")
    if (order := series_parallel_order(graph)) is not None:
        conclude(problem, context, order)
        return Outcome()
    context.raise_bound(working_set_bound(graph), kind="working set")
    for order in greedy_orders(graph):
        if context.closed or context.expired:
            break
        context.offer(order)
    return Outcome()


def raise_by_cuts(problem: Peak, context: Context) -> Outcome:
    """Raise the bound by cuts along greedy orders."""
    orders = [context.answer, *greedy_orders(problem.graph)]
    cut_bound(
        problem.graph,
        orders,
        at_least=context.bound or 0,
        expired=lambda: context.expired,
        improved=lambda value: context.raise_bound(value, kind="cut"),
        prepare=context.prepare,
    )
    return Outcome(reason="time" if context.expired else None)


def anneal(problem: Peak, context: Context) -> Outcome:
    """Anneal from the best order, and now and then from greedy ones."""
    ranked = sorted((problem.evaluate(order), order) for order in greedy_orders(problem.graph))
    runs = WITHOUT_LIMIT if context.time_limit is None else 10**9
    ended = improve_by_local_search(problem, context, runs, [order for _, order in ranked[1:]])
    return Outcome(reason=None if ended else "time")


def walk(problem: Peak, context: Context) -> Outcome:
    """Walk over series-parallel precedences."""
    rounds = 100 * WITHOUT_LIMIT if context.time_limit is None else 10**9
    walk_over_divisions(problem, context, rounds, lambda: context.expired)
    return Outcome(reason="time" if context.expired else None)


def probe(problem: Peak, context: Context) -> Outcome:
    """Raise the bound by probing pairs."""
    assert context.bound is not None
    assert context.incumbent is not None
    probing_bound(
        problem.graph,
        at_least=context.bound,
        below=context.incumbent,
        expired=lambda: context.expired,
        improved=lambda value: context.raise_bound(value, kind="probing"),
    )
    return Outcome(reason="time" if context.expired else None)


def search(problem: Peak, context: Context) -> Outcome:
    """Search executed sets, from both ends of the gap."""
    return widen(problem, context, lambda: context.expired, alone=False)


def solve_model(problem: Peak, context: Context) -> Outcome:
    """Solve the time-indexed model."""
    from .models import solve_formulation

    return solve_formulation(problem, context, "cpsat")
