"""Fallback orders: sequential orders whose peak is within the memory, or the proof that there is none."""

from __future__ import annotations

from ....models.problems.makespan import Makespan
from ...context import Context, Known, Outcome
from ...peak.auto import PARTS
from ...peak.bounds.cut_bound import working_set_bound
from ...peak.orders.greedy import greedy_orders
from ...peak.series_parallel.dominant import conclude, series_parallel_order
from ...peak.within import Within
from ...portfolio import run

LARGE = 20_000
"""Above so many ops nothing is begun once the time is up, and the reference order comes first."""


def find_fallback(
    problem: Makespan, context: Context, *, search: bool, orders: Known
) -> tuple[int, ...] | None:
    """Return an order within the memory; None if none is found in time, or the bound is above the memory.

    Of a series-parallel graph the best order comes first, else greedy ones (of large graphs the reference
    order), then the order in which a schedule that the context knows starts the ops: where the sequential
    peak counts, that one fits; then what `auto` of `peak` finds. The order has the least peak that was met on
    the way: a lower one leaves the scheduler more freedom.

    Not `search`: only what is there at once. What is known of `orders`, from a call before, counts; what is
    found is left there.
    """
    graph = problem.relaxed
    if problem.memory is None:
        return tuple(range(len(graph.ops)))
    peak = Within(graph, problem.memory)
    inner = context.inner(peak, prefix="fallback order: ", known=orders)
    if inner.bound is None:
        _offer_first(peak, inner)
    if context.answer is not None and not inner.closed:
        starts = context.answer
        inner.offer(sorted(range(len(graph.ops)), key=lambda i: (starts[i], i)))

    def look() -> None:
        if inner.exact is not None and inner.exact[0] > peak.most:
            inner.known.infeasible = Outcome(infeasible=True)

    look()
    inner.changed = look
    if search and not inner.infeasible:
        run([part for part in PARTS if not part.first], peak, inner)
    return None if inner.incumbent is None or inner.incumbent > peak.most else tuple(inner.answer)


def _offer_first(problem: Within, context: Context) -> None:
    """Offer orders that are there at once, and bound them."""
    graph = problem.graph
    large = len(graph.ops) > LARGE
    if large:  # it is there at once
        context.offer(range(len(graph.ops)))
    if not (large and context.expired):
        if (best := series_parallel_order(graph)) is not None:
            conclude(problem, context, best)
            return
        for order in greedy_orders(graph):
            context.offer(order)
            if context.expired:
                break
    if not context.closed:
        context.raise_bound(working_set_bound(graph), kind="working set")
