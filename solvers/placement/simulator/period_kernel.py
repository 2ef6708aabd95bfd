"""Where one iteration of the simulator ends and the next one begins; compiled.

A plan of a period must have what outlives it where it may start. Before the period ends, what is elsewhere
comes back to the device, and leaves it for an outer tier if it may not be there; copies in other tiers are
forgotten.
"""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner
from ..world.channels import (
    ABSENT,
    ARRIVING,
    DEVICE,
    HOST_IN,
    LOG_FREE,
    NONE,
    PRESENT,
    VALID,
    channel_out,
    outer_tier,
)
from .chunk_kernel import leave, stop_leaving, write_log
from .queue_kernel import ask_back, enqueue
from .room_kernel import evict, inputs, is_home, may_rest
from .tables import NOBODY, URGENT_QUEUES, D, Knobs, S, X


@inner
def begin(d: Integers, knobs: Knobs, s: Integers) -> bool:
    """Begin an iteration: inputs appear where they start; return whether they fit."""
    x = s[S.scalars]
    x[X.base] = x[X.op]
    x[X.begun] = x[X.time]
    x[X.event] = 0
    x[X.crossing] = 0
    x[X.emergencies] = 0
    x[X.evictions] = 0
    for i in range(knobs.tensors):
        if not d[D.initial, i] or (x[X.op] > 0 and d[D.persistent, i]):
            continue
        s[S.alive, i] = 1
        s[S.dead, i] = 0
        s[S.next_index, i] = 0
        s[S.next_use, i] = x[X.base] + d[D.use, d[D.first_use, i]]
        s[S.leaving, i] = -1
        tier = s[S.start, i]
        for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
            if tier == 0:
                s[S.on_device, c] = PRESENT
                x[X.used] += d[D.chunk_bytes, c]
            elif s[S.on_device + tier, c] != VALID:
                s[S.on_device + tier, c] = VALID
                x[X.used + tier] += d[D.chunk_bytes, c]
        s[S.absent_chunks, i] = 0 if tier == 0 else d[D.first_chunk, i + 1] - d[D.first_chunk, i]
    return bool(
        x[X.used] <= d[D.capacity, 0]
        and x[X.used_1] <= d[D.capacity, 1]
        and (x[X.used_2] <= d[D.capacity, 2])
    )


@inner
def may_cross(d: Integers, knobs: Knobs, s: Integers, log: Integers) -> bool:
    """Return whether the next iteration may begin, and make it so where nothing has to move any more.

    No copy begins now, or of what ends, or is under way to where its tensor may not start; what outlives the
    period is where it may start; inputs fit.
    """
    x = s[S.scalars]
    leaves = np.int64(0)
    for channel in range(4):
        c = s[S.flight, channel]
        if c >= 0 and s[S.flight_start, channel] == x[X.time]:
            return False
        if c >= 0 and not may_rest(d, d[D.owner, c], DEVICE if channel >= HOST_IN else outer_tier(channel)):
            return False
    if not come_home(d, knobs, s, log):
        return False
    for i in range(knobs.tensors):
        if s[S.copies_out, i] and not d[D.persistent, i]:
            return False
        if d[D.lasting, i] and s[S.alive, i]:
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                if s[S.on_device, c] == PRESENT:
                    leaves += d[D.chunk_bytes, c]
    needed = x[X.used] - leaves + inputs(d, knobs, s) - d[D.capacity, 0]
    if needed <= 0:
        forget_strays(d, knobs, s, log)
        return True
    if knobs.eager:
        evict(d, knobs, s, log, needed - x[X.pending], knobs.spared, NOBODY)
    return False


@inner
def come_home(d: Integers, knobs: Knobs, s: Integers, log: Integers) -> bool:
    """Ask for what is not where it may be as a period ends; return whether there is nothing to wait for."""
    x = s[S.scalars]
    ready = True
    for i in range(knobs.tensors):
        if d[D.home, i] == 0:
            continue
        low, high = d[D.first_chunk, i], d[D.first_chunk, i + 1]
        away = here = False
        for c in range(low, high):
            if s[S.on_device, c] == ARRIVING:
                ready &= not is_stray(d, s, i, c, 1) and not is_stray(d, s, i, c, 2)
            elif s[S.on_device, c] == PRESENT:
                here |= not may_rest(d, i, 0)
            else:
                away |= not is_home(d, s, i, c)
        if away:
            ready = False
            stop_leaving(d, s, i)
            if s[S.urgent, i] != x[X.op]:
                s[S.urgent, i] = x[X.op]
                ask_back(d, s, i, s[S.next_use, i], URGENT_QUEUES)
        elif here:
            ready &= leave_home(d, s, log, i)
    return ready


@inner
def leave_home(d: Integers, s: Integers, log: Integers, i: int) -> bool:
    """Let a tensor leave the device, where it may not be as a period ends; return whether it has left."""
    low, high = d[D.first_chunk, i], d[D.first_chunk, i + 1]
    room = d[D.capacity, 1] - s[S.scalars, X.used_1] >= d[D.size, i]
    tier = 1 if may_rest(d, i, 1) and (room or not may_rest(d, i, 2)) else 2
    for c in range(low, high):
        if s[S.on_device, c] == PRESENT:
            forget_stray(d, s, log, i, c)
    if s[S.leaving, i] >= 0 and not may_rest(d, i, s[S.leaving_to, i]):
        stop_leaving(d, s, i)
    if s[S.leaving, i] < 0 and leave(d, s, log, i, s[S.next_use, i], tier):
        enqueue(s, channel_out(tier) + URGENT_QUEUES, i, s[S.next_use, i])
    return bool(s[S.absent_chunks, i] == high - low)


@inner
def is_stray(d: Integers, s: Integers, i: int, c: int, tier: int) -> bool:
    """Return whether a chunk has a copy in an outer tier where it may not be as a period ends."""
    return bool(s[S.on_device + tier, c] == VALID and not may_rest(d, i, tier))


@inner
def forget_stray(d: Integers, s: Integers, log: Integers, i: int, c: int) -> None:
    """Free such copies of a chunk."""
    x = s[S.scalars]
    for tier in (1, 2):
        if is_stray(d, s, i, c, tier):
            s[S.on_device + tier, c] = NONE
            x[X.used + tier] -= d[D.chunk_bytes, c]
            write_log(s, log, LOG_FREE, c, tier, x[X.time], x[X.time])


@inner
def forget_strays(d: Integers, knobs: Knobs, s: Integers, log: Integers) -> None:
    """Free such copies of all chunks."""
    for i in range(knobs.tensors):
        if d[D.home, i]:
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                forget_stray(d, s, log, i, c)


@inner
def end_iteration(d: Integers, knobs: Knobs, s: Integers) -> None:
    """Let the final tensors that are not initial leave."""
    x = s[S.scalars]
    for i in range(knobs.tensors):
        if not d[D.lasting, i]:
            continue
        s[S.alive, i] = 0
        stop_leaving(d, s, i)
        for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
            if s[S.on_device, c] == PRESENT:
                x[X.used] -= d[D.chunk_bytes, c]
            s[S.on_device, c] = ABSENT
            for tier in (1, 2):
                if s[S.on_device + tier, c] == VALID:
                    x[X.used + tier] -= d[D.chunk_bytes, c]
                s[S.on_device + tier, c] = NONE


@inner
def remember(s: Integers, chunks: int) -> bool:
    """Note the physical state; return whether it is that at the last boundary.

    The planner has a `remember` of its own: its copies are segments of chunks, and it lets the state be held.
    """
    same, time = True, s[S.scalars, X.time]
    for row in range(3):
        for c in range(chunks):
            same &= s[S.before + row, c] == s[S.on_device + row, c]
            s[S.before + row, c] = s[S.on_device + row, c]
    for c in range(4):
        spent, left = np.int64(0), np.int64(0)
        if s[S.flight, c] >= 0:
            spent, left = time - s[S.flight_start, c], s[S.flight_end, c] - time
        for row, value in enumerate((s[S.flight, c], spent, left)):
            same &= s[S.before_flight + row, c] == value
            s[S.before_flight + row, c] = value
    return same
