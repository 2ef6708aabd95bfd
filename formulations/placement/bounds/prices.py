r"""The bound on the time of a placement that prices of memory and channels prove.

Take sample instants :math:`c_0 < \dots < c_{K-1}` of those of `sample_data`; epoch e is the time
from :math:`c_e` to the next sample, without stalls :math:`D_e` (cyclic if the problem is periodic; in a
single run the first sample is -1 and the last one has no epoch).

Prices, all non-negative, in ns per byte: :math:`\mu_e` of a byte in the fast memory at sample e;
:math:`\nu_{xe}` of one in outer tier x, if that has a capacity; :math:`\alpha_{ge}` of one that passes, in
epoch e, a channel of cap g (`SampleData.caps`: single channels and joint caps, of :math:`R_g` bytes/s); a
passage costs the sum over the caps of its channel. In an epoch with stalls
:math:`\sum_g R_g \alpha_{ge} \le 1`.

**Bound.** Let :math:`\pi_t` be the least that a byte of tensor t can pay for its states at the samples and
its passages in between, by rules 1 to 3 of `sample_data`. Then every plan stalls at least

.. math:: L = \sum_t z_t \pi_t - \sum_e \mu_e (M - w_e) - \sum_{x,e} \nu_{xe} C_x
              - \sum_{g,e} \alpha_{ge} R_g D_e

where :math:`w_e` is what is in the fast memory at sample e beside the tensors that count everywhere.

Of ops with several modes, :math:`w_e`, :math:`D_e` and the sum of the durations are those of the least
durations and workspaces. An op k whose mode m takes :math:`\delta_{km}` ns and :math:`\omega_{km}` bytes more
adds
:math:`\delta_{km} (1 - \sum_g \alpha_{ge} R_g) + \omega_{km} \sum \mu`, e being the epoch of its span and the
sum over the samples at its start and end. Every plan takes at least the sum of the durations, L, and over all
ops k what its cheapest mode adds, if that is above 0.

*Proof.* The bytes of a plan pay at least :math:`\sum_t z_t \pi_t`. At sample e at most :math:`M - w_e` of
them are in the fast memory, at most :math:`C_x` in tier x; in epoch e at most :math:`R_g (D_e + \sigma_e)`
pass the channels of g, with :math:`\sigma_e` the stall in it. So they pay at most
:math:`\sum_e \mu_e (M - w_e) + \sum \nu_{xe} C_x + \sum_{g,e} \alpha_{ge} R_g D_e + \sum_e \sigma_e
\sum_g R_g \alpha_{ge}`, and the last term is at most :math:`\sum_e \sigma_e`, because either there is no
stall in epoch e or its factor is at most 1. The durations that exceed the least ones are time of the plan and
of epoch e, the workspaces are in the memory at the samples of the op, which gives the terms of its mode; no
term is less than that of the cheapest mode, and an op may count with the least of both instead, and add
nothing. QED.

:math:`\pi_t` is a shortest path over the samples, with a node for each state (a non-empty set of tiers);
all tensors take their steps together. Within an epoch a byte may first move, then it is accessed, if an
access lies strictly inside, and a write leaves it in the fast memory only; then it may move again. (What it
does between two accesses of one epoch costs no less than doing nothing there and moving behind the last
one.) This is Lagrangian duality: any prices give a bound; good ones are the multipliers of the rows
of `samples_lp`, and a window of `windows` of stall :math:`\sigma` and bottleneck X with
rate R is the same as prices of :math:`1/R` on the fast memory and the other tiers at its instant and on the
channels of X within it.

Prices are integers over a power of two, and so is everything that is computed from them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np

from ....models.arrays import Integers
from ....models.units import SECOND
from .samples import SampleData
from .windows import Window

FAR = 2**61
"""Cost of what is impossible; prices are scaled so that all of them together stay below a half of it."""


LARGEST = 2**50
"""Sum of prices in ns per byte."""


@dataclass(frozen=True, kw_only=True)
class MemoryPrices:
    """Prices of memory and channels: integers, divided by 2**scale ns per byte.

    Attributes
    ----------
    samples
        Instants, ascending; those of a single run begin with -1.
    scale
        At least 0.
    memory
        Per sample.
    room
        Per outer tier and sample; 0 for tiers without a capacity.
    carried
        Per cap and epoch.
    """

    samples: tuple[int, ...]
    scale: int
    memory: tuple[int, ...]
    room: tuple[tuple[int, ...], ...]
    carried: tuple[tuple[int, ...], ...]


def priced(
    data: SampleData,
    samples: Sequence[int],
    memory: Sequence[float],
    room: Sequence[Sequence[float]],
    carried: Sequence[Sequence[float]],
) -> MemoryPrices:
    """Return prices near some numbers (ns per byte): non-negative, and no epoch's stall above its worth."""
    tables = [[max(0.0, float(p)) for p in row] for row in (memory, *room, *carried)]
    total = sum(map(sum, tables))
    if total > LARGEST:  # of a program without a solution, say: the same prices, but smaller
        tables = [[p / total * LARGEST for p in row] for row in tables]
        total = LARGEST
    scale = max(0, min(60, 58 - math.ceil(math.log2(total)))) if total > 0 else 0
    whole = [[int(p * 2**scale) for p in row] for row in tables]
    flows = whole[1 + len(room) :]
    for e, (_, waits) in enumerate(data.epochs(samples)):
        worth = sum(row[e] * cap.rate for row, cap in zip(flows, data.caps, strict=True))
        if waits and worth > SECOND << scale:
            for row in flows:
                row[e] = row[e] * (SECOND << scale) // worth
    return MemoryPrices(
        samples=tuple(samples),
        scale=scale,
        memory=tuple(whole[0]),
        room=tuple(map(tuple, whole[1 : 1 + len(room)])),
        carried=tuple(map(tuple, flows)),
    )


def window_prices(data: SampleData, chosen: Sequence[Window]) -> MemoryPrices:
    """Return the prices that say the same as some windows that do not overlap."""
    around = 2 * len(data.duration)

    def folded(instant: int) -> int:
        return instant % around if data.periodic else instant

    ends = {folded(end) for w in chosen for end in (w.low, w.high)}
    samples = sorted(ends | (set() if data.periodic else {-1}))
    count = len(samples)
    epochs = len(data.epochs(samples))
    place = {instant: e for e, instant in enumerate(samples)}
    memory = [0.0] * count
    room = [[0.0] * count for _ in data.outer]
    carried = [[0.0] * epochs for _ in data.caps]
    for w in chosen:
        price = SECOND / w.rate
        e = place[folded(w.instant)]
        memory[e] += price
        for x, tier in enumerate(data.outer):
            if x not in w.tiers and tier.capacity is not None:
                room[x][e] += price
        caps = [g for g, cap in enumerate(data.caps) if cap.outward == w.outward]
        joint = [g for g in caps if set(w.tiers) <= set(data.caps[g].tiers) and data.caps[g].rate == w.rate]
        single = [g for g in caps if len(data.caps[g].tiers) == 1 and set(data.caps[g].tiers) <= set(w.tiers)]
        e, instant = place[folded(w.low)], w.low
        while instant < w.high:
            for g in joint[:1] or single:
                carried[g][e] += price
            instant += (samples[(e + 1) % count] - samples[e]) % around or around
            e = (e + 1) % count
    return priced(data, samples, memory, room, carried)


def price_bound(data: SampleData, prices: MemoryPrices) -> int:
    """Return a lower bound on stall, and durations beyond the least, in ns, rounded up: at least 0.

    Raises
    ------
    ValueError
        If prices are negative or too large, or a stall is worth more than it costs.
    """
    samples, one = prices.samples, 1 << prices.scale
    epochs = data.epochs(samples)
    tables = (prices.memory, *prices.room, *prices.carried)
    if any(p < 0 for row in tables for p in row) or 2 * sum(map(sum, tables)) > FAR:
        raise ValueError("prices: found one below 0 or a sum that is too large")
    paid, worths = 0, list[int]()
    for e, (span, waits) in enumerate(epochs):
        worth = sum(row[e] * cap.rate for row, cap in zip(prices.carried, data.caps, strict=True))
        if waits and worth > SECOND * one:
            raise ValueError(f"prices: the stall of epoch {e} is worth more than it costs")
        paid += worth * span
        worths.append(worth)
    kept = sum(
        price * (data.memory - (data.fixed[c // 2] if c >= 0 else 0))
        for price, c in zip(prices.memory, samples, strict=True)
    )
    for tier, row in zip(data.outer, prices.room, strict=True):
        if tier.capacity is None:
            if any(row):
                raise ValueError("prices: found one of a tier without a capacity")
        else:
            kept += sum(row) * tier.capacity
    costs = _cheapest(data, prices)
    earned = sum(data.size[t] * int(cost) for t, cost in zip(data.counted, costs, strict=True))
    above = _modes_above(data, prices, worths)
    return max(0, -(-((earned - kept) * SECOND - paid + above) // (SECOND * one)))


def _modes_above(data: SampleData, prices: MemoryPrices, worths: Sequence[int]) -> int:
    """Return what the cheapest modes of all ops add, times 2**scale and SECOND."""
    rent, total = dict(zip(prices.samples, prices.memory, strict=True)), 0
    for k, modes in enumerate(data.modes):
        if (0, 0) in modes:
            continue
        e = bisect_right(prices.samples, 2 * k) - 1
        free = (SECOND << prices.scale) - (worths[e] if e < len(worths) else 0)
        here = SECOND * (rent.get(2 * k, 0) + rent.get(2 * k + 1, 0))
        total += max(0, min(ns * free + nbytes * here for ns, nbytes in modes))
    return total


def _cheapest(data: SampleData, prices: MemoryPrices) -> Integers:
    """Return per counted tensor the least that one of its bytes pays, times 2**scale."""
    samples, memory, room, carried = _from_the_start(data, prices)
    count = len(data.outer)
    states = range(1, 2 ** (count + 1))  # sets of tiers: bit 0 is the fast memory; state s in column s - 1
    tensors = data.counted
    starts = [_starts(data, t) for t in tensors]
    row = np.repeat(np.arange(len(tensors)), [len(some) for some in starts])
    cost = np.full((len(row), len(states)), FAR, dtype=np.int64)
    for r, free in enumerate(chain.from_iterable(starts)):
        cost[r, [s - 1 for s in free]] = 0
    result = np.full(len(row), FAR, dtype=np.int64)
    for e, (at_sample, behind) in enumerate(_events(data, samples, row)):
        _meet(cost, at_sample)
        due = [memory[e] * (s & 1) + sum(room[x][e] * (s >> x + 1 & 1) for x in range(count)) for s in states]
        cost = np.minimum(cost + np.array(due, dtype=np.int64), FAR)
        _end(cost, result, at_sample.dying)
        if e < len(carried[0]):
            moves = _moves(data, tuple(flow[e] for flow in carried))
            cost = _moved(cost, moves)
            if len(behind.touched):
                _meet(cost, behind)
                _end(cost, result, behind.dying)
                cost[behind.touched] = _moved(cost[behind.touched], moves)
    for r, free in enumerate(chain.from_iterable(starts)):
        if data.cyclic[tensors[row[r]]]:
            result[r] = cost[r, free[0] - 1]
        elif result[r] == FAR and cost[r].min() < FAR:  # lives to the end of a single run
            result[r] = cost[r].min()
        elif result[r] == FAR:  # is born behind the last sample
            result[r] = 0
    least = np.full(len(tensors), FAR, dtype=np.int64)
    np.minimum.at(least, row, result)
    return least


Table = tuple[tuple[int, ...], ...]


def _from_the_start(
    data: SampleData, prices: MemoryPrices
) -> tuple[tuple[int, ...], tuple[int, ...], Table, Table]:
    """Return samples and prices with a first sample at the start of a periodic problem's iteration."""
    if not data.periodic or prices.samples[0] == 0:
        return prices.samples, prices.memory, prices.room, prices.carried
    return (
        (0, *prices.samples),
        (0, *prices.memory),
        tuple((0, *row) for row in prices.room),
        tuple((row[-1], *row) for row in prices.carried),
    )


def _starts(data: SampleData, t: int) -> list[list[int]]:
    """Return which states cost nothing at first, row by row; a cyclic tensor has a row for each."""
    if data.cyclic[t]:
        return [[s] for s in range(1, 2 ** (len(data.outer) + 1))]
    if not data.initial[t]:
        return [[]]
    tiers = sum(1 << x for x in data.start[t])
    return [[s for s in range(1, 2 ** (len(data.outer) + 1)) if s & tiers == s]]


@dataclass(frozen=True, eq=False)
class _Meeting:
    """Rows whose tensors are born, accessed, written and accessed for the last time somewhere."""

    born: Integers
    touched: Integers
    written: Integers
    dying: Integers


def _events(data: SampleData, samples: Sequence[int], row: Integers) -> Iterator[tuple[_Meeting, _Meeting]]:
    """Yield per sample what happens there, and strictly between it and the next one."""
    lists: list[list[list[int]]] = [[[], [], [], []] for _ in range(2 * len(samples))]
    rows: list[list[int]] = [[] for _ in data.counted]
    for r, i in enumerate(row.tolist()):
        rows[i].append(r)
    for rows_of_tensor, t in zip(rows, data.counted, strict=True):
        first, last = data.live(t)
        written = set(data.writes[t])
        for k in data.accesses[t]:
            for instant in (2 * k, 2 * k + 1):
                e = bisect_right(samples, instant) - 1
                born, touched, renewed, dying = lists[2 * e + (samples[e] != instant)]
                touched += rows_of_tensor
                if instant == first and not data.cyclic[t]:
                    born += rows_of_tensor
                if instant % 2 and k in written:
                    renewed += rows_of_tensor
                if instant == last and not data.cyclic[t] and not data.final[t]:
                    dying += rows_of_tensor
    meetings = [_Meeting(*(np.unique(np.array(x, dtype=np.int64)) for x in four)) for four in lists]
    yield from zip(meetings[::2], meetings[1::2], strict=True)


def _meet(cost: Integers, meeting: _Meeting) -> None:
    """Carry out births, presence and new versions."""
    cost[meeting.born] = FAR
    cost[meeting.born, 0] = 0
    absent = np.arange(1, cost.shape[1], 2)
    cost[np.ix_(meeting.touched, absent)] = FAR
    least = cost[meeting.written].min(axis=1)
    cost[meeting.written] = FAR
    cost[meeting.written, 0] = least


def _end(cost: Integers, result: Integers, dying: Integers) -> None:
    """Keep the costs of those that end."""
    result[dying] = cost[dying].min(axis=1)
    cost[dying] = FAR


def _moves(data: SampleData, carried: tuple[int, ...]) -> Integers:
    """Return the least prices of moves from state to state within an epoch."""
    count = len(data.outer)
    out, back = (
        [
            sum(
                p
                for p, cap in zip(carried, data.caps, strict=True)
                if cap.outward == outward and x in cap.tiers
            )
            for x in range(count)
        ]
        for outward in (True, False)
    )
    size = 2 ** (count + 1)
    cost = [[0 if a & b == b else FAR for b in range(size)] for a in range(size)]
    for s in range(1, size):
        for x, tier in enumerate(data.outer):
            if s & 1 and tier.out_rate:
                cost[s][s | 2 << x] = min(cost[s][s | 2 << x], out[x])
            if s & 2 << x and tier.in_rate:
                cost[s][s | 1] = min(cost[s][s | 1], back[x])
    for via, a, b in product(range(1, size), repeat=3):
        cost[a][b] = min(cost[a][b], cost[a][via] + cost[via][b])
    return np.array([line[1:] for line in cost[1:]], dtype=np.int64)


def _moved(cost: Integers, moves: Integers) -> Integers:
    """Return the least costs behind moves."""
    best = np.full_like(cost, FAR)
    for s in range(cost.shape[1]):
        np.minimum(best, cost[:, s : s + 1] + moves[s], out=best)
    return best
