"""The channels of the simulator: copies begin and arrive; compiled."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from .chunk_kernel import bury, release, write_log
from .queue_kernel import enqueue
from .room_kernel import evict, forget, is_home, may_rest, room_for
from .tables import (
    ABSENT_CHUNKS,
    ALIVE,
    ARRIVING,
    BYTES,
    CHUNK_FIRST,
    COMING,
    COPIES_OUT,
    COPY,
    COPY_2,
    CROSSING,
    DEAD,
    DEVICE,
    EAGER,
    FLIGHT,
    FLIGHT_END,
    FLIGHT_RATE,
    FLIGHT_ROW,
    FLIGHT_START,
    GONE,
    GROUP_COUNT,
    GROUPS,
    HEAD,
    HOME,
    HOST_OUT,
    LAST_USE,
    LATENCY,
    LEAVING,
    LEAVING_CHUNK,
    LEAVING_TO,
    LIMITS,
    LOG_COPY,
    LOGGED,
    NEXT_USE,
    OP,
    OWNER,
    PENDING,
    PRESENT,
    QUEUE,
    QUEUE_USE,
    RATE,
    SCALARS,
    SCALE,
    SLOW_IN,
    SLOW_OUT,
    SPARED,
    STAMP,
    TAIL,
    TIME,
    USED,
    USED_1,
    VALID,
    WRITTEN,
)


@inner
def free_rate(d: Integers, knobs: Integers, s: Integers, c: int) -> int:
    """Return the rate that a copy would get on a channel now, 0 if less than half of its own is free."""
    rate = d[RATE, c]
    for g in range(knobs[GROUP_COUNT]):
        if d[GROUPS, 5 * g + 1 + c]:
            left = d[GROUPS, 5 * g]
            for other in range(4):
                if s[FLIGHT, other] >= 0 and d[GROUPS, 5 * g + 1 + other]:
                    left -= s[FLIGHT_RATE, other]
            rate = min(rate, left)
    return int(rate) if 2 * rate >= d[RATE, c] else 0


@inner
def depart(d: Integers, s: Integers, log: Integers, channel: int, c: int, rate: int) -> None:
    """Put a chunk on a channel."""
    x = s[SCALARS]
    s[FLIGHT, channel] = c
    s[FLIGHT_START, channel] = x[TIME]
    length = -(-d[BYTES, c] * SCALE // rate)
    s[FLIGHT_END, channel] = x[TIME] + d[LATENCY, channel] + max(length, 1)
    s[FLIGHT_RATE, channel] = rate
    s[FLIGHT_ROW, channel] = x[LOGGED]
    write_log(s, log, LOG_COPY, c, channel, x[TIME], s[FLIGHT_END, channel])


@inner
def arrive(d: Integers, s: Integers, log: Integers, channel: int) -> None:
    """End the copy on a channel."""
    x = s[SCALARS]
    c = s[FLIGHT, channel]
    i = d[OWNER, c]
    s[FLIGHT, channel] = -1
    if channel >= 2:
        s[DEVICE, c] = PRESENT
        s[ABSENT_CHUNKS, i] -= 1
        x[STAMP] += 1
        s[LAST_USE, i] = x[STAMP]
        return
    s[COPY + channel, c] = VALID
    s[LEAVING_CHUNK, c] = 0
    s[COPIES_OUT, i] -= 1
    if s[DEAD, i]:
        bury(d, s, log, c)
    elif s[LEAVING, i] >= 0:
        release(d, s, log, c)


@inner
def serve_out(d: Integers, knobs: Integers, s: Integers, log: Integers, channel: int) -> bool:
    """Begin the next copy of an idle channel outwards, urgent ones first; in each queue strictly in turn."""
    x = s[SCALARS]
    changed = False
    for queue in (channel + 4, channel):
        while s[HEAD, queue] < s[TAIL, queue] and s[FLIGHT, channel] < 0:
            place = s[HEAD, queue] % s.shape[1]
            i, use = s[QUEUE + queue, place], s[QUEUE_USE + queue, place]
            chunk = -1
            due = x[OP] >= use
            if x[CROSSING] and d[HOME, i]:
                due = not may_rest(d, i, 1 + channel) or (due and may_rest(d, i, 0))
            if s[ALIVE, i] and not due:
                if s[WRITTEN, i]:
                    break
                for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                    if s[DEVICE, c] == PRESENT and not s[COPY, c] and not s[COPY_2, c]:
                        chunk = c
                        break
            if chunk < 0:
                s[HEAD, queue] += 1
                changed = True
                continue
            lack = x[USED_1 + channel] + d[BYTES, chunk] - d[LIMITS, 1 + channel]
            if lack > 0 and not forget(d, knobs, s, log, 1 + channel, lack):
                further = d[RATE, SLOW_OUT] and d[RATE, SLOW_IN] and (not x[CROSSING] or may_rest(d, i, 2))
                if queue == HOST_OUT + 4 and further:
                    s[HEAD, queue] += 1
                    s[LEAVING_TO, i] = 2
                    changed |= enqueue(s, SLOW_OUT + 4, i, use)
                    continue
                break
            rate = free_rate(d, knobs, s, channel)
            if rate <= 0:
                break
            x[USED_1 + channel] += d[BYTES, chunk]
            s[COPY + channel, chunk] = COMING
            s[LEAVING_CHUNK, chunk] = 1
            s[COPIES_OUT, i] += 1
            depart(d, s, log, channel, chunk, rate)
            return True
    return changed


@inner
def serve_in(d: Integers, knobs: Integers, s: Integers, log: Integers, channel: int) -> bool:
    """Begin the next copy of an idle channel inwards, urgent ones first; in each queue strictly in turn."""
    x = s[SCALARS]
    tier = channel - 1
    changed = False
    for queue in (channel + 4, channel):
        while s[HEAD, queue] < s[TAIL, queue] and s[FLIGHT, channel] < 0:
            place = s[HEAD, queue] % s.shape[1]
            i, use = s[QUEUE + queue, place], s[QUEUE_USE + queue, place]
            chunk = -1
            if s[ALIVE, i] and s[NEXT_USE, i] == use:
                if s[LEAVING, i] >= 0 and x[OP] < use:
                    break  # it has yet to leave
                leaves = x[CROSSING] and not may_rest(d, i, 0)
                for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                    if leaves and is_home(d, s, i, c):
                        continue
                    nearest = tier == 1 or s[COPY, c] != VALID
                    if s[DEVICE, c] == GONE and s[COPY + tier - 1, c] == VALID and nearest:
                        chunk = c
                        break
            if chunk < 0:
                s[HEAD, queue] += 1
                changed = True
                continue
            lack = room_for(d, knobs, s, d[BYTES, chunk], use)
            if lack > 0:
                if knobs[EAGER] and lack > x[PENDING]:
                    changed |= evict(d, knobs, s, log, lack - x[PENDING], knobs[SPARED], i)
                    lack = room_for(d, knobs, s, d[BYTES, chunk], use)
                if lack > 0:
                    break
            rate = free_rate(d, knobs, s, channel)
            if rate <= 0:
                break
            x[USED] += d[BYTES, chunk]
            s[DEVICE, chunk] = ARRIVING
            depart(d, s, log, channel, chunk, rate)
            return True
    return changed
