"""`auto`: an order of least peak first, and its addresses; more only while a bound is open.

1. The reference order, with greedy addresses.
2. The least peak of the graph of `lowtide.formulations.arena.stacks`, which bounds every height, and its
   order; of several pools the sum of the least peaks of each alone, too; with an alignment also for the
   threshold, in each pool, that can refute the incumbent's height there.
3. The addresses of these orders by `offsets auto`.
4. Every pair of `two-step`: all orders with the published rules for addresses, then `offsets auto` for each.
5. A walk over orders: blocks pass each other as in `lowtide.solvers.peak.orders.local_search`, among orders
   whose own bound is below the incumbent. Each gets greedy addresses, and branch and bound for an instant.
6. Positions and rectangles in one model by CP-SAT, where it is not too large: exact. Small cases come here
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
from .pairs import offer_by_rules, orders_of_pairs, search_each

PEAK_PART, FIRST_PART, PAIRS_PART = 0.4, 0.15, 0.3
"""Of the time left: for a least peak, for the addresses of its order, for those of the orders of pairs."""
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
    searched: set[tuple[int, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.memories = [sequential_memory(pool.graph) for pool in self.pools]
        self.least = [0 for _ in self.pools]  # what is proved of the height of each pool alone
        self.proof = "exact"

    def least_height(self, order: Sequence[int]) -> int:
        pairs = zip(self.pools, self.memories, strict=True)
        return sum(pool.to_height(memory.peak(order)) for pool, memory in pairs)

    def add(self, order: Sequence[int]) -> None:
        self.found[tuple(order)] = self.least_height(order)

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
    small = len(data.pieces) <= SMALL
    _bound_and_place(problem, context, data, orders, small)
    if not context.closed and not context.expired:
        _pairs(problem, context, data, orders)
    if not context.closed and not small and data.n > 1:
        _walk(problem, context, data, orders)
    if len(data.pieces) > LARGEST:
        for order in orders.best()[:LONGER]:
            if not context.closed:
                allocate(context, data, order, _left(context) / 2)
    if context.closed or context.expired:
        return Outcome(reason="time" if context.expired else None)
    if len(data.pieces) > LARGEST:
        words = "least peaks and searches for addresses leave a gap; auto leaves out the exact model"
        return Outcome(detail=f"{words} above {LARGEST} tensors and workspaces: --method cpsat takes more")
    from .models import solve_joint

    context.progress("positions and rectangles")
    return solve_joint(problem, context)


def _bound_and_place(problem: Arena, context: Context, data: ArenaData, orders: _Orders, small: bool) -> None:
    """Bound by least peaks and place their orders, at each threshold that the incumbent's heights ask for."""
    alone = apart(problem)
    if problem.pools:
        least = _least_peaks(context, orders, [stacks(problem)])
        context.raise_bound(least[0], orders.proof, kind="least peak")
    tried: set[tuple[int, ...]] = set()
    thresholds = (0,) * len(alone)
    while not (context.closed or context.expired or thresholds in tried):
        tried.add(thresholds)
        least = _least_peaks(context, orders, list(map(stacks, alone, thresholds)))
        orders.least = list(map(max, orders.least, least))
        if problem.pools:
            context.raise_bound(
                sum(orders.least), orders.proof, kind="least peaks of pools", evidence=tuple(orders.least)
            )
        else:
            context.raise_bound(least[0], orders.proof, kind="least peak")
        _allocate_best(context, data, orders, small)
        thresholds = tuple(map(threshold_for, alone, problem.heights(context.answer)))


def _least_peaks(context: Context, orders: _Orders, every: Sequence[Stacks]) -> list[int]:
    """Solve the least peak of each graph for its part of the time; return their bounds on heights."""
    heights = []
    for least in every:
        inner = context.inner(Peak(least.graph), PEAK_PART * _left(context) / len(every), "least peak: ")
        solve_peak(Peak(least.graph), inner)
        if inner.answer is not None:
            orders.add(inner.answer)
        heights.append(least.to_height(inner.bound or 0))
        if inner.proof == "floating":
            orders.proof = inner.proof
    return heights


def _left(context: Context) -> float:
    return UNLIMITED if context.time_limit is None else context.remaining()


def _allocate_best(context: Context, data: ArenaData, orders: _Orders, small: bool) -> None:
    for order in orders.best()[:2]:
        if context.closed or context.expired:
            return
        if small:
            allocate(context, data, order, INSTANT, QUICK)
        elif order not in orders.searched:
            orders.searched.add(order)
            allocate(context, data, order, FIRST_PART * _left(context))


def _pairs(problem: Arena, context: Context, data: ArenaData, orders: _Orders) -> None:
    """Let each pair of `two-step` lower the incumbent: the orders that may need least first."""
    known = orders_of_pairs(problem, context)
    for order in known:
        orders.add(order)
    least = orders.found.__getitem__
    offer_by_rules(context, data, orders.best(), least)
    open_ = [order for order in orders.best() if order not in orders.searched]
    search_each(context, data, open_, least, PAIRS_PART * _left(context))


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
        if tuple(order) in orders.found or orders.least_height(order) >= context.incumbent:
            continue  # only what is searched is kept: orders of many ops take much memory
        orders.add(order)
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
