r"""Which differences of two offsets are allowed: what exact models of `offsets` are made of.

Let buffers i and j have rectangles with the windows [a, b) and [c, d) in a common section. These are disjoint
if and only if the difference :math:`\delta = o_j - o_i` is at least b - c or at most a - d; so they forbid
the integers :math:`a - d < \delta < b - c`. Two buffers are apart if and only if no two of their rectangles
forbid their difference: the **forbidden differences** of a pair are a union of ranges of integers. Without
windows that is one range, "i below j" and "j below i" remain; with windows j may also stand below i in one
section and above it in another, in between two ranges.

**In-place pairs** may have the difference 0 all the same. A pair is **live** if 0 is a forbidden difference;
for all others the permission changes nothing.

**Groups.** A no-overlap constraint over a set of buffers keeps all of its pairs apart, so it must not have a
live pair among them. `groups` returns sets without live pairs, and, with their differences, all pairs that
still need a constraint: the live ones, and those that meet but share no group. So each pair that meets is in
a group, or among these, or both, with exactly its own forbidden differences; this holds for every graph of
live pairs, be it a star, where the centre may share its address with one leaf now and with another one
later but never the leaves with each other, or a clique. The groups are the colour classes of a greedy
colouring of that graph, grown to maximal sets without live pairs; all buffers without live pairs are in the
first group, and in another one if they meet a colour of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...models.arrays import Integers
from .data import OffsetsData

Range = tuple[int, int]
"""Integers from the first to the last, both included."""

Pair = tuple[int, int]
"""Two buffers, the smaller index first."""


def forbidden_differences(data: OffsetsData, among: Integers | None = None) -> dict[Pair, list[Range]]:
    """Return the forbidden differences of each pair that meets, as ranges in order that do not touch.

    Permissions of in-place pairs are left out.

    Parameters
    ----------
    among
        If given, only pairs of these buffers.

    Examples
    --------
    >>> from lowtide.formulations.offsets.data import offsets_data
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x, y = Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=6)
    >>> (data,) = offsets_data(Buffers(buffers=(x, y)))
    >>> data.unit, forbidden_differences(data)
    (2, {(0, 1): [(-2, 1)]})
    """
    ranges_of: dict[Pair, list[Range]] = {}
    for i, j, first, last in forbidden_rows(data, among).T.tolist():
        ranges_of.setdefault((i, j), []).append((first, last))
    return ranges_of


def forbidden_rows(data: OffsetsData, among: Integers | None = None) -> Integers:
    """Return the same as columns of (i, j, first, last), by pair, then range."""
    owner = rectangle_owners(data)
    chosen = np.arange(len(owner)) if among is None else np.flatnonzero(np.isin(owner, among))
    chosen = chosen[np.argsort(data.rect_first[chosen], kind="stable")]
    low, high, owner = data.rect_low[chosen], data.rect_high[chosen], owner[chosen]
    # Those that begin before the end, and later in this order.
    own = np.arange(len(chosen))
    meets = np.searchsorted(data.rect_first[chosen], data.rect_last[chosen]) - own - 1
    r = np.repeat(own, meets)
    q = r + 1 + np.arange(len(r)) - np.repeat(np.cumsum(meets) - meets, meets)
    a = np.where(owner[r] < owner[q], r, q)
    b = r + q - a
    rows = np.stack((owner[a], owner[b], low[a] - high[b] + 1, high[a] - low[b] - 1))
    rows = rows[:, owner[a] != owner[b]]
    rows = rows[:, np.lexsort(rows[::-1])]
    again = (rows[:2, 1:] == rows[:2, :-1]).all(axis=0)  # several ranges of one pair
    if not again.any():
        return rows
    raw: dict[Pair, list[Range]] = {}
    several = np.append(again, False) | np.insert(again, 0, False)
    for i, j, first, last in rows[:, several].T.tolist():
        raw.setdefault((i, j), []).append((first, last))
    merged = [(*pair, *span) for pair, spans in raw.items() for span in _merged(spans)]
    rows = np.concatenate((rows[:, ~several], np.array(merged, dtype=np.int64).T), axis=1)
    return rows[:, np.lexsort(rows[::-1])]


def allowed_differences(forbidden: Iterable[Range], low: int, high: int, *, inplace: bool) -> list[Range]:
    """Return the ranges of [low, high] that are not forbidden; with 0, if `inplace`, wherever it is."""
    allowed: list[Range] = []
    reached = low
    for first, last in forbidden:
        if reached < first:
            allowed.append((reached, min(first - 1, high)))
        if inplace and first <= 0 <= last and low <= 0 <= high:
            allowed.append((0, 0))
        reached = max(reached, last + 1)
        if reached > high:
            break
    if reached <= high:
        allowed.append((reached, high))
    return [(first, last) for first, last in allowed if first <= last]


def live_pairs(data: OffsetsData) -> set[Pair]:
    """Return the in-place pairs whose permission matters."""
    if not len(data.inplace):
        return set()
    permitted = {(min(a, b), max(a, b)) for a, b in data.inplace.tolist()}
    differences = forbidden_differences(data, np.unique(data.inplace))
    return {
        pair
        for pair, ranges in differences.items()
        if pair in permitted and any(low <= 0 <= high for low, high in ranges)
    }


def groups(data: OffsetsData) -> tuple[list[Integers], dict[Pair, list[Range]]]:
    """Return the groups, and the pairs that need a constraint of their own with their differences.

    Those of live pairs lack the permission of 0; see `live_pairs`.
    """
    live = live_pairs(data)
    if not live:
        return [np.arange(data.count)], {}
    friends: dict[int, set[int]] = {}
    for a, b in live:
        friends.setdefault(a, set()).add(b)
        friends.setdefault(b, set()).add(a)
    paired = sorted(friends, key=lambda i: (-len(friends[i]), i))
    colours: list[set[int]] = []
    for i in paired:
        home = next((c for c in colours if not c & friends[i]), None)
        if home is None:
            home = set()
            colours.append(home)
        home.add(i)
    for colour in colours:
        for i in paired:
            if not colour & friends[i]:
                colour.add(i)
    single = np.setdiff1d(np.arange(data.count), paired)
    groups = []
    for k, colour in enumerate(colours):
        members = np.array(sorted(colour), dtype=np.int64)
        others = single if k == 0 else single[_meets(data, single, members)]
        groups.append(np.union1d(others, members))
    own = {
        (a, b): ranges
        for (a, b), ranges in forbidden_differences(data, np.array(paired)).items()
        if not any(a in colour and b in colour for colour in colours)
    }
    return groups, own


def stacked_height(data: OffsetsData) -> int:
    """Return a height that suffices if anything does without a capacity, or the capacity if that is less.

    Above the fixed buffers there is room to stack all others, each aligned.
    """
    free = data.fixed < 0
    fixed = int((data.fixed + data.size)[~free].max(initial=0))
    height = fixed + int((data.size + data.alignment - 1)[free].sum())
    return height if data.capacity is None else min(height, data.capacity)


def simple_bound(data: OffsetsData) -> int:
    """Return the largest end that a buffer alone forces, or load of buffers that share with no other.

    In units. The windows of a section are disjoint unless they belong to in-place pairs.
    """
    alone = int((np.maximum(data.fixed, 0) + data.size).max(initial=0))
    shares = np.isin(rectangle_owners(data), data.inplace)
    sizes = np.where(shares, 0, data.rect_high - data.rect_low)
    change = np.zeros(data.sections + 1, dtype=np.int64)
    np.add.at(change, data.rect_first, sizes)
    np.subtract.at(change, data.rect_last, sizes)
    return max(alone, int(np.cumsum(change).max(initial=0)))


def twins(data: OffsetsData) -> list[list[int]]:
    """Return the sets of two or more buffers that are alike: exchanging two gives the same allocation.

    They have the same rectangles, size and alignment, no fixed offset, and are in no in-place pair. Any
    allocation can be sorted so that their offsets increase; two of them differ by their highest window at
    least (`twin_step`). None if the data say that they are not to be ordered.
    """
    if not data.ordered:
        return []
    alike: dict[tuple[object, ...], list[int]] = {}
    shares = set(data.inplace.ravel().tolist())
    for i in range(data.count):
        if data.fixed[i] < 0 and i not in shares:
            own = slice(data.rectangles[i], data.rectangles[i + 1])
            columns = (data.rect_first, data.rect_last, data.rect_low, data.rect_high)
            shape = tuple(tuple(column[own].tolist()) for column in columns)
            alike.setdefault((int(data.size[i]), int(data.alignment[i]), shape), []).append(i)
    return [found for found in alike.values() if len(found) > 1]


def twin_step(data: OffsetsData, i: int) -> int:
    """Return by how much the offsets of a buffer and its twin differ at least."""
    own = slice(data.rectangles[i], data.rectangles[i + 1])
    return int((data.rect_high - data.rect_low)[own].max())


def rectangle_owners(data: OffsetsData) -> Integers:
    """Return the buffer of each rectangle."""
    return np.repeat(np.arange(data.count), np.diff(data.rectangles))


def _merged(ranges: list[Range]) -> list[Range]:
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _meets(data: OffsetsData, one: Integers, others: Integers) -> Integers:
    """Return which of `one` are alive in a section with one of `others`."""
    owner = rectangle_owners(data)
    theirs = np.isin(owner, others)
    change = np.zeros(data.sections + 1, dtype=np.int64)
    np.add.at(change, data.rect_first[theirs], 1)
    np.subtract.at(change, data.rect_last[theirs], 1)
    busy = np.concatenate(([0], np.cumsum(np.cumsum(change)[:-1] > 0)))
    touched = np.unique(owner[busy[data.rect_last] > busy[data.rect_first]])
    return np.flatnonzero(np.isin(one, touched))
