"""Placing buffers one by one in a given order: each into a hole left by those before it.

A buffer must avoid an open interval of offsets for each rectangle that it meets: with bytes ``[a, b)`` of
its own against the bytes ``[bottom, top)`` of a rectangle in place, the offsets between ``bottom - b`` and
``top - a``. What is left are the holes; the last one has no end.

This is the implementation in numpy: it needs no compiler, and a part of some thousand buffers takes a
fraction of a second. `placing_kernel.place` gives the same offsets, and is meant for all larger ones.
"""

from __future__ import annotations

import numpy as np

from ...models.arrays import Integers
from .layout import Layout

NOWHERE = -1
"""Offset of a buffer that has no place yet."""


def place_plainly(layout: Layout, order: Integers, wishes: Integers, best_fit: bool) -> Integers:
    """Return offsets in units.

    A fixed buffer lies at its fixed offset, in conflict or not, so the order should begin with these. A
    buffer lies at the offset wished for if that is free; else with a partner in place if that makes
    nothing higher than the hole would; else in the lowest hole that it fits, or in the tightest.

    Parameters
    ----------
    wishes
        Offset wished for by buffer, -1 for none.
    best_fit
        Whether to take the tightest hole (the lowest of several) before the endless one.
    """
    offsets = np.full(len(layout.size), NOWHERE, dtype=np.int64)
    held = np.empty((5, len(layout.owner)), dtype=np.int64)  # first, last, bottom, top, owner; by bottom
    count = height = 0
    for i in order.tolist():
        size = int(layout.size[i])
        rows = range(int(layout.rectangles[i]), int(layout.rectangles[i + 1]))
        offset = int(layout.fixed[i])
        if offset < 0:
            low, high, owner = _forbidden(layout, rows, held[:, :count])
            offset, a = int(wishes[i]), int(layout.alignment[i])
            if offset < 0 or offset % a or _blocked(layout, i, offset, low, high, owner, offsets):
                offset = _hole(a, low, high, best_fit)
                shared = _with_partner(layout, i, low, high, owner, offsets)
                if shared != NOWHERE and shared + size <= max(height, offset + size):
                    offset = shared
        offsets[i] = offset
        height = max(height, offset + size)
        for r in rows:
            bottom = offset + int(layout.rect_low[r])
            at = int(np.searchsorted(held[2, :count], bottom))
            held[:, at + 1 : count + 1] = held[:, at:count]
            top = offset + int(layout.rect_high[r])
            held[:, at] = layout.rect_first[r], layout.rect_last[r], bottom, top, i
            count += 1
    return offsets


def _forbidden(layout: Layout, rows: range, held: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the ends of the open intervals to avoid, by lower end, and whose they are."""
    ranges = []
    for r in rows:
        meets = (held[0] < layout.rect_last[r]) & (held[1] > layout.rect_first[r])
        _, _, bottom, top, owner = held[:, meets]
        ranges.append((bottom - layout.rect_high[r], top - layout.rect_low[r], owner))
    if len(ranges) == 1:
        return ranges[0]
    low, high, owner = (np.concatenate(arrays) for arrays in zip(*ranges, strict=True))
    order = np.argsort(low)
    return low[order], high[order], owner[order]


def _hole(alignment: int, low: Integers, high: Integers, best_fit: bool) -> int:
    reached = np.zeros(len(low) + 1, dtype=np.int64)
    np.maximum.accumulate(high, out=reached[1:])
    np.maximum(reached, 0, out=reached)
    reached = -(-reached // alignment) * alignment
    fits = np.flatnonzero(reached[:-1] <= low)
    if not len(fits):
        return int(reached[-1])
    chosen = fits[np.argmin(low[fits] - reached[fits])] if best_fit else fits[0]
    return int(reached[chosen])


def _blocked(
    layout: Layout, i: int, offset: int, low: Integers, high: Integers, owner: Integers, offsets: Integers
) -> bool:
    """Return whether an offset is within an interval to avoid, but for those of partners who share it."""
    inside = owner[(low < offset) & (offset < high)]
    partners = layout.partner[layout.partner_at[i] : layout.partner_at[i + 1]]
    return any(j not in partners or offsets[j] != offset for j in inside)


def _with_partner(
    layout: Layout, i: int, low: Integers, high: Integers, owner: Integers, offsets: Integers
) -> int:
    """Return the lowest free offset of a partner in place, or -1."""
    partners = layout.partner[layout.partner_at[i] : layout.partner_at[i + 1]]
    a = layout.alignment[i]
    shared = [x for x in np.sort(offsets[partners]).tolist() if x != NOWHERE and x % a == 0]
    free = (x for x in shared if not _blocked(layout, i, x, low, high, owner, offsets))
    return next(free, NOWHERE)
