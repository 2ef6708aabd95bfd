"""The verifier's quick look at allocations: a map of the addresses, carried through time.

The ends of all address ranges cut the addresses of a pool into cells. In the order of time, ends before
beginnings, each range empties its cells or fills them; two buffers overlap only where a cell is filled that
is filled already. This look only ever *accepts*: where a cell is met full (buffers in place share theirs), or
there are too many cells to fill, it says nothing, and the sweep judges, which finds the pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

Box = tuple[int, int, int, int]
"""Begin and end of a time, low and high end of a range of addresses; neither is empty."""

MOST = 2**28
"""Cells that are filled and emptied at most, over all boxes: some hundredths of a second."""


def are_disjoint(boxes: Iterable[Sequence[Box]]) -> bool:
    """Return whether no two boxes of a pool overlap; False too where that is not at once seen.

    Parameters
    ----------
    boxes
        By pool.
    """
    return all(_are_disjoint(of_pool) for of_pool in boxes)


def _are_disjoint(boxes: Sequence[Box]) -> bool:
    try:
        begins, ends, lows, highs = (np.array(column, np.int64) for column in zip(*boxes, strict=True))
    except (OverflowError, ValueError):  # beyond 64 bits; nothing at all
        return not boxes
    borders = np.unique(np.concatenate((lows, highs)))
    first, last = np.searchsorted(borders, lows), np.searchsorted(borders, highs)
    if (last - first).sum() > MOST:
        return False
    count = len(boxes)
    moments = np.lexsort((np.repeat((0, 1), count), np.concatenate((ends, begins))))
    cells, empty, full = bytearray(len(borders)), bytes(len(borders)), b"\1" * len(borders)
    low, high = first.tolist(), last.tolist()
    for k in moments.tolist():
        if k < count:
            a, b = low[k], high[k]
            cells[a:b] = empty[a:b]
            continue
        a, b = low[k - count], high[k - count]
        if cells.find(1, a, b) >= 0:
            return False
        cells[a:b] = full[a:b]
    return True
