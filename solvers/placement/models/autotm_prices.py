r"""Prices for AutoTM's model: a bound of its optimum that is proved, and plans that they lead to.

Notation of `autotm_milp`. Items meet only in its constraints 3, 4, 5 and 6. Let op k have a length
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
:math:`\lambda_{rk} \ge 0` of a byte of row r at op k add :math:`\lambda_{rk}` times (bytes in use
:math:`- M_r`), at most 0. Prices :math:`\nu_{kti}` of operand t in tier i add :math:`\nu_{kti}` times (steps
that use it there :math:`-` modes that want it there): 0 if each mode of k wants t in some tier; if not, there
is no such price. What is left is a sum of independent minima, each found exactly: of the walks of each item,
by dynamic programming over its points, and of the modes of each op. That sum, less
:math:`\sum \lambda_{rk} M_r`, is a bound :math:`L` of all plans of the form, whatever the
prices: the Lagrangian dual.

All of this is done in integers. Prices are multiples of 1 / ``unit`` ns, rents of a byte of
1 / (``unit`` ``fine``) ns; a rent, a workspace's rent and :math:`l_{ts}` are rounded down. Plans take whole
ns, so :math:`\lceil L \rceil` is the bound.

:math:`L` rises by subgradient steps (Polyak's, towards the best plan, with momentum; each coordinate in
its own unit; each time that it has not risen for a while, shorter ones from the best prices). Sets
:math:`K_k` and :math:`c_k` are those of the best plan so far: there c is an equation, so that these prices
cost nothing where the plan is right. Plans: from the one that leaves as little as possible in limited tiers,
items get, one after the other, their best walk beside all others, with the true slots, modes and rooms, and
with rents at first higher and then ever lower than the prices, so that those enter first that gain most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ....formulations.placement.autotm_data import AutotmData, ModeData
from ....formulations.placement.autotm_milp import Path, Steps
from ....formulations.placement.autotm_steps import Step
from .autotm_arrays import Prices, Tables, World
from .autotm_kernel import NEVER, duration, improve, respond, settle, spread
from .autotm_tables import arrays_of

BITS = 59
"""Of the sum of all times, and of that of all rents, in fractions of a ns: see the kernel."""

WEIGHT = 256
"""Of rents when they are the prices, see the kernel."""

AIM = 1.25
"""How far above the best bound steps aim at most, while no plan or a poor one is known."""

PATIENCE = 30
"""Steps without a rise after which they become shorter."""


class Point(NamedTuple):
    """Prices: of a byte by row and op, and by op the shares of a and c in the bound of its slot."""

    rent: Any
    beside: Any
    near: Any


class Dual:
    """The dual of one model: its best prices and bound, and the best plan so far as a world of items."""

    def __init__(self, data: AutotmData) -> None:
        self.arrays = arrays_of(data)
        m, n = self.arrays.tables, data.n
        self.op_of = np.repeat(np.arange(n), np.diff(m.operand_first))
        self.rooms = self.arrays.empty().free
        self.moving = _ops_with_copies(m)
        self.longer = _longer_modes(m, self.op_of)
        self.own = np.zeros(len(self.op_of), np.int64)
        self.world: World | None = None
        self.cheapest = NEVER
        self.response = self.arrays.empty()
        self.held = np.zeros((len(data.rows), n + 1), np.int64)
        self.moved = np.zeros((3, n), np.int64)
        self.taken = np.zeros(m.slow.shape, np.int64)
        self.unit = 1 << min(16, BITS - self.arrays.most.bit_length())
        self.fine = 1 << max(0, BITS + 1 - self.unit.bit_length() - data.ideal.bit_length())
        self.best = Point(np.zeros(self.rooms.shape), np.zeros(n), np.where(self.moving, 0.5, 0.0))
        self.value: Fraction | None = None
        self.proved = Fraction(data.ideal)
        self.begin()

    @property
    def bound(self) -> int:
        """Ns that no plan of the form beats."""
        return math.ceil(self.proved)

    def prices(self, point: Point) -> Prices | None:
        """Return prices as integers; None if costs would leave 64 bits."""
        m = self.arrays.tables
        rent = np.rint(np.minimum(point.rent * (self.unit * self.fine), 2.0**60)).astype(np.int64)
        paid_by_byte = sum(rent.ravel().tolist())
        most, nbytes = int(max(m.size.max(initial=1), m.workspace.max(initial=1))), sum(m.size.tolist())
        if paid_by_byte * most > 2**61 or paid_by_byte * (nbytes + most) // self.fine > 2**BITS:
            return None
        near = np.floor(point.near * self.unit).astype(np.int64)
        share = self.unit - near - np.floor(point.beside * self.unit).astype(np.int64)
        all_of, own = share[self.op_of, None], near[self.op_of, None]
        take = all_of * (m.slow + self.longer) + own * (
            m.kept[:, None] * m.slow + self.own[:, None] * self.longer
        )
        return Prices(rent, _sums(rent), share, near, np.ascontiguousarray(take), self.unit, self.fine)

    def evaluate(self, point: Point) -> Fraction | None:
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
        return Fraction(total, self.unit) - Fraction(paid, self.unit * self.fine)

    def begin(self) -> None:
        """Take the best of prices in proportion to the durations of ops."""
        full = np.maximum(self.arrays.tables.level, 1) / np.maximum(self.rooms, 1.0)
        for power in range(-12, 4):
            self.keep(self.best._replace(rent=full * 2.0**power))

    def keep(self, point: Point) -> Fraction | None:
        """Return the value at a point, which is the best one from now on if that is higher."""
        value = self.evaluate(point)
        if value is not None and (self.value is None or value > self.value):
            self.best, self.value, self.proved = point, value, max(value, self.proved)
        return value

    def slope(self) -> Point:
        """Return the subgradient at the prices of the last response."""
        m, n, mode = self.arrays.tables, len(self.moving), self.response.mode
        slow = m.slow[np.arange(len(self.op_of)), self.response.tier]
        lengths = m.duration[mode] + np.bincount(self.op_of, weights=slow, minlength=n)
        near = np.minimum(m.duration[mode], m.core) + np.bincount(self.op_of, m.kept * slow, n)
        rest = lengths + self.moved[2]
        beside = np.where(self.moving, self.moved[0] - rest, 0.0)
        return Point(
            self.held[:, :n] - self.rooms, beside, np.where(self.moving, near + self.moved[1] - rest, 0.0)
        )

    def ascend(self, steps: int, length: float, shorter: float, expired: Callable[[], bool]) -> float:
        """Take subgradient steps from the best prices; return the length of the last ones."""
        m, ideal = self.arrays.tables, self.arrays.data.ideal
        typical = max(1.0, float(m.duration.mean()))
        per_byte = typical / np.maximum(self.rooms, 1.0) ** 2
        point, momentum, waited = self.best, None, 0
        for _ in range(steps):
            if expired():
                return length
            before, value = self.value, self.keep(point)
            if self.value is None:
                return length
            rises = before is None or self.value - before > abs(before) / 10**6
            waited = 0 if rises else waited + 1
            target = min(Fraction(self.cheapest), Fraction(AIM) * max(self.value, Fraction(ideal)))
            if value is None or waited > PATIENCE or self.value - value > 2 * (target - self.value):
                point, momentum, waited, length = self.best, None, 0, length * shorter
                continue
            slope = self.slope()
            if momentum is not None:
                slope = Point(*(0.7 * old + 0.3 * new for old, new in zip(momentum, slope, strict=True)))
            momentum = slope
            per_ns = 1 / np.maximum(np.maximum(slope.beside, m.level), 0.1 * typical)
            weights = Point(per_byte, per_ns, per_ns)
            ways = [np.where((x <= 0) & (g < 0), 0, g) for x, g in zip(point, slope, strict=True)]
            norm = sum(float((g * g * w).sum()) for g, w in zip(ways, weights, strict=True))
            missing = float(target - value)
            if norm <= 0 or missing <= 0:
                return length
            rent, beside, near = (
                x + length * missing / norm * g * w for x, g, w in zip(point, ways, weights, strict=True)
            )
            point = Point(np.maximum(rent, 0), *_simplex(beside, near))
        return length

    def plan(self, expired: Callable[[], bool]) -> bool:
        """Look for a plan at the best prices; return whether it is better than the best so far."""
        arrays, m = self.arrays, self.arrays.tables
        prices = self.prices(self.best)
        world = self.start()
        if world is None or prices is None:
            return False
        order = np.argsort(-m.size, kind="stable")
        for weight in (*WEIGHTS, 0, 0):
            if expired():
                break
            improve(m, prices, world, arrays.scratch, order, weight)
        cost = duration(m, world)
        better = bool(cost < self.cheapest)
        if better:
            self.world, self.cheapest = world, cost
        return better

    def start(self) -> World | None:
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
        self.own[:] = m.wanted[world.mode[self.op_of], operands - m.operand_first[self.op_of]] > 0
        free = self.moving & (self.best.beside == 0)
        near = np.where(free, np.maximum(self.best.near, 0.5), self.best.near)
        self.best = self.best._replace(near=near)
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
        kept, at, found = self.kept(most).tolist(), 0, list[list[list[Step]]]()
        kinds = iter(m.kind.tolist())
        for walk in data.walks:
            some = []
            for kind in itertools.islice(kinds, len(walk.points)):
                steps = self.arrays.steps[m.step_first[kind] : m.step_first[kind + 1]]
                some.append(
                    [step for step, keep in zip(steps, kept[at : at + len(steps)], strict=True) if keep]
                )
                at += len(steps)
            found.append(some if all(some) and not walk.fixed else [])
        return found

    def solution(self) -> tuple[list[Path], list[ModeData]] | None:
        """Return the paths and modes of the best plan."""
        return None if self.world is None else self.arrays.solution(self.world)


WEIGHTS = tuple(round(WEIGHT * 4 * 0.9**i) for i in range(28))


def _sums(rent: Any) -> Any:
    """Return by row the sum of the rents in front of each op; 0 behind the last one and its end."""
    paid = np.zeros((len(rent), rent.shape[1] + 2), np.int64)
    paid[:, 1:-1] = np.cumsum(rent, axis=1)
    return paid


def _simplex(beside: Any, near: Any) -> tuple[Any, Any]:
    """Return the nearest pairs without negative parts and of sum 1 at most."""
    beside, near = np.maximum(beside, 0), np.maximum(near, 0)
    over = np.maximum(0, beside + near - 1) / 2
    beside, near = beside - over, near - over
    beside, near = np.where(near < 0, beside + near, beside), np.where(beside < 0, near + beside, near)
    return np.clip(beside, 0, 1), np.clip(near, 0, 1)


def _ops_with_copies(m: Tables) -> Any:
    """Return by op whether there may be copies beside it."""
    found = np.zeros(len(m.level), bool)
    copies = np.cumsum(np.append(0, m.beside_hop >= 0))[m.step_first]
    found[m.op[np.diff(copies)[m.kind] > 0]] = True
    return found


def _longer_modes(m: Tables, op_of: Any) -> Any:
    """Return by operand and tier how much longer the mode is that differs from the shortest only there."""
    longer = np.zeros_like(m.slow)
    for j, k in enumerate(op_of.tolist()):
        first, last = m.mode_first[k], m.mode_first[k + 1]
        i = j - m.operand_first[k]
        wanted = m.wanted[first:last]
        if last - first < 2 or (wanted[:, i] < 0).any():
            continue
        shortest = int(np.argmin(m.duration[first:last]))
        others = np.delete(wanted, i, axis=1)
        alike = np.flatnonzero((others == others[shortest]).all(axis=1))
        for mode in alike.tolist():
            longer[j, wanted[mode, i]] = m.duration[first + mode] - m.duration[first + shortest]
    return longer
