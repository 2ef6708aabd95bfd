"""Room in the simulator: what lacks, victims, copies that are forgotten, and emergencies; compiled."""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner
from .chunk_kernel import leave, write_log
from .queue_kernel import ask_back, enqueue
from .tables import (
    ABSENT_CHUNKS,
    ALIVE,
    ARRIVING,
    BASE,
    BIRTHS,
    BYTES,
    CHUNK_FIRST,
    CHUNKS,
    COPY,
    COPY_2,
    CROSSING,
    DEATHS,
    DEVICE,
    DEVICE_TIER,
    EARLY,
    EMERGENCIES,
    EVICTIONS,
    FAR,
    FORCED,
    FURTHEST,
    GONE,
    HEAD,
    HOME,
    HOST_IN,
    HOST_OUT,
    INITIAL,
    LAST_USE,
    LASTING,
    LEAVING,
    LEAVING_CHUNK,
    LEAVING_TO,
    LIMITS,
    LOG_FREE,
    NEXT,
    NEXT_USE,
    NOBODY,
    NONE,
    NONE_SPARED,
    OP,
    OP_FIRST,
    OP_READ,
    OP_TENSOR,
    OWNER,
    PENDING,
    PERIODIC,
    PERSISTENT,
    PRESENT,
    QUEUE,
    QUEUE_USE,
    RATE,
    RUNNING,
    SCALARS,
    SIZE,
    SLOW_IN,
    SLOW_OUT,
    START,
    TAIL,
    TENSORS,
    TIME,
    URGENT,
    URGENT_QUEUES,
    USE,
    USE_FIRST,
    USED,
    USED_1,
    VALID,
    VICTIM,
    WORKSPACE,
    N,
)


@inner
def needed_by(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that op k has yet to find on the device; what dies at its start makes room."""
    total = d[BIRTHS, k] + d[WORKSPACE, k]
    if d[EARLY, k]:
        total = max(total - dying_bytes(d, s, k), 0)
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        if s[ALIVE, i] and s[ABSENT_CHUNKS, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if s[DEVICE, c] == GONE:
                    total += d[BYTES, c]
    return int(total)


@inner
def dying_bytes(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that go at the start of op k: of its last reads, unless they are being copied."""
    total = np.int64(0)
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        if d[OP_READ, a] == 2:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if not s[LEAVING_CHUNK, c]:
                    total += d[BYTES, c]
    return int(total)


@inner
def next_access(d: Integers, knobs: Integers, s: Integers, i: int) -> int:
    """Return the op of a tensor's access behind the next one; `FAR`: it outlasts the run; -1: it dies."""
    at = d[USE_FIRST, i] + s[NEXT, i] + 1
    base = s[SCALARS, BASE]
    if at < d[USE_FIRST, i + 1]:
        return int(base + d[USE, at])
    if d[PERSISTENT, i] and knobs[PERIODIC]:
        return int(base + knobs[N] + d[USE, d[USE_FIRST, i]])
    return FAR if d[LASTING, i] else -1


@inner
def is_clean(d: Integers, s: Integers, i: int) -> bool:
    """Return whether all of a tensor is on the device, and in outer tiers as well."""
    if s[ABSENT_CHUNKS, i]:
        return False
    for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
        if s[LEAVING_CHUNK, c] or (s[COPY, c] != VALID and s[COPY_2, c] != VALID):
            return False
    return True


@inner
def spare_bytes(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that op k only reads, that are needed behind it, and that are in an outer tier too."""
    total = np.int64(0)
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        if d[OP_READ, a] == 1 and is_clean(d, s, d[OP_TENSOR, a]):
            total += d[SIZE, d[OP_TENSOR, a]]
    return int(total)


@inner
def release_spare(d: Integers, s: Integers, log: Integers, k: int) -> None:
    """Release such tensors of op k, of the furthest next use first, until what it creates fits."""
    x = s[SCALARS]
    while x[USED] + d[BIRTHS, k] + d[WORKSPACE, k] > d[LIMITS, 0]:
        best = -1
        for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
            i = d[OP_TENSOR, a]
            if d[OP_READ, a] != 1 or d[SIZE, i] == 0 or not is_clean(d, s, i):
                continue
            if best < 0 or s[NEXT_USE, i] > s[NEXT_USE, best]:
                best = i
        leave(d, s, log, best, s[NEXT_USE, best], DEVICE_TIER)


@inner
def nearest_room(d: Integers, s: Integers, i: int) -> int:
    """Return the tier for a tensor out of turn: the first outer one, if it serves both ways and has room."""
    room = d[LIMITS, 1] - s[SCALARS, USED_1] >= d[SIZE, i] or d[RATE, SLOW_OUT] == 0 or d[RATE, SLOW_IN] == 0
    return 1 if room and d[RATE, HOST_OUT] > 0 and d[RATE, HOST_IN] > 0 else 2


@inner
def may_rest(d: Integers, i: int, tier: int) -> bool:
    """Return whether a tensor may be in a tier as a period ends."""
    return bool(d[HOME, i] == 0 or d[HOME, i] >> tier & 1)


@inner
def is_home(d: Integers, s: Integers, i: int, c: int) -> bool:
    """Return whether a chunk of a tensor is at rest in a tier where it may be as a period ends."""
    found = s[DEVICE, c] == PRESENT and may_rest(d, i, 0)
    for tier in (1, 2):
        found |= s[COPY + tier - 1, c] == VALID and may_rest(d, i, tier)
    return bool(found)


@inner
def far_from_home(d: Integers, knobs: Integers, s: Integers) -> int:
    """Return the bytes that must return to the device before a period may end."""
    total = np.int64(0)
    for i in range(knobs[TENSORS]):
        if d[HOME, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if s[DEVICE, c] == GONE and not is_home(d, s, i, c):
                    total += d[BYTES, c]
    return int(total)


@inner
def inputs(d: Integers, knobs: Integers, s: Integers) -> int:
    """Return the bytes that appear on the device at the beginning of each iteration but the first."""
    total = np.int64(0)
    for i in range(knobs[TENSORS]):
        if d[INITIAL, i] and not d[PERSISTENT, i] and s[START, i] == 0:
            total += d[SIZE, i]
    return int(total)


@inner
def room_for(d: Integers, knobs: Integers, s: Integers, nbytes: int, use: int) -> int:
    """Return the bytes that lack for a chunk to return, at most 0 if it may.

    What is needed behind the next op must leave that one's room, counting on what is leaving.
    """
    x = s[SCALARS]
    lack = x[USED] + nbytes - d[LIMITS, 0]
    k = x[OP] - x[BASE] + x[RUNNING]
    if use > x[BASE] + k and k < knobs[N]:
        needed = needed_by(d, s, k)
        if x[RUNNING]:
            needed -= d[WORKSPACE, k - 1] + d[DEATHS, k - 1]
        lack = max(lack, lack + max(needed, 0) - x[PENDING])
    return int(lack)


@inner
def evict(
    d: Integers, knobs: Integers, s: Integers, log: Integers, needed: int, spared: int, kept: int
) -> bool:
    """Choose victims of `needed` bytes by the rule, not tensor `kept`; return whether there is any."""
    x = s[SCALARS]
    found = False
    while needed > 0:
        best = -1
        for i in range(knobs[TENSORS]):
            if i == kept or not s[ALIVE, i] or s[LEAVING, i] >= 0 or d[SIZE, i] == 0:
                continue
            if s[NEXT_USE, i] <= x[OP] + spared:
                continue
            if x[CROSSING] and not may_rest(d, i, nearest_room(d, s, i)):
                continue
            here = False
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                here |= s[DEVICE, c] == PRESENT
                if s[DEVICE, c] == ARRIVING:
                    here = False
                    break
            if not here:
                continue
            if best < 0:
                best = i
            elif knobs[VICTIM] == FURTHEST:
                if s[NEXT_USE, i] > s[NEXT_USE, best]:
                    best = i
            elif s[LAST_USE, i] < s[LAST_USE, best]:
                best = i
        if best < 0:
            return found
        here_bytes = np.int64(0)
        for c in range(d[CHUNK_FIRST, best], d[CHUNK_FIRST, best + 1]):
            if s[DEVICE, c] == PRESENT:
                here_bytes += d[BYTES, c]
        tier = nearest_room(d, s, best)
        if leave(d, s, log, best, s[NEXT_USE, best], tier):
            enqueue(s, tier - 1 + 4, best, s[NEXT_USE, best])
        needed -= int(here_bytes)
        x[EVICTIONS] += 1
        found = True
    return found


@inner
def rescue(d: Integers, knobs: Integers, s: Integers, log: Integers) -> bool:
    """Resolve a deadlock, as counted emergencies: fetch out of turn, move on to the slow tier, evict."""
    x = s[SCALARS]
    changed = False
    if x[CROSSING]:
        lack = x[USED] + inputs(d, knobs, s) + far_from_home(d, knobs, s) - d[LIMITS, 0]
    else:
        k = x[OP] - x[BASE]
        for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
            i = d[OP_TENSOR, a]
            if s[ALIVE, i] and s[ABSENT_CHUNKS, i] and s[URGENT, i] != x[OP]:
                s[URGENT, i] = x[OP]
                changed |= ask_back(d, s, i, x[OP], URGENT_QUEUES)
        lack = x[USED] + needed_by(d, s, k) - d[LIMITS, 0]
    head = s[HEAD, HOST_OUT]
    if head < s[TAIL, HOST_OUT] and d[RATE, SLOW_OUT] and d[RATE, SLOW_IN]:
        place = head % s.shape[1]
        i = s[QUEUE + HOST_OUT, place]
        if not x[CROSSING] or may_rest(d, i, 2):
            s[HEAD, HOST_OUT] += 1
            s[LEAVING_TO, i] = 2
            changed |= enqueue(s, SLOW_OUT + 4, i, s[QUEUE_USE + HOST_OUT, place])
    if lack > x[PENDING]:
        changed |= evict(d, knobs, s, log, lack - x[PENDING], NONE_SPARED, NOBODY)
    if not changed and lack > 0 and not x[CROSSING]:
        changed = write_operand(d, knobs, s)
    if not changed and x[FORCED] == 0:
        x[FORCED] = 1
        changed = True
    x[EMERGENCIES] += changed
    return changed


@inner
def write_operand(d: Integers, knobs: Integers, s: Integers) -> bool:
    """Copy out what the next op only reads, to be released at its start: of the furthest use behind it."""
    x = s[SCALARS]
    k, best, last = x[OP] - x[BASE], -1, np.int64(-1)
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        if d[OP_READ, a] != 1 or s[ABSENT_CHUNKS, i] or d[SIZE, i] == 0 or is_clean(d, s, i):
            continue
        use = next_access(d, knobs, s, i)
        if use > last:
            best, last = i, use
    if best < 0:
        return False
    queue = nearest_room(d, s, best) - 1 + 4
    return bool(s[HEAD, queue] == s[TAIL, queue]) and enqueue(s, queue, best, last)


@inner
def forget(d: Integers, knobs: Integers, s: Integers, log: Integers, tier: int, lack: int) -> bool:
    """Free copies of chunks that are on the device as well, nearest use first, if that is enough."""
    x = s[SCALARS]
    available = np.int64(0)
    row = COPY + tier - 1
    for c in range(knobs[CHUNKS]):
        if may_forget(d, s, row, c):
            available += d[BYTES, c]
    if available < lack:
        return False
    while lack > 0:
        best = -1
        for c in range(knobs[CHUNKS]):
            if may_forget(d, s, row, c) and (
                best < 0 or s[NEXT_USE, d[OWNER, c]] < s[NEXT_USE, d[OWNER, best]]
            ):
                best = c
        s[row, best] = NONE
        x[USED + tier] -= d[BYTES, best]
        lack -= d[BYTES, best]
        write_log(s, log, LOG_FREE, best, tier, x[TIME], x[TIME])
    return True


@inner
def may_forget(d: Integers, s: Integers, row: int, c: int) -> bool:
    """Return whether a copy is on the device as well, to stay, and no input's place."""
    i = d[OWNER, c]
    stays = s[row, c] == VALID and s[DEVICE, c] == PRESENT and s[LEAVING, i] < 0
    return bool(stays and (d[PERSISTENT, i] or not d[INITIAL, i]))
