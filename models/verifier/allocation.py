"""Judges an allocation: every buffer at one legal address, none on top of another.

A sweep over time keeps the buffers alive in layers of disjoint addresses, so that each buffer is compared
only with its neighbours and with those that it truly overlaps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass

from ..buffers import Buffer, Buffers
from ..checks import shown
from .verdict import Violation, raise_violations, sorted_violations, verdict_words

LISTED = 10_000
"""Overlaps after which the sweep stops to look for more."""

FEWEST = 200
"""Buffers from which on a map of the addresses is looked at first; below, making it takes longer."""

LARGEST = 2**63 - 1
"""The largest offset in bytes: files and tools keep 64-bit integers with a sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationVerdict:
    """The verdict on an allocation.

    Parameters
    ----------
    violations
        All of them, by time, then kind.
    heights
        By pool, the end of the highest buffer: the bytes that the pool needs.
    complete
        False if there are so many overlaps that not all are listed.
    """

    violations: tuple[Violation, ...]
    heights: Mapping[str, int]
    complete: bool = True

    @property
    def valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations

    def __repr__(self) -> str:
        heights = ", ".join(f"{pool} {height} bytes".strip() for pool, height in self.heights.items())
        return f"AllocationVerdict({verdict_words(self.violations)}; heights: {heights})"

    def raise_if_invalid(self) -> None:
        """Raise an error that lists the first violations, if there are any.

        Raises
        ------
        VerificationError
            If the allocation breaks a rule.
        """
        raise_violations(self.violations, "allocation")


def verify_allocation(buffers: Buffers, offsets: Mapping[str, int]) -> AllocationVerdict:
    """Return all violations of an allocation, and the height of each pool.

    Buffers that are alive at one time have disjoint addresses; the pairs of `Buffers.inplace` may instead
    have the same offset. Buffers of 0 bytes lie anywhere within their pool.

    Parameters
    ----------
    offsets
        Address by buffer id.

    Examples
    --------
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> from lowtide.models.verifier.allocation import verify_allocation
    >>> both = Buffers(
    ...     buffers=(Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=8)),
    ... )
    >>> verify_allocation(both, {"x": 8, "y": 0}).heights
    {'': 12}
    >>> print(verify_allocation(both, {"x": 0, "y": 0}).violations[0])
    overlap: buffers 'x' at [0, 4) and 'y' at [0, 8) are both alive from time 2, expected disjoint addresses
    """
    faults: list[Violation] = []
    known = {b.id for b in buffers.buffers}
    for name in offsets:
        if name not in known:
            faults.append(_violation("unknown", f"found {shown(name)}, expected a buffer's id"))
    placed: list[tuple[Buffer, int]] = []
    heights = dict.fromkeys(buffers.pools, 0)
    for b in buffers.buffers:
        if b.id not in offsets:
            faults.append(_violation("missing", f"buffer {b.id!r} has no offset, expected one", b))
            continue
        offset: object = offsets[b.id]
        if type(offset) is not int or not 0 <= offset <= LARGEST:
            fault = f"found offset {shown(offset)}, expected an integer in [0, {LARGEST}]"
            faults.append(_violation("offset", f"buffer {b.id!r}: {fault}", b))
            continue
        placed.append((b, offset))
        heights[b.pool] = max(heights[b.pool], offset + b.size)
        faults += _judge_one(b, offset, buffers.pools[b.pool])
    overlaps = _overlaps(buffers, placed)
    faults += overlaps[:LISTED]
    return AllocationVerdict(
        violations=sorted_violations(faults),
        heights=heights,
        complete=len(overlaps) <= LISTED,
    )


def _violation(kind: str, message: str, *buffers: Buffer, time: int | None = None) -> Violation:
    return Violation(
        kind=kind,
        message=message,
        time=time,
        tier=buffers[0].pool if buffers else None,
        buffers=tuple(b.id for b in buffers),
    )


def _judge_one(b: Buffer, offset: int, capacity: int | None) -> list[Violation]:
    """Apply the rules on a single buffer: alignment, fixed offset, capacity of its pool."""
    inside = capacity is None or offset + b.size <= capacity
    if inside and not offset % b.alignment and b.offset in (None, offset):
        return []  # of many buffers: words are made only for what is wrong
    faults = []
    where = f"buffer {b.id!r}: found offset {offset}"
    if offset % b.alignment:
        faults.append(_violation("alignment", f"{where}, expected a multiple of {b.alignment}", b))
    if b.offset is not None and offset != b.offset:
        faults.append(_violation("fixed", f"{where}, expected its fixed offset {b.offset}", b))
    if not inside:
        fault = f"{where} for {b.size} bytes, expected its end within pool {b.pool!r} of {capacity}"
        faults.append(_violation("capacity", fault, b))
    return faults


class _Layer:
    """Disjoint address ranges, sorted: their beginnings, and by those their ends and buffers."""

    __slots__ = ("at", "lows")

    def __init__(self) -> None:
        self.lows: list[int] = []
        self.at: dict[int, tuple[int, int]] = {}

    def touching(self, low: int, high: int) -> list[int]:
        """Return the buffers whose range meets ``[low, high)``."""
        lows, at = self.lows, self.at
        i = bisect_left(lows, low)
        near = []
        if i:
            end, number = at[lows[i - 1]]
            if end > low:
                near.append(number)
        while i < len(lows) and lows[i] < high:
            near.append(at[lows[i]][1])
            i += 1
        return near

    def insert(self, low: int, high: int, number: int) -> None:
        insort(self.lows, low)
        self.at[low] = high, number

    def remove(self, low: int) -> None:
        del self.lows[bisect_left(self.lows, low)], self.at[low]


def _occupied(b: Buffer) -> list[tuple[int, int, int, int]]:
    """Return times and bytes (from the offset) that the buffer occupies."""
    if not b.gaps:
        return [(b.lower, b.upper, 0, b.size)] if b.size else []
    pieces = []
    now = b.lower
    for gap in b.gaps:
        pieces.append((now, gap.lower, 0, b.size))
        pieces.append((gap.lower, gap.upper, gap.low, gap.high))
        now = gap.upper
    pieces.append((now, b.upper, 0, b.size))
    return [(begin, end, low, high) for begin, end, low, high in pieces if begin < end and low < high]


def _overlaps(buffers: Buffers, placed: list[tuple[Buffer, int]]) -> list[Violation]:
    """Return one violation per pair that overlaps in time and address, up to one more than LISTED."""
    if len(placed) >= FEWEST:
        from .cells import are_disjoint  # numpy, which `import lowtide` does without

        boxes: dict[str, list[tuple[int, int, int, int]]] = {}
        for b, offset in placed:
            boxes.setdefault(b.pool, []).extend(
                [(begin, end, offset + low, offset + high) for begin, end, low, high in _occupied(b)]
            )
        if are_disjoint(boxes.values()):
            return []
    events: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for n, (b, offset) in enumerate(placed):
        of_pool = events.setdefault(b.pool, [])
        for begin, end, low, high in _occupied(b):
            of_pool.append((begin, 1, n, offset + low, offset + high))
            of_pool.append((end, 0, n, offset + low, offset + high))
    allowed = set(buffers.inplace) | {(b, a) for a, b in buffers.inplace}
    faults: list[Violation] = []
    pairs: set[tuple[int, int]] = set()
    for pool in sorted(events):
        layers: list[_Layer] = []
        layer_of: dict[int, _Layer] = {}
        for time, begins, n, low, high in sorted(events[pool]):
            b, offset = placed[n]
            if not begins:
                layer_of.pop(n).remove(low)
                continue
            home = None
            for layer in layers:
                touched = layer.touching(low, high)
                if not touched and home is None:
                    home = layer
                for m in touched:
                    other, other_offset = placed[m]
                    together = (other.id, b.id) in allowed and other_offset == offset
                    pair = (m, n) if m < n else (n, m)
                    if together or pair in pairs:
                        continue
                    pairs.add(pair)
                    faults.append(_overlap(time, other, other_offset, b, offset))
                    if len(faults) > LISTED:
                        return faults
            if home is None:
                home = _Layer()
                layers.append(home)
            home.insert(low, high, n)
            layer_of[n] = home
    return faults


def _overlap(time: int, a: Buffer, a_offset: int, b: Buffer, b_offset: int) -> Violation:
    windows = " but for their gaps" if a.gaps or b.gaps else ""
    return _violation(
        "overlap",
        f"buffers {a.id!r} at [{a_offset}, {a_offset + a.size}) and {b.id!r} at [{b_offset}, "
        f"{b_offset + b.size}){windows} are both alive from time {time}, expected disjoint addresses",
        a,
        b,
        time=time,
    )
