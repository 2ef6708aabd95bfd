"""The channels of the simulator: copies begin and arrive; compiled."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from ..world.channels import (
    ABSENT,
    ARRIVING,
    COMING,
    HOST_IN,
    HOST_OUT,
    LOG_COPY,
    PRESENT,
    SCALE,
    SLOW_IN,
    SLOW_OUT,
    VALID,
    outer_tier,
)
from .chunk_kernel import bury, release, write_log
from .queue_kernel import enqueue
from .room_kernel import evict, forget, is_home, may_rest, room_for
from .tables import URGENT_QUEUES, D, Knobs, S, X


@inner
def free_rate(d: Integers, knobs: Knobs, s: Integers, c: int) -> int:
    """Return the rate that a copy would get on a channel now, 0 if less than half of its own is free.

    The planner has another rule, not another coding of this one: there a copy under way changes its rate.
    """
    rate = d[D.rate, c]
    for g in range(knobs.caps):
        if d[D.caps, 5 * g + 1 + c]:
            left = d[D.caps, 5 * g]
            for other in range(4):
                if s[S.flight, other] >= 0 and d[D.caps, 5 * g + 1 + other]:
                    left -= s[S.flight_rate, other]
            rate = min(rate, left)
    return int(rate) if 2 * rate >= d[D.rate, c] else 0


@inner
def depart(d: Integers, s: Integers, log: Integers, channel: int, c: int, rate: int) -> None:
    """Put a chunk on a channel."""
    x = s[S.scalars]
    s[S.flight, channel] = c
    s[S.flight_start, channel] = x[X.time]
    length = -(-d[D.chunk_bytes, c] * SCALE // rate)
    s[S.flight_end, channel] = x[X.time] + d[D.latency, channel] + max(length, 1)
    s[S.flight_rate, channel] = rate
    s[S.flight_row, channel] = x[X.logged]
    write_log(s, log, LOG_COPY, c, channel, x[X.time], s[S.flight_end, channel])


@inner
def arrive(d: Integers, s: Integers, log: Integers, channel: int) -> None:
    """End the copy on a channel."""
    x = s[S.scalars]
    c = s[S.flight, channel]
    i = d[D.owner, c]
    s[S.flight, channel] = -1
    if channel >= HOST_IN:
        s[S.on_device, c] = PRESENT
        s[S.absent_chunks, i] -= 1
        x[X.stamp] += 1
        s[S.last_use, i] = x[X.stamp]
        return
    s[S.on_device + outer_tier(channel), c] = VALID
    s[S.leaving_chunk, c] = 0
    s[S.copies_out, i] -= 1
    if s[S.dead, i]:
        bury(d, s, log, c)
    elif s[S.leaving, i] >= 0:
        release(d, s, log, c)


@inner
def serve_out(d: Integers, knobs: Knobs, s: Integers, log: Integers, channel: int) -> bool:
    """Begin the next copy of an idle channel outwards, urgent ones first; in each queue strictly in turn."""
    x = s[S.scalars]
    tier = outer_tier(channel)
    changed = False
    for queue in (channel + URGENT_QUEUES, channel):
        while s[S.head, queue] < s[S.tail, queue] and s[S.flight, channel] < 0:
            place = s[S.head, queue] % s.shape[1]
            i, use = s[S.queue + queue, place], s[S.queue_use + queue, place]
            chunk = -1
            due = x[X.op] >= use
            if x[X.crossing] and d[D.home, i]:
                due = not may_rest(d, i, tier) or (due and may_rest(d, i, 0))
            if s[S.alive, i] and not due:
                if s[S.written, i]:
                    break
                for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                    if s[S.on_device, c] == PRESENT and not s[S.on_host, c] and not s[S.on_slow, c]:
                        chunk = c
                        break
            if chunk < 0:
                s[S.head, queue] += 1
                changed = True
                continue
            lack = x[X.used + tier] + d[D.chunk_bytes, chunk] - d[D.capacity, tier]
            if lack > 0 and not forget(d, knobs, s, log, tier, lack):
                further = (
                    d[D.rate, SLOW_OUT] and d[D.rate, SLOW_IN] and (not x[X.crossing] or may_rest(d, i, 2))
                )
                if queue == HOST_OUT + URGENT_QUEUES and further:
                    s[S.head, queue] += 1
                    s[S.leaving_to, i] = 2
                    changed |= enqueue(s, SLOW_OUT + URGENT_QUEUES, i, use)
                    continue
                break
            rate = free_rate(d, knobs, s, channel)
            if rate <= 0:
                break
            x[X.used + tier] += d[D.chunk_bytes, chunk]
            s[S.on_device + tier, chunk] = COMING
            s[S.leaving_chunk, chunk] = 1
            s[S.copies_out, i] += 1
            depart(d, s, log, channel, chunk, rate)
            return True
    return changed


@inner
def serve_in(d: Integers, knobs: Knobs, s: Integers, log: Integers, channel: int) -> bool:
    """Begin the next copy of an idle channel inwards, urgent ones first; in each queue strictly in turn."""
    x = s[S.scalars]
    tier = outer_tier(channel)
    changed = False
    for queue in (channel + URGENT_QUEUES, channel):
        while s[S.head, queue] < s[S.tail, queue] and s[S.flight, channel] < 0:
            place = s[S.head, queue] % s.shape[1]
            i, use = s[S.queue + queue, place], s[S.queue_use + queue, place]
            chunk = -1
            if s[S.alive, i] and s[S.next_use, i] == use:
                if s[S.leaving, i] >= 0 and x[X.op] < use:
                    break  # it has yet to leave
                leaves = x[X.crossing] and not may_rest(d, i, 0)
                for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                    if leaves and is_home(d, s, i, c):
                        continue
                    nearest = tier == 1 or s[S.on_host, c] != VALID
                    if s[S.on_device, c] == ABSENT and s[S.on_device + tier, c] == VALID and nearest:
                        chunk = c
                        break
            if chunk < 0:
                s[S.head, queue] += 1
                changed = True
                continue
            lack = room_for(d, knobs, s, d[D.chunk_bytes, chunk], use)
            if lack > 0:
                if knobs.eager and lack > x[X.pending]:
                    changed |= evict(d, knobs, s, log, lack - x[X.pending], knobs.spared, i)
                    lack = room_for(d, knobs, s, d[D.chunk_bytes, chunk], use)
                if lack > 0:
                    break
            rate = free_rate(d, knobs, s, channel)
            if rate <= 0:
                break
            x[X.used] += d[D.chunk_bytes, chunk]
            s[S.on_device, chunk] = ARRIVING
            depart(d, s, log, channel, chunk, rate)
            return True
    return changed
