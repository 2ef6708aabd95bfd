"""Every pair of `two-step`, tried by `auto`: the cheap orders and rules first, then what takes long.

An order whose own bound is not below the incumbent is passed over, whatever the rule: none of its allocations
is lower. So `auto` ends at or below each pair that it had the time to try.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...formulations.arena.data import ArenaData, sharing_pairs
from ...models.problems.arena import Arena
from ..context import Context
from ..offsets.parts import addresses
from .allocating import allocate
from .methods import ORDERS
from .two_step import ALLOCATIONS, order_by

Order = tuple[int, ...]


def orders_of_pairs(problem: Arena, context: Context) -> list[Order]:
    """Return the orders of `two-step`, each once; that of least peak comes last.

    Where the bound on heights is of the graph's own bytes, the caller has the order of least peak already.
    """
    known = problem.alignment == 1 and not sharing_pairs(problem)
    found: dict[Order, None] = {}
    for name in sorted(ORDERS, key="auto".__eq__):
        if context.expired:
            break
        if name != "auto" or not known:
            found[tuple(order_by(name, problem, context))] = None
    return list(found)


def offer_by_rules(
    context: Context, data: ArenaData, orders: Sequence[Order], least: Callable[[Order], int]
) -> None:
    """Offer what each rule gives each order; `least` is what an order needs at least."""
    for order in orders:
        for rule in ALLOCATIONS.values():
            if not _may_gain(context, least(order)):
                break
            context.offer(data.answer(order, addresses(data.buffers(order), rule)))


def search_each(
    context: Context,
    data: ArenaData,
    orders: Sequence[Order],
    least: Callable[[Order], int],
    seconds: float,
) -> None:
    """Search for the addresses of each order, all in so many seconds."""
    end = context.elapsed() + seconds
    for k, order in enumerate(orders):
        if _may_gain(context, least(order)):
            allocate(context, data, order, (end - context.elapsed()) / (len(orders) - k))


def _may_gain(context: Context, least: int) -> bool:
    """Return whether there is time for an order that needs so many bytes at least, and something to gain."""
    lower = context.incumbent is None or least < context.incumbent
    return lower and not context.expired and not context.closed
