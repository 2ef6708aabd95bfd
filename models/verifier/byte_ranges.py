"""Values on byte ranges: a sorted list of disjoint half-open segments, equal neighbours merged."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

Segment = tuple[int, int, int]
"""``(low, high, value)``: the bytes ``[low, high)`` have the value."""


class ByteRanges:
    """Disjoint segments with an integer each; bytes without a segment have none.

    Every operation costs a binary search plus the segments that it touches.

    Parameters
    ----------
    segments
        Sorted and disjoint; neighbours of equal value do not touch.
    """

    __slots__ = ("segments",)

    def __init__(self, segments: tuple[Segment, ...] = ()) -> None:
        self.segments = list(segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def _first(self, low: int) -> int:
        """Return the position of the first segment that ends after `low`."""
        i = bisect_left(self.segments, (low,))
        return i - 1 if i and self.segments[i - 1][1] > low else i

    def value_of(self, low: int, high: int) -> int | None:
        """Return the one value of all bytes in ``[low, high)``, None if there is no such."""
        i = self._first(low)
        if i < len(self.segments):
            a, b, value = self.segments[i]
            if a <= low and b >= high:
                return value
        return None

    def pieces(self, low: int, high: int) -> list[Segment]:
        """Return the segments within ``[low, high)``, clipped to it."""
        i = self._first(low)
        j = bisect_left(self.segments, (high,), i)
        return [(max(a, low), min(b, high), value) for a, b, value in self.segments[i:j]]

    def gaps(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the maximal parts of ``[low, high)`` that have no value."""
        gaps = []
        for a, b, _ in self.pieces(low, high):
            if a > low:
                gaps.append((low, a))
            low = b
        if low < high:
            gaps.append((low, high))
        return gaps

    def replace(self, low: int, high: int, value: int | None) -> int:
        """Give ``[low, high)`` the value, or none; return how many of these bytes had one before."""
        segments = self.segments
        i = self._first(low)
        j = bisect_left(segments, (high,), i)
        covered = 0
        before: Segment | None = None
        behind: Segment | None = None
        if i < j:
            for a, b, _ in segments[i:j]:
                covered += b - a
            a, b, old = segments[i]
            if a < low:
                before = (a, low, old)
                covered -= low - a
            a, b, old = segments[j - 1]
            if b > high:
                behind = (high, b, old)
                covered -= b - high
        if value is None:
            segments[i:j] = [s for s in (before, behind) if s is not None]
            return covered
        # Merge with equal values on both sides: within the segments cut, or next to them.
        if before is None and i and segments[i - 1][1] == low:
            i -= 1
            before = segments[i]
        if behind is None and j < len(segments) and segments[j][0] == high:
            behind = segments[j]
            j += 1
        new = []
        if before is not None:
            if before[2] == value:
                low = before[0]
            else:
                new.append(before)
        if behind is not None and behind[2] == value:
            new.append((low, behind[1], value))
        else:
            new.append((low, high, value))
            if behind is not None:
                new.append(behind)
        segments[i:j] = new
        return covered
