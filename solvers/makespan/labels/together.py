r"""Prices of ops and the bound that they prove, from the sets of ops that can run together.

R runs together at an instant of a schedule at which E has ended. Then both E and :math:`E \cup R` are ideals
of `ideals`, and the ops of R lead one by one from E to :math:`E \cup R`:

* E is reached: run only the ops of E, one after another by their starts. When one of them runs, what has
  started is part of what had when it started in the schedule, and what had ended then lies in E, so has ended
  here too; no more is live.
* Next the ops of R, by their starts: what has started lies in :math:`E \cup R`, E has ended: no more is live
  than at the instant. Then the others as in `ideals`.

Besides, the bytes after E with the allocations of R are within the memory, and R has at most p ops. Let
:math:`\mathcal R` be the sets for which all this holds.

*Bound.* For any prices :math:`\pi_i \ge 0` with :math:`\sum_{i \in R} \pi_i \le 1` for all :math:`R \in
\mathcal R`: the prices of what runs, integrated over time, are at most the time. So from any instant on, no
schedule ends before

.. math:: t + \sum_i \pi_i r_i

with :math:`r_i` what is left of the duration of op i. The same holds for the ops with :math:`tail_i \ge b`
alone, which end by C - b: if any of them is left, :math:`C \ge t + b + \sum_{tail_i \ge b} \pi_i r_i`. Prices
1/p give the load bound.

Once m ops have ended, only the :math:`R` that can run after an ideal of m ops or more count, and prices may
be higher. When k ops have started, k - p of them or more have ended.

The best prices are the dual values of the linear program that covers durations by sets (Mingozzi,
Maniezzo, Ricciardelli and Bianco, Management Science 1998, for projects whose resources are held only while
activities run; with memory as the resource and ideals for what holds it, this is our own). Prices are
integers over `SCALE` p; that they are within the scale is looked at in integers, set by set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ....formulations.linear_program import LinearProgram
from ....models.arrays import Integers
from ...context import Context
from .ideals import Ideals
from .shape import Shape

SCALE = 2**20
"""Prices are in parts of this times the number of processors."""

MOST_STEPS = 500_000_000
"""Of the enumeration of sets: a few seconds."""

VECTORS = 6
"""Vectors of prices: for all ops, and for those with the least tails, fewer and fewer; of the latter also
those that hold only once as many ops have ended."""


@dataclass(frozen=True)
class Together:
    """Sets of ops that can run together, the largest ones among them.

    Attributes
    ----------
    sets
        Bit masks.
    latest
        By set: the most ops that may have ended when it runs.
    """

    sets: Integers
    latest: Integers


def find_sets(shape: Shape, ideals: Ideals, stop: Callable[[], bool]) -> Together | None:
    """Return the sets that can run together; None if it takes too long."""
    from .ideals_kernel import EMPTY, sets_together

    table = np.full(1 << 12, EMPTY, dtype=np.int64)
    latest = np.zeros(len(table), dtype=np.int64)
    count, spent = 0, 0
    for size, (low, high) in enumerate(pairwise(ideals.first[:-1].tolist())):
        done = low
        while done < high:
            count, done, steps = sets_together(
                shape,
                ideals.sets,
                ideals.after,
                np.array([done, high, size], dtype=np.int64),
                ideals.at,
                ideals.by,
                ideals.target,
                table,
                latest,
                count,
                MOST_STEPS - spent,
            )
            spent += steps
            if spent > MOST_STEPS or stop():
                return None
            if 3 * count > len(table):
                table, latest = _larger(table, latest)
    used = table != EMPTY
    order = np.argsort(table[used])
    return Together(table[used][order], latest[used][order])


def _larger(table: Integers, latest: Integers) -> tuple[Integers, Integers]:
    """Return a hash table with the same sets and four times the room."""
    from .ideals_kernel import EMPTY, put

    larger = np.full(4 * len(table), EMPTY, dtype=np.int64)
    sizes = np.zeros(len(larger), dtype=np.int64)
    put(larger, sizes, table[table != EMPTY], latest[table != EMPTY])
    return larger, sizes


@dataclass(frozen=True)
class PriceVectors:
    """Vectors of prices.

    Attributes
    ----------
    rows
        By vector and op.
    ended
        By vector: it holds once so many ops have ended.
    """

    rows: Integers
    ended: Integers

    def after(self, ended: int) -> Integers:
        """Return the rows that hold once so many ops have ended."""
        return self.rows[self.ended <= max(0, ended)]

    @property
    def always(self) -> PriceVectors:
        """Those that hold from the beginning, so also with time running backwards."""
        return PriceVectors(self.rows[self.ended == 0], self.ended[self.ended == 0])


def uniform_prices(shape: Shape) -> PriceVectors:
    """Return the prices of the load bound."""
    return PriceVectors(np.full((1, len(shape.duration)), SCALE, dtype=np.int64), np.zeros(1, dtype=np.int64))


def find_prices(
    shape: Shape,
    together: Together,
    context: Context,
    seconds: float,
    expired: Callable[[], bool] = lambda: False,
) -> PriceVectors:
    """Return vectors of prices, by row, the uniform ones first.

    Parameters
    ----------
    context
        For the limits of the linear programs.
    seconds
        For all of them.
    expired
        Whether to end, asked between them.
    """
    n = len(shape.duration)
    until = context.elapsed() + min(seconds, context.remaining())
    rows, ended = [uniform_prices(shape).rows[0]], [0]
    for k in range(VECTORS):
        tails = shape.by_tail[n * k // VECTORS :]
        for least in sorted({0, n * k // VECTORS}):
            left = until - context.elapsed()
            member = _members(together.sets[together.latest >= least], n)
            if (
                left > 0
                and not expired()
                and (dual := _dual(shape, member, tails, context, left)) is not None
            ):
                rows.append(_integers(dual, member, SCALE * int(shape.numbers[0])))
                ended.append(least)
    return PriceVectors(np.array(rows, dtype=np.int64), np.array(ended, dtype=np.int64))


def _members(sets: Integers, n: int) -> Integers:
    """Return 1 by set and op that is in it, else 0."""
    return (sets[:, None] >> np.arange(n)) & 1


def _dual(
    shape: Shape, member: Integers, tails: Integers, context: Context, seconds: float
) -> np.ndarray | None:
    """Return prices that are best for some of the ops, in parts of 1; None if there was no time."""
    from ...engines.highs_lp import dual_values

    n = len(shape.duration)
    wanted = np.zeros(n, dtype=np.int64)
    wanted[tails] = shape.duration[tails]
    first = np.concatenate([[0], np.cumsum(member.sum(axis=0))])
    columns = np.concatenate([np.flatnonzero(member[:, i]) for i in range(n)])
    program = LinearProgram(
        cost=[1] * len(member),
        upper=[int(shape.duration.sum())] * len(member),
        unit=[1] * len(member),
        low=wanted.tolist(),
        scale=[1] * n,
        first=first.tolist(),
        column=columns.tolist(),
        value=[1] * len(columns),
    )
    dual = dual_values(program, context, seconds)
    return None if dual is None else np.array(dual)


def _integers(dual: np.ndarray, member: Integers, scale: int) -> Integers:
    """Return the prices in integers, lowered until no set costs more than `scale`."""
    most = float((member @ dual).max(initial=0.0)) or 1.0
    prices = np.floor(np.clip(dual / most, 0.0, 1.0) * scale).astype(np.int64)
    while (over := int((member @ prices).max(initial=0)) - scale) > 0:
        prices = np.maximum(prices - over, 0)
    return prices


def price_bound(shape: Shape, prices: PriceVectors) -> int:
    """Return the best bound of the page of mathematics at time 0, in ticks."""
    best, scale = 0, SCALE * int(shape.numbers[0])
    order = shape.by_tail
    for row in prices.after(0):
        area = np.cumsum(row[order] * shape.duration[order])
        best = max(best, int((-(-area // scale) + shape.tail[order]).max()))
    return best
