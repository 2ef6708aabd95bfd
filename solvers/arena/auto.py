"""`auto`: an order of least peak first, and its addresses; more only while a bound is open.

1. The reference order, with greedy addresses.
2. The least peak of the graph of `lowtide.formulations.arena.stacks`, which bounds every height, and its
   order; with an alignment also for the threshold that can refute the incumbent; of several pools the sum of
   the least peaks of each alone, too.
3. The addresses of these orders by `offsets auto`.
4. A walk over orders: blocks pass each other as in `lowtide.solvers.peak.orders.local_search`, among orders
   whose own bound is below the incumbent. Each gets greedy addresses, and branch and bound for an instant.
5. Positions and rectangles in one model by CP-SAT, where it is not too large: exact. Small cases come here
   right after their bound; for large ones the best orders have the rest of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from ...formulations.arena.data import ArenaData, arena_data
from ...formulations.arena.stacks import Stacks, apart, stacks, threshold_for
from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.problems.arena import Arena
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..peak.auto import solve_auto as solve_peak
from .allocating import QUICK, allocate

PEAK_PART, FIRST_PART = 0.4, 0.15
"""Of the time left, for a least peak and for the addresses of its order."""
UNLIMITED = 20.0
"""Seconds that count as left where there is no limit."""
STEPS = 60
"""Steps of a walk, which get a third of the time left."""
LONGER = 4
"""Orders whose addresses are then searched for longer, each for half of the time left."""
INSTANT = 0.05
"""Seconds for the addresses of an order of the walk."""
SMALL, LARGEST = 30, 120
"""Pieces up to which the joint model comes at once, and up to which it is built at all."""


@dataclass(kw_only=True)
class _Orders:
    """Orders that were met, by the bound on their heights, best first: the sum of the peaks of pools."""

    pools: list[Stacks]
    found: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memories = [sequential_memory(pool.graph) for pool in self.pools]

    def add(self, order: Sequence[int]) -> None:
        pairs = zip(self.pools, self.memories, strict=True)
        self.found[tuple(order)] = sum(pool.to_height(memory.peak(order)) for pool, memory in pairs)

    def best(self) -> list[tuple[int, ...]]:
        return sorted(self.found, key=lambda order: (self.found[order], order))


def solve_auto(problem: Arena, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    data = arena_data(problem)
    reference = tuple(range(data.n))
    allocate(context, data, reference, 0.0, QUICK)
    if context.expired:
        return Outcome(reason="time")
    orders = _Orders(pools=[stacks(pool) for pool in apart(problem)])
    orders.add(reference)
    bound_by_peaks(context, orders, [stacks(problem)])
    if problem.pools and not context.closed:
        bound_by_peaks(context, orders, orders.pools)
    small = len(data.pieces) <= SMALL
    _allocate_best(context, data, orders, small)
    tried = {0}
    while not context.closed and context.incumbent and problem.alignment > 1:
        threshold = threshold_for(problem, context.incumbent)
        if threshold in tried or context.expired:
            break
        tried.add(threshold)
        bound_by_peaks(context, orders, [stacks(problem, threshold)])
        _allocate_best(context, data, orders, small)
    if not context.closed and not small and data.n > 1:
        _walk(problem, context, data, orders)
    if len(data.pieces) > LARGEST:
        for order in orders.best()[:LONGER]:
            if not context.closed:
                allocate(context, data, order, _left(context) / 2)
    if context.closed or len(data.pieces) > LARGEST or context.expired:
        return Outcome(reason="time" if context.expired else None)
    from .models import solve_joint

    context.progress("positions and rectangles")
    return solve_joint(problem, context)


def bound_by_peaks(context: Context, orders: _Orders, every: Sequence[Stacks]) -> None:
    """Solve the least peak of each graph for its part of the time; keep the sum as bound, and the orders."""
    heights, proof = [], "exact"
    for least in every:
        peak = Peak(least.graph)
        inner = context.inner(peak, PEAK_PART * _left(context) / len(every), "least peak: ")
        solve_peak(peak, inner)
        if inner.answer is not None:
            orders.add(inner.answer)
        heights.append(least.to_height(inner.bound or 0))
        proof = "floating" if "floating" in (proof, inner.proof) else "exact"
    if len(every) == 1:
        context.raise_bound(heights[0], proof, kind="least peak")
    else:
        context.raise_bound(sum(heights), proof, kind="least peaks of pools", evidence=tuple(heights))


def _left(context: Context) -> float:
    return UNLIMITED if context.time_limit is None else context.remaining()


def _allocate_best(context: Context, data: ArenaData, orders: _Orders, small: bool) -> None:
    for order in orders.best()[:2]:
        if context.closed or context.expired:
            return
        if small:
            allocate(context, data, order, INSTANT, QUICK)
        else:
            allocate(context, data, order, FIRST_PART * _left(context))


def _walk(problem: Arena, context: Context, data: ArenaData, orders: _Orders) -> None:
    """Walk over orders that may need less than the incumbent, from the one of least bound."""
    rng = Random(context.seed)
    now = list(orders.best()[0])
    height: int | None = None
    end = context.elapsed() + _left(context) / 3
    for _ in range(STEPS if context.time_limit is None else 1_000_000):
        assert context.incumbent is not None
        if context.closed or context.expired or context.elapsed() >= end:
            return
        order = moved(problem, now, rng)
        if tuple(order) in orders.found:
            continue
        orders.add(order)
        if orders.found[tuple(order)] >= context.incumbent:
            continue
        _, found = allocate(context, data, order, INSTANT, QUICK)
        if found is not None and (height is None or found <= height):
            now, height = order, found


def moved(problem: Arena, order: Sequence[int], rng: Random) -> list[int]:
    """Return an order with an op and what depends on it delayed, or with one and what it needs advanced."""
    n = len(order)
    i = rng.randrange(n - 1)
    j = min(n - 1, i + 1 + int(2 ** rng.uniform(0, 6)))
    block = list(order[i : j + 1])
    edges = precedence(problem.graph)
    if rng.random() < 0.5:
        mask = edges.descendants[block[0]] | 1 << block[0]
        part = [v for v in block if mask >> v & 1]
        rest = [v for v in block if not mask >> v & 1]
        block = rest + part
    else:
        mask = edges.ancestors[block[-1]] | 1 << block[-1]
        part = [v for v in block if mask >> v & 1]
        rest = [v for v in block if not mask >> v & 1]
        block = part + rest
    return [*order[:i], *block, *order[j + 1 :]]
