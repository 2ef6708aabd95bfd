"""Placing buffers as an allocator at run time would: in the order of their starts, into free addresses.

Only what is alive at the time matters, so one pass over the starts and ends is enough: 100,000 buffers take
some tenths of a second. Run backwards in time, it is another heuristic.
"""

from __future__ import annotations

import numpy as np

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers
from ..engines.kernels import inner, kernel


def place_as_they_come(data: OffsetsData, *, best_fit: bool = False, backwards: bool = False) -> Integers:
    """Return offsets in units.

    Of buffers that start in one section the largest comes first. Gaps and in-place pairs are not made use
    of, and the addresses of fixed buffers not at other times.

    Parameters
    ----------
    best_fit
        Take the tightest free range instead of the lowest.
    backwards
        Begin at the end of time.
    """
    begin, end = (-data.last, -data.first) if backwards else (data.first, data.last)
    arrivals = np.lexsort((data.first - data.last, -data.size, begin))
    leaving = np.argsort(end, kind="stable")
    taken = np.lexsort((data.size, data.fixed))
    taken = taken[data.fixed[taken] >= 0]
    offsets: Integers = place_in_turn(
        arrivals, leaving, begin, end, data.size, data.alignment, data.fixed, taken, best_fit
    )
    return offsets


@kernel
def place_in_turn(
    arrivals: Integers,
    leaving: Integers,
    begins: Integers,
    ends: Integers,
    sizes: Integers,
    alignments: Integers,
    fixed: Integers,
    taken: Integers,
    best_fit: bool,
) -> Integers:
    """Return offsets; the free ranges are disjoint, do not touch, and the last one has no end."""
    offsets = fixed.copy()
    lows = np.zeros(len(sizes) + 2, np.int64)
    highs = np.full(len(sizes) + 2, 2**62)
    count = 1
    for j in taken:
        end = fixed[j] + sizes[j]
        if end > lows[count - 1]:
            count = cut(lows, highs, count, count - 1, max(fixed[j], lows[count - 1]), end)
    gone = 0
    for i in arrivals:
        if fixed[i] >= 0:
            continue
        while ends[leaving[gone]] <= begins[i]:
            j = leaving[gone]
            gone += 1
            if fixed[j] < 0:
                count = release(lows, highs, count, offsets[j], offsets[j] + sizes[j])
        a = alignments[i]
        chosen, least = count - 1, 2**62
        for k in range(count - 1):
            room = highs[k] - lows[k]
            if sizes[i] <= room < least and -(-lows[k] // a) * a + sizes[i] <= highs[k]:
                chosen, least = k, room
                if not best_fit:
                    break
        low = -(-lows[chosen] // a) * a
        offsets[i] = low
        count = cut(lows, highs, count, chosen, low, low + sizes[i])
    return offsets


@inner
def cut(lows: Integers, highs: Integers, count: int, k: int, low: int, high: int) -> int:
    """Take ``[low, high)`` out of range number `k`; return how many ranges are free."""
    before, behind = lows[k], highs[k]
    left, right = before < low, high < behind
    if left and right:
        for x in range(count, k + 1, -1):
            lows[x], highs[x] = lows[x - 1], highs[x - 1]
        highs[k], lows[k + 1], highs[k + 1] = low, high, behind
        return count + 1
    if left or right:
        lows[k], highs[k] = (before, low) if left else (high, behind)
        return count
    for x in range(k, count - 1):
        lows[x], highs[x] = lows[x + 1], highs[x + 1]
    return count - 1


@inner
def release(lows: Integers, highs: Integers, count: int, low: int, high: int) -> int:
    """Make ``[low, high)`` free; return how many ranges are."""
    k = count
    while k > 0 and lows[k - 1] > low:
        k -= 1
    below, above = k > 0 and highs[k - 1] == low, lows[k] == high
    if below and above:
        highs[k - 1] = highs[k]
        for x in range(k, count - 1):
            lows[x], highs[x] = lows[x + 1], highs[x + 1]
        return count - 1
    if below or above:
        if below:
            highs[k - 1] = high
        else:
            lows[k] = low
        return count
    for x in range(count, k, -1):
        lows[x], highs[x] = lows[x - 1], highs[x - 1]
    lows[k], highs[k] = low, high
    return count + 1
