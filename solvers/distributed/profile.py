"""What a list scheduler keeps in mind: when a processor or a lane is busy, and how full a memory is."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

NEVER = 1 << 62
"""Nanoseconds that no schedule reaches: the end of the last free interval."""


class Calendar:
    """Busy intervals of what does one thing at a time, in order and disjoint."""

    def __init__(self) -> None:
        self.busy: list[tuple[int, int]] = []

    def free_from(self, time: int, length: int) -> int:
        """Return the first instant, at `time` or later, from which on it is free for so long."""
        for begin, end in self.busy[max(bisect_right(self.busy, (time, NEVER)) - 1, 0) :]:
            if begin >= time + length:
                break
            time = max(time, end)
        return time

    def book(self, begin: int, end: int) -> None:
        """Take an interval that is free."""
        insort(self.busy, (begin, end))

    def cancel(self, begin: int, end: int) -> None:
        """Undo `book`."""
        self.busy.remove((begin, end))


def free_together(calendars: Sequence[Calendar], time: int, length: int) -> int:
    """Return the first instant, at `time` or later, from which on all of them are free for so long."""
    while (latest := max((c.free_from(time, length) for c in calendars), default=time)) > time:
        time = latest
    return time


class MemoryLevel:
    """Bytes that are taken of a memory over time; `capacity` is None if it has no end."""

    def __init__(self, capacity: int | None) -> None:
        self.capacity = capacity
        self.changes: list[tuple[int, int]] = []

    def change(self, nbytes: int, time: int) -> None:
        """Take so many bytes more from `time` on; fewer, if negative."""
        if self.capacity is not None and nbytes:
            insort(self.changes, (time, nbytes))

    def undo(self, nbytes: int, time: int) -> None:
        """Undo `change`."""
        if self.capacity is not None and nbytes:
            self.changes.remove((time, nbytes))

    def room_from(self, time: int, nbytes: int, more: int = 0, length: int = 0) -> int | None:
        """Return the first instant, at `time` or later, with room for `nbytes` from then on for good.

        For so long there is also room for `more` besides. None: there is no such instant.
        """
        if self.capacity is None or not nbytes + more:
            return time
        level, steps = 0, []  # (from, to, level)
        ends = [at for at, _ in self.changes[1:]] + [NEVER]
        for (at, change), end in zip(self.changes, ends, strict=False):
            level += change
            if at < end:
                steps.append((at, end, level))
        for _, end, level in steps:
            if level + nbytes > self.capacity:
                time = max(time, end)
        for at, end, level in steps:
            if at >= time + length:
                break
            if end > time and level + nbytes + more > self.capacity:
                time = end
        fits = nbytes + more <= self.capacity and time < NEVER
        return time if fits else None
