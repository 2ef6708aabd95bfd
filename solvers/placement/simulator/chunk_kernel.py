"""Chunks of the simulator that leave, are freed, or are no more; and the log; compiled."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from .tables import (
    ABSENT_CHUNKS,
    ARRIVING,
    BEGUN,
    BYTES,
    CHUNK_FIRST,
    COPY,
    COPY_2,
    DEVICE,
    DEVICE_TIER,
    GONE,
    INITIAL,
    LEAVING,
    LEAVING_CHUNK,
    LEAVING_TO,
    LOG_FREE,
    LOGGED,
    NONE,
    OWNER,
    PENDING,
    PRESENT,
    SCALARS,
    START,
    TIME,
    URGENT,
    USED,
    VALID,
)


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
