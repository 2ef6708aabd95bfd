"""Placing buffers as an allocator at run time would: in the order of their starts, into free addresses.

Only what is alive at the time matters, so one pass over the starts and ends is enough: 100,000 buffers take
some tenths of a second. Run backwards in time, it is another heuristic.
"""

from __future__ import annotations

import numpy as np

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers
from ..engines.kernels import inner, is_loaded, kernel, plain

CHUNK = 128
"""Free ranges are kept by address, in chunks of so many at most, so that one more moves few others; chunks
without a range that is wide enough are passed over."""

LOW, HIGH = range(2)

PLAIN = 2500
"""Buffers, or rectangles, above which compiled code is faster though it has to be loaded, or compiled."""


def place_as_they_come(data: OffsetsData, *, best_fit: bool = False, backwards: bool = False) -> Integers:
    """Return offsets in units.

    Of buffers that start in one section the largest comes first. Gaps and in-place pairs are not made use
    of, and the addresses of fixed buffers not at other times.

    Parameters
    ----------
    best_fit
        Take the tightest free range instead of the lowest.
    backwards
        Begin at the end of time.
    """
    begin, end = (-data.last, -data.first) if backwards else (data.first, data.last)
    arrivals = np.lexsort((data.first - data.last, -data.size, begin))
    leaving = np.argsort(end, kind="stable")
    taken = np.lexsort((data.size, data.fixed))
    taken = taken[data.fixed[taken] >= 0]
    place = place_in_turn if is_loaded(place_in_turn) or data.count > PLAIN else plain(place_in_turn)
    offsets: Integers = place(
        arrivals, leaving, begin, end, data.size, data.alignment, data.fixed, taken, best_fit
    )
    return offsets


@kernel
def place_in_turn(
    arrivals: Integers,
    leaving: Integers,
    begins: Integers,
    ends: Integers,
    sizes: Integers,
    alignments: Integers,
    fixed: Integers,
    taken: Integers,
    best_fit: bool,
) -> Integers:
    """Return offsets; the free ranges are disjoint, do not touch, and the last one has no end."""
    offsets = fixed.copy()
    chunks = 2 + 3 * len(sizes) // (CHUNK // 2)  # a chunk is full again after as many more ranges
    held = np.empty((chunks, 2, CHUNK), np.int64)
    counts, widest, sequence = np.zeros(chunks, np.int64), np.zeros(chunks, np.int64), np.arange(chunks)
    held[0, LOW, 0], held[0, HIGH, 0] = 0, 2**62
    counts[0], widest[0] = 1, 2**62
    used = 1
    for j in taken:
        z, end = used - 1, fixed[j] + sizes[j]
        last = counts[sequence[z]] - 1
        low = held[sequence[z], LOW, last]
        if end > low:
            used = cut(held, counts, widest, sequence, used, z, last, max(fixed[j], low), end)
    gone = 0
    for i in arrivals:
        if fixed[i] >= 0:
            continue
        while ends[leaving[gone]] <= begins[i]:
            j = leaving[gone]
            gone += 1
            if fixed[j] < 0:
                used = release(held, counts, widest, sequence, used, offsets[j], offsets[j] + sizes[j])
        a = alignments[i]
        chosen, place, least = used - 1, counts[sequence[used - 1]] - 1, 2**62
        for z in range(used):
            c = sequence[z]
            if widest[c] < sizes[i]:
                continue
            for k in range(counts[c]):
                low, high = held[c, LOW, k], held[c, HIGH, k]
                if sizes[i] <= high - low < least and -(-low // a) * a + sizes[i] <= high:
                    chosen, place, least = z, k, high - low
                    if not best_fit:
                        break
            if not best_fit and least < 2**62:
                break
        low = held[sequence[chosen], LOW, place]
        offsets[i] = -(-low // a) * a
        end = offsets[i] + sizes[i]
        used = cut(held, counts, widest, sequence, used, chosen, place, offsets[i], end)
    return offsets


@inner
def cut(
    held: Integers,
    counts: Integers,
    widest: Integers,
    sequence: Integers,
    used: int,
    z: int,
    k: int,
    low: int,
    high: int,
) -> int:
    """Take ``[low, high)`` out of range number `k` of chunk `z`; return how many chunks are used."""
    c = sequence[z]
    before, behind = held[c, LOW, k], held[c, HIGH, k]
    if low == before and high == behind:
        used = remove(held, counts, widest, sequence, used, z, k)
        return used
    if before < low:
        held[c, HIGH, k] = low
    else:
        held[c, LOW, k] = high
    measure(held, counts, widest, c)
    if before < low and high < behind:
        used = insert(held, counts, widest, sequence, used, z, k + 1, high, behind)
    return used


@inner
def release(
    held: Integers, counts: Integers, widest: Integers, sequence: Integers, used: int, low: int, high: int
) -> int:
    """Make ``[low, high)`` free; return how many chunks are used."""
    z = 0
    while z + 1 < used and held[sequence[z + 1], LOW, 0] <= low:
        z += 1
    c = sequence[z]
    k = np.searchsorted(held[c, LOW, : counts[c]], low)
    over, at = (z, k) if k < counts[c] else (z + 1, 0)  # there is one: the last range has no end
    d = sequence[over]
    below, above = k > 0 and held[c, HIGH, k - 1] == low, held[d, LOW, at] == high
    if below:
        held[c, HIGH, k - 1] = held[d, HIGH, at] if above else high
        widest[c] = max(widest[c], held[c, HIGH, k - 1] - held[c, LOW, k - 1])
        if above:
            used = remove(held, counts, widest, sequence, used, over, at)
    elif above:
        held[d, LOW, at] = low
        widest[d] = max(widest[d], held[d, HIGH, at] - low)
    else:
        used = insert(held, counts, widest, sequence, used, z, k, low, high)
    return used


@inner
def insert(
    held: Integers,
    counts: Integers,
    widest: Integers,
    sequence: Integers,
    used: int,
    z: int,
    k: int,
    low: int,
    high: int,
) -> int:
    """Put a range before number `k` of chunk `z`; return how many chunks are used."""
    c = sequence[z]
    if counts[c] == CHUNK:
        half = CHUNK // 2
        new = sequence[used]
        for row in range(2):
            for x in range(half):
                held[new, row, x] = held[c, row, half + x]
        for y in range(used, z + 1, -1):
            sequence[y] = sequence[y - 1]
        sequence[z + 1] = new
        used += 1
        counts[c] = counts[new] = half
        measure(held, counts, widest, c)
        measure(held, counts, widest, new)
        if k > half:
            c, k = new, k - half
    for x in range(counts[c], k, -1):
        held[c, LOW, x], held[c, HIGH, x] = held[c, LOW, x - 1], held[c, HIGH, x - 1]
    held[c, LOW, k], held[c, HIGH, k] = low, high
    counts[c] += 1
    widest[c] = max(widest[c], high - low)
    return used


@inner
def remove(
    held: Integers, counts: Integers, widest: Integers, sequence: Integers, used: int, z: int, k: int
) -> int:
    """Drop range number `k` of chunk `z`; return how many chunks are used."""
    c = sequence[z]
    counts[c] -= 1
    for x in range(k, counts[c]):
        held[c, LOW, x], held[c, HIGH, x] = held[c, LOW, x + 1], held[c, HIGH, x + 1]
    if counts[c]:
        measure(held, counts, widest, c)
        return used
    for y in range(z, used - 1):
        sequence[y] = sequence[y + 1]
    sequence[used - 1] = c
    return used - 1


@inner
def measure(held: Integers, counts: Integers, widest: Integers, c: int) -> None:
    """Note the widest range of a chunk."""
    found = np.int64(0)
    for k in range(counts[c]):
        found = max(found, held[c, HIGH, k] - held[c, LOW, k])
    widest[c] = found
