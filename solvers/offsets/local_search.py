"""Local search: better orders for greedy placing, and guided ejection under a target height.

Two searches take turns, each with twice the effort of its last turn.

**Reordering** (squeaky wheel optimization; Joslin and Clements, 1999). Buffers are placed in an order with
first fit; those that end above the target, and a few at random, are placed earlier in the next order. It
needs few rounds where little is wrong: in most networks.

**Squeezing** (guided ejection search; Nagata and Bräysy, A powerful route minimization heuristic for the
vehicle routing problem with time windows, 2009). All buffers that end above a target are taken out. Then,
step by step, one of those that are out is put where, under the target, what is in the way weighs least;
that is taken out in turn. A buffer weighs how often others had to make room for it: those that are hard to
place stay, easy ones go, and what has been learned so serves all later targets. After each step a few random
buffers move to other holes. A step costs some passes over the buffers in place, not a placing of all; where
heights are small numbers of units, one pass over the addresses is faster still (`dense_kernel`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..engines.compilation import estimated_seconds
from ..parts import Part
from .component_context import ComponentContext
from .components import BestOffsets, Components
from .greedy import GREEDY_KERNELS, PLACE, greedy_keys, seconds_of_placing
from .layout import Layout, is_short, layout
from .turns import search_components

if TYPE_CHECKING:
    from .dense_kernel import Differences

OUT = -1
"""The offset of what is not in place."""

STARTS = 3
"""Orders that reordering works on, in turns."""

ORDERS = 20
"""Orders tried per turn and unit of effort."""

SLICES = 8
"""Slices of squeezing per turn and unit of effort."""

SLICE = 1000
"""Steps of squeezing between two looks at the clock, for components of few rectangles."""

LEAST_SLICE, SLOW = 20, 1000
"""Above so many rectangles fewer steps, as each takes longer; at least these."""

DENSE_SLICE = 3000
"""The same with one number per address, where a step takes less time."""

KERNELS = (*GREEDY_KERNELS, ".offsets.dense_kernel", ".offsets.squeeze_kernel")

EFFORT = 64
"""Of the last turn where there is no time limit."""


def improved_offsets(
    data: OffsetsData,
    offsets: Integers,
    target: int,
    seed: int = 0,
    remaining: Callable[[], float] = lambda: math.inf,
    most: float = math.inf,
) -> Iterator[Integers]:
    """Yield the best offsets known, in units, after each slice of work, until they reach the target.

    It ends before that where placing all buffers once more would take longer than the time that is left.

    Parameters
    ----------
    offsets
        Valid ones.
    target
        Height in units below which nothing is gained.
    most
        Effort of a turn after which it ends.
    """
    search = _OffsetsSearch(data, offsets, target, seed)
    effort = 1
    while search.height > target and effort <= most and not is_short(data, remaining()):
        for method in (search.reorder, search.squeeze):
            for _ in method(effort):
                yield search.best
                if is_short(data, remaining()):
                    return
        effort *= 2


@dataclass(slots=True)
class _Placing:
    """An order, the offsets that first fit makes of it, and their height."""

    order: Integers
    offsets: Integers
    height: int


class _OffsetsSearch:
    """The best offsets, and where both searches stand."""

    def __init__(self, data: OffsetsData, offsets: Integers, target: int, seed: int) -> None:
        self.data, self.target = data, target
        self.best, self.height = offsets, data.height(offsets)
        self.layout: Layout = layout(data)
        self.rng = np.random.default_rng(seed)
        self.none = np.full(data.count, -1, dtype=np.int64)
        self.placings: list[_Placing] = []
        self.turn = 0
        self.drop = max(1, (self.height - target) // 2)
        self.patience = 8.0
        self.weights = np.ones(data.count, dtype=np.int64)
        self.differences: Differences | None = None
        self.prepared = False

    def take(self, offsets: Integers) -> int:
        """Keep offsets that are the best so far; return their height."""
        height = self.data.height(offsets)
        if height < self.height:
            self.best, self.height = offsets.copy(), height
        return height

    def place(self, ranks: NDArray[Any], best_fit: bool) -> _Placing:
        """Place by falling ranks, the fixed first."""
        from .placing_kernel import place

        order = np.lexsort((self.data.first, -self.data.size, ranks, self.data.fixed < 0))
        offsets = place(self.layout, order, self.none, best_fit)
        return _Placing(order, offsets, self.take(offsets))

    def reorder(self, effort: int) -> Iterator[None]:
        """Place in orders that blame what ends above the target, from one of the best greedy orders."""
        if not self.placings:
            for keys in (*greedy_keys(self.data).values(), -self.best):
                self.placings.append(self.place(-keys, best_fit=False))
                yield
            self.placings.sort(key=attrgetter("height"))
            del self.placings[STARTS:]
        count, size = self.data.count, self.data.size
        now = self.placings[self.turn % len(self.placings)]
        self.turn += 1
        for _ in range(ORDERS * effort):
            if self.height <= self.target:
                return
            ranks = np.empty(count)
            ranks[now.order] = np.arange(count)
            blamed = np.flatnonzero(now.offsets + size > self.target)
            ranks[blamed] *= self.rng.random(len(blamed)) ** self.rng.choice((0.3, 1.0, 3.0))
            if self.rng.random() < 0.5:
                some = self.rng.integers(0, count, self.rng.integers(1, 4))
                ranks[some] = self.rng.random(len(some)) * count
            found = self.place(ranks, best_fit=bool(self.rng.random() < 0.3))
            if found.height <= now.height or self.rng.random() < 0.02:
                now.order, now.offsets, now.height = found.order, found.offsets, found.height
            yield

    def squeeze(self, effort: int) -> Iterator[None]:
        """Squeeze under targets below the best height: far below as long as that succeeds."""
        fixed = self.data.fixed >= 0
        least = int((self.data.fixed + self.data.size)[fixed].max(initial=self.target))
        slices = SLICES * effort
        while slices > 0 and self.height > least:
            target = max(least, self.height - self.drop)
            offsets = self.best.copy()
            offsets[offsets + self.data.size > target] = OUT
            left = fewest = self.data.count
            idle = 0.0
            while left and idle < self.patience:
                left = self.step(offsets, target)
                idle = idle + 1 if left >= fewest else 0
                fewest = min(fewest, left)
                slices -= 1
                if not left:
                    self.take(offsets)
                yield
            if left:
                self.patience *= 1.5
                self.drop = max(1, self.drop // 2)
            else:
                self.drop = max(1, min((self.height - least) // 3, 2 * self.drop))

    def step(self, offsets: Integers, target: int) -> int:
        """Do a slice of squeezing; return how many buffers are left out."""
        from .dense_kernel import ADDRESSES, differences, squeeze_dense
        from .squeeze_kernel import squeeze

        seed = int(self.rng.integers(2**31))
        if target <= ADDRESSES:
            if not self.prepared:
                self.differences, self.prepared = differences(self.data), True
            if self.differences is not None:
                args = (self.differences, offsets, self.weights, target, DENSE_SLICE, seed)
                return int(squeeze_dense(*args))
        places = self.layout
        steps = max(LEAST_SLICE, min(SLICE, SLICE * SLOW // len(places.owner)))
        lies = np.flatnonzero(offsets[places.owner] != OUT)
        at = offsets[places.owner[lies]]
        by_bottom = lies[np.argsort(at + places.rect_low[lies], kind="stable")]
        by_top = lies[np.argsort(at + places.rect_high[lies], kind="stable")]
        return int(squeeze(places, offsets, by_bottom, by_top, self.weights, target, steps, seed))


def solve_local_search(problem: Offsets, context: Context) -> Outcome:
    """Improve the greedy allocation of each component until nothing is to be gained or the time is up."""
    return search_components(Components(problem, context), (PLACE, IMPROVE))


def improve(component: BestOffsets, context: ComponentContext) -> Outcome:
    """Lower the height by local search."""
    assert component.offsets is not None
    most = EFFORT if context.time_limit is None else math.inf
    for offsets in improved_offsets(
        component.data, component.offsets, context.target, context.seed, context.remaining, most
    ):
        context.offer(offsets)
        if context.closed or context.expired:
            break
    return Outcome(reason="time" if context.expired else None)


IMPROVE = Part(
    name="local search",
    run=".offsets.local_search:improve",
    seconds=lambda component: seconds_of_placing(component.data.count) + estimated_seconds(KERNELS),
    kernels=KERNELS,
)
