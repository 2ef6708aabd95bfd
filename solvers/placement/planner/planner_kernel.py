"""The event-driven planner, compiled: ops, iterations and what happens at every event.

`planner` beside it says what it does and why, `world` in which tables.
"""

from __future__ import annotations

import numpy as np

from ...engines.kernels import inner, kernel_in_place
from ..world.channels import (
    ABSENT,
    DEVICE,
    DONE,
    ENDLESS,
    FAR,
    FULL_LOG,
    HOST,
    HOST_IN,
    HOST_OUT,
    LOG_RUN,
    PAUSED,
    PRESENT,
    REPEATS,
    SLOW,
    SLOW_IN,
    SLOW_OUT,
    STUCK,
    VALID,
)
from .channel_kernel import arrive, refresh_rates
from .chunk_kernel import drop, forget_version, make_room, put_log, release, relist, set_chunks
from .copy_kernel import copy_in, copy_out, host_is_due, stage
from .forecast_kernel import absence_around, access_after, add_range, first_deficit, shift_away, usable_end
from .tables import NO, NOTHING, PlannerTables

FREE_ITERATIONS = 3
"""Iterations after which the state at the boundary is held: most states repeat by themselves before."""

IDLE_MOVES = 64
"""Rows of the log per chunk from the end of one op to that of the next: more of them lead nowhere."""


@kernel_in_place
def simulate(w: PlannerTables, iterations: int, events: int) -> tuple[int, int]:
    """Run iterations until the state at the boundary repeats, or a single one.

    Returns how it ended, and the time in ns (or the op at which it is stuck); the log then holds the last
    iteration, times counted from its start. It goes on when it is called again, after so many events
    (``PAUSED``), or where its log is full, with a longer one.
    """
    n = len(w.op) - 1
    s = w.state[0]
    if s.begun == 0:
        s.begun = 1
        place_first(w)
        if not clear_for_inputs(w):
            return STUCK, 0
        remember(w)
        begin_iteration(w)
        s.op_before, s.logged_before = s.now, s.logged
    most = IDLE_MOVES * len(w.chunk) + 1024
    for _ in range(events):
        if s.logged + 64 + 8 * len(w.tensor) > len(w.log):
            return FULL_LOG, 0
        changed = decide(w)
        if s.now != s.op_before:
            s.op_before, s.logged_before = s.now, s.logged
        elif s.logged - s.logged_before > most:
            return STUCK, s.now % n
        time = FAR
        if s.running >= 0:
            time = s.run_end
        for c in range(4):
            if w.channel[c].carried >= 0:
                time = min(time, w.channel[c].end)
        if time == FAR:
            if changed:
                continue
            if s.forced == 0:
                s.forced = 1
                continue
            return STUCK, s.now % n
        s.forced = 0
        s.time = time
        for c in range(4):
            if w.channel[c].carried >= 0 and w.channel[c].end == time:
                arrive(w, c)
        refresh_rates(w)
        if s.running >= 0 and s.run_end == time:
            end_run(w)
            if s.now % n == 0:
                period = time - s.boundary
                s.done += 1
                if not s.periodic:
                    return DONE, period
                if not clear_for_inputs(w):
                    return STUCK, 0
                if remember(w):
                    return REPEATS, period
                if s.done == iterations:
                    return ENDLESS, period
                s.held = s.done >= FREE_ITERATIONS
                s.boundary = time
                s.logged = 0
                begin_iteration(w)
    return PAUSED, 0


@inner
def remember(w: PlannerTables) -> bool:
    """Note the physical state; return whether it is that at the last boundary.

    Where it is held, what is here now and was not then leaves. The simulator has a `remember` of its own: it
    holds nothing, and its copies are whole chunks, not segments.
    """
    s, same = w.state[0], True
    for c in range(len(w.chunk)):
        x = w.chunk[c]
        copied = x.on_host == VALID or x.on_slow == VALID
        if s.held and x.on_device == PRESENT and x.device_before == ABSENT and copied:
            drop(w, c)
        same &= x.device_before == x.on_device and x.host_before == x.on_host and x.slow_before == x.on_slow
        x.device_before, x.host_before, x.slow_before = x.on_device, x.on_host, x.on_slow
    for k in range(4):
        y = w.channel[k]
        carried, low, left, spent = y.carried, y.low, y.left, s.time - y.start
        if carried < 0:
            carried = low = left = spent = NOTHING
        same &= y.carried_before == carried and y.low_before == low
        same &= y.left_before == left and y.spent_before == spent
        y.carried_before, y.low_before, y.left_before, y.spent_before = carried, low, left, spent
    return same


@inner
def place_first(w: PlannerTables) -> None:
    """Put what exists before the first iteration where it is then."""
    s, tensor = w.state[0], w.tensor
    for i in range(len(tensor) - 1):
        place = tensor[i].place - 1
        if place < 0:
            continue
        use = w.access[tensor[i].first_access].at
        tensor[i].alive = 1
        tensor[i].next_use = use
        size = tensor[i].length
        if place == DEVICE:
            tensor[i].here = set_chunks(w, DEVICE, i, PRESENT)
            tensor[i].dirty = tensor[i].here
            relist(w, i)
            s.used += size
            continue
        if place == HOST:
            tensor[i].away_host = set_chunks(w, HOST, i, VALID)
            s.host_used += size
        else:
            tensor[i].away_slow = set_chunks(w, SLOW, i, VALID)
            tensor[i].slow_bytes = size
            s.slow_used += size
        relist(w, i)
        add_range(w, w.load, s.now, use, -size)
        shift_away(w, i, -size)
        add_range(w, w.least, usable_end(w, i), use, -size)


@inner
def clear_for_inputs(w: PlannerTables) -> bool:
    """Make room for inputs that are on the device when the next period begins; return whether there is."""
    s, tensor = w.state[0], w.tensor
    excess = s.used - s.memory
    for i in range(len(tensor) - 1):
        if tensor[i].entry & 1:
            excess += tensor[i].length
    return bool(excess <= 0 or make_room(w, excess, s.now, NO))


@inner
def begin_iteration(w: PlannerTables) -> None:
    """Let the inputs of the period appear where they start."""
    s, tensor = w.state[0], w.tensor
    n = len(w.op) - 1
    base = s.now - s.now % n
    for i in range(len(tensor) - 1):
        if tensor[i].entry == 0:
            continue
        tensor[i].alive = 1
        tensor[i].next_index = 0
        tensor[i].next_use = base + w.access[tensor[i].first_access].at
        on_slow, on_host = tensor[i].entry & 2, tensor[i].entry & 4
        if on_slow:
            set_chunks(w, SLOW, i, VALID)
            tensor[i].slow_bytes = tensor[i].length
        elif on_host:
            set_chunks(w, HOST, i, VALID)
        count = tensor[i + 1].first_chunk - tensor[i].first_chunk
        if tensor[i].entry & 1:
            s.used += tensor[i].length
            tensor[i].here = set_chunks(w, DEVICE, i, PRESENT)
            tensor[i].dirty = count
            if on_slow or on_host:
                tensor[i].dirty = 0
                tensor[i].clean = count
                tensor[i].clean_host = count if on_host else 0
        elif on_slow:
            tensor[i].away_slow = count
        else:
            tensor[i].away_host = count
        relist(w, i)


@inner
def decide(w: PlannerTables) -> bool:
    """Start all that may start at this instant; return whether anything did."""
    s, channel = w.state[0], w.channel
    changed = False
    while True:
        again = False
        if s.running < 0 and start_run(w):
            again = True
        deficit = first_deficit(w)
        if deficit >= 0:
            for out in range(SLOW_OUT, HOST_OUT - 1, -1):
                if channel[out].carried >= 0 or channel[out].full_rate == 0:
                    continue
                if out == HOST_OUT and not s.eager and not s.forced and not host_is_due(w, deficit):
                    continue
                if copy_out(w, out, deficit, NOTHING) or copy_out(w, out, NOTHING, NOTHING):
                    again = True
        for inward in range(SLOW_IN, HOST_IN - 1, -1):
            if channel[inward].carried < 0 and channel[inward].full_rate > 0:
                s.blocked = -1
                again |= copy_in(w, inward)
                if (
                    inward == HOST_IN
                    and s.blocked >= 0
                    and channel[HOST_OUT].carried < 0
                    and channel[HOST_OUT].full_rate > 0
                ):
                    again |= copy_out(w, HOST_OUT, s.crest, s.blocked)
                if inward == HOST_IN and deficit >= 0 and channel[HOST_IN].carried < 0:
                    again |= stage(w, deficit)
        if not again:
            return changed
        changed = True


@inner
def start_run(w: PlannerTables) -> bool:
    """Start the next op if all it accesses is there and what it creates fits.

    Where it is one that reads, that and the one that writes: together or not at all.
    """
    n = len(w.op) - 1
    s, tensor = w.state[0], w.tensor
    now = s.now
    if now == n and not s.periodic:
        return False
    last = now + s.twice
    births = np.int64(0)
    for op in range(now, last + 1):
        births += w.op[op % n].workspace
        for a in range(w.op[op % n].first_access, w.op[op % n + 1].first_access):
            i = w.by_op[a].tensor
            if not tensor[i].alive:
                births += tensor[i].length
            elif tensor[i].here < tensor[i + 1].first_chunk - tensor[i].first_chunk:
                return False
    excess = s.used + births - s.memory
    if s.twice:
        excess -= read(w, now)
    if excess > 0 and not make_room(w, excess, last, NO):
        if s.twice:
            unread(w, now)
        return False
    if s.twice:
        renew_forecast(w, now)
        bury(w, now % n)
    s.used += births
    begin_run(w, last)
    return True


@inner
def read(w: PlannerTables, now: int) -> int:
    """Let go of what an op reads; return the bytes of what nobody accesses any more."""
    k, dying = now % (len(w.op) - 1), np.int64(0)
    for a in range(w.op[k].first_access, w.op[k + 1].first_access):
        x = w.tensor[w.by_op[a].tensor]
        index, use = access_after(w, w.by_op[a].tensor, x.next_index, now)
        x.next_index = index
        x.next_use = use
        if use == FAR:
            dying += x.length
    return int(dying)


@inner
def unread(w: PlannerTables, now: int) -> None:
    """Take `read` back."""
    k = now % (len(w.op) - 1)
    for a in range(w.op[k].first_access, w.op[k + 1].first_access):
        x = w.tensor[w.by_op[a].tensor]
        x.next_index = w.by_op[a].number
        x.next_use = now


@inner
def begin_run(w: PlannerTables, now: int) -> None:
    """Let an op run for which there is room: new versions are born."""
    s, tensor = w.state[0], w.tensor
    k = now % (len(w.op) - 1)
    s.running = k
    s.run_end = s.time + w.op[k].duration
    for a in range(w.op[k].first_access, w.op[k + 1].first_access):
        i = w.by_op[a].tensor
        tensor[i].in_use = 1
        if not tensor[i].alive:
            tensor[i].alive = 1
            tensor[i].next_index = 0
            tensor[i].here = set_chunks(w, DEVICE, i, PRESENT)
            tensor[i].dirty = tensor[i].here
            relist(w, i)
        elif w.by_op[a].writes:
            forget_version(w, i)
        index, use = access_after(w, i, tensor[i].next_index, now)
        tensor[i].next_index = index
        tensor[i].next_use = use
    renew_forecast(w, now)
    put_log(w, LOG_RUN, k, 0, 0, 0, s.time, s.run_end)


@inner
def renew_forecast(w: PlannerTables, now: int) -> None:
    """Go on to the next op: the forecast of this one is that of the next iteration."""
    n = len(w.op) - 1
    s, tensor, k = w.state[0], w.tensor, now % n
    s.now = now + 1
    w.load[k] = w.op[k].live
    w.least[k] = w.op[k].floor
    if s.periodic:
        for i in range(len(tensor) - 1):
            # what is only read keeps its version: it reaches into the new end of the forecast
            if tensor[i].written or not tensor[i].persistent:
                continue
            count = tensor[i + 1].first_chunk - tensor[i].first_chunk
            if tensor[i].dirty == count or absence_around(w, i, now + n, NO) < 0:
                continue
            for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
                if w.chunk[c].on_host == VALID or w.chunk[c].on_slow == VALID:
                    w.least[k] -= w.chunk[c].length


@inner
def end_run(w: PlannerTables) -> None:
    """Release workspace and what nobody accesses any more: the op is over."""
    s = w.state[0]
    k = s.running
    s.running = -1
    s.used -= w.op[k].workspace
    bury(w, k)


@inner
def bury(w: PlannerTables, k: int) -> None:
    """Release of an op's tensors those that nobody accesses any more."""
    tensor = w.tensor
    for a in range(w.op[k].first_access, w.op[k + 1].first_access):
        i = w.by_op[a].tensor
        tensor[i].in_use = 0
        if tensor[i].next_use != FAR:
            continue
        forget_version(w, i)
        for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
            release(w, c, DEVICE, w.chunk[c].length)
            w.chunk[c].on_device = ABSENT
        tensor[i].alive = 0
        tensor[i].here = 0
        tensor[i].dirty = 0
        relist(w, i)
