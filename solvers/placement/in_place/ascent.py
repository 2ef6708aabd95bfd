r"""Better prices by ascent, for questions whose linear program over paths (`master`) is slow.

The bound of `prices` is a concave function of the prices; what the cheapest paths and configurations need,
less the right-hand sides of the rows of `master`, is a supergradient. Each step moves every price by its mean
supergradient over the root of its mean square, as Adam does (Kingma and Ba 2015), in steps that shrink. Then
prices of channels return to those that are worth at most the length of a run or a stall. Any prices prove a
bound, so that floating-point numbers do here; `InPlaceDual.evaluate` proves it.

At first the prices of several ops in a row move together, which takes fewer steps (`PHASES`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...context import Context
from .gaps_kernel import BlockTable, Needs, build, sum_needs
from .prices import GRAIN, InPlaceDual, PricePoint


class AscentPhase(NamedTuple):
    """Ops whose prices move together, rounds, and the first and the last step, in `PriceAscent.unit`."""

    together: int
    rounds: int
    first: float
    last: float


PHASES = (
    AscentPhase(32, 4, 0.3, 0.01),
    AscentPhase(1, 20, 0.1, 0.002),
    AscentPhase(4, 4, 0.01, 0.001),
    AscentPhase(1, 8, 0.005, 0.0003),
)
"""Phases of an ascent, one after another. Chosen by hand: DenseNet-121 at 1/9 is at .993 of the best known
bound after the first phase, and at .996 in the end; without it, at .989 after 3,000 steps. ResNet-50 is at
.998."""

ROUND = 50
"""Steps of a round, of 5 ms each for DenseNet-121."""

FIRST, SECOND = 0.9, 0.99
"""Weights of the earlier means of a supergradient and of its square in the next ones."""

MEMORY = 0.98
"""Weight of the earlier mean of the paths in the next one: about the last 50 steps count."""


class PriceAscent:
    """Prices in the units of `master`, one for each of its rows before `InPlaceDual.chosen`.

    Attributes
    ----------
    share
        By live range and op, flat, the part of the last paths that begin the op in the first tier.
    """

    def __init__(self, dual: InPlaceDual) -> None:
        self.dual, n = dual, dual.data.n
        self.n, self.epochs, self.phase, self.rounds = n, 2 * n + 1, -1, 0
        self.fixed = float(dual.base.sum()) / GRAIN / dual.ns
        self._configurations()
        self.high = np.zeros(dual.chosen)
        self.high[: 2 * n] = np.tile(dual.data.capacity - dual.least, 2) / dual.unit
        for at in self.channels:
            self.high[at : at + n] = dual.base / GRAIN / dual.ns
        self.unit = np.full(dual.chosen, 0.5)
        self.unit[: 2 * n] = np.tile(self._fastest(), 2) / 2 / (dual.data.capacity / dual.unit) + 1e-9
        self.unit[dual.links :] = self.longer + 1e-9
        self.price = self.unit / 2
        self.best, self.value = self.price, -np.inf
        self.share, z = np.zeros(dual.states), np.zeros
        blocks = [n >> level for level in range(n.bit_length())]
        most, depth = int(np.diff(dual.ranges.first).max(initial=0)), 2 * len(blocks) + 2
        rows = [z((x, y), np.int64) for x, y in ((most + 2, 3), (depth, 2), (depth, 3), (depth, 4))]
        first = np.cumsum([0, *blocks[:-1]])
        self.table = BlockTable(first, z((sum(blocks), 9), np.int64), z(n + 1, np.int64), *rows)
        self.needs = Needs(*(z(x) for x in (dual.chosen, n + 1, n + 1, dual.states, 1)))

    @property
    def channels(self) -> tuple[int, int]:
        """Return the rows of the first run in each channel."""
        return 2 * self.n, 2 * self.n + self.epochs

    def _configurations(self) -> None:
        """List the configurations of `InPlaceDual.linked`: time, workspace, op, rows of accesses."""
        dual, first = self.dual, self.dual.data.first
        time, work, op, link, of = ([np.zeros(0, kind)] for kind in (float, float, *3 * (np.int64,)))
        longer = np.zeros(dual.chosen)
        for k, linked in sorted(dual.linked.items()):
            rows = dual.layout.link[np.arange(first[k], first[k + 1]), linked.accesses]
            counted = rows.ravel() >= 0
            of.append(np.repeat(np.arange(len(rows)) + sum(x.size for x in time), rows.shape[1])[counted])
            link.append(rows.ravel()[counted])
            time.append(np.array(linked.time) / GRAIN / dual.ns)
            work.append(np.array(linked.workspace) / dual.unit)
            op.append(np.full(len(rows), k))
            longer[link[-1]] = np.ptp(time[-1])
        self.time, self.work, self.op, self.link, self.of = map(np.concatenate, (time, work, op, link, of))
        self.start = np.flatnonzero(np.diff(self.op, prepend=-1))
        self.longer = longer[dual.links :]

    def _fastest(self) -> Any:
        fastest = self.dual.base / GRAIN / self.dual.ns
        if len(self.start):
            fastest[self.op[self.start]] = np.minimum.reduceat(self.time, self.start)
        return fastest

    def point(self) -> PricePoint:
        """Return the best prices so far."""
        return self.dual.priced(self.best)

    def _configure(self, price: Any) -> Any:
        """Return the best configuration of each op in `InPlaceDual.linked`, as numbers in the list."""
        k, (into, out) = self.op, self.channels
        cost = self.time * (1 - price[into + k] - price[out + k]) + self.work * (price[k] + price[self.n + k])
        cost -= np.bincount(self.of, price[self.link], minlength=len(cost))
        least = np.minimum.reduceat(cost, self.start) if len(cost) else cost
        hits = np.flatnonzero(cost == np.repeat(least, np.diff(self.start, append=len(cost))))
        return hits[np.searchsorted(hits, self.start)]

    def _gradient(self, price: Any, weight: float) -> bool:
        """Write the value and the supergradient at prices; return whether each range has a path."""
        dual, n, needs = self.dual, self.n, self.needs
        prices, _ = dual.integers(dual.priced(price))
        for sums in (needs.slope, needs.begin, needs.end, needs.cost):
            sums[:] = 0
        build(prices, self.table)
        if not sum_needs(dual.ranges, prices, dual.layout, self.table, needs, dual.costs, weight):
            return False
        slope, cost = needs.slope - self.high, float(needs.cost[0])
        slope[: 2 * n] += np.concatenate([np.cumsum(x[:n]) for x in needs[1:3]]) / dual.unit
        best = self._configure(price)
        for at in self.channels:
            slope[at + self.op[best]] -= self.time[best]
        for at in (0, n):
            slope[at + self.op[best]] += self.work[best]
        chosen = np.zeros(len(self.time))
        chosen[best] = 1
        slope -= np.bincount(self.link, chosen[self.of], minlength=dual.chosen)
        value = self.fixed + cost + float(self.time[best].sum() + (price * slope).sum())
        if value > self.value:
            self.value, self.best = value, price
        self.slope = slope
        return True

    def _begin_phase(self) -> None:
        """Begin the next phase at the best prices."""
        self.phase += 1
        phase = PHASES[self.phase]
        self.rounds, self.steps, self.price = phase.rounds, 0, self.best
        n, size, links = self.n, phase.together, self.dual.links
        parts = np.cumsum([0, n, n, n, n + 1, n, n + 1])
        self.groups = np.concatenate(
            [*(np.arange(a, b, size) for a, b in pairwise(parts)), np.arange(links, self.dual.chosen)]
        )
        self.group = np.repeat(np.arange(len(self.groups)), np.diff(self.groups, append=self.dual.chosen))
        self.mean, self.square = np.zeros((2, len(self.groups)))

    def climb(self, context: Context) -> bool:
        """Take `ROUND` steps; return whether there was time for them, and a phase that is not over."""
        if not self.rounds:
            if self.phase == len(PHASES) - 1:
                return False
            self._begin_phase()
        self.needs.share[:] = 0
        _, rounds, first, last = PHASES[self.phase]
        for step in range(ROUND):
            weight = (1 - MEMORY) * MEMORY ** (ROUND - 1 - step)
            if context.expired or not self._gradient(self.price, weight):
                return False
            self.steps += 1
            slope = np.add.reduceat(self.slope * self.unit, self.groups)
            self.mean = FIRST * self.mean + (1 - FIRST) * slope
            self.square = SECOND * self.square + (1 - SECOND) * slope**2
            toward = self.mean / (1 - FIRST**self.steps)
            toward /= np.sqrt(self.square / (1 - SECOND**self.steps)) + 1e-9
            length = first * (last / first) ** (self.steps / (rounds * ROUND))
            self.price = self._within(self.price + length * self.unit * toward[self.group])
        self.share = MEMORY**ROUND * self.share + np.cumsum(self.needs.share)
        self.rounds -= 1
        return True

    def _within(self, price: Any) -> Any:
        """Return the prices of rows at least 0, and those of both channels together at most 1."""
        low, high = 2 * self.n, self.dual.links
        price[:high] = np.maximum(price[:high], 0)
        both = price[low:high].reshape(2, self.epochs)
        over = np.maximum(0, both.sum(axis=0) - 1)
        first = np.clip(both[0] - over / 2, 0, 1)
        price[low:high] = np.concatenate([first, np.where(over > 0, 1 - first, both[1])])
        return price
