"""The passes of `beam`, compiled: the same orders and bounds, a hundred times as many sets per second.

What happens to one set is in `lowtide.solvers.peak.search.pass_kernel`; here are the levels, their
growth, the choice of the sets that stay, and the limits.

A level of a beam has room for about twice the sets that may stay. When it is full, the best ones are
chosen early, and from then on nothing is kept that is no better than the last of them. That changes
nothing: the place of a set is that of the step that gave it its peak, and a set that was dropped comes back
only with a lower peak, hence with a new place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .pass_arrays import copy_sets, first_level, grown, new_level, new_slots, row_bytes, tables
from .pass_kernel import (
    COUNT,
    COUNTERS,
    DONE,
    EMPTY,
    EXTRA_BEFORE,
    FULL,
    LEAST,
    LIMIT,
    LOOKED_AT,
    NEEDS_ALL,
    NEXT,
    NONE,
    PAUSED,
    ROOM,
    SIZE,
    WORST_MEMORY,
    WORST_PEAK,
    Ints,
    enter,
    expand,
)
from .passes import BeamPass, gives_up
from .plain_pass import Record
from .state_space import StateSpace

STRETCH = 200_000
"""Steps after which the limits are looked at again: well below a second."""

FIRST_ROOM = 1024
"""Room of a level at first, in sets."""

TRAIL_BYTES = 8
"""Of each set of the levels before: how it was reached."""


class _Levels:
    """The level that is followed, the next one, its hash table, and the trail of those before."""

    def __init__(self, space: StateSpace, limit: int, most_room: int, nbytes: int) -> None:
        self.level = first_level(space)
        self.children = new_level(self.level.done.shape[1], FIRST_ROOM)
        self.slots = new_slots(FIRST_ROOM)
        self.trail: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self.counters: Ints = np.zeros(COUNTERS, dtype=np.int64)
        self.counters[LIMIT], self.counters[LEAST] = limit, NONE
        self.counters[EXTRA_BEFORE], self.counters[NEEDS_ALL] = space.extra_before, not space.backward
        self.counters[COUNT] = 1
        self.most_room, self.nbytes = most_room, nbytes
        self.row = row_bytes(space.n)
        self.stored = 0

    @property
    def count(self) -> int:
        """The sets of the next level."""
        return int(self.counters[COUNT])

    def begin(self) -> None:
        """Make a new next level, its hash table no larger than the last level suggests."""
        counters = self.counters
        counters[NEXT], counters[SIZE], counters[COUNT] = 0, counters[COUNT], 0
        counters[WORST_MEMORY], counters[WORST_PEAK] = NONE, NONE
        counters[ROOM] = min(len(self.children.memory), max(FIRST_ROOM, 2 * int(counters[SIZE])))
        self.enter()

    def end(self) -> None:
        """Make the next level the one to follow, and note how its sets were reached."""
        count = self.count
        self.trail.append((self.children.parent[:count].copy(), self.children.op[:count].copy()))
        self.stored += TRAIL_BYTES * count
        self.level, self.children = self.children, self.level
        if len(self.children.memory) < FIRST_ROOM:
            self.children = new_level(self.level.done.shape[1], FIRST_ROOM)

    def enlarge(self) -> bool:
        """Double the room of the next level; return whether there is memory for it."""
        room = min(2 * int(self.counters[ROOM]), self.most_room)
        if room > len(self.children.memory):
            # while it grows there are three levels; the hash table has at most four entries per set
            rows = len(self.level.memory) + len(self.children.memory) + room
            if rows * self.row + 4 * 8 * room + self.stored > self.nbytes:
                return False
            self.children = grown(self.children, self.count, room)
        self.counters[ROOM] = room
        self.enter()
        return True

    def choose(self, width: int) -> None:
        """Keep the best sets of the next level, in their order: least memory, peak, place."""
        best = self.children
        columns = (best.op, best.parent, best.peak, best.memory)
        chosen = np.lexsort([column[: self.count] for column in columns])[:width]
        copy_sets(best, chosen, best)
        last = len(chosen) - 1
        self.counters[COUNT] = len(chosen)
        self.counters[WORST_MEMORY], self.counters[WORST_PEAK] = best.memory[last], best.peak[last]

    def enter(self) -> None:
        """Build the hash table of the next level."""
        room = int(self.counters[ROOM])
        if len(self.slots) < 2 * room:
            self.slots = new_slots(room)
        entries = 1 << (2 * room - 1).bit_length()
        self.used = self.slots[:entries]
        self.used.fill(EMPTY)
        enter(self.children, self.count, self.used)

    def walk(self) -> list[int]:
        """Return the ops on the way to the first set of the last level."""
        ops, index = list[int](), 0
        for parents, last in reversed(self.trail):
            ops.append(int(last[index]))
            index = int(parents[index])
        return ops[::-1]


def compiled_pass(
    space: StateSpace,
    limit: int,
    width: int,
    expired: Callable[[], bool],
    *,
    exhaustive: bool,
    most: int | None,
    nbytes: int,
    record: Record | None = None,
) -> BeamPass:
    """Return what `beam_pass` describes; the space must have ops. `record` is called level by level."""
    arrays = tables(space)
    levels = _Levels(space, limit, (1 if exhaustive else 2) * width + space.n, nbytes)
    counters, dropped = levels.counters, False
    for step in range(1, space.n + 1):
        levels.begin()
        code = PAUSED
        while code != DONE:
            code = expand(arrays, levels.level, levels.children, levels.used, counters, STRETCH)
            looked_at = int(counters[LOOKED_AT])
            if expired() or gives_up(looked_at, step if code == DONE else space.n, space.n, most):
                return BeamPass(gave_up=step)
            if code == FULL and counters[ROOM] < levels.most_room:
                if not levels.enlarge():
                    return BeamPass(gave_up=step, out_of_memory=True)
            elif code == FULL:
                if exhaustive:
                    return BeamPass(gave_up=step)
                dropped = True
                levels.choose(width)
                levels.enter()
        if record is not None:
            parents, ops = levels.trail[-1] if levels.trail else ([], [])
            record(parents, ops, levels.level.free[: int(counters[SIZE])])
        if levels.count > width or counters[WORST_MEMORY] != NONE:
            if exhaustive:
                return BeamPass(gave_up=step)
            dropped = True
            levels.choose(width)
        if not levels.count:
            return BeamPass(bound=None if dropped else int(counters[LEAST]))
        levels.end()
    return BeamPass(order=space.order(levels.walk()))
