"""Guided local search over overlaps: buffers may lie on top of each other until, at the end, none does.

Fix a capacity `C` and give every buffer some offset ``o[i]`` from 0 to ``C - size[i]``. With ``l(i, j)`` the
length of the addresses that two buffers share which meet in some section, and a weight ``w[i, j] > 0`` for
each such pair, an allocation below `C` is what makes

    F(o) = sum over pairs (i, j) of w[i, j] * l(i, j)

zero. The search lowers F by giving one buffer at a time its best offset, all others staying where they are.
When no buffer that overlaps another can be improved, the weights of all pairs that overlap now are raised,
so that F has no minimum there any more.

This is guided local search (Voudouris and Tsang, "Guided local search and its application to the traveling
salesman problem", European Journal of Operational Research, 1999) over overlaps, as it is used for packing
(Faroe, Pisinger and Zachariasen, "Guided local search for the three-dimensional bin-packing problem",
INFORMS Journal on Computing, 2003; Egeblad, Nielsen and Odgaard, "Fast neighborhood search for two- and
three-dimensional nesting problems", European Journal of Operational Research, 2007). Here time is given and
only the address is moved. Where we deviate: all pairs that overlap are raised, not only those of greatest
utility; F holds no term beside the weighted overlaps; and every other move is one of a buffer that overlaps
nothing to another hole at random, which costs nothing and keeps the room from clotting.

**The best offset.** Let ``W(x)`` be the weights of the pairs whose other buffer covers address `x`, and G its
integral from 0. A buffer of size `s` at offset `y` costs ``G(y + s) - G(y)``, a piecewise linear function of
`y` with a minimum at 0, at ``C - s``, or where the buffer touches a neighbour (its bottom on their top, or
its top under their bottom). One pass over the neighbours' ends in order of address gives G, a second one
the cost of each touching offset. Of equally good ones each is as likely. With an alignment, the touching
offsets are rounded away from the neighbour; others are not looked at.

**Windows and pairs.** What meets are shapes: a buffer has one for each different window of its rectangles. A
buffer of several shapes has the sum of their costs, which is taken from kink to kink. Partners in place
share no byte in vain while they have the same offset; their offsets are candidates, too.

**Descending.** The first capacity is half way from a known height to the target. After a success the next
step down is twice as long, after a failure a quarter. Each search starts from the best allocation known, in
which whatever ends above the capacity is pushed down; every third one after a failure starts at random.

Nothing is proved: that a capacity cannot be reached is not found out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...formulations.offsets.data import Integers, OffsetsData
from ...models.problems.problem import Offsets
from ..context import Context, Outcome
from .greedy import greedy_offsets
from .overlap_tables import RunState, Shapes, shapes_that_meet
from .parts import Part, Parts

WORK = 4_000_000
"""Ends of neighbours that are looked at between two looks at the clock: some hundredths of a second."""

EFFORT = 60
"""Slices of work of a search after which it has failed, the first time; twice as many after each failure."""

MOST_EFFORT = 8
"""How many times longer a search is at most."""

TURN = 20
"""Slices of work per part and turn."""


class OverlapSearch:
    """Searches for one part at any capacity. The tables are built once.

    Parameters
    ----------
    data
        The part.
    shapes
        Those of its buffers, and which meet.
    seed
        Of all random choices.
    """

    @staticmethod
    def of(data: OffsetsData, seed: int = 0) -> OverlapSearch | None:
        """Return a search for a part, or None if too many of its buffers meet to list all pairs."""
        shapes = shapes_that_meet(data)
        return None if shapes is None else OverlapSearch(data, shapes, seed)

    def __init__(self, data: OffsetsData, shapes: Shapes, seed: int = 0) -> None:
        self.data = data
        self._run = RunState(data, shapes)
        self._random = np.random.default_rng(seed)

    def begin(self, capacity: int, offsets: Integers | None = None) -> bool:
        """Start anew at a capacity from given or random offsets; return False if nothing can fit below it."""
        return self._run.begin(capacity, offsets, self._random)

    def advance(self, kernel: Any = None, work: int = WORK) -> Integers | None:
        """Do a slice of work; return offsets in units without overlap once they are found.

        Parameters
        ----------
        kernel
            Used instead of the compiled one.
        work
            Ends of neighbours to look at.
        """
        return self._run.advance(kernel, work)

    def run(
        self,
        capacity: int,
        start: Integers | None,
        expired: Callable[[], bool],
        slices: int | None = None,
    ) -> Integers | None:
        """Return offsets in units that end at the capacity or below; None if none were found in time.

        Parameters
        ----------
        capacity
            In units.
        start
            Offsets to start from, with overlaps or not; None for random ones.
        expired
            Asked between slices of work whether to stop.
        slices
            How many slices of work to do at most.
        """
        if not self.begin(capacity, start):
            return None
        done = 0
        while not expired() and (slices is None or done < slices):
            done += 1
            if (found := self.advance()) is not None:
                return found
        return None


class Descent:
    """Ever lower allocations of one part, in slices of work.

    Parameters
    ----------
    search
        For the part.
    offsets
        Valid ones, in units.
    target
        Height in units below which nothing is gained.

    Attributes
    ----------
    offsets, height
        The best allocation known.
    """

    def __init__(self, search: OverlapSearch, offsets: Integers, target: int) -> None:
        data = search.data
        fixed = data.fixed >= 0
        least = int((data.fixed + data.size)[fixed].max(initial=0))
        self.search = search
        self.offsets, self.height = offsets, data.height(offsets)
        self.target = max(target, least)
        self.drop = max(1, (self.height - self.target) // 2)
        self._failures = 0
        self._left = 0

    @property
    def done(self) -> bool:
        """Whether nothing is to be gained any more."""
        return self.height <= self.target

    def advance(self, work: int = WORK) -> bool:
        """Do a slice of work; return whether a lower allocation was found."""
        if self.done:
            return False
        if not self._left:
            self._begin()
        self._left -= 1
        found = self.search.advance(work=work)
        if found is not None:
            self.offsets, self.height = found, self.search.data.height(found)
            self.drop, self._failures, self._left = 2 * self.drop, 0, 0
            return True
        if not self._left:
            self.drop = max(1, self.drop // 4)
            self._failures += 1
        return False

    def work(self, expired: Callable[[], bool], slices: int | None = None) -> bool:
        """Work until done or expired, or for some slices; return whether a lower allocation was found."""
        before = self.height
        while not self.done and not expired() and slices != 0:
            self.advance()
            slices = None if slices is None else slices - 1
        return self.height < before

    def _begin(self) -> None:
        capacity = max(self.target, self.height - self.drop)
        at_random = self._failures % 3 == 2
        self.search.begin(capacity, None if at_random else self.offsets)
        self._left = EFFORT * min(MOST_EFFORT, 2**self._failures)


def descend(data: OffsetsData, offsets: Integers, target: int, seed: int = 0) -> Descent | None:
    """Return a descent from valid offsets (units) to a target, or None if the part is too large for it.

    Examples
    --------
    >>> from lowtide.formulations.offsets.data import offsets_data
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x, y = Buffer(id="x", lower=0, upper=3, size=8), Buffer(id="y", lower=2, upper=5, size=12)
    >>> (data,) = offsets_data(Buffers(buffers=(x, y)))
    >>> descent = descend(data, np.array([0, 4]), target=5)
    >>> descent.work(lambda: False), descent.height
    (True, 5)
    """
    search = OverlapSearch.of(data, seed)
    return None if search is None else Descent(search, offsets, target)


def solve_overlap(problem: Offsets, context: Context) -> Outcome:
    """Lower the greedy allocation of each part until nothing is to be gained or the time is up."""
    parts = Parts(problem, context)
    descents: dict[int, Descent | None] = {}
    while open_parts := [part for part in parts.open() if descents.get(id(part), part) is not None]:
        for part in open_parts:
            if id(part) not in descents:
                _offer_greedy(parts, part, context)
                assert part.offsets is not None
                descents[id(part)] = descend(part.data, part.offsets, parts.target(part), context.seed)
            descent = descents[id(part)]
            if descent is not None:
                descent.target = max(descent.target, parts.target(part))
                descent.work(lambda: context.expired, TURN)
                parts.offer(part, descent.offsets)
                if descent.done:
                    descents[id(part)] = None
            if context.expired:
                return parts.outcome("time")
    return parts.outcome()


def _offer_greedy(parts: Parts, part: Part, context: Context) -> None:
    for _, offsets in greedy_offsets(part.data):
        parts.offer(part, offsets)
        if context.expired or (part.height is not None and part.height <= parts.target(part)):
            return
