"""The simulator of decisions, compiled; `simulator` beside it says what it does, `tables` in which tables."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import inner, kernel_in_place
from .channel_kernel import arrive, serve_in, serve_out
from .chunk_kernel import bury, free_copies, leave, stop_leaving, write_log
from .period_kernel import begin, end_iteration, may_cross, remember
from .queue_kernel import ask_back, enqueue, is_asked
from .room_kernel import evict, needed_by, release_spare, rescue, spare_bytes
from .tables import (
    ABSENT_CHUNKS,
    ALIVE,
    BASE,
    BEGUN,
    BIRTHS,
    CHUNK_FIRST,
    CHUNKS,
    COPIES_OUT,
    CROSSING,
    DEAD,
    DEVICE,
    DEVICE_TIER,
    DONE,
    DURATION,
    EAGER,
    EARLY,
    ENDLESS,
    EVENT,
    EVENT_AT,
    EVENT_GAP,
    EVENT_KIND,
    EVENT_TIER,
    EVENT_TURN,
    FAR,
    FLIGHT,
    FLIGHT_END,
    FLIGHT_ROW,
    FORCED,
    FULL_LOG,
    GAP_NEXT,
    GAP_TENSOR,
    HEAD,
    HOST_IN,
    HOST_OUT,
    ITERATIONS,
    LAST_USE,
    LASTING,
    LEAVE,
    LEAVING,
    LEAVING_CHUNK,
    LIMITS,
    LOG_RUN,
    LOG_VOID,
    LOGGED,
    NEXT,
    NEXT_USE,
    NO_VICTIM,
    NOBODY,
    OP,
    OP_FIRST,
    OP_READ,
    OP_TENSOR,
    OP_WRITE,
    PENDING,
    PERIODIC,
    PERSISTENT,
    PLANNED_QUEUES,
    PRESENT,
    RUN_END,
    RUNNING,
    SCALARS,
    SLOW_IN,
    SLOW_OUT,
    SPARED,
    STAMP,
    STUCK,
    TAIL,
    TENSORS,
    TIME,
    URGENT,
    URGENT_QUEUES,
    USE,
    USE_FIRST,
    USED,
    VICTIM,
    WORKSPACE,
    WRITE_OUT,
    WRITTEN,
    N,
)


@kernel_in_place
def simulate(
    d: Rows, knobs: Integers, barrier: Integers, events: Rows, s: Rows, log: Rows
) -> tuple[int, int]:
    """Carry out the decisions; return how it ended, and the period, the makespan or the op of the deadlock.

    The log then holds the run, or the last iteration with times counted from its start.
    """
    x = s[SCALARS]
    chunks = knobs[CHUNKS]
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
                    period = x[TIME] - x[BEGUN]
                    if remember(s, chunks):
                        return DONE, period
                    if iteration == knobs[ITERATIONS]:
                        return ENDLESS, period
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
        if lack > 0 and not (d[EARLY, k] and ready and lack <= spare_bytes(d, s, k)):
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
    if d[EARLY, k]:
        move_on(d, knobs, s, log, k, True)
        release_spare(d, s, log, k)
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
def move_on(d: Integers, knobs: Integers, s: Integers, log: Integers, k: int, early: bool) -> None:
    """End accesses of op k, those that are over at its start if `early`: tensors move on, or die."""
    x = s[SCALARS]
    for a in range(d[OP_FIRST, k], d[OP_FIRST, k + 1]):
        if (d[OP_READ, a] > 0) != early:
            continue
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


@inner
def end_op(d: Integers, knobs: Integers, s: Integers, log: Integers) -> None:
    """End the running op."""
    x = s[SCALARS]
    k = x[OP] - x[BASE]
    x[RUNNING] = 0
    x[USED] -= d[WORKSPACE, k]
    move_on(d, knobs, s, log, k, False)
    x[OP] += 1
