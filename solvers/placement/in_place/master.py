r"""The paths that are known, as a linear program, whose dual values are prices (`prices`).

Let :math:`P_i` be the known paths of item i, of which :math:`y_p \ge 0` is taken, :math:`q_{kc} \ge 0` the
configurations of the ops in `Dual.linked`, :math:`\sigma_e \ge 0` the stalls. Minimize :math:`\sum_e \sigma_e
+ \sum_k \tau_k`, with :math:`\tau_k = \sum_c t_{kc} q_{kc}`, or what its base and the ways of its operands on
the paths add up to, subject to

1. :math:`\sum_{p \in P_i} y_p = 1`, :math:`\sum_c q_{kc} = 1`;
2. the bytes in the first tier at :math:`b_k` and :math:`e_k`, and the workspace, are at most M: dual values
   :math:`\mu_k, \mu'_k`;
3. each channel carries at most its rate times :math:`\tau_k` in a run, :math:`\sigma_e` in a stall:
   :math:`\alpha`;
4. as much of operand j in way w on the paths as in configurations: :math:`z_j \nu_{jw}`.

Row 2 may be broken at the price of a copy out and back, row 4 at a high one, so that there is always a
solution. Next paths are asked for at the dual values and at a mean of those so far: column generation
(Dantzig and Wolfe 1960), smoothed as by Wentges (1997).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...context import Context
from ...engines.highs_columns import Column, ColumnProgram
from .paths_kernel import PathUsage, column_of
from .prices import GRAIN, InPlaceDual, PricePoint

BROKEN = 1e4
"""Price of a way that breaks a row: so many times the sum of durations, for all of its operand."""


class PathMaster:
    """The program; times in units of `ns`, bytes in units of `unit`."""

    def __init__(self, dual: InPlaceDual, context: Context) -> None:
        self.dual, data = dual, dual.data
        self.n = n = data.n
        self.ns = max(1.0, float(dual.ideal)) / 1e4
        self.unit = max(1.0, data.capacity / 100)
        self.links = {
            (j, w): number
            for number, (j, w) in enumerate(
                (j, w)
                for k in sorted(dual.linked)
                for j in range(data.first[k], data.first[k + 1])
                for w in range(3)
                if dual.counted[j] and dual.ways[j, w]
            )
        }
        self.epochs = 2 * n + 1  # the runs, then the stalls
        self.carried = 2 * n
        self.linked = self.carried + 2 * self.epochs
        self.chosen = self.linked + len(self.links)
        count = self.chosen + len(data.items) + len(dual.linked)
        low, high = np.full(count, -np.inf), np.zeros(count)
        high[: 2 * n] = np.tile(data.capacity - dual.least, 2) / self.unit
        for c in range(2):
            at = self.carried + c * self.epochs
            high[at : at + n] = dual.base / GRAIN / self.ns
        low[self.linked : self.chosen] = 0
        low[self.chosen :] = high[self.chosen :] = 1
        self.program = ColumnProgram(low, high, context)
        self.known: set[tuple[int, bytes, bytes]] = set()
        ops = len(dual.op_of)
        z = np.zeros
        self.scratch = PathUsage(
            z(n, np.int64), z(n, np.int64), z((n, 2), np.int64), z((n + 1, 2), np.int64), z(ops, np.int64)
        )
        self.fixed = float(dual.base.sum()) / GRAIN
        self._begin()
        self.first = self.program.columns
        self.paths: list[tuple[int, Any]] = []

    def _begin(self) -> None:
        """Add stalls, configurations, and what breaks rows."""
        n, dual, both = self.n, self.dual, (0, self.epochs)
        some: list[Column] = [
            (1.0, np.array([self.carried + n + e + c for c in both]), -np.ones(2)) for e in range(n + 1)
        ]
        for number, (k, op) in enumerate(sorted(dual.linked.items())):
            first = dual.data.first[k]
            for time, work, ways in zip(op.time, op.workspace, op.ways.tolist(), strict=True):
                ns = time / GRAIN / self.ns
                rows = [
                    self.chosen + len(dual.data.items) + number,
                    *(self.carried + k + c for c in both),
                    k,
                    n + k,
                ]
                values = [1.0, -ns, -ns, work / self.unit, work / self.unit]
                links = [self.links[key] for key in enumerate(ways, first) if key in self.links]
                some.append(
                    (
                        ns,
                        np.array(rows + [self.linked + x for x in links]),
                        np.array(values + [-1.0] * len(links)),
                    )
                )
        away = float((1 / dual.rates[dual.rates > 0]).sum()) * self.unit / self.ns or BROKEN
        some += [(away, np.array([r]), -np.ones(1)) for r in range(2 * n)]
        some += [
            (BROKEN, np.array([self.linked + x]), np.full(1, sign))
            for x in range(len(self.links))
            for sign in (1.0, -1.0)
        ]
        self.program.add(some)

    def add(self) -> int:
        """Add the paths that the last prices of the dual ask for, if they are not known; return how many."""
        dual, fresh = self.dual, []
        assert dual.prices is not None
        for i in range(len(dual.data.items)):
            for table in self.scratch:
                table[...] = 0
            column_of(dual.items, dual.prices, dual.path, i, dual.room, self.scratch)
            cost, rows, values = self._column(i)
            key = (i, rows.tobytes(), values.tobytes())
            if key not in self.known:
                self.known.add(key)
                fresh.append((cost, rows, values))
                self.paths.append((i, rows[rows < self.n]))
        self.program.add(fresh)
        return len(fresh)

    def _column(self, i: int) -> Column:
        dual, used = self.dual, self.scratch
        held = np.concatenate([used.begin, used.end]) / self.unit
        carried = (
            np.concatenate([used.run, used.stall]).T
            / np.where(dual.rates > 0, dual.rates, 1)[:, None]
            / self.ns
        )
        uses = dual.items.use[dual.items.first[i] : dual.items.first[i + 1]]
        ways = used.way[uses]
        longer = dual.part[uses, ways] / GRAIN / self.ns
        carried[:, : self.n] -= np.bincount(dual.op_of[uses], longer, self.n)
        links = [
            self.links[key] for key in zip(uses.tolist(), ways.tolist(), strict=True) if key in self.links
        ]
        flat = np.concatenate([held, carried.ravel()])
        rows = np.flatnonzero(flat)
        more = np.array([*(self.linked + x for x in links), self.chosen + i])
        return (
            float(longer.sum()),
            np.concatenate([rows, more]),
            np.concatenate([flat[rows], np.ones(len(more))]),
        )

    def solve(self) -> tuple[float, PricePoint] | None:
        """Return the value in ns and the prices; None if they were not found in time."""
        found = self.program.solve()
        if found is None:
            return None
        value, duals = found
        dual, n = self.dual, self.n
        price = np.maximum(0, -duals)
        begin, end = price[: 2 * n].reshape(2, n) * (self.ns / self.unit)
        with np.errstate(divide="ignore", invalid="ignore"):
            carried = price[self.carried : self.linked].reshape(2, self.epochs).T / dual.rates
        carried = np.where(dual.rates > 0, carried, 0)
        link = np.zeros((len(dual.op_of), 3))
        for (j, w), x in self.links.items():
            link[j, w] = -duals[self.linked + x] * self.ns
        return value * self.ns + self.fixed, PricePoint(begin, end, carried[:n], carried[n:], link)

    def shares(self) -> Any:
        """Return by item and op which part of it is in the first tier in the last solution, in percent."""
        found = np.zeros((len(self.dual.data.items), self.n))
        for (i, near), taken in zip(self.paths, self.program.values()[self.first :].tolist(), strict=False):
            if taken > 1e-6:
                found[i, near] += taken
        return np.rint(100 * np.clip(found, 0, 1)).astype(np.int8)
