"""Plans where ops use a slower memory in place: all items get paths that fit beside each other.

1. At ever lower rents of the first tier, which an item pays where it is not there in the solution of the
   linear program of `master`, items get their best paths beside all others, the largest first. Copies are of
   whole items; what one costs depends on how much of it goes beside ops.
2. Copies that ops wait for get more ops beside them, while there is room.

Each time the plan is simulated, and what is better than all before is offered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formulations.placement.in_place.data import InPlaceData
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context
from .emission import emit
from .paths_kernel import NEVER, PathPrices
from .plan_kernel import CopyTimes, Ops, PlanWorld, fill, simulate, widen
from .prices import GRAIN, PricePoint, empty_path, item_arrays

BITS = 24
"""Prices are in fractions of a ns per byte: 2**-24."""

WEIGHTS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.0)
"""Of rents; at 1 all of the first tier costs as many ns as pass. Chosen by hand."""

WIDER = 100
"""Times that copies get more ops beside them in one plan, at most."""


class PathPlanner:
    """The paths of all items, and the best time so far."""

    def __init__(self, problem: Placement, data: InPlaceData) -> None:
        self.problem, self.data = problem, data
        self.items = item_arrays(data)
        n, many, ops = data.n, len(data.items), len(data.operands)
        allowed = np.zeros(
            (sum(map(len, data.modes)), max(1, *(len(data.of(k)) for k in range(n)))), np.int64
        )
        row = 0
        for k in range(n):
            for m in range(len(data.modes[k])):
                for x, operand in enumerate(data.of(k)):
                    allowed[row, x] = sum(1 << way for way in operand.ways[m])
                row += 1
        self.ops = Ops(
            operand=np.array(data.first),
            mode=np.cumsum([0, *map(len, data.modes)]),
            time=np.array([ns for some in data.modes for _, ns, _ in some]),
            allowed=allowed,
            slow=np.array([int(x.slow * GRAIN) for x in data.operands], np.int64),
            grain=GRAIN,
        )
        self.room = data.capacity - np.array([max(work for _, _, work in some) for some in data.modes])
        z = np.zeros
        states = [z((many, n), np.int8) for _ in range(3)]
        placed = [z(many, np.int64) for _ in range(2)]
        self.world = PlanWorld._make([*states, *placed, self.room.copy(), np.full(ops, -1), z(n, np.int64)])
        copies = [z(2 * (ops + 2 * many) + 4, np.int64) for _ in range(5)]
        self.times = CopyTimes._make([z((n + 1, 2), np.int64), *copies, z(n, np.int64), z(n + 1, np.int64)])
        self.path = empty_path(n)
        self.order = np.argsort(-self.items.size, kind="stable")
        self.number = {(item.tensor, item.uses): i for i, item in enumerate(data.items)}
        self.best = NEVER
        self.base = np.array([min(ns for _, ns, _ in some) for some in data.modes])
        self.rates = np.array([data.inward, data.outward]) / SECOND

    def shares(self, data: InPlaceData, found: Any) -> Any:
        """Return shares by all items from those of some; what is left out is small, and may be anywhere."""
        share = np.full(self.world.during.shape, 100, np.int8)
        for item, row in zip(data.items, found, strict=True):
            share[self.number[item.tensor, item.uses]] = row
        return share

    def clear(self) -> None:
        """Take all items out."""
        self.world.placed[:] = 0
        self.world.room[:] = self.room
        self.world.way[:] = -1

    def _prices(self, point: PricePoint) -> PathPrices:
        """Return prices for whole items, without rents."""
        one, n = 2.0**BITS, self.data.n
        with np.errstate(divide="ignore"):
            full = np.where(self.rates > 0, one / self.rates, NEVER)
            times = np.where(self.rates > 0, 2.0**20 / self.rates, 0).astype(np.int64)
        stall = np.tile(full, (n + 1, 1))
        run = np.clip(np.clip(point.run, 0, None) * one, 1, stall[1:])
        clock = np.concatenate([[0], np.cumsum(self.base)]).astype(np.int64)
        zero = np.zeros(n, np.int64)
        way = np.zeros((len(self.data.operands), 3), np.int64)
        return PathPrices(zero.copy(), zero, run.astype(np.int64), stall.astype(np.int64), way, clock, times)

    def plan(self, point: PricePoint, share: Any, context: Context) -> None:
        """Give all items paths at ever lower rents."""
        prices = self._prices(point)
        rent = self.base / max(1, self.data.capacity) * 2.0**BITS
        self.clear()
        for weight in WEIGHTS:
            if context.expired or context.closed:
                return
            rents = np.minimum(rent * weight, 2.0**30).astype(np.int64)
            if not fill(
                self.items, self.ops, self.world, prices, self.path, self.order, 1 << BITS, rents, share
            ):
                self.clear()
                continue
            prices.clock[1:] = np.cumsum(self.world.length)
            self._look(prices, context)
            for _ in range(WIDER):
                if context.expired or not widen(self.items, self.world, self.times):
                    break
                self._look(prices, context)

    def _look(self, prices: PathPrices, context: Context) -> None:
        """Simulate the plan, and offer it if it is the best one so far."""
        time = simulate(self.items, self.world, prices, self.times)
        if time < self.best:
            self.best = time
            context.offer(emit(self.problem, self.data, self.world))
