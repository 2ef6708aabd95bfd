"""What the planner copies next, out of the device, back and through it to the slow tier; compiled."""

from __future__ import annotations

import numpy as np

from ...engines.kernels import inner
from ..world.channels import (
    ABSENT,
    ARRIVING,
    COMING,
    FAR,
    HOST,
    HOST_IN,
    HOST_OUT,
    NONE,
    PRESENT,
    SLOW,
    SLOW_IN,
    SLOW_OUT,
    STAGED,
    VALID,
)
from .channel_kernel import set_off
from .chunk_kernel import make_room, occupy, release, relist, set_copy
from .forecast_kernel import (
    absence_around,
    absence_at_deficit,
    add_range,
    clock,
    find_deficits,
    last_forecast,
    shift_away,
    usable_end,
)
from .tables import AWAYS, CLEANS, DIRTIES, NO, NOTHING, SLOWS, PlannerTables

MARGIN_OF_HOST = 15
"""Sixteenths of its rate that a host channel counts on which is not eager: the rates of others change yet."""


@inner
def copy_out(w: PlannerTables, k: int, deficit: int, beyond: int) -> bool:
    """Copy out the dirty chunk whose use behind the deficit is furthest; return whether there is one.

    `deficit` -1: any deficit. The use is behind `beyond`.
    """
    n = len(w.op) - 1
    s, tensor, chunk = w.state[0], w.tensor, w.chunk
    if k == SLOW_OUT and s.staging > 0:
        for a in range(w.listed[AWAYS]):
            i = w.lists[AWAYS, a]
            if tensor[i].away_host == 0:
                continue
            for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
                if chunk[c].on_device == STAGED and w.channel[HOST_IN].carried != c:
                    chunk[c].leaving = 1
                    chunk[c].on_slow = COMING
                    set_off(w, k, c)
                    return True
    hurry = s.forced != 0
    limit = FAR
    end = s.now - s.now % n + n if s.now % n or s.running < 0 else s.now
    if k == SLOW_OUT and s.gate and s.running >= 0:
        limit = tail_limit(w, np.int64(0), end)
    best, chosen = beyond, NOTHING
    if deficit < 0:
        find_deficits(w)
    for a in range(w.listed[DIRTIES]):
        i = w.lists[DIRTIES, a]
        if not tensor[i].movable:
            continue
        use = absence_around(w, i, deficit, hurry) if deficit >= 0 else absence_at_deficit(w, i)
        if use <= best or (limit <= use < end):
            continue
        if tensor[i].in_use and writes(w, s.running, i):
            continue
        for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
            if chunk[c].on_device == PRESENT and chunk[c].on_host == NONE and chunk[c].on_slow == NONE:
                if s.held and not s.forced and belongs_elsewhere(w, k, c):
                    continue
                best, chosen = use, c
                break
    if chosen < 0:
        return False
    i = chunk[chosen].owner
    nbytes = chunk[chosen].length
    tier, room = HOST, s.host_room - s.host_used
    if k == SLOW_OUT:
        tier, room = SLOW, s.slow_room - s.slow_used
    if room < nbytes and not forget(w, tier, nbytes - room, best):
        return False
    occupy(w, chosen, tier, nbytes)
    set_copy(w, tier, chosen, COMING)
    if k == SLOW_OUT:
        tensor[i].slow_bytes += nbytes
        relist(w, i)
        tensor[i].target = max(best, tensor[i].target)
    chunk[chosen].leaving = 1
    set_off(w, k, chosen)
    return True


@inner
def belongs_elsewhere(w: PlannerTables, k: int, c: int) -> bool:
    """Return whether a chunk in its last version of the iteration had its copy elsewhere at the boundary."""
    n = len(w.op) - 1
    i, now = w.chunk[c].owner, w.state[0].now
    end = now + (n - now % n) % n
    if not w.tensor[i].persistent:
        return False
    if w.tensor[i].next_use < end and w.tensor[i].next_index < w.tensor[i].written:
        return False
    x = w.chunk[c]
    here, there = (x.host_before, x.slow_before) if k == HOST_OUT else (x.slow_before, x.host_before)
    return bool(here == NONE and there != NONE)


@inner
def writes(w: PlannerTables, k: int, i: int) -> bool:
    """Return whether op k writes tensor i."""
    for a in range(w.op[k].first_access, w.op[k + 1].first_access):
        if w.by_op[a].tensor == i:
            return bool(w.by_op[a].writes != 0)
    return False


@inner
def tail_limit(w: PlannerTables, slack: int, end: int) -> int:
    """Return the first use of this iteration for which no more chunk can come back from slow in time.

    For every op u before `end`: bytes only there with a use at u or later, and one chunk more, are at most
    what the channel brings from the start of u to the end of the iteration, plus the slack.
    """
    n = len(w.op) - 1
    tensor = w.tensor
    now = w.state[0].now
    only = w.scratch
    only[: n + 1] = 0
    for a in range(w.listed[SLOWS]):
        i = w.lists[SLOWS, a]
        use = max(tensor[i].next_use, tensor[i].target)
        if tensor[i].alive and now <= use < end:
            only[use % n] += tensor[i].slow_bytes
    total = w.op[n].clock
    rate = w.channel[SLOW_IN].full_rate
    behind = w.state[0].slot_bytes - slack
    first = end
    for u in range(end - 1, now - 1, -1):
        k = u % n
        behind += only[k]
        if behind > (total - w.op[k].clock) // 1000 * rate // 1000:
            first = u
    return int(first)


@inner
def forget(w: PlannerTables, tier: int, needed: int, beyond: int) -> bool:
    """Release an outer tier's copies of chunks also on the device, nearest use first, all before `beyond`.

    Of the slow tier: of chunks that the host does not hold.
    """
    tensor, chunk = w.tensor, w.chunk
    reserved = 4
    if tier == SLOW:
        reserved = 2
    while needed > 0:
        best, i = beyond, NOTHING
        for a in range(w.listed[CLEANS]):
            t = w.lists[CLEANS, a]
            held = tensor[t].clean_host
            if tier == SLOW:
                held = tensor[t].clean - held
            if held and tensor[t].next_use < best and not tensor[t].entry & reserved:
                best, i = tensor[t].next_use, t
        if i < 0:
            return False
        c = tensor[i].first_chunk
        while chunk[c].on_device != PRESENT or not only_copy(w, tier, c):
            c += 1
        nbytes = chunk[c].length
        set_copy(w, tier, c, NONE)
        release(w, c, tier, nbytes)
        if tier == HOST:
            tensor[i].clean_host -= 1
        else:
            tensor[i].slow_bytes -= nbytes
        tensor[i].clean -= 1
        tensor[i].dirty += 1
        relist(w, i)
        shift_away(w, i, nbytes)
        needed -= nbytes
    return True


@inner
def only_copy(w: PlannerTables, tier: int, c: int) -> bool:
    """Return whether the copy of a chunk that counts is in a tier: on the host, else on the slow tier."""
    if tier == HOST:
        return bool(w.chunk[c].on_host == VALID)
    return bool(w.chunk[c].on_host != VALID and w.chunk[c].on_slow == VALID)


@inner
def copy_in(w: PlannerTables, k: int) -> bool:
    """Fetch the absent chunk that is used next, if it does no harm; return whether there is one."""
    n = len(w.op) - 1
    s, tensor, chunk = w.state[0], w.tensor, w.chunk
    now = s.now
    best, i = FAR if s.periodic else np.int64(n), NOTHING
    for a in range(w.listed[AWAYS]):
        t = w.lists[AWAYS, a]
        away = tensor[t].away_host if k == HOST_IN else tensor[t].away_slow
        if away and tensor[t].next_use < best:
            best, i = tensor[t].next_use, t
    if i < 0:
        return False
    if k == HOST_IN and not s.forced and clock(w, best) - clock(w, now) > s.horizon:
        return False
    chosen = NOTHING
    for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
        if chunk[c].on_device == STAGED:
            if k == HOST_IN and chunk[c].leaving == 0 and w.channel[HOST_IN].carried != c:
                chosen = c
                break
        elif chunk[c].on_device == ABSENT and (chunk[c].on_host == VALID) == (k == HOST_IN):
            chosen = c
            break
    if chosen < 0:
        return False
    nbytes = chunk[chosen].length
    most, crest = s.used, now
    j = now % n
    for op in range(now, best):
        if w.load[j] > most:
            most, crest = w.load[j], op
        j += 1
        if j == n:
            j = 0
    excess = most + nbytes - s.memory
    if excess > 0:
        sparing = k == HOST_IN and not s.forced
        if (not s.displace and best > now) or not make_room(w, excess, best, sparing):
            s.blocked = best
            s.crest = crest
            return False
    add_range(w, w.load, now, best, nbytes)
    add_range(w, w.least, usable_end(w, i), best, nbytes)
    s.used += nbytes
    if k == HOST_IN:
        tensor[i].away_host -= 1
    else:
        tensor[i].away_slow -= 1
    if chunk[chosen].on_device == STAGED:
        chunk[chosen].on_device = PRESENT
        tensor[i].here += 1
        tensor[i].clean += 1
        tensor[i].clean_host += 1
        relist(w, i)
        s.staging -= 1
        occupy(w, chosen, SLOW, -nbytes)
        return True
    relist(w, i)
    chunk[chosen].on_device = ARRIVING
    set_off(w, k, chosen)
    return True


@inner
def stage(w: PlannerTables, deficit: int) -> bool:
    """Fetch a chunk from a full host into a slot, to be passed on to the slow tier, where room is kept."""
    n = len(w.op) - 1
    s, tensor, chunk = w.state[0], w.tensor, w.chunk
    if s.staging >= s.slots or w.channel[SLOW_OUT].full_rate == 0:
        return False
    if s.host_room - s.host_used > s.margin:
        return False
    end = s.now - s.now % n + n
    limit = tail_limit(w, s.tail_slack, end)
    best, chosen = NOTHING, NOTHING
    for a in range(w.listed[DIRTIES]):
        i = w.lists[DIRTIES, a]
        if tensor[i].movable:
            use = absence_around(w, i, deficit, NO)
            if use > best and not limit <= use < end:
                best = use
    for a in range(w.listed[AWAYS]):
        i = w.lists[AWAYS, a]
        use = tensor[i].next_use
        if tensor[i].away_host == 0 or tensor[i].entry & 4 or use <= best or (limit <= use < end):
            continue
        for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
            if chunk[c].on_device == ABSENT and chunk[c].on_host == VALID and chunk[c].on_slow == NONE:
                best, chosen = use, c
                break
    if chosen < 0 or s.slow_room - s.slow_used < chunk[chosen].length:
        return False
    occupy(w, chosen, SLOW, chunk[chosen].length)
    chunk[chosen].on_device = STAGED
    s.staging += 1
    set_off(w, HOST_IN, chosen)
    return True


@inner
def host_is_due(w: PlannerTables, deficit: int) -> bool:
    """Return whether the host's channel must work now lest it be late for a deficit, with a margin.

    What the slow tier's channel does not bring out until a deficit is for the host, as far as that has room.
    """
    n = len(w.op) - 1
    s = w.state[0]
    slow = w.channel[SLOW_OUT].full_rate
    host = min(w.channel[HOST_OUT].full_rate, s.joint_out - slow)
    room = s.host_room - s.host_used
    running = s.run_end - s.time if s.running >= 0 else np.int64(0)
    for op in range(deficit, last_forecast(w)):
        excess = w.least[op % n] - s.memory
        if excess > 0:
            ns = running + clock(w, op) - clock(w, s.now)
            excess = min(excess - ns // 1000 * slow // 1000, room)
            if excess > ns // 1000 * host // 1000 * MARGIN_OF_HOST // 16:
                return True
    return False
