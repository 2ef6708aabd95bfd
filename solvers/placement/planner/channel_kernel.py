"""The four channels of the planner: a copy begins, changes its rate, and arrives; compiled."""

from __future__ import annotations

import numpy as np

from ...engines.kernels import inner
from ..world.channels import (
    ABSENT,
    DEVICE,
    FAR,
    HOST,
    HOST_IN,
    HOST_OUT,
    LOG_COPY,
    LOG_FREE,
    NONE,
    PRESENT,
    SCALE,
    SLOW_IN,
    SLOW_OUT,
    STAGED,
    VALID,
    outer_tier,
)
from .chunk_kernel import put_log, release, relist, set_copy
from .forecast_kernel import shift_away
from .tables import PlannerTables


@inner
def set_off(w: PlannerTables, k: int, c: int) -> None:
    """Begin to copy a chunk on channel k."""
    w.channel[k].carried = c
    w.channel[k].low = 0
    w.channel[k].left = w.chunk[c].length
    w.channel[k].start = w.state[0].time
    w.channel[k].rate = 0
    w.channel[k].end = FAR
    refresh_rates(w)


@inner
def refresh_rates(w: PlannerTables) -> None:
    """Give the slow tier its rate, the host what is left; a copy whose rate changes is split.

    The simulator has another rule, not another coding of this one: there a copy keeps the rate of its start.
    """
    channel, now = w.channel, w.state[0].time
    for side in range(2):
        slow = SLOW_OUT if side == 0 else SLOW_IN
        joint = w.state[0].joint_out if side == 0 else w.state[0].joint_in
        taken = np.int64(0)
        for turn in range(2):
            k = slow - turn  # the slow tier's channel, then the host's
            rate = min(channel[k].full_rate, joint - taken)
            if channel[k].carried < 0:
                continue
            taken = rate
            if channel[k].rate == rate:
                continue
            spent = now - channel[k].start - channel[k].latency
            if channel[k].rate > 0 and spent > 0:
                moved = min(channel[k].left, spent * channel[k].rate // SCALE)
                if moved > 0:
                    log_copy(w, k, moved)
                    channel[k].low += moved
                    channel[k].left -= moved
            channel[k].start = now
            channel[k].rate = rate
            channel[k].end = FAR
            if rate > 0:
                left = channel[k].left
                channel[k].end = now + channel[k].latency + (left * SCALE + rate - 1) // rate


@inner
def log_copy(w: PlannerTables, k: int, nbytes: int) -> None:
    """Log that channel k has copied bytes since the start of its segment."""
    low = w.channel[k].low
    put_log(w, LOG_COPY, w.channel[k].carried, k, low, low + nbytes, w.channel[k].start, w.state[0].time)


@inner
def arrive(w: PlannerTables, k: int) -> None:
    """Take in a chunk that channel k has copied."""
    s, tensor, chunk = w.state[0], w.tensor, w.chunk
    c = w.channel[k].carried
    i = chunk[c].owner
    nbytes = chunk[c].length
    if w.channel[k].left > 0 or nbytes == 0:
        log_copy(w, k, w.channel[k].left)
    w.channel[k].carried = -1
    staged = chunk[c].on_device == STAGED
    if k == HOST_IN and staged:
        return
    if k >= HOST_IN:
        chunk[c].on_device = PRESENT
        tensor[i].here += 1
        tensor[i].clean += 1
        tensor[i].clean_host += chunk[c].on_host == VALID
        relist(w, i)
        return
    chunk[c].leaving = 0
    if staged:
        chunk[c].on_slow = VALID
        put_log(w, LOG_FREE, c, DEVICE, 0, nbytes, s.time, s.time)
        release(w, c, HOST, nbytes)
        chunk[c].on_host = NONE
        chunk[c].on_device = ABSENT
        tensor[i].away_host -= 1
        tensor[i].away_slow += 1
        tensor[i].slow_bytes += nbytes
        relist(w, i)
        s.staging -= 1
        return
    set_copy(w, outer_tier(k), c, VALID)
    tensor[i].dirty -= 1
    tensor[i].clean += 1
    tensor[i].clean_host += k == HOST_OUT
    relist(w, i)
    shift_away(w, i, -nbytes)
