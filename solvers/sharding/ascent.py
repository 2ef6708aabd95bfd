r"""Method `prices` of `sharding`: messages between groups raise a bound, at prices of usage that change.

The prices follow the usage that labels near the least costs have, with steps as in Adam (Kingma and Ba, ICLR
2015); the messages are those of TRW-S (Kolmogorov, IEEE TPAMI 2006), a pass forward and one backward after
each change of prices. What they come to is rounded to integers, whose bound is exact
(`lowtide.formulations.sharding.prices`). Now and then an answer is read off the messages, and steps of single
groups bring it within the limit and improve it.
"""

from __future__ import annotations

import numpy as np

from ...formulations.sharding.data import ShardingData
from ...formulations.sharding.prices import Shifted, UsagePrices, plain, shifted
from ...models.problems.sharding import Sharding
from ..context import Context, Outcome
from .bounds import hopeless, prepared, raise_bound
from .flat import flat_network
from .message_kernel import (
    Floats,
    Integers,
    cost_of,
    expected_usage,
    pass_messages,
    priced_costs,
    read_labels,
    step_groups,
    usage_of,
)

KERNELS = (".sharding.message_kernel",)

ROUNDS = 2000
"""Steps of the method; beyond them the bound rises by less than a thousandth on the contest's instances."""

READ = 20
"""Steps before the first answer that is read off, and without a better value until steps are smaller."""

APART = 200
"""Steps between two answers that are read off, and two bounds in integers, at most: doubled until then."""

DIGITS = 50
"""Bits of the largest shifted cost in units of 1/K: as exact as floating point is, and sums fit in 64."""

WARMTH = 0.02
"""Of the cost of a mean group, what a label may be dearer and still counts for usage; chosen by hand."""

RATE = 2e-3
"""Of the cost of an answer, what a step of prices adds to the price of all of the limit; chosen by hand."""

POLISHED = 12
"""Passes of single groups after an answer is read off; later ones change little."""


def solve_prices(problem: Sharding, context: Context, ascent: Ascent | None = None) -> Outcome:
    """Raise the bound and offer each better answer until the steps are over; go on with those of `ascent`."""
    data = prepared(problem, context)
    if data is None:
        return Outcome(reason="time")
    if (ended := hopeless(data)) is not None:
        return ended
    raise_bound(problem, context)
    ascent = ascent or Ascent(data, context.seed)
    ascent.run(context, int(context.options.get("rounds", ROUNDS)))
    return Outcome(reason="time" if context.expired else None)


class Ascent:
    """Prices, messages, and the best of both.

    Attributes
    ----------
    shift
        The costs that the best prices and messages shift, in integers.
    prices, sent
        The best prices, and the messages at these.
    steps
        Times that messages were sent forth and back.
    """

    def __init__(self, data: ShardingData, seed: int) -> None:
        self.data, self.net = data, flat_network(data)
        self.random = np.random.default_rng(seed)
        self.now: Floats = np.zeros(len(data.room))
        self.mean, self.square = self.now.copy(), self.now.copy()
        count = sum(sum(own.shape) for own in data.matrices.values())
        self.messages: Floats = np.zeros(count)
        self._shares: Floats = np.zeros(count)
        self._left: Floats = np.zeros(len(self.net.costs))
        self.value, self.prices, self.shares, self.sent = -np.inf, self.now, self._shares, self.messages
        self.pace, self.idle, self.steps = 1.0, 0, 0
        self.limit = float(max(1, data.room.max(initial=1)))
        self.shift: Shifted = plain(data)

    def run(self, context: Context, rounds: int, share: float = 1.0) -> None:
        """Go through the rounds, in a share of the time that is left; raise the bound and offer answers."""
        self._start(context)
        until = context.elapsed() + share * context.remaining()
        turn, gap, following = 0, READ, READ
        for k in range(1, rounds + 1):
            if context.expired or context.closed or context.elapsed() > until:
                break
            most = context.incumbent or 2 * max(self.value, float(self.shift.bound), 1.0)
            self._step(float(most))
            if k == following:
                self._read(context, turn)
                turn, gap = turn + 1, min(2 * gap, APART)
                following += gap
            if k == following - gap or (k % READ == 0 and self.value > (context.incumbent or np.inf) - 1):
                self._raise(context)
        self._raise(context)

    def _start(self, context: Context) -> None:
        """Offer the labels that use least, which may be all that fit."""
        labels = np.array([self._least(v) for v in range(len(self.data.costs))], np.int64)
        self._offer(context, labels, usage_of(self.net, labels))

    def _least(self, v: int) -> int:
        """Return the label that uses least over time."""
        total = np.zeros(len(self.data.costs[v]))
        for first, end, row in self.data.pieces[v]:
            total += (end - first) * row.astype(float)
        return int(total.argmin())

    def _step(self, most: float) -> None:
        """Send messages at the prices of now, and change these, for answers of about this cost."""
        self.steps += 1
        net, room = self.net, self.data.room
        priced, value = priced_costs(net, self.now), 0.0
        for forward in (True, False):
            value = pass_messages(net, priced, self.messages, self._shares, self._left, forward)
        value += self.data.fixed - float(self.now @ room)
        self.idle += 1
        if value > self.value:
            self.value, self.idle = value, 0
            self.prices, self.shares = self.now.copy(), self._shares.copy()
            self.sent = self.messages.copy()
            self.pace = min(1.0, self.pace * 1.1)
        elif self.idle > READ:
            self.pace, self.idle = self.pace * 0.8, 0
            self.now = self.prices.copy()
        warmth = WARMTH * self.pace * most / max(1, len(self.data.costs))
        slope = (expected_usage(net, self._left, warmth) - room) / self.limit
        slope[(self.now <= 0) & (slope < 0)] = 0
        self.mean = 0.9 * self.mean + 0.1 * slope
        self.square = 0.99 * self.square + 0.01 * slope * slope
        rate = self.pace * RATE * most / self.limit
        self.now = np.maximum(0, self.now + rate * self.mean / (np.sqrt(self.square) + 1e-6))

    def _raise(self, context: Context) -> None:
        """Round the best prices and shares to integers, and raise the bound to theirs."""
        top = max(float(self.prices.max(initial=0)), float(np.abs(self.shares).max(initial=0)), 1.0)
        unit = 1 << max(0, min(20, DIGITS - int(np.log2(top)) - 1))
        prices = UsagePrices(
            unit=unit,
            sections=np.rint(self.prices * unit).astype(np.int64),
            shares=np.rint(self.shares * unit).astype(np.int64),
        )
        shift = shifted(self.data, prices)
        if shift.least * self.shift.unit > self.shift.least * shift.unit:
            self.shift = shift
        context.raise_bound(self.shift.bound, kind="prices of usage")

    def _read(self, context: Context, turn: int) -> None:
        """Read an answer off the messages, dearer ones now and then, and improve it."""
        net, n = self.net, len(self.data.costs)
        labels = np.zeros(n, np.int64)
        read_labels(net, priced_costs(net, self.now * (1 + 0.02 * (turn % 5))), self.messages, labels)
        used = usage_of(net, labels)
        weight = self.now.sum() / 100 + self.value / self.limit / 1000
        for _ in range(POLISHED):
            changed = step_groups(net, self.random.permutation(n), labels, used, weight)
            over = bool((used > net.room).any())
            if context.expired or not (changed or over):
                break
            weight *= 3 if over else 1
        self._offer(context, labels, used)

    def _offer(self, context: Context, labels: Integers, used: Integers) -> None:
        """Keep labels that fit, and cost a finite sum."""
        if (used <= self.net.room).all() and np.isfinite(cost_of(self.net, labels)):
            context.offer(self.data.choice(labels.tolist()))
