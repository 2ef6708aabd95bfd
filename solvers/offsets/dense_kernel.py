"""Guided ejection with one number per address, compiled: several times faster where heights are small.

The same search as `squeeze_kernel.squeeze`. What lies in the way of a buffer at each offset is added up along
all offsets below the target: each neighbour adds its weight to the ranges of offsets that it forbids. That
takes one pass over the neighbours and one over the addresses, without any order to keep, and gaps, windows
and in-place pairs are nothing but other ranges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...formulations.offsets.data import OffsetsData
from ...formulations.offsets.differences import forbidden_rows
from ...models.arrays import Integers
from ..engines.kernels import inner, kernel

OUT = -1
"""Offset of a buffer that has no place now."""
FIXED = 2**40
"""Weight of what must not be ejected."""
MOVES = 3
"""Buffers in place that are moved at random after each step."""
ADDRESSES = 2**13
"""Height in units up to which a pass over the addresses pays."""
PAIRS = 500_000
"""Pairs of rectangles that start before the other ends, up to which all are listed."""


class Differences(NamedTuple):
    """A part as flat arrays; kernels take it as one argument.

    Attributes
    ----------
    size, alignment, fixed
        By buffer, as in `OffsetsData`.
    begin
        The entries of buffer `i` are ``begin[i]:begin[i + 1]``; those of one neighbour do not overlap.
    other, low, high
        By entry: the offset of `i` less that of `other` must not be in ``[low, high]``.
    """

    size: Integers
    alignment: Integers
    fixed: Integers
    begin: Integers
    other: Integers
    low: Integers
    high: Integers


def differences(data: OffsetsData) -> Differences | None:
    """Return the arrays of a part, or None if too many buffers meet.

    The ranges are those of `forbidden_rows`; for in-place pairs without 0.
    """
    begin = np.sort(data.rect_first)
    behind = np.searchsorted(begin, np.sort(data.rect_last))
    if int(behind.sum()) - len(begin) * (len(begin) + 1) // 2 > PAIRS:
        return None
    i, j, first, last = forbidden_rows(data)
    permitted = np.isin(i * data.count + j, np.sort(data.inplace, axis=1) @ np.array([data.count, 1]))
    zero = permitted & (first <= 0) & (last >= 0)
    one = np.ones_like(first)
    pieces = ((~zero, first, last), (zero & (first < 0), first, -one), (zero & (last > 0), one, last))
    rows = [np.stack((i, j, low, high))[:, some] for some, low, high in pieces]
    i, j, first, last = np.concatenate(rows, axis=1)
    table = np.stack((np.append(j, i), np.append(i, j), np.append(first, -last), np.append(last, -first)))
    table = np.ascontiguousarray(table[:, np.lexsort(table[::-1])])
    owned = np.searchsorted(table[0], np.arange(data.count + 1)).astype(np.int64)
    return Differences(data.size, data.alignment, data.fixed, owned, table[1], table[2], table[3])


@kernel
def squeeze_dense(
    part: Differences, offsets: Integers, weights: Integers, target: int, steps: int, seed: int
) -> int:
    """Try to place what is out (offset -1) so that nothing ends above the target; return how many are left.

    Parameters
    ----------
    part
        The arrays of the part.
    offsets
        In units; changed in place. What lies there must not overlap, nor end above the target; no fixed
        buffer is out.
    weights
        By buffer, how hard it was to place so far; changed in place.
    target
        The height, at most `ADDRESSES`.
    steps
        How many placings to do at most.
    seed
        Of all random choices.
    """
    np.random.seed(seed)
    count = len(part.size)
    change = np.zeros(target + 2, np.int64)
    ties = np.empty(2 * target + 4, np.int64)
    pool = np.empty(count, np.int64)
    left = 0
    for i in range(count):
        if offsets[i] == OUT:
            pool[left] = i
            left += 1
    for _ in range(steps):
        if left == 0:
            break
        k = np.random.randint(left)
        i = pool[k]
        cost, found = lightest(part, offsets, weights, i, target, change, ties)
        weights[i] += 1
        if cost >= FIXED:
            continue
        offset = ties[np.random.randint(found)]
        left -= 1
        pool[k] = pool[left]
        for e in range(part.begin[i], part.begin[i + 1]):
            j = part.other[e]
            if offsets[j] != OUT and part.low[e] <= offset - offsets[j] <= part.high[e]:
                offsets[j] = OUT
                pool[left] = j
                left += 1
        offsets[i] = offset
        for _ in range(MOVES):
            i = np.random.randint(count)
            if offsets[i] != OUT and part.fixed[i] < 0:
                _, found = lightest(part, offsets, weights, i, target, change, ties)
                offsets[i] = ties[np.random.randint(found)]
    return left


@inner
def lightest(
    part: Differences,
    offsets: Integers,
    weights: Integers,
    i: int,
    target: int,
    change: Integers,
    ties: Integers,
) -> tuple[int, int]:
    """Return the least weight in the way of a buffer, and how many offsets with it were written to `ties`.

    These are the ends of the stretches of such offsets: there the buffer touches what bounds them.
    `change` is all zeros before and after.
    """
    a = part.alignment[i]
    most = target - part.size[i]
    least = FIXED
    found = 0
    for e in range(part.begin[i], part.begin[i + 1]):
        j = part.other[e]
        if offsets[j] == OUT:
            continue
        low, high = max(0, offsets[j] + part.low[e]), offsets[j] + part.high[e] + 1
        if low <= most and high > 0:
            weight = FIXED if part.fixed[j] >= 0 else weights[j]
            change[low] += weight
            if high <= most:
                change[high] -= weight
    total = 0
    start = 0
    for offset in range(most + 2):
        if change[offset] == 0 and offset <= most:
            continue
        if total <= least and start < offset:
            bottom, top = -(-start // a) * a, (offset - 1) // a * a
            if bottom <= top and total < FIXED:
                if total < least:
                    least, found = total, 0
                ties[found] = bottom
                found += 1
                if bottom < top:
                    ties[found] = top
                    found += 1
        if offset <= most:
            total += int(change[offset])
            change[offset] = 0
            start = offset
    return least, found
