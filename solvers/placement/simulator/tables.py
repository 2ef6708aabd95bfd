"""The tables of the simulator, and the names of their rows.

Everything is a row of one of three tables: the problem (from `DURATION`), the state (from `DEVICE`), the log.
Rows, not records: a victim is looked for among all tensors by three of their numbers, which lie close
together in rows. With records the simulator took 9.4 ms where it takes 2.5 with rows (vit-1280, every tensor
on demand).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# A file with kernels: what is compiled from these numbers is kept under their hash too.
from ...engines import kernels as kernels


def _arguments(*bounds: int) -> tuple[Any, ...]:
    """Return numbers that are passed to functions: numba would compile those anew for each literal."""
    return tuple(np.int64(k) for k in range(*bounds))


HOST_OUT, SLOW_OUT, HOST_IN, SLOW_IN = _arguments(4)
"""Channels; 0 and 1 lead from the device to tiers 1 and 2, and 2 and 3 back."""

SCALE = 10**6
"""Rates are in kB/s, so that bytes * SCALE / rate are nanoseconds."""
FAR = 2**60
"""The instant, and the op, behind all others."""
NOBODY, DEVICE_TIER = _arguments(-1, 1)
NONE_SPARED = DEVICE_TIER
"""Ops behind the next one whose tensors an emergency spares, 0: a deadlock leaves no other choice."""
PLANNED_QUEUES = DEVICE_TIER
URGENT_QUEUES: Any = np.int64(4)
"""Queue c holds the planned transfers of channel c, queue 4 + c the urgent ones."""

# Rows of the problem.
(
    DURATION,  # by op, in ns
    WORKSPACE,  # by op, in bytes
    OP_FIRST,  # by op, and one more: its first access
    BIRTHS,  # by op: bytes of what it creates
    DEATHS,  # by op: bytes of what goes at its end
    EARLY,  # by op: how many of its accesses are over at its start
    OP_TENSOR,  # by access in the order of ops: the tensor
    OP_WRITE,  # by access in the order of ops: whether it writes
    OP_READ,  # by access in the order of ops: 1 if it is over at the op's start, 2 if the tensor dies then
    USE,  # by access in the order of tensors: the op
    SIZE,  # by tensor, in bytes
    PERSISTENT,  # by tensor: whether it is initial and final
    LASTING,  # by tensor: whether it is final, and leaves with the iteration
    INITIAL,  # by tensor: whether it is there at first
    HOME,  # by tensor: bits of the tiers where it may be as a period ends; 0: of all
    CHUNK_FIRST,  # by tensor, and one more: its first chunk
    USE_FIRST,  # by tensor, and one more: its first access
    BYTES,  # by chunk
    OWNER,  # by chunk: the tensor
    GAP_TENSOR,  # by absence: the tensor
    GAP_FIRST,  # by absence: the op before it
    GAP_NEXT,  # by absence: the op behind it
    LIMITS,  # by tier, in bytes
    RATE,  # by channel, in kB/s
    LATENCY,  # by channel, in ns
    GROUPS,  # by group, five columns: cap in kB/s, whether each channel is in it
    TABLE_ROWS,
) = range(27)

# Rows of the state.
(
    DEVICE,  # by chunk: GONE, ARRIVING or PRESENT
    COPY,  # by chunk: NONE, COMING or VALID in tier 1
    COPY_2,  # by chunk: the same in tier 2
    LEAVING_CHUNK,  # by chunk: whether it is being copied out
    ALIVE,  # by tensor: whether it exists
    ABSENT_CHUNKS,  # by tensor: how many are not on the device
    NEXT,  # by tensor: number of its next access
    NEXT_USE,  # by tensor: op of its next access
    LEAVING,  # by tensor: the op until which it is to be away; -1: it stays
    LEAVING_TO,  # by tensor: the tier that it leaves for
    URGENT,  # by tensor: the last op that asked for it out of turn; -1
    LAST_USE,  # by tensor: stamp of its last access or arrival
    WRITTEN,  # by tensor: whether the running op writes it
    COPIES_OUT,  # by tensor: its chunks that are being copied out
    DEAD,  # by tensor: whether it died while it was being copied out
    START,  # by tensor: the tier where it starts
    QUEUE,  # eight rows, by place: tensors of transfers; then eight: the ops that need them
) = range(17)
QUEUE_USE = QUEUE + 8
(
    HEAD,  # by queue: transfers taken from it
    TAIL,  # by queue: transfers put into it
    FLIGHT,  # by channel: the chunk that it carries; -1: idle
    FLIGHT_START,  # by channel, in ns
    FLIGHT_END,  # by channel, in ns
    FLIGHT_RATE,  # by channel, in kB/s
    FLIGHT_ROW,  # by channel: its row of the log
    SCALARS,  # see below
    BEFORE,  # three rows: DEVICE, COPY and COPY_2 at the last boundary, -1 at first
) = range(QUEUE + 16, QUEUE + 25)
BEFORE_FLIGHT = BEFORE + 3
"""Three rows, by channel, at the last boundary: FLIGHT, ns that the copy has taken, ns that it will take."""
STATE_ROWS = BEFORE + 6

GONE, ARRIVING, PRESENT = range(3)
"""Of a chunk on the device."""
NONE, COMING, VALID = range(3)
"""Of a chunk's copy in an outer tier."""

# Scalars.
(
    TIME,  # ns
    OP,  # that is next or runs, counted on over iterations
    RUNNING,  # whether an op runs
    RUN_END,  # ns
    USED,  # bytes on the device, then in tiers 1 and 2
    USED_1,
    USED_2,
    PENDING,  # bytes on the device that are leaving
    EVENT,  # the next one
    BASE,  # first op of the iteration
    BEGUN,  # ns: its start
    LOGGED,  # rows of the log
    EMERGENCIES,  # deadlocks that were resolved
    EVICTIONS,  # victims
    FORCED,  # whether barriers do not count
    CROSSING,  # whether the iteration is over and the next has not begun
    STAMP,  # counts accesses and arrivals
) = range(17)

# Knobs: sizes first; then as `simulator.Decisions` says.
N, TENSORS, CHUNKS, GROUP_COUNT, PERIODIC, ITERATIONS, VICTIM, EAGER, SPARED = range(9)
NO_VICTIM, FURTHEST, LEAST_RECENT = range(3)
"""Rules for victims."""

EVENT_AT, EVENT_KIND, EVENT_GAP, EVENT_TURN, EVENT_TIER = range(5)
WRITE_OUT, LEAVE, RETURN = range(3)
"""Kinds of event: begin to copy, be away from now on, be asked back."""

LOG_RUN, LOG_COPY, LOG_FREE, LOG_VOID = _arguments(4)
"""Kinds of row: (kind, op or chunk, channel or tier, start, end)."""

DONE, ENDLESS, STUCK, FULL_LOG = range(4)
"""How a simulation ends; `ENDLESS`: the state does not repeat within the iterations."""


def pairs(tiers: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tiers that each channel joins."""
    outer = [*tiers[1:], ""][:2]
    return [(tiers[0], x) for x in outer] + [(x, tiers[0]) for x in outer]
