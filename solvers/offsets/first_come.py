"""Placing buffers as an allocator at run time would: in the order of their starts, into free addresses.

Only what is alive at the time matters, so one pass over the starts and ends is enough: some 60,000 buffers
take about a second, without a compiler. Run backwards in time, it is another heuristic.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ...formulations.offsets.data import Integers, OffsetsData

ENDLESS = 2**80
"""More than the sum of all sizes, each rounded up to its alignment."""


def place_as_they_come(data: OffsetsData, *, best_fit: bool = False, backwards: bool = False) -> Integers:
    """Return offsets in units.

    Of buffers that start in one section the largest comes first. Gaps and in-place pairs are not made use
    of, and the addresses of fixed buffers not at other times.

    Parameters
    ----------
    data
        A part.
    best_fit
        Take the tightest free range instead of the lowest.
    backwards
        Begin at the end of time.
    """
    begin, end = (-data.last, -data.first) if backwards else (data.first, data.last)
    arrivals = np.lexsort((data.first - data.last, -data.size, begin)).tolist()
    leaving = np.argsort(end, kind="stable").tolist()
    begins, ends, sizes = begin.tolist(), end.tolist(), data.size.tolist()
    alignments, offsets = data.alignment.tolist(), data.fixed.tolist()
    moving = (data.fixed < 0).tolist()
    free = _FreeRanges(sorted((offsets[i], offsets[i] + sizes[i]) for i in arrivals if not moving[i]))
    gone = 0
    for i in arrivals:
        if not moving[i]:
            continue
        while ends[leaving[gone]] <= begins[i]:
            j = leaving[gone]
            gone += 1
            if moving[j]:
                free.release(offsets[j], offsets[j] + sizes[j])
        take = free.take_tightest if best_fit else free.take_lowest
        offsets[i] = take(sizes[i], alignments[i])
    return np.array(offsets, dtype=np.int64)


class _FreeRanges:
    """Disjoint ranges that do not touch, by address; the last one has no end."""

    def __init__(self, taken: list[tuple[int, int]]) -> None:
        self.lows = [0]
        self.highs = [ENDLESS]
        for low, high in taken:
            if high > self.lows[-1]:
                self._cut(len(self.lows) - 1, max(low, self.lows[-1]), high)

    def take_lowest(self, size: int, alignment: int) -> int:
        for k, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            aligned = -(-low // alignment) * alignment
            if aligned + size <= high:
                self._cut(k, aligned, aligned + size)
                return aligned
        raise AssertionError("the last range has no end")

    def take_tightest(self, size: int, alignment: int) -> int:
        chosen, least = len(self.lows) - 1, ENDLESS
        for k, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            if size <= high - low < least and -(-low // alignment) * alignment + size <= high:
                chosen, least = k, high - low
        low = -(-self.lows[chosen] // alignment) * alignment
        self._cut(chosen, low, low + size)
        return low

    def release(self, low: int, high: int) -> None:
        k = bisect_left(self.lows, low)
        if k and self.highs[k - 1] == low:
            k -= 1
            low = self.lows[k]
            del self.lows[k], self.highs[k]
        if self.lows[k] == high:
            self.lows[k] = low
        else:
            self.lows.insert(k, low)
            self.highs.insert(k, high)

    def _cut(self, k: int, low: int, high: int) -> None:
        """Take ``[low, high)`` out of range number `k`."""
        before, behind = self.lows[k], self.highs[k]
        rest = [(a, b) for a, b in ((before, low), (high, behind)) if a < b]
        self.lows[k : k + 1] = [a for a, _ in rest]
        self.highs[k : k + 1] = [b for _, b in rest]
