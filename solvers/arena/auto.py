"""`auto`: orders and their addresses, found and bounded by parts in turns (`lowtide.solvers.portfolio`).

1. The reference order, with addresses as an allocator at run time gives them.
2. In turns:

   - the least peak of the graph of `lowtide.formulations.arena.stacks`, which bounds every height, and the
     addresses of its order; with an alignment also for the threshold that can refute the incumbent's height;
     of several pools that of each alone, too, whose sum is a bound;
   - orders: all those of `two-step` with every rule for addresses; then, in longer and longer rounds, the
     addresses of the orders that need least, by `offsets auto`, and a walk over orders whose own bound is
     below the incumbent, where blocks pass each other as in `lowtide.solvers.peak.orders.local_search`;
   - positions and rectangles in one model by CP-SAT: exact.
"""

from __future__ import annotations

import math
from functools import partial

from ...formulations.arena import rectangles_cpsat
from ...formulations.arena.stacks import Stacks, apart, stacks, threshold_for
from ...models.problems.arena import Arena
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..offsets.greedy import GREEDY_KERNELS, seconds_of_placing
from ..parts import Part
from ..peak.auto import solve_auto as solve_peak
from ..portfolio import run
from .allocating import QUICK, allocate
from .orders import Orders, search_orders

PLACED = 10
"""One in so many of the seconds of a search for the least peak is for placing the orders that it meets."""

TERMS_PER_SECOND = 20_000
"""Of the model of positions and rectangles: built, presolved and searched until it has an answer."""


def solve_auto(problem: Arena, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    return run(_ArenaSearch(problem).parts(), problem, context)


class _ArenaSearch:
    """One solve: the orders that were met, and what is proved of the height of each pool alone."""

    def __init__(self, problem: Arena) -> None:
        self.orders = Orders(problem)
        self.alone = apart(problem)
        self.least = [0 for _ in self.alone]
        self.proof = "exact"

    def parts(self) -> tuple[Part, ...]:
        """Return the parts."""
        pools = len(self.alone)
        together = [Part(name="least peak", run=partial(self.bound, None))] if pools > 1 else []
        alone = [
            Part(name="least peak" + f" of pool {k + 1}" * (pools > 1), run=partial(self.bound, k))
            for k in range(pools)
        ]
        return (
            Part(name="reference", run=self.reference, first=True),
            *together,
            *alone,
            Part(
                name="orders",
                run=self.search,
                seconds=lambda problem: seconds_of_placing(len(self.orders.data.pieces)),
                kernels=GREEDY_KERNELS,
            ),
            Part(name="cpsat", run=".arena.models:solve_joint", seconds=self.seconds_of_model, pauses=False),
        )

    def reference(self, problem: Arena, context: Context) -> None:
        """Offer the reference order."""
        order = range(self.orders.data.n)
        self.orders.add("reference", order)
        allocate(context, self.orders.data, order, math.inf, ())

    def search(self, problem: Arena, context: Context) -> Outcome:
        """Look for orders and their addresses."""
        return search_orders(self.orders, context)

    def bound(self, k: int | None, problem: Arena, context: Context) -> Outcome:
        """Bound the height of a pool (None: of all) at each threshold that the incumbent asks for."""
        alone = problem if k is None else self.alone[k]
        tried: set[int] = set()
        threshold = 0
        while not context.closed and threshold not in tried:
            tried.add(threshold)
            self.least_peak(k, stacks(alone, threshold), context)
            if context.expired:
                return Outcome(reason="time")
            heights = problem.heights(context.answer)
            threshold = threshold_for(alone, sum(heights) if k is None else heights[k])
        return Outcome()

    def least_peak(self, k: int | None, least: Stacks, context: Context) -> None:
        """Bound by the least peak of a graph, and place its order."""
        peak = Peak(least.graph)
        inner = context.inner(peak)
        next_at = 0.0

        def hand_on() -> None:
            nonlocal next_at
            if inner.answer is not None:
                self.orders.add(f"least peak {k}", inner.answer)
                if (began := context.elapsed()) >= next_at:
                    allocate(context, self.orders.data, inner.answer, 0.0, ())
                    next_at = began + PLACED * (context.elapsed() - began)
            if inner.bound is not None:
                self.raise_bound(k, least.to_height(inner.bound), inner.proof or "exact", context)

        inner.changed = hand_on
        solve_peak(peak, inner)
        if inner.answer is not None:
            allocate(context, self.orders.data, inner.answer, math.inf, QUICK)

    def raise_bound(self, k: int | None, height: int, proof: str, context: Context) -> None:
        """Raise the bound of all pools together, or of one."""
        if k is None or len(self.alone) == 1:
            context.raise_bound(height, proof, kind="least peak")
        elif height > self.least[k]:
            self.least[k] = height
            self.proof = "floating" if proof == "floating" else self.proof
            context.raise_bound(
                sum(self.least), self.proof, kind="least peaks of pools", evidence=tuple(self.least)
            )

    def seconds_of_model(self, problem: Arena) -> float:
        """Estimate the time until the model has an answer."""
        return rectangles_cpsat.size(self.orders.data).terms / TERMS_PER_SECOND
