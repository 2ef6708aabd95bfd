r"""Prices of memory, channels and accesses where ops use a second tier in place: a bound of all plans.

Notation of `lowtide.formulations.placement.in_place.data`. Ops k run one after another; :math:`b_k` is the
start of op k and :math:`e_k` the moment before its end. The *run* of op k lies between these two, the *stall*
0 before :math:`b_0`, the stall k + 1 between :math:`e_k` and the start of the next op, or the end.

*The path of a byte.* In every plan each byte of a live range is at each instant in the first tier, in the
second one or in both, with its current contents:

1. An op that only reads it reads one and the same tier all the time (the verifier's rule): the byte is there
   at :math:`b_k` and :math:`e_k`. A byte that an op writes is at both instants where the op writes it and
   nowhere else. A byte that it updates it reads at :math:`b_k` in the tier that the access says.
2. Between two instants a byte comes into a tier only through the channel from the other one, while it is
   there; it passes at one instant within its copy, since copies take constant rates. It leaves at any time.
3. At :math:`b_k` and at :math:`e_k` the bytes in the first tier and the workspace are at most its capacity M.
   (What is allocated there is more.)
4. The bytes that pass a channel in a run or a stall are at most its rate times the length of that.
5. The length of the run of op k is at least the time of its configuration: its mode's duration, and for each
   operand that it reads or writes in the second tier the bytes over the processor's rate. (The verifier
   rounds up.)

*Prices*, in ns per byte: :math:`\mu_k, \mu'_k \ge 0` of a byte in the first tier at :math:`b_k, e_k`;
:math:`\alpha \ge 0` of a byte that passes a channel of R bytes/ns in a run or a stall, with
:math:`\sum R \alpha \le 1` over the two channels; :math:`\nu_{ja}`, of either sign, of a byte of operand j
with access a. Let :math:`z` be sizes in bytes, :math:`\pi_i` the least that a byte of live range i can pay,
by 1 and 2, and :math:`\phi_k = 1 - \sum R \alpha \ge 0` for the run of op k.

**Bound.** Every plan takes at least

.. math:: \sum_i z_i \pi_i - M \sum_k (\mu_k + \mu'_k)
          + \sum_k \min_c \Bigl( \phi_k t_{kc} + (\mu_k + \mu'_k) w_{kc} - \sum_j z_j \nu_{j,a(c)} \Bigr)

over the configurations c of op k, of :math:`t_{kc}` ns and :math:`w_{kc}` bytes of workspace.

*Proof.* Let op k have configuration c, for :math:`\tau_k \ge t_{kc}` ns (5), and stall e last
:math:`\sigma_e`. All bytes of an operand have the configuration's access to it. The live ranges pay at least
:math:`\sum z \pi`. Of what they pay, :math:`\sum z_j \nu_{j,a(c)}` is for accesses, and the rest for memory
and channels: by 3 at most :math:`\sum (\mu + \mu')(M - w_{kc})`, and by 4 at most :math:`\sum_k (1 - \phi_k)
\tau_k + \sum_e \sigma_e`. With :math:`\sum \tau + \sum \sigma` = the time T, this gives :math:`\sum z \pi -
\sum z \nu - M \sum (\mu + \mu') + \sum (\mu + \mu') w \le T - \sum \phi_k \tau_k`, and :math:`\phi_k \tau_k
\ge \phi_k t_{kc}`. QED.

*Periods.* The proof holds: a cyclic live range begins in the state in which it ends. Inputs that reappear
begin in any state that their question allows, as in plans.

*Left out*, which only lowers the bound: latencies and the capacity of the second tier; small live ranges
(with :math:`\nu = 0` they pay at least 0); the room of an op's configurations if it has many
(`MOST_CONFIGURATIONS`). Of most ops the time is a sum over operands; there :math:`\nu` is :math:`\phi` times
the part of each, which is the best choice.

All of this is computed in integers: prices in fractions of a ns, times rounded down to 1/`GRAIN` ns. Prices
come from a linear program over the paths that were the cheapest at earlier prices (`master`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from ....formulations.placement.in_place.data import FAR, InPlaceData
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context
from .paths_kernel import (
    NEVER,
    STEPS,
    BytePath,
    ColumnArrays,
    ColumnLayout,
    LiveRanges,
    PathPrices,
    respond,
)

GRAIN = 2**16
"""Times of configurations are in ns, divided by this."""

BITS = 58
"""Bits of the sum of all prices; a path pays each of them once at most, and stays below `NEVER`."""

BELOW = 1 - 2.0**-48
"""Largest sum of R alpha over the channels before rounding, which leaves it at most 1."""

MOST_NS = 2**44
"""Largest ns of all ops and copies of all tensors, 4.9 hours; times `GRAIN` they stay below `NEVER`."""

MOST_CONFIGURATIONS = 4096
"""Configurations of an op; if there are more, their room is not checked. Chosen by hand."""

SMALLEST = 2**20
"""Bytes; live ranges below it, and below 1/40,000 of the first tier, are left out. Chosen by hand."""


@dataclass(frozen=True, eq=False)
class LinkedOp:
    """The configurations of an op whose times are more than a sum over its operands.

    ``time``, in ns / `GRAIN`, ``workspace``, in bytes; ``accesses``, shape (configurations, operands).
    """

    time: list[int]
    workspace: list[int]
    accesses: Any


@dataclass(frozen=True, eq=False)
class PricePoint:
    """Prices in ns per byte, as in `PathPrices`; ``link``: in ns per operand, beyond its part of the time."""

    begin: Any
    end: Any
    run: Any
    stall: Any
    link: Any

    def toward(self, other: PricePoint, part: float) -> PricePoint:
        """Return the point at `part` of the way to another."""
        target = vars(other)
        return PricePoint(**{key: x + part * (target[key] - x) for key, x in vars(self).items()})


class InPlaceDual:
    """The bound of one question as a function of prices; `data.ranges` are the live ranges not left out.

    Attributes
    ----------
    numbers
        Their numbers among all live ranges.
    states
        The number of states before ops of all of them, with one behind the last op of each.
    possible
        Whether each op has a configuration.
    base, least
        By op not in `linked`, its time in ns / `GRAIN` without operands, and its bytes of workspace.
    part
        By operand and access, the time that it adds to these ops.
    linked
        By op, the configurations of the others.
    accesses
        By operand and access, whether some configuration has it.
    ns, unit
        Units of time and of memory in the columns of paths: ns, bytes.
    columns
        The columns of the cheapest paths at the last prices, by live range.
    """

    def __init__(self, data: InPlaceData, context: Context | None = None) -> None:
        least = max(1, min(SMALLEST, data.capacity // 40_000))
        self.numbers = [i for i, x in enumerate(data.ranges) if x.nbytes >= least]
        data = self.data = replace(data, ranges=tuple(data.ranges[i] for i in self.numbers))
        n, operands = data.n, len(data.operands)
        self.ranges = range_arrays(data)
        self.states = int((np.minimum(n, self.ranges.end + 1) - self.ranges.begin + 1).sum())
        self.counted = np.zeros(operands, bool)
        self.counted[self.ranges.use] = True
        self.nbytes = np.array([x.nbytes for x in data.operands], np.int64)
        self.base, self.least = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.part = np.zeros((operands, 3), np.int64)
        self.accesses = np.zeros((operands, 3), bool)
        self.linked: dict[int, LinkedOp] = {}
        self.possible = all(self._op(k, context is not None and context.expired) for k in range(n))
        self.ns, self.unit = max(1.0, float(self.ideal)) / 1e4, max(1.0, data.capacity / 100)
        self.rates = np.array([data.inward, data.outward]) / SECOND
        linked = np.isin(self.ranges.op, np.array(list(self.linked), np.int64))[:, None]
        linked = linked & self.counted[:, None] & self.accesses
        self.links = 2 * n + 2 * (2 * n + 1)
        self.chosen = self.links + int(linked.sum())
        self.layout = ColumnLayout(
            np.array([1 / self.unit, *(1 / x / self.ns if x else 0.0 for x in self.rates)]),
            self.part / GRAIN / self.ns,
            np.where(linked, self.links - 1 + np.cumsum(linked).reshape(linked.shape), -1),
            self.chosen,
        )
        entries, z = 6 * (STEPS + n + 2), np.zeros
        self.buffer = ColumnArrays(z(STEPS + 2, np.int64), z(STEPS + 1), z(entries, np.int64), z(entries))
        self.path = empty_path(n)
        self.room = np.full(n, NEVER)
        self.costs = z(len(data.ranges), np.int64)
        self.columns: list[tuple[float, Any, Any]] = []
        self.answered = False

    @property
    def ideal(self) -> int:
        """Ns that the fastest configurations of all ops take together, rounded up."""
        total = int(self.base.sum()) + sum(min(x.time) for x in self.linked.values())
        return -(-total // GRAIN)

    def _op(self, k: int, expired: bool) -> bool:
        """Note the configurations of an op, without checking room if `expired`; return whether it has one."""
        data = self.data
        first, last, modes = data.first[k], data.first[k + 1], data.modes[k]
        if expired or data.count_configurations(k) > MOST_CONFIGURATIONS:
            self.base[k] = min((ns for _, ns, _ in modes), default=0) * GRAIN
            self.least[k] = min((workspace for _, _, workspace in modes), default=0)
            for j, x in enumerate(data.operands_of(k), first):
                self.accesses[j, list({a for accesses in x.accesses for a in accesses})] = True
                self.part[j, FAR:] = data.slowdown(x.nbytes, GRAIN)
            return bool(modes)
        configurations = list(data.configurations(k))
        if not configurations:
            return False
        time = np.array([c.ns * GRAIN + data.slowdown(c.far, GRAIN) for c in configurations])
        accesses = np.array([c.accesses for c in configurations], np.int64).reshape(len(time), last - first)
        workspace = [c.workspace for c in configurations]
        for j in range(first, last):
            for a in set(accesses[:, j - first].tolist()):
                self.accesses[j, a] = True
                self.part[j, a] = time[accesses[:, j - first] == a].min() - time.min()
        excess = time.min() + self.part[np.arange(first, last), accesses].sum(axis=1) - time
        over = max(0, int(excess.max()))  # is taken off the base: the sum is then at most the time
        roomy = int(self.nbytes[first:last].sum()) + max(w for _, _, w in modes) <= data.capacity
        if roomy and over - excess.min() <= time.min() // 10**6 and len(set(workspace)) == 1:
            self.base[k], self.least[k] = time.min() - over, workspace[0]
        else:
            self.part[first:last] = 0
            self.linked[k] = LinkedOp(time.tolist(), workspace, accesses)
        return True

    def point(self) -> PricePoint:
        """Return prices of 0."""
        n, z = self.data.n, np.zeros
        return PricePoint(z(n), z(n), z((n, 2)), z((n + 1, 2)), z(self.part.shape))

    def priced(self, price: Any) -> PricePoint:
        """Return the prices that values of the rows of `master` are; of rows of either sign by their sign."""
        n, rows = self.data.n, self.layout.link
        begin, end = price[: 2 * n].reshape(2, n) * (self.ns / self.unit)
        with np.errstate(divide="ignore", invalid="ignore"):
            carried = price[2 * n : self.links].reshape(2, 2 * n + 1).T / self.rates
        carried = np.where(self.rates > 0, carried, 0)
        return PricePoint(begin, end, carried[:n], carried[n:], np.where(rows >= 0, price[rows] * self.ns, 0))

    def integers(self, point: PricePoint) -> tuple[PathPrices, int]:
        """Return prices as integers, in ns / 2**bits, and these bits."""
        shares = [np.clip(x, 0, None) * self.rates for x in (point.run, point.stall)]
        run, stall = (x * BELOW / np.maximum(1, x.sum(axis=1))[:, None] for x in shares)
        phi = 1 - run.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            run, stall = (np.where(self.rates > 0, x / self.rates, 0) for x in (run, stall))
        access = phi[self.ranges.op][:, None] * self.part / GRAIN + point.link
        access = np.where(self.counted[:, None], access / np.maximum(1, self.nbytes)[:, None], 0)
        begin, end = np.clip(point.begin, 0, None), np.clip(point.end, 0, None)
        total = sum(float(x.sum()) for x in (begin, end, run, stall, np.abs(access).max(axis=1, initial=0)))
        bits = BITS - max(0, math.ceil(math.log2(max(total, 1.0))))
        prices = [
            np.floor(x * 2.0**bits).astype(np.int64, order="C") for x in (begin, end, run, stall, access)
        ]
        for table in prices[2:4]:
            table[:, self.rates == 0] = NEVER
        prices[4][~self.accesses] = NEVER
        clock, copy = np.zeros(self.data.n + 1, np.int64), np.zeros((0, 2), np.int64)
        return PathPrices._make([*prices, clock, copy]), bits

    def respond(
        self, prices: PathPrices, context: Context | None
    ) -> Iterator[tuple[int, Any, Any, Any, Any]]:
        """Write costs of cheapest paths to `costs`; yield the first range of a batch, and its `ColumnArrays`.

        They are overwritten by the next batch. `answered` is then whether each range has a path, in time.
        """
        i, buffer, self.answered = 0, self.buffer, False
        while i < len(self.costs):
            if context is not None and context.expired:
                return
            begin = i
            i = respond(self.ranges, prices, self.path, self.layout, buffer, i, self.room, self.costs)
            if i < 0:
                return
            first = buffer.first[: i - begin + 1]
            yield begin, first, buffer.cost[: i - begin], buffer.row[: first[-1]], buffer.value[: first[-1]]
        self.answered = True

    def _find_paths(self, prices: PathPrices, context: Context | None) -> bool:
        """Write the cheapest paths to `costs` and `columns`; return whether each range has one, in time."""
        self.columns = []
        for _, first, costs, rows, values in self.respond(prices, context):
            rows, values = rows.copy(), values.copy()
            self.columns += [
                (cost, rows[a:b], values[a:b])
                for cost, (a, b) in zip(costs.tolist(), pairwise(first.tolist()), strict=True)
            ]
        return self.answered

    def evaluate(self, point: PricePoint, context: Context | None = None) -> Fraction | None:
        """Return the bound in ns; None if a range has no path, or the time expired."""
        data = self.data
        prices, bits = self.integers(point)
        if not self._find_paths(prices, context):
            return None
        scale = SECOND * GRAIN
        memory = (prices.begin + prices.end).tolist()
        paid = sum(
            size * cost for size, cost in zip(self.ranges.size.tolist(), self.costs.tolist(), strict=True)
        )
        total = (paid - data.capacity * sum(memory)) * scale
        rates = (data.inward, data.outward)
        run, stall = (
            [(SECOND << bits) - sum(r * a for r, a in zip(rates, row, strict=True) if r) for row in table]
            for table in (prices.run.tolist(), prices.stall.tolist())
        )
        if min(*run, *stall) < 0:
            raise ValueError("prices: found a run or a stall that is worth more than its length")
        access, nbytes = prices.access.tolist(), np.where(self.counted, self.nbytes, 0).tolist()
        part, accesses = self.part.tolist(), self.accesses.tolist()
        for k, phi in enumerate(run):
            if context is not None and context.expired:
                return None
            first, operands = data.first[k], range(data.first[k], data.first[k + 1])
            worth = {
                (j, a): nbytes[j] * access[j][a] * scale for j in operands for a in range(3) if accesses[j][a]
            }
            if k in self.linked:
                op = self.linked[k]
                total += min(
                    phi * time + scale * memory[k] * work - sum(map(worth.__getitem__, enumerate(c, first)))
                    for time, work, c in zip(op.time, op.workspace, op.accesses.tolist(), strict=True)
                )
            else:
                total += phi * int(self.base[k]) + memory[k] * int(self.least[k]) * scale
                for j in operands:
                    total += min(phi * part[j][a] - worth[j, a] for a in range(3) if accesses[j][a])
        return Fraction(total, scale << bits)


def beyond_prices(problem: Placement) -> str:
    """Return why these prices do not support a problem; empty if they do."""
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
        return f"found times of {longest} ns and {nbytes} bytes, which exceed 64 bits"
    return ""


def range_arrays(data: InPlaceData) -> LiveRanges:
    """Return the live ranges as arrays."""
    n, ranges, op = data.n, data.ranges, np.array([x.op for x in data.operands], np.int64)
    begin = np.array([0 if x.initial else op[x.uses[0]] for x in ranges], np.int64)
    end = np.array([n if x.kept else op[x.uses[-1]] for x in ranges], np.int64)
    states = [x.starts[0] + 2 * x.starts[1] + 4 * all(x.starts) if x.initial else 0 for x in ranges]
    lengths = np.minimum(n - 1, end) - begin + 2
    return LiveRanges(
        first=np.cumsum([0, *(len(x.uses) for x in ranges)]),
        use=np.array([j for x in ranges for j in x.uses], np.int64),
        begin=begin,
        end=end,
        size=np.array([x.nbytes for x in ranges], np.int64),
        starts=np.array(states, np.int64),
        cyclic=np.array([x.cyclic for x in ranges], np.int64),
        base=np.cumsum(lengths) - lengths - begin,
        op=op,
        role=np.array([x.role for x in data.operands], np.int64),
    )


def empty_path(n: int) -> BytePath:
    """Return the arrays of a path over n ops."""
    during, before, after = (np.zeros(size, np.int64) for size in (n, n + 1, n + 1))
    return BytePath(during, before, after, np.zeros((n, 3), np.int8), np.zeros((n + 1, 3), np.int8))
