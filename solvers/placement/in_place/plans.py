"""Plans where ops use a second tier in place: live ranges get paths that fit beside each other.

1. At a high rent of the first tier, the ranges get their best paths beside all others, the largest first. A
   range for which no path is left goes to the front of the order, and all begin again. At ever lower rents
   each range then gets its best path anew. It pays the rent where it is not in the first tier in the solution
   of the linear program of `master`. Copies are of whole tensors; the ns of a copy that no op runs beside are
   part of its price.
2. Copies that delay ops get more ops beside them, while there is room.
3. A few ranges at a time get new paths between some of their uses (`moves_kernel`). A worse plan is kept at
   random, the less likely the longer it takes, and the longer the search lasts: simulated annealing.

Plans are simulated, and the best ones offered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....formulations.placement.in_place.data import InPlaceData
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context
from .emission import emit
from .moves_kernel import MoveArrays, anneal
from .paths_kernel import NEVER, LiveRanges, PathPrices
from .plan_kernel import OpTable, PlanState, Schedule, collect, fill, simulate, widen
from .prices import GRAIN, InPlaceDual, PricePoint, empty_path, range_arrays

UNIT = 2**24
"""Prices are in ns per byte, divided by this."""

RENTS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.0)
"""Rents of all of the first tier for an op, over the op's ns. Chosen by hand."""

MOST_REORDERS = 1000
"""Largest number of ranges that go to the front for one plan. Chosen by hand; SqueezeNet needed 11."""

HIGHEST_RENT = 2.0**30
"""Largest rent of a byte for an op, in ns / `UNIT`: 64 ns."""

HOT, COLD = 3e-4, 1e-6
"""Mean worsening that a move may bring at first and at last, over the plan's ns. At first 1e-4 makes plans
of DenseNet-121 longer by 1 %, 2e-5 too; plans of ResNet-50 are equal."""

COOLINGS = 200
"""Temperatures of one descent from `HOT` to `COLD`, fewer if the time ends before. On ResNet-50 at 1/9 one
descent of 116,000 moves gains as much as three of them."""

MOVES, MOVES_PER_RANGE = 500, 20
"""Moves at each temperature, at most and for each live range: a tenth of a second at most."""

ANNEALED = 0.8
"""Part of the time left that a descent takes; the rest is for its plan, which is emitted and verified."""

MOST_MOVED = 4
"""Largest number of ranges in a move. Chosen by hand: 8 take twice as long, and gain no more."""

ENOUGH = 10**5
"""A descent that gains less than the plan's ns over this is the last one."""

MOST_WIDENED = 8
"""Times that copies get more ops beside them in one plan: most of DenseNet-121's seconds went into 100."""


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
        self.best, self.seed, self.offered = NEVER, 0, True
        self.top, noted = (_copy_of(self.state) for _ in range(2))
        self.moves = _moves(ranges, n, copies, noted)
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

    def _shares(self, dual: InPlaceDual, shares: Any) -> Any:
        """Return the percents of each range in the first tier; 100 for ranges that the prices leave out."""
        share, n = np.full(self.state.during.shape, 100, np.int8), self.data.n
        for i, number in enumerate(dual.numbers):
            begin, end = self.ranges.begin[number], min(n, self.ranges.end[number] + 1)
            here, there = self.ranges.base[number], dual.ranges.base[i]
            share[here + begin : here + end] = 100 * shares[there + begin : there + end]
        return share

    def improve(self, point: PricePoint, dual: InPlaceDual, shares: Any, context: Context) -> None:
        """Give all ranges paths at ever lower rents, and offer the plans.

        ``shares``: as `PriceAscent.share`.
        """
        self.prices, self.share = self._prices(point), self._shares(dual, shares)
        self.moves.rents[:] = np.minimum((point.begin + point.end) * UNIT, HIGHEST_RENT).astype(np.int64)
        self.moves.run[:] = self.prices.run
        self._fill(self.prices, context)
        self._offer(self.prices, context)

    def finish(self, context: Context) -> None:
        """Change the best plan by moves as long as that gains."""
        before = NEVER
        while self.best < before and not (context.expired or context.closed):
            before = self.best - self.best // ENOUGH
            self._anneal(context)

    def _fill(self, prices: PathPrices, context: Context) -> None:
        """Give all ranges paths at ever lower rents, and offer the plans."""
        ranges, state = self.ranges, self.state
        rent, reorders = self.base / max(1, self.data.capacity) * UNIT, 0
        self.clear()
        for weight in RENTS:
            rents, at = np.minimum(rent * weight, HIGHEST_RENT).astype(np.int64), 0
            while at < len(self.order):
                if context.expired or context.closed or reorders > MOST_REORDERS:
                    return
                at = fill(
                    *(ranges, self.ops, state, prices, self.path, self.order, at, rents, self.share, UNIT)
                )
                if at < 0:
                    self.order[: ~at + 1] = np.roll(self.order[: ~at + 1], 1)
                    at, reorders = 0, reorders + 1
                    self.clear()
            prices.clock[1:] = np.cumsum(state.length)
            for _ in range(MOST_WIDENED + 1):
                self._simulate(state, prices)
                if context.expired or not widen(ranges, state, self.times):
                    break
            if weight == RENTS[0]:
                self._offer(prices, context)

    def _anneal(self, context: Context) -> None:
        """Change the best plan by moves, at ever lower temperatures, and offer the best one.

        The lowest temperature is reached with the time limit, or before.
        """
        if self.best == NEVER:
            return
        _write(self.top, self.state)
        moves, part, number = min(MOVES, MOVES_PER_RANGE * len(self.order)), 0.0, 0
        began, seconds = context.elapsed(), max(1e-9, ANNEALED * context.remaining())
        while part < 1 and not (context.expired or self.best <= (context.bound or 0)):
            heat, number = HOT * self.best * (COLD / HOT) ** part, number + 1
            anneal(
                *(self.ranges, self.ops, self.state, self.prices, self.path, self.times, self.moves),
                *(self.share, self.prices.stall[0], UNIT, moves, MOST_MOVED, heat, context.seed + self.seed),
            )
            self.seed += 1
            self._simulate(self.state, self.prices)
            part = max(number / COOLINGS, (context.elapsed() - began) / seconds)
        self._offer(self.prices, context)

    def _simulate(self, state: PlanState, prices: PathPrices) -> None:
        """Simulate a plan, and keep it if it is the best one so far."""
        collect(self.ranges, state, self.times)
        time = simulate(state, prices, self.times)
        if time < self.best:
            self.best, self.offered = time, False
            _write(state, self.top)

    def _offer(self, prices: PathPrices, context: Context) -> None:
        """Offer the best plan, if it was not offered before."""
        if not self.offered:
            self.offered = True
            collect(self.ranges, self.top, self.times)
            context.offer(emit(self.problem, self.data, self.ranges, self.top, prices, self.times))


def _copy_of(state: PlanState) -> PlanState:
    arrays: Any = [x.copy() for x in state]
    return PlanState._make(arrays)


def _write(state: PlanState, other: PlanState) -> None:
    """Write a plan to another one."""
    arrays: Any = zip(state, other, strict=True)
    for x, y in arrays:
        y[:] = x


def _moves(ranges: LiveRanges, n: int, copies: int, noted: PlanState) -> MoveArrays:
    """Return what moves need, without prices."""
    begin, end = ranges.begin, np.minimum(n - 1, ranges.end)
    alive = [np.flatnonzero((begin <= k) & (k <= end)) for k in range(n)]
    z, most = np.zeros, MOST_MOVED
    return MoveArrays(
        first=np.cumsum([0, *map(len, alive)]),
        alive=np.concatenate(alive),
        spare=z(copies, np.int64),
        chosen=z(most, np.int64),
        low=z(most, np.int64),
        high=z(most, np.int64),
        during=noted.during,
        before=noted.before,
        after=noted.after,
        rents=z(n, np.int64),
        run=z((n, 2), np.int64),
    )


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
