"""A component as one tuple of flat arrays: what placing buffers one by one needs, and kernels take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers

PAIR_SECONDS = 5e-10
"""Seconds that placing all takes for each pair of buffers, at most but for the tightest holes: 4.6 s for
100,000 buffers of a tree."""


class Layout(NamedTuple):
    """A component; memory is linear in rectangles and in-place pairs.

    Attributes
    ----------
    size, alignment, fixed
        By buffer, as in `OffsetsData`.
    rectangles, rect_first, rect_last, rect_low, rect_high, owner
        Those of buffer `i` are ``rectangles[i]:rectangles[i + 1]``; `owner` is the buffer of each.
    partner, partner_at
        Buffers that may have the same offset as `i` and then overlap it:
        ``partner[partner_at[i] : partner_at[i + 1]]``.
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
    partner: Integers
    partner_at: Integers


def layout(data: OffsetsData) -> Layout:
    """Return the layout of a component."""
    both = np.unique(np.concatenate((data.inplace, data.inplace[:, ::-1])), axis=0)
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
        partner=np.ascontiguousarray(both[:, 1]),
        partner_at=np.searchsorted(both[:, 0], np.arange(data.count + 1)).astype(np.int64),
    )


def is_short(data: OffsetsData, seconds: float) -> bool:
    """Return whether placing all buffers of a component once more may take longer than so many seconds."""
    return seconds <= PAIR_SECONDS * data.count**2
