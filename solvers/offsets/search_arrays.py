"""What the compiled search works on: tables of a part, the state of a run, and the orders of buffers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formulations.offsets.data import OffsetsData, greatest_load
from ...formulations.offsets.differences import rectangle_owners
from ...models.arrays import Integers
from .search_kernel import list_members

LARGEST = 30_000_000
"""Pairs of neighbours, or buffers alive summed over the sections, that are listed at most."""

# The layout that `search_kernel` shares; there it is said what each means.
STATE_SIZE = 9
"""Entries of the state of a run, as in `search_kernel`."""
DEPTH, AND_TOP, TRAIL_TOP, COMP_TOP, ATTEMPTS, LIMIT, CAPACITY, STAMP = range(1, STATE_SIZE)
FRAME_SIZE = 10
"""Entries of a choice point, as in `search_kernel`."""
WIDTH = 16
"""Candidates that a choice point keeps, as in `search_kernel`."""
FOUND, EXHAUSTED, AT_LIMIT, NEEDS_TRAIL, NEEDS_POOL = range(5)

BLOCK = 1 << 20
"""Pairs of neighbours that are listed at a time; and places of a table of the pairs of buffers."""

WRITTEN = 1 << 24
"""Buffers alive, summed over the sections, that are listed at a time."""


class PartTables(NamedTuple):
    """What all runs over a part share.

    Attributes
    ----------
    data
        The part.
    kind
        Equal numbers for twins.
    pointer, member
        The buffers alive in each section, from ``pointer[section]`` on.
    witness
        By section, the first of them of least lowest offset.
    near_pointer, near
        By buffer: those that are alive with it, from ``near_pointer[i]`` on.
    """

    data: OffsetsData
    kind: Integers
    pointer: Integers
    member: NDArray[np.int32]
    witness: Integers
    near_pointer: Integers
    near: NDArray[np.int32]


def tables_of(data: OffsetsData) -> Generator[None, None, PartTables | None]:
    """Make the tables of a part piece by piece; return None if they would be too large."""
    if (data.rect_last - data.rect_first).sum() > LARGEST:
        return None
    pointer = np.concatenate(([0], np.cumsum(_alive(data.sections, data.rect_first, data.rect_last))))
    member, witness = np.empty(pointer[-1], dtype=np.int32), np.full(data.sections, -1, dtype=np.int64)
    owner, at = rectangle_owners(data), pointer.copy()
    ends = np.cumsum(data.rect_last - data.rect_first)
    first = 0
    while first < len(owner):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + WRITTEN)))
        spans = owner[first:last], data.rect_first[first:last], data.rect_last[first:last]
        list_members(*spans, np.maximum(data.fixed, 0), at, member, witness)
        first = last
        yield
    starts = np.argsort(data.rect_first, kind="stable")
    begin = data.rect_first[starts]
    # A rectangle meets those alive in its first section, and those that start after that.
    low = np.searchsorted(begin, data.rect_first, side="right")
    high = np.maximum(low, np.searchsorted(begin, data.rect_last, side="left"))
    lows = np.stack((pointer[data.rect_first], low + len(member)), axis=1).reshape(-1)
    highs = np.stack((pointer[data.rect_first + 1], high + len(member)), axis=1).reshape(-1)
    done = np.concatenate(([0], np.cumsum(highs - lows)))[2 * data.rectangles]  # pairs, by buffer
    if done[-1] > LARGEST:
        return None
    met = np.concatenate((member, owner[starts]))
    near = np.empty(done[-1], dtype=np.int32)
    near_pointer = np.zeros(data.count + 1, dtype=np.int64)
    first, most, end = 0, max(1, BLOCK // data.count), 0
    while first < data.count:
        last = int(np.searchsorted(done, done[first] + BLOCK, side="right")) - 1
        last = max(first + 1, min(last, first + most, data.count))
        rows = slice(2 * data.rectangles[first], 2 * data.rectangles[last])
        row, place = _numbers(lows[rows], highs[rows])
        left, right = owner[row // 2 + data.rectangles[first]], met[place]
        if data.has_gaps:  # those that meet several times count once
            table = np.zeros((last - first) * data.count, dtype=bool)
            table[(left - first) * data.count + right] = True
            left, right = np.divmod(np.flatnonzero(table), data.count)
            left += first
        apart = left != right
        apart_from = right[apart]
        near[end : end + len(apart_from)] = apart_from
        near_pointer[first + 1 : last + 1] = end + np.cumsum(
            np.bincount(left[apart] - first, minlength=last - first)
        )
        first, end = last, end + len(apart_from)
        yield
    return PartTables(data, _kinds(data), pointer, member, witness, near_pointer, near[:end])


class PartArrays:
    """The state of one run over a part."""

    @staticmethod
    def of(data: OffsetsData) -> PartArrays | None:
        """Return the arrays of a part, or None if its tables would be too large."""
        making = tables_of(data)
        while True:
            try:
                next(making)
            except StopIteration as end:
                return None if end.value is None else PartArrays(end.value)

    def __init__(self, tables: PartTables) -> None:
        data = tables.data
        n, sections = data.count, data.sections
        self.data = data
        self._spans = _alive(sections, data.first + 1, data.last)
        self._least = np.maximum(data.fixed, 0)
        self._witness = tables.witness
        self._floor = self._least[self._witness]
        self._tables = (
            (data.size, data.alignment, data.fixed, tables.kind, data.first, data.last),
            (data.rectangles, data.rect_first, data.rect_last),
            (tables.near_pointer, tables.near),
            (tables.pointer, tables.member),
        )
        self._state = np.zeros(STATE_SIZE, dtype=np.int64)
        self.least, self._placed, self._barred, self._stamped, self._lift, self._peak = _zeros(n, 6)
        self._total, self._border, self._support, self._block, self._fill = _zeros(sections, 5)
        self._trail = np.zeros((8 * (n + sections) + len(tables.near) // 2, 2), dtype=np.int64)
        self._pool = np.zeros(8 * n, dtype=np.int32)
        self._comps = np.zeros((8 * n, 4), dtype=np.int64)
        self._frames = np.zeros((n + 2, FRAME_SIZE), dtype=np.int64)
        self._ands = np.zeros((n + 2, 4), dtype=np.int64)
        self._candidates = np.zeros(((n + 2) * WIDTH, 2), dtype=np.int64)

    @property
    def attempts(self) -> int:
        """How many placements the run has tried."""
        return int(self._state[ATTEMPTS])

    def start(self, capacity: int) -> bool:
        """Begin a run; return False if the first look refutes the capacity."""
        data = self.data
        pinned = data.fixed >= 0
        if (self._floor + data.load > capacity).any() or (data.size > capacity - self._least).any():
            return False
        if (data.fixed % data.alignment)[pinned].any():
            return False
        self.least[:] = self._least
        self._placed[:] = 0
        self._barred[:] = -1
        self._stamped[:] = 0
        self._total[:] = data.load
        self._border[:] = self._spans
        self._support[:] = self._witness
        self._state[:] = 0
        self._state[AND_TOP] = -1
        self._state[CAPACITY] = capacity
        self._frames[0] = 0
        self._frames[0, :6] = (0, data.count, 0, data.sections, 0, data.count)
        return True

    def sort(self, ranks: tuple[Integers, Integers, Integers]) -> None:
        """Set the order of the buffers: rank before the greatest load, that load, rank after it."""
        before, after, peak = ranks
        self._ranks = before, after
        self._pool[: self.data.count] = np.lexsort((after, -peak, before))

    def advance(self, kernel: Any, limit: int) -> bool | None:
        """Go on up to a number of attempts; return whether there is a solution once that is decided."""
        self._state[LIMIT] = limit
        while True:
            answer = kernel(
                *self._tables,
                self._ranks,
                self._state,
                (self.least, self._placed, self._barred, self._stamped, self._lift, self._peak),
                (self._total, self._border, self._support, self._block, self._fill),
                self._pool,
                (self._trail, self._frames, self._ands, self._comps, self._candidates),
            )
            if answer == NEEDS_TRAIL:
                self._trail = _doubled(self._trail)
            elif answer == NEEDS_POOL:
                self._pool, self._comps = _doubled(self._pool), _doubled(self._comps)
            else:
                return None if answer == AT_LIMIT else bool(answer == FOUND)


class Ranks:
    """Ranks of buffers by several keys; twins are neighbours in every order."""

    def __init__(self, data: OffsetsData, kind: Integers) -> None:
        self._kind = kind
        self._kinds = int(kind.max()) + 1
        self._peak = greatest_load(data)
        width = data.last - data.first
        self._keys = {
            False: {"W": data.duration, "A": data.duration * data.size, "Z": data.size},
            True: {"W": width, "A": width * data.size, "Z": data.size},
        }

    def sorted_by(
        self, keys: str, sections: bool, noise: float, random: np.random.Generator
    ) -> tuple[Integers, Integers, Integers]:
        """Return the rank by the keys before T, the greatest load T, and the rank by all other keys."""
        ahead, behind = keys.split("T")
        values: dict[str, NDArray[Any]] = dict(self._keys[sections])
        if noise:
            values = {
                key: value * random.uniform(1 - noise, 1 + noise, self._kinds)[self._kind]
                for key, value in values.items()
            }
        before = _rank([-values[key] for key in ahead], len(self._kind))
        rest = np.lexsort((self._kind, *(-values[key] for key in reversed(behind))))
        after = np.empty_like(self._kind)
        after[rest] = np.arange(len(rest))
        return before, after, self._peak


def _rank(keys: list[NDArray[Any]], count: int) -> Integers:
    """Return ranks by the keys, the first decides; equal ones share a rank."""
    rank = np.zeros(count, dtype=np.int64)
    if not keys:
        return rank
    order = np.lexsort(tuple(reversed(keys)))
    steps = np.zeros(count, dtype=np.int64)
    for key in keys:
        steps[1:] |= key[order[1:]] != key[order[:-1]]
    rank[order] = np.cumsum(steps)
    return rank


def _zeros(size: int, count: int) -> list[Integers]:
    return [np.zeros(size, dtype=np.int64) for _ in range(count)]


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)))


def _alive(sections: int, first: Integers, last: Integers) -> Integers:
    """Return by section how many of some ranges of sections it is in."""
    starts, ends = (np.bincount(some, minlength=sections) for some in (first, last))
    return np.cumsum(starts[:sections] - ends[:sections])


def _numbers(lows: Integers, highs: Integers) -> tuple[Integers, Integers]:
    """Return, for all numbers of all half-open ranges in turn, the range's position and the number."""
    lengths = highs - lows
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(lows)), lengths)
    return row, np.arange(len(row)) + np.repeat(lows - (ends - lengths), lengths)


def _kinds(data: OffsetsData) -> Integers:
    """Return equal numbers for twins: free, in one piece, with equal sections, size and alignment."""
    single = (data.fixed < 0) & (np.diff(data.rectangles) == 1)
    own = np.where(single, -1, np.arange(data.count))
    keys: list[NDArray[Any]] = [data.first, data.last, data.size, data.alignment, own]
    return _rank(keys, data.count)
