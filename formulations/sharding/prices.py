r"""Prices of usage, and shares of pairs: costs that are shifted without a change of any sum, and their bound.

Let p_r >= 0 be prices of sections, and for each pair e = (u, v) numbers m_eu(s), m_ev(t) by label. An answer
within the limit costs at least what it costs with p_r for each unit used above the least, less p_r times the
room R_r: no section is used above its room. What m adds to pairs it takes from groups, so no sum changes. So

.. math:: C + \sum_v \min_s \Big(c_{vs} + \sum_r p_r w_{vsr} - \sum_{e \ni v} m_{ev}(s)\Big)
    + \sum_e \min_{s,t} \big(q_{est} + m_{eu}(s) + m_{ev}(t)\big) - \sum_r p_r R_r,

with the costs C of what is settled, is at most the cost of every answer. All numbers are integers, in a unit
of 1/K of a cost; the sum is divided by K and rounded up. Whatever p >= 0 and m are, it is a bound.

An answer with label s (or pair s, t) costs at least the bound, plus what its term is above the least of its
row: it is out for answers of at most so much that this is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from .data import INFINITE, Numbers, ShardingData

Masks = NDArray[np.bool_]

BITS = 61
"""Bits that no shifted cost exceeds: two of them fit in 64 bits; larger numbers are refused."""


@dataclass(frozen=True, kw_only=True)
class UsagePrices:
    """Integers that shift costs, in units of 1/K.

    Attributes
    ----------
    unit
        K, at least 1.
    sections
        By section, for a unit of usage; at least 0.
    shares
        By pair in the order of the data: what it gets, by label of the first group, then of the second.
    """

    unit: int
    sections: Numbers
    shares: Numbers


@dataclass(frozen=True, kw_only=True)
class Shifted:
    """Costs in units of 1/K.

    Attributes
    ----------
    unit, constant
        K, and what every answer costs beside.
    costs, matrices
        By group and pair as in the data; infinite ones `INFINITE`.
    """

    unit: int
    constant: int
    costs: list[Numbers]
    matrices: dict[tuple[int, int], Numbers]

    @property
    def least(self) -> int:
        """The bound in units of 1/K."""
        rows = (*self.costs, *self.matrices.values())
        return self.constant + sum(int(row.min()) for row in rows)

    @property
    def bound(self) -> int:
        """What every answer costs at least."""
        return -(-self.least // self.unit)


def plain(data: ShardingData) -> Shifted:
    """Return the costs as they are."""
    return Shifted(unit=1, constant=data.fixed, costs=data.costs, matrices=data.matrices)


def shifted(data: ShardingData, prices: UsagePrices) -> Shifted:
    """Return the costs that prices and shares shift; as they are, if numbers would be too large."""
    unit, until = prices.unit, [0, *accumulate(prices.sections.tolist())]
    top = max((_top(row) for row in (*data.costs, *data.matrices.values())), default=0) * unit
    added = np.zeros(len(data.costs))
    costs = [_times(row, unit) for row in data.costs]
    priced = [
        (v, until[end] - until[first], row)
        for v, pieces in enumerate(data.pieces)
        for first, end, row in pieces
        if until[end] > until[first]
    ]
    for v, price, row in priced:
        added[v] += float(price) * float(row.max())
    at, given, most = 0, {}, 0.0
    for (u, v), own in data.matrices.items():
        parts = prices.shares[at : at + own.shape[0]], prices.shares[at + own.shape[0] : at + sum(own.shape)]
        at += sum(own.shape)
        given[u, v] = parts
        sizes = [float(np.abs(part).max()) for part in parts]
        added[u] += sizes[0]
        added[v] += sizes[1]
        most = max(most, sum(sizes))
    if not top + max(most, added.max(initial=0.0)) < 2.0**BITS:
        return plain(data)
    for v, price, row in priced:
        costs[v] = costs[v] + price * row
    matrices = {}
    for (u, v), own in data.matrices.items():
        left, right = given[u, v]
        costs[u], costs[v] = costs[u] - left, costs[v] - right
        matrices[u, v] = np.where(
            own >= INFINITE, INFINITE, _times(own, unit) + left[:, None] + right[None, :]
        )
    room = sum(p * r for p, r in zip(prices.sections.tolist(), data.room.tolist(), strict=True) if p)
    return Shifted(unit=unit, constant=unit * data.fixed - room, costs=costs, matrices=matrices)


def without_dear(shift: Shifted, most: int) -> tuple[list[Masks], dict[tuple[int, int], Masks]]:
    """Return by group and pair which labels an answer of at most so much may have."""
    slack = most * shift.unit - shift.least
    nodes = [row - int(row.min()) <= slack for row in shift.costs]
    pairs = {key: (own < INFINITE) & (own - int(own.min()) <= slack) for key, own in shift.matrices.items()}
    return nodes, pairs


def _top(row: Numbers) -> int:
    """Return the largest finite cost."""
    return int(row.max(initial=0, where=row < INFINITE))


def _times(row: Numbers, unit: int) -> Numbers:
    """Return finite costs in units of 1/K."""
    return np.where(row >= INFINITE, 0, row) * unit
