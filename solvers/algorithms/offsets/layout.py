"""Which rectangles meet which, in little memory: what placing buffers one by one needs of a part.

The rectangles that meet the sections ``[first, last)`` are those that start there and those that started
earlier and have not ended. The former are neighbours when all are sorted by start; for the latter, time is
cut into blocks of sections, and each block lists what is alive on both sides of its begin. All lists
together are a few times as long as there are rectangles, whatever is alive at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....formulations.offsets_data import Integers, OffsetsData

ENTRIES = 4
"""Entries in the lists of the blocks per rectangle, about, at most."""


class Layout(NamedTuple):
    """A part as flat arrays; kernels take it as one argument.

    Attributes
    ----------
    size, alignment, fixed
        By buffer, as in `OffsetsData`.
    rectangles, rect_first, rect_last, rect_low, rect_high, owner
        Those of buffer `i` are ``rectangles[i]:rectangles[i + 1]``.
    by_start, start_at
        Rectangles by first section; those that start in section `s` are ``start_at[s]:start_at[s + 1]``.
    block
        Sections per block.
    crossing, crossing_at
        Rectangles alive on both sides of the begin of block `b`: ``crossing_at[b]:crossing_at[b + 1]``.
    partner, partner_at
        Buffers that may have the same offset as `i` and then overlap it.
    """

    size: Integers
    alignment: Integers
    fixed: Integers
    rectangles: Integers
    rect_first: Integers
    rect_last: Integers
    rect_low: Integers
    rect_high: Integers
    owner: Integers
    by_start: Integers
    start_at: Integers
    block: int
    crossing: Integers
    crossing_at: Integers
    partner: Integers
    partner_at: Integers


def layout(data: OffsetsData) -> Layout:
    """Return the layout of a part."""
    incidences = int((data.rect_last - data.rect_first).sum())
    block = max(1, incidences // (ENTRIES * len(data.rect_first)))
    before = data.rect_first // block
    counts = (data.rect_last - 1) // block - before
    crossing = np.repeat(np.arange(len(counts)), counts)
    ranks = np.arange(len(crossing)) - np.repeat(np.cumsum(counts) - counts, counts)
    blocks = before[crossing] + 1 + ranks
    by_start = np.argsort(data.rect_first, kind="stable")
    both = np.concatenate((data.inplace, data.inplace[:, ::-1]))
    both = np.unique(both, axis=0)
    return Layout(
        size=data.size,
        alignment=data.alignment,
        fixed=data.fixed,
        rectangles=data.rectangles.astype(np.int64),
        rect_first=data.rect_first,
        rect_last=data.rect_last,
        rect_low=data.rect_low,
        rect_high=data.rect_high,
        owner=np.repeat(np.arange(data.count), np.diff(data.rectangles)),
        by_start=by_start,
        start_at=_pointers(data.rect_first[by_start], data.sections),
        block=block,
        crossing=crossing[np.argsort(blocks, kind="stable")],
        crossing_at=_pointers(np.sort(blocks), -(-data.sections // block)),
        partner=np.ascontiguousarray(both[:, 1]),
        partner_at=_pointers(both[:, 0], data.count),
    )


def _pointers(keys: Integers, count: int) -> Integers:
    """Return for sorted keys below `count` where those of each key begin, and the end of the last."""
    return np.searchsorted(keys, np.arange(count + 1)).astype(np.int64)
