"""The tables of the planner, and the names of what stands in them; all integers."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import record
from ..world.channels import numbers

DIRTIES, CLEANS, AWAYS, SLOWS = numbers(4)
"""Lists of tensors: with dirty chunks, with clean ones, with absent ones, with bytes that only slow holds."""

NOTHING: Any = np.int64(-1)
NO: Any = np.bool_(False)

OP = record(
    duration="ns",
    workspace="bytes",
    clock="ns: its start on the ideal clock",
    live="bytes live while it runs",
    floor="bytes of those that are no inputs which could be away",
    first_access="in `by_op`",
)
"""One row more than there are ops: where the last one ends."""

BY_OP = record(
    tensor="that the op accesses",
    writes="whether it writes it",
    number="of this access among the tensor's",
)

ACCESS = record(
    at="the op",
    writes="whether it writes the tensor",
    lead="ops by which the tensor must sooner not be away any more",
)

TENSOR = record(
    # What stays; one row more than there are tensors.
    first_access="in `access`",
    first_chunk="in `chunk`",
    length="bytes",
    movable="whether it may leave the device",
    persistent="whether it outlives the iteration",
    written="number of the access behind its last write",
    entry="tiers where an input of the period starts: 1 for the device + 2 for slow + 4 for the host",
    place="the tier where it is at first, plus 1; or 0",
    # What changes.
    alive="whether it exists",
    next_index="number of its next access",
    next_use="op of its next access; FAR if there is none",
    in_use="whether the running op accesses it",
    here="chunks that are present",
    dirty="chunks that are present without a valid copy",
    clean="chunks that are present with one",
    clean_host="chunks that are present with one on the host",
    away_host="absent chunks that the host holds",
    away_slow="absent chunks that only slow holds",
    slow_bytes="bytes held by slow, or on the way there, and not by the host",
    target="the furthest use that those were put there for",
)

CHUNK = record(
    owner="tensor",
    length="bytes",
    on_device="ABSENT, ARRIVING, PRESENT or STAGED",
    on_host="NONE, COMING or VALID",
    on_slow="NONE, COMING or VALID",
    leaving="whether it is being copied out",
    device_before="on_device at the last boundary",
    host_before="on_host at the last boundary",
    slow_before="on_slow at the last boundary",
)

CHANNEL = record(
    carried="chunk; -1: idle",
    low="first byte of the segment",
    left="bytes left",
    start="ns: of the segment",
    end="ns: of the segment",
    rate="kB/s: of the segment",
    full_rate="kB/s: of the channel",
    latency="ns: of the channel",
    carried_before="carried at the last boundary",
    low_before="low at the last boundary",
    left_before="left at the last boundary",
    spent_before="ns that the segment took before the last boundary",
)

STATE = record(
    # What changes.
    begun="whether the first event has happened",
    done="iterations that are over",
    op_before="op that was next at an event before, the first one since then",
    logged_before="rows of the log then",
    now="op that is next",
    time="ns",
    running="op; -1: none",
    run_end="ns",
    used="bytes on the device",
    host_used="bytes on the host",
    slow_used="bytes on the slow tier",
    boundary="ns: the start of the iteration",
    logged="rows of the log",
    staging="chunks in slots",
    forced="whether a round without lead, cap and horizon is tried",
    held="whether the state at the boundary is held",
    blocked="op that uses the chunk for which there was no room last time; -1",
    crest="op at which the load is greatest before that",
    # What is given; the last six are fields of `PlannerSetting`.
    joint_out="kB/s of both channels outwards",
    joint_in="kB/s of both channels inwards",
    memory="bytes of the device without slots",
    host_room="bytes of the host",
    slow_room="bytes of the slow tier",
    slot_bytes="bytes of a slot",
    margin="bytes of the host below which it is full",
    tail_slack="bytes by which staging may exceed the tail cap, copies out not",
    periodic="whether iterations follow each other",
    twice="whether ops 2 k and 2 k + 1 are one, which reads and then writes",
    horizon="ns",
    slots="number",
    gate="whether",
    displace="whether",
    eager="whether",
)

LOG = record(
    kind="LOG_RUN, LOG_COPY or LOG_FREE",
    what="op or chunk",
    where="channel or tier",
    low="first byte within the chunk",
    high="the byte behind the last one",
    start="ns from the boundary on",
    end="ns from the boundary on",
)


class PlannerTables(NamedTuple):
    """Everything.

    Attributes
    ----------
    op, by_op, access, tensor, chunk, channel, log
        Rows as above; accesses in the order of the ops, and of the tensors.
    state
        One row.
    load, least, next_deficit
        By op: the two forecasts in bytes, and the first deficit at it or behind.
    lists, listed, is_listed
        By kind of list: its tensors, ascending; how many; by tensor, whether it is in the list.
    scratch
        For what a function works with: an entry for each op and tensor, of any value.
    """

    op: Annotated[Any, OP]
    by_op: Annotated[Any, BY_OP]
    access: Annotated[Any, ACCESS]
    tensor: Annotated[Any, TENSOR]
    chunk: Annotated[Any, CHUNK]
    channel: Annotated[Any, CHANNEL]
    state: Annotated[Any, STATE]
    log: Annotated[Any, LOG]
    load: Integers
    least: Integers
    next_deficit: Integers
    lists: Rows
    listed: Integers
    is_listed: Rows
    scratch: Integers
