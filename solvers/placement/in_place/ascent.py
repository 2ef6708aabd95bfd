r"""Better prices by ascent, for questions whose linear program over paths (`master`) is slow.

The bound of `prices` is a concave function of the prices; what the cheapest paths and configurations need,
less the right-hand sides of the rows of `master`, is a supergradient. Each step moves every price by its mean
supergradient over the root of its mean square, as Adam does (Kingma and Ba 2015), in steps that shrink. Then
prices of channels return to those that are worth at most the length of a run or a stall. Any prices prove a
bound, so that floating-point numbers do here; `InPlaceDual.evaluate` proves it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...context import Context
from .prices import GRAIN, InPlaceDual, PricePoint

STEP = 0.3
"""First step, in units of what a price may be worth (`PriceAscent.unit`). Chosen by hand."""

HALF = 150
"""Steps after which they are half as long. Chosen by hand: ResNet-50 at 1/9 is then within 0.2 % in 1,000."""

ROUND = 50
"""Steps between two proofs of a bound: one takes as long as some ten steps."""

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
        self.n, self.epochs, self.steps = n, 2 * n + 1, 0
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
        self.mean, self.square = np.zeros((2, dual.chosen))
        self.best, self.value = self.price, -np.inf
        self.share = np.zeros(dual.states)

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
        order = np.lexsort((cost, k))
        return order[self.start]

    def _gradient(self, price: Any, context: Context) -> bool:
        """Write the value and the supergradient at prices; return whether there was time for it."""
        dual, n = self.dual, self.n
        prices, _ = dual.integers(dual.priced(price))
        slope, cost, ranges = -self.high, 0.0, dual.ranges
        self.share *= MEMORY
        for i, first, costs, rows, values in dual.respond(prices, context):
            slope += np.bincount(rows, values, minlength=dual.chosen + len(dual.data.ranges))[: dual.chosen]
            cost += float(costs.sum())
            base = np.repeat(ranges.base[i : i + len(costs)], np.diff(first))
            self.share[(base + rows)[rows < n]] += 1 - MEMORY
        if not dual.answered:
            return False
        best = self._configure(price)
        for at in self.channels:
            slope[at + self.op[best]] -= self.time[best]
        for at in (0, n):
            slope[at + self.op[best]] += self.work[best]
        chosen = np.zeros(len(self.time))
        chosen[best] = 1
        slope -= np.bincount(self.link, chosen[self.of], minlength=dual.chosen)
        value = self.fixed + cost + float(self.time[best].sum() + price @ slope)
        if value > self.value:
            self.value, self.best = value, price
        self.slope = slope
        return True

    def climb(self, context: Context) -> bool:
        """Take `ROUND` steps; return whether there was time for them."""
        for _ in range(ROUND):
            if context.expired or not self._gradient(self.price, context):
                return False
            self.steps += 1
            slope = self.slope * self.unit
            self.mean = FIRST * self.mean + (1 - FIRST) * slope
            self.square = SECOND * self.square + (1 - SECOND) * slope**2
            toward = self.mean / (1 - FIRST**self.steps)
            toward /= np.sqrt(self.square / (1 - SECOND**self.steps)) + 1e-9
            self.price = self._within(self.price + STEP * 0.5 ** (self.steps / HALF) * self.unit * toward)
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
