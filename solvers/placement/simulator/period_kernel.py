"""Where one iteration of the simulator ends and the next one begins; compiled.

A plan of a period must have what outlives it where it may start. Before the period ends, what is elsewhere
comes back to the device, and leaves it for an outer tier if it may not be there; copies in other tiers are
forgotten.
"""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner
from .chunk_kernel import leave, stop_leaving, write_log
from .queue_kernel import ask_back, enqueue
from .room_kernel import evict, inputs, is_home, may_rest
from .tables import (
    ABSENT_CHUNKS,
    ALIVE,
    ARRIVING,
    BASE,
    BEFORE,
    BEFORE_FLIGHT,
    BEGUN,
    BYTES,
    CHUNK_FIRST,
    COPIES_OUT,
    COPY,
    CROSSING,
    DEAD,
    DEVICE,
    EAGER,
    EMERGENCIES,
    EVENT,
    EVICTIONS,
    FLIGHT,
    FLIGHT_END,
    FLIGHT_START,
    GONE,
    HOME,
    HOST_IN,
    INITIAL,
    LASTING,
    LEAVING,
    LEAVING_TO,
    LIMITS,
    LOG_FREE,
    NEXT,
    NEXT_USE,
    NOBODY,
    NONE,
    OP,
    OWNER,
    PENDING,
    PERSISTENT,
    PRESENT,
    SCALARS,
    SIZE,
    SPARED,
    START,
    TENSORS,
    TIME,
    URGENT,
    URGENT_QUEUES,
    USE,
    USE_FIRST,
    USED,
    USED_1,
    USED_2,
    VALID,
)


@inner
def begin(d: Integers, knobs: Integers, s: Integers) -> bool:
    """Begin an iteration: inputs appear where they start; return whether they fit."""
    x = s[SCALARS]
    x[BASE] = x[OP]
    x[BEGUN] = x[TIME]
    x[EVENT] = 0
    x[CROSSING] = 0
    x[EMERGENCIES] = 0
    x[EVICTIONS] = 0
    for i in range(knobs[TENSORS]):
        if not d[INITIAL, i] or (x[OP] > 0 and d[PERSISTENT, i]):
            continue
        s[ALIVE, i] = 1
        s[DEAD, i] = 0
        s[NEXT, i] = 0
        s[NEXT_USE, i] = x[BASE] + d[USE, d[USE_FIRST, i]]
        s[LEAVING, i] = -1
        tier = s[START, i]
        for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
            if tier == 0:
                s[DEVICE, c] = PRESENT
                x[USED] += d[BYTES, c]
            elif s[COPY + tier - 1, c] != VALID:
                s[COPY + tier - 1, c] = VALID
                x[USED + tier] += d[BYTES, c]
        s[ABSENT_CHUNKS, i] = 0 if tier == 0 else d[CHUNK_FIRST, i + 1] - d[CHUNK_FIRST, i]
    return bool(x[USED] <= d[LIMITS, 0] and x[USED_1] <= d[LIMITS, 1] and (x[USED_2] <= d[LIMITS, 2]))


@inner
def may_cross(d: Integers, knobs: Integers, s: Integers, log: Integers) -> bool:
    """Return whether the next iteration may begin, and make it so where nothing has to move any more.

    No copy begins now, or of what ends, or is under way to where its tensor may not start; what outlives the
    period is where it may start; inputs fit.
    """
    x = s[SCALARS]
    leaves = np.int64(0)
    for channel in range(4):
        c = s[FLIGHT, channel]
        if c >= 0 and s[FLIGHT_START, channel] == x[TIME]:
            return False
        if c >= 0 and not may_rest(d, d[OWNER, c], 0 if channel >= HOST_IN else channel + 1):
            return False
    if not come_home(d, knobs, s, log):
        return False
    for i in range(knobs[TENSORS]):
        if s[COPIES_OUT, i] and not d[PERSISTENT, i]:
            return False
        if d[LASTING, i] and s[ALIVE, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if s[DEVICE, c] == PRESENT:
                    leaves += d[BYTES, c]
    needed = x[USED] - leaves + inputs(d, knobs, s) - d[LIMITS, 0]
    if needed <= 0:
        forget_strays(d, knobs, s, log)
        return True
    if knobs[EAGER]:
        evict(d, knobs, s, log, needed - x[PENDING], knobs[SPARED], NOBODY)
    return False


@inner
def come_home(d: Integers, knobs: Integers, s: Integers, log: Integers) -> bool:
    """Ask for what is not where it may be as a period ends; return whether there is nothing to wait for."""
    x = s[SCALARS]
    ready = True
    for i in range(knobs[TENSORS]):
        if d[HOME, i] == 0:
            continue
        low, high = d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]
        away = here = False
        for c in range(low, high):
            if s[DEVICE, c] == ARRIVING:
                ready &= not is_stray(d, s, i, c, 1) and not is_stray(d, s, i, c, 2)
            elif s[DEVICE, c] == PRESENT:
                here |= not may_rest(d, i, 0)
            else:
                away |= not is_home(d, s, i, c)
        if away:
            ready = False
            stop_leaving(d, s, i)
            if s[URGENT, i] != x[OP]:
                s[URGENT, i] = x[OP]
                ask_back(d, s, i, s[NEXT_USE, i], URGENT_QUEUES)
        elif here:
            ready &= leave_home(d, s, log, i)
    return ready


@inner
def leave_home(d: Integers, s: Integers, log: Integers, i: int) -> bool:
    """Let a tensor leave the device, where it may not be as a period ends; return whether it has left."""
    low, high = d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]
    room = d[LIMITS, 1] - s[SCALARS, USED_1] >= d[SIZE, i]
    tier = 1 if may_rest(d, i, 1) and (room or not may_rest(d, i, 2)) else 2
    for c in range(low, high):
        if s[DEVICE, c] == PRESENT:
            forget_stray(d, s, log, i, c)
    if s[LEAVING, i] >= 0 and not may_rest(d, i, s[LEAVING_TO, i]):
        stop_leaving(d, s, i)
    if s[LEAVING, i] < 0 and leave(d, s, log, i, s[NEXT_USE, i], tier):
        enqueue(s, tier - 1 + 4, i, s[NEXT_USE, i])
    return bool(s[ABSENT_CHUNKS, i] == high - low)


@inner
def is_stray(d: Integers, s: Integers, i: int, c: int, tier: int) -> bool:
    """Return whether a chunk has a copy in an outer tier where it may not be as a period ends."""
    return bool(s[COPY + tier - 1, c] == VALID and not may_rest(d, i, tier))


@inner
def forget_stray(d: Integers, s: Integers, log: Integers, i: int, c: int) -> None:
    """Free such copies of a chunk."""
    x = s[SCALARS]
    for tier in (1, 2):
        if is_stray(d, s, i, c, tier):
            s[COPY + tier - 1, c] = NONE
            x[USED + tier] -= d[BYTES, c]
            write_log(s, log, LOG_FREE, c, tier, x[TIME], x[TIME])


@inner
def forget_strays(d: Integers, knobs: Integers, s: Integers, log: Integers) -> None:
    """Free such copies of all chunks."""
    for i in range(knobs[TENSORS]):
        if d[HOME, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                forget_stray(d, s, log, i, c)


@inner
def end_iteration(d: Integers, knobs: Integers, s: Integers) -> None:
    """Let the final tensors that are not initial leave."""
    x = s[SCALARS]
    for i in range(knobs[TENSORS]):
        if not d[LASTING, i]:
            continue
        s[ALIVE, i] = 0
        stop_leaving(d, s, i)
        for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
            if s[DEVICE, c] == PRESENT:
                x[USED] -= d[BYTES, c]
            s[DEVICE, c] = GONE
            for tier in (1, 2):
                if s[COPY + tier - 1, c] == VALID:
                    x[USED + tier] -= d[BYTES, c]
                s[COPY + tier - 1, c] = NONE


@inner
def remember(s: Integers, chunks: int) -> bool:
    """Note the physical state; return whether it is that at the last boundary."""
    same, time = True, s[SCALARS, TIME]
    for row in range(3):
        for c in range(chunks):
            same &= s[BEFORE + row, c] == s[DEVICE + row, c]
            s[BEFORE + row, c] = s[DEVICE + row, c]
    for c in range(4):
        spent, left = np.int64(0), np.int64(0)
        if s[FLIGHT, c] >= 0:
            spent, left = time - s[FLIGHT_START, c], s[FLIGHT_END, c] - time
        same &= s[BEFORE_FLIGHT, c] == s[FLIGHT, c]
        same &= s[BEFORE_FLIGHT + 1, c] == spent and s[BEFORE_FLIGHT + 2, c] == left
        s[BEFORE_FLIGHT, c], s[BEFORE_FLIGHT + 1, c], s[BEFORE_FLIGHT + 2, c] = s[FLIGHT, c], spent, left
    return same
