"""The verifier's memory: which bytes of each tensor each tier holds, and in which version.

The content of bytes is a *stamp*: a tensor's base plus the version. When a run begins to write the tensor,
the base rises past all stamps in use, which makes every copy stale at once. Most tensors are whole or
absent in a tier: a stamp or None stands for that, `ByteRanges` only for parts.
"""

from __future__ import annotations

from .byte_ranges import ByteRanges
from .case import Case

STALE = -1
"""The stamp of bytes that are allocated and hold nothing valid."""

Held = int | ByteRanges | None


class Memory:
    """Contents and fill of every tier.

    Attributes
    ----------
    held
        By tier and tensor: None, the stamp of the whole tensor, or stamps of parts.
    used
        Bytes allocated by tier.
    base
        By tensor: the stamp that means version 0 now; smaller stamps are stale.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.held: list[list[Held]] = [[None] * len(case.nbytes) for _ in case.tiers]
        self.used = [0] * len(case.tiers)
        self.base = [0] * len(case.nbytes)

    def invalidate(self, t: int) -> None:
        """Make every byte of the tensor stale, wherever it is."""
        self.base[t] += self.case.last[t] + 1

    def put(self, k: int, t: int, low: int, high: int, stamp: int) -> None:
        """Give bytes a stamp, and allocate them where they are not yet."""
        held = self.held[k]
        old = held[t]
        if high - low == self.case.span[t]:
            if old is None:
                self.used[k] += self.case.nbytes[t]
            elif not isinstance(old, int):
                self.used[k] += self.case.nbytes[t] - sum(b - a for a, b, _ in old)
            held[t] = stamp
            return
        if isinstance(old, int):
            if old == stamp:
                return
            old = held[t] = ByteRanges(((0, self.case.span[t], old),))
        elif old is None:
            old = held[t] = ByteRanges()
        self.used[k] += high - low - old.replace(low, high, stamp)
        if len(old.segments) == 1:
            a, b, only = old.segments[0]
            if b - a == self.case.span[t]:
                held[t] = only

    def spoil(self, k: int, t: int, low: int, high: int) -> None:
        """Make bytes stale where they are allocated."""
        for a, b in self.allocated(k, t, low, high):
            self.put(k, t, a, b, STALE)

    def release(self, k: int, t: int, low: int, high: int) -> tuple[int, int] | None:
        """Release bytes; return the first range among them that was not allocated, None if none."""
        held = self.held[k]
        old = held[t]
        if old is None:
            return low, high
        if high - low == self.case.span[t] and isinstance(old, int):
            held[t] = None
            self.used[k] -= self.case.nbytes[t]
            return None
        if isinstance(old, int):
            old = held[t] = ByteRanges(((0, self.case.span[t], old),))
        gap = next(iter(old.gaps(low, high)), None)
        self.used[k] -= old.replace(low, high, None)
        if not old.segments:
            held[t] = None
        return gap

    def allocated(self, k: int, t: int, low: int, high: int) -> list[tuple[int, int]]:
        """Return the maximal allocated parts of the range, by stamp."""
        old = self.held[k][t]
        if old is None:
            return []
        if isinstance(old, int):
            return [(low, high)]
        return [(a, b) for a, b, _ in old.pieces(low, high)]

    def absent(self, k: int, t: int, low: int, high: int) -> list[tuple[int, int]]:
        """Return the maximal parts of the range that are not allocated."""
        old = self.held[k][t]
        if old is None:
            return [(low, high)]
        return [] if isinstance(old, int) else old.gaps(low, high)

    def stamp_of(self, k: int, t: int, low: int, high: int) -> int | None:
        """Return the one valid stamp of all the bytes, None if there is no such."""
        old = self.held[k][t]
        if isinstance(old, ByteRanges):
            old = old.value_of(low, high)
        return old if old is not None and old >= self.base[t] else None

    def content(self, k: int, t: int, version: int) -> tuple[tuple[int, int, bool], ...]:
        """Return the allocated ranges, maximal, and whether they hold that version."""
        old, want = self.held[k][t], self.base[t] + version
        if old is None:
            return ()
        if isinstance(old, int):
            return ((0, self.case.span[t], old == want),)
        merged = ByteRanges()
        for a, b, stamp in old:
            merged.replace(a, b, int(stamp == want))
        return tuple((a, b, bool(valid)) for a, b, valid in merged)

    def lack(self, k: int, t: int, low: int, high: int, version: int | None) -> str:
        """Say what keeps the bytes from being valid in the tier (None: in any one version)."""
        case, base = self.case, self.base[t]
        tier = f"tier {case.tiers[k]!r}"
        old = self.held[k][t]
        for gap in self.absent(k, t, low, high):
            return f"{case.part(t, *gap)} is not in {tier}"
        parts = old.pieces(low, high) if isinstance(old, ByteRanges) else [(low, high, old or 0)]
        for a, b, stamp in parts:
            if stamp < base:
                return f"{case.part(t, a, b)} is stale in {tier}"
            if version is not None and stamp != base + version:
                return f"{case.part(t, a, b)} is version {stamp - base} in {tier}"
        return f"{case.part(t, low, high)} is in several versions in {tier}"
