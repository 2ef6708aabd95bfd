"""The event-driven planner, compiled; `planner` beside it says what it does and why.

All integers, in a few tables and a row of scalars: functions that take many arrays are slow to compile. No
argument of a call is a conditional expression: numba could not keep what it compiled on disk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engines.arrays import Integers, Rows
from ...engines.kernels import inner, kernel


def _numbers(*bounds: int) -> tuple[Any, ...]:
    """Return names' values that are no literals to numba: it compiles a function anew for each literal."""
    return tuple(np.int64(k) for k in range(*bounds))


HOST_OUT, SLOW_OUT, HOST_IN, SLOW_IN = _numbers(4)
"""Channels: from the device to the host tier and to the slow tier, and back."""

ABSENT, ARRIVING, PRESENT, STAGED = _numbers(4)
"""Of a chunk on the device; a staged one passes through on its way from host to slow."""

NONE, COMING, VALID = _numbers(3)
"""Of a chunk's copy in an outer tier."""

LOG_RUN, LOG_COPY, LOG_FREE = _numbers(3)
DEVICE, HOST, SLOW = _numbers(3)

REPEATS, ENDLESS, STUCK, FULL_LOG, DONE = _numbers(5)
"""How a simulation ends: the state repeats, or not within the iterations; nothing goes on; the log is full;
a single run is over."""

FAR: Any = np.int64(2**60)
NOTHING: Any = np.int64(-1)
NO: Any = np.bool_(False)
FREE_ITERATIONS = 3
"""After which the state at the boundary is held."""
MARGIN_OF_HOST = 15
"""Sixteenths of its rate that a host channel which is not eager counts on."""
IDLE_MOVES = 64
"""Entries of the log per chunk from the end of one op to that of the next: more of them lead nowhere."""
SCALE = 10**6
"""Rates are in kB/s, so that bytes * SCALE / rate are nanoseconds."""

# Per op (and one column more): duration (ns), workspace (bytes), start on the ideal clock, bytes live while
# it runs, those of them that are no inputs which could be away; its first access in BY_OP; then the two
# forecasts, and the first deficit at it or behind.
DURATION, WORKSPACE, CLOCK, LIVE, FLOOR, FIRST_OF_OP, LOAD, LEAST, NEXT_DEFICIT = _numbers(9)
OP_ROWS = 9

# Accesses in the order of the ops: tensor, whether it is written; in the order of the tensors: op, whether it
# writes, and by how many ops sooner the tensor must not be away any more.
BY_OP, BY_OP_WRITES, AT, WRITES, LEAD = _numbers(5)
ACCESS_ROWS = 5

# Per tensor (and one column more): its first access and its first chunk; bytes; whether it may leave the
# device; whether it outlives the iteration; number of the access behind its last write; the tiers where an
# input of the period starts, 1 for the device + 2 for slow + 4 for the host; the tier where it is at first,
# plus 1, or 0. Then what changes: whether it exists, number and op of its next access, whether the running op
# accesses it; chunks that are present, present without a valid copy, present with one, present with one on
# the host; absent chunks that the host holds, that only slow holds; bytes held by slow, or on the way there,
# and not by the host; the furthest use that they were put there for.
FIRST_ACCESS, FIRST_CHUNK, SIZE, MOVABLE, PERSISTENT, WRITTEN, ENTRY, PLACE = _numbers(8)
ALIVE, NEXT_INDEX, NEXT_USE, IN_USE, HERE, DIRTY, CLEAN, CLEAN_HOST = _numbers(8, 16)
AWAY_HOST, AWAY_SLOW, SLOW_BYTES, TARGET = _numbers(16, 20)
# The tensors with dirty chunks, with clean ones, with absent ones, with bytes that only slow holds: lists in
# ascending order (not per tensor), and whether a tensor is in each.
LISTS = 4
DIRTY_LIST, CLEAN_LIST, AWAY_LIST, SLOW_LIST = _numbers(20, 24)
IN_LIST = np.int64(24)
TENSOR_ROWS = 28

# Per chunk: tensor, bytes; its state on the device, in the host and in slow; whether it is being copied out;
# the three states at the last boundary.
OWNER, BYTES, ON_DEVICE, ON_HOST, ON_SLOW, LEAVING, DEVICE_BEFORE, HOST_BEFORE, SLOW_BEFORE = _numbers(9)
CHUNK_ROWS = 9

# Per channel: chunk (-1: idle), first byte, bytes left, start and end of the segment, its rate; then the rate
# (kB/s) and the latency (ns) of the channel.
CARRIED, LOW, LEFT, START, END, RATE, FULL_RATE, LATENCY = _numbers(8)
CHANNEL_COLUMNS = 8

# Scalars that change.
NOW, TIME, RUNNING, RUN_END, USED, HOST_USED, BOUNDARY, LOGGED, STAGING, FORCED = _numbers(10)
# Joint caps out and in; capacities; the setting (`planner.Setting`); whether iterations follow each other.
JOINT_OUT, JOINT_IN, MEMORY, HOST_ROOM, HORIZON, SLOTS, SLOT_BYTES, MARGIN = _numbers(10, 18)
TAIL_SLACK, GATE_SLACK, GATE, DISPLACE, PERIODIC, EAGER = _numbers(18, 24)
# The use of the chunk for which there was no room last time, or -1, and where the load is greatest before it;
# whether the state at the boundary is held.
BLOCKED, CREST, HELD = _numbers(24, 27)
# Lengths of the lists.
DIRTIES, CLEANS, AWAYS, SLOWS = _numbers(27, 31)
SCALARS = 31


class World(NamedTuple):
    """Everything: int64, one row for each name above (for channels: one column), and the log."""

    op: Rows
    access: Rows
    tensor: Rows
    chunk: Rows
    channel: Rows
    scalar: Integers
    log: Rows


@kernel
def simulate(w: World, iterations: int) -> tuple[int, int, int]:
    """Run iterations until the state at the boundary repeats, or a single one.

    Returns how it ended, the time in ns (or the op at which it is stuck), and how many iterations were run;
    the log then holds the last one, times counted from its start.
    """
    n = w.op.shape[1] - 1
    s = w.scalar
    place_first(w)
    image = np.empty(16, np.int64)
    if not clear_for_inputs(w):
        return STUCK, 0, 0
    remember(w, image)
    begin_iteration(w)
    done = 0
    op, before = s[NOW], s[LOGGED]
    most = IDLE_MOVES * w.chunk.shape[1] + 1024
    while True:
        changed = decide(w)
        if s[NOW] != op:
            op, before = s[NOW], s[LOGGED]
        elif s[LOGGED] - before > most:
            return STUCK, s[NOW] % n, done
        if s[LOGGED] + 64 + 8 * w.tensor.shape[1] > len(w.log):
            return FULL_LOG, 0, done
        time = FAR
        if s[RUNNING] >= 0:
            time = s[RUN_END]
        for c in range(4):
            if w.channel[c, CARRIED] >= 0:
                time = min(time, w.channel[c, END])
        if time == FAR:
            if changed:
                continue
            if s[FORCED] == 0:
                s[FORCED] = 1
                continue
            return STUCK, s[NOW] % n, done
        s[FORCED] = 0
        s[TIME] = time
        for c in range(4):
            if w.channel[c, CARRIED] >= 0 and w.channel[c, END] == time:
                arrive(w, c)
        refresh_rates(w)
        if s[RUNNING] >= 0 and s[RUN_END] == time:
            end_run(w)
            if s[NOW] % n == 0:
                period = time - s[BOUNDARY]
                done += 1
                if not s[PERIODIC]:
                    return DONE, period, done
                if not clear_for_inputs(w):
                    return STUCK, 0, done
                if remember(w, image):
                    return REPEATS, period, done
                if done == iterations:
                    return ENDLESS, period, done
                s[HELD] = done >= FREE_ITERATIONS
                s[BOUNDARY] = time
                s[LOGGED] = 0
                begin_iteration(w)


@inner
def remember(w: World, image: Integers) -> bool:
    """Note the physical state, channels in the image; return whether it is that at the last boundary.

    Where it is held, what is here now and was not then leaves.
    """
    same = True
    chunk = w.chunk
    for c in range(chunk.shape[1]):
        if (
            w.scalar[HELD]
            and chunk[ON_DEVICE, c] == PRESENT
            and chunk[DEVICE_BEFORE, c] == ABSENT
            and (chunk[ON_HOST, c] == VALID or chunk[ON_SLOW, c] == VALID)
        ):
            drop(w, c)
        for row in range(3):
            same &= chunk[DEVICE_BEFORE + row, c] == chunk[ON_DEVICE + row, c]
            chunk[DEVICE_BEFORE + row, c] = chunk[ON_DEVICE + row, c]
    for k in range(4):
        busy = w.channel[k, CARRIED] >= 0
        for j in range(4):
            state = NOTHING
            if busy:
                state = w.scalar[TIME] - w.channel[k, START] if j == START else w.channel[k, j]
            same &= image[4 * k + j] == state
            image[4 * k + j] = state
    return same


@inner
def set_chunks(w: World, row: int, i: int, state: int) -> int:
    """Give all chunks of tensor i a state; return how many there are."""
    low, high = w.tensor[FIRST_CHUNK, i], w.tensor[FIRST_CHUNK, i + 1]
    for c in range(low, high):
        w.chunk[row, c] = state
    return int(high - low)


@inner
def relist(w: World, i: int) -> None:
    """Put tensor i into the lists where it belongs now, and take it out of the others."""
    tensor, s = w.tensor, w.scalar
    for kind in range(LISTS):
        belongs = tensor[DIRTY, i]
        if kind == 1:
            belongs = tensor[CLEAN, i]
        elif kind == 2:
            belongs = tensor[AWAY_HOST, i] + tensor[AWAY_SLOW, i]
        elif kind == 3:
            belongs = tensor[SLOW_BYTES, i]
        if (belongs > 0) == (tensor[IN_LIST + kind, i] > 0):
            continue
        row, count = DIRTY_LIST + kind, s[DIRTIES + kind]
        tensor[IN_LIST + kind, i] = belongs > 0
        if belongs > 0:
            at = count
            while at > 0 and tensor[row, at - 1] > i:
                tensor[row, at] = tensor[row, at - 1]
                at -= 1
            tensor[row, at] = i
            s[DIRTIES + kind] = count + 1
            continue
        at = np.int64(0)
        while tensor[row, at] != i:
            at += 1
        for k in range(at, count - 1):
            tensor[row, k] = tensor[row, k + 1]
        s[DIRTIES + kind] = count - 1


@inner
def place_first(w: World) -> None:
    """Put what exists before the first iteration where it is then."""
    s, tensor = w.scalar, w.tensor
    for k in range(w.op.shape[1]):
        w.op[LOAD, k] = w.op[LIVE, k]
        w.op[LEAST, k] = w.op[FLOOR, k]
    for i in range(tensor.shape[1] - 1):
        place = tensor[PLACE, i] - 1
        if place < 0:
            continue
        use = w.access[AT, tensor[FIRST_ACCESS, i]]
        tensor[ALIVE, i] = 1
        tensor[NEXT_USE, i] = use
        size = tensor[SIZE, i]
        if place == DEVICE:
            tensor[HERE, i] = set_chunks(w, ON_DEVICE, i, PRESENT)
            tensor[DIRTY, i] = tensor[HERE, i]
            relist(w, i)
            s[USED] += size
            continue
        if place == HOST:
            tensor[AWAY_HOST, i] = set_chunks(w, ON_HOST, i, VALID)
            s[HOST_USED] += size
        else:
            tensor[AWAY_SLOW, i] = set_chunks(w, ON_SLOW, i, VALID)
            tensor[SLOW_BYTES, i] = size
        relist(w, i)
        add_range(w, LOAD, s[NOW], use, -size)
        shift_away(w, i, -size)
        add_range(w, LEAST, usable_end(w, i), use, -size)


@inner
def clear_for_inputs(w: World) -> bool:
    """Make room for inputs that are on the device when the next period begins; return whether there is."""
    s, tensor = w.scalar, w.tensor
    excess = s[USED] - s[MEMORY]
    for i in range(tensor.shape[1] - 1):
        if tensor[ENTRY, i] & 1:
            excess += tensor[SIZE, i]
    return bool(excess <= 0 or make_room(w, excess, s[NOW], NO))


@inner
def begin_iteration(w: World) -> None:
    """Let the inputs of the period appear where they start."""
    s, tensor = w.scalar, w.tensor
    n = w.op.shape[1] - 1
    base = s[NOW] - s[NOW] % n
    for i in range(tensor.shape[1] - 1):
        if tensor[ENTRY, i] == 0:
            continue
        tensor[ALIVE, i] = 1
        tensor[NEXT_INDEX, i] = 0
        tensor[NEXT_USE, i] = base + w.access[AT, tensor[FIRST_ACCESS, i]]
        on_slow, on_host = tensor[ENTRY, i] & 2, tensor[ENTRY, i] & 4
        if on_slow:
            set_chunks(w, ON_SLOW, i, VALID)
            tensor[SLOW_BYTES, i] = tensor[SIZE, i]
        elif on_host:
            set_chunks(w, ON_HOST, i, VALID)
        count = tensor[FIRST_CHUNK, i + 1] - tensor[FIRST_CHUNK, i]
        if tensor[ENTRY, i] & 1:
            s[USED] += tensor[SIZE, i]
            tensor[HERE, i] = set_chunks(w, ON_DEVICE, i, PRESENT)
            tensor[DIRTY, i] = count
            if on_slow or on_host:
                tensor[DIRTY, i] = 0
                tensor[CLEAN, i] = count
                tensor[CLEAN_HOST, i] = count if on_host else 0
        elif on_slow:
            tensor[AWAY_SLOW, i] = count
        else:
            tensor[AWAY_HOST, i] = count
        relist(w, i)


@inner
def last_forecast(w: World) -> int:
    """Return the op behind the last one of the forecast (absolute)."""
    n = w.op.shape[1] - 1
    return int(w.scalar[NOW] + n if w.scalar[PERIODIC] else n)


@inner
def add_range(w: World, row: int, low: int, high: int, nbytes: int) -> None:
    """Add bytes to a forecast of ops low..high-1 (absolute), as far as it reaches."""
    n = w.op.shape[1] - 1
    low = max(low, w.scalar[NOW])
    high = min(high, last_forecast(w))
    if low >= high:
        return
    k = low % n
    count = high - low
    first = min(count, n - k)
    for j in range(k, k + first):
        w.op[row, j] += nbytes
    for j in range(count - first):
        w.op[row, j] += nbytes


@inner
def clock(w: World, op: int) -> int:
    """Return the ideal start time of an absolute op index."""
    n = w.op.shape[1] - 1
    return int((op // n) * w.op[CLOCK, n] + w.op[CLOCK, op % n])


@inner
def usable_end(w: World, i: int) -> int:
    """Return the first op before the next use during which tensor i must not be away any more."""
    return int(w.tensor[NEXT_USE, i] - w.access[LEAD, w.tensor[FIRST_ACCESS, i] + w.tensor[NEXT_INDEX, i]])


@inner
def access_after(w: World, i: int, index: int, base: int) -> tuple[int, int]:
    """Return the next access (index, absolute op) behind number `index` at `base`; FAR if it is dead then."""
    n = w.op.shape[1] - 1
    first = w.tensor[FIRST_ACCESS, i]
    if index + 1 < w.tensor[FIRST_ACCESS, i + 1] - first:
        return index + 1, base - base % n + w.access[AT, first + index + 1]
    if w.tensor[PERSISTENT, i]:
        return 0, base - base % n + n + w.access[AT, first]
    return 0, FAR


@inner
def shift_away(w: World, i: int, nbytes: int) -> None:
    """Add bytes to the least forecast wherever tensor i could be away: gaps before its next write."""
    end = last_forecast(w)
    first = w.tensor[FIRST_ACCESS, i]
    gap = w.scalar[NOW]
    index, use = w.tensor[NEXT_INDEX, i], w.tensor[NEXT_USE, i]
    while use != FAR:
        add_range(w, LEAST, gap, use - w.access[LEAD, first + index], nbytes)
        if w.access[WRITES, first + index] or use >= end:
            return
        gap = use + 1
        index, use = access_after(w, i, index, use)


@inner
def gap_around(w: World, i: int, op: int, hurry: bool) -> int:
    """Return the access that ends the usable gap of the current version of tensor i around `op`, else -1.

    `hurry`: without the lead.
    """
    first = w.tensor[FIRST_ACCESS, i]
    index, use = w.tensor[NEXT_INDEX, i], w.tensor[NEXT_USE, i]
    while use != FAR and use <= op:
        if use == op or w.access[WRITES, first + index]:
            return -1
        index, use = access_after(w, i, index, use)
    if use == FAR or (not hurry and use - w.access[LEAD, first + index] <= op):
        return -1
    return int(use)


@inner
def gap_at_deficit(w: World, i: int) -> int:
    """Return the access that ends the first usable gap of the current version with a deficit, else -1."""
    n = w.op.shape[1] - 1
    first, last = w.tensor[FIRST_ACCESS, i], last_forecast(w)
    gap = w.scalar[NOW]
    index, use = w.tensor[NEXT_INDEX, i], w.tensor[NEXT_USE, i]
    while use != FAR and gap < last:
        if w.op[NEXT_DEFICIT, gap % n] < use - w.access[LEAD, first + index]:
            return int(use)
        if w.access[WRITES, first + index]:
            return -1
        gap = use + 1
        index, use = access_after(w, i, index, use)
    return -1


@inner
def find_deficits(w: World) -> None:
    """Note at each op of the forecast the first deficit at it or behind."""
    n = w.op.shape[1] - 1
    following, last = FAR, last_forecast(w)
    k = last % n
    for op in range(last - 1, w.scalar[NOW] - 1, -1):
        k = k - 1 if k > 0 else n - 1
        if w.op[LEAST, k] > w.scalar[MEMORY]:
            following = op
        w.op[NEXT_DEFICIT, k] = following


@inner
def put_log(w: World, kind: int, what: int, where: int, low: int, high: int, start: int, end: int) -> None:
    """Append a row."""
    s = w.scalar
    row = s[LOGGED]
    w.log[row, 0] = kind
    w.log[row, 1] = what
    w.log[row, 2] = where
    w.log[row, 3] = low
    w.log[row, 4] = high
    w.log[row, 5] = start - s[BOUNDARY]
    w.log[row, 6] = end - s[BOUNDARY]
    s[LOGGED] = row + 1


@inner
def release(w: World, c: int, tier: int, high: int) -> None:
    """Free the first `high` bytes of a chunk in a tier."""
    s = w.scalar
    nbytes = w.chunk[BYTES, c]
    if high > 0 or nbytes == 0:
        put_log(w, LOG_FREE, c, tier, 0, high, s[TIME], s[TIME])
    if tier == DEVICE:
        s[USED] -= nbytes
    elif tier == HOST and not w.tensor[ENTRY, w.chunk[OWNER, c]] & 4:  # room of inputs stays reserved
        s[HOST_USED] -= nbytes


@inner
def make_room(w: World, needed: int, beyond: int, sparing_slow: bool) -> bool:
    """Drop clean chunks used after `beyond`, furthest first, of at least `needed` bytes; all or nothing.

    Chunks of tensors that the running op uses stay. `sparing_slow`: so do tensors whose clean chunks are
    mostly backed by the slow tier only.
    """
    tensor, chunk = w.tensor, w.chunk
    count = w.scalar[CLEANS]
    available = np.int64(0)
    candidate = np.empty(count, np.int64)
    candidates = 0
    for k in range(count):
        i = tensor[CLEAN_LIST, k]
        clean = tensor[CLEAN, i]
        use = tensor[NEXT_USE, i]
        if tensor[IN_USE, i] or use <= beyond or use == FAR:
            continue
        if sparing_slow and 2 * (clean - tensor[CLEAN_HOST, i]) > clean:
            continue
        candidate[candidates] = i
        candidates += 1
        if available < needed:
            for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
                if chunk[ON_DEVICE, c] == PRESENT and (
                    chunk[ON_HOST, c] == VALID or chunk[ON_SLOW, c] == VALID
                ):
                    available += chunk[BYTES, c]
    if available < needed:
        return False
    while needed > 0:
        at = 0
        for k in range(1, candidates):
            if tensor[NEXT_USE, candidate[k]] > tensor[NEXT_USE, candidate[at]]:
                at = k
        i = candidate[at]
        candidates -= 1
        for k in range(at, candidates):  # the order stays
            candidate[k] = candidate[k + 1]
        for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
            if needed <= 0:
                break
            if chunk[ON_DEVICE, c] != PRESENT:
                continue
            if chunk[ON_HOST, c] != VALID and chunk[ON_SLOW, c] != VALID:
                continue
            drop(w, c)
            needed -= chunk[BYTES, c]
    return True


@inner
def drop(w: World, c: int) -> None:
    """Let a clean chunk leave the device."""
    tensor, nbytes = w.tensor, w.chunk[BYTES, c]
    i = w.chunk[OWNER, c]
    on_host = w.chunk[ON_HOST, c] == VALID
    w.chunk[ON_DEVICE, c] = ABSENT
    tensor[HERE, i] -= 1
    tensor[CLEAN, i] -= 1
    tensor[CLEAN_HOST, i] -= on_host
    tensor[AWAY_HOST if on_host else AWAY_SLOW, i] += 1
    relist(w, i)
    release(w, c, DEVICE, nbytes)
    add_range(w, LOAD, w.scalar[NOW], tensor[NEXT_USE, i], -nbytes)
    add_range(w, LEAST, usable_end(w, i), tensor[NEXT_USE, i], -nbytes)


@inner
def decide(w: World) -> bool:
    """Start all that may start at this instant; return whether anything did."""
    s, channel = w.scalar, w.channel
    changed = False
    while True:
        again = False
        if s[RUNNING] < 0 and start_run(w):
            again = True
        deficit = first_deficit(w)
        if deficit >= 0:
            for out in range(SLOW_OUT, HOST_OUT - 1, -1):
                if channel[out, CARRIED] >= 0 or channel[out, FULL_RATE] == 0:
                    continue
                if out == HOST_OUT and not s[EAGER] and not s[FORCED] and not host_is_due(w, deficit):
                    continue
                if copy_out(w, out, deficit, NOTHING) or copy_out(w, out, NOTHING, NOTHING):
                    again = True
        for inward in range(SLOW_IN, HOST_IN - 1, -1):
            if channel[inward, CARRIED] < 0 and channel[inward, FULL_RATE] > 0:
                s[BLOCKED] = -1
                again |= copy_in(w, inward)
                if (
                    inward == HOST_IN
                    and s[BLOCKED] >= 0
                    and channel[HOST_OUT, CARRIED] < 0
                    and channel[HOST_OUT, FULL_RATE] > 0
                ):
                    again |= copy_out(w, HOST_OUT, s[CREST], s[BLOCKED])
                if inward == HOST_IN and deficit >= 0 and channel[HOST_IN, CARRIED] < 0:
                    again |= stage(w, deficit)
        if not again:
            return changed
        changed = True


@inner
def first_deficit(w: World) -> int:
    """Return the first op at which memory will not do even if all that is clean is away, else -1."""
    n = w.op.shape[1] - 1
    now, memory = w.scalar[NOW], w.scalar[MEMORY]
    k = now % n
    for j in range(k, n):
        if w.op[LEAST, j] > memory:
            return int(now + j - k)
    if w.scalar[PERIODIC]:
        for j in range(k):
            if w.op[LEAST, j] > memory:
                return int(now + n + j - k)
    if w.scalar[FORCED]:
        return int(now)
    return -1


@inner
def host_is_due(w: World, deficit: int) -> bool:
    """Return whether the host's channel must work now lest it be late for a deficit, with a margin.

    What the slow tier's channel does not bring out until a deficit is for the host, as far as that has room.
    """
    n = w.op.shape[1] - 1
    s = w.scalar
    slow = w.channel[SLOW_OUT, FULL_RATE]
    host = min(w.channel[HOST_OUT, FULL_RATE], s[JOINT_OUT] - slow)
    room = s[HOST_ROOM] - s[HOST_USED]
    running = s[RUN_END] - s[TIME] if s[RUNNING] >= 0 else np.int64(0)
    for op in range(deficit, last_forecast(w)):
        excess = w.op[LEAST, op % n] - s[MEMORY]
        if excess > 0:
            ns = running + clock(w, op) - clock(w, s[NOW])
            excess = min(excess - ns // 1000 * slow // 1000, room)
            if excess > ns // 1000 * host // 1000 * MARGIN_OF_HOST // 16:
                return True
    return False


@inner
def start_run(w: World) -> bool:
    """Start the next op if all it accesses is there and what it creates fits."""
    n = w.op.shape[1] - 1
    s, tensor = w.scalar, w.tensor
    now = s[NOW]
    if now == n and not s[PERIODIC]:
        return False
    k = now % n
    births = w.op[WORKSPACE, k]
    for a in range(w.op[FIRST_OF_OP, k], w.op[FIRST_OF_OP, k + 1]):
        i = w.access[BY_OP, a]
        if not tensor[ALIVE, i]:
            births += tensor[SIZE, i]
        elif tensor[HERE, i] < tensor[FIRST_CHUNK, i + 1] - tensor[FIRST_CHUNK, i]:
            return False
    excess = s[USED] + births - s[MEMORY]
    if excess > 0 and not make_room(w, excess, now, NO):
        return False
    s[USED] += births
    s[RUNNING] = k
    s[RUN_END] = s[TIME] + w.op[DURATION, k]
    s[NOW] = now + 1
    w.op[LOAD, k] = w.op[LIVE, k]
    w.op[LEAST, k] = w.op[FLOOR, k]
    for a in range(w.op[FIRST_OF_OP, k], w.op[FIRST_OF_OP, k + 1]):
        i = w.access[BY_OP, a]
        tensor[IN_USE, i] = 1
        if not tensor[ALIVE, i]:
            tensor[ALIVE, i] = 1
            tensor[NEXT_INDEX, i] = 0
            tensor[HERE, i] = set_chunks(w, ON_DEVICE, i, PRESENT)
            tensor[DIRTY, i] = tensor[HERE, i]
            relist(w, i)
        elif w.access[BY_OP_WRITES, a]:
            forget_version(w, i)
        index, use = access_after(w, i, tensor[NEXT_INDEX, i], now)
        tensor[NEXT_INDEX, i] = index
        tensor[NEXT_USE, i] = use
    if s[PERIODIC]:
        for i in range(tensor.shape[1] - 1):
            # what is only read keeps its version: it reaches into the new end of the forecast
            if tensor[WRITTEN, i] or not tensor[PERSISTENT, i]:
                continue
            count = tensor[FIRST_CHUNK, i + 1] - tensor[FIRST_CHUNK, i]
            if tensor[DIRTY, i] == count or gap_around(w, i, now + n, NO) < 0:
                continue
            for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
                if w.chunk[ON_HOST, c] == VALID or w.chunk[ON_SLOW, c] == VALID:
                    w.op[LEAST, k] -= w.chunk[BYTES, c]
    put_log(w, LOG_RUN, k, 0, 0, 0, s[TIME], s[RUN_END])
    return True


@inner
def forget_version(w: World, i: int) -> None:
    """Cancel copies in flight and release those made: a write begins."""
    chunk, tensor = w.chunk, w.tensor
    for out in range(HOST_OUT, SLOW_OUT + 1):
        c = w.channel[out, CARRIED]
        if c >= 0 and chunk[OWNER, c] == i:
            w.channel[out, CARRIED] = -1
            chunk[LEAVING, c] = 0
            tier = HOST if out == HOST_OUT else SLOW
            release(w, c, tier, w.channel[out, LOW])
            chunk[ON_HOST if out == HOST_OUT else ON_SLOW, c] = NONE
    for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
        if chunk[ON_HOST, c] == VALID:
            release(w, c, HOST, chunk[BYTES, c])
        if chunk[ON_SLOW, c] == VALID:
            release(w, c, SLOW, chunk[BYTES, c])
        chunk[ON_HOST, c] = NONE
        chunk[ON_SLOW, c] = NONE
    tensor[CLEAN, i] = 0
    tensor[CLEAN_HOST, i] = 0
    tensor[SLOW_BYTES, i] = 0
    tensor[DIRTY, i] = tensor[FIRST_CHUNK, i + 1] - tensor[FIRST_CHUNK, i]
    tensor[TARGET, i] = 0
    relist(w, i)


@inner
def end_run(w: World) -> None:
    """Release workspace and what nobody accesses any more: the op is over."""
    s, tensor = w.scalar, w.tensor
    k = s[RUNNING]
    s[RUNNING] = -1
    s[USED] -= w.op[WORKSPACE, k]
    for a in range(w.op[FIRST_OF_OP, k], w.op[FIRST_OF_OP, k + 1]):
        i = w.access[BY_OP, a]
        tensor[IN_USE, i] = 0
        if tensor[NEXT_USE, i] != FAR:
            continue
        forget_version(w, i)
        for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
            release(w, c, DEVICE, w.chunk[BYTES, c])
            w.chunk[ON_DEVICE, c] = ABSENT
        tensor[ALIVE, i] = 0
        tensor[HERE, i] = 0
        tensor[DIRTY, i] = 0
        relist(w, i)


@inner
def set_off(w: World, k: int, c: int) -> None:
    """Begin to copy a chunk on channel k."""
    w.channel[k, CARRIED] = c
    w.channel[k, LOW] = 0
    w.channel[k, LEFT] = w.chunk[BYTES, c]
    w.channel[k, START] = w.scalar[TIME]
    w.channel[k, RATE] = 0
    w.channel[k, END] = FAR
    refresh_rates(w)


@inner
def refresh_rates(w: World) -> None:
    """Give the slow tier its rate, the host what is left; a copy whose rate changes is split."""
    channel, now = w.channel, w.scalar[TIME]
    for side in range(2):
        slow = SLOW_OUT if side == 0 else SLOW_IN
        joint = w.scalar[JOINT_OUT + side]
        taken = np.int64(0)
        for turn in range(2):
            k = slow - turn  # the slow tier's channel, then the host's
            rate = min(channel[k, FULL_RATE], joint - taken)
            if channel[k, CARRIED] < 0:
                continue
            taken = rate
            if channel[k, RATE] == rate:
                continue
            spent = now - channel[k, START] - channel[k, LATENCY]
            if channel[k, RATE] > 0 and spent > 0:
                moved = min(channel[k, LEFT], spent * channel[k, RATE] // SCALE)
                if moved > 0:
                    log_copy(w, k, moved)
                    channel[k, LOW] += moved
                    channel[k, LEFT] -= moved
            channel[k, START] = now
            channel[k, RATE] = rate
            channel[k, END] = FAR
            if rate > 0:
                left = channel[k, LEFT]
                channel[k, END] = now + channel[k, LATENCY] + (left * SCALE + rate - 1) // rate


@inner
def log_copy(w: World, k: int, nbytes: int) -> None:
    """Log that channel k has copied bytes since the start of its segment."""
    low = w.channel[k, LOW]
    put_log(w, LOG_COPY, w.channel[k, CARRIED], k, low, low + nbytes, w.channel[k, START], w.scalar[TIME])


@inner
def arrive(w: World, k: int) -> None:
    """Take in a chunk that channel k has copied."""
    s, tensor, chunk = w.scalar, w.tensor, w.chunk
    c = w.channel[k, CARRIED]
    i = chunk[OWNER, c]
    nbytes = chunk[BYTES, c]
    if w.channel[k, LEFT] > 0 or nbytes == 0:
        log_copy(w, k, w.channel[k, LEFT])
    w.channel[k, CARRIED] = -1
    staged = chunk[ON_DEVICE, c] == STAGED
    if k == HOST_IN and staged:
        return
    if k >= HOST_IN:
        chunk[ON_DEVICE, c] = PRESENT
        tensor[HERE, i] += 1
        tensor[CLEAN, i] += 1
        tensor[CLEAN_HOST, i] += chunk[ON_HOST, c] == VALID
        relist(w, i)
        return
    chunk[LEAVING, c] = 0
    if staged:
        chunk[ON_SLOW, c] = VALID
        put_log(w, LOG_FREE, c, DEVICE, 0, nbytes, s[TIME], s[TIME])
        release(w, c, HOST, nbytes)
        chunk[ON_HOST, c] = NONE
        chunk[ON_DEVICE, c] = ABSENT
        tensor[AWAY_HOST, i] -= 1
        tensor[AWAY_SLOW, i] += 1
        tensor[SLOW_BYTES, i] += nbytes
        relist(w, i)
        s[STAGING] -= 1
        return
    chunk[ON_HOST if k == HOST_OUT else ON_SLOW, c] = VALID
    tensor[DIRTY, i] -= 1
    tensor[CLEAN, i] += 1
    tensor[CLEAN_HOST, i] += k == HOST_OUT
    relist(w, i)
    shift_away(w, i, -nbytes)


@inner
def copy_out(w: World, k: int, deficit: int, beyond: int) -> bool:
    """Copy out the dirty chunk whose use behind the deficit is furthest; return whether there is one.

    `deficit` -1: any deficit. The use is behind `beyond`.
    """
    n = w.op.shape[1] - 1
    s, tensor, chunk = w.scalar, w.tensor, w.chunk
    if k == SLOW_OUT and s[STAGING] > 0:
        for a in range(s[AWAYS]):
            i = tensor[AWAY_LIST, a]
            if tensor[AWAY_HOST, i] == 0:
                continue
            for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
                if chunk[ON_DEVICE, c] == STAGED and w.channel[HOST_IN, CARRIED] != c:
                    chunk[LEAVING, c] = 1
                    chunk[ON_SLOW, c] = COMING
                    set_off(w, k, c)
                    return True
    hurry = s[FORCED] != 0
    limit = FAR
    end = s[NOW] - s[NOW] % n + n if s[NOW] % n or s[RUNNING] < 0 else s[NOW]
    if k == SLOW_OUT and s[GATE] and s[RUNNING] >= 0:
        limit = tail_limit(w, s[GATE_SLACK], end)
    best, chosen = beyond, NOTHING
    if deficit < 0:
        find_deficits(w)
    for a in range(s[DIRTIES]):
        i = tensor[DIRTY_LIST, a]
        if not tensor[MOVABLE, i]:
            continue
        use = gap_around(w, i, deficit, hurry) if deficit >= 0 else gap_at_deficit(w, i)
        if use <= best or (limit <= use < end):
            continue
        if tensor[IN_USE, i] and writes(w, s[RUNNING], i):
            continue
        for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
            if chunk[ON_DEVICE, c] == PRESENT and chunk[ON_HOST, c] == NONE and chunk[ON_SLOW, c] == NONE:
                if s[HELD] and not s[FORCED] and belongs_elsewhere(w, k, c):
                    continue
                best, chosen = use, c
                break
    if chosen < 0:
        return False
    i = chunk[OWNER, chosen]
    nbytes = chunk[BYTES, chosen]
    if k == HOST_OUT:
        room = s[HOST_ROOM] - s[HOST_USED] - nbytes
        if room < 0 and not forget_host(w, -room, best):
            return False
        s[HOST_USED] += nbytes
        chunk[ON_HOST, chosen] = COMING
    else:
        chunk[ON_SLOW, chosen] = COMING
        tensor[SLOW_BYTES, i] += nbytes
        relist(w, i)
        tensor[TARGET, i] = max(best, tensor[TARGET, i])
    chunk[LEAVING, chosen] = 1
    set_off(w, k, chosen)
    return True


@inner
def belongs_elsewhere(w: World, k: int, c: int) -> bool:
    """Return whether a chunk in its last version of the iteration had its copy elsewhere at the boundary."""
    n = w.op.shape[1] - 1
    i, now = w.chunk[OWNER, c], w.scalar[NOW]
    end = now + (n - now % n) % n
    if not w.tensor[PERSISTENT, i]:
        return False
    if w.tensor[NEXT_USE, i] < end and w.tensor[NEXT_INDEX, i] < w.tensor[WRITTEN, i]:
        return False
    here, there = (HOST_BEFORE, SLOW_BEFORE) if k == HOST_OUT else (SLOW_BEFORE, HOST_BEFORE)
    return bool(w.chunk[here, c] == NONE and w.chunk[there, c] != NONE)


@inner
def writes(w: World, k: int, i: int) -> bool:
    """Return whether op k writes tensor i."""
    for a in range(w.op[FIRST_OF_OP, k], w.op[FIRST_OF_OP, k + 1]):
        if w.access[BY_OP, a] == i:
            return bool(w.access[BY_OP_WRITES, a] != 0)
    return False


@inner
def tail_limit(w: World, slack: int, end: int) -> int:
    """Return the first use of this iteration for which no more chunk can come back from slow in time.

    For every op u before `end`: bytes only there with a use at u or later, and one chunk more, are at most
    what the channel brings from the start of u to the end of the iteration, plus the slack.
    """
    n = w.op.shape[1] - 1
    tensor = w.tensor
    now = w.scalar[NOW]
    only = np.zeros(n + 1, np.int64)
    for a in range(w.scalar[SLOWS]):
        i = tensor[SLOW_LIST, a]
        use = max(tensor[NEXT_USE, i], tensor[TARGET, i])
        if tensor[ALIVE, i] and now <= use < end:
            only[use % n] += tensor[SLOW_BYTES, i]
    total = w.op[CLOCK, n]
    rate = w.channel[SLOW_IN, FULL_RATE]
    behind = w.scalar[SLOT_BYTES] - slack
    first = end
    for u in range(end - 1, now - 1, -1):
        k = u % n
        behind += only[k]
        if behind > (total - w.op[CLOCK, k]) // 1000 * rate // 1000:
            first = u
    return int(first)


@inner
def forget_host(w: World, needed: int, beyond: int) -> bool:
    """Release host copies of chunks also on the device, nearest use first, all before `beyond`."""
    tensor, chunk = w.tensor, w.chunk
    while needed > 0:
        best, i = beyond, NOTHING
        for a in range(w.scalar[CLEANS]):
            t = tensor[CLEAN_LIST, a]
            if tensor[CLEAN_HOST, t] and tensor[NEXT_USE, t] < best and not tensor[ENTRY, t] & 4:
                best, i = tensor[NEXT_USE, t], t
        if i < 0:
            return False
        c = tensor[FIRST_CHUNK, i]
        while chunk[ON_DEVICE, c] != PRESENT or chunk[ON_HOST, c] != VALID:
            c += 1
        nbytes = chunk[BYTES, c]
        chunk[ON_HOST, c] = NONE
        release(w, c, HOST, nbytes)
        tensor[CLEAN_HOST, i] -= 1
        if chunk[ON_SLOW, c] == VALID:
            tensor[SLOW_BYTES, i] += nbytes
            relist(w, i)
        else:
            tensor[CLEAN, i] -= 1
            tensor[DIRTY, i] += 1
            relist(w, i)
            shift_away(w, i, nbytes)
        needed -= nbytes
    return True


@inner
def copy_in(w: World, k: int) -> bool:
    """Fetch the absent chunk that is used next, if it does no harm; return whether there is one."""
    n = w.op.shape[1] - 1
    s, tensor, chunk = w.scalar, w.tensor, w.chunk
    now = s[NOW]
    away = AWAY_HOST if k == HOST_IN else AWAY_SLOW
    best, i = FAR if s[PERIODIC] else np.int64(n), NOTHING
    for a in range(s[AWAYS]):
        t = tensor[AWAY_LIST, a]
        if tensor[away, t] and tensor[NEXT_USE, t] < best:
            best, i = tensor[NEXT_USE, t], t
    if i < 0:
        return False
    if k == HOST_IN and not s[FORCED] and clock(w, best) - clock(w, now) > s[HORIZON]:
        return False
    chosen = NOTHING
    for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
        if chunk[ON_DEVICE, c] == STAGED:
            if k == HOST_IN and chunk[LEAVING, c] == 0 and w.channel[HOST_IN, CARRIED] != c:
                chosen = c
                break
        elif chunk[ON_DEVICE, c] == ABSENT and (chunk[ON_HOST, c] == VALID) == (k == HOST_IN):
            chosen = c
            break
    if chosen < 0:
        return False
    nbytes = chunk[BYTES, chosen]
    most, crest = s[USED], now
    j = now % n
    for op in range(now, best):
        if w.op[LOAD, j] > most:
            most, crest = w.op[LOAD, j], op
        j += 1
        if j == n:
            j = 0
    excess = most + nbytes - s[MEMORY]
    if excess > 0:
        sparing = k == HOST_IN and not s[FORCED]
        if (not s[DISPLACE] and best > now) or not make_room(w, excess, best, sparing):
            s[BLOCKED] = best
            s[CREST] = crest
            return False
    add_range(w, LOAD, now, best, nbytes)
    add_range(w, LEAST, usable_end(w, i), best, nbytes)
    s[USED] += nbytes
    tensor[away, i] -= 1
    if chunk[ON_DEVICE, chosen] == STAGED:
        chunk[ON_DEVICE, chosen] = PRESENT
        tensor[HERE, i] += 1
        tensor[CLEAN, i] += 1
        tensor[CLEAN_HOST, i] += 1
        relist(w, i)
        s[STAGING] -= 1
        return True
    relist(w, i)
    chunk[ON_DEVICE, chosen] = ARRIVING
    set_off(w, k, chosen)
    return True


@inner
def stage(w: World, deficit: int) -> bool:
    """Fetch a chunk from a full host into a slot, to be passed on to the slow tier."""
    n = w.op.shape[1] - 1
    s, tensor, chunk = w.scalar, w.tensor, w.chunk
    if s[STAGING] >= s[SLOTS] or w.channel[SLOW_OUT, FULL_RATE] == 0:
        return False
    if s[HOST_ROOM] - s[HOST_USED] > s[MARGIN]:
        return False
    end = s[NOW] - s[NOW] % n + n
    limit = tail_limit(w, s[TAIL_SLACK], end)
    best, chosen = NOTHING, NOTHING
    for a in range(s[DIRTIES]):
        i = tensor[DIRTY_LIST, a]
        if tensor[MOVABLE, i]:
            use = gap_around(w, i, deficit, NO)
            if use > best and not limit <= use < end:
                best = use
    for a in range(s[AWAYS]):
        i = tensor[AWAY_LIST, a]
        use = tensor[NEXT_USE, i]
        if tensor[AWAY_HOST, i] == 0 or tensor[ENTRY, i] & 4 or use <= best or (limit <= use < end):
            continue
        for c in range(tensor[FIRST_CHUNK, i], tensor[FIRST_CHUNK, i + 1]):
            if chunk[ON_DEVICE, c] == ABSENT and chunk[ON_HOST, c] == VALID and chunk[ON_SLOW, c] == NONE:
                best, chosen = use, c
                break
    if chosen < 0:
        return False
    chunk[ON_DEVICE, chosen] = STAGED
    s[STAGING] += 1
    set_off(w, HOST_IN, chosen)
    return True
