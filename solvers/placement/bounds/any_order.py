"""Bounds that hold whatever the order of the ops is: what lags between them take on one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....formulations.placement.bounds.lags import ancestor_rows, order_bound
from ....formulations.placement.bounds.releases import ideal_time
from ....models.derived.precedence import precedence
from ....models.problems.placement import Placement
from ...context import Context
from .prices import sample_data, unsampled

MOST_OPS = 4000
"""Ops above which the sum of the durations is all: the lags take time and memory with their square."""


def bound_of_orders(
    problem: Placement,
    masks: Sequence[int],
    expired: Callable[[], bool] = lambda: False,
    peak: int = 0,
) -> int:
    """Return the bound in ns on plans of all orders in which each op's mask of others comes before it.

    `peak` are bytes that every order needs at some time. The problem is one that `sample_data` serves.
    """
    return order_bound(problem, sample_data(problem), ancestor_rows(masks), expired, peak)


def raise_order_bounds(problem: Placement, context: Context, peak: int = 0) -> None:
    """Raise the bound to what holds in every order.

    That is the sum of the durations where ops may run again, or the machine is one that lags do not serve.
    `peak` are bytes that every order needs at some time.
    """
    context.raise_bound(ideal_time(problem), kind="sum of durations")
    if problem.recompute or len(problem.graph.ops) > MOST_OPS or context.closed or unsampled(problem):
        return
    context.progress("lags")
    masks = precedence(problem.graph).ancestors
    bound = bound_of_orders(problem, masks, lambda: context.expired, peak)
    context.raise_bound(bound, kind="lags of every order")
