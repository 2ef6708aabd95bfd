"""Plans where ops use a second tier in place: live ranges get paths that fit beside each other.

1. At a high rent of the first tier, the ranges get their best paths beside all others, the largest first. A
   range for which no path is left goes to the front of the order, and all begin again. At ever lower rents
   each range then gets its best path anew. It pays the rent where it is not in the first tier in the solution
   of the linear program of `master`. Copies are of whole tensors; the ns of a copy that no op runs beside are
   part of its price.
2. Copies that delay ops get more ops beside them, while there is room.

Each plan is simulated, and offered if it is better than all before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formulations.placement.in_place.data import InPlaceData
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context
from .emission import emit
from .master import PathMaster
from .paths_kernel import NEVER, PathPrices
from .plan_kernel import OpTable, PlanState, Schedule, collect, fill, simulate, widen
from .prices import GRAIN, PricePoint, empty_path, range_arrays

UNIT = 2**24
"""Prices are in ns per byte, divided by this."""

RENTS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.0)
"""Rents of all of the first tier for an op, over the op's ns. Chosen by hand."""

MOST_REORDERS = 1000
"""Largest number of ranges that go to the front for one plan. Chosen by hand; SqueezeNet needed 11."""

MOST_WIDENED = 100
"""Largest number of times that copies get more ops beside them in one plan. Chosen by hand."""


class PathPlanner:
    """The paths of all live ranges, and the ns of the best plan so far."""

    def __init__(self, problem: Placement, data: InPlaceData) -> None:
        self.problem, self.data = problem, data
        self.ranges = ranges = range_arrays(data)
        n, count, operands, z = data.n, len(data.ranges), len(data.operands), np.zeros
        self.ops = _op_table(data)
        self.room = data.capacity - np.array([max(work for _, _, work in modes) for modes in data.modes])
        size = int(np.minimum(n, ranges.end + 1).sum() - ranges.begin.sum()) + count
        states = [z(size, np.int8) for _ in range(3)]
        self.state = PlanState._make([*states, *(z(x, np.int64) for x in (count, n, operands, n))])
        copies = 2 * (operands + 2 * count)  # a range goes out and in at most once between two uses
        by_copy = [z(copies, np.int64) for _ in range(6)]
        releases = z((copies + operands + 2 * count, 4), np.int64)
        ends = [z(x, np.int64) for x in (2, n, n + 1)]
        self.times = Schedule._make([z((n + 1, 2), np.int64), *by_copy, releases, *ends])
        self.path = empty_path(n)
        self.order = np.argsort(-ranges.size, kind="stable")
        self.best = NEVER
        self.base = np.array([min(ns for _, ns, _ in modes) for modes in data.modes])

    def clear(self) -> None:
        """Take all ranges off their paths."""
        self.state.placed[:] = 0
        self.state.room[:] = self.room
        self.state.access[:] = -1

    def _prices(self, point: PricePoint) -> PathPrices:
        """Return prices of copies of whole tensors, without rents."""
        data, n = self.data, self.data.n
        links = {(c.src, c.dst): c for c in self.problem.machine.channels}
        near, far = (tier.name for tier in self.problem.machine.tiers)
        full, copy = np.full(2, NEVER), np.zeros((len(data.ranges), 2), np.int64)
        for c, ends in enumerate(((far, near), (near, far))):
            if ends in links:
                rate, latency = links[ends].bytes_per_s, links[ends].latency_ns
                full[c] = UNIT * SECOND // rate
                copy[:, c] = [max(1, latency - (-x.nbytes * SECOND // rate)) for x in data.ranges]
        run = np.clip(np.clip(point.run, 0, None) * UNIT, 1, full).astype(np.int64, order="C")
        clock = np.concatenate([[0], np.cumsum(self.base)]).astype(np.int64)
        zero, stall = np.zeros(n, np.int64), np.tile(full, (n + 1, 1))
        access = np.zeros((len(data.operands), 3), np.int64)
        return PathPrices(zero.copy(), zero, run, stall, access, clock, copy)

    def _shares(self, master: PathMaster) -> Any:
        """Return the percents of each range in the first tier; 100 for ranges that the program leaves out."""
        share, ranges = np.full(self.state.during.shape, 100, np.uint8), self.ranges
        numbers = master.dual.numbers
        for i in numbers:
            share[ranges.base[i] + ranges.begin[i] : ranges.base[i] + min(self.data.n, ranges.end[i] + 1)] = 0
        for i, near, part in master.chosen_paths():
            at = ranges.base[numbers[i]] + near
            share[at] = np.minimum(100, share[at] + round(100 * part))
        return share.astype(np.int8)

    def improve(self, point: PricePoint, master: PathMaster, context: Context) -> None:
        """Give all ranges paths at ever lower rents, and offer the plans."""
        prices, share, ranges, state = self._prices(point), self._shares(master), self.ranges, self.state
        rent, reorders = self.base / max(1, self.data.capacity) * UNIT, 0
        self.clear()
        for weight in RENTS:
            rents, at = np.minimum(rent * weight, 2.0**30).astype(np.int64), 0
            while at < len(self.order):
                if context.expired or context.closed or reorders > MOST_REORDERS:
                    return
                at = fill(ranges, self.ops, state, prices, self.path, self.order, at, rents, share, UNIT)
                if at < 0:
                    self.order[: ~at + 1] = np.roll(self.order[: ~at + 1], 1)
                    at, reorders = 0, reorders + 1
                    self.clear()
            prices.clock[1:] = np.cumsum(state.length)
            for _ in range(MOST_WIDENED + 1):
                self._simulate(prices, context)
                if context.expired or not widen(ranges, state, self.times):
                    break

    def _simulate(self, prices: PathPrices, context: Context) -> None:
        """Simulate the plan, and offer it if it is the best one so far."""
        collect(self.ranges, self.state, self.times)
        time = simulate(self.state, prices, self.times)
        if time < self.best:
            self.best = time
            context.offer(emit(self.problem, self.data, self.ranges, self.state, prices, self.times))


def _op_table(data: InPlaceData) -> OpTable:
    modes = [(k, m) for k in range(data.n) for m in range(len(data.modes[k]))]
    allowed = np.zeros((len(modes), max(1, int(np.diff(data.first).max()))), np.int64)
    for row, (k, m) in enumerate(modes):
        for x, operand in enumerate(data.operands_of(k)):
            allowed[row, x] = sum(1 << access for access in operand.accesses[m])
    return OpTable(
        operand=np.array(data.first),
        mode=np.cumsum([0, *map(len, data.modes)]),
        time=np.array([data.modes[k][m][1] for k, m in modes]),
        allowed=allowed,
        slow=np.array([data.slowdown(x.nbytes, GRAIN) for x in data.operands], np.int64),
        grain=GRAIN,
    )
