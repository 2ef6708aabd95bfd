r"""AutoTM's model over the walks that are known: a linear program, whose dual values are prices.

Notation of `walks_milp` and `prices`. Let :math:`P_t` be the known walks of item t, with a step at
each point, and :math:`y_p \ge 0` how much of p is taken; modes :math:`q_{km}` and slots :math:`\sigma_k` as
there, no longer whole numbers. Minimize :math:`\sum_k \sigma_k + \sum_p a_p y_p`, subject to

1. the sum of :math:`y_p` over :math:`P_t` is 1, and that of :math:`q_{km}` over the modes of k;
2. what is held in row r during op k is at most :math:`M_r`: its dual value is :math:`\lambda_{rk}`;
3. a, b and c, of dual values :math:`\beta_k, \gamma_k, \delta_k` with sum 1;
4. as many steps that take operand t of op k from tier i as modes that want it there, or at least so many if
   some mode takes t from anywhere: its dual value is :math:`\nu_{kti}`.

Rows 2 and 4 may be broken at a price, so that there is always a solution. Where dual values ask for no new
walk and nothing is broken, the value is that of the Lagrangian dual: column generation (Dantzig and Wolfe
1960). No bound is read off here: `prices` evaluates prices in integers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...context import Context
from ...engines.highs_columns import Column, ColumnProgram
from .arrays import Locations
from .autotm_kernel import column
from .tables import Arrays


class DualPrices(NamedTuple):
    """Prices in ns: of a byte by row and op; by op the shares of a and c in the bound of its slot.

    ``take``: by operand and tier, beyond what that lengthens the slot by.
    """

    rent: Any
    beside: Any
    near: Any
    take: Any


class PriceMaster:
    """The program, with the sets of c as they are in the tables now.

    Parameters
    ----------
    arrays
        The model.
    op_of, anywhere, rooms
        By operand its op, and whether some mode takes it from anywhere; by row and op the bytes of the tier.
    context
        Its limits count.
    """

    def __init__(self, arrays: Arrays, op_of: Any, anywhere: Any, rooms: Any, context: Context) -> None:
        m, n = arrays.tables, len(arrays.tables.level)
        self.arrays = arrays
        self.shape = (len(rooms), n, *m.slow.shape)
        self.ns = float(max(1, arrays.data.ideal)) / 1e4
        self.bytes = max(1.0, float(rooms.max(initial=1))) / 100
        self.slots = len(rooms) * n
        self.links, self.items = self.slots + 3 * n, self.slots + 3 * n + m.slow.size
        count = self.items + len(m.size) + n
        low, high = np.zeros(count), np.zeros(count)
        low[: self.slots], high[: self.slots] = -np.inf, rooms.ravel() / self.bytes
        high[self.slots : self.links] = np.inf
        high[self.links : self.items][np.repeat(anywhere, m.slow.shape[1])] = np.inf
        low[self.items :] = high[self.items :] = 1
        self.scale = np.full(count, 1.0)
        self.scale[: self.slots], self.scale[self.slots : self.links] = self.bytes, self.ns
        self.program = ColumnProgram(low, high, context)
        self.known: set[tuple[int, bytes]] = set()
        self.walks: list[tuple[int, Any]] = []
        longest = max((len(walk.points) for walk in arrays.data.walks), default=0)
        self.rows, self.values = np.zeros((2, self.slots + 4 * longest), np.int64)
        self._slots(op_of)
        self.first = self.program.columns

    def _slots(self, op_of: Any) -> None:
        """Add slots, modes, and what breaks rows."""
        m, (rows, n, _, tiers) = self.arrays.tables, self.shape
        ops = np.arange(n)
        slots = [(self.ns, self.slots + k + n * np.arange(3), np.ones(3) * self.ns) for k in ops]
        self.program.add([self._scaled(*some) for some in slots])
        self.modes = self.program.columns
        modes = []
        for k in ops.tolist():
            for mode in range(m.mode_first[k], m.mode_first[k + 1]):
                wanted = m.wanted[mode, : m.operand_first[k + 1] - m.operand_first[k]]
                named = np.flatnonzero(wanted >= 0)
                links = self.links + (m.operand_first[k] + named) * tiers + wanted[named]
                where = [self.slots + n + k, self.slots + 2 * n + k, self.items + len(m.size) + k]
                what = [-m.duration[mode], -min(m.duration[mode], m.core[k]), 1]
                if m.run_row >= 0:
                    where.append(m.run_row * n + k)
                    what.append(m.workspace[mode])
                modes.append(self._scaled(0, [*where, *links], [*what, *-np.ones(len(links))]))
        self.program.add(modes)
        excess = self.arrays.most / max(1, int(m.size.max(initial=1)), int(m.workspace.max(initial=1)))
        unit = self.bytes
        self.program.add([self._scaled(excess * unit, [r], [-unit]) for r in range(rows * n)])
        for sign in (1, -1):
            self.program.add(
                [
                    self._scaled(m.longest[k], [self.links + j * tiers + i], [sign])
                    for j, k in enumerate(op_of.tolist())
                    for i in range(tiers)
                ]
            )

    def _scaled(self, cost: float, rows: Any, values: Any) -> Column:
        rows, values = np.asarray(rows, np.int64), np.asarray(values, float)
        return cost / self.ns, rows, values / self.scale[rows]

    def add(self, world: Locations) -> int:
        """Add the walks of a world that are not known yet; return how many."""
        m, fresh = self.arrays.tables, []
        for t, w in enumerate(world.chosen.tolist()):
            steps = world.step[m.point_first[w] : m.point_first[w + 1]]
            key = (w, steps.tobytes())
            if key not in self.known:
                self.known.add(key)
                self.walks.append((w, steps.copy()))
                count, cost = column(m, world, t, self.rows, self.values)
                rows = np.append(self.rows[:count], self.items + t)
                fresh.append(self._scaled(cost, rows, np.append(self.values[:count], 1)))
        self.program.add(fresh)
        return len(fresh)

    def solve(self) -> tuple[float, DualPrices] | None:
        """Return the value in ns and the prices; None if they were not found in time."""
        solution = self.program.solve()
        if solution is None:
            return None
        value, dual = solution
        dual = dual / self.scale * self.ns
        rows, n, operands, tiers = self.shape
        beside, _, near = dual[self.slots : self.links].reshape(3, n)
        beside, near = np.clip(beside, 0, 1), np.clip(near, 0, 1)
        rent = np.maximum(0, -dual[: self.slots]).reshape(rows, n)
        take = -dual[self.links : self.items].reshape(operands, tiers)
        return value * self.ns, DualPrices(rent, beside, np.minimum(near, 1 - beside), take)

    def choose(self, seconds: float) -> Locations | None:
        """Return a good choice of known walks, one for each item; None if none was found in time."""
        values = self.program.choose(range(self.modes, self.program.columns), seconds)
        if values is None:
            return None
        m, world = self.arrays.tables, self.arrays.empty()
        for (w, steps), taken in zip(self.walks, values[self.first :].tolist(), strict=True):
            if taken > 0.5:
                world.chosen[self.arrays.data.walks[w].item] = w
                world.step[m.point_first[w] : m.point_first[w + 1]] = steps
        return world if (world.chosen >= 0).all() else None
