"""What bounds any plan of a placement at little cost, for whatever method has made it."""

from __future__ import annotations

from ....formulations.placement.bounds.heads import heads_bound
from ....models.problems.placement import Placement
from ...context import Context
from ..reductions.replicas.share import replicas
from ..reductions.replicas.together import one_context, raise_joint_bounds
from .any_order import raise_order_bounds
from .prices import WINDOWS, late, raise_by_prices, raise_first_bounds, unsampled


def raise_cheap_bounds(problem: Placement, context: Context) -> None:
    """Raise the bound to what windows and releases prove, if the method has not; of large graphs in time.

    Of replicas, to what one of them and the link that they share prove; of a free order, to lags.
    """
    if problem.freedoms:
        raise_order_bounds(problem, context)
        return
    if (found := replicas(problem)) is not None:
        raise_joint_bounds(found, context)
        raise_cheap_bounds(found.alone, one_context(found, context, found.alone, context.remaining()))
        return
    if len(problem.machine.processors) > 1:
        bound = heads_bound(problem, lambda: context.expired)
        context.raise_bound(bound, kind="heads of several processors")
    if WINDOWS not in context.known.done and not late(problem, context)():
        raise_first_bounds(problem, context)
        if not unsampled(problem):
            raise_by_prices(problem, context, rounds=())
