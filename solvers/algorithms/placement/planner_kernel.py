"""The event-driven planner, compiled; `planner` beside it says what it does and why."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .workload import Integers, Workload

HOST_OUT, SLOW_OUT, HOST_IN, SLOW_IN = range(4)
"""Channels: from the device to the host tier and to the slow tier, and back."""

ABSENT, ARRIVING, PRESENT, STAGED = range(4)
"""Of a chunk on the device; a staged one passes through on its way from host to slow."""

NONE, COMING, VALID = range(3)
"""Of a chunk's copy in an outer tier."""

LOG_RUN, LOG_COPY, LOG_FREE = range(3)
DEVICE, HOST, SLOW = range(3)

PERIODIC, ENDLESS, STUCK, FULL_LOG = range(4)
"""How a simulation ends: the state repeats, or not within the iterations; nothing goes on; log full."""

FAR = 2**60
SCALE = 10**6
"""Rates are in kB/s, so that bytes * SCALE / rate are nanoseconds."""


class Links(NamedTuple):
    """Rates (kB/s) and latencies (ns) of the four channels, and the joint caps out and in."""

    rate: Integers
    latency: Integers
    joint: Integers


class Settings(NamedTuple):
    """What a portfolio varies; see `planner.Setting` for the meaning."""

    memory: int
    host: int
    lead: int
    horizon: int
    slots: int
    slot_bytes: int
    margin: int
    tail_slack: int
    gate_slack: int
    gate: int
    displace: int


class State(NamedTuple):
    """What changes: per chunk, per tensor, per op, per channel, and scalars (see the constants below)."""

    device: Integers
    host: Integers
    slow: Integers
    out_flight: Integers
    alive: Integers
    next_index: Integers
    next_use: Integers
    used_by_run: Integers
    present: Integers
    dirty: Integers
    clean: Integers
    absent_host: Integers
    absent_slow: Integers
    target: Integers
    load: Integers
    least: Integers
    flight: Integers
    scalars: Integers


# rows of `flight`: chunk (-1: idle), first byte, bytes left, start of the segment, end, rate, staging
CHUNK, LOW, LEFT, START, END, RATE = range(6)
# scalars
NOW, TIME, RUNNING, RUN_END, USED, HOST_USED, BOUNDARY, LOGGED, SLOTS_USED, FORCED = range(10)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def simulate(
    work: Workload, links: Links, settings: Settings, state: State, log: Integers, iterations: int
) -> tuple[int, int, int]:
    """Run iterations until the state at the boundary repeats.

    Returns how it ended, the period in ns (or the op at which it is stuck), and how many iterations were run;
    the log then holds the last one, times counted from its start.
    """
    n = len(work.duration)
    s = state.scalars
    before = snapshot(state)
    if not begin_iteration(work, settings, state, log):
        return STUCK, 0, 0
    done = 0
    idle_rounds = 0
    while True:
        changed = decide(work, links, settings, state, log)
        if s[LOGGED] + 64 + 8 * len(state.alive) > len(log):
            return FULL_LOG, 0, done
        time = FAR
        if s[RUNNING] >= 0:
            time = s[RUN_END]
        for c in range(4):
            if state.flight[c, CHUNK] >= 0:
                time = min(time, state.flight[c, END])
        if time == FAR:
            if changed:
                continue
            if s[FORCED] == 0:
                s[FORCED] = 1
                continue
            return STUCK, s[NOW] % n, done
        s[FORCED] = 0
        idle_rounds += 1
        s[TIME] = time
        for c in range(4):
            if state.flight[c, CHUNK] >= 0 and state.flight[c, END] == time:
                arrive(work, settings, state, log, c)
        refresh_rates(work, links, state, log)
        if s[RUNNING] >= 0 and s[RUN_END] == time:
            end_run(work, settings, state, log)
            if s[NOW] % n == 0:
                period = time - s[BOUNDARY]
                done += 1
                after = snapshot(state)
                if same(before, after):
                    return PERIODIC, period, done
                if done == iterations:
                    return ENDLESS, period, done
                before = after
                s[BOUNDARY] = time
                s[LOGGED] = 0
                if not begin_iteration(work, settings, state, log):
                    return STUCK, 0, done


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def snapshot(state: State) -> Integers:
    """Return the physical state as one array."""
    chunks = len(state.device)
    image = np.empty(3 * chunks + 16, np.int64)
    image[:chunks] = state.device
    image[chunks : 2 * chunks] = state.host
    image[2 * chunks : 3 * chunks] = state.slow
    at = 3 * chunks
    for c in range(4):
        busy = state.flight[c, CHUNK] >= 0
        image[at] = state.flight[c, CHUNK]
        image[at + 1] = state.flight[c, LOW] if busy else 0
        image[at + 2] = state.flight[c, LEFT] if busy else 0
        image[at + 3] = state.scalars[TIME] - state.flight[c, START] if busy else 0
        at += 4
    return image


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def same(a: Integers, b: Integers) -> bool:
    """Return whether two images are equal."""
    for k in range(len(a)):  # noqa: SIM110
        if a[k] != b[k]:
            return False
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def begin_iteration(work: Workload, settings: Settings, state: State, log: Integers) -> bool:
    """Let the inputs of the iteration appear where they start; return whether they fit."""
    n = len(work.duration)
    s = state.scalars
    base = s[NOW] - s[NOW] % n
    for i in range(len(work.size)):
        if work.entry[i] == 0:
            continue
        state.alive[i] = 1
        state.next_index[i] = 0
        state.next_use[i] = base + work.access_op[work.access_first[i]]
        count = work.chunk_first[i + 1] - work.chunk_first[i]
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if work.entry[i] == 1:
                state.device[c] = PRESENT
                s[USED] += work.chunk_bytes[c]
            else:
                state.device[c] = ABSENT
                state.slow[c] = VALID
        if work.entry[i] == 1:
            state.present[i] = count
            state.dirty[i] = count
            state.clean[i] = 0
        else:
            state.absent_slow[i] = count
            shift_away(work, settings, state, i, -work.size[i])
            lag = usable_end(work, settings, i, state.next_use[i], settings.lead)
            add_range(state.least, s[NOW], lag, work.size[i], s[NOW], n)  # `live` leaves it out there

    excess = s[USED] - settings.memory
    return bool(excess <= 0 or make_room(work, settings, state, log, excess, s[NOW], s[NOW], False))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add_range(load: Integers, low: int, high: int, nbytes: int, now: int, n: int) -> None:
    """Add bytes to the forecast of ops low..high-1 (absolute), as far as it reaches."""
    low = max(low, now)
    high = min(high, now + n)
    for j in range(low, high):
        load[j % n] += nbytes


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def clock(work: Workload, op: int) -> int:
    """Return the ideal start time of an absolute op index."""
    n = len(work.duration)
    return int((op // n) * work.starts[n] + work.starts[op % n])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def usable_end(work: Workload, settings: Settings, i: int, use: int, lead: int) -> int:
    """Return the first op before `use` during which the tensor must not be away any more (the lead)."""
    wanted = clock(work, use) - lead * work.fetch[i] // 16
    n = len(work.duration)
    turn, rest = wanted // work.starts[n], wanted % work.starts[n]
    low, high = 0, n
    while low < high:  # the last op boundary at or before `rest`
        middle = (low + high + 1) // 2
        if work.starts[middle] <= rest:
            low = middle
        else:
            high = middle - 1
    return int(min(turn * n + low, use))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def access_after(work: Workload, i: int, index: int, base: int) -> tuple[int, int]:
    """Return the next access (index, absolute op) behind number `index` at `base`; FAR if it is dead then."""
    count = work.access_first[i + 1] - work.access_first[i]
    n = len(work.duration)
    if index + 1 < count:
        return index + 1, base - base % n + work.access_op[work.access_first[i] + index + 1]
    if work.persistent[i]:
        return 0, base - base % n + n + work.access_op[work.access_first[i]]
    return 0, FAR


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def shift_away(work: Workload, settings: Settings, state: State, i: int, nbytes: int) -> None:
    """Add bytes to the least forecast wherever tensor i could be away: gaps before its next write."""
    n = len(work.duration)
    now = state.scalars[NOW]
    index, use = state.next_index[i], state.next_use[i]
    gap = now
    while use != FAR:
        add_range(state.least, gap, usable_end(work, settings, i, use, settings.lead), nbytes, now, n)
        if work.access_write[work.access_first[i] + index] or use >= now + n:
            return
        gap = use + 1
        index, use = access_after(work, i, index, use)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def gap_around(work: Workload, settings: Settings, state: State, i: int, op: int, lead: int) -> int:
    """Return the access that ends the usable gap of the current version of tensor i around `op`, else -1."""
    index, use = state.next_index[i], state.next_use[i]
    while use != FAR and use <= op:
        if use == op or work.access_write[work.access_first[i] + index]:
            return -1
        index, use = access_after(work, i, index, use)
    if use == FAR or usable_end(work, settings, i, use, lead) <= op:
        return -1
    return int(use)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def put_log(
    state: State, log: Integers, kind: int, what: int, where: int, low: int, high: int, start: int, end: int
) -> None:
    """Append a row."""
    row = state.scalars[LOGGED]
    log[row, 0] = kind
    log[row, 1] = what
    log[row, 2] = where
    log[row, 3] = low
    log[row, 4] = high
    log[row, 5] = start - state.scalars[BOUNDARY]
    log[row, 6] = end - state.scalars[BOUNDARY]
    state.scalars[LOGGED] = row + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def release(work: Workload, state: State, log: Integers, c: int, tier: int, high: int) -> None:
    """Free the first `high` bytes of a chunk in a tier."""
    s = state.scalars
    if high > 0 or work.chunk_bytes[c] == 0:
        put_log(state, log, LOG_FREE, c, tier, 0, high, s[TIME], s[TIME])
    if tier == DEVICE:
        s[USED] -= work.chunk_bytes[c]
    elif tier == HOST:
        s[HOST_USED] -= work.chunk_bytes[c]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def drop(work: Workload, settings: Settings, state: State, log: Integers, c: int) -> None:
    """Drop a clean chunk from the device."""
    n = len(work.duration)
    i = work.owner[c]
    now, use = state.scalars[NOW], state.next_use[i]
    nbytes = work.chunk_bytes[c]
    state.device[c] = ABSENT
    state.present[i] -= 1
    state.clean[i] -= 1
    if state.host[c] == VALID:
        state.absent_host[i] += 1
    else:
        state.absent_slow[i] += 1
    release(work, state, log, c, DEVICE, nbytes)
    add_range(state.load, now, use, -nbytes, now, n)
    add_range(state.least, usable_end(work, settings, i, use, settings.lead), use, -nbytes, now, n)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def droppable(state: State, c: int) -> bool:
    """Return whether a chunk is on the device with a valid copy elsewhere, and not being copied."""
    return bool(
        state.device[c] == PRESENT
        and (state.host[c] == VALID or state.slow[c] == VALID)
        and state.out_flight[c] == 0
    )


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def make_room(
    work: Workload,
    settings: Settings,
    state: State,
    log: Integers,
    needed: int,
    beyond: int,
    spare: int,
    sparing_slow: bool,
) -> bool:
    """Drop clean chunks used after `beyond`, furthest first, of at least `needed` bytes; all or nothing.

    Chunks of tensors that op `spare` uses stay, and those of the running op. `sparing_slow`: so do
    tensors whose clean chunks are mostly backed by the slow tier only.
    """
    len(work.duration)
    tensors = len(work.size)
    available = np.int64(0)
    count = 0
    order = np.empty(tensors, np.int64)
    for i in range(tensors):
        if (
            state.clean[i] == 0
            or state.used_by_run[i]
            or state.next_use[i] <= beyond
            or state.next_use[i] == FAR
        ):
            continue
        if spare >= 0 and state.next_use[i] == spare:
            continue
        slow = 0
        nbytes = np.int64(0)
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if droppable(state, c):
                nbytes += work.chunk_bytes[c]
                slow += state.host[c] != VALID
        if sparing_slow and 2 * slow > state.clean[i]:
            continue
        available += nbytes
        order[count] = i
        count += 1
    if available < needed:
        return False
    chosen = np.argsort(-state.next_use[order[:count]], kind="mergesort")
    for k in chosen:
        i = order[k]
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if needed <= 0:
                return True
            if droppable(state, c):
                drop(work, settings, state, log, c)
                needed -= work.chunk_bytes[c]
    return needed <= 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def decide(work: Workload, links: Links, settings: Settings, state: State, log: Integers) -> bool:
    """Start all that may start at this instant; return whether anything did."""
    changed = False
    while True:
        again = False
        if state.scalars[RUNNING] < 0 and start_run(work, settings, state, log):
            again = True
        deficit = first_deficit(work, settings, state)
        if deficit >= 0:
            if state.flight[SLOW_OUT, CHUNK] < 0 and links.rate[SLOW_OUT] > 0:
                again |= copy_out(work, links, settings, state, log, SLOW_OUT, deficit)
            if state.flight[HOST_OUT, CHUNK] < 0 and links.rate[HOST_OUT] > 0:
                again |= copy_out(work, links, settings, state, log, HOST_OUT, deficit)
        if state.flight[SLOW_IN, CHUNK] < 0 and links.rate[SLOW_IN] > 0:
            again |= copy_in(work, links, settings, state, log, SLOW_IN)
        if state.flight[HOST_IN, CHUNK] < 0 and links.rate[HOST_IN] > 0:
            again |= copy_in(work, links, settings, state, log, HOST_IN)
            if deficit >= 0 and state.flight[HOST_IN, CHUNK] < 0:
                again |= stage(work, links, settings, state, log, deficit)
        if not again:
            return changed
        changed = True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def first_deficit(work: Workload, settings: Settings, state: State) -> int:
    """Return the first op at which memory will not do even if all that is clean is away, else -1."""
    n = len(work.duration)
    now = state.scalars[NOW]
    for j in range(now, now + n):
        if state.least[j % n] > settings.memory:
            return j
    if state.scalars[FORCED]:
        return int(now)
    return -1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def start_run(work: Workload, settings: Settings, state: State, log: Integers) -> bool:
    """Start the next op if all it accesses is there and what it creates fits."""
    n = len(work.duration)
    s = state.scalars
    now = s[NOW]
    k = now % n
    births = work.workspace[k]
    for a in range(work.op_first[k], work.op_first[k + 1]):
        i = work.op_tensor[a]
        if not state.alive[i]:
            births += work.size[i]
        elif state.present[i] < work.chunk_first[i + 1] - work.chunk_first[i]:
            return False
    excess = s[USED] + births - settings.memory
    if excess > 0 and not make_room(work, settings, state, log, excess, now, now, False):
        return False
    s[USED] += births
    s[RUNNING] = k
    s[RUN_END] = s[TIME] + work.duration[k]
    s[NOW] = now + 1
    state.load[k] = work.live[k]
    state.least[k] = work.live[k]
    for a in range(work.op_first[k], work.op_first[k + 1]):
        i = work.op_tensor[a]
        state.used_by_run[i] = 1
        if not state.alive[i]:
            state.alive[i] = 1
            state.next_index[i] = 0
            state.next_use[i] = now
            for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
                state.device[c] = PRESENT
            state.present[i] = work.chunk_first[i + 1] - work.chunk_first[i]
            state.dirty[i] = state.present[i]
        elif work.op_write[a]:
            forget_version(work, state, log, i)
        index, use = access_after(work, i, state.next_index[i], now)
        state.next_index[i] = index
        state.next_use[i] = use
    for i in work.read_only:  # their version never ends: it reaches into the new end of the forecast
        nbytes = np.int64(0)
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if state.host[c] == VALID or state.slow[c] == VALID:
                nbytes += work.chunk_bytes[c]
        if nbytes and gap_around(work, settings, state, i, now + n, settings.lead) >= 0:
            state.least[k] -= nbytes
    put_log(state, log, LOG_RUN, k, 0, 0, 0, s[TIME], s[RUN_END])
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def forget_version(work: Workload, state: State, log: Integers, i: int) -> None:
    """Cancel copies in flight and release those made: a write begins."""
    for channel in (HOST_OUT, SLOW_OUT):
        c = state.flight[channel, CHUNK]
        if c >= 0 and work.owner[c] == i:
            state.flight[channel, CHUNK] = -1
            state.out_flight[c] = 0
            tier = HOST if channel == HOST_OUT else SLOW
            release(work, state, log, c, tier, state.flight[channel, LOW])
            if channel == HOST_OUT:
                state.host[c] = NONE
            else:
                state.slow[c] = NONE
    for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
        if state.host[c] == VALID:
            release(work, state, log, c, HOST, work.chunk_bytes[c])
        if state.slow[c] == VALID:
            release(work, state, log, c, SLOW, work.chunk_bytes[c])
        state.host[c] = NONE
        state.slow[c] = NONE
    state.clean[i] = 0
    state.dirty[i] = work.chunk_first[i + 1] - work.chunk_first[i]
    state.target[i] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def end_run(work: Workload, settings: Settings, state: State, log: Integers) -> None:
    """Release workspace and what nobody accesses any more: the op is over."""
    s = state.scalars
    k = s[RUNNING]
    s[RUNNING] = -1
    s[USED] -= work.workspace[k]
    for a in range(work.op_first[k], work.op_first[k + 1]):
        i = work.op_tensor[a]
        state.used_by_run[i] = 0
        if state.next_use[i] != FAR:
            continue
        forget_version(work, state, log, i)
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            release(work, state, log, c, DEVICE, work.chunk_bytes[c])
            state.device[c] = ABSENT
        state.alive[i] = 0
        state.present[i] = 0
        state.dirty[i] = 0
        state.clean[i] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def set_off(work: Workload, links: Links, state: State, log: Integers, channel: int, c: int) -> None:
    """Begin to copy a chunk."""
    flight = state.flight
    flight[channel, CHUNK] = c
    flight[channel, LOW] = 0
    flight[channel, LEFT] = work.chunk_bytes[c]
    flight[channel, START] = state.scalars[TIME]
    flight[channel, RATE] = 0
    flight[channel, END] = FAR
    refresh_rates(work, links, state, log)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def refresh_rates(work: Workload, links: Links, state: State, log: Integers) -> None:
    """Give the slow tier its rate, the host what is left; a copy whose rate changes is split."""
    flight = state.flight
    for slow, host, joint in ((SLOW_OUT, HOST_OUT, 0), (SLOW_IN, HOST_IN, 1)):
        rate = min(links.rate[slow], links.joint[joint])
        if flight[slow, CHUNK] >= 0:
            change_rate(work, links, state, log, slow, rate)
        else:
            rate = 0
        if flight[host, CHUNK] >= 0:
            change_rate(work, links, state, log, host, min(links.rate[host], links.joint[joint] - rate))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def change_rate(work: Workload, links: Links, state: State, log: Integers, channel: int, rate: int) -> None:
    """Go on at another rate from now."""
    flight = state.flight
    now = state.scalars[TIME]
    if flight[channel, RATE] == rate:
        return
    spent = now - flight[channel, START] - links.latency[channel]
    if flight[channel, RATE] > 0 and spent > 0:
        moved = min(flight[channel, LEFT], spent * flight[channel, RATE] // SCALE)
        if moved > 0:
            low = flight[channel, LOW]
            put_log(
                state,
                log,
                LOG_COPY,
                flight[channel, CHUNK],
                channel,
                low,
                low + moved,
                flight[channel, START],
                now,
            )
            flight[channel, LOW] += moved
            flight[channel, LEFT] -= moved
    flight[channel, START] = now
    flight[channel, RATE] = rate
    flight[channel, END] = FAR
    if rate > 0:
        left = flight[channel, LEFT]
        flight[channel, END] = now + links.latency[channel] + (left * SCALE + rate - 1) // rate


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def arrive(work: Workload, settings: Settings, state: State, log: Integers, channel: int) -> None:
    """Take in a chunk that has been copied."""
    flight, s = state.flight, state.scalars
    c = flight[channel, CHUNK]
    i = work.owner[c]
    flight[channel, CHUNK] = -1
    low = flight[channel, LOW]
    if flight[channel, LEFT] > 0:
        put_log(
            state,
            log,
            LOG_COPY,
            c,
            channel,
            low,
            low + flight[channel, LEFT],
            flight[channel, START],
            s[TIME],
        )
    if channel == HOST_IN and state.device[c] == STAGED:
        return
    if channel in (HOST_IN, SLOW_IN):
        state.device[c] = PRESENT
        state.present[i] += 1
        state.clean[i] += 1
        return
    state.out_flight[c] = 0
    if state.device[c] == STAGED:
        state.slow[c] = VALID
        put_log(state, log, LOG_FREE, c, DEVICE, 0, work.chunk_bytes[c], s[TIME], s[TIME])
        release(work, state, log, c, HOST, work.chunk_bytes[c])
        state.host[c] = NONE
        state.device[c] = ABSENT
        state.absent_host[i] -= 1
        state.absent_slow[i] += 1
        s[SLOTS_USED] -= 1
        return
    was_clean = state.host[c] == VALID or state.slow[c] == VALID
    if channel == HOST_OUT:
        state.host[c] = VALID
    else:
        state.slow[c] = VALID
    if not was_clean:
        state.dirty[i] -= 1
        state.clean[i] += 1
        shift_away(work, settings, state, i, -work.chunk_bytes[c])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def copy_out(
    work: Workload, links: Links, settings: Settings, state: State, log: Integers, channel: int, deficit: int
) -> bool:
    """Copy the dirty chunk whose use behind the deficit is furthest; return whether there is one."""
    s = state.scalars
    n = len(work.duration)
    if channel == SLOW_OUT:
        for i in range(len(work.size)):
            if state.absent_host[i] == 0:
                continue
            for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
                if state.device[c] == STAGED and state.flight[HOST_IN, CHUNK] != c:
                    state.out_flight[c] = 1
                    state.slow[c] = COMING
                    set_off(work, links, state, log, channel, c)
                    return True
    lead = 0 if s[FORCED] else settings.lead
    limit = FAR
    end = s[NOW] - s[NOW] % n + n if s[NOW] % n or s[RUNNING] < 0 else s[NOW]
    if channel == SLOW_OUT and settings.gate and s[RUNNING] >= 0:
        limit = tail_limit(work, links, settings, state, settings.gate_slack, end)
    best, chosen = -1, -1
    for i in range(len(work.size)):
        if not work.movable[i] or not state.alive[i] or state.dirty[i] == 0:
            continue
        if state.used_by_run[i] and writes(work, s[RUNNING], i):
            continue
        use = gap_around(work, settings, state, i, deficit, lead)
        if use <= best or (limit <= use < end):
            continue
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if state.device[c] == PRESENT and state.host[c] == NONE and state.slow[c] == NONE:
                best, chosen = use, c
                break
    if chosen < 0:
        return False
    if channel == HOST_OUT:
        room = settings.host - s[HOST_USED] - work.chunk_bytes[chosen]
        if room < 0 and not forget_host(work, settings, state, log, -room, best):
            return False
        s[HOST_USED] += work.chunk_bytes[chosen]
        state.host[chosen] = COMING
    else:
        state.slow[chosen] = COMING
        state.target[work.owner[chosen]] = max(best, state.target[work.owner[chosen]])
    state.out_flight[chosen] = 1
    set_off(work, links, state, log, channel, chosen)
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def writes(work: Workload, k: int, i: int) -> bool:
    """Return whether op k writes tensor i."""
    for a in range(work.op_first[k], work.op_first[k + 1]):
        if work.op_tensor[a] == i:
            return bool(work.op_write[a] != 0)
    return False


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def tail_limit(work: Workload, links: Links, settings: Settings, state: State, slack: int, end: int) -> int:
    """Return the first use of this iteration for which no more chunk can come back from slow in time.

    For every op u before `end`: bytes only there with a use at u or later, and one chunk more, are at most
    what the channel brings from the start of u to the end of the iteration, plus the slack.
    """
    n = len(work.duration)
    now = state.scalars[NOW]
    only = np.zeros(n + 1, np.int64)
    for i in range(len(work.size)):
        if not state.alive[i]:
            continue
        use = max(state.next_use[i], state.target[i])
        if not now <= use < end:
            continue
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if state.slow[c] != NONE and state.host[c] != VALID:
                only[use % n] += work.chunk_bytes[c]
    total = work.starts[n]
    behind = np.int64(0)
    first = end
    for u in range(end - 1, now - 1, -1):
        k = u % n
        behind += only[k]
        allowed = (total - work.starts[k]) // 1000 * links.rate[SLOW_IN] // 1000 + slack
        if behind + settings.slot_bytes > allowed:
            first = u
    return first


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def forget_host(
    work: Workload, settings: Settings, state: State, log: Integers, needed: int, beyond: int
) -> bool:
    """Release host copies of chunks also on the device, nearest use first, all before `beyond`."""
    while needed > 0:
        best, chosen = beyond, -1
        for i in range(len(work.size)):
            if state.clean[i] == 0 or state.next_use[i] >= best:
                continue
            for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
                if state.device[c] == PRESENT and state.host[c] == VALID and state.out_flight[c] == 0:
                    best, chosen = state.next_use[i], c
                    break
        if chosen < 0:
            return False
        i = work.owner[chosen]
        state.host[chosen] = NONE
        release(work, state, log, chosen, HOST, work.chunk_bytes[chosen])
        if state.slow[chosen] != VALID:
            state.clean[i] -= 1
            state.dirty[i] += 1
            shift_away(work, settings, state, i, work.chunk_bytes[chosen])
        needed -= work.chunk_bytes[chosen]
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def copy_in(
    work: Workload, links: Links, settings: Settings, state: State, log: Integers, channel: int
) -> bool:
    """Fetch the absent chunk that is used next, if it does no harm; return whether there is one."""
    n = len(work.duration)
    s = state.scalars
    now = s[NOW]
    best, tensor = FAR, -1
    for i in range(len(work.size)):
        waiting = state.absent_host[i] if channel == HOST_IN else state.absent_slow[i]
        if waiting and state.next_use[i] < best:
            best, tensor = state.next_use[i], i
    if tensor < 0:
        return False
    if channel == HOST_IN and not s[FORCED] and clock(work, best) - clock(work, now) > settings.horizon:
        return False
    chosen = -1
    for c in range(work.chunk_first[tensor], work.chunk_first[tensor + 1]):
        if state.device[c] == STAGED:
            if channel == HOST_IN and state.out_flight[c] == 0 and state.flight[HOST_IN, CHUNK] != c:
                chosen = c
                break
        elif state.device[c] == ABSENT and (state.host[c] == VALID) == (channel == HOST_IN):
            chosen = c
            break
    if chosen < 0:
        return False
    nbytes = work.chunk_bytes[chosen]
    most = s[USED]
    for j in range(now, best):
        most = max(most, state.load[j % n])
    excess = most + nbytes - settings.memory
    if excess > 0:
        if not settings.displace and best > now:
            return False
        sparing = channel == HOST_IN and not s[FORCED]
        if not make_room(work, settings, state, log, excess, best, -1, sparing):
            return False
    use = state.next_use[tensor]
    add_range(state.load, now, use, nbytes, now, n)
    add_range(state.least, usable_end(work, settings, tensor, use, settings.lead), use, nbytes, now, n)
    s[USED] += nbytes
    if channel == HOST_IN:
        state.absent_host[tensor] -= 1
    else:
        state.absent_slow[tensor] -= 1
    if state.device[chosen] == STAGED:
        state.device[chosen] = PRESENT
        state.present[tensor] += 1
        state.clean[tensor] += 1
        s[SLOTS_USED] -= 1
        return True
    state.device[chosen] = ARRIVING
    set_off(work, links, state, log, channel, chosen)
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def stage(
    work: Workload, links: Links, settings: Settings, state: State, log: Integers, deficit: int
) -> bool:
    """Fetch a chunk from a full host into a slot, to be passed on to the slow tier."""
    n = len(work.duration)
    s = state.scalars
    if s[SLOTS_USED] >= settings.slots or links.rate[SLOW_OUT] == 0:
        return False
    if settings.host - s[HOST_USED] > settings.margin:
        return False
    end = s[NOW] - s[NOW] % n + n
    limit = tail_limit(work, links, settings, state, settings.tail_slack, end)
    furthest = np.int64(-1)
    for i in range(len(work.size)):
        if work.movable[i] and state.alive[i] and state.dirty[i]:
            use = gap_around(work, settings, state, i, deficit, settings.lead)
            if not limit <= use < end:
                furthest = max(furthest, use)
    best, chosen = furthest, -1
    for i in range(len(work.size)):
        use = state.next_use[i]
        if state.absent_host[i] == 0 or use <= best or (limit <= use < end):
            continue
        for c in range(work.chunk_first[i], work.chunk_first[i + 1]):
            if state.device[c] == ABSENT and state.host[c] == VALID and state.slow[c] == NONE:
                best, chosen = use, c
                break
    if chosen < 0:
        return False
    state.device[chosen] = STAGED
    s[SLOTS_USED] += 1
    set_off(work, links, state, log, HOST_IN, chosen)
    return True
