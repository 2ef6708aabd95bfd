r"""The linear program over known paths, whose dual values are prices (`prices`).

Let :math:`P_i` be the known paths of live range i, :math:`y_p \ge 0` the part of it on path p, :math:`q_{kc}
\ge 0` the parts of the configurations of the ops in `InPlaceDual.linked`, :math:`\sigma_e \ge 0` the lengths
of the stalls. Minimize :math:`\sum_e \sigma_e + \sum_k \tau_k`, with :math:`\tau_k = \sum_c t_{kc} q_{kc}`
for these ops; for the others it is the base plus what the accesses on the paths add. Subject to

1. :math:`\sum_{p \in P_i} y_p = 1`, :math:`\sum_c q_{kc} = 1`;
2. the bytes in the first tier at :math:`b_k` and :math:`e_k`, and the workspace, are at most M: dual values
   :math:`\mu_k, \mu'_k`;
3. each channel carries at most its rate times :math:`\tau_k` in a run, :math:`\sigma_e` in a stall:
   :math:`\alpha`;
4. the part of operand j with access a on the paths equals that in the configurations: :math:`z_j \nu_{ja}`.

Row 2 may be broken at the price of a copy out and back, row 4 at a high one, so that there is always a
solution. The next paths are the cheapest ones at the dual values and at a mean of those so far: column
generation (Dantzig and Wolfe 1960), smoothed as by Wentges (1997).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...context import Context
from ...engines.highs_columns import Column, ColumnProgram
from .prices import GRAIN, InPlaceDual, PricePoint

BROKEN = 1e4
"""Price of breaking row 4 for all of an operand, in `InPlaceDual.ns`: about the sum of all durations."""


class PathMaster:
    """The program; times in units of `InPlaceDual.ns`, bytes of `InPlaceDual.unit`."""

    def __init__(self, dual: InPlaceDual, context: Context) -> None:
        self.dual, self.context, data = dual, context, dual.data
        self.n = n = data.n
        self.epochs = 2 * n + 1  # the runs, then the stalls
        count = dual.chosen + len(data.ranges) + len(dual.linked)
        low, high = np.full(count, -np.inf), np.zeros(count)
        high[: 2 * n] = np.tile(data.capacity - dual.least, 2) / dual.unit
        for at in (2 * n, 2 * n + self.epochs):
            high[at : at + n] = dual.base / GRAIN / dual.ns
        low[dual.links : dual.chosen] = 0
        low[dual.chosen :] = high[dual.chosen :] = 1
        self.program = ColumnProgram(low, high, context)
        self.known: set[tuple[bytes, bytes]] = set()
        self.fixed = float(dual.base.sum()) / GRAIN
        self._begin()
        self.first = self.program.columns
        self.paths: list[tuple[int, Any]] = []
        self.parts: list[float] = []

    def _begin(self) -> None:
        """Add stalls, configurations, and what breaks rows."""
        n, dual = self.n, self.dual
        both = np.array([2 * n, 2 * n + self.epochs])
        columns: list[Column] = [(1.0, both + n + e, -np.ones(2)) for e in range(n + 1)]
        for number, (k, op) in enumerate(sorted(dual.linked.items()), dual.chosen + len(dual.data.ranges)):
            if self.context.expired:
                return
            first, last = dual.data.first[k], dual.data.first[k + 1]
            links = dual.layout.link[np.arange(first, last), op.accesses]
            for time, work, linked in zip(op.time, op.workspace, links, strict=True):
                ns, held = time / GRAIN / dual.ns, work / dual.unit
                linked = linked[linked >= 0]
                rows = np.concatenate([[number, *(both + k), k, n + k], linked])
                columns.append((ns, rows, np.array([1.0, -ns, -ns, held, held] + [-1.0] * len(linked))))
        away = float((1 / dual.rates[dual.rates > 0]).sum()) * dual.unit / dual.ns or BROKEN
        columns += [(away, np.array([r]), -np.ones(1)) for r in range(2 * n)]
        columns += [
            (BROKEN, np.array([row]), np.full(1, sign))
            for row in range(dual.links, dual.chosen)
            for sign in (1.0, -1.0)
        ]
        self.program.add(columns)

    def ask(self, point: PricePoint) -> tuple[Fraction | None, int]:
        """Return the bound that prices prove, or None, and how many of their cheapest paths were unknown."""
        bound = self.dual.evaluate(point, self.context)
        if bound is None:
            return None, 0
        fresh = []
        for i, (cost, rows, values) in enumerate(self.dual.columns):
            key = (rows.tobytes(), values.tobytes())
            if key not in self.known:
                self.known.add(key)
                fresh.append((cost, rows, values))
                self.paths.append((i, rows[rows < self.n].astype(np.int32)))
        self.dual.columns = []
        self.program.add(fresh)
        return bound, len(fresh)

    def solve(self) -> tuple[float, PricePoint] | None:
        """Return the value in ns and the prices; None if the time expired before."""
        optimum = self.program.solve()
        if optimum is None:
            return None
        value, duals = optimum
        self.parts = self.program.values()[self.first :].tolist()
        price = -duals[: self.dual.chosen]
        price[: self.dual.links] = np.maximum(0, price[: self.dual.links])
        return value * self.dual.ns + self.fixed, self.dual.priced(price)

    def shares(self) -> Any:
        """Return the part of each range in the first tier at the start of an op, as `PriceAscent.share`."""
        ranges = self.dual.ranges
        share = np.zeros(self.dual.states)
        for (i, near), part in zip(self.paths, self.parts, strict=False):
            share[ranges.base[i] + near] += part
        return np.minimum(share, 1)
