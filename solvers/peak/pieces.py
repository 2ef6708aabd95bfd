"""What the parts of `auto` do, each with the best order and bound that are known."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..parts import per_op
from .bounds.cut_bound import cut_bound, working_set_bound
from .bounds.probing import probing_bound
from .orders.greedy import greedy_orders, known_orders
from .orders.local_search import improve_by_local_search
from .search.rounds import widen
from .series_parallel.dominant import conclude, series_parallel_order
from .series_parallel.spization import walk_over_divisions

WITHOUT_LIMIT = 6
"""Runs of the local search, and divisions of the walk by the hundred, where there is no time limit."""


seconds_of_order = per_op(100_000)
"""Of the first greedy order."""

seconds_of_proof = per_op(50_000)
"""Until cuts, or the search over executed sets, have something to show."""

seconds_of_search = per_op(20_000)
"""Until a search for orders has something to show."""

seconds_of_probing = per_op(1_000_000, 3)
"""Of probing all pairs, each of which needs a flow through the graph."""

TERMS_PER_SECOND, TERMS_OF_A_PLACE = 50_000, 6
"""Of the time-indexed model: built, presolved and searched once; at least so many for each place of an op."""


def seconds_of_model(problem: Peak) -> float:
    """Return the seconds until the time-indexed model has been searched once, about."""
    order, n = precedence(problem.graph), len(problem.graph.ops)
    related = sum(map(int.bit_count, order.ancestors)) + sum(map(int.bit_count, order.descendants))
    return TERMS_OF_A_PLACE * (n * (n - 1) - related) / TERMS_PER_SECOND


def offer_reference(problem: Peak, context: Context) -> Outcome:
    """Offer the reference order, and a dominant one if there is one; bound by working sets."""
    graph = problem.graph
    context.offer(range(len(graph.ops)))
    if context.expired:
        return Outcome(reason="time")
    if (order := series_parallel_order(graph)) is not None:
        conclude(problem, context, order)
        return Outcome()
    context.raise_bound(working_set_bound(graph), kind="working set")
    return Outcome()


def offer_greedy(problem: Peak, context: Context) -> Outcome:
    """Offer greedy orders."""
    for order in greedy_orders(problem.graph):
        context.offer(order)
        if context.closed or context.expired:
            break
    return Outcome(reason="time" if context.expired else None)


def raise_by_cuts(problem: Peak, context: Context) -> Outcome:
    """Raise the bound by cuts along the orders that are known."""
    cut_bound(
        problem.graph,
        [context.answer, *known_orders(problem.graph)],
        at_least=context.bound or 0,
        expired=lambda: context.expired,
        improved=lambda value: context.raise_bound(value, kind="cut"),
        prepare=context.prepare,
    )
    return Outcome(reason="time" if context.expired else None)


def anneal(problem: Peak, context: Context) -> Outcome:
    """Anneal from the best order, and now and then from greedy ones."""
    peaks: dict[tuple[int, ...], int] = {}

    def others() -> Sequence[Sequence[int]]:
        orders = known_orders(problem.graph)
        peaks.update((order, problem.evaluate(order)) for order in orders if order not in peaks)
        return sorted(orders, key=peaks.__getitem__)[1:]

    runs = WITHOUT_LIMIT if context.time_limit is None else 10**9
    ended = improve_by_local_search(problem, context, runs, others)
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

    try:
        return solve_formulation(problem, context, "cpsat")
    except UsageError as error:
        return Outcome(refused=str(error))
