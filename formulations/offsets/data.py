"""The data of `offsets`: what every formulation, bound and search for it starts from.

Buffers of different pools never meet, nor do buffers on two sides of a time that no lifetime spans.
`data` therefore cuts a set of buffers into independent **parts**, one per pool and maximal stretch
of overlapping lifetimes; the height of a pool is the greatest height of its parts. Buffers of 0 bytes
belong to no part.

**Sections.** Time is compressed to maximal sections: one ends at the first end of a rectangle after the
last start of one. At every other time a subset of the rectangles of some section is alive, so two buffers
meet if and only if they meet in a section.

**Rectangles.** A buffer without gaps is one rectangle: its sections times the bytes ``[0, size)``. Gaps cut
it into several; one with a window leaves the bytes of the window, counted from the buffer's offset.

**Units.** All sizes, window edges, fixed offsets, and every alignment that does not divide their greatest
common divisor, are multiples of the unit `g`. Rounding all free offsets of a solution down to multiples of
`g` keeps it one: if ``o_i + low_i >= o_j + high_j`` and both edges are multiples of `g`, the floors obey it
too; an alignment is a multiple of `g`, so its offsets do not move, or divides `g`; equal offsets stay equal;
and no height grows. So the integers of the parts are in units of `g`, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ...models.arrays import Integers
from ...models.buffers import Buffer, Buffers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OffsetsData:
    """One part: `n` buffers of one pool over one stretch of time. All offsets and sizes are in units.

    Attributes
    ----------
    numbers
        Shape (n,): position of each buffer in ``Buffers.buffers``.
    pool
        Its name.
    unit
        Bytes.
    size, alignment
        Shape (n,); an alignment of 1 is none.
    fixed, hint
        Shape (n,): fixed and suggested offset, -1 if there is none.
    first, last
        Shape (n,): the half-open range of sections that the lifetime spans.
    duration
        Shape (n,): the lifetime, in the time of the buffers.
    rectangles
        Shape (n + 1,): buffer `i` has the rectangles ``rectangles[i]:rectangles[i + 1]``.
    rect_first, rect_last, rect_low, rect_high
        Half-open sections and half-open window of each rectangle.
    sections
        How many there are.
    load
        Shape (sections,): sum of the windows alive, before any saving by in-place pairs.
    inplace
        Shape (k, 2): pairs that may have the same offset and then overlap, as positions in this part.
    capacity
        Of the pool, rounded down; None if unlimited.
    ordered
        Whether models put buffers that are alike in order, since exchanging two of them changes nothing; it
        does where rows are added.
    """

    numbers: Integers
    pool: str
    unit: int
    size: Integers
    alignment: Integers
    fixed: Integers
    hint: Integers
    first: Integers
    last: Integers
    duration: Integers
    rectangles: Integers
    rect_first: Integers
    rect_last: Integers
    rect_low: Integers
    rect_high: Integers
    sections: int
    load: Integers
    inplace: Integers
    capacity: int | None
    ordered: bool = True

    @property
    def count(self) -> int:
        """The number of buffers."""
        return len(self.size)

    @property
    def has_gaps(self) -> bool:
        """Whether a buffer is more than one rectangle."""
        return len(self.rect_first) > self.count

    @property
    def has_windows(self) -> bool:
        """Whether a rectangle is not as high as its buffer."""
        owner = np.repeat(np.arange(self.count), np.diff(self.rectangles))
        return bool(((self.rect_low > 0) | (self.rect_high < self.size[owner])).any())

    def height(self, offsets: Integers) -> int:
        """Return the end of the highest buffer, in units."""
        return int((offsets + self.size).max(initial=0))


def offsets_data(buffers: Buffers) -> tuple[OffsetsData, ...]:
    """Return the parts, by pool, then time.

    Examples
    --------
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x, y = Buffer(id="x", lower=0, upper=3, size=8), Buffer(id="y", lower=3, upper=5, size=12)
    >>> [part.unit for part in offsets_data(Buffers(buffers=(x, y)))]
    [8, 12]
    """
    by_pool: dict[str, list[int]] = {}
    for i, b in enumerate(buffers.buffers):
        if b.size:
            by_pool.setdefault(b.pool, []).append(i)
    positions = {b.id: i for i, b in enumerate(buffers.buffers)} if buffers.inplace else {}
    pairs = [(positions[a], positions[b]) for a, b in buffers.inplace]
    parts = []
    for pool in sorted(by_pool):
        for numbers in _stretches(buffers.buffers, by_pool[pool]):
            parts.append(_part(buffers, pool, numbers, pairs))
    return tuple(parts)


def _stretches(buffers: Sequence[Buffer], numbers: list[int]) -> Iterable[list[int]]:
    """Cut where no lifetime spans the time; within a stretch the buffers keep their order."""
    stretch: list[int] = []
    end = -1
    for i in sorted(numbers, key=lambda i: buffers[i].lower):
        if stretch and buffers[i].lower >= end:
            yield sorted(stretch)
            stretch = []
        stretch.append(i)
        end = max(end, buffers[i].upper)
    if stretch:
        yield sorted(stretch)


def _part(buffers: Buffers, pool: str, numbers: list[int], pairs: list[tuple[int, int]]) -> OffsetsData:
    chosen = [buffers.buffers[i] for i in numbers]
    rows = [(i, *rectangle) for i, b in enumerate(chosen) for rectangle in b.rectangles]
    owner, begin, end, low, high = np.array(rows, dtype=np.int64).T
    unit = common_unit(chosen)
    cuts = _cuts(begin, end)
    rect_first, rect_last = _in_sections(cuts, begin, end)
    first, last = _in_sections(cuts, np.array([b.lower for b in chosen]), np.array([b.upper for b in chosen]))
    change = np.zeros(len(cuts) + 1, dtype=np.int64)
    np.add.at(change, rect_first, (high - low) // unit)
    np.subtract.at(change, rect_last, (high - low) // unit)
    local = {number: i for i, number in enumerate(numbers)} if pairs else {}
    inside = [(local[a], local[b]) for a, b in pairs if a in local and b in local]
    capacity = buffers.pools[pool]
    return OffsetsData(
        numbers=np.array(numbers, dtype=np.int64),
        pool=pool,
        unit=unit,
        size=_integers(b.size // unit for b in chosen),
        alignment=_integers(b.alignment // unit if b.alignment > unit else 1 for b in chosen),
        fixed=_integers(-1 if b.offset is None else b.offset // unit for b in chosen),
        hint=_integers(-1 if b.hint is None else b.hint // unit for b in chosen),
        first=first,
        last=last,
        duration=_integers(b.upper - b.lower for b in chosen),
        rectangles=np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(chosen))))),
        rect_first=rect_first,
        rect_last=rect_last,
        rect_low=low // unit,
        rect_high=high // unit,
        sections=len(cuts),
        load=np.cumsum(change)[:-1],
        inplace=np.array(inside, dtype=np.int64).reshape(-1, 2),
        capacity=None if capacity is None else capacity // unit,
    )


def _integers(values: Iterable[int]) -> Integers:
    return np.array(list(values), dtype=np.int64)


def common_unit(chosen: Sequence[Buffer]) -> int:
    """Return the unit of the bytes of buffers: see above; 0 if nothing has bytes."""
    unit = 0
    for b in chosen:
        edges = (x for gap in b.gaps for x in (gap.low, gap.high))
        unit = gcd(unit, b.size, b.offset or 0, *edges)
    alignments = sorted({b.alignment for b in chosen})
    while odd := [a for a in alignments if unit % a and a % unit]:
        unit = gcd(unit, odd[0])
    return unit


def _cuts(begin: Integers, end: Integers) -> Integers:
    """Return the first time after each section: an end that follows a start."""
    times = np.concatenate((begin, end))
    starts = np.concatenate((np.ones(len(begin), dtype=bool), np.zeros(len(end), dtype=bool)))
    order = np.lexsort((starts, times))  # at one time ends come first
    times, starts = times[order], starts[order]
    closing = np.flatnonzero(~starts[1:] & starts[:-1]) + 1
    return np.asarray(times[closing])


def _in_sections(cuts: Integers, begin: Any, end: Any) -> tuple[Integers, Integers]:
    """Return the half-open range of the sections that each half-open interval of time meets.

    Section `s` stands for the time just before ``cuts[s]``.
    """
    first = np.searchsorted(cuts, begin, side="right")
    last = np.searchsorted(cuts, end, side="right")
    return first.astype(np.int64), last.astype(np.int64)


def greatest_load(data: OffsetsData) -> Integers:
    """Return, by buffer, the greatest load of a section of its lifetime."""
    greatest = np.empty(data.count, dtype=np.int64)
    steps = np.floor(np.log2(data.last - data.first)).astype(np.int64)
    best = data.load  # over 2 ** step sections from each on
    for step in range(int(steps.max(initial=0)) + 1):
        chosen = np.flatnonzero(steps == step)
        greatest[chosen] = np.maximum(best[data.first[chosen]], best[data.last[chosen] - (1 << step)])
        best = np.maximum(best[: -(1 << step)], best[1 << step :])
    return greatest
