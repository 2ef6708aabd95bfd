"""Least makespans through a label: priced areas, sums of durations, labels of the other direction."""

from __future__ import annotations

import numpy as np

from ...engines.kernels import inner


@inner
def areas(shape, prices, started, area, best_behind):  # type: ignore[no-untyped-def]
    """Write the prices of unstarted ops, and the best bounds from them, by vector and rank of tails.

    ``area[z, r]`` is the price of the unstarted ops among the first r + 1 by falling tail, and
    ``best_behind[z, r]`` the most of ``area[z, q] + scale * tail`` over the unstarted ops of rank q >= r.
    """
    vectors, n = prices.shape
    scale = shape.numbers[0] << 20
    for z in range(vectors):
        total = np.int64(0)
        for r in range(n):
            i = shape.by_tail[r]
            if not started >> i & 1:
                total += prices[z, i] * shape.duration[i]
            area[z, r] = total
        best = np.int64(0)
        for r in range(n - 1, -1, -1):
            i = shape.by_tail[r]
            if not started >> i & 1:
                best = max(best, area[z, r] + scale * shape.tail[i])
            best_behind[z, r] = best


@inner
def fullest(shape, started):  # type: ignore[no-untyped-def]
    """Return a tail, such that the unstarted ops with no shorter one keep the processors busy the longest.

    Returns
    -------
    tuple
        The tail, the ops, how many they are, and their time.
    """
    best, tail, ops, few, work = np.int64(-1), np.int64(0), np.int64(0), 0, np.int64(0)
    area, among, many = np.int64(0), np.int64(0), 0
    for i in shape.by_tail:
        if not started >> i & 1:
            area += shape.duration[i]
            among |= np.int64(1) << i
            many += 1
            if area + shape.numbers[0] * shape.tail[i] > best:
                best = area + shape.numbers[0] * shape.tail[i]
                tail, ops, few, work = shape.tail[i], among, many, area
    return tail, ops, few, work


@inner
def write_sums(shape, chosen, sums):  # type: ignore[no-untyped-def]
    """Write the sums of durations of some of the chosen ops, as bits, as far as there is room."""
    sums[:] = 0
    sums[0] = 1
    for i in range(len(shape.duration)):
        words, bits = shape.duration[i] >> 6, np.uint64(shape.duration[i] & 63)
        if not chosen >> i & 1 or words >= len(sums):
            continue
        for w in range(len(sums) - 1, words - 1, -1):
            moved = sums[w - words] << bits
            if bits and w > words:
                moved |= sums[w - words - 1] >> (np.uint64(64) - bits)
            sums[w] |= moved


@inner
def room_until(sums, until, now, ends, running, processors):  # type: ignore[no-untyped-def]
    """Return how much work of such sums the processors can do at most, between what runs and a time."""
    room = np.int64(0)
    for y in range(processors):
        free = until - (ends[y] if y < running else now)
        if free <= 0:
            continue
        word = free >> 6
        bits = sums[word] << np.uint64(63 - (free & 63))
        free -= 0 if bits else 1 + (free & 63)
        while not bits:
            word -= 1
            bits = sums[word]
            free -= 0 if bits else 64
        for step in (32, 16, 8, 4, 2, 1):
            if not bits >> np.uint64(64 - step):
                bits <<= np.uint64(step)
                free -= step
        room += free
    return room


@inner
def meet(shape, others, started, shortest, now, ops, ends, running, reach, below):  # type: ignore[no-untyped-def]
    """Return the least bound with a label of the other direction, `reach` at least; see `meeting`."""
    rest = (np.int64(1) << len(shape.duration)) - 1 & ~started
    least = now + shortest
    for y in range(running):
        rest |= np.int64(1) << ops[y]
        least = min(least, ends[y])
    place = ((rest * np.int64(7046029254386353131)) >> 17) & (len(others.table) - 1)
    while others.table[place] != rest:
        if others.table[place] == -1:
            return below
        place = (place + 1) & (len(others.table) - 1)
    best = below
    for r in range(others.at[others.row[place]], others.at[others.row[place] + 1]):
        bound = max(reach, others.bound[r], others.time[r] + least)
        if bound >= best:
            continue
        for x in range(others.ops.shape[1]):
            i = others.ops[r, x]
            if i < 0:
                break
            start = now
            for y in range(running):
                if ops[y] == i:
                    start = ends[y] - shape.duration[i]
            bound = max(bound, others.ends[r, x] + start)
        best = min(best, bound)
        if best <= reach:
            break
    return best
