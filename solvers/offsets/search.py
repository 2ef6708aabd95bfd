"""Branch and bound for one question: whether the buffers of a part fit below a given capacity.

The ideas are those of MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-
Accelerated Machine Learning", ASPLOS 2023): canonical solutions, section inference, dominance, dynamic
decomposition and several orders. Supports, lifts and bars (below) are further ones.

**Canonical solutions.** If there is a solution, there is one whose sum of offsets is least; of those take
the one that the search would meet first, and call it the target. No rule below cuts the target off, so a
search that ends without a solution proves that there is none. Gaps, alignments and fixed offsets change
nothing in the arguments but where it is said; *free* buffers have no fixed offset. All sizes are positive.

1. Buffers are placed by increasing offset, equal offsets by their position in a list. In the target a free
   buffer lies at the least multiple of its alignment that is not below the ends of those under it, else it
   could be lowered; these are placed before it. So its only candidate is its **least offset**, which each
   placement raises for the neighbours (buffers alive in a common section). A fixed buffer is a candidate
   at its offset only, and when a placement reaches above that offset, the placement is refuted.
2. *Dominance.* A candidate at or above the end ``least[j] + size[j]`` of an unplaced free buffer `j` is left
   out: all that is unplaced would lie at or above that end, so `j` could be lowered to ``least[j]``. A
   candidate above an unplaced fixed buffer is left out, since that one would come too late.
3. *Sections.* All that is unplaced in section `s` lies at or above the last offset, and some buffer is the
   lowest of it: ``floor + total[s] <= capacity``. Each section watches one **support**, an unplaced buffer
   that is low enough; only when it is placed or raised too far, another is looked for. A candidate at
   offset `o` leaves all unplaced at or above `o`: ``o <= capacity - max(total)``.
4. *Lifts.* An unplaced free buffer `j` that cannot be placed at ``least[j]`` any more (the last offset is
   above, or `j` is barred there) cannot be lowered to it either: an unplaced neighbour `k` will lie below
   ``least[j] + size[j]``, and `j` above `k`. So `j` supports a section only as if it lay at
   ``max(least[k], last offset) + size[k]``, the least over such `k`. A fixed one that is late supports none.
5. *Bars.* A candidate that was tried at an offset is barred from it while its siblings at the same offset
   are tried: they come later in the list. The bar holds in all that follows, in whatever order.
6. *Twins.* Of buffers with equal sections, size and alignment only the first is tried: exchanging them in
   the target would give one that is met earlier.
7. *Alone.* After a candidate without unplaced neighbours, or a fixed one, no sibling is tried. In the
   target the first lies at its least offset, hence comes next; a fixed one would come too late.
8. *Decomposition.* Where no unplaced lifetime spans the border of two sections (gaps count as life), the
   rest falls into independent components. They are solved one after the other, each sorted anew by the
   present section totals; if one fails, so does the placement before.

The search is run with several orders, each with a limit of attempts that doubles from round to round, and
between them with orders that are disturbed at random: the effort is heavy-tailed, another order often
solves at once what the last one could not, and many short dives find more than a few long ones. The run
that ends within its limit decides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...formulations.offsets.data import OffsetsData
from ...models.arrays import Integers
from ...models.errors import UsageError
from .merging import merge_pairs
from .search_arrays import PartArrays, PartTables, Ranks, tables_of

CHUNK = 12_000_000
"""Attempts between two looks at the clock, times the number of buffers and sections."""
FIRST_LIMIT = 2
"""Attempts per buffer in the first round."""
NOISY_LIMIT = 4
"""Attempts per buffer of a disturbed run, at most."""
LATE = 128
"""Attempts per buffer after which disturbed runs get four times as many as the others, before as many."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Offsets in units that end at the capacity or below."""

    offsets: Integers


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Proved: there are no such offsets."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Undecided.

    Attributes
    ----------
    reason
        "time"; "memory" if the part is too large for the tables of the search; "incomplete" if there is
        nothing with both buffers of the in-place pairs as one, which proves nothing about the pairs.
    """

    reason: str


class Sorting(NamedTuple):
    """How buffers are sorted, largest first.

    Attributes
    ----------
    keys
        W width, A area (width times size), Z size, T greatest load of the sections; the first decides.
    sections
        Whether the width is counted in sections, not in time.
    noise
        Each key is multiplied by a random number from ``1 - noise`` to ``1 + noise``.
    """

    keys: str
    sections: bool
    noise: float = 0.0


ORDERS = (Sorting("TWA", False), Sorting("TAW", True), Sorting("WAT", True), Sorting("AWT", True))
NOISY = tuple(
    Sorting(keys, sections, noise)
    for keys in ("TWA", "WAT")
    for sections in (False, True)
    for noise in (0.05, 0.1, 0.2)
)


class Prepared:
    """What all searches of a part share, made once and piece by piece.

    Parameters
    ----------
    data
        The part. In-place pairs are merged beforehand where that costs nothing, else kept apart.

    Raises
    ------
    UsageError
        If the part has gaps with windows.
    """

    def __init__(self, data: OffsetsData) -> None:
        if data.has_windows:
            raise UsageError("search: found gaps with windows, expected buffers that are whole while alive")
        self.complete = not len(data.inplace)
        self.data, self.owner = merge_pairs(data)
        self.tables: PartTables | None = None
        self.ranks: Ranks | None = None
        self._making: Generator[None, None, Made] | None = _made(self.data)

    def make(self) -> Iterator[None]:
        """Yield now and then until the tables are made, or are known to be too large."""
        while self._making is not None:
            try:
                next(self._making)
            except StopIteration as done:
                self.tables, self.ranks = done.value
                self._making = None
            yield


Made = tuple[PartTables | None, Ranks | None]


def _made(data: OffsetsData) -> Generator[None, None, Made]:
    """Make tables and ranks; a generator without what keeps it, so that both go when nobody needs them."""
    tables = yield from tables_of(data)
    return tables, None if tables is None else Ranks(data, tables.kind)


class Search:
    """A feasibility search at one capacity.

    Parameters
    ----------
    part
        What was prepared of it, or its data.
    capacity
        In units.
    seed
        Of the disturbed orders; with the same seed the search takes the same course.

    Raises
    ------
    UsageError
        If the part has gaps with windows.
    """

    def __init__(self, part: Prepared | OffsetsData, capacity: int, seed: int = 0) -> None:
        self.prepared = part if isinstance(part, Prepared) else Prepared(part)
        self.capacity = capacity
        self.random = np.random.default_rng(seed)
        self.attempts = 0
        self.data = self.prepared.data

    def run(self, expired: Callable[[], bool], kernel: Any = None) -> Found | Infeasible | Stopped:
        """Search until decided or expired.

        Parameters
        ----------
        expired
            Asked every few tens of milliseconds whether to stop.
        kernel
            Used instead of the compiled one.
        """
        for answer in self.steps(kernel):
            if answer is not None:
                return answer
            if expired():
                return Stopped("time")
        raise AssertionError("the runs never end")

    def steps(self, kernel: Any = None) -> Iterator[Found | Infeasible | Stopped | None]:
        """Yield None every few tens of milliseconds, and at the end the answer."""
        yield from self.prepared.make()
        tables, ranks = self.prepared.tables, self.prepared.ranks
        if tables is None or ranks is None:
            yield Stopped("memory")
            return
        arrays = PartArrays(tables)
        if not arrays.start(self.capacity):
            yield self._nothing()
            return
        if kernel is None:
            from .search_kernel import advance as kernel
        chunk = 1 + CHUNK // (self.data.count + self.data.sections)
        for order, limit in self._runs():
            arrays.start(self.capacity)
            arrays.sort(ranks.sorted_by(order.keys, order.sections, order.noise, self.random))
            before = self.attempts
            while self.attempts < before + limit:
                yield None
                ended = arrays.advance(kernel, min(limit, self.attempts - before + chunk))
                self.attempts = before + arrays.attempts
                if ended is not None:
                    yield self._found(arrays.least) if ended else self._nothing()
                    return

    def _runs(self) -> Iterator[tuple[Sorting, int]]:
        count = self.data.count
        limit = FIRST_LIMIT * count
        while True:
            for order in ORDERS:
                yield order, limit
            noisy = min(limit, NOISY_LIMIT * count)
            share = 4 if limit > LATE * count else 1
            end = self.attempts + share * len(ORDERS) * limit
            while self.attempts < end:
                yield NOISY[self.random.integers(len(NOISY))], noisy
            limit *= 2

    def _found(self, offsets: Integers) -> Found:
        return Found(offsets[self.prepared.owner])

    def _nothing(self) -> Infeasible | Stopped:
        return Infeasible() if self.prepared.complete else Stopped("incomplete")
