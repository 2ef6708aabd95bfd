"""In-place pairs as one buffer: for searches that know no pairs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import lcm

import numpy as np

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers


def _sections(data: OffsetsData, i: int) -> set[int]:
    rectangles = range(*data.rectangles[i : i + 2])
    return {s for r in rectangles for s in range(data.rect_first[r], data.rect_last[r])}


def merge_pairs(data: OffsetsData) -> tuple[OffsetsData, Integers]:
    """Return a component without in-place pairs, and the number in it of each buffer.

    Buffers of a pair become one, alive while either is, if they have the same size and their alignments
    and fixed offsets agree; chains too, if all of them that overlap are pairs. Other pairs are kept apart.
    Offsets of the component that is returned are offsets of the given one, but not the reverse.
    """
    if not len(data.inplace):
        return data, np.arange(data.count)
    pairs = {(min(a, b), max(a, b)) for a, b in data.inplace.tolist()}
    paired = {i for pair in pairs for i in pair}
    alive = [_sections(data, i) if i in paired else set() for i in range(data.count)]
    group = list(range(data.count))
    members = [[i] for i in range(data.count)]
    alignment, fixed = data.alignment.tolist(), data.fixed.tolist()
    for a, b in sorted(pairs):
        g, h = group[a], group[b]
        if g == h or data.size[a] != data.size[b] or not alive[a] & alive[b]:
            continue
        overlapping = ((i, j) for i, j in product(members[g], members[h]) if alive[i] & alive[j])
        if not all((min(x), max(x)) in pairs for x in overlapping):
            continue
        at = max(fixed[g], fixed[h])
        step = lcm(alignment[g], alignment[h])
        if min(fixed[g], fixed[h]) not in (-1, at) or (at >= 0 and at % step):
            continue
        alignment[g], fixed[g] = step, at
        for i in members[h]:
            group[i] = g
        members[g] += members[h]
    kept = sorted(set(group))
    rows = [(k, *run) for k, g in enumerate(kept) for run in _runs(data, alive, members[g])]
    owner, first, last = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    size = data.size[kept]
    change = np.zeros(data.sections + 1, dtype=np.int64)
    np.add.at(change, first, size[owner])
    np.subtract.at(change, last, size[owner])
    merged = replace(
        data,
        numbers=data.numbers[kept],
        size=size,
        alignment=np.array(alignment, dtype=np.int64)[kept],
        fixed=np.array(fixed, dtype=np.int64)[kept],
        hint=data.hint[kept],
        first=np.array([data.first[members[g]].min() for g in kept], dtype=np.int64),
        last=np.array([data.last[members[g]].max() for g in kept], dtype=np.int64),
        duration=np.array([data.duration[members[g]].max() for g in kept], dtype=np.int64),
        rectangles=np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(kept))))),
        rect_first=first,
        rect_last=last,
        rect_low=np.zeros(len(first), dtype=np.int64),
        rect_high=size[owner],
        load=np.cumsum(change)[:-1],
        inplace=np.zeros((0, 2), dtype=np.int64),
    )
    return merged, np.searchsorted(kept, group)


def _runs(data: OffsetsData, alive: list[set[int]], group: list[int]) -> list[tuple[int, int]]:
    """Return the maximal half-open ranges of sections in which a buffer of the group is alive."""
    if len(group) == 1:
        rows = range(*data.rectangles[group[0] : group[0] + 2])
        return [(int(data.rect_first[r]), int(data.rect_last[r])) for r in rows]
    runs: list[tuple[int, int]] = []
    for s in sorted(set[int]().union(*(alive[i] for i in group))):
        if runs and runs[-1][1] == s:
            runs[-1] = (runs[-1][0], s + 1)
        else:
            runs.append((s, s + 1))
    return runs
