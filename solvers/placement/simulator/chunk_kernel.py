"""Chunks of the simulator that leave, are freed, or are no more; and the log; compiled."""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from ..world.channels import ABSENT, ARRIVING, DEVICE, LOG_FREE, NONE, PRESENT, VALID
from .tables import D, S, X


@inner
def write_log(s: Integers, log: Integers, kind: int, what: int, where: int, start: int, end: int) -> None:
    """Append a row; times count from the beginning of the iteration."""
    x = s[S.scalars]
    row = x[X.logged]
    log[row, 0] = kind
    log[row, 1] = what
    log[row, 2] = where
    log[row, 3] = start - x[X.begun]
    log[row, 4] = end - x[X.begun]
    x[X.logged] = row + 1


@inner
def leave(d: Integers, s: Integers, log: Integers, i: int, use: int, tier: int) -> bool:
    """Mark a tensor as leaving until its next use, release what is clean; return whether some is dirty."""
    x = s[S.scalars]
    low, high = d[D.first_chunk, i], d[D.first_chunk, i + 1]
    for c in range(low, high):
        if s[S.on_device, c] == ARRIVING:
            return False
    s[S.urgent, i] = -1
    if s[S.absent_chunks, i] == high - low:
        return False
    s[S.leaving, i] = use
    s[S.leaving_to, i] = tier
    dirty = False
    for c in range(low, high):
        if s[S.on_device, c] != PRESENT:
            continue
        x[X.pending] += d[D.chunk_bytes, c]
        if s[S.leaving_chunk, c]:
            continue
        if s[S.on_host, c] == VALID or s[S.on_slow, c] == VALID:
            release(d, s, log, c)
        else:
            dirty = True
    return dirty


@inner
def stop_leaving(d: Integers, s: Integers, i: int) -> None:
    """Let a tensor stay with what is left of it on the device."""
    if s[S.leaving, i] < 0:
        return
    s[S.leaving, i] = -1
    for c in range(d[D.first_chunk, i], d[D.first_chunk, i + 1]):
        if s[S.on_device, c] == PRESENT:
            s[S.scalars, X.pending] -= d[D.chunk_bytes, c]


@inner
def release(d: Integers, s: Integers, log: Integers, c: int) -> None:
    """Free a chunk of a leaving tensor on the device."""
    x = s[S.scalars]
    i = d[D.owner, c]
    s[S.on_device, c] = ABSENT
    s[S.absent_chunks, i] += 1
    x[X.used] -= d[D.chunk_bytes, c]
    x[X.pending] -= d[D.chunk_bytes, c]
    if s[S.absent_chunks, i] == d[D.first_chunk, i + 1] - d[D.first_chunk, i]:
        s[S.leaving, i] = -1
    write_log(s, log, LOG_FREE, c, DEVICE, x[X.time], x[X.time])


@inner
def free_copies(d: Integers, s: Integers, log: Integers, c: int) -> None:
    """Free a chunk's copies in the outer tiers."""
    x = s[S.scalars]
    for tier in (1, 2):
        if s[S.on_device + tier, c] == VALID:
            s[S.on_device + tier, c] = NONE
            x[X.used + tier] -= d[D.chunk_bytes, c]
            write_log(s, log, LOG_FREE, c, tier, x[X.time], x[X.time])


@inner
def bury(d: Integers, s: Integers, log: Integers, c: int) -> None:
    """Free a chunk of a dead tensor everywhere."""
    x = s[S.scalars]
    s[S.on_device, c] = ABSENT
    x[X.used] -= d[D.chunk_bytes, c]
    write_log(s, log, LOG_FREE, c, DEVICE, x[X.time], x[X.time])
    i = d[D.owner, c]
    for tier in (1, 2):
        if s[S.on_device + tier, c] == VALID and not (d[D.initial, i] and s[S.start, i] == tier):
            s[S.on_device + tier, c] = NONE  # an input keeps the place where it appears again
            x[X.used + tier] -= d[D.chunk_bytes, c]
            write_log(s, log, LOG_FREE, c, tier, x[X.time], x[X.time])
