"""What the guided local search over overlaps works on: the shapes that meet, and the state of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formulations.offsets.data import Integers, OffsetsData

LARGEST = 20_000_000
"""Pairs of rectangles that meet, of a part at most."""

STEPS = 4
LIGHTEST, HEAVIEST = 4, 4096
"""A pair weighs `STEPS` times the largest size over its own smaller size at first, within these limits."""

ADDRESSES = 10
"""Addresses per end met, on average, up to which one number per address pays."""

RESTLESS = 64
"""Of 256 moves, how many are of a buffer that overlaps nothing."""


Integers32 = NDArray[np.int32]


class Tables(NamedTuple):
    """A part as flat arrays that do not change, but for the order within the rows.

    Attributes
    ----------
    size, alignment, fixed
        By buffer, as in `OffsetsData`.
    shapes, low, high
        The windows of buffer `i`, each once, are ``low[u]`` to ``high[u]`` for the shapes `u` in
        ``shapes[i]:shapes[i + 1]``.
    owner
        The buffer of each shape.
    rows, ends, pair
        The row of shape `u`, ``rows[u]:rows[u + 1]``, lists both ends of the shapes that it meets in some
        section: ``2 * v`` the lower end, ``2 * v + 1`` the upper one; and the number of the pair of shapes.
    partner, partner_at
        Buffers that may lie at the same offset as `i`: ``partner[partner_at[i]:partner_at[i + 1]]``.
    paired
        The pairs of shapes from this number on are of partners.
    base
        First weight of a pair of shapes, and what it grows by.
    """

    size: Integers
    alignment: Integers
    fixed: Integers
    shapes: Integers
    low: Integers
    high: Integers
    owner: Integers
    rows: Integers
    ends: Integers32
    pair: Integers32
    partner: Integers
    partner_at: Integers
    paired: int
    base: Integers


class Run(NamedTuple):
    """The state of a run.

    Attributes
    ----------
    state
        Scalars, as the kernel's file numbers them.
    offsets
        By buffer.
    edges
        Address of the lower end ``2 * v`` and of the upper end ``2 * v + 1`` of each shape.
    weights
        By pair of shapes.
    clashes
        By buffer, the pairs of shapes of it that overlap.
    queue, queued
        Buffers that overlap others and are to be looked at, and whether a buffer is one of them.
    at, sums, slopes, ends, pairs, lowers, uppers
        Room for the evaluation of one buffer: what it meets, by address. Of each end the address, the
        weighted bytes below it, the weight above it, its number, and the number of the pair; and which
        ones are lower and upper ends.
    """

    state: Integers
    offsets: Integers
    edges: Integers
    weights: Integers
    clashes: Integers
    queue: Integers
    queued: NDArray[np.bool_]
    at: Integers
    sums: Integers
    slopes: Integers
    ends: Integers32
    pairs: Integers32
    lowers: Integers32
    uppers: Integers32


class Shapes(NamedTuple):
    """The different windows of each buffer, and which of them meet.

    Attributes
    ----------
    owner, low, high
        Buffer and window of each shape, by buffer.
    left, right
        The pairs that meet in some section.
    """

    owner: Integers
    low: Integers
    high: Integers
    left: Integers
    right: Integers


def shapes_that_meet(data: OffsetsData) -> Shapes | None:
    """Return the shapes of a part, or None if too many meet."""
    buffer = np.repeat(np.arange(data.count), np.diff(data.rectangles))
    order = np.argsort(data.rect_first, kind="stable")
    begin, end = data.rect_first[order], data.rect_last[order]
    # A rectangle meets those after it in the order that start before it ends.
    counts = np.searchsorted(begin, end) - np.arange(len(begin)) - 1
    total = int(counts.sum())
    if total > LARGEST:
        return None
    if data.has_gaps or data.has_windows:
        rows = np.stack((buffer, data.rect_low, data.rect_high), axis=1)
        kinds, shape = np.unique(rows, axis=0, return_inverse=True)
        owner, low, high = (np.ascontiguousarray(column) for column in kinds.T)
        shape = shape.reshape(-1)[order]
    else:
        owner, low, high, shape = buffer, data.rect_low, data.rect_high, order
    first = np.repeat(np.arange(len(begin)), counts)
    second = first + 1 + np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    left, right = shape[first], shape[second]
    apart = owner[left] != owner[right]
    left, right = left[apart], right[apart]
    if data.has_gaps:
        keys = np.minimum(left, right) * len(owner) + np.maximum(left, right)
        left, right = np.divmod(np.unique(keys), len(owner))
    return Shapes(owner, low, high, left, right)


class RunState:
    """Tables of a part, and the state of one run at a time.

    Parameters
    ----------
    data
        The part.
    shapes
        Of it.
    """

    def __init__(self, data: OffsetsData, shapes: Shapes) -> None:
        owner, low, high, left, right = shapes
        count = len(owner)
        partners = np.concatenate((data.inplace, data.inplace[:, ::-1]))
        partners = np.unique(partners[partners[:, 0] != partners[:, 1]], axis=0)
        keys = partners[:, 0] * data.count + partners[:, 1]
        together = np.isin(owner[left] * data.count + owner[right], keys)
        order = np.argsort(together, kind="stable")  # pairs of partners last
        left, right = left[order], right[order]
        pairs = len(left)
        row = np.concatenate((left, right))
        order = np.argsort(row, kind="stable")
        other = np.concatenate((right, left))[order]
        number = np.concatenate((np.arange(pairs), np.arange(pairs)))[order]
        size = high - low
        smaller = np.minimum(size[left], size[right])
        base = STEPS * smaller.max(initial=1) // np.maximum(1, smaller)
        row = np.repeat(row[order], 2)
        self._row = row.astype(np.int32)
        self._tables = Tables(
            size=data.size,
            alignment=data.alignment,
            fixed=data.fixed,
            shapes=_pointers(owner, data.count),
            low=np.ascontiguousarray(low),
            high=np.ascontiguousarray(high),
            owner=owner,
            rows=_pointers(row, count),
            ends=np.stack((2 * other, 2 * other + 1), axis=1).reshape(-1).astype(np.int32),
            pair=np.repeat(number, 2).astype(np.int32),
            partner=np.ascontiguousarray(partners[:, 1]),
            partner_at=_pointers(partners[:, 0], data.count),
            paired=pairs - int(together.sum()),
            base=np.clip(base, LIGHTEST, HEAVIEST),
        )
        self._now: Any = None

    def begin(self, capacity: int, offsets: Integers | None, random: np.random.Generator) -> bool:
        """Start anew; return False if some buffer cannot lie below the capacity."""
        from . import overlap_kernel as k

        t = self._tables
        self._now = None
        free = t.fixed < 0
        steps = np.where(free, (capacity - t.size) // t.alignment, 0)
        widest = int((t.rows[t.shapes[1:]] - t.rows[t.shapes[:-1]]).max(initial=1))
        most = 2**61 // (widest * (capacity + 1))
        if (steps < 0).any() or (t.fixed + t.size > capacity)[~free].any() or most < HEAVIEST:
            return False
        drawn = (
            random.integers(0, steps + 1) if offsets is None else np.minimum(steps, offsets // t.alignment)
        )
        offsets = np.where(free, drawn * t.alignment, t.fixed)
        edges = np.stack((offsets[t.owner] + t.low, offsets[t.owner] + t.high), axis=1).reshape(-1)
        along = capacity <= ADDRESSES * len(self._row) // len(t.size)
        if not along:
            rows = np.lexsort((edges[t.ends], self._row))
            t.ends[:], t.pair[:] = t.ends[rows], t.pair[rows]
        state = np.zeros(k.STATE_SIZE, dtype=np.int64)
        state[k.RANDOM] = random.integers(2**48)
        state[k.CAPACITY], state[k.ALONG] = capacity, along
        state[k.MOST], state[k.HEAVIEST] = most, t.base.max(initial=1)
        room = max(2 * widest, along * (capacity + 1)) + 2
        self._now = Run(
            state=state,
            offsets=offsets,
            edges=edges,
            weights=t.base.copy(),
            clashes=np.zeros(len(t.size), dtype=np.int64),
            queue=np.zeros(len(t.size), dtype=np.int64),
            queued=np.zeros(len(t.size), dtype=np.bool_),
            at=np.zeros(room, dtype=np.int64),
            sums=np.zeros(room, dtype=np.int64),
            slopes=np.zeros(room, dtype=np.int64),
            ends=np.zeros(room, dtype=np.int32),
            pairs=np.zeros(room, dtype=np.int32),
            lowers=np.zeros(room, dtype=np.int32),
            uppers=np.zeros(room, dtype=np.int32),
        )
        k.count_clashes(t, self._now)
        return True

    def advance(self, kernel: Any, work: int) -> Integers | None:
        """Do a slice of work; return offsets without overlap once they are found."""
        if self._now is None:
            return None
        if kernel is None:
            from .overlap_kernel import improve as kernel
        done = kernel(self._tables, self._now, work, RESTLESS)
        return self._now.offsets.copy() if done else None


def _pointers(keys: Integers, count: int) -> Integers:
    """Return for sorted keys below `count` where those of each key begin, and the end of the last."""
    return np.searchsorted(keys, np.arange(count + 1)).astype(np.int64)
