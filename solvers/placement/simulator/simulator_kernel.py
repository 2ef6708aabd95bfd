"""The simulator of decisions, compiled; `simulator` beside it says what it does, `tables` in which tables."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import inner, kernel_in_place
from ..world.channels import (
    DEVICE,
    DONE,
    ENDLESS,
    FAR,
    FULL_LOG,
    HOST_IN,
    HOST_OUT,
    LOG_RUN,
    LOG_VOID,
    PRESENT,
    SLOW_IN,
    SLOW_OUT,
    STUCK,
    channel_out,
)
from .channel_kernel import arrive, serve_in, serve_out
from .chunk_kernel import bury, free_copies, leave, stop_leaving, write_log
from .period_kernel import begin, end_iteration, may_cross, remember
from .queue_kernel import ask_back, enqueue, is_asked
from .room_kernel import evict, needed_by, release_spare, rescue, spare_bytes
from .tables import LEAVE, NO_VICTIM, NOBODY, PLANNED_QUEUES, URGENT_QUEUES, WRITE_OUT, D, E, Knobs, S, X


@kernel_in_place
def simulate(d: Rows, knobs: Knobs, barrier: Integers, events: Rows, s: Rows, log: Rows) -> tuple[int, int]:
    """Carry out the decisions; return how it ended, and the period, the makespan or the op of the deadlock.

    The log then holds the run, or the last iteration with times counted from its start.
    """
    x = s[S.scalars]
    chunks = knobs.chunks
    iteration = 0
    if not begin(d, knobs, s):
        return STUCK, 0
    while True:
        changed = True
        while changed:
            if x[X.logged] + 4 * chunks + 8 * knobs.tensors + 64 > len(log):
                return FULL_LOG, 0
            changed = fire(d, knobs, events, s, log)
            if x[X.crossing]:
                if may_cross(d, knobs, s, log):
                    iteration += 1
                    end_iteration(d, knobs, s)
                    period = x[X.time] - x[X.begun]
                    if remember(s, chunks):
                        return DONE, period
                    if iteration == knobs.iterations:
                        return ENDLESS, period
                    x[X.logged] = 0
                    if not begin(d, knobs, s):
                        return STUCK, 0
                    changed = True
                    continue
            elif x[X.running] == 0 and start_op(d, knobs, barrier, s, log):
                changed = True
            for c in (SLOW_OUT, HOST_OUT):
                changed |= serve_out(d, knobs, s, log, c)
            for c in (SLOW_IN, HOST_IN):
                changed |= serve_in(d, knobs, s, log, c)
        time = FAR
        if x[X.running]:
            time = x[X.run_end]
        for c in range(4):
            if s[S.flight, c] >= 0:
                time = min(time, s[S.flight_end, c])
        if time == FAR:
            if knobs.victim != NO_VICTIM and rescue(d, knobs, s, log):
                continue
            return STUCK, x[X.op] % knobs.ops
        x[X.time] = time
        x[X.forced] = 0
        for c in range(4):
            if s[S.flight, c] >= 0 and s[S.flight_end, c] == time:
                arrive(d, s, log, c)
        if x[X.running] and x[X.run_end] == time:
            end_op(d, knobs, s, log)
            if x[X.op] - x[X.base] == knobs.ops:
                if knobs.periodic == 0:
                    for c in range(4):  # what is still under way is of no use to anybody
                        if s[S.flight, c] >= 0:
                            log[s[S.flight_row, c], 0] = LOG_VOID
                    return DONE, time
                x[X.crossing] = 1


@inner
def fire(d: Integers, knobs: Knobs, events: Integers, s: Integers, log: Integers) -> bool:
    """Carry out the events up to where the ops are: 2 k when op k is next, 2 k + 1 when it runs."""
    x = s[S.scalars]
    if x[X.crossing]:
        return False
    reached = 2 * (x[X.op] - x[X.base]) + x[X.running]
    changed = False
    while x[X.event] < events.shape[1] and events[E.at, x[X.event]] <= reached:
        e = x[X.event]
        x[X.event] += 1
        changed = True
        g = events[E.absence, e]
        i, use = d[D.absence_tensor, g], FAR
        if d[D.absence_next, g] < 2**40:
            use = x[X.base] + d[D.absence_next, g] - knobs.ops * events[E.turn, e]
        if not s[S.alive, i] or x[X.op] >= use:
            continue
        kind = events[E.kind, e]
        if kind == WRITE_OUT:
            enqueue(s, channel_out(events[E.tier, e]), i, use)
        elif s[S.next_use, i] != use:
            continue
        elif kind == LEAVE:
            if s[S.leaving, i] < 0 and leave(d, s, log, i, use, events[E.tier, e]):
                enqueue(s, channel_out(events[E.tier, e]), i, use)
        else:
            ask_back(d, s, i, use, PLANNED_QUEUES)
    return changed


@inner
def start_op(d: Integers, knobs: Knobs, barrier: Integers, s: Integers, log: Integers) -> bool:
    """Start the next op if its tensors are there and its births fit; else ask for what is missing."""
    x = s[S.scalars]
    k = x[X.op] - x[X.base]
    ready, changed = True, False
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        i = d[D.operand, a]
        if not s[S.alive, i]:
            continue
        if s[S.leaving, i] >= 0:
            stop_leaving(d, s, i)
            changed = True
        if s[S.absent_chunks, i]:
            ready = False
            if s[S.urgent, i] != x[X.op] and (knobs.eager or not is_asked(d, s, i, x[X.op])):
                s[S.urgent, i] = x[X.op]
                changed |= ask_back(d, s, i, x[X.op], URGENT_QUEUES)
        if d[D.operand_write, a] and s[S.copies_out, i]:
            ready = False
    lack = x[X.used] + needed_by(d, s, k) - d[D.capacity, 0]
    if lack > 0:
        if knobs.eager and lack > x[X.pending]:
            changed |= evict(d, knobs, s, log, lack - x[X.pending], knobs.spared, NOBODY)
            lack = x[X.used] + needed_by(d, s, k) - d[D.capacity, 0]
        if lack > 0 and not (d[D.early, k] and ready and lack <= spare_bytes(d, s, k)):
            return changed
    if not ready:
        return changed
    if barrier[k] and x[X.forced] == 0:
        for c in range(4):
            if s[S.flight, c] >= 0:
                return changed
        for queue in range(8):
            if s[S.head, queue] < s[S.tail, queue]:
                return changed
    if d[D.early, k]:
        move_on(d, knobs, s, log, k, True)
        release_spare(d, s, log, k)
    x[X.running] = 1
    x[X.run_end] = x[X.time] + d[D.duration, k]
    x[X.used] += d[D.births, k] + d[D.workspace, k]
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        i = d[D.operand, a]
        if not d[D.operand_write, a]:
            continue
        s[S.written, i] = 1
        if s[S.alive, i]:
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                free_copies(d, s, log, c)
        else:
            s[S.alive, i] = 1
            s[S.dead, i] = 0
            s[S.next_index, i] = 0
            s[S.next_use, i] = x[X.op]
            s[S.absent_chunks, i] = 0
            s[S.leaving, i] = -1
            s[S.urgent, i] = -1
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                s[S.on_device, c] = PRESENT
    write_log(s, log, LOG_RUN, k, DEVICE, x[X.time], x[X.run_end])
    return True


@inner
def move_on(d: Integers, knobs: Knobs, s: Integers, log: Integers, k: int, early: bool) -> None:
    """End accesses of op k, those that are over at its start if `early`: tensors move on, or die."""
    x = s[S.scalars]
    for a in range(d[D.first_operand, k], d[D.first_operand, k + 1]):
        if (d[D.operand_read, a] > 0) != early:
            continue
        i = d[D.operand, a]
        s[S.written, i] = 0
        x[X.stamp] += 1
        s[S.last_use, i] = x[X.stamp]
        s[S.next_index, i] += 1
        at = d[D.first_use, i] + s[S.next_index, i]
        if at < d[D.first_use, i + 1]:
            s[S.next_use, i] = x[X.base] + d[D.use, at]
        elif d[D.persistent, i] and knobs.periodic:
            s[S.next_index, i] = 0
            s[S.next_use, i] = x[X.base] + knobs.ops + d[D.use, d[D.first_use, i]]
        elif d[D.lasting, i]:
            s[S.next_use, i] = FAR
        else:
            s[S.alive, i] = 0
            for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
                if s[S.leaving_chunk, c]:
                    s[S.dead, i] = 1
                else:
                    bury(d, s, log, c)


@inner
def end_op(d: Integers, knobs: Knobs, s: Integers, log: Integers) -> None:
    """End the running op."""
    x = s[S.scalars]
    k = x[X.op] - x[X.base]
    x[X.running] = 0
    x[X.used] -= d[D.workspace, k]
    move_on(d, knobs, s, log, k, False)
    x[X.op] += 1
