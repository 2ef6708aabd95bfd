"""The tables of the simulator, and the names of their rows.

Everything is a row of one of three tables: the problem (`D`), the state (`S`) or the log. Names have the
capital of the letter that kernels give to the table: d[D.size, i], s[S.alive, i], x[X.time].

Rows, not records: a victim is looked for among all tensors by three of their numbers, which lie close
together in rows. With records the simulator took 9.4 ms where it takes 2.5 with rows (vit-1280, every tensor
on demand).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engines.kernels import rows

NOBODY: Any = np.int64(-1)
NONE_SPARED: Any = np.int64(0)
"""Ops behind the next one whose tensors an emergency spares: a deadlock leaves no other choice."""
PLANNED_QUEUES: Any = np.int64(0)
URGENT_QUEUES: Any = np.int64(4)
"""Queue c holds the planned transfers of channel c, queue 4 + c the urgent ones."""

D = rows(
    duration="by op, ns",
    workspace="by op, bytes",
    first_operand="by op, and one more: its first operand",
    births="by op: bytes of what it creates",
    deaths="by op: bytes of what goes at its end",
    early="by op: how many of its operands are over at its start",
    operand="by operand, in the order of ops: the tensor",
    operand_write="by operand: whether the op writes it",
    operand_read="by operand: 1 if its access is over at the op's start, 2 if the tensor dies then",
    use="by access, in the order of tensors: the op",
    size="by tensor, bytes",
    persistent="by tensor: whether it is initial and final",
    lasting="by tensor: whether it is final, and leaves with the iteration",
    initial="by tensor: whether it is there at first",
    home="by tensor: bits of the tiers where it may be as a period ends; 0: of all",
    first_chunk="by tensor, and one more: its first chunk",
    first_use="by tensor, and one more: its first access in `use`",
    chunk_bytes="by chunk, bytes",
    owner="by chunk: the tensor",
    absence_tensor="by absence: the tensor",
    absence_first="by absence: the op before it",
    absence_next="by absence: the op behind it",
    capacity="by tier, bytes",
    rate="by channel, kB/s",
    latency="by channel, ns",
    caps="by joint cap, five columns: kB/s, and whether each channel is under it",
)
"""Rows of the problem."""

S = rows(
    on_device="by chunk: ABSENT, ARRIVING or PRESENT; the row of tier x is the x-th behind this one",
    on_host="by chunk: NONE, COMING or VALID in tier 1",
    on_slow="by chunk: the same in tier 2",
    leaving_chunk="by chunk: whether it is being copied out",
    alive="by tensor: whether it exists",
    absent_chunks="by tensor: how many are not on the device",
    next_index="by tensor: number of its next access",
    next_use="by tensor: op of its next access",
    leaving="by tensor: the op until which it is to be away; -1: it stays",
    leaving_to="by tensor: the tier that it leaves for",
    urgent="by tensor: the last op that asked for it out of turn; -1",
    last_use="by tensor: stamp of its last access or arrival",
    written="by tensor: whether the running op writes it",
    copies_out="by tensor: its chunks that are being copied out",
    dead="by tensor: whether it died while it was being copied out",
    start="by tensor: the tier where it starts",
    queue=(8, "by place: tensors of transfers"),
    queue_use=(8, "by place: the ops that need them"),
    head="by queue: transfers taken from it",
    tail="by queue: transfers put into it",
    flight="by channel: the chunk that it carries; -1: idle",
    flight_start="by channel: start of the copy, ns",
    flight_end="by channel: end of the copy, ns",
    flight_rate="by channel: rate of the copy, kB/s",
    flight_row="by channel: its row of the log",
    scalars="the columns of `X`",
    before=(3, "on_device, on_host and on_slow at the last boundary, -1 at first"),
    before_flight=(3, "flight, ns that the copy has taken, ns that are left, by channel, then"),
)
"""Rows of the state."""

STATE_ROWS = S.before_flight + 3

X = rows(
    time="now, ns",
    op="the op that is next or runs, counted on over iterations",
    running="whether an op runs",
    run_end="end of the op that runs, ns",
    used="bytes on the device; those in tier x are the x-th column behind this one",
    used_1="bytes in tier 1",
    used_2="bytes in tier 2",
    pending="bytes on the device that are leaving",
    event="number of the event that is next",
    base="first op of the iteration, counted on over iterations",
    begun="ns: start of the iteration",
    logged="rows of the log",
    emergencies="deadlocks that were resolved",
    evictions="victims that a rule named",
    forced="whether barriers do not count",
    crossing="whether the iteration is over and the next has not begun",
    stamp="counts accesses and arrivals",
)
"""Columns of the row of scalars."""

E = rows(
    at="the anchor",
    kind="WRITE_OUT, LEAVE or RETURN",
    absence="number of the absence",
    turn="1 if the anchor was one of the next iteration",
    tier="the tier that the tensor leaves for",
)
"""Rows of the events of an iteration, a column for each."""


class Knobs(NamedTuple):
    """What a simulation is given beside its tables.

    Attributes
    ----------
    ops, tensors, chunks, caps
        Numbers of these; the caps are the joint ones.
    periodic
        Whether iterations follow each other.
    iterations
        Iterations after which a state that does not repeat is given up.
    victim
        NO_VICTIM, FURTHEST or LEAST_RECENT.
    eager
        Whether room is made by evictions before a deadlock.
    spared
        Ops behind the next one that keep their tensors.
    """

    ops: int
    tensors: int
    chunks: int
    caps: int
    periodic: int
    iterations: int
    victim: int
    eager: int
    spared: int


NO_VICTIM, FURTHEST, LEAST_RECENT = range(3)
"""Rules for victims."""

WRITE_OUT, LEAVE, RETURN = range(3)
"""Kinds of event: begin to copy, be away from now on, be asked back."""
