"""The tables of the simulator, and the names of their rows.

Everything is a row of one of three tables: the problem (`ProblemRows`), the state (`StateRows`) or the log.
Rows, not records: a victim is looked for among all tensors by three of their numbers, which lie close
together in rows. With records the simulator took 9.4 ms where it takes 2.5 with rows (vit-1280, every tensor
on demand).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# A file with kernels: what is compiled from these numbers is kept under their hash too.
from ...engines import kernels as kernels

NOBODY: Any = np.int64(-1)
NONE_SPARED: Any = np.int64(0)
"""Ops behind the next one whose tensors an emergency spares: a deadlock leaves no other choice."""
PLANNED_QUEUES: Any = np.int64(0)
URGENT_QUEUES: Any = np.int64(4)
"""Queue c holds the planned transfers of channel c, queue 4 + c the urgent ones."""


class ProblemRows(NamedTuple):
    """Rows of the problem."""

    duration: int
    """By op, ns."""
    workspace: int
    """By op, bytes."""
    first_operand: int
    """By op, and one more: its first operand."""
    births: int
    """By op: bytes of what it creates."""
    deaths: int
    """By op: bytes of what goes at its end."""
    early: int
    """By op: how many of its operands are over at its start."""
    operand: int
    """By operand, in the order of ops: the tensor."""
    operand_write: int
    """By operand: whether the op writes it."""
    operand_read: int
    """By operand: 1 if its access is over at the op's start, 2 if the tensor dies then."""
    use: int
    """By access, in the order of tensors: the op."""
    size: int
    """By tensor, bytes."""
    persistent: int
    """By tensor: whether it is initial and final."""
    lasting: int
    """By tensor: whether it is final, and leaves with the iteration."""
    initial: int
    """By tensor: whether it is there at first."""
    home: int
    """By tensor: bits of the tiers where it may be as a period ends; 0: of all."""
    first_chunk: int
    """By tensor, and one more: its first chunk."""
    first_use: int
    """By tensor, and one more: its first access in `use`."""
    chunk_bytes: int
    """By chunk, bytes."""
    owner: int
    """By chunk: the tensor."""
    absence_tensor: int
    """By absence: the tensor."""
    absence_first: int
    """By absence: the op before it."""
    absence_next: int
    """By absence: the op behind it."""
    capacity: int
    """By tier, bytes."""
    rate: int
    """By channel, kB/s."""
    latency: int
    """By channel, ns."""
    caps: int
    """By joint cap, five columns: kB/s, and whether each channel is under it."""


class StateRows(NamedTuple):
    """Rows of the state."""

    on_device: int
    """By chunk: ABSENT, ARRIVING or PRESENT. The row of tier x is the x-th behind this one."""
    on_host: int
    """By chunk: NONE, COMING or VALID in tier 1."""
    on_slow: int
    """By chunk: the same in tier 2."""
    leaving_chunk: int
    """By chunk: whether it is being copied out."""
    alive: int
    """By tensor: whether it exists."""
    absent_chunks: int
    """By tensor: how many are not on the device."""
    next_index: int
    """By tensor: number of its next access."""
    next_use: int
    """By tensor: op of its next access."""
    leaving: int
    """By tensor: the op until which it is to be away; -1: it stays."""
    leaving_to: int
    """By tensor: the tier that it leaves for."""
    urgent: int
    """By tensor: the last op that asked for it out of turn; -1."""
    last_use: int
    """By tensor: stamp of its last access or arrival."""
    written: int
    """By tensor: whether the running op writes it."""
    copies_out: int
    """By tensor: its chunks that are being copied out."""
    dead: int
    """By tensor: whether it died while it was being copied out."""
    start: int
    """By tensor: the tier where it starts."""
    queue: int
    """Eight rows, by place: tensors of transfers."""
    queue_use: int
    """Eight rows, by place: the ops that need them."""
    head: int
    """By queue: transfers taken from it."""
    tail: int
    """By queue: transfers put into it."""
    flight: int
    """By channel: the chunk that it carries; -1: idle."""
    flight_start: int
    """By channel: start of the copy, ns."""
    flight_end: int
    """By channel: end of the copy, ns."""
    flight_rate: int
    """By channel: rate of the copy, kB/s."""
    flight_row: int
    """By channel: its row of the log."""
    scalars: int
    """The columns of `Scalars`."""
    before: int
    """Three rows: on_device, on_host and on_slow at the last boundary, -1 at first."""
    before_flight: int
    """Three rows, by channel, at the last boundary: flight, ns that the copy has taken, ns that are left."""


class Scalars(NamedTuple):
    """Columns of the row `StateRows.scalars`."""

    time: int
    """Now, ns."""
    op: int
    """The op that is next or runs, counted on over iterations."""
    running: int
    """Whether an op runs."""
    run_end: int
    """End of the op that runs, ns."""
    used: int
    """Bytes on the device. Those in tier x are the x-th column behind this one."""
    used_1: int
    """Bytes in tier 1."""
    used_2: int
    """Bytes in tier 2."""
    pending: int
    """Bytes on the device that are leaving."""
    event: int
    """Number of the next event."""
    base: int
    """First op of the iteration, counted on over iterations."""
    begun: int
    """ns: start of the iteration."""
    logged: int
    """Rows of the log."""
    emergencies: int
    """Deadlocks that were resolved."""
    evictions: int
    """Victims that a rule named."""
    forced: int
    """Whether barriers do not count."""
    crossing: int
    """Whether the iteration is over and the next has not begun."""
    stamp: int
    """Counts accesses and arrivals."""


class EventRows(NamedTuple):
    """Rows of the events of an iteration, a column for each."""

    at: int
    """The anchor."""
    kind: int
    """WRITE_OUT, LEAVE or RETURN."""
    absence: int
    """Number of the absence."""
    turn: int
    """1 if the anchor was one of the next iteration."""
    tier: int
    """The tier that the tensor leaves for."""


class Knobs(NamedTuple):
    """What a simulation is given beside its tables."""

    ops: int
    """Number of ops."""
    tensors: int
    """Number of tensors."""
    chunks: int
    """Number of chunks."""
    caps: int
    """Number of joint caps."""
    periodic: int
    """Whether iterations follow each other."""
    iterations: int
    """Iterations after which a state that does not repeat is given up."""
    victim: int
    """NO_VICTIM, FURTHEST or LEAST_RECENT."""
    eager: int
    """Whether room is made by evictions before a deadlock."""
    spared: int
    """Ops behind the next one that keep their tensors."""


_SEVERAL = {"queue": 8, "queue_use": 8, "before": 3, "before_flight": 3}
_COUNTS = [_SEVERAL.get(name, 1) for name in StateRows._fields]
STATE_ROWS = sum(_COUNTS)

# The names of a table are the capital of its letter in the kernels: d[D.size, i], s[S.alive, i], x[X.time].
D = ProblemRows(*range(len(ProblemRows._fields)))
S = StateRows(*(sum(_COUNTS[:k]) for k in range(len(_COUNTS))))
X = Scalars(*range(len(Scalars._fields)))
E = EventRows(*range(len(EventRows._fields)))

NO_VICTIM, FURTHEST, LEAST_RECENT = range(3)
"""Rules for victims."""

WRITE_OUT, LEAVE, RETURN = range(3)
"""Kinds of event: begin to copy, be away from now on, be asked back."""
