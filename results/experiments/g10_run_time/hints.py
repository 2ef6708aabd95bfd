"""The hints of G10 as its artifact gives them to `run_time`: when tensors come, leave and are dropped.

Source: Zhang et al., G10, MICRO 2023, and its artifact (platformxlab/G10 at de2c8c6: src/analysis.cc,
``scheduling_prefetch``). The method `g10` has the same planner by the suite's own rates and rules; this one
keeps the artifact's, so that its run time meets the hints that it met there:

1. A line, as a rule 0.99 of the device. The load of op k is that of all tensors (the first one counted
   twice), but for intermediates outside the ops from the one in which their memory is asked for (0.814 us per
   MB before the op that creates them) to the last that reads them. The first tensor and, once no op is over
   the line, all later ones are not dropped at all.
2. An interval is a gap between uses of a tensor, of at least one op; weights have one round the iteration.
   Its benefit is bytes times the duration of those of its ops whose load is over the whole device (not the
   line), between the op in which half of it has left by the ledger of the slow channels and the one in which
   half of it must come. Round the iteration the sum has op j's load with op j - 1's duration. Ties: bytes
   times length.
3. While an op is over the line the best interval is taken, as often as there are intervals; one that was
   taken has no benefit, and if it is the best all the same, the planner ends. With m_s = 65 us + bytes / slow
   rate and m_h = 45 us + bytes / rate (a GB of both rates is 2**30 bytes): if longer than 2.5 m_s it goes to
   the slow tier, unless the ledger is full in every op from its start to the one in which m_s is over, that
   one excepted, and the host has room; else, if longer than 2.5 m_h, to the host, if that has room. It stays
   if it has one op, if no op in it is over the line, or if by the ledger it would return before it has left.
   A shorter one is not taken, and remains the best.
4. A copy fills the ledger from its first op on, the return from the op found backwards. Slow traffic books
   on the link as well; what the host's leaves of the link limits the slow channel's.
5. Returns by their op move ahead while the op before is below the line.

Equals are in the order in which ``std::sort`` leaves them (`order_kernel`): with no benefit left anywhere,
the planner goes on with whatever is first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from .memory_kernel import DEVICE, HOST, NOWHERE, SLOW
from .order_kernel import sort


class KnownUses(NamedTuple):
    """What the planner knows.

    Attributes
    ----------
    size, weight, uses, life
        By tensor: bytes, whether it outlives the iteration, ops, first op and the one behind the last.
    clock
        us at which ops begin by their durations alone; behind them, the end of the last.
    memory, host
        Bytes of device and host.
    line
        Bytes of the device that loads may reach.
    rate, slow_rate
        Of the link and of the slow tier, bytes per us.
    wait, slow_wait
        us of a migration besides its bytes.
    allocation
        us per byte of new memory.
    """

    size: Integers
    weight: NDArray[np.bool_]
    uses: list[list[int]]
    life: list[tuple[int, int]]
    clock: NDArray[np.float64]
    memory: int
    line: int
    host: int
    rate: float
    slow_rate: float
    wait: float
    slow_wait: float
    allocation: float


class Ledger:
    """Bytes that the slow channel and the link have left in each op, for one direction."""

    def __init__(self, work: KnownUses) -> None:
        took = np.diff(work.clock)
        self.slow, self.link = work.slow_rate * took, work.rate * took
        self.slow_left, self.link_left = self.slow.copy(), self.link.copy()

    def left(self, to: int) -> NDArray[np.float64]:
        """Return how many bytes the ops before each op have left."""
        return np.concatenate((np.zeros(1), np.cumsum(self.slow_left if to == SLOW else self.link_left)))

    def book(self, to: int, k: int, nbytes: float) -> None:
        """Book bytes from op k on."""
        left = self.slow_left if to == SLOW else self.link_left
        while nbytes > 0 and k < len(left):
            part = min(nbytes, left[k])
            nbytes -= part
            if to == SLOW:
                self.link_left[k] = max(self.link_left[k] - part, 0)
            elif nbytes > 0:
                self.slow_left[k] = 0
            else:
                beyond = max(self.slow[k] - (left[k] - part), 0)
                self.slow_left[k] = max(self.slow_left[k] - beyond, 0)
            left[k] -= part
            k += 1


def forwards(left: NDArray[np.float64], first: Integers, nbytes: Integers) -> Integers:
    """Return the op in which bytes that leave from op `first` on have left."""
    return np.minimum(np.searchsorted(left, left[first] + nbytes), len(left) - 1) - 1


def backwards(left: NDArray[np.float64], end: Integers, nbytes: Integers) -> Integers:
    """Return the op from which on bytes must come that are there before op `end`."""
    return np.maximum(np.searchsorted(left, left[end] - nbytes, side="right") - 1, 0)


def intervals_of(work: KnownUses) -> NDArray[np.int64]:
    """Return first op, end and tensor of every interval; an end past the iteration goes round."""
    n, found = len(work.clock) - 1, []
    for t, uses in enumerate(work.uses):
        if not work.weight[t]:
            uses = [k for k in uses if k < work.life[t][1]]
        found += [(a + 1, b, t) for a, b in pairwise(uses) if b > a + 1]
        if work.weight[t] and uses and uses[0] + n > uses[-1] + 1:
            found.append((uses[-1] + 1, uses[0] + n, t) if uses[-1] < n - 1 else (0, uses[0], t))
    return np.array(found, dtype=np.int64).reshape(-1, 3).T


def hints_of(work: KnownUses) -> list[tuple[int, int, int]]:
    """Return op, tensor and destination of every hint, by op; the op after the last is the first again."""
    n, line = len(work.clock) - 1, work.line
    load = np.full(n, work.size.sum() + work.size[0], dtype=np.int64)
    hints: list[tuple[int, int, int]] = []
    for t in range(1, len(work.size)):
        if load.max() <= line:
            break
        if work.weight[t]:
            continue
        born, dead = work.life[t]
        asked = work.clock[born] - work.size[t] * work.allocation
        at = max(int(np.searchsorted(work.clock, asked, side="right")) - 1, 0)
        hints += [(at, t, DEVICE), (dead, t, NOWHERE)]
        load[:at] -= work.size[t]
        load[dead:] -= work.size[t]
    return by_op(hints + absences(work, load))


def absences(work: KnownUses, load: Integers) -> list[tuple[int, int, int]]:
    """Return the hints of what leaves for a while, and comes back (rules 2 to 5)."""
    n, clock, line = len(load), work.clock, work.line
    first, end, of = intervals_of(work)
    size, took = work.size[of], np.diff(clock)
    around = end >= n
    length = np.where(around, clock[n] + clock[end - n * around], clock[end - n * around]) - clock[first]
    out, home = Ledger(work), Ledger(work)
    open_, on_host = np.ones(len(of), dtype=np.bool_), np.zeros(n, dtype=np.int64)
    order = np.arange(len(of))
    hints: list[tuple[int, int, int]] = []
    booked: list[tuple[int, int, int]] = []  # op of the return, op after the copy, tensor
    for _ in range(len(of)):
        if load.max() <= line:
            break
        over = load > work.memory
        above = np.concatenate((np.zeros(1), np.cumsum(np.where(over, took, 0))))
        shifted = np.where(over, np.concatenate((-clock[n:], took[:-1])), 0)
        wrapped = np.concatenate((np.zeros(1), np.cumsum(shifted)))
        low = forwards(out.left(SLOW), np.where(around, 0, first), size // 2)
        high = backwards(home.left(SLOW), np.where(around, 0, end), size // 2)
        inside = above[np.maximum(low, high)] - above[low]
        benefit = size * np.where(around, above[n] - above[first] + wrapped[end - n * around], inside) * open_
        g = first_of(order, benefit, size * length)
        if not open_[g]:
            break
        a, b, t, z = int(first[g]), int(end[g]), int(of[g]), int(size[g])
        slow_trip, host_trip = work.slow_wait + z / work.slow_rate, work.wait + z / work.rate
        room = on_host.max() <= work.host - z
        open_[g] = False
        if b - a == 1 or not (load[np.arange(a, b) % n] > line).any():
            continue
        if length[g] > 2.5 * slow_trip:
            to, trip = SLOW, slow_trip
            through = int(np.searchsorted(clock, clock[a] + trip, side="right")) - 1
            if not around[g] and room and not out.slow_left[a:through].any():
                to = HOST
        elif length[g] <= 2.5 * host_trip:
            open_[g] = True
            continue
        elif not room:
            continue
        else:
            to, trip = HOST, host_trip
        if around[g]:
            left = int(np.searchsorted(_twice(clock), clock[a] + trip, side="right")) - 1
            back = int(np.searchsorted(_twice(clock), clock[a] + length[g] - 1.5 * trip, side="right")) - 1
            if back != a:
                hints += [(a, t, to), (back % n, t, DEVICE)]
        else:
            left = int(forwards(out.left(to), np.array([a]), np.array([z]))[0])
            back = int(backwards(home.left(to), np.array([b]), np.array([z]))[0])
            if back > left:
                hints.append((a, t, to))
                booked.append((back, left, t))
                home.book(to, back, z)
                out.book(to, a, z)
            elif length[g] > 2.5 * slow_trip:
                continue
        if to == HOST:
            on_host[np.arange(a, b) % n] += z
        load[np.arange(left + 1, back) % n] -= z
    for back, left, t in by_op(booked):
        at = back
        while at > left + 1 and load[at - 1] < line:
            at -= 1
        hints.append((at, t, DEVICE))
        load[at:back] += work.size[t]
    return hints


def first_of(order: Integers, value: NDArray[np.float64], other: NDArray[np.float64]) -> int:
    """Sort an order by value, then by another value, as there; return the first."""
    sort(order, value.astype(float), other.astype(float), np.zeros(2 * len(order) + 2, dtype=np.int64))
    return int(order[0])


def by_op(some: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return hints by op, those of one op in the order that they have there."""
    order, keys = np.arange(len(some)), np.array([-1.0 - one[0] for one in some])
    if some:
        first_of(order, keys, np.zeros(len(some)))
    return [some[i] for i in order.tolist()]


def _twice(clock: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return when the ops of two iterations begin, and the last ends."""
    return np.concatenate((clock, clock[-1] + clock[1:]))
