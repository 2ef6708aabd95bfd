"""Pages of `run_time`: where they are, in which queues, which one leaves; compiled.

The rules' numbers are those of that module.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....solvers.engines.kernels import inner

Pages = NDArray[np.int32]

NOWHERE, SLOW, HOST, DEVICE, ANY = range(5)
"""Where a page is, or goes."""
RESTING, ASKED, AWAITED = range(3)
"""What a page outside the device does: nothing, waits in a queue, waits there while its op does."""
FAULT, AHEAD, LEAVE = 0, 3, 6
"""The queues: of faults and of prefetches by where the page is, of evictions ahead by SLOW or HOST."""
QUEUES = 9
"""Number of queues: three of each kind above."""
FULL, STUCK = 1, 2
"""Errors: a queue has no room for another run; no page can leave, or nothing ever comes."""
HOLE = -(2**31)
"""In the list of arrivals: what was there has left."""
END = -1
"""In the place of an arrival: there is no further one."""

CAPACITY, HOST_PAGES, STEP, SLOW_BATCH, BATCH, PLACED_BATCH, WINDOW, STEPS = range(8)
"""Settings: pages, cycles of a batch, pages per batch, ops ahead (0: no window), steps of a call."""

(
    FIRST,
    LAST,
    BASE,
    RESIDENT,
    ON_HOST,
    IN_QUEUES,
    MEMBERS,
    OP,
    WAITING,
    FORCED_OUT,
    FORCED_IN,
    IN,
    IN_SLOW,
    IN_HOST,
    OUT,
    OUT_SLOW,
    OUT_HOST,
    PLACED,
    HINT,
    DONE,
    DUE,
    NEXT,
    TIE,
    BEGAN,
    LASTS,
    ERROR,
    OWNERS,
    MOVED,
) = (*range(27), 28)
"""State; OWNERS has two fields, MOVED has MOVES: pages so far that were new, came from the slow tier, from
the host, left for them, were dropped instead; and that hints dropped from the device and from the host."""
MOVES = 8
"""Number of the fields of MOVED, which are named above."""
LOW = MOVED + MOVES
HIGH = LOW + QUEUES
FILLED = HIGH + QUEUES
STATES = FILLED + QUEUES


class Memory(NamedTuple):
    """Settings; the first page of each tensor, its first op and the one behind its last; state.

    A page is at the place `where` in `arrivals`; negative: -1 - (where it is) - 3 * (what it does). An
    arrival that waits in a queue to leave is -1 - its page. Queues have runs of pages: (first, end). `marks`
    are by tensor: its pages on the device that do not leave; used by the op of now; by those of the window.
    """

    p: Integers
    tensors: Integers
    lives: Annotated[Integers, 2]
    s: Integers
    where: Pages
    arrivals: Pages
    queues: Pages
    marks: Annotated[Integers, 2]


@inner
def owner(m: Memory, page: int, kept: int = 0) -> int:
    """Return the tensor of a page; mostly that of the page before (answers are kept in two places)."""
    tensors, s = m.tensors, m.s
    t = s[OWNERS + kept]
    if tensors[t] <= page < tensors[t + 1]:
        return int(t)
    low, high = 0, len(tensors) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if tensors[middle] <= page:
            low = middle
        else:
            high = middle
    s[OWNERS + kept] = low
    return low


@inner
def run_at(m: Memory, queue: int, number: int) -> int:
    """Return where a queue has its first page and end of a run, by the number of the run."""
    queues = m.queues
    length = len(queues) // (2 * QUEUES)
    return 2 * (queue * length + (number & (length - 1)))


@inner
def push(m: Memory, queue: int, page: int) -> None:
    """Append a page to a queue: to its last run if it is a neighbour."""
    s, queues = m.s, m.queues
    high = s[HIGH + queue]
    at = run_at(m, queue, high - 1)
    if high > s[LOW + queue] and queues[at + 1] == page:
        queues[at + 1] += 1
    else:
        if 2 * QUEUES * (high - s[LOW + queue]) == len(queues):
            s[ERROR] = FULL
        at = run_at(m, queue, high)
        queues[at] = page
        queues[at + 1] = page + 1
        s[HIGH + queue] += 1
    s[FILLED + queue] += 1
    s[IN_QUEUES] += 1


@inner
def front(m: Memory, queue: int) -> int:
    """Return the first page of a queue."""
    s, queues = m.s, m.queues
    return int(queues[run_at(m, queue, s[LOW + queue])])


@inner
def pop(m: Memory, queue: int) -> None:
    """Remove the first page of a queue."""
    s, queues = m.s, m.queues
    at = run_at(m, queue, s[LOW + queue])
    queues[at] += 1
    if queues[at] == queues[at + 1]:
        s[LOW + queue] += 1
    s[FILLED + queue] -= 1
    s[IN_QUEUES] -= 1


@inner
def next_in(m: Memory, at: int) -> int:
    """Return the first place from `at` on that is no hole, or END."""
    s, arrivals = m.s, m.arrivals
    while at < s[LAST] and arrivals[at] == HOLE:
        at += 1
    return at if at < s[LAST] else END


@inner
def enter(m: Memory, page: int) -> None:
    """Put a page on the device, last of the arrivals."""
    s, where, arrivals = m.s, m.where, m.arrivals
    if s[LAST] == len(arrivals):
        to = 0
        for at in range(s[FIRST], s[LAST]):
            entry = arrivals[at]
            if entry == HOLE:
                continue
            if s[BASE] == at:
                s[BASE] = to
            arrivals[to] = entry
            where[entry if entry >= 0 else -1 - entry] = to
            to += 1
        s[FIRST], s[LAST] = 0, to
    arrivals[s[LAST]] = page
    where[page] = s[LAST]
    s[LAST] += 1
    s[RESIDENT] += 1


@inner
def leave(m: Memory, at: int) -> None:
    """Take a page off the device."""
    s, arrivals = m.s, m.arrivals
    arrivals[at] = HOLE
    s[RESIDENT] -= 1
    if at == s[FIRST]:
        first = next_in(m, at)
        s[FIRST] = s[LAST] if first == END else first
    if at == s[BASE]:
        s[BASE] = next_in(m, s[FIRST])


@inner
def has_room(m: Memory) -> bool:
    """Return whether a page can come: one is free, or one can still leave in this batch."""
    p, s = m.p, m.s
    if s[RESIDENT] < p[CAPACITY]:
        return True
    if s[OUT] >= p[BATCH]:
        return False
    return bool(s[ON_HOST] < p[HOST_PAGES] or s[OUT_SLOW] < p[SLOW_BATCH])


@inner
def evict(m: Memory, page: int, to: int) -> None:
    """Let a page leave the device; if the op of now needs it, it is faulted at once."""
    p, s, where, arrivals, marks = m.p, m.s, m.where, m.arrivals, m.marks
    at, t = where[page], owner(m, page)
    asked = arrivals[at] < 0
    if not asked:
        marks[0, t] -= 1
    if to != NOWHERE:
        s[OUT] += 1
    if to == HOST:
        s[ON_HOST] += 1
        s[OUT_HOST] += 1
        s[MOVED + 4] += 1
        if s[OUT_HOST] == p[BATCH] or s[ON_HOST] == p[HOST_PAGES]:
            s[FORCED_OUT] = SLOW
    elif to == SLOW:
        s[OUT_SLOW] += 1
        s[MOVED + 3] += 1
        if s[OUT_SLOW] == p[SLOW_BATCH]:
            s[FORCED_OUT] = HOST
    else:
        s[MOVED + 5] += 1
    leave(m, at)
    if marks[1, t]:
        push(m, FAULT + to, page)
        if not (asked and s[WAITING]):
            s[MEMBERS] += 1
        where[page] = -1 - to - 3 * AWAITED
    else:
        where[page] = -1 - to


@inner
def victim(m: Memory, fault: bool) -> int:
    """Return the place of the page that leaves, END if none may (rule 5)."""
    p, s, arrivals, marks = m.p, m.s, m.arrivals, m.marks
    at = s[BASE]
    if p[WINDOW]:
        if fault:
            at = s[FIRST]
            while at < s[LAST] and arrivals[at] < 0:
                at += 1
            if at == s[BASE]:
                s[BASE] = next_in(m, at + 1)
            return int(at)
        while at != END and marks[2, owner(m, arrivals[at])]:
            at = next_in(m, at + 1)
    else:
        if at != END:
            while at < s[LAST] and arrivals[at] < 0:
                at += 1
        if at == END or at == s[LAST]:
            at = s[FIRST]
            while at < s[LAST] and arrivals[at] < 0:
                at += 1
            if at == s[LAST]:
                at = END
    s[BASE] = END if at == END else next_in(m, at + 1)
    return int(at)


@inner
def place(m: Memory, page: int, fault: bool) -> bool:
    """Put a page on the device, evicting one if it is full; return whether that was possible."""
    p, lives, s, where, arrivals, marks = m.p, m.lives, m.s, m.where, m.arrivals, m.marks
    t = owner(m, page, 1)
    if s[RESIDENT] == p[CAPACITY]:
        at = victim(m, fault or marks[1, t] > 0)
        if at == END:
            if not p[WINDOW]:
                s[ERROR] = STUCK
            return False
        gone = arrivals[at]
        to = HOST
        if p[WINDOW]:
            of = owner(m, gone)
            if not lives[0, of] <= s[OP] < lives[1, of]:
                to = NOWHERE
        if to != NOWHERE and s[FORCED_OUT] != ANY:
            to = s[FORCED_OUT]
        evict(m, gone, to)
    code = -1 - where[page]
    if code // 3 == AWAITED:
        s[MEMBERS] -= 1
    if code % 3 == HOST:
        s[ON_HOST] -= 1
        if s[FORCED_OUT] == SLOW:
            s[FORCED_OUT] = ANY
    s[MOVED + code % 3] += 1
    enter(m, page)
    marks[0, t] += 1
    return True
