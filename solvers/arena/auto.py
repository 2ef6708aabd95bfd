"""`auto`: orders and their addresses, found and bounded by parts in turns (`lowtide.solvers.portfolio`).

1. The reference order, with addresses as an allocator at run time gives them.
2. In turns:

   - the least peak of the graph of `lowtide.formulations.arena.stacks`, which bounds every height, and the
     addresses of its order; with an alignment also for the threshold that can refute the incumbent's height;
     of several pools that of each alone, too, whose sum is a bound;
   - orders: all those of `two-step` with every rule for addresses; then, in longer and longer rounds, the
     addresses of the orders that need least, by `offsets auto`, and a walk over orders whose own bound is below
     the incumbent, where blocks pass each other as in `lowtide.solvers.peak.orders.local_search`;
   - positions and rectangles in one model by CP-SAT: exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from ...formulations.arena import rectangles_cpsat
from ...formulations.arena.data import arena_data
from ...formulations.arena.stacks import Stacks, apart, stacks, threshold_for
from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.problems.arena import Arena
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..offsets.greedy import GREEDY_KERNELS
from ..parts import PLAN, Part
from ..peak.auto import solve_auto as solve_peak
from ..portfolio import run
from .allocating import QUICK, allocate
from .pairs import offer_by_rules, orders_of_pairs

ROUNDS = 20
"""The first round of searches for addresses takes one in so many of the time for an order."""

STEPS = 60
"""Steps of the walk in the first round."""

INSTANT = 0.05
"""Seconds for the addresses of an order of the walk."""

TERMS_PER_SECOND = 20_000
"""Of the model of positions and rectangles: built, presolved and searched until it has an answer."""


def solve_auto(problem: Arena, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    return run(_Search(problem).parts(problem), problem, context)


class _Search:
    """One solve: orders with the bounds on their heights, and what is proved of each pool."""

    def __init__(self, problem: Arena) -> None:
        self.data = arena_data(problem)
        self.alone = apart(problem)
        pools = [stacks(pool) for pool in self.alone]
        self.pools = [(pool, sequential_memory(pool.graph)) for pool in pools]
        self.orders: dict[str, tuple[int, tuple[int, ...]]] = {}  # by what found them
        self.proof = "exact"
        self.least = [0 for _ in pools]  # of the height of each pool alone

    def parts(self, problem: Arena) -> tuple[Part, ...]:
        """Return the parts."""
        alone = [
            Part(name=f"least peak{f' of pool {k + 1}' * bool(problem.pools)}", run=partial(self.bound, k))
            for k in range(len(self.alone))
        ]
        return (
            Part(
                name="reference order", run=self.reference, gives=PLAN, first=True, kernels=GREEDY_KERNELS[:1]
            ),
            *([Part(name="least peak", run=partial(self.bound, None))] if problem.pools else ()),
            *alone,
            Part(name="orders", run=self.search, gives=PLAN, kernels=GREEDY_KERNELS),
            Part(name="cpsat", run=".arena.models:solve_joint", seconds=self.seconds_of_model, pauses=False),
        )

    def least_height(self, order: Sequence[int]) -> int:
        """Return the sum of the peaks of the pools: no addresses of the order are lower."""
        return sum(pool.to_height(memory.peak(order)) for pool, memory in self.pools)

    def add(self, name: str, order: Sequence[int]) -> None:
        """Keep an order, the last one of its name."""
        self.orders[name] = self.least_height(order), tuple(order)

    def open(self, context: Context) -> list[tuple[int, ...]]:
        """Return the orders that may need less than the incumbent, best first."""
        return [order for least, order in sorted(self.orders.values()) if least < (context.incumbent or 0)]

    def reference(self, problem: Arena, context: Context) -> None:
        """Offer the reference order."""
        order = range(self.data.n)
        self.add("reference", order)
        allocate(context, self.data, order, math.inf, ())

    def bound(self, k: int | None, problem: Arena, context: Context) -> Outcome:
        """Bound by least peaks, at each threshold that the incumbent's height asks for."""
        alone = problem if k is None else self.alone[k]
        tried: set[int] = set()
        threshold = 0
        while not context.closed and threshold not in tried:
            tried.add(threshold)
            self.least_peak(k, stacks(alone, threshold), problem, context)
            if context.expired:
                return Outcome(reason="time")
            heights = problem.heights(context.answer)
            threshold = threshold_for(alone, sum(heights) if k is None else heights[k])
        return Outcome()

    def least_peak(self, k: int | None, pool: Stacks, problem: Arena, context: Context) -> None:
        """Bound by the least peak of a graph, and place its order."""
        peak = Peak(pool.graph)
        inner = context.inner(peak, prefix="least peak: ")

        def hand_on() -> None:
            if inner.answer is not None:
                self.add(f"least peak {k}", inner.answer)
            if inner.bound is not None:
                self.raise_bound(k, pool.to_height(inner.bound), inner.proof or "exact", problem, context)

        inner.changed = hand_on
        solve_peak(peak, inner)
        if inner.answer is not None:
            allocate(context, self.data, inner.answer, math.inf, QUICK)

    def raise_bound(self, k: int | None, height: int, proof: str, problem: Arena, context: Context) -> None:
        """Raise the bound of all pools together, or of one."""
        if k is None or not problem.pools:
            context.raise_bound(height, proof, kind="least peak")
        elif height > self.least[k]:
            self.least[k], self.proof = height, proof if proof == "floating" else self.proof
            kind, evidence = "least peaks of pools", tuple(self.least)
            context.raise_bound(sum(self.least), self.proof, kind=kind, evidence=evidence)

    def search(self, problem: Arena, context: Context) -> Outcome:
        """Try the orders of `two-step` with its rules; then search for addresses of the best orders, and walk.

        Each round searches twice as many orders twice as long, and takes twice as many steps.
        """
        for name, order in orders_of_pairs(problem, context, context.remaining() / ROUNDS):
            self.add(name, order)
            offer_by_rules(context, self.data, order, self.orders[name][0])
        seconds, count = context.remaining() / ROUNDS, 1
        done: set[tuple[int, ...]] = set()
        walk = self.walk(problem, context)
        while not (context.closed or context.expired):
            open_ = [order for order in self.open(context) if order not in done][:count]
            for order in open_:
                began = context.elapsed()
                allocate(context, self.data, order, seconds)
                if context.closed or context.expired:
                    break
                if context.elapsed() - began < seconds:
                    done.add(order)
            for _ in range(STEPS * count):
                next(walk)
            if context.time_limit is None and not open_:
                return Outcome()
            seconds, count = 2 * seconds, 2 * count
        return Outcome(reason="time" if context.expired else None)

    def walk(self, problem: Arena, context: Context) -> Iterator[None]:
        """Walk over orders that may need less than the incumbent, from the one of least bound, step by step."""
        rng = Random(context.seed)
        now: Sequence[int] = min(self.orders.values())[1]
        height: int | None = None
        met: set[int] = set()  # as hashes: orders of many ops take much memory
        while True:
            yield
            if context.closed or context.expired or len(now) < 2:
                continue
            order = moved(problem, now, rng)
            key = hash(tuple(order))
            if key in met or self.least_height(order) >= (context.incumbent or 0):
                continue
            met.add(key)
            _, found = allocate(context, self.data, order, INSTANT, QUICK)
            if found is not None and (height is None or found <= height):
                now, height = order, found

    def seconds_of_model(self, problem: Arena) -> float:
        """Estimate the time until the model has an answer."""
        return rectangles_cpsat.size(self.data).terms / TERMS_PER_SECOND


def moved(problem: Arena, order: Sequence[int], rng: Random) -> list[int]:
    """Return an order with an op and what depends on it delayed, or with one and what it needs advanced."""
    i = rng.randrange(len(order) - 1)
    j = min(len(order), i + 2 + int(2 ** rng.uniform(0, 6)))
    block = order[i:j]
    edges, delay = precedence(problem.graph), rng.random() < 0.5
    op = block[0] if delay else block[-1]
    mask = (edges.descendants if delay else edges.ancestors)[op] | 1 << op
    # Sorted stably: those of the mask last where they are delayed, else first.
    return [*order[:i], *sorted(block, key=lambda v: (mask >> v & 1) == delay), *order[j:]]
