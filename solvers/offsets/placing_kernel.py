"""Placing buffers one by one, compiled; `placing.place_plainly` says what it does.

The rectangles in place are kept by their bottom, in chunks, so that one more moves few others. A buffer looks
at them from the lowest on, and needs to look no further than the first hole unless the tightest is wanted.

Kernels that call each other stand in this one file: the compiler's cache knows no other.
"""

from __future__ import annotations

import numpy as np

from ...models.arrays import Integers
from ..engines.kernels import inner, kernel
from .layout import Layout

NOWHERE = -1
"""Offset of a buffer that has no place yet."""
CHUNK = 1024
"""Rows that are kept together: what an insertion moves at most."""
FIRST, LAST, BOTTOM, TOP, OWNER = range(5)


@kernel
def place(layout: Layout, order: Integers, wishes: Integers, best_fit: bool) -> Integers:
    """Return offsets in units, as `place_plainly` does."""
    offsets = np.full(len(layout.size), NOWHERE)
    count = len(layout.owner)
    chunks = 2 + 2 * count // CHUNK
    held = np.empty((chunks, 5, CHUNK if count > CHUNK else count), np.int64)
    counts = np.zeros(chunks, np.int64)
    sequence = np.zeros(chunks, np.int64)
    used = np.int64(1)
    room = np.empty((3, 64), np.int64)
    height = np.int64(0)
    for i in order:
        size = layout.size[i]
        begin, end = layout.rectangles[i], layout.rectangles[i + 1]
        r = begin
        offset = layout.fixed[i]
        simple = end - begin == 1 and layout.rect_high[r] - layout.rect_low[r] == size
        simple = simple and wishes[i] < 0 and layout.partner_at[i] == layout.partner_at[i + 1]
        if offset < 0 and simple:
            offset = hole(layout, i, held, counts, sequence[:used], best_fit)
        elif offset < 0:
            found = forbidden(layout, i, held, counts, sequence[:used], room)
            if found > room.shape[1]:
                room = np.empty((3, 2 * found), np.int64)
                found = forbidden(layout, i, held, counts, sequence[:used], room)
            offset = choose(layout, i, offsets, wishes[i], best_fit, height, room[:, :found])
        offsets[i] = offset
        height = max(height, offset + size)
        for r in range(begin, end):
            used = insert(layout, r, offset, held, counts, sequence, used)
    return offsets


@inner
def insert(
    layout: Layout, r: int, offset: int, held: Integers, counts: Integers, sequence: Integers, used: int
) -> int:
    """Put a rectangle in place; return how many chunks are used."""
    bottom = offset + layout.rect_low[r]
    z = 0
    while z + 1 < used and held[sequence[z + 1], BOTTOM, 0] <= bottom:
        z += 1
    c = sequence[z]
    capacity = held.shape[2]
    if counts[c] == capacity:
        half = capacity // 2
        for row in range(5):
            for k in range(half, capacity):
                held[used, row, k - half] = held[c, row, k]
        counts[used], counts[c] = capacity - half, half
        for y in range(used, z + 1, -1):
            sequence[y] = sequence[y - 1]
        sequence[z + 1] = used
        if held[used, BOTTOM, 0] <= bottom:
            c = used
        used += 1
    at = counts[c]
    while at and held[c, BOTTOM, at - 1] > bottom:
        at -= 1
    for row in range(5):
        for k in range(counts[c], at, -1):
            held[c, row, k] = held[c, row, k - 1]
    held[c, FIRST, at], held[c, LAST, at] = layout.rect_first[r], layout.rect_last[r]
    held[c, BOTTOM, at], held[c, TOP, at] = bottom, offset + layout.rect_high[r]
    held[c, OWNER, at] = layout.owner[r]
    counts[c] += 1
    return used


@inner
def hole(layout: Layout, i: int, held: Integers, counts: Integers, sequence: Integers, best_fit: bool) -> int:
    """Return the offset of a buffer of one full rectangle, without fixed offset, wish or partner."""
    r = layout.rectangles[i]
    first, last, size, a = layout.rect_first[r], layout.rect_last[r], layout.size[i], layout.alignment[i]
    found = NOWHERE
    tightest = 0
    reached = 0
    for c in sequence:
        firsts, lasts, bottoms, tops = held[c, FIRST], held[c, LAST], held[c, BOTTOM], held[c, TOP]
        for k in range(counts[c]):
            if firsts[k] < last and lasts[k] > first:
                slack = bottoms[k] - size - reached
                if slack >= 0 and (found == NOWHERE or slack < tightest):
                    found = reached
                    tightest = slack
                    if not best_fit:
                        return found
                if tops[k] > reached:
                    reached = tops[k] if a == 1 else -(-tops[k] // a) * a
    return reached if found == NOWHERE else found


@inner
def forbidden(
    layout: Layout, i: int, held: Integers, counts: Integers, sequence: Integers, room: Integers
) -> int:
    """Return how many open intervals there are to avoid, and lower end, upper end and owner of each.

    If `room` is too small, it holds nothing of use.
    """
    found = 0
    for r in range(layout.rectangles[i], layout.rectangles[i + 1]):
        first, last = layout.rect_first[r], layout.rect_last[r]
        for c in sequence:
            for k in range(counts[c]):
                if held[c, FIRST, k] < last and held[c, LAST, k] > first:
                    if found < room.shape[1]:
                        room[0, found] = held[c, BOTTOM, k] - layout.rect_high[r]
                        room[1, found] = held[c, TOP, k] - layout.rect_low[r]
                        room[2, found] = held[c, OWNER, k]
                    found += 1
    sort_columns(room, min(found, room.shape[1]))
    return found


@inner
def sort_columns(room: Integers, count: int) -> None:
    """Sort the first columns by their first entry: Shell's sort, which compiles fast."""
    gap = count // 2
    while gap:
        for k in range(gap, count):
            low, high, owner = room[0, k], room[1, k], room[2, k]
            at = k
            while at >= gap and room[0, at - gap] > low:
                for row in range(3):
                    room[row, at] = room[row, at - gap]
                at -= gap
            room[0, at], room[1, at], room[2, at] = low, high, owner
        gap = gap // 2


@inner
def choose(
    layout: Layout, i: int, offsets: Integers, wish: int, best_fit: bool, height: int, intervals: Integers
) -> int:
    """Return the offset of a buffer that is not fixed, given the intervals to avoid."""
    a = layout.alignment[i]
    if wish >= 0 and wish % a == 0 and not blocked(layout, i, wish, offsets, intervals):
        return wish
    found = NOWHERE
    tightest = 0
    reached = 0
    for k in range(intervals.shape[1]):
        slack = intervals[0, k] - reached
        if slack >= 0 and (found == NOWHERE or (best_fit and slack < tightest)):
            found = reached
            tightest = slack
        reached = max(reached, -(-intervals[1, k] // a) * a)
    if found == NOWHERE:
        found = reached
    shared = NOWHERE
    for p in range(layout.partner_at[i], layout.partner_at[i + 1]):
        offset = offsets[layout.partner[p]]
        if offset == NOWHERE or offset % a or (shared != NOWHERE and offset >= shared):
            continue
        if not blocked(layout, i, offset, offsets, intervals):
            shared = offset
    if shared != NOWHERE and shared + layout.size[i] <= max(height, found + layout.size[i]):
        return shared
    return found


@inner
def blocked(layout: Layout, i: int, offset: int, offsets: Integers, intervals: Integers) -> bool:
    """Return whether an offset is in an interval to avoid, but for those of partners who share it."""
    for k in range(intervals.shape[1]):
        if intervals[0, k] < offset < intervals[1, k]:
            j = intervals[2, k]
            partner = False
            for p in range(layout.partner_at[i], layout.partner_at[i + 1]):
                partner = partner or layout.partner[p] == j
            if not partner or offsets[j] != offset:
                return True
    return False
