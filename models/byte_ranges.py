"""Values on byte ranges: a sorted list of disjoint half-open segments, equal neighbours merged."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class ByteRanges:
    """Disjoint segments ``[low, high)`` with an integer each; bytes without a segment have none.

    Every operation costs a binary search plus the segments that it touches.

    Parameters
    ----------
    segments
        Sorted, disjoint ``(low, high, value)``.
    """

    __slots__ = ("highs", "lows", "values")

    def __init__(self, segments: tuple[tuple[int, int, int], ...] = ()) -> None:
        self.lows = [s[0] for s in segments]
        self.highs = [s[1] for s in segments]
        self.values = [s[2] for s in segments]

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.lows, self.highs, self.values, strict=True)

    def value_of(self, low: int, high: int) -> int | None:
        """Return the one value of all bytes in ``[low, high)``, None if there is no such."""
        i = bisect_right(self.highs, low)
        if i < len(self.lows) and self.lows[i] <= low and self.highs[i] >= high:
            return self.values[i]
        return None

    def pieces(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Return the segments within ``[low, high)``, clipped to it."""
        i, j = bisect_right(self.highs, low), bisect_left(self.lows, high)
        return [(max(self.lows[k], low), min(self.highs[k], high), self.values[k]) for k in range(i, j)]

    def gaps(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the maximal parts of ``[low, high)`` that have no value."""
        found = []
        for a, b, _ in self.pieces(low, high):
            if a > low:
                found.append((low, a))
            low = b
        if low < high:
            found.append((low, high))
        return found

    def replace(self, low: int, high: int, value: int | None) -> int:
        """Give ``[low, high)`` the value, or none; return how many of these bytes had one before."""
        lows, highs, values = self.lows, self.highs, self.values
        i, j = bisect_right(highs, low), bisect_left(lows, high)
        covered = sum(highs[i:j]) - sum(lows[i:j])
        before: tuple[int, int, int] | None = None
        behind: tuple[int, int, int] | None = None
        if i < j:
            if lows[i] < low:
                before = (lows[i], low, values[i])
                covered -= low - lows[i]
            if highs[j - 1] > high:
                behind = (high, highs[j - 1], values[j - 1])
                covered -= highs[j - 1] - high
        if value is not None:
            # Merge with equal values on both sides: within the segments cut, or next to them.
            if before is None and i > 0 and highs[i - 1] == low:
                i -= 1
                before = (lows[i], low, values[i])
            if behind is None and j < len(lows) and lows[j] == high:
                behind = (high, highs[j], values[j])
                j += 1
            if before is not None and before[2] == value:
                low, before = before[0], None
            if behind is not None and behind[2] == value:
                high, behind = behind[1], None
        middle = None if value is None else (low, high, value)
        new = [s for s in (before, middle, behind) if s is not None]
        lows[i:j] = [s[0] for s in new]
        highs[i:j] = [s[1] for s in new]
        values[i:j] = [s[2] for s in new]
        return covered
