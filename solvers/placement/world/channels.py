"""The numbers of tiers, channels, states of chunks, rows of the log and endings, in planner and simulator.

There are at most three tiers, the device and two outer ones. Four channels join the device to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# A file with kernels: what is compiled from these numbers is kept under their hash too.
from ...engines.kernels import inner


def numbers(count: int) -> tuple[Any, ...]:
    """Return names' values that are no literals to numba: it compiles a function anew for each literal."""
    return tuple(np.int64(k) for k in range(count))


DEVICE, HOST, SLOW = numbers(3)
"""Tiers."""

HOST_OUT, SLOW_OUT, HOST_IN, SLOW_IN = numbers(4)
"""Channels: from the device to the host tier and to the slow tier, and back."""

ABSENT, ARRIVING, PRESENT, STAGED = numbers(4)
"""States of a chunk on the device; a staged one passes through from host to slow (planner only)."""

NONE, COMING, VALID = numbers(3)
"""States of a chunk's copy in an outer tier."""

LOG_RUN, LOG_COPY, LOG_FREE, LOG_VOID = numbers(4)
"""Kinds of rows of the log; a void one counts for nothing."""

DONE, REPEATS, ENDLESS, STUCK, FULL_LOG, PAUSED = numbers(6)
"""How a simulation ends: it is over; the state repeats, or does not within the iterations; nothing goes on;
the log is full; so many events have happened. A period of the simulator that repeats is `DONE`."""

FAR: Any = np.int64(2**60)
"""The op behind all others, and the instant."""
SCALE = 10**6
"""Rates are in kB/s, so that bytes * SCALE / rate are nanoseconds."""


@inner
def channel_out(tier: int) -> int:
    """Return the channel from the device to an outer tier."""
    return tier - 1


@inner
def channel_back(tier: int) -> int:
    """Return the channel from an outer tier to the device."""
    return tier + 1


@inner
def outer_tier(channel: int) -> int:
    """Return the outer tier that a channel joins to the device."""
    return (channel & 1) + 1


def pairs(tiers: Sequence[str]) -> list[tuple[str, str]]:
    """Return source and destination of each channel; "" for a slow tier that is not there."""
    outer = [*tiers[1:], ""][:2]
    return [(tiers[0], x) for x in outer] + [(x, tiers[0]) for x in outer]
