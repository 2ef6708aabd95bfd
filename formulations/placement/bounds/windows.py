r"""Lower bounds on the stall of a placement in closed form: what must pass a channel within a window.

Of the ops and bytes of `sample_data` take an instant c of op k, and outer tiers X, the
*bottleneck*, such that each other outer tier has a capacity. Let :math:`R` be what the channels from X into
the fast memory carry together, bytes/s.

*Inward.* For an op j behind c let V be the bytes, beyond M and the capacities of the other tiers, of: what k
needs (the tensors that it accesses, its workspace), and the other tensors live at c whose next access is
by an op up to j. At instant c at most M of them are in the fast memory, and no more than their capacities in
the other tiers. So at least V of them are in X alone; those are not accessed by k, so the next access of each
is at an op up to j. Each passes a channel from X between c and the start of j, directly. With stalls of
:math:`\sigma` in between,

.. math:: V \le R\,(T_{2j} - T_c + \sigma), \qquad \sigma \ge V / R - (T_{2j} - T_c).

*Outward.* The same backwards, with the channels into X: of the other tensors count those whose current
version at c was written by op i or a later one; (an initial tensor that starts in the fast memory counts as
written at time 0). Each byte that is only in X at c was copied there behind the end of i, so
:math:`\sigma \ge V / R - (T_c - T_{2i+1})` for the stalls between the end of i and c.

Ops start and end at whole ns, so each of these stalls is rounded up. Those of windows that do not overlap add
up. For each c and X the best j and i are found by sorting the tensors by next access and by last write:
O(n T log T) for n ops and T tensors.

The window that reaches from one end of a single run to the other gives the usual bound, what exceeds memory
over the rate of the channel. Source: this suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....models.arrays import Integers
from ....models.units import SECOND
from .samples import SampleData

NEVER = 2**40
"""Op of an access or a write that there is not."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """Stall that is certain between two instants.

    Attributes
    ----------
    stall
        ns, rounded up; it may be negative: then the window proves nothing by itself.
    low, high
        Instants; `low` is one of the first iteration, or -1.
    instant
        That of the two at which the memory is too small; at the other one the last byte is needed, or the
        first one is there.
    tiers, rate
        The bottleneck and what its channels carry, bytes/s.
    outward
        Whether bytes leave the fast memory in the window.
    """

    stall: int
    low: int
    high: int
    instant: int
    tiers: tuple[int, ...]
    rate: int
    outward: bool


def windows(data: SampleData, expired: Callable[[], bool] = lambda: False, *, every: int = 1) -> list[Window]:
    """Return the best window for each instant, bottleneck and direction, by falling stall.

    Parameters
    ----------
    data
        Of the problem.
    expired
        Whether to leave out the instants that remain: each window is a bound by itself.
    every
        One in so many ops has windows.
    """
    forms = list(bottlenecks(data))
    chosen: list[Window] = []
    clock = np.array(data.clock, dtype=np.int64)
    for k, load, after, written in _states(data, every):
        if expired():
            break
        for outward, ops in ((False, after), (True, written)):
            bounded = [f for f in forms if f[1] == outward]
            order = np.argsort(-ops[0] if outward else ops[0], kind="stable")
            far, filled = ops[0][order], np.cumsum(ops[1][order])
            known = np.abs(far) < NEVER
            far, filled = far[known], filled[known]
            if not len(far) or not bounded:
                continue
            times = _times(data, clock, far + 1 if outward else far)
            for tiers, _, room, rate in bounded:
                excess = filled + (load - data.memory - room)
                for instant in (2 * k, 2 * k + 1):
                    spans = data.time(instant) - times if outward else times - data.time(instant)
                    best = int(np.argmax(excess / rate * SECOND - spans))
                    stall = -((rate * int(spans[best]) - int(excess[best]) * SECOND) // rate)
                    end = 2 * int(far[best]) + (1 if outward else 0)
                    chosen.append(_window(data, stall, instant, end, tiers, rate, outward))
    return sorted(chosen, key=lambda w: (-w.stall, w.low, w.high, w.tiers, w.outward))


def disjoint(found: Sequence[Window], data: SampleData, most: int = 400) -> list[Window]:
    """Return windows that do not overlap with nearly the greatest sum of stalls, of the best `most` ones."""
    stalling = [w for w in found if w.stall > 0][:most]
    around = 2 * len(data.duration)
    best = _chain([w for w in stalling if w.high <= around])
    for wrapped in [w for w in stalling if w.high > around][:40]:
        rest = [w for w in stalling if w.low >= wrapped.high - around and w.high <= wrapped.low]
        chain = [*_chain(rest), wrapped]
        if sum(w.stall for w in chain) > sum(w.stall for w in best):
            best = chain
    return best


def _window(
    data: SampleData, stall: int, instant: int, end: int, tiers: tuple[int, ...], rate: int, outward: bool
) -> Window:
    """Return a window between an instant and its other end, moved into the first iteration."""
    low, high = min(instant, end), max(instant, end)
    shift = low // (2 * len(data.duration)) * 2 * len(data.duration) if data.periodic else 0
    return Window(
        stall=stall,
        low=low - shift,
        high=high - shift,
        instant=instant - shift,
        tiers=tiers,
        rate=rate,
        outward=outward,
    )


def bottlenecks(data: SampleData) -> Iterator[tuple[tuple[int, ...], bool, int, int]]:
    """Yield each bottleneck and direction with the room in the other tiers and what its channels carry."""
    count = len(data.outer)
    for mask in range(1, 2**count):
        tiers = tuple(x for x in range(count) if mask >> x & 1)
        others = [data.outer[x].capacity for x in range(count) if not mask >> x & 1]
        for outward, joint in ((False, data.joint_in), (True, data.joint_out)):
            rate = sum(data.outer[x].out_rate if outward else data.outer[x].in_rate for x in tiers)
            rate = rate if joint is None else min(rate, joint)
            if rate and None not in others:
                yield tiers, outward, sum(c for c in others if c is not None), rate


def _states(data: SampleData, every: int) -> Iterator[tuple[int, int, Integers, Integers]]:
    """Yield for one in so many ops the bytes it needs, and of the other live tensors their ops and bytes.

    These are two arrays of two rows: next op that accesses it and bytes; op that wrote its version and bytes.
    """
    n = len(data.duration)
    tensors = data.counted
    size = np.array([data.size[t] for t in tensors], dtype=np.int64)
    span = np.array([data.live(t) for t in tensors], dtype=np.int64).reshape(-1, 2)
    used: list[list[int]] = [[] for _ in range(n)]
    for i, t in enumerate(tensors):
        for k in data.accesses[t]:
            used[k].append(i)
    following = np.array([data.accesses[t][0] for t in tensors], dtype=np.int64)
    version = np.array([_first_version(data, t) for t in tensors], dtype=np.int64)
    number = [0] * len(tensors)
    for k in range(n):
        for i in used[k]:
            t = tensors[i]
            number[i] += 1
            if number[i] < len(data.accesses[t]):
                following[i] = data.accesses[t][number[i]]
            else:
                following[i] = data.accesses[t][0] + n if data.cyclic[t] else NEVER
        if not k % every:
            here = np.array(used[k], dtype=np.int64)
            others = (span[:, 0] <= 2 * k) & (span[:, 1] >= 2 * k + 1)
            others[here] = False
            load = data.fixed[k] + int(size[here].sum())
            rest = size[others]
            yield k, load, np.stack((following[others], rest)), np.stack((version[others], rest))
        for i in used[k]:
            if k in data.writes[tensors[i]]:
                version[i] = k


def _first_version(data: SampleData, t: int) -> int:
    """Return the op that wrote the version of a tensor at the start; -1: time 0."""
    if data.cyclic[t]:
        return data.writes[t][-1] - len(data.duration) if data.writes[t] else -NEVER
    return -1 if data.initial[t] and data.start[t] == (0,) else -NEVER


def _times(data: SampleData, clock: Integers, ops: Integers) -> Integers:
    """Return the starts of ops without stalls; numbers below 0 and from n on are of other iterations."""
    whole, rest = np.divmod(ops, len(data.duration))
    times: Integers = clock[rest] + whole * clock[-1]
    return times


def _chain(some: Sequence[Window]) -> list[Window]:
    """Return windows one behind the other with the greatest sum of stalls."""
    ordered = sorted(some, key=lambda w: (w.high, w.low))
    ends = [w.high for w in ordered]
    best: list[tuple[int, int]] = [(0, -1)]  # sum of the first ones, and the last window of the chain
    before = [int(np.searchsorted(ends, w.low, side="right")) for w in ordered]
    for i, w in enumerate(ordered):
        value = best[before[i]][0] + w.stall
        best.append((value, i) if value > best[-1][0] else best[-1])
    chain = []
    i = best[-1][1]
    while i >= 0:
        chain.append(ordered[i])
        i = best[before[i]][1]
    return chain[::-1]
