"""Every pair of `two-step`, tried by `auto`: the cheap orders and rules first, then what takes long.

An order whose own bound is not below the incumbent is passed over, whatever the rule: none of its allocations
is lower. So `auto` ends at or below each pair that it had the time to try.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...formulations.arena.data import ArenaData, sharing_pairs
from ...models.problems.arena import Arena
from ..context import Context
from ..offsets.components import addresses
from .methods import ORDERS
from .two_step import ALLOCATIONS, order_by


def orders_of_pairs(
    problem: Arena, context: Context, seconds: float = math.inf
) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the orders of `two-step`, by name, each after so many seconds at most; that of least peak is last.

    Where the bound on heights is of the graph's own bytes, the caller has the order of least peak already.
    """
    known = problem.alignment == 1 and not sharing_pairs(problem)
    for name in sorted(ORDERS, key="auto".__eq__):
        if context.expired:
            return
        if name != "auto" or not known:
            yield name, order_by(name, problem, context, seconds)


def offer_by_rules(context: Context, data: ArenaData, order: Sequence[int], least: int) -> None:
    """Offer what each rule gives an order that needs so many bytes at least."""
    for rule in ALLOCATIONS.values():
        if not _may_gain(context, least):
            break
        context.offer(data.answer(order, addresses(data.buffers(order), rule)))


def _may_gain(context: Context, least: int) -> bool:
    """Return whether there is time for an order that needs so many bytes at least, and something to gain."""
    lower = context.incumbent is None or least < context.incumbent
    return lower and not context.expired and not context.closed
