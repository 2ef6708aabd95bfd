"""Orders and their addresses, as `auto` looks for them: first those of `two-step`, then in rounds.

An order whose own bound is not below the incumbent is passed over: none of its allocations is lower. So
`auto` ends at or below each pair of `two-step` that it had the time to try.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random

from ...formulations.arena.data import ArenaData, arena_data, sharing_pairs
from ...formulations.arena.stacks import apart, stacks
from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.problems.arena import Arena
from ..context import Context, Outcome
from ..offsets.auto import PARTS
from ..offsets.components import addresses
from .allocating import FINITE, QUICK, allocate
from .methods import ORDERS
from .two_step import ALLOCATIONS, order_by

Order = tuple[int, ...]

ROUNDS = 20
"""One in so many of the time is for an order in the first round, and for the least peak of `two-step`."""

STEPS = 60
"""Steps of the walk after the first round."""

INSTANT = 0.05
"""Seconds for the addresses of an order of the walk."""


class Orders:
    """Orders that were met, by what found them, with the bounds on their heights."""

    def __init__(self, problem: Arena) -> None:
        self.problem, self.data = problem, arena_data(problem)
        pools = [stacks(pool) for pool in apart(problem)]
        self.pools = [(pool, sequential_memory(pool.graph)) for pool in pools]
        self.met: dict[str, tuple[int, Order]] = {}

    def least_height(self, order: Sequence[int]) -> int:
        """Return the bytes that no allocation of an order is below."""
        return sum(pool.to_height(memory.peak(order)) for pool, memory in self.pools)

    def add(self, name: str, order: Sequence[int]) -> int:
        """Keep an order, the last one of its name; return its least height."""
        self.met[name] = self.least_height(order), tuple(order)
        return self.met[name][0]

    def open(self, context: Context) -> list[Order]:
        """Return the orders that may need less than the incumbent, best first."""
        return [order for least, order in sorted(self.met.values()) if may_gain(context, least)]


def may_gain(context: Context, least: int) -> bool:
    """Return whether an order that needs so many bytes at least may be better than the incumbent."""
    return context.incumbent is None or least < context.incumbent


def search_orders(orders: Orders, context: Context) -> Outcome:
    """Search for the addresses of each order that may gain, best first, in rounds, each twice as long.

    Meanwhile the pairs of `two-step` come in, one order whenever none is left to search; each later round
    begins with twice as many steps of the walk.
    """
    problem, data = orders.problem, orders.data
    seconds, steps = context.remaining() / ROUNDS, STEPS
    parts = FINITE if context.time_limit is None else PARTS
    searched: set[Order] = set()
    done: set[Order] = set()
    pairs, walk = orders_of_pairs(problem, context), _walk(orders, context)
    while not (context.closed or context.expired):
        order = next((order for order in orders.open(context) if order not in searched), None)
        if order is not None:
            began = context.elapsed()
            searched.add(order)
            allocate(context, data, order, seconds, parts)
            if context.elapsed() - began < seconds:
                done.add(order)
        elif (pair := next(pairs, None)) is not None:
            name, found = pair
            offer_by_rules(context, data, found, orders.add(name, found))
        elif steps > STEPS and (context.time_limit is None or data.n < 2):
            return Outcome()
        else:
            for _ in range(steps):
                next(walk)
            seconds, steps, searched = 2 * seconds, 2 * steps, set(done)
    return Outcome(reason="time" if context.expired else None)


def orders_of_pairs(problem: Arena, context: Context) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the orders of `two-step`, by name; that of least peak comes last.

    Where the bound on heights is of the graph's own bytes, the caller has the order of least peak already.
    """
    known = problem.alignment == 1 and not sharing_pairs(problem)
    for name in sorted(ORDERS, key="auto".__eq__):
        if context.closed or context.expired:
            return
        if name != "auto" or not known:
            yield name, order_by(name, problem, context, context.remaining() / ROUNDS)


def offer_by_rules(context: Context, data: ArenaData, order: Sequence[int], least: int) -> None:
    """Offer what each rule of `two-step` gives an order that needs so many bytes at least."""
    for rule in ALLOCATIONS.values():
        if context.closed or context.expired or not may_gain(context, least):
            break
        context.offer(data.answer(order, addresses(data.buffers(order), rule)))


def _walk(orders: Orders, context: Context) -> Iterator[None]:
    """Walk over orders that may need less than the incumbent, from the one of least bound, step by step."""
    rng = Random(context.seed)
    now: Sequence[int] = min(orders.met.values())[1]
    height = math.inf
    met: set[int] = set()  # as hashes: orders of many ops take much memory
    while True:
        yield
        if context.closed or context.expired or len(now) < 2:
            continue
        order = moved(orders.problem, now, rng)
        key = hash(tuple(order))
        if key in met or not may_gain(context, orders.least_height(order)):
            continue
        met.add(key)
        _, found = allocate(context, orders.data, order, INSTANT, QUICK)
        if found is not None and found <= height:
            now, height = order, found


def moved(problem: Arena, order: Sequence[int], rng: Random) -> list[int]:
    """Return an order with an op and what depends on it delayed, or with one and what it needs advanced."""
    i = rng.randrange(len(order) - 1)
    j = min(len(order), i + 2 + int(2 ** rng.uniform(0, 6)))
    block = order[i:j]
    edges, delay = precedence(problem.graph), rng.random() < 0.5
    op = block[0] if delay else block[-1]
    mask = (edges.descendants if delay else edges.ancestors)[op] | 1 << op
    # Sorted stably: those of the mask come last where they are delayed, else first.
    return [*order[:i], *sorted(block, key=lambda v: (mask >> v & 1) == delay), *order[j:]]
