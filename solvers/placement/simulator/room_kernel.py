"""Room in the simulator: what lacks, victims, copies that are forgotten, and emergencies; compiled."""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner
from ..world.channels import (
    ABSENT,
    ARRIVING,
    DEVICE,
    FAR,
    HOST_IN,
    HOST_OUT,
    LOG_FREE,
    NONE,
    PRESENT,
    SLOW_IN,
    SLOW_OUT,
    VALID,
    channel_out,
)
from .chunk_kernel import leave, write_log
from .queue_kernel import ask_back, enqueue
from .tables import FURTHEST, NOBODY, NONE_SPARED, URGENT_QUEUES, D, Knobs, S, X


@inner
def needed_by(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that op k has yet to find on the device; what dies at its start makes room."""
    total = d[D.births, k] + d[D.workspace, k]
    if d[D.early, k]:
        total = max(total - dying_bytes(d, s, k), 0)
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        i = d[D.operand, a]
        if s[S.alive, i] and s[S.absent_chunks, i]:
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                if s[S.on_device, c] == ABSENT:
                    total += d[D.chunk_bytes, c]
    return int(total)


@inner
def dying_bytes(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that go at the start of op k: of its last reads, unless they are being copied."""
    total = np.int64(0)
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        i = d[D.operand, a]
        if d[D.operand_read, a] == 2:
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                if not s[S.leaving_chunk, c]:
                    total += d[D.chunk_bytes, c]
    return int(total)


@inner
def next_access(d: Integers, knobs: Knobs, s: Integers, i: int) -> int:
    """Return the op of a tensor's access behind the next one; `FAR`: it outlasts the run; -1: it dies."""
    at = d[D.first_use, i] + s[S.next_index, i] + 1
    base = s[S.scalars, X.base]
    if at < d[D.first_use, i + 1]:
        return int(base + d[D.use, at])
    if d[D.persistent, i] and knobs.periodic:
        return int(base + knobs.ops + d[D.use, d[D.first_use, i]])
    return FAR if d[D.lasting, i] else -1


@inner
def is_clean(d: Integers, s: Integers, i: int) -> bool:
    """Return whether all of a tensor is on the device, and in outer tiers as well."""
    if s[S.absent_chunks, i]:
        return False
    for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
        if s[S.leaving_chunk, c] or (s[S.on_host, c] != VALID and s[S.on_slow, c] != VALID):
            return False
    return True


@inner
def spare_bytes(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that op k only reads, that are needed behind it, and that are in an outer tier too."""
    total = np.int64(0)
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        if d[D.operand_read, a] == 1 and is_clean(d, s, d[D.operand, a]):
            total += d[D.size, d[D.operand, a]]
    return int(total)


@inner
def release_spare(d: Integers, s: Integers, log: Integers, k: int) -> None:
    """Release such tensors of op k, of the furthest next use first, until what it creates fits."""
    x = s[S.scalars]
    while x[X.used] + d[D.births, k] + d[D.workspace, k] > d[D.capacity, 0]:
        best = -1
        for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
            i = d[D.operand, a]
            if d[D.operand_read, a] != 1 or d[D.size, i] == 0 or not is_clean(d, s, i):
                continue
            if best < 0 or s[S.next_use, i] > s[S.next_use, best]:
                best = i
        leave(d, s, log, best, s[S.next_use, best], DEVICE)


@inner
def nearest_room(d: Integers, s: Integers, i: int) -> int:
    """Return the tier for a tensor out of turn: the first outer one, if it serves both ways and has room."""
    room = (
        d[D.capacity, 1] - s[S.scalars, X.used_1] >= d[D.size, i]
        or d[D.rate, SLOW_OUT] == 0
        or d[D.rate, SLOW_IN] == 0
    )
    return 1 if room and d[D.rate, HOST_OUT] > 0 and d[D.rate, HOST_IN] > 0 else 2


@inner
def may_rest(d: Integers, i: int, tier: int) -> bool:
    """Return whether a tensor may be in a tier as a period ends."""
    return bool(d[D.home, i] == 0 or d[D.home, i] >> tier & 1)


@inner
def is_home(d: Integers, s: Integers, i: int, c: int) -> bool:
    """Return whether a chunk of a tensor is at rest in a tier where it may be as a period ends."""
    at_home = s[S.on_device, c] == PRESENT and may_rest(d, i, 0)
    for tier in (1, 2):
        at_home |= s[S.on_device + tier, c] == VALID and may_rest(d, i, tier)
    return bool(at_home)


@inner
def far_from_home(d: Integers, knobs: Knobs, s: Integers) -> int:
    """Return the bytes that must return to the device before a period may end."""
    total = np.int64(0)
    for i in range(knobs.tensors):
        if d[D.home, i]:
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                if s[S.on_device, c] == ABSENT and not is_home(d, s, i, c):
                    total += d[D.chunk_bytes, c]
    return int(total)


@inner
def inputs(d: Integers, knobs: Knobs, s: Integers) -> int:
    """Return the bytes that appear on the device at the beginning of each iteration but the first."""
    total = np.int64(0)
    for i in range(knobs.tensors):
        if d[D.initial, i] and not d[D.persistent, i] and s[S.start, i] == 0:
            total += d[D.size, i]
    return int(total)


@inner
def room_for(d: Integers, knobs: Knobs, s: Integers, nbytes: int, use: int) -> int:
    """Return the bytes that lack for a chunk to return, at most 0 if it may.

    What is needed behind the next op must leave that one's room, counting on what is leaving.
    """
    x = s[S.scalars]
    lack = x[X.used] + nbytes - d[D.capacity, 0]
    k = x[X.op] - x[X.base] + x[X.running]
    if use > x[X.base] + k and k < knobs.ops:
        needed = needed_by(d, s, k)
        if x[X.running]:
            needed -= d[D.workspace, k - 1] + d[D.deaths, k - 1]
        lack = max(lack, lack + max(needed, 0) - x[X.pending])
    return int(lack)


@inner
def evict(d: Integers, knobs: Knobs, s: Integers, log: Integers, needed: int, spared: int, kept: int) -> bool:
    """Choose victims of `needed` bytes by the rule, not tensor `kept`; return whether there is any."""
    x = s[S.scalars]
    chosen = False
    while needed > 0:
        best = -1
        for i in range(knobs.tensors):
            if i == kept or not s[S.alive, i] or s[S.leaving, i] >= 0 or d[D.size, i] == 0:
                continue
            if s[S.next_use, i] <= x[X.op] + spared:
                continue
            if x[X.crossing] and not may_rest(d, i, nearest_room(d, s, i)):
                continue
            here = False
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                here |= s[S.on_device, c] == PRESENT
                if s[S.on_device, c] == ARRIVING:
                    here = False
                    break
            if not here:
                continue
            if best < 0:
                best = i
            elif knobs.victim == FURTHEST:
                if s[S.next_use, i] > s[S.next_use, best]:
                    best = i
            elif s[S.last_use, i] < s[S.last_use, best]:
                best = i
        if best < 0:
            return chosen
        here_bytes = np.int64(0)
        for c in range(d[D.first_chunk, best], d[D.first_chunk, best + 1]):
            if s[S.on_device, c] == PRESENT:
                here_bytes += d[D.chunk_bytes, c]
        tier = nearest_room(d, s, best)
        if leave(d, s, log, best, s[S.next_use, best], tier):
            enqueue(s, channel_out(tier) + URGENT_QUEUES, best, s[S.next_use, best])
        needed -= int(here_bytes)
        x[X.evictions] += 1
        chosen = True
    return chosen


@inner
def rescue(d: Integers, knobs: Knobs, s: Integers, log: Integers) -> bool:
    """Resolve a deadlock, as counted emergencies: fetch out of turn, move on to the slow tier, evict."""
    x = s[S.scalars]
    changed = False
    if x[X.crossing]:
        lack = x[X.used] + inputs(d, knobs, s) + far_from_home(d, knobs, s) - d[D.capacity, 0]
    else:
        k = x[X.op] - x[X.base]
        for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
            i = d[D.operand, a]
            if s[S.alive, i] and s[S.absent_chunks, i] and s[S.urgent, i] != x[X.op]:
                s[S.urgent, i] = x[X.op]
                changed |= ask_back(d, s, i, x[X.op], URGENT_QUEUES)
        lack = x[X.used] + needed_by(d, s, k) - d[D.capacity, 0]
    head = s[S.head, HOST_OUT]
    if head < s[S.tail, HOST_OUT] and d[D.rate, SLOW_OUT] and d[D.rate, SLOW_IN]:
        place = head % s.shape[1]
        i = s[S.queue + HOST_OUT, place]
        if not x[X.crossing] or may_rest(d, i, 2):
            s[S.head, HOST_OUT] += 1
            s[S.leaving_to, i] = 2
            changed |= enqueue(s, SLOW_OUT + URGENT_QUEUES, i, s[S.queue_use + HOST_OUT, place])
    if lack > x[X.pending]:
        changed |= evict(d, knobs, s, log, lack - x[X.pending], NONE_SPARED, NOBODY)
    if not changed and lack > 0 and not x[X.crossing]:
        changed = write_operand(d, knobs, s)
    if not changed and x[X.forced] == 0:
        x[X.forced] = 1
        changed = True
    x[X.emergencies] += changed
    return changed


@inner
def write_operand(d: Integers, knobs: Knobs, s: Integers) -> bool:
    """Copy out what the next op only reads, to be released at its start: of the furthest use behind it."""
    x = s[S.scalars]
    k, best, last = x[X.op] - x[X.base], -1, np.int64(-1)
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        i = d[D.operand, a]
        if d[D.operand_read, a] != 1 or s[S.absent_chunks, i] or d[D.size, i] == 0 or is_clean(d, s, i):
            continue
        use = next_access(d, knobs, s, i)
        if use > last:
            best, last = i, use
    if best < 0:
        return False
    queue = channel_out(nearest_room(d, s, best)) + URGENT_QUEUES
    return bool(s[S.head, queue] == s[S.tail, queue]) and enqueue(s, queue, best, last)


@inner
def forget(d: Integers, knobs: Knobs, s: Integers, log: Integers, tier: int, lack: int) -> bool:
    """Free copies of chunks that are on the device as well, nearest use first, if that is enough."""
    x = s[S.scalars]
    available = np.int64(0)
    row = S.on_device + tier
    for c in range(knobs.chunks):
        if may_forget(d, s, row, c):
            available += d[D.chunk_bytes, c]
    if available < lack:
        return False
    while lack > 0:
        best = -1
        for c in range(knobs.chunks):
            if may_forget(d, s, row, c) and (
                best < 0 or s[S.next_use, d[D.owner, c]] < s[S.next_use, d[D.owner, best]]
            ):
                best = c
        s[row, best] = NONE
        x[X.used + tier] -= d[D.chunk_bytes, best]
        lack -= d[D.chunk_bytes, best]
        write_log(s, log, LOG_FREE, best, tier, x[X.time], x[X.time])
    return True


@inner
def may_forget(d: Integers, s: Integers, row: int, c: int) -> bool:
    """Return whether a copy is on the device as well, to stay, and no input's place."""
    i = d[D.owner, c]
    stays = s[row, c] == VALID and s[S.on_device, c] == PRESENT and s[S.leaving, i] < 0
    return bool(stays and (d[D.persistent, i] or not d[D.initial, i]))
