"""The simulator of decisions, compiled; `simulator` beside it says what it does.

Everything is a row of one of three tables, so that functions take few arguments and compile fast: the
problem (constants from `DURATION`), the state (from `DEVICE`), the log. Columns are ops, tensors, chunks,
absences, places in a queue or channels, as a row's name says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engines.arrays import Rows
from ...engines.kernels import inner, kernel

Integers = NDArray[np.int64]


def _arguments(*bounds: int) -> tuple[Any, ...]:
    """Return numbers that are passed to functions: numba would compile those anew for each literal."""
    return tuple(np.int64(k) for k in range(*bounds))


HOST_OUT, SLOW_OUT, HOST_IN, SLOW_IN = _arguments(4)
"""Channels; 0 and 1 lead from the device to tiers 1 and 2, and 2 and 3 back."""

SCALE = 10**6
"""Rates are in kB/s, so that bytes * SCALE / rate are nanoseconds."""
FAR = 2**60
NOBODY, DEVICE_TIER = _arguments(-1, 1)
NONE_SPARED = PLANNED_QUEUES = DEVICE_TIER
URGENT_QUEUES: Any = np.int64(4)

# Rows of the problem: by op (ops + 1 columns), by access in the order of ops and in that of tensors, by
# tensor (tensors + 1 columns), by chunk, by absence; then capacities, by channel, by group (5 columns each:
# cap, which of the channels are in it); then decisions by op.
(
    DURATION,
    WORKSPACE,
    OP_FIRST,
    BIRTHS,
    DEATHS,
    OP_TENSOR,
    OP_WRITE,
    USE,
    SIZE,
    PERSISTENT,
    LASTING,
    INITIAL,
    CHUNK_FIRST,
    USE_FIRST,
    BYTES,
    OWNER,
    GAP_TENSOR,
    GAP_FIRST,
    GAP_NEXT,
    LIMITS,
    RATE,
    LATENCY,
    GROUPS,
    TABLE_ROWS,
) = range(24)

# Rows of the state: by chunk, by tensor, of the eight queues (tensor, use) by place, by queue, by channel.
(
    DEVICE,
    COPY,
    COPY_2,
    LEAVING_CHUNK,
    ALIVE,
    ABSENT_CHUNKS,
    NEXT,
    NEXT_USE,
    LEAVING,
    LEAVING_TO,
    URGENT,
    LAST_USE,
    WRITTEN,
    COPIES_OUT,
    DEAD,
    START,
    QUEUE,
) = range(17)
QUEUE_USE = QUEUE + 8
HEAD, TAIL, FLIGHT, FLIGHT_START, FLIGHT_END, FLIGHT_RATE, FLIGHT_ROW, SCALARS, STATE_ROWS = range(
    QUEUE + 16, QUEUE + 25
)
"""Queue c holds the planned transfers of channel c, queue 4 + c the urgent ones."""

GONE, ARRIVING, PRESENT = range(3)
"""Of a chunk on the device."""
NONE, COMING, VALID = range(3)
"""Of a chunk's copy in an outer tier."""

# Scalars.
(
    TIME,
    OP,
    RUNNING,
    RUN_END,
    USED,
    USED_1,
    USED_2,
    PENDING,
    EVENT,
    BASE,
    BEGUN,
    LOGGED,
    EMERGENCIES,
    EVICTIONS,
    FORCED,
    CROSSING,
    STAMP,
) = range(17)

# Knobs: sizes first.
N, TENSORS, CHUNKS, GROUP_COUNT, PERIODIC, ITERATIONS, VICTIM, EAGER, SPARED = range(9)
NO_VICTIM, FURTHEST, LEAST_RECENT = range(3)

EVENT_AT, EVENT_KIND, EVENT_GAP, EVENT_TURN, EVENT_TIER = range(5)
WRITE_OUT, LEAVE, RETURN = range(3)
"""Kinds of event: begin to copy, be away from now on, be asked back."""

LOG_RUN, LOG_COPY, LOG_FREE, LOG_VOID = _arguments(4)
"""Kinds of row: (kind, op or chunk, channel or tier, start, end)."""

DONE, ENDLESS, STUCK, FULL_LOG = range(4)
"""How a simulation ends; `ENDLESS`: the state does not repeat within the iterations."""


def pairs(tiers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tiers that each channel joins."""
    outer = [*tiers[1:], ""][:2]
    return [(tiers[0], x) for x in outer] + [(x, tiers[0]) for x in outer]


@kernel
def simulate(
    d: Rows, knobs: Integers, barrier: Integers, events: Rows, s: Rows, log: Rows
) -> tuple[int, int]:
    """Carry out the decisions; return how it ended, and the period, the makespan or the op of the deadlock.

    The log then holds the run, or the last iteration with times counted from its start.
    """
    x = s[SCALARS]
    chunks = knobs[CHUNKS]
    before = np.full(3 * chunks + 12, -1, np.int64)
    after = np.zeros(3 * chunks + 12, np.int64)
    iteration = 0
    if not begin(d, knobs, s):
        return STUCK, 0
    while True:
        changed = True
        while changed:
            if x[LOGGED] + 4 * chunks + 8 * knobs[TENSORS] + 64 > len(log):
                return FULL_LOG, 0
            changed = fire(d, knobs, events, s, log)
            if x[CROSSING]:
                if may_cross(d, knobs, s, log):
                    iteration += 1
                    end_iteration(d, knobs, s)
                    image(s, chunks, after)
                    period = x[TIME] - x[BEGUN]
                    if same(before, after):
                        return DONE, period
                    if iteration == knobs[ITERATIONS]:
                        return ENDLESS, period
                    before[:] = after
                    x[LOGGED] = 0
                    if not begin(d, knobs, s):
                        return STUCK, 0
                    changed = True
                    continue
            elif x[RUNNING] == 0 and start_op(d, knobs, barrier, s, log):
                changed = True
            for c in (SLOW_OUT, HOST_OUT):
                changed |= serve_out(d, knobs, s, log, c)
            for c in (SLOW_IN, HOST_IN):
                changed |= serve_in(d, knobs, s, log, c)
        time = FAR
        if x[RUNNING]:
            time = x[RUN_END]
        for c in range(4):
            if s[FLIGHT, c] >= 0:
                time = min(time, s[FLIGHT_END, c])
        if time == FAR:
            if knobs[VICTIM] != NO_VICTIM and rescue(d, knobs, s, log):
                continue
            return STUCK, x[OP] % knobs[N]
        x[TIME] = time
        x[FORCED] = 0
        for c in range(4):
            if s[FLIGHT, c] >= 0 and s[FLIGHT_END, c] == time:
                arrive(d, s, log, c)
        if x[RUNNING] and x[RUN_END] == time:
            end_op(d, knobs, s, log)
            if x[OP] - x[BASE] == knobs[N]:
                if knobs[PERIODIC] == 0:
                    for c in range(4):  # what is still under way is of no use to anybody
                        if s[FLIGHT, c] >= 0:
                            log[s[FLIGHT_ROW, c], 0] = LOG_VOID
                    return DONE, time
                x[CROSSING] = 1


@inner
def image(s: Integers, chunks: int, out: Integers) -> None:
    """Write the physical state: chunks in every tier, past and coming ns of each copy under way."""
    time = s[SCALARS, TIME]
    out[:chunks] = s[DEVICE, :chunks]
    out[chunks : 2 * chunks] = s[COPY, :chunks]
    out[2 * chunks : 3 * chunks] = s[COPY_2, :chunks]
    for c in range(4):
        at = 3 * chunks + 3 * c
        busy = s[FLIGHT, c] >= 0
        out[at] = s[FLIGHT, c]
        out[at + 1] = time - s[FLIGHT_START, c] if busy else 0
        out[at + 2] = s[FLIGHT_END, c] - time if busy else 0


@inner
def same(a: Integers, b: Integers) -> bool:
    """Return whether two images are equal."""
    for k in range(len(a)):  # noqa: SIM110
        if a[k] != b[k]:
            return False
    return True


@inner
def write_log(s: Integers, log: Integers, kind: int, what: int, where: int, start: int, end: int) -> None:
    """Append a row; times count from the beginning of the iteration."""
    x = s[SCALARS]
    row = x[LOGGED]
    log[row, 0] = kind
    log[row, 1] = what
    log[row, 2] = where
    log[row, 3] = start - x[BEGUN]
    log[row, 4] = end - x[BEGUN]
    x[LOGGED] = row + 1


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
def may_cross(d: Integers, knobs: Integers, s: Integers, log: Integers) -> bool:
    """Return whether the next iteration may begin: nothing that ends is under way, and inputs fit."""
    x = s[SCALARS]
    leaves = np.int64(0)
    for i in range(knobs[TENSORS]):
        if s[COPIES_OUT, i] and not d[PERSISTENT, i]:
            return False
        if d[LASTING, i] and s[ALIVE, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if s[DEVICE, c] == PRESENT:
                    leaves += d[BYTES, c]
    needed = x[USED] - leaves + inputs(d, knobs, s) - d[LIMITS, 0]
    if needed <= 0:
        return True
    if knobs[EAGER]:
        evict(d, knobs, s, log, needed - x[PENDING], knobs[SPARED], NOBODY)
    return False


@inner
def inputs(d: Integers, knobs: Integers, s: Integers) -> int:
    """Return the bytes that appear on the device at the beginning of each iteration but the first."""
    total = np.int64(0)
    for i in range(knobs[TENSORS]):
        if d[INITIAL, i] and not d[PERSISTENT, i] and s[START, i] == 0:
            total += d[SIZE, i]
    return int(total)


@inner
def enqueue(s: Integers, queue: int, i: int, use: int) -> bool:
    """Append a transfer to a queue; return False if it is full."""
    length = s.shape[1]
    if s[TAIL, queue] - s[HEAD, queue] >= length:
        return False
    at = s[TAIL, queue] % length
    s[QUEUE + queue, at] = i
    s[QUEUE_USE + queue, at] = use
    s[TAIL, queue] += 1
    return True


@inner
def fire(d: Integers, knobs: Integers, events: Integers, s: Integers, log: Integers) -> bool:
    """Carry out the events up to where the ops are: 2 k when op k is next, 2 k + 1 when it runs."""
    x = s[SCALARS]
    if x[CROSSING]:
        return False
    reached = 2 * (x[OP] - x[BASE]) + x[RUNNING]
    changed = False
    while x[EVENT] < events.shape[1] and events[EVENT_AT, x[EVENT]] <= reached:
        e = x[EVENT]
        x[EVENT] += 1
        changed = True
        g = events[EVENT_GAP, e]
        i, use = d[GAP_TENSOR, g], FAR
        if d[GAP_NEXT, g] < 2**40:
            use = x[BASE] + d[GAP_NEXT, g] - knobs[N] * events[EVENT_TURN, e]
        if not s[ALIVE, i] or x[OP] >= use:
            continue
        kind = events[EVENT_KIND, e]
        if kind == WRITE_OUT:
            enqueue(s, events[EVENT_TIER, e] - 1, i, use)
        elif s[NEXT_USE, i] != use:
            continue
        elif kind == LEAVE:
            if s[LEAVING, i] < 0 and leave(d, s, log, i, use, events[EVENT_TIER, e]):
                enqueue(s, events[EVENT_TIER, e] - 1, i, use)
        else:
            ask_back(d, s, i, use, PLANNED_QUEUES)
    return changed


@inner
def leave(d: Integers, s: Integers, log: Integers, i: int, use: int, tier: int) -> bool:
    """Mark a tensor as leaving until its next use, release what is clean; return whether some is dirty."""
    x = s[SCALARS]
    low, high = d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]
    for c in range(low, high):
        if s[DEVICE, c] == ARRIVING:
            return False
    s[URGENT, i] = -1
    if s[ABSENT_CHUNKS, i] == high - low:
        return False
    s[LEAVING, i] = use
    s[LEAVING_TO, i] = tier
    dirty = False
    for c in range(low, high):
        if s[DEVICE, c] != PRESENT:
            continue
        x[PENDING] += d[BYTES, c]
        if s[LEAVING_CHUNK, c]:
            continue
        if s[COPY, c] == VALID or s[COPY_2, c] == VALID:
            release(d, s, log, c)
        else:
            dirty = True
    return dirty


@inner
def stop_leaving(d: Integers, s: Integers, i: int) -> None:
    """Let a tensor stay with what is left of it on the device."""
    if s[LEAVING, i] < 0:
        return
    s[LEAVING, i] = -1
    for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
        if s[DEVICE, c] == PRESENT:
            s[SCALARS, PENDING] -= d[BYTES, c]


@inner
def release(d: Integers, s: Integers, log: Integers, c: int) -> None:
    """Free a chunk of a leaving tensor on the device."""
    x = s[SCALARS]
    i = d[OWNER, c]
    s[DEVICE, c] = GONE
    s[ABSENT_CHUNKS, i] += 1
    x[USED] -= d[BYTES, c]
    x[PENDING] -= d[BYTES, c]
    if s[ABSENT_CHUNKS, i] == d[CHUNK_FIRST, i + 1] - d[CHUNK_FIRST, i]:
        s[LEAVING, i] = -1
    write_log(s, log, LOG_FREE, c, DEVICE_TIER, x[TIME], x[TIME])


@inner
def free_copies(d: Integers, s: Integers, log: Integers, c: int) -> None:
    """Free a chunk's copies in the outer tiers."""
    x = s[SCALARS]
    for tier in (1, 2):
        if s[COPY + tier - 1, c] == VALID:
            s[COPY + tier - 1, c] = NONE
            x[USED + tier] -= d[BYTES, c]
            write_log(s, log, LOG_FREE, c, tier, x[TIME], x[TIME])


@inner
def ask_back(d: Integers, s: Integers, i: int, use: int, urgent: int) -> bool:
    """Queue the return of what is away or leaving, behind the copies where they are; `urgent`: 0 or 4."""
    wanted_1 = wanted_2 = False
    for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
        if s[DEVICE, c] == PRESENT and s[LEAVING, i] >= 0:
            wanted_1 |= s[LEAVING_TO, i] == 1
            wanted_2 |= s[LEAVING_TO, i] == 2
        elif s[DEVICE, c] == GONE:
            wanted_1 |= s[COPY, c] == VALID
            wanted_2 |= s[COPY, c] != VALID
    queued = False
    if wanted_1:
        queued |= enqueue(s, HOST_IN + urgent, i, use)
    if wanted_2:
        queued |= enqueue(s, SLOW_IN + urgent, i, use)
    return queued


@inner
def needed_by(d: Integers, s: Integers, k: int) -> int:
    """Return the bytes that op k of the iteration has yet to find on the device."""
    total = d[BIRTHS, k] + d[WORKSPACE, k]
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        if s[ALIVE, i] and s[ABSENT_CHUNKS, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if s[DEVICE, c] == GONE:
                    total += d[BYTES, c]
    return int(total)


@inner
def start_op(d: Integers, knobs: Integers, barrier: Integers, s: Integers, log: Integers) -> bool:
    """Start the next op if its tensors are there and its births fit; else ask for what is missing."""
    x = s[SCALARS]
    k = x[OP] - x[BASE]
    ready, changed = True, False
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        if not s[ALIVE, i]:
            continue
        if s[LEAVING, i] >= 0:
            stop_leaving(d, s, i)
            changed = True
        if s[ABSENT_CHUNKS, i]:
            ready = False
            if s[URGENT, i] != x[OP] and (knobs[EAGER] or not is_asked(d, s, i, x[OP])):
                s[URGENT, i] = x[OP]
                changed |= ask_back(d, s, i, x[OP], URGENT_QUEUES)
        if d[OP_WRITE, a] and s[COPIES_OUT, i]:
            ready = False
    lack = x[USED] + needed_by(d, s, k) - d[LIMITS, 0]
    if lack > 0:
        if knobs[EAGER] and lack > x[PENDING]:
            changed |= evict(d, knobs, s, log, lack - x[PENDING], knobs[SPARED], NOBODY)
            lack = x[USED] + needed_by(d, s, k) - d[LIMITS, 0]
        if lack > 0:
            return changed
    if not ready:
        return changed
    if barrier[k] and x[FORCED] == 0:
        for c in range(4):
            if s[FLIGHT, c] >= 0:
                return changed
        for queue in range(8):
            if s[HEAD, queue] < s[TAIL, queue]:
                return changed
    x[RUNNING] = 1
    x[RUN_END] = x[TIME] + d[DURATION, k]
    x[USED] += d[BIRTHS, k] + d[WORKSPACE, k]
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        if not d[OP_WRITE, a]:
            continue
        s[WRITTEN, i] = 1
        if s[ALIVE, i]:
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                free_copies(d, s, log, c)
        else:
            s[ALIVE, i] = 1
            s[DEAD, i] = 0
            s[NEXT, i] = 0
            s[NEXT_USE, i] = x[OP]
            s[ABSENT_CHUNKS, i] = 0
            s[LEAVING, i] = -1
            s[URGENT, i] = -1
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                s[DEVICE, c] = PRESENT
    write_log(s, log, LOG_RUN, k, DEVICE_TIER, x[TIME], x[RUN_END])
    return True


@inner
def is_asked(d: Integers, s: Integers, i: int, use: int) -> bool:
    """Return whether the return of a tensor is queued or under way."""
    for c in (HOST_IN, SLOW_IN):
        if s[FLIGHT, c] >= 0 and d[OWNER, s[FLIGHT, c]] == i:
            return True
        for queue in (c, c + 4):
            for at in range(s[HEAD, queue], s[TAIL, queue]):
                place = at % s.shape[1]
                if s[QUEUE + queue, place] == i and s[QUEUE_USE + queue, place] == use:
                    return True
    return False


@inner
def end_op(d: Integers, knobs: Integers, s: Integers, log: Integers) -> None:
    """End the running op: tensors move on to their next use, or die."""
    x = s[SCALARS]
    k = x[OP] - x[BASE]
    x[RUNNING] = 0
    x[USED] -= d[WORKSPACE, k]
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        i = d[OP_TENSOR, a]
        s[WRITTEN, i] = 0
        x[STAMP] += 1
        s[LAST_USE, i] = x[STAMP]
        s[NEXT, i] += 1
        at = d[USE_FIRST, i] + s[NEXT, i]
        if at < d[USE_FIRST, i + 1]:
            s[NEXT_USE, i] = x[BASE] + d[USE, at]
        elif d[PERSISTENT, i] and knobs[PERIODIC]:
            s[NEXT, i] = 0
            s[NEXT_USE, i] = x[BASE] + knobs[N] + d[USE, d[USE_FIRST, i]]
        elif d[LASTING, i]:
            s[NEXT_USE, i] = FAR
        else:
            s[ALIVE, i] = 0
            for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
                if s[LEAVING_CHUNK, c]:
                    s[DEAD, i] = 1
                else:
                    bury(d, s, log, c)
    x[OP] += 1


@inner
def bury(d: Integers, s: Integers, log: Integers, c: int) -> None:
    """Free a chunk of a dead tensor everywhere."""
    x = s[SCALARS]
    s[DEVICE, c] = GONE
    x[USED] -= d[BYTES, c]
    write_log(s, log, LOG_FREE, c, DEVICE_TIER, x[TIME], x[TIME])
    i = d[OWNER, c]
    for tier in (1, 2):
        if s[COPY + tier - 1, c] == VALID and not (d[INITIAL, i] and s[START, i] == tier):
            s[COPY + tier - 1, c] = NONE  # an input keeps the place where it appears again
            x[USED + tier] -= d[BYTES, c]
            write_log(s, log, LOG_FREE, c, tier, x[TIME], x[TIME])


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
            if s[ALIVE, i] and x[OP] < use:
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
                if queue == HOST_OUT + 4 and d[RATE, SLOW_OUT] and d[RATE, SLOW_IN]:
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
                for c in range(d[CHUNK_FIRST, i], d[CHUNK_FIRST, i + 1]):
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
        room = d[LIMITS, 1] - x[USED_1] >= d[SIZE, best] or d[RATE, SLOW_OUT] == 0 or d[RATE, SLOW_IN] == 0
        tier = 1 if room and d[RATE, HOST_OUT] > 0 and d[RATE, HOST_IN] > 0 else 2
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
        lack = x[USED] + inputs(d, knobs, s) - d[LIMITS, 0]
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
        s[HEAD, HOST_OUT] += 1
        s[LEAVING_TO, s[QUEUE + HOST_OUT, place]] = 2
        changed |= enqueue(s, SLOW_OUT + 4, s[QUEUE + HOST_OUT, place], s[QUEUE_USE + HOST_OUT, place])
    if lack > x[PENDING]:
        changed |= evict(d, knobs, s, log, lack - x[PENDING], NONE_SPARED, NOBODY)
    if not changed and x[FORCED] == 0:
        x[FORCED] = 1
        changed = True
    x[EMERGENCIES] += changed
    return changed
