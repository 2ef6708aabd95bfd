"""Where chunks are: the planner's lists of tensors, what is released and dropped, and the log; compiled."""

from __future__ import annotations

import numpy as np

from ...engines.kernels import inner
from ..world.channels import (
    ABSENT,
    DEVICE,
    FAR,
    HOST,
    HOST_OUT,
    LOG_FREE,
    NONE,
    PRESENT,
    SLOW,
    SLOW_OUT,
    VALID,
    outer_tier,
)
from .forecast_kernel import add_range, usable_end
from .tables import AWAYS, CLEANS, DIRTIES, SLOWS, PlannerTables


@inner
def set_chunks(w: PlannerTables, tier: int, i: int, state: int) -> int:
    """Give all chunks of tensor i a state in a tier; return how many there are."""
    low, high = w.tensor[i].first_chunk, w.tensor[i + 1].first_chunk
    for c in range(low, high):
        if tier == DEVICE:
            w.chunk[c].on_device = state
        else:
            set_copy(w, tier, c, state)
    return int(high - low)


@inner
def set_copy(w: PlannerTables, tier: int, c: int, state: int) -> None:
    """Give the copy of a chunk in an outer tier a state."""
    if tier == HOST:
        w.chunk[c].on_host = state
    else:
        w.chunk[c].on_slow = state


@inner
def relist(w: PlannerTables, i: int) -> None:
    """Put tensor i into the lists where it belongs now, and take it out of the others."""
    x = w.tensor[i]
    enlist(w, DIRTIES, i, x.dirty > 0)
    enlist(w, CLEANS, i, x.clean > 0)
    enlist(w, AWAYS, i, x.away_host + x.away_slow > 0)
    enlist(w, SLOWS, i, x.slow_bytes > 0)


@inner
def enlist(w: PlannerTables, kind: int, i: int, belongs: bool) -> None:
    """Put tensor i into a list, or take it out."""
    if belongs == w.is_listed[kind, i]:
        return
    w.is_listed[kind, i] = belongs
    members, count = w.lists[kind], w.listed[kind]
    if belongs:
        at = count
        while at > 0 and members[at - 1] > i:
            members[at] = members[at - 1]
            at -= 1
        members[at] = i
        w.listed[kind] = count + 1
        return
    at = np.int64(0)
    while members[at] != i:
        at += 1
    for k in range(at, count - 1):
        members[k] = members[k + 1]
    w.listed[kind] = count - 1


@inner
def put_log(
    w: PlannerTables, kind: int, what: int, where: int, low: int, high: int, start: int, end: int
) -> None:
    """Append a row."""
    s = w.state[0]
    row = w.log[s.logged]
    row.kind, row.what, row.where, row.low, row.high = kind, what, where, low, high
    row.start, row.end = start - s.boundary, end - s.boundary
    s.logged += 1


@inner
def release(w: PlannerTables, c: int, tier: int, high: int) -> None:
    """Free the first `high` bytes of a chunk in a tier."""
    s = w.state[0]
    nbytes = w.chunk[c].length
    if high > 0 or nbytes == 0:
        put_log(w, LOG_FREE, c, tier, 0, high, s.time, s.time)
    if tier == DEVICE:
        s.used -= nbytes
    else:
        occupy(w, c, tier, -nbytes)


@inner
def occupy(w: PlannerTables, c: int, tier: int, nbytes: int) -> None:
    """Count bytes of a chunk in an outer tier, unless its room there is an input's: that stays reserved."""
    s, entry = w.state[0], w.tensor[w.chunk[c].owner].entry
    if tier == HOST and not entry & 4:
        s.host_used += nbytes
    elif tier == SLOW and not entry & 2:
        s.slow_used += nbytes


@inner
def make_room(w: PlannerTables, needed: int, beyond: int, sparing_slow: bool) -> bool:
    """Drop clean chunks used after `beyond`, furthest first, of at least `needed` bytes; all or nothing.

    Chunks of tensors that the running op uses stay. `sparing_slow`: so do tensors whose clean chunks are
    mostly backed by the slow tier only.
    """
    tensor, chunk = w.tensor, w.chunk
    count = w.listed[CLEANS]
    available = np.int64(0)
    candidate = w.scratch
    candidates = 0
    for k in range(count):
        i = w.lists[CLEANS, k]
        clean = tensor[i].clean
        use = tensor[i].next_use
        if tensor[i].in_use or use <= beyond or use == FAR or tensor[i].length == 0:
            continue
        if sparing_slow and 2 * (clean - tensor[i].clean_host) > clean:
            continue
        candidate[candidates] = i
        candidates += 1
        if available < needed:
            for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
                if chunk[c].on_device == PRESENT and (chunk[c].on_host == VALID or chunk[c].on_slow == VALID):
                    available += chunk[c].length
    if available < needed:
        return False
    while needed > 0:
        at = 0
        for k in range(1, candidates):
            if tensor[candidate[k]].next_use > tensor[candidate[at]].next_use:
                at = k
        i = candidate[at]
        candidates -= 1
        for k in range(at, candidates):  # the order stays
            candidate[k] = candidate[k + 1]
        for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
            if needed <= 0:
                break
            if chunk[c].on_device != PRESENT:
                continue
            if chunk[c].on_host != VALID and chunk[c].on_slow != VALID:
                continue
            drop(w, c)
            needed -= chunk[c].length
    return True


@inner
def drop(w: PlannerTables, c: int) -> None:
    """Let a clean chunk leave the device."""
    tensor, nbytes = w.tensor, w.chunk[c].length
    i = w.chunk[c].owner
    on_host = w.chunk[c].on_host == VALID
    w.chunk[c].on_device = ABSENT
    tensor[i].here -= 1
    tensor[i].clean -= 1
    tensor[i].clean_host -= on_host
    if on_host:
        tensor[i].away_host += 1
    else:
        tensor[i].away_slow += 1
    relist(w, i)
    release(w, c, DEVICE, nbytes)
    add_range(w, w.load, w.state[0].now, tensor[i].next_use, -nbytes)
    add_range(w, w.least, usable_end(w, i), tensor[i].next_use, -nbytes)


@inner
def forget_version(w: PlannerTables, i: int) -> None:
    """Cancel copies in flight and release those made: a write begins."""
    chunk, tensor = w.chunk, w.tensor
    for out in range(HOST_OUT, SLOW_OUT + 1):
        c = w.channel[out].carried
        if c >= 0 and chunk[c].owner == i:
            w.channel[out].carried = -1
            chunk[c].leaving = 0
            tier = outer_tier(out)
            release(w, c, tier, w.channel[out].low)
            set_copy(w, tier, c, NONE)
    for c in range(tensor[i].first_chunk, tensor[i + 1].first_chunk):
        if chunk[c].on_host == VALID:
            release(w, c, HOST, chunk[c].length)
        if chunk[c].on_slow == VALID:
            release(w, c, SLOW, chunk[c].length)
        chunk[c].on_host = NONE
        chunk[c].on_slow = NONE
    tensor[i].clean = 0
    tensor[i].clean_host = 0
    tensor[i].slow_bytes = 0
    tensor[i].dirty = tensor[i + 1].first_chunk - tensor[i].first_chunk
    tensor[i].target = 0
    relist(w, i)
