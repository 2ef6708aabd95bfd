r"""Prices of memory, channels and ways for questions with memory that ops use in place: a bound of all plans.

Notation of `lowtide.formulations.placement.in_place.data`. Ops k run one after another; :math:`b_k` is the
start of op k and :math:`e_k` the moment before its end. The *run* of op k lies between these two, the *stall*
0 before :math:`b_0`, the stall k + 1 between :math:`e_k` and the start of the next op, or the end.

*What a byte does.* In every plan each byte of an item is at each instant in the first tier, in the second one
or in both, with its current version:

1. An op that only reads it reads one and the same tier all the time (the verifier's rule): the byte is there
   at :math:`b_k` and :math:`e_k`. What an op writes is at both instants where it writes it and nowhere else.
   What it updates it reads at :math:`b_k` in the tier that the way says.
2. Between two instants a byte comes into a tier by passing the channel from the other one while it is there;
   it passes at one instant within its copy, since copies take constant rates. It leaves at any time.
3. At :math:`b_k` and at :math:`e_k` the bytes in the first tier and the workspace are at most its capacity M.
   (What is allocated there is more.)
4. What passes a channel in a run or a stall is at most its rate times the length of that.
5. The length of the run of op k is at least the time of its configuration: its mode's duration and
   :math:`l` of each operand that it takes from the second tier or writes there. (The verifier rounds up.)

*Prices*, in ns per byte: :math:`\mu_k, \mu'_k \ge 0` of a byte in the first tier at :math:`b_k, e_k`;
:math:`\alpha \ge 0` of a byte that passes a channel of R bytes/ns in a run or a stall, with
:math:`\sum R \alpha \le 1` over the two channels; :math:`\nu_{jw}`, of either sign, of a byte of operand j in
way w. Let :math:`\pi_i` be the least that a byte of item i can pay, by 1 and 2, and :math:`\phi_k = 1 - \sum
R \alpha \ge 0` for the run of op k.

**Bound.** Every plan takes at least

.. math:: \sum_i z_i \pi_i - M \sum_k (\mu_k + \mu'_k)
          + \sum_k \min_c \Bigl( \phi_k t_{kc} + (\mu_k + \mu'_k) w_{kc} - \sum_j z_j \nu_{j,w(c)} \Bigr)

over the configurations c of op k, of :math:`t_{kc}` ns and :math:`w_{kc}` bytes of workspace.

*Proof.* Let op k take configuration c, for :math:`\tau_k \ge t_{kc}` ns, and stall e last :math:`\sigma_e`.
All bytes of an operand go the configuration's way, so that the items pay at least :math:`\sum z \pi`; less
:math:`\sum z_j \nu_{j,w(c)}`, this is what they pay for memory and channels: by 3 at most :math:`\sum (\mu +
\mu')(M - w_{kc})`, and by 4 at most :math:`\sum_k (1 - \phi_k) \tau_k + \sum_e \sigma_e`. With
:math:`\sum \tau + \sum \sigma` = the time T, this gives :math:`\sum z \pi - \sum z \nu - M \sum (\mu + \mu')
+ \sum (\mu + \mu') w \le T - \sum \phi_k \tau_k`, and :math:`\phi_k \tau_k \ge \phi_k t_{kc}`. QED.

A period is the same: an item that goes on begins in the state in which it ends. Inputs that reappear may
begin in any state that their question allows, which is no more than plans can do. Latencies and the
capacity of the second tier only restrict. Small items are left out: with :math:`\nu = 0` what they pay is at
least 0. Of ops with many configurations room is not checked (`MOST_CONFIGURATIONS`); of most ops the time is
a sum over operands, and :math:`\nu` is :math:`\phi` times the part of each, which is the best choice then.

All of this is computed in integers: prices in fractions of a ns, times rounded down to 1/`GRAIN` ns. Prices
come from a linear program over the paths that prices have asked for so far (`master`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from ....formulations.placement.in_place.data import (
    FAR,
    MOST_CONFIGURATIONS,
    InPlaceData,
)
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .paths_kernel import NEVER, BytePath, PathItems, PathPrices, PathUsage, respond

GRAIN = 2**16
"""Parts of a ns in which times of configurations count."""

BITS = 58
"""Of the sum of all prices; a path pays each of them once at most, and stays below `NEVER`."""

BELOW = 1 - 2.0**-48
"""Of a stall's worth: rounding leaves it at most 1."""

MOST_NS = 2**44
"""Of all ops, and of copies of all tensors: 4.9 hours."""

SMALLEST = 2**20
"""Bytes: items below it, and below a 40,000th of the memory, count for nothing."""


@dataclass(frozen=True, eq=False)
class Linked:
    """An op whose configurations are more than a sum over its operands: by configuration.

    ``time`` in ns over `GRAIN`, ``workspace`` in bytes, the way of each operand.
    """

    time: list[int]
    workspace: list[int]
    ways: Any


@dataclass(frozen=True, eq=False)
class PricePoint:
    """Prices in ns per byte; ``link``: of an operand's way, beyond its part of the op's time, in ns."""

    begin: Any
    end: Any
    run: Any
    stall: Any
    link: Any

    def toward(self, other: PricePoint, part: float) -> PricePoint:
        """Return a point between this one and another."""
        mine, its = vars(self), vars(other)
        return PricePoint(**{key: mine[key] + part * (its[key] - mine[key]) for key in mine})


class InPlaceDual:
    """The dual of one question: evaluates prices; items are those that count.

    Attributes
    ----------
    base, least, part
        By op ns over `GRAIN` and bytes of workspace; by operand and way what it adds; of ops not in `linked`.
    linked
        By op.
    ways
        By operand and way, whether some configuration has it.
    """

    def __init__(self, data: InPlaceData, *, all_items: bool = False) -> None:
        least = min(SMALLEST, data.capacity // 40_000) if not all_items else 0
        items = tuple(item for item in data.items if item.nbytes >= max(1, least) or all_items)
        self.data = data = replace(data, items=items)
        self.items = item_arrays(data)
        self.counted = np.zeros(len(data.operands), bool)
        self.counted[self.items.use] = True
        self.op_of = np.array([x.op for x in data.operands])
        self.nbytes = np.array([x.nbytes for x in data.operands])
        self.base, self.least = np.zeros(data.n, np.int64), np.zeros(data.n, np.int64)
        self.part = np.zeros((len(data.operands), 3), np.int64)
        self.ways = np.zeros((len(data.operands), 3), bool)
        self.linked: dict[int, Linked] = {}
        self.possible = all(self._op(k) for k in range(data.n))
        n, z = data.n, np.zeros
        self.usage = PathUsage(
            z(n, np.int64),
            z(n, np.int64),
            z((n, 2), np.int64),
            z((n + 1, 2), np.int64),
            z(len(data.operands), np.int64),
        )
        self.path = empty_path(n)
        self.room = np.full(n, NEVER)
        self.costs = z(len(items), np.int64)
        self.prices: PathPrices | None = None
        self.rates = np.array([data.inward, data.outward]) / SECOND

    @property
    def ideal(self) -> int:
        """Ns that the fastest configurations of all ops take together, rounded up."""
        total = int(self.base.sum()) + sum(min(x.time) for x in self.linked.values())
        return -(-total // GRAIN)

    def _op(self, k: int) -> bool:
        """Note the configurations of an op; return whether it has one."""
        data = self.data
        first, some = data.first[k], data.of(k)
        if data.count(k) > MOST_CONFIGURATIONS:
            self.base[k] = min(ns for _, ns, _ in data.modes[k]) * GRAIN
            self.least[k] = min(work for _, _, work in data.modes[k])
            for j, x in enumerate(some, first):
                self.ways[j, list({w for ways in x.ways for w in ways})] = True
                self.part[j, FAR:] = int(x.slow * GRAIN)
            return bool(data.modes[k])
        found = list(data.configurations(k))
        if not found:
            return False
        times, ways = (
            [int(c.time * GRAIN) for c in found],
            np.array([c.ways for c in found]).reshape(len(found), -1),
        )
        base = min(times)
        for j in range(len(some)):
            for w in sorted({*ways[:, j].tolist()}):
                self.ways[first + j, w] = True
                self.part[first + j, w] = min(t for t, c in zip(times, ways, strict=True) if c[j] == w) - base
        sums = [int(self.part[np.arange(first, first + len(some)), c].sum()) for c in ways]
        over = max(base + s - t for s, t in zip(sums, times, strict=True))
        loss = max(t - base - s for s, t in zip(sums, times, strict=True)) + max(0, over)
        whole = sum(x.nbytes for x in some) + max(work for _, _, work in data.modes[k]) <= data.capacity
        if whole and loss <= base // 10**6 and len({c.workspace for c in found}) == 1:
            self.base[k], self.least[k] = base - max(0, over), found[0].workspace
        else:
            self.part[first : first + len(some)] = 0
            self.linked[k] = Linked(times, [c.workspace for c in found], ways)
        return True

    def point(self) -> PricePoint:
        """Return prices of 0."""
        n, z = self.data.n, np.zeros
        return PricePoint(z(n), z(n), z((n, 2)), z((n + 1, 2)), z((len(self.op_of), 3)))

    def _whole(self, point: PricePoint) -> tuple[PathPrices, int]:
        """Return prices as integers, divided by 2**bits ns."""
        shares = [np.clip(x, 0, None) * self.rates for x in (point.run, point.stall)]
        run, stall = (x * BELOW / np.maximum(1, x.sum(axis=1))[:, None] for x in shares)
        with np.errstate(divide="ignore", invalid="ignore"):
            run, stall = (np.where(self.rates > 0, x / self.rates, 0) for x in (run, stall))
        phi = 1 - (run * self.rates).sum(axis=1)
        way = phi[self.op_of][:, None] * self.part / GRAIN + point.link
        way = np.where(self.counted[:, None], way / np.maximum(1, self.nbytes)[:, None], 0)
        begin, end = np.clip(point.begin, 0, None), np.clip(point.end, 0, None)
        total = sum(float(x.sum()) for x in (begin, end, run, stall, np.abs(way).max(axis=1, initial=0)))
        bits = min(62, BITS - max(0, math.ceil(math.log2(max(total, 1e-9)))))
        whole = [np.floor(x * 2.0**bits).astype(np.int64) for x in (begin, end, run, stall, way)]
        for table in whole[2:4]:
            table[:, self.rates == 0] = NEVER
        whole[4][~self.ways] = NEVER
        clock = np.zeros(self.data.n + 1, np.int64)
        return PathPrices._make([*map(np.ascontiguousarray, whole), clock, clock[:2]]), bits

    def evaluate(self, point: PricePoint) -> Fraction | None:
        """Return the bound in ns, with what the items ask for in `usage`; None: an item has no path."""
        data = self.data
        self.prices, bits = prices, _ = self._whole(point)
        if not respond(self.items, prices, self.path, self.usage, self.room, self.costs):
            return None
        scale = SECOND * GRAIN
        total = sum(
            size * cost for size, cost in zip(self.items.size.tolist(), self.costs.tolist(), strict=True)
        )
        both = [a + b for a, b in zip(prices.begin.tolist(), prices.end.tolist(), strict=True)]
        total = (total - data.capacity * sum(both)) * scale
        rates = (data.inward, data.outward)
        run = [
            (SECOND << bits) - sum(r * a for r, a in zip(rates, row, strict=True) if r)
            for row in prices.run.tolist()
        ]
        stalls = (sum(r * a for r, a in zip(rates, row, strict=True) if r) for row in prices.stall.tolist())
        if min(run) < 0 or max(stalls) > SECOND << bits:
            raise ValueError("prices: a run or a stall is worth more than it costs")
        way, nbytes, part = prices.way.tolist(), self.nbytes.tolist(), self.part.tolist()
        ways, counted = self.ways.tolist(), self.counted.tolist()
        for k, phi in enumerate(run):
            first, last = data.first[k], data.first[k + 1]
            if k in self.linked:
                total += self._linked(self.linked[k], phi, both[k], first, way)
                continue
            total += phi * int(self.base[k]) + both[k] * int(self.least[k]) * scale
            for j in range(first, last):
                total += min(
                    phi * part[j][w] - (nbytes[j] * way[j][w] * scale if counted[j] else 0)
                    for w in range(3)
                    if ways[j][w]
                )
        return Fraction(total, scale << bits)

    def _linked(self, op: Linked, phi: int, memory: int, first: int, way: Any) -> int:
        scale = SECOND * GRAIN
        worth = [
            [
                self.data.operands[first + i].nbytes * way[first + i][w]
                if self.counted[first + i] and self.ways[first + i, w]
                else 0
                for w in range(3)
            ]
            for i in range(op.ways.shape[1])
        ]
        least: int = min(
            phi * time + scale * (memory * work - sum(worth[i][w] for i, w in enumerate(c)))
            for time, work, c in zip(op.time, op.workspace, op.ways.tolist(), strict=True)
        )
        return least


def beyond_prices(problem: Placement) -> str:
    """Return why these prices do not serve a problem."""
    machine, graph = problem.machine, problem.graph
    tiers, used = [t.name for t in machine.tiers], [a.tier for a in machine.processors[0].tiers]
    if len(tiers) != 2 or used != tiers:
        return f"found tiers {tiers}, of which ops use {used}, expected two, both used"
    if machine.processors[0].tiers[0].bytes_per_s is not None:
        return "found a processor that its first tier slows down, expected another"
    nbytes = sum(t.nbytes for t in graph.tensors)
    rates = [c.bytes_per_s for c in machine.channels] + [
        a.bytes_per_s or SECOND for a in machine.processors[0].tiers
    ]
    longest = sum(max(m.duration_ns for m in op.all_modes) for op in graph.ops)
    if nbytes * SECOND // min(rates) + longest >= MOST_NS:
        return f"found times of {longest} ns and {nbytes} bytes, which leave 64 bits"
    return ""


def item_arrays(data: InPlaceData) -> PathItems:
    """Return the items as arrays."""
    first = np.cumsum([0, *(len(item.uses) for item in data.items)])
    op = [x.op for x in data.operands]

    def states(starts: tuple[bool, bool]) -> int:
        near, far = starts
        return near + 2 * far + 4 * (near and far)

    def some(values: list[int]) -> Any:
        return np.array(values, np.int64)

    return PathItems(
        first=first.astype(np.int64),
        use=some([j for item in data.items for j in item.uses]),
        end=some([data.n if item.kept else op[item.uses[-1]] for item in data.items]),
        size=some([item.nbytes for item in data.items]),
        starts=some([states(item.starts) if item.initial else 0 for item in data.items]),
        cyclic=some([int(item.cyclic) for item in data.items]),
        op=some(op),
        role=some([int(x.role) for x in data.operands]),
    )


def empty_path(n: int) -> BytePath:
    """Return room for a path over so many ops."""
    ops = [np.zeros(n, np.int64) for _ in range(3)]
    by = [np.zeros((n, 3), np.int8) for _ in range(2)]
    return BytePath._make([*ops, np.zeros(4, np.int64), *by, np.zeros((3, 4), np.int64)])
