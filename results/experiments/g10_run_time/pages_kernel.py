"""Ops and batches of `run_time`; compiled. The rules' numbers are those of that module."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....solvers.engines.kernels import inner, kernel_in_place
from .memory_kernel import (
    AHEAD,
    ANY,
    ASKED,
    AWAITED,
    BASE,
    BATCH,
    BEGAN,
    DEVICE,
    DONE,
    DUE,
    END,
    ERROR,
    FAULT,
    FILLED,
    FIRST,
    FORCED_IN,
    FORCED_OUT,
    HINT,
    HOST,
    HOST_PAGES,
    IN,
    IN_HOST,
    IN_QUEUES,
    IN_SLOW,
    LASTS,
    LEAVE,
    MEMBERS,
    MOVED,
    NEXT,
    NOWHERE,
    ON_HOST,
    OP,
    OUT,
    OUT_HOST,
    OUT_SLOW,
    PLACED,
    PLACED_BATCH,
    RESTING,
    SLOW,
    SLOW_BATCH,
    STEP,
    STEPS,
    STUCK,
    TIE,
    WAITING,
    WINDOW,
    Memory,
    evict,
    front,
    has_room,
    leave,
    next_in,
    owner,
    place,
    pop,
    push,
)

Floats = NDArray[np.float64]
FAST = 1063004400.0
"""Bytes per ms at which faults come whose cost was not measured."""
RATE, SLOW_RATE, FAULT_US, SLOW_US, CLOCK = range(5)
"""Settings of the model of faults: bytes per ms, us, cycles per ms."""


class Program(NamedTuple):
    """What runs.

    Settings of the model of faults; by op its accesses (tensor, whether it is written alone) and cycles, with
    the durations without, with inputs' and with all faults (ms); hints: op, tensor, destination.
    """

    f: Floats
    ops: Integers
    accesses: Annotated[Integers, 2]
    cycles: Integers
    measured: Annotated[Floats, 2]
    hints: Annotated[Integers, 2]


@inner
def fetch(m: Memory, queue: int, source: int, fault: bool) -> bool:
    """Fetch the first page of a queue; return whether that was possible."""
    p, s = m.p, m.s
    page = front(m, queue)
    if fault:
        pop(m, queue)
    if not place(m, page, fault):
        return False
    s[IN] += 1
    s[PLACED] += 1
    s[IN_SLOW if source == SLOW else IN_HOST] += 1
    if s[IN_SLOW] == p[SLOW_BATCH]:
        s[FORCED_IN] = HOST
    if s[IN_HOST] == p[BATCH]:
        s[FORCED_IN] = SLOW
    if not fault:
        pop(m, queue)
    return True


@inner
def fetch_faults(m: Memory, queue: int, source: int) -> None:
    """Serve a queue as faults, until the batch is full (rule 4)."""
    p, s = m.p, m.s
    while s[FILLED + queue] and s[IN] < p[BATCH] and s[PLACED] < p[PLACED_BATCH] and has_room(m):
        fetch(m, queue, source, True)
        if s[FORCED_IN] not in (ANY, source):
            break


@inner
def place_queue(m: Memory, queue: int, fault: bool) -> None:
    """Give pages of a queue their memory, until the batch is full."""
    p, s = m.p, m.s
    while s[FILLED + queue] and s[PLACED] < p[PLACED_BATCH] and has_room(m):
        page = front(m, queue)
        if not place(m, page, fault):
            break
        s[PLACED] += 1
        pop(m, queue)


@inner
def batch(m: Memory) -> None:
    """Move the pages of one batch (rule 4)."""
    p, s = m.p, m.s
    for field in (IN, IN_SLOW, IN_HOST, OUT, OUT_SLOW, OUT_HOST, PLACED):
        s[field] = 0
    s[FORCED_OUT] = SLOW if s[ON_HOST] == p[HOST_PAGES] else ANY
    s[FORCED_IN] = ANY
    while s[FILLED + LEAVE + SLOW] and s[OUT_SLOW] < p[SLOW_BATCH] and s[OUT] < p[BATCH]:
        page = front(m, LEAVE + SLOW)
        to = SLOW if s[FORCED_OUT] == ANY else s[FORCED_OUT]
        evict(m, page, to)
        pop(m, LEAVE + SLOW)
    while s[FILLED + LEAVE + HOST] and s[OUT] < p[BATCH]:
        if s[ON_HOST] == p[HOST_PAGES]:
            if s[OUT_SLOW] >= p[SLOW_BATCH]:
                break
        elif s[OUT_HOST] >= p[BATCH]:
            break
        page = front(m, LEAVE + HOST)
        to = HOST if s[FORCED_OUT] == ANY else s[FORCED_OUT]
        evict(m, page, to)
        pop(m, LEAVE + HOST)
    for source in (SLOW, HOST):
        fetch_faults(m, FAULT + source, source)
    place_queue(m, FAULT + NOWHERE, True)
    stalled = False
    for source in (SLOW, HOST):
        limit = p[SLOW_BATCH] if source == SLOW else p[BATCH]
        taken = IN_SLOW if source == SLOW else IN_HOST
        while (
            not stalled
            and s[FILLED + AHEAD + source]
            and s[taken] < limit
            and s[IN] < p[BATCH]
            and has_room(m)
        ):
            stalled = not fetch(m, AHEAD + source, source, False)
    place_queue(m, AHEAD + NOWHERE, False)
    if p[WINDOW] and s[WAITING] and s[MEMBERS] and s[IN] + s[OUT] == 0:
        for source in (SLOW, HOST):
            fetch_faults(m, AHEAD + source, source)
        place_queue(m, AHEAD + NOWHERE, True)


@inner
def hint(m: Memory, t: int, to: int) -> None:
    """Follow a hint: that a tensor come, leave or be dropped; pages in a queue already stay as they are."""
    tensors, s, where, arrivals, marks = m.tensors, m.s, m.where, m.arrivals, m.marks
    if to == DEVICE and marks[0, t] == tensors[t + 1] - tensors[t]:
        return
    for page in range(tensors[t], tensors[t + 1]):
        at = where[page]
        if at >= 0:
            if arrivals[at] < 0 or to == DEVICE:
                continue
            marks[0, t] -= 1
            if to == NOWHERE:
                leave(m, at)
                where[page] = -1
                s[MOVED + 6] += 1
            else:
                push(m, LEAVE + to, page)
                arrivals[at] = -1 - page
        elif at >= -3:
            source = -1 - at
            if to == DEVICE:
                push(m, AHEAD + source, page)
                where[page] = at - 3 * ASKED
            elif to == NOWHERE:
                if source == HOST:
                    s[ON_HOST] -= 1
                    s[MOVED + 7] += 1
                where[page] = -1


@inner
def fault(m: Memory, t: int, counts: Integers) -> None:
    """Ask for the pages of a tensor that are nowhere asked for; count them by where they are."""
    tensors, s, where, arrivals = m.tensors, m.s, m.where, m.arrivals
    for page in range(tensors[t], tensors[t + 1]):
        at = where[page]
        if at >= 0:
            if arrivals[at] < 0:
                s[MEMBERS] += 1
            continue
        stage, source = (-1 - at) // 3, (-1 - at) % 3
        if stage == RESTING:
            push(m, FAULT + source, page)
            counts[source] += 1
        if stage != AWAITED:
            s[MEMBERS] += 1
            where[page] = -1 - source - 3 * AWAITED


@inner
def fault_cycles(w: Program, k: int, counts: Annotated[Integers, 2], totals: Integers) -> int:
    """Return by how much faults lengthen an op (rule 3); rows and totals: what it reads, what it writes."""
    f, measured = w.f, w.measured
    none = measured[0, k]
    reads = max(none, measured[1, k])
    both = max(reads, measured[2, k])
    rate_0 = FAST if both == reads else 4096.0 * totals[0] / (both - reads)
    rate_1 = FAST if reads == none else 4096.0 * totals[1] / (reads - none)
    share = f[FAULT_US] / (f[FAULT_US] + f[SLOW_US])
    slow_0 = min(rate_0 * share, f[SLOW_RATE]) if counts[0, SLOW] else 0.0
    slow_1 = min(rate_1 * share, f[SLOW_RATE]) if counts[1, SLOW] else 0.0
    slow_ms = host_ms = 0.0
    if counts[0, SLOW]:
        slow_ms += 4096.0 * counts[0, SLOW] / slow_0
    if counts[1, SLOW]:
        slow_ms += 4096.0 * counts[1, SLOW] / slow_1
    if (totals[0] == 0 and both > reads) or (totals[1] == 0 and reads > none):
        return int(slow_ms * f[CLOCK])  # 0 / 0 there
    left = f[RATE] - max(slow_0, slow_1)
    others_0, others_1 = counts[0, NOWHERE] + counts[0, HOST], counts[1, NOWHERE] + counts[1, HOST]
    if left <= 0 and others_0 + others_1:
        return 0  # infinite there, which becomes 0 as an integer
    if others_0:
        host_ms += 4096.0 * others_0 / min(rate_0, left)
    if others_1:
        host_ms += 4096.0 * others_1 / min(rate_1, left)
    return int(max(slow_ms, host_ms) * f[CLOCK])


@inner
def look_around(m: Memory, w: Program) -> None:
    """Note what the op of now and those in the window use, and from which page on room is made (rule 5)."""
    p, s, arrivals, marks = m.p, m.s, m.arrivals, m.marks
    ops, accesses = w.ops, w.accesses
    k, n = s[OP], len(ops) - 1
    marks[1:] = 0
    for e in range(ops[k], ops[k + 1]):
        marks[1, accesses[0, e]] = 1
    for j in range(k, k + p[WINDOW]):
        for e in range(ops[j % n], ops[j % n + 1]):
            marks[2, accesses[0, e]] = 1
    at = next_in(m, s[FIRST])
    while at != END and (marks[2, owner(m, arrivals[at])] if p[WINDOW] else arrivals[at] < 0):
        at = next_in(m, at + 1)
    s[BASE] = at


@inner
def is_waiting(m: Memory, w: Program) -> bool:
    """Return whether the op of now lacks a page, or any fault is not served."""
    tensors, s, marks = m.tensors, m.s, m.marks
    ops, accesses = w.ops, w.accesses
    for where in (NOWHERE, SLOW, HOST):
        if s[FILLED + FAULT + where]:
            return True
    for e in range(ops[s[OP]], ops[s[OP] + 1]):
        t = accesses[0, e]
        if marks[0, t] < tensors[t + 1] - tensors[t]:
            return True
    return False


@kernel_in_place
def carry_out(
    m: Memory,
    w: Program,
    counts: Annotated[Integers, 2],
    totals: Integers,
    ends: Integers,
    moved: Annotated[Integers, 2],
) -> bool:
    """Carry out ops and at most so many batches; return whether all ops are done."""
    p, tensors, s, marks = m.p, m.tensors, m.s, m.marks
    ops, accesses, cycles, hints = w.ops, w.accesses, w.cycles, w.hints
    n = len(cycles)
    for _ in range(p[STEPS]):
        if s[ERROR]:
            return True
        if not s[WAITING] and (s[DUE] < s[NEXT] or (s[DUE] == s[NEXT] and not s[TIE])):
            if s[DONE] % n == 0:
                for i in range(moved.shape[1]):
                    moved[s[DONE] // n, i] = s[MOVED + i]
            if s[DONE] == len(ends):
                return True
            k = s[OP] = s[DONE] % n
            look_around(m, w)
            for _ in range(hints.shape[1]):
                if hints[0, s[HINT]] != k:
                    break
                hint(m, hints[1, s[HINT]], hints[2, s[HINT]])
                s[HINT] = (s[HINT] + 1) % hints.shape[1]
            s[BEGAN], s[LASTS] = s[DUE], cycles[k]
            s[WAITING] = is_waiting(m, w)
            if s[WAITING]:
                counts[:] = 0
                totals[:] = 0
                for e in range(ops[k], ops[k + 1]):
                    t, writes = accesses[0, e], accesses[1, e]
                    totals[writes] += tensors[t + 1] - tensors[t]
                    if marks[0, t] < tensors[t + 1] - tensors[t]:
                        fault(m, t, counts[writes])
                s[LASTS] += fault_cycles(w, k, counts, totals)
        else:
            now = s[NEXT]
            moves = False
            if s[IN_QUEUES]:
                batch(m)
                moves = s[PLACED] + s[OUT] > 0
            if moves:
                s[NEXT] += p[STEP]
            elif s[WAITING]:
                s[ERROR] = STUCK
            else:
                s[NEXT] += p[STEP] * max(1, -(-(s[DUE] - now) // p[STEP]))
            if not s[WAITING] or s[MEMBERS]:
                continue
            s[WAITING] = is_waiting(m, w)
            if s[WAITING]:
                continue
            look_around(m, w)
            s[LASTS] = max(s[LASTS], now - s[BEGAN])
        if not s[WAITING]:
            s[DUE] = s[BEGAN] + s[LASTS]
            s[TIE] = s[DUE] == s[NEXT]
            ends[s[DONE]] = s[DUE]
            s[DONE] += 1
    return False
