r"""Lower bound on the period of tensor placement: a linear program over the states at sample instants.

Ops :math:`k = 0..n-1` run one after another in a fixed order, cyclically; each lasts :math:`d_k`. A
*sample* is the start or the end of an op. Choose any sample instants :math:`c_0 < \dots < c_{K-1}` of the
cycle; epoch e is the time from :math:`c_e` to :math:`c_{e+1}` (cyclic), without stalls :math:`D_e`.

Sets and data. Classes t of tensors with the same pattern at the samples, together :math:`z_t` bytes: where
they are live (from the start of the first op that writes them to the end of the last that accesses them;
always, if they are both initial and final), which samples are of an op that accesses them, in which epochs
they are accessed strictly inside, in which they get a new version: a write takes effect at the end of its
op, so it is in epoch e if that end is :math:`c_e` itself or strictly inside; so is a birth. Outer tiers x
with channels out of and into the fast memory of :math:`B^{out}_x, B^{in}_x` bytes/s, joint caps over some
of them, and capacities :math:`C_x`; the fast memory holds M bytes, of which op k uses :math:`w_k` as
workspace.

Variables, at each sample e where t is live and is not accessed by its op, for each x:
:math:`a^x_{te}`: bytes that are not in the fast memory, or have not passed the channel on their way
there, and whose next return is from x; at each sample where t is
live, :math:`h^x_{te}`: bytes of which x holds the current version. Per epoch :math:`i^x_{te}`,
:math:`o^x_{te}`: bytes that return from x, bytes copied out to x; :math:`\sigma_e \ge 0`: stall. All but
the last lie in :math:`[0, z_t]`; :math:`\sigma_e \le U`, the stall of a known plan.

Objective. Minimize :math:`\sum_e \sigma_e` subject to

1. :math:`\sum_t (z_t - \sum_x a^x_{te}) \le M - w` over the live classes, at each sample;
2. :math:`\sum_x a^x_{te} \le z_t`, and :math:`a^x_{te} \le h^x_{te}`;
3. :math:`\sum_t h^x_{te} \le C_x` where :math:`C_x` is finite;
4. :math:`i^x_{te} \ge a^x_{te}` if t is accessed strictly inside epoch e, else :math:`i^x_{te} \ge a^x_{te} -
   a^x_{t,e+1}`;
5. :math:`o^x_{te} \ge h^x_{t,e+1}` if t gets a new version in epoch e, else :math:`o^x_{te} \ge h^x_{t,e+1} -
   h^x_{te}`;
6. :math:`\sum_t i^x_{te} \le B^{in}_x (D_e + \sigma_e)`, the same for o, and for each joint cap the sum
   over its channels;
7. :math:`\sigma_e = 0` if :math:`c_e, c_{e+1}` are the start and the end of one op.

*It is a bound.* Take any feasible periodic plan whose stall is at most U and read the quantities off at the
sample instants (a byte passes a channel at one instant within its copy, because copies take constant rates;
its destination is allocated before, so what has passed is at most what is allocated). A byte that is absent
at :math:`c_e` and is not fetched in the epoch is absent at :math:`c_{e+1}` with the same next source; one
that is accessed inside must return inside (4). It can only return from a tier that holds its current
version until then (2). A copy of a version that is made in an epoch is copied out behind its write, hence
in the epoch; any other copy that is there at the end and was not there at the beginning was copied out
meanwhile (5). 1 and 3 are the machine's limits at those instants. What a channel or a group carries in an
epoch is at most its rate times the elapsed time, which is :math:`D_e` and the stalls in it (6), and nothing
stalls within an op (7). All else is dropped, so the least :math:`\sum \sigma` is at most the plan's stall.
Tensors that are left out (small ones, and inputs that reappear each period) only free memory and channels
where they are left out: they are counted at samples of ops that access them, where they must be present.

*The certificate.* Any multipliers of the rows prove a bound (`linear_program`): no trust in a solver is
needed.

Sources: the model is this project's. Samples only at coarse instants give a weak bound, and a model that
keeps what is resident for a whole epoch is no bound at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .linear_program import SECOND, LinearProgram, ProgramBuilder


@dataclass(frozen=True, kw_only=True)
class Outer:
    """An outer tier: rates in bytes/s (0: no channel), capacity in bytes or None."""

    out_rate: int
    in_rate: int
    capacity: int | None


@dataclass(frozen=True, kw_only=True)
class SampleData:
    """What is placed.

    Attributes
    ----------
    duration, workspace
        Per op, ns and bytes.
    size, accesses, writes, persistent, everywhere
        Per tensor: bytes; ops that access and that write it, ascending; whether it is both initial and final;
        whether it counts wherever it is live (else only at samples that access it).
    memory
        Bytes of the fast memory.
    outer, joint_out, joint_in
        The outer tiers, and caps (bytes/s) over all channels out of and into the fast memory, or None.
    stall
        U, ns.
    """

    duration: tuple[int, ...]
    workspace: tuple[int, ...]
    size: tuple[int, ...]
    accesses: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    persistent: tuple[bool, ...]
    everywhere: tuple[bool, ...]
    memory: int
    outer: tuple[Outer, ...]
    joint_out: int | None
    joint_in: int | None
    stall: int


def build(data: SampleData, samples: Sequence[int]) -> LinearProgram:
    """Return the program at some samples: 2k is the start of op k, 2k + 1 its end."""
    picked = sorted(set(samples))
    classes = _classes(data, picked)
    program = ProgramBuilder(
        bytes_unit=max(1, data.memory // 32),
        time_unit=max(1, max(data.stall, sum(data.duration)) // 64),
    )
    stall = _stalls(program, data, picked)
    held, absent = _contents(program, data, classes)
    _memory(program, data, picked, classes, absent)
    _sources(program, data, classes, held, absent)
    _capacities(program, data, len(picked), classes, held)
    inward = _returns(program, data, len(picked), classes, absent)
    outward = _copies(program, data, len(picked), classes, held)
    _channels(program, data, picked, stall, inward, outward)
    return program.done()


Columns = dict[tuple[int, int, int], int]
"""Column of a variable by class, sample and tier."""

Flows = dict[tuple[int, int], list[int]]
"""Columns of the flows by epoch and tier."""


def _stalls(program: ProgramBuilder, data: SampleData, picked: Sequence[int]) -> list[int]:
    """(7) No stall between the start and the end of one op."""
    followers = zip(picked, [*picked[1:], -1], strict=True)
    return [
        program.variable(0 if c % 2 == 0 and after == c + 1 else data.stall, program.time_unit, cost=1)
        for c, after in followers
    ]


def _contents(
    program: ProgramBuilder, data: SampleData, classes: Sequence[_Class]
) -> tuple[Columns, Columns]:
    """Return the variables h and a."""
    held: Columns = {}
    absent: Columns = {}
    for t, kind in enumerate(classes):
        for e in kind.live:
            for x in range(len(data.outer)):
                held[t, e, x] = program.variable(kind.nbytes, program.bytes_unit)
                if not kind.accessed[e]:
                    absent[t, e, x] = program.variable(kind.nbytes, program.bytes_unit)
    return held, absent


def _memory(
    program: ProgramBuilder,
    data: SampleData,
    picked: Sequence[int],
    classes: Sequence[_Class],
    absent: Columns,
) -> None:
    """(1) What is live and not absent fits."""
    small = [0] * len(data.duration)
    for t, some in enumerate(data.accesses):
        if not data.everywhere[t]:
            for k in some:
                small[k] += data.size[t]
    live = [0] * len(picked)
    away: list[list[tuple[int, int]]] = [[] for _ in picked]
    for kind in classes:
        for e in kind.live:
            live[e] += kind.nbytes
    for (_, e, _), a in absent.items():
        away[e].append((a, 1))
    for e, c in enumerate(picked):
        fixed = data.workspace[c // 2] + small[c // 2] + live[e]
        program.row(away[e], fixed - data.memory, program.bytes_unit)


def _sources(
    program: ProgramBuilder, data: SampleData, classes: Sequence[_Class], held: Columns, absent: Columns
) -> None:
    """(2) What is absent is absent once, and held where it returns from."""
    tiers = range(len(data.outer))
    for t, kind in enumerate(classes):
        for e in kind.live:
            if not kind.accessed[e]:
                if len(tiers) > 1:
                    program.row([(absent[t, e, x], -1) for x in tiers], -kind.nbytes, program.bytes_unit)
                for x in tiers:
                    program.row([(held[t, e, x], 1), (absent[t, e, x], -1)], 0, program.bytes_unit)


def _capacities(
    program: ProgramBuilder, data: SampleData, count: int, classes: Sequence[_Class], held: Columns
) -> None:
    """(3) An outer tier holds no more than its capacity."""
    for x, tier in enumerate(data.outer):
        if tier.capacity is not None:
            rows: list[list[tuple[int, int]]] = [[] for _ in range(count)]
            for t, kind in enumerate(classes):
                for e in kind.live:
                    rows[e].append((held[t, e, x], -1))
            for row in rows:
                program.row(row, -tier.capacity, program.bytes_unit)


def _returns(
    program: ProgramBuilder, data: SampleData, count: int, classes: Sequence[_Class], absent: Columns
) -> Flows:
    """(4) What is absent at a sample and not at the next one returns in between."""
    flows: Flows = {(e, x): [] for e in range(count) for x in range(len(data.outer))}
    for (t, e, x), a in absent.items():
        kind = classes[t]
        i = program.variable(kind.nbytes, program.bytes_unit)
        flows[e, x].append(i)
        later = None if kind.inside[e] else absent.get((t, (e + 1) % count, x))
        row = [(i, 1), (a, -1)]
        program.row(row if later is None else [*row, (later, 1)], 0, program.bytes_unit)
    return flows


def _copies(
    program: ProgramBuilder, data: SampleData, count: int, classes: Sequence[_Class], held: Columns
) -> Flows:
    """(5) What is held at a sample and was not at the one before was copied out in between."""
    flows: Flows = {(e, x): [] for e in range(count) for x in range(len(data.outer))}
    for (t, f, x), h in held.items():
        kind, e = classes[t], (f - 1) % count
        o = program.variable(kind.nbytes, program.bytes_unit)
        flows[e, x].append(o)
        before = None if kind.renewed[e] else held.get((t, e, x))
        row = [(o, 1), (h, -1)]
        program.row(row if before is None else [*row, (before, 1)], 0, program.bytes_unit)
    return flows


def _channels(
    program: ProgramBuilder,
    data: SampleData,
    picked: Sequence[int],
    stall: list[int],
    inward: Flows,
    outward: Flows,
) -> None:
    """(6) A channel, and a group of them, carries at most its rate times the time; rows in bytes * ns/s."""
    clock = [0]
    for d in data.duration:
        clock.append(clock[-1] + d)
    times = [clock[(c + 1) // 2] for c in picked]
    times.append(times[0] + clock[-1])
    tiers = tuple(range(len(data.outer)))
    for e in range(len(picked)):
        span = times[e + 1] - times[e]
        for flows, rates, joint in (
            (inward, [o.in_rate for o in data.outer], data.joint_in),
            (outward, [o.out_rate for o in data.outer], data.joint_out),
        ):
            caps: list[tuple[tuple[int, ...], int]] = [((x,), rates[x]) for x in tiers]
            if joint is not None:
                caps.append((tiers, joint))
            for some, rate in caps:
                columns = [v for x in some for v in flows[e, x]]
                if columns:
                    row = [(stall[e], rate), *((v, -SECOND) for v in columns)]
                    program.row(row, -rate * span, program.bytes_unit * SECOND)


@dataclass(frozen=True, eq=False)
class _Class:
    """Tensors alike at the samples: bytes; samples where live; per sample and epoch, what happens."""

    nbytes: int
    live: tuple[int, ...]
    accessed: tuple[bool, ...]
    inside: tuple[bool, ...]
    renewed: tuple[bool, ...]


def _classes(data: SampleData, picked: Sequence[int]) -> list[_Class]:
    """Merge tensors with the same pattern."""
    count = len(picked)
    position = np.asarray(picked, dtype=np.int64)
    ops = position // 2
    found: dict[tuple[bytes, bytes, bytes, bytes], int] = {}
    for t, nbytes in enumerate(data.size):
        if not data.everywhere[t] or not nbytes:
            continue
        some = np.asarray(data.accesses[t], dtype=np.int64)
        always = np.ones(count, dtype=bool)
        live = always if data.persistent[t] else (ops >= some[0]) & (ops <= some[-1])
        inside = np.zeros(count, dtype=bool)
        renewed = np.zeros(count, dtype=bool)
        for half in np.concatenate((2 * some, 2 * some + 1)).tolist():
            e = int(np.searchsorted(position, half, side="right")) - 1
            if e < 0 or position[e] != half:  # strictly inside epoch e (-1: the last one)
                inside[e] = True
        for k in data.writes[t]:
            renewed[int(np.searchsorted(position, 2 * k + 1, side="right")) - 1] = True
        key = (live.tobytes(), np.isin(ops, some).tobytes(), inside.tobytes(), renewed.tobytes())
        found[key] = found.get(key, 0) + nbytes
    classes = []
    for key, nbytes in found.items():
        where, *patterns = (np.frombuffer(x, dtype=bool) for x in key)
        flags = [tuple(bool(b) for b in x) for x in patterns]
        classes.append(_Class(nbytes, tuple(np.flatnonzero(where).tolist()), *flags))
    return classes
