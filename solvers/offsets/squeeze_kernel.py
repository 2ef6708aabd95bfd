"""Guided ejection under a height, compiled; `local_search` says what it does and why.

The rectangles in place are kept twice, by bottom and by top, so that a buffer finds the ends of the
intervals that it must avoid in order, in one pass and without sorting.
"""

from __future__ import annotations

import numpy as np

from ...models.arrays import Integers
from ..engines.kernels import inner, kernel
from .layout import Layout

OUT = -1
"""Offset of a buffer that has no place now."""
EDGE, FIRST, LAST, RECT = range(4)
FIXED = 2**40
"""Weight of what must not be ejected."""
MOVES = 4
"""Buffers in place that may move at random after each step."""


@kernel
def squeeze(
    layout: Layout,
    offsets: Integers,
    by_bottom: Integers,
    by_top: Integers,
    weights: Integers,
    target: int,
    steps: int,
    seed: int,
) -> int:
    """Try to place what is out (offset -1) so that nothing ends above the target; return how many are left.

    Parameters
    ----------
    layout
        Of the part.
    offsets
        In units; changed in place. What lies there must not overlap, nor end above the target.
    by_bottom, by_top
        The rectangles in place, sorted.
    weights
        By buffer, one more than how often others had to make room for it; changed in place.
    target
        The height.
    steps
        How many placings to do at most.
    seed
        Of all random choices.
    """
    np.random.seed(seed)
    count, rows = len(layout.size), len(layout.owner)
    bottoms = np.empty((4, rows), np.int64)
    tops = np.empty((4, rows), np.int64)
    pool = np.empty(count, np.int64)
    left = np.int64(0)
    for i in range(count):
        if offsets[i] == OUT:
            pool[left] = i
            left += 1
    held = np.int64(len(by_bottom))
    for k in range(held):
        r, q = by_bottom[k], by_top[k]
        put_edge(layout, r, offsets[layout.owner[r]] + layout.rect_low[r], bottoms, k)
        put_edge(layout, q, offsets[layout.owner[q]] + layout.rect_high[q], tops, k)
    lows = np.empty(rows, np.int64)
    low_weights = np.empty(rows, np.int64)
    highs = np.empty(rows, np.int64)
    high_weights = np.empty(rows, np.int64)
    for _ in range(steps):
        if left == 0:
            break
        chosen = np.random.randint(int(left))
        i = pool[chosen]
        needed = held * (layout.rectangles[i + 1] - layout.rectangles[i])
        if needed > len(lows):
            lows = np.empty(needed, np.int64)
            low_weights = np.empty(needed, np.int64)
            highs = np.empty(needed, np.int64)
            high_weights = np.empty(needed, np.int64)
        met = gather(layout, i, offsets, weights, bottoms, held, True, lows, low_weights)
        gather(layout, i, offsets, weights, tops, held, False, highs, high_weights)
        offset, cost = lightest(layout, i, target, met, lows, low_weights, highs, high_weights)
        offset, cost = beside_partner(layout, i, target, offsets, weights, bottoms, held, offset, cost)
        if cost > 0:
            weights[i] += 1
        if cost >= FIXED:
            continue
        left -= 1
        pool[chosen] = pool[left]
        if cost > 0:
            z = 0
            while z < held:
                j = layout.owner[bottoms[RECT, z]]
                if clash(layout, i, offset, bottoms, z) and not together(layout, i, j, offset, offsets):
                    held = take(layout, j, bottoms, tops, held)
                    offsets[j] = OUT
                    pool[left] = j
                    left += 1
                    z = 0
                else:
                    z += 1
        offsets[i] = offset
        held = put(layout, i, offset, bottoms, tops, held)
        for _ in range(MOVES):
            i = np.random.randint(count)
            several = layout.rectangles[i + 1] - layout.rectangles[i] > 1
            if several or offsets[i] == OUT or layout.fixed[i] >= 0:
                continue
            held = take(layout, i, bottoms, tops, held)
            met = gather(layout, i, offsets, weights, bottoms, held, True, lows, low_weights)
            gather(layout, i, offsets, weights, tops, held, False, highs, high_weights)
            offset, cost = lightest(layout, i, target, met, lows, low_weights, highs, high_weights)
            if cost == 0:
                offsets[i] = offset
            held = put(layout, i, offsets[i], bottoms, tops, held)
    return int(left)


@inner
def put(layout: Layout, i: int, offset: int, bottoms: Integers, tops: Integers, held: int) -> int:
    """Put a buffer's rectangles in place; return how many are."""
    for r in range(layout.rectangles[i], layout.rectangles[i + 1]):
        put_edge(layout, r, offset + layout.rect_low[r], bottoms, held)
        put_edge(layout, r, offset + layout.rect_high[r], tops, held)
        held += 1
    return held


@inner
def put_edge(layout: Layout, r: int, edge: int, edges: Integers, held: int) -> None:
    """Insert the lower or upper edge of a rectangle into those in place."""
    at = held
    while at and edges[EDGE, at - 1] > edge:
        at -= 1
    for row in range(4):
        for k in range(held, at, -1):
            edges[row, k] = edges[row, k - 1]
    edges[EDGE, at], edges[RECT, at] = edge, r
    edges[FIRST, at], edges[LAST, at] = layout.rect_first[r], layout.rect_last[r]


@inner
def take(layout: Layout, i: int, bottoms: Integers, tops: Integers, held: int) -> int:
    """Take a buffer's rectangles out; return how many are still in place."""
    for r in range(layout.rectangles[i], layout.rectangles[i + 1]):
        held -= 1
        for edges in (bottoms, tops):
            at = 0
            while edges[RECT, at] != r:
                at += 1
            for row in range(4):
                for k in range(at, held):
                    edges[row, k] = edges[row, k + 1]
    return held


@inner
def gather(
    layout: Layout,
    i: int,
    offsets: Integers,
    weights: Integers,
    edges: Integers,
    held: int,
    lower: bool,
    ends: Integers,
    end_weights: Integers,
) -> int:
    """Collect the lower or the upper ends of the intervals to avoid, sorted, and weights; return how many."""
    found = 0
    begin, end = layout.rectangles[i], layout.rectangles[i + 1]
    for r in range(begin, end):
        first, last = layout.rect_first[r], layout.rect_last[r]
        own = layout.rect_high[r] if lower else layout.rect_low[r]
        for k in range(held):
            if edges[FIRST, k] < last and edges[LAST, k] > first:
                j = layout.owner[edges[RECT, k]]
                ends[found] = edges[EDGE, k] - own
                end_weights[found] = FIXED if layout.fixed[j] >= 0 else weights[j]
                found += 1
    if end - begin > 1:
        gap = found // 2
        while gap:  # Shell's sort
            for k in range(gap, found):
                edge, weight = ends[k], end_weights[k]
                at = k
                while at >= gap and ends[at - gap] > edge:
                    ends[at], end_weights[at] = ends[at - gap], end_weights[at - gap]
                    at -= gap
                ends[at], end_weights[at] = edge, weight
            gap //= 2
    return found


@inner
def lightest(
    layout: Layout,
    i: int,
    target: int,
    met: int,
    lows: Integers,
    low_weights: Integers,
    highs: Integers,
    high_weights: Integers,
) -> tuple[int, int]:
    """Return an offset under the target where what is in the way weighs least, and that weight.

    Only offsets at an end of an interval, 0, and the one at the target are looked at: the weight is least
    at one of them. Of several, each is as likely.
    """
    a = layout.alignment[i]
    most = (target - layout.size[i]) // a * a
    best = OUT
    least = FIXED
    ties = 0
    for direction in range(2):
        below = np.int64(0)
        above = np.int64(0)
        weight = 0
        for k in range(met + 1):
            if direction == 0:
                offset = 0 if k == 0 else -(-highs[k - 1] // a) * a
            else:
                offset = most if k == met else min(most, lows[k] // a * a)
            if offset < 0:
                continue
            if offset > most:
                break
            while below < met and lows[below] < offset:
                weight += low_weights[below]
                below += 1
            while above < met and highs[above] <= offset:
                weight -= high_weights[above]
                above += 1
            if weight < least:
                best, least, ties = offset, weight, 1
            elif weight == least and weight < FIXED:
                ties += 1
                if np.random.randint(ties) == 0:
                    best = offset
    return best, least


@inner
def clash(layout: Layout, i: int, offset: int, bottoms: Integers, z: int) -> bool:
    """Return whether a buffer at an offset would overlap a rectangle in place."""
    q = bottoms[RECT, z]
    bottom = bottoms[EDGE, z]
    top = bottom + layout.rect_high[q] - layout.rect_low[q]
    for r in range(layout.rectangles[i], layout.rectangles[i + 1]):
        at_once = layout.rect_first[r] < bottoms[LAST, z] and bottoms[FIRST, z] < layout.rect_last[r]
        if at_once and offset + layout.rect_low[r] < top and bottom < offset + layout.rect_high[r]:
            return True
    return False


@inner
def together(layout: Layout, i: int, j: int, offset: int, offsets: Integers) -> bool:
    """Return whether two buffers are partners at one offset."""
    if offsets[j] == offset:
        for p in range(layout.partner_at[i], layout.partner_at[i + 1]):
            if layout.partner[p] == j:
                return True
    return False


@inner
def beside_partner(
    layout: Layout,
    i: int,
    target: int,
    offsets: Integers,
    weights: Integers,
    bottoms: Integers,
    held: int,
    best: int,
    least: int,
) -> tuple[int, int]:
    """Return the offset of a partner in place, and the weight in the way there, if that is no more."""
    for p in range(layout.partner_at[i], layout.partner_at[i + 1]):
        offset = offsets[layout.partner[p]]
        if offset == OUT or offset % layout.alignment[i] or offset + layout.size[i] > target:
            continue
        weight = 0
        for z in range(held):
            j = layout.owner[bottoms[RECT, z]]
            if clash(layout, i, offset, bottoms, z) and not together(layout, i, j, offset, offsets):
                weight += FIXED if layout.fixed[j] >= 0 else weights[j]
        if weight <= least:
            best, least = offset, weight
    return best, least
