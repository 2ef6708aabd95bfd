"""Lower bounds on the height of one component of an offset allocation, each proved, all within a second.

The **height** of offsets `o` is the largest ``o_i + size_i``. Below, the **window** of a buffer in a section
is the range of bytes ``[o_i + low, o_i + high)`` that its rectangle there occupies. All windows of a section
lie in ``[0, height)``; the windows of two buffers that are no in-place pair are disjoint, and those of a
pair are disjoint unless both have the same offset.

Every bound is proved for one section, or one buffer, at a time; dropping buffers keeps it one. That is how
pairs are met: where several are alive that may share their bytes, only some that may not are **kept**
(`_kept`), and the bounds on alignment and fixed offsets look at these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formulations.offsets.data import OffsetsData

Ints = NDArray[np.int64]

EXACT = 8
"""Paired buffers that are alive together, up to which their least total is computed exactly."""

STEPS = 1_000_000
"""Paired buffers looked at, summed over sections, after which pairs are taken to need no bytes."""

LOOKS = 200
"""Sections that the bounds on alignment and on fixed offsets look into, the most promising first."""

BITS = 2**20
"""Space between fixed buffers up to which the sums that fill it are enumerated."""

LARGEST_SUM = 2**62
"""Sums are 64-bit: alignments that could take the padding beyond this are left out."""


class _Windows(NamedTuple):
    """Rectangles, one a row."""

    owner: Ints
    first: Ints
    last: Ints
    low: Ints
    high: Ints

    def chosen(self, mask: NDArray[np.bool_]) -> _Windows:
        return _Windows(*(column[mask] for column in self))

    def alive(self, section: int) -> _Windows:
        return self.chosen((self.first <= section) & (section < self.last))

    def total(self, values: Ints, sections: int) -> Ints:
        """Return the sum of the values of those alive, by section."""
        change = np.zeros(sections + 1, dtype=np.int64)
        np.add.at(change, self.first, values)
        np.subtract.at(change, self.last, values)
        return np.cumsum(change)[:-1]


def lower_bound(data: OffsetsData) -> int:
    """Return the best of the bounds of this module, in units.

    Examples
    --------
    >>> from lowtide.formulations.offsets.data import offsets_data
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x = Buffer(id="x", lower=0, upper=3, size=5, alignment=4)
    >>> y = Buffer(id="y", lower=2, upper=5, size=6, alignment=4)
    >>> [lower_bound(part) for part in offsets_data(Buffers(buffers=(x, y)))]
    [13]
    """
    windows = _windows(data)
    load, kept = data.load, windows
    if len(data.inplace):
        saving, kept = _kept(data, windows)
        load = load - saving
    best = max(_single_bound(data), int(load.max(initial=0)), _edge_bound(data, windows, load))
    best = max(best, _alignment_bound(data, kept, best))
    return max(best, _fixed_bound(data, kept, best))


def _windows(data: OffsetsData) -> _Windows:
    owner = np.repeat(np.arange(data.count), np.diff(data.rectangles))
    return _Windows(owner, data.rect_first, data.rect_last, data.rect_low, data.rect_high)


def _single_bound(data: OffsetsData) -> int:
    """Return the largest end that one buffer forces: ``fixed + size``, or ``size`` (offsets are >= 0)."""
    return int((np.maximum(data.fixed, 0) + data.size).max(initial=0))


def _edge_bound(data: OffsetsData, windows: _Windows, load: Ints) -> int:
    """Return the load and what the outermost windows cannot reach.

    Proof. The lowest window of a section starts at ``o_i + low_i >= low_i``, and the highest ends at ``o_j +
    high_j``, which is ``size_j - high_j`` below the end of its buffer. So all windows lie in a stretch that
    is shorter than the height by at least ``min low + min (size - high)`` over the windows alive, and the
    load is at most its length.
    """
    if not data.has_windows:
        return 0
    lost = np.zeros(data.sections, dtype=np.int64)
    for edge in (windows.low, data.size[windows.owner] - windows.high):
        least = np.zeros(data.sections, dtype=np.int64)
        for i in np.argsort(-edge, kind="stable"):  # the least is written last
            least[windows.first[i] : windows.last[i]] = edge[i]
        lost += least
    return int((load + lost)[load > 0].max(initial=0))


def _alignment_bound(data: OffsetsData, kept: _Windows, best: int) -> int:
    """Return the largest load with the padding that alignments force, or `best` if that is more.

    Take an ``A > 1``, and in one section: S, windows with ``low = 0`` of buffers whose alignment is a
    multiple of A; R, the other windows. For i in S let ``pad_i`` be ``high_i`` rounded up to a multiple of A
    and ``w_i = pad_i - high_i``. Then

        height >= sum of pad over S + sum of lengths over R - sum of the |R| + 1 largest w in S.

    Proof. The slots ``[o_i, o_i + pad_i)`` of S start and end at multiples of A. They are disjoint: if
    ``o_i < o_j``, then ``o_i + high_i <= o_j``, and rounding up gives ``o_i + pad_i <= o_j``. Only the
    highest slot, that of t, can reach beyond the height, by some ``b <= w_t``. A window of R meets a slot
    only in its hole, the last w bytes; and it meets one hole at most, since between two holes lies the
    start of the upper slot, which is a byte of S. So R meets at most |R| holes besides that of t, in at most
    w bytes each, and that of t in at most ``w_t - b``. The rest of R lies outside the slots. Together,
    height >= (pad(S) - b) + (length(R) - (w_t - b) - sum of |R| other w).
    """
    size = kept.high - kept.low
    alignment = data.alignment[kept.owner]
    values = sorted(int(a) for a in np.unique(alignment) if a > 1)[-64:]
    common = gcd(*values)
    for a in sorted({*values, common} - {0, 1}):
        if a > LARGEST_SUM // (len(size) + 1):
            continue
        padded = (alignment % a == 0) & (kept.low == 0)
        waste = np.where(padded, -kept.high % a, 0)
        if not waste.any():
            continue
        full = kept.total(size + waste, data.sections)
        slots = kept.total(padded.astype(np.int64), data.sections)
        rest = kept.total((~padded).astype(np.int64), data.sections)
        full[slots <= rest + 1] = 0
        best = max(best, int((full - (rest + 1) * waste.max()).max(initial=0)))
        for section in _promising(full, best):
            if full[section] <= best:
                break
            alive = (kept.first <= section) & (section < kept.last) & padded
            largest = np.sort(waste[alive])[-int(rest[section]) - 1 :]
            best = max(best, int(full[section] - largest.sum()))
    return best


def _fixed_bound(data: OffsetsData, kept: _Windows, best: int) -> int:
    """Return the largest load above fixed buffers, or `best` if that is more.

    In one section let the windows of fixed buffers end at most at T. Then

        height >= T + sum of the lengths of the other windows - what of them can lie below T.

    Proof. No window contains T in its interior but one of a free buffer that starts below T and ends above;
    it would overlap the window that ends at T (two kept windows are disjoint). So each free window lies above
    T or in one of the **holes** that the fixed windows leave below T. A hole of length z takes a subset of
    them whose lengths add up to at most z, so at most the largest such sum; and all holes together at most
    the sum of those that are no longer than the longest hole.
    """
    fixed = data.fixed[kept.owner]
    held = kept.chosen(fixed >= 0)
    if not len(held.owner):
        return best
    free = kept.chosen(fixed < 0)
    ends = data.fixed[held.owner] + held.high
    top = np.zeros(data.sections, dtype=np.int64)
    for i in np.argsort(ends, kind="stable"):  # the highest is written last
        top[held.first[i] : held.last[i]] = ends[i]
    reach = np.where(top, top + free.total(free.high - free.low, data.sections), 0)
    for section in _promising(reach, best):
        if reach[section] <= best:
            break
        alive, now = free.alive(section), held.alive(section)
        start = data.fixed[now.owner]
        holes = _holes(sorted(zip((start + now.low).tolist(), (start + now.high).tolist(), strict=True)))
        below = _fill(holes, (alive.high - alive.low).tolist())
        best = max(best, int(reach[section]) - below)
    return best


def _promising(upper: Ints, best: int) -> list[int]:
    """Return the sections whose bound could exceed `best`, the best first, `LOOKS` at most."""
    found = np.flatnonzero(upper > best)
    return [int(s) for s in found[np.argsort(-upper[found], kind="stable")][:LOOKS]]


def _holes(taken: Iterable[tuple[int, int]]) -> list[int]:
    """Return the lengths that sorted ranges leave free below the highest end."""
    holes, reached = [], 0
    for low, high in taken:
        if low > reached:
            holes.append(low - reached)
        reached = max(reached, high)
    return holes


def _fill(holes: list[int], lengths: list[int]) -> int:
    """Return an upper bound on the total of the lengths that fit into the holes."""
    longest = max(holes, default=0)
    fitting = [x for x in lengths if x <= longest]
    total = sum(fitting)
    if total == 0:
        return 0
    step = gcd(*fitting)
    if longest // step > BITS:
        return min(total, sum(z // step * step for z in holes))
    sums = 1  # bit k: some of the lengths add up to k steps
    mask = (1 << (longest // step + 1)) - 1
    for x in fitting:
        sums |= sums << (x // step) & mask
    filled = sum(((sums & ((1 << (z // step + 1)) - 1)).bit_length() - 1) * step for z in holes)
    return min(total, filled)


def _kept(data: OffsetsData, windows: _Windows) -> tuple[Ints, _Windows]:
    """Return how many bytes pairs save at most, by section, and windows that are disjoint for certain.

    The windows of a section that belong to buffers without pairs are disjoint, and disjoint from the
    others; so the height is at least the sum of their lengths and of the least number of bytes that the
    paired ones cover.

    Take the paired buffers alive in a section, and a component of the graph of their pairs. Windows that
    share bytes have one offset, so those of buffers with different offsets are disjoint, and the buffers
    with one offset cover the union of their ``[low, high)``; any two of them whose ranges overlap must be a
    pair. So the component covers at least the least total, over all its partitions into classes without two
    overlapping ranges that are no pair, of the lengths of the classes' unions: this is computed for up to
    `EXACT` buffers. In a larger component, buffers no two of which are a pair have disjoint windows: the
    total of such a set is counted. Such a set is also what is kept.
    """
    pairs: dict[int, set[int]] = {}
    for a, b in data.inplace.tolist():
        pairs.setdefault(a, set()).add(b)
        pairs.setdefault(b, set()).add(a)
    paired = np.isin(windows.owner, np.array(sorted(pairs), dtype=np.int64))
    rows: dict[int, list[tuple[int, ...]]] = {}
    for row in zip(*(column[paired].tolist() for column in windows), strict=True):
        rows.setdefault(row[0], []).append(row)
    change = np.zeros(data.sections + 1, dtype=np.int64)
    pieces: list[tuple[int, ...]] = []
    known: dict[tuple[tuple[int, int, int], ...], tuple[int, list[int]]] = {}
    steps = 0
    for component in _components(pairs, pairs):
        for first, last, alive in _constant([row for i in component for row in rows.get(i, ())]):
            steps += len(alive)
            for group in _components(alive, pairs):
                key = tuple((i, *alive[i]) for i in group)
                if key not in known:
                    known[key] = _cover(key, pairs) if steps <= STEPS else (0, [])
                least, chosen = known[key]
                saved = sum(high - low for _, low, high in key) - least
                change[first] += saved
                change[last] -= saved
                pieces += [(i, first, last, *alive[i]) for i in chosen]
    more = np.array(pieces, dtype=np.int64).reshape(-1, 5).T
    rest = windows.chosen(~paired)
    kept = _Windows(*(np.concatenate(both) for both in zip(rest, more, strict=True)))
    return np.cumsum(change)[:-1], kept


def _components(nodes: Iterable[int], pairs: dict[int, set[int]]) -> Iterator[list[int]]:
    """Yield the connected components of the pairs among the nodes, ascending."""
    left = set(nodes)
    while left:
        component = [left.pop()]
        for i in component:
            near = pairs[i] & left
            left -= near
            component += near
        yield sorted(component)


def _constant(rows: list[tuple[int, ...]]) -> Iterator[tuple[int, int, dict[int, tuple[int, int]]]]:
    """Yield stretches of sections and the ranges that are alive throughout, by owner."""
    starting: dict[int, list[tuple[int, ...]]] = {}
    ending: dict[int, list[int]] = {}
    for row in rows:
        starting.setdefault(row[1], []).append(row)
        ending.setdefault(row[2], []).append(row[0])
    alive: dict[int, tuple[int, int]] = {}
    times = sorted({*starting, *ending})
    for time, following in pairwise(times):
        for i in ending.get(time, ()):
            del alive[i]
        for i, _, _, low, high in starting.get(time, ()):
            alive[i] = low, high
        if alive:
            yield time, following, alive


def _cover(group: tuple[tuple[int, int, int], ...], pairs: dict[int, set[int]]) -> tuple[int, list[int]]:
    """Return the fewest bytes that a component covers, and buffers no two of which are a pair."""
    chosen: list[int] = []
    apart = 0
    for i, low, high in sorted(group, key=lambda item: item[1] - item[2]):
        if pairs[i].isdisjoint(chosen):
            chosen.append(i)
            apart += high - low
    if len(group) > EXACT:
        return apart, chosen
    clash = [0] * len(group)
    for a, (i, low, high) in enumerate(group):
        for b, (j, low_b, high_b) in enumerate(group):
            if a != b and j not in pairs[i] and max(low, low_b) < min(high, high_b):
                clash[a] |= 1 << b
    union = [0] * (1 << len(group))
    for mask in range(1, len(union)):
        inside = [a for a in range(len(group)) if mask >> a & 1]
        if any(clash[a] & mask for a in inside):
            union[mask] = -1
            continue
        ranges = sorted(group[a][1:] for a in inside)
        union[mask] = ranges[0][1] - ranges[0][0]
        reached = ranges[0][1]
        for low, high in ranges[1:]:
            union[mask] += max(0, high - max(low, reached))
            reached = max(reached, high)
    least = [0] * len(union)
    for mask in range(1, len(union)):
        lowest = mask & -mask
        rest = part = mask ^ lowest
        least[mask] = union[lowest] + least[rest]
        while part:
            if union[part | lowest] >= 0:
                least[mask] = min(least[mask], union[part | lowest] + least[rest ^ part])
            part = (part - 1) & rest
    return least[-1], chosen
