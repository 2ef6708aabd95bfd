"""Fallback orders: sequential orders whose peak is within the memory, or the proof that there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....models.derived.memory import sequential_memory
from ....models.problems.makespan import Makespan
from ....models.problems.peak import Peak
from ...context import Context
from ...peak.orders.greedy import greedy_orders
from ...peak.search.rounds import take_first_steps, widen

LARGE = 20_000
"""Above so many ops nothing is begun once the time is up, and the reference order comes first."""


@dataclass(frozen=True)
class Fallback:
    """An order within the memory, if one is known; the least peak is proved to be at least `bound` bytes."""

    order: tuple[int, ...] | None
    bound: int


def find_fallback(problem: Makespan, context: Context, expired: Callable[[], bool]) -> Fallback:
    """Search by the methods of `peak`, until an order fits or the bound is above the memory.

    Greedy orders come first (of large graphs the reference order), then the order in which a schedule that
    the context knows starts the ops: where the sequential peak counts, that one fits. The order returned has
    the least peak that was met on the way: a lower one leaves the scheduler more freedom.

    Parameters
    ----------
    problem
        What is scheduled.
    context
        Its limits, seed and threads hold here too.
    expired
        Whether to give up.
    """
    graph = problem.relaxed
    if problem.memory is None:
        return Fallback(tuple(range(len(graph.ops))), 0)
    peak = Peak(graph)
    inner = context.inner(peak, context.remaining(), "fallback order: ")
    limit = problem.memory

    def enough() -> bool:
        known = inner.incumbent is not None and inner.incumbent <= limit
        return known or (inner.bound is not None and inner.bound > limit)

    large = len(graph.ops) > LARGE
    if large:  # it is there at once
        inner.offer(range(len(graph.ops)))
    if not (large and expired()):
        for first in greedy_orders(graph):
            inner.offer(first)
            if expired():
                break
    if context.answer is not None and not enough():
        starts = context.answer
        inner.offer(sorted(range(len(graph.ops)), key=lambda i: (starts[i], i)))
    if not enough() and not (large and expired()):
        take_first_steps(peak, inner)
    if not enough() and inner.bound is not None and not inner.closed:
        widen(peak, inner, lambda: enough() or expired())
    order = None
    if inner.answer is not None and sequential_memory(graph).peak(inner.answer) <= limit:
        order = tuple(inner.answer)
    return Fallback(order, inner.bound or 0)
