r"""Prices for AutoTM's model: a bound of its optimum that is proved, and plans that they lead to.

Notation of `walks_milp`. Items meet only in its constraints 3, 4, 5 and 6. Let op k have a length
:math:`\tau_k` (its mode's duration :math:`d_{km}`, and :math:`l_{ts}` for what it takes from outer tiers),
at most :math:`D_k`, and let :math:`b` run over the ns of the copies beside it. Then its slot is bounded by

a. :math:`\sigma_k \ge \sum b`;
b. :math:`\sigma_k \ge \tau_k + \sum (b - D_k)^+`: true without copies, or if none takes longer than
   :math:`D_k`; else :math:`\sum b \ge D_k + \sum (b - D_k)^+`;
c. :math:`\sigma_k \ge \min(d_{km}, c_k) + \sum_{t \in K_k} l_{ts} + \sum (b - E_k)^+` for any :math:`c_k` and
   any set :math:`K_k` of operands, if :math:`E_k` is :math:`c_k` and the longest :math:`l_{ts}` of each of
   :math:`K_k` together: the first two parts are at most :math:`\tau_k`, and at most :math:`E_k`, so that this
   is true like b.

Any :math:`\beta, \gamma, \delta \ge 0` with sum 1, for each op, add these up to one bound of its slot. Prices
:math:`\lambda_{rk} \ge 0` of a byte of row r at op k add :math:`\lambda_{rk}` times (bytes in use :math:`-
M_{rk}`), at most 0. Prices :math:`\nu_{kti}` of operand t in tier i add :math:`\nu_{kti}` times (steps that
use it there :math:`-` modes that want it there): 0 if each mode of k wants t in some tier; if not, that
difference is at least 0, and :math:`\nu_{kti} \le 0`. What is left is a sum of independent minima, each found
exactly: of the walks of each item, by dynamic programming over its points, and of the modes of each op. That
sum, less :math:`\sum \lambda_{rk} M_{rk}`, is a bound :math:`L` of all plans of the form, whatever the
prices: the Lagrangian dual.

All of this is done in integers. Prices are multiples of 1 / ``unit`` ns, rents of a byte of
1 / (``unit`` ``fine``) ns; a rent, a workspace's rent and :math:`l_{ts}` are rounded down. Plans take whole
ns, so :math:`\lceil L \rceil` is the bound.

Prices come from the walks that they have asked for so far (`master`): dual values of a linear program,
and points between these and the best prices (Wentges 1997), which ask for the next walks, until there are no
new ones. Sets :math:`K_k` and :math:`c_k` are those of the best plan so far: there c is an equation, so that
these prices cost nothing where the plan is right. Plans: a choice among the known walks; and from the plan
that leaves as little as possible in limited tiers, items get, one after the other, their best walk beside all
others, with the true slots, modes and rooms, and with rents at first higher and then ever lower than the
prices, so that those enter first that gain most.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ....formulations.placement.autotm.data import AutotmData, ModeData
from ....formulations.placement.autotm.steps import Transition
from ....formulations.placement.autotm.walks_milp import Path, Steps
from ...context import Context
from .arrays import AutotmTables, Locations, Prices
from .autotm_kernel import NEVER, duration, improve, respond, settle, spread
from .master import DualPrices, PriceMaster
from .tables import arrays_of

BITS = 59
"""Of the sum of all times, and of that of all rents, in fractions of a ns: see the kernel."""

WEIGHT = 256
"""Of rents when they are the prices, see the kernel."""

PARTS = (0.9, 0.6, 0.3, 0.0)
"""Of the best prices in those that are tried between them and dual values."""

CHOOSING = 0.25
"""Of the time that is left, for one choice among walks."""

CLOSE = Fraction(1, 10**6)
"""Of the value of the linear program: how much may be missing."""


class Dual:
    """The dual of one model: its best prices and bound, and the best plan so far as a world of items."""

    def __init__(self, data: AutotmData) -> None:
        self.arrays = arrays_of(data)
        m, n = self.arrays.tables, data.n
        self.op_of = np.repeat(np.arange(n), np.diff(m.operand_first))
        self.rooms = self.arrays.empty().free
        self.moving = _ops_with_copies(m)
        self.anywhere = _anywhere(m, self.op_of)
        self.world: Locations | None = None
        self.cheapest = NEVER
        self.response = self.arrays.empty()
        self.held = np.zeros((len(data.rows), n + 1), np.int64)
        self.moved = np.zeros((3, n), np.int64)
        self.taken = np.zeros(m.slow.shape, np.int64)
        self.unit = 1 << min(16, BITS - self.arrays.most.bit_length())
        self.fine = 1 << max(0, BITS + 1 - self.unit.bit_length() - data.ideal.bit_length())
        self.best = DualPrices(
            np.zeros(self.rooms.shape), np.zeros(n), np.where(self.moving, 0.5, 0.0), np.zeros(m.slow.shape)
        )
        self.value: Fraction | None = None
        self.proved = Fraction(data.ideal)
        self.begin()

    @property
    def bound(self) -> int:
        """Ns that no plan of the form beats."""
        return math.ceil(self.proved)

    def prices(self, point: DualPrices) -> Prices | None:
        """Return prices as integers; None if costs would leave 64 bits."""
        m = self.arrays.tables
        most, nbytes = int(max(m.size.max(initial=1), m.workspace.max(initial=1))), sum(m.size.tolist())
        for fine in (self.fine >> bits for bits in range(self.fine.bit_length())):
            rent = np.rint(np.minimum(point.rent * (self.unit * fine), 2.0**60)).astype(np.int64)
            paid_by_byte = sum(rent.ravel().tolist())
            if paid_by_byte * most <= 2**61 and paid_by_byte * (nbytes + most) // fine <= 2**BITS:
                break
        else:
            return None
        near = np.floor(point.near * self.unit).astype(np.int64)
        share = self.unit - near - np.floor(point.beside * self.unit).astype(np.int64)
        longest = m.longest[self.op_of, None]
        beyond = np.floor(np.clip(point.take, -longest, longest) * self.unit).astype(np.int64)
        beyond = np.where(self.anywhere[:, None], np.minimum(beyond, 0), beyond)
        slot = (share[self.op_of, None] + near[self.op_of, None] * m.kept[:, None]) * m.slow
        take = slot + beyond
        # Where every mode wants an operand somewhere, one price more for all tiers changes nothing.
        middle = (take.min(axis=1) + take.max(axis=1))[:, None] // 2
        take = np.where(self.anywhere[:, None], take, take - middle)
        take = np.ascontiguousarray(np.clip(take, -self.unit * longest, self.unit * longest))
        return Prices(rent, _sums(rent), share, near, take, self.unit, fine)

    def limit(self, data: AutotmData) -> None:
        """Take the rooms of other rows: the best prices go on from there, bound and plan begin anew."""
        self.arrays = replace(self.arrays, data=data)
        self.rooms = self.arrays.empty().free
        self.world, self.cheapest = None, NEVER
        self.value, self.proved = None, Fraction(data.ideal)

    def evaluate(self, point: DualPrices) -> Fraction | None:
        """Return the value of the dual in ns, with the response of items and ops; None beyond 64 bits."""
        prices = self.prices(point)
        if prices is None:
            return None
        arrays = self.arrays
        total = respond(
            arrays.tables, prices, self.response, arrays.scratch, self.held, self.moved, self.taken
        )
        if total >= NEVER:
            return None
        rent, rooms = prices.rent.ravel().tolist(), self.rooms.ravel().tolist()
        paid = sum(price * room for price, room in zip(rent, rooms, strict=True) if price)
        return Fraction(total, self.unit) - Fraction(paid, self.unit * prices.fine)

    def begin(self) -> None:
        """Take the best of prices in proportion to the durations of ops."""
        full = np.maximum(self.arrays.tables.level, 1) / np.maximum(self.rooms, 1.0)
        for power in range(-12, 4):
            self.keep(self.best._replace(rent=full * 2.0**power))

    def keep(self, point: DualPrices) -> Fraction | None:
        """Return the value at a point, which is the best one from now on if that is higher."""
        value = self.evaluate(point)
        if value is not None and (self.value is None or value > self.value):
            self.best, self.value, self.proved = point, value, max(value, self.proved)
        return value

    def converge(self, context: Context) -> PriceMaster:
        """Raise the bound as far as prices go with the present sets of c; return the program behind them."""
        master = PriceMaster(self.arrays, self.op_of, self.anywhere, self.rooms, context)
        for world in (self.start(), self.world, None if self.keep(self.best) is None else self.response):
            if world is not None:
                master.add(world)
        while not context.expired and (found := master.solve()) is not None:
            value, dual = found
            fresh = 0
            for part in PARTS:
                mixed = (part * x + (1 - part) * y for x, y in zip(self.best, dual, strict=True))
                if self.keep(DualPrices(*mixed)) is not None:
                    fresh += master.add(self.response)
            if not fresh or (self.value is not None and value - self.value <= abs(value) * CLOSE):
                break
        return master

    def choose(self, master: PriceMaster, context: Context) -> None:
        """Look for a plan among the walks that prices have asked for."""
        world = master.choose(CHOOSING * context.remaining())
        if world is not None and settle(self.arrays.tables, world):
            self._improve(world, (0, 0), context)

    def plan(self, context: Context) -> None:
        """Look for a plan at the best prices."""
        if (world := self.start()) is not None:
            self._improve(world, (*WEIGHTS, 0, 0), context)

    def _improve(self, world: Locations, weights: tuple[int, ...], context: Context) -> None:
        """Give items better walks beside all others, with rents at these weights; keep what is better."""
        m, prices = self.arrays.tables, self.prices(self.best)
        order = np.argsort(-m.size, kind="stable")
        for weight in weights:
            if context.expired or prices is None:
                break
            improve(m, prices, world, self.arrays.scratch, order, weight)
        cost = duration(m, world)
        if cost < self.cheapest:
            self.world, self.cheapest = world, cost

    def start(self) -> Locations | None:
        """Return the world in which as little as possible is in limited tiers; None if it is not valid."""
        arrays, n = self.arrays, len(self.moving)
        rent = np.full((len(self.rooms), n), 1, np.int64)
        fine = 1 << max(0, (sum(arrays.tables.size.tolist()) * rent.size).bit_length() - BITS)
        free, zero = np.zeros_like(self.taken), np.zeros(n, np.int64)
        prices = Prices(rent, _sums(rent), zero, zero, free, 0, fine)
        world = arrays.empty()
        total = respond(arrays.tables, prices, world, arrays.scratch, self.held, self.moved, self.taken)
        world.tier[:] = 0
        return world if total < NEVER and settle(arrays.tables, world) else None

    def adopt(self) -> None:
        """Take the sets of c from the best plan."""
        world, m = self.world, self.arrays.tables
        if world is None:
            return
        operands = np.arange(len(self.op_of))
        m.kept[:] = m.slow[operands, world.tier] > 0
        m.core[:] = m.duration[world.mode]
        longest = (m.kept * m.slow.max(axis=1)).astype(float)
        m.level[:] = m.core + np.bincount(self.op_of, longest, len(m.core)).astype(np.int64)
        self.value = None

    def kept(self, most: int | None) -> Any:
        """Return by step of all points whether plans of at most so many ns may take it: others cost too much.

        A plan with a step costs at least the bound and how much more the item's best walk with it costs than
        its best walk, at the same prices.
        """
        arrays, m = self.arrays, self.arrays.tables
        first = np.concatenate([[0], np.cumsum(np.diff(m.step_first)[m.kind])]).astype(np.int64)
        excess = np.zeros(first[-1], np.int64)
        value, prices = self.evaluate(self.best), self.prices(self.best)
        if most is None or value is None or prices is None:
            return excess == 0
        spread(m, prices, arrays.scratch, first, excess)
        return excess <= math.floor((most - value) * self.unit)

    def steps(self, most: int | None) -> Steps:
        """Return the steps that plans of at most so many ns may take, by walk and point."""
        m, data = self.arrays.tables, self.arrays.data
        kept, at, allowed = self.kept(most).tolist(), 0, list[list[list[Transition]]]()
        kinds = iter(m.kind.tolist())
        for walk in data.walks:
            by_point = []
            for kind in itertools.islice(kinds, len(walk.points)):
                steps = self.arrays.steps[m.step_first[kind] : m.step_first[kind + 1]]
                by_point.append(
                    [step for step, keep in zip(steps, kept[at : at + len(steps)], strict=True) if keep]
                )
                at += len(steps)
            allowed.append(by_point if all(by_point) and not walk.fixed else [])
        return allowed

    def solution(self) -> tuple[list[Path], list[ModeData]] | None:
        """Return the paths and modes of the best plan."""
        return None if self.world is None else self.arrays.solution(self.world)


WEIGHTS = tuple(round(WEIGHT * 4 * 0.9**i) for i in range(28))


def _sums(rent: Any) -> Any:
    """Return by row the sum of the rents in front of each op; 0 behind the last one and its end."""
    paid = np.zeros((len(rent), rent.shape[1] + 2), np.int64)
    paid[:, 1:-1] = np.cumsum(rent, axis=1)
    return paid


def _ops_with_copies(m: AutotmTables) -> Any:
    """Return by op whether there may be copies beside it."""
    copies_at = np.zeros(len(m.level), bool)
    copies = np.cumsum(np.append(0, m.beside_hop >= 0))[m.step_first]
    copies_at[m.op[np.diff(copies)[m.kind] > 0]] = True
    return copies_at


def _anywhere(m: AutotmTables, op_of: Any) -> Any:
    """Return by operand whether some mode takes it from anywhere."""
    is_free = np.zeros(len(op_of), bool)
    for j, k in enumerate(op_of.tolist()):
        wanted = m.wanted[m.mode_first[k] : m.mode_first[k + 1], j - m.operand_first[k]]
        is_free[j] = bool((wanted < 0).any())
    return is_free
