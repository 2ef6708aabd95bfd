r"""Good prices for the bound on a placement's time: a linear program over the states at sample instants.

Sample instants, epochs, bytes and their states are those of `sample_data` and `prices`.

Sets and data. Classes t of tensors with the same pattern at the samples, together :math:`z_t` bytes: where
they are live, which samples are of an op that accesses them, in which epochs they are accessed strictly
inside, in which they get a new version: a write takes effect at the end of its op, so it is in epoch e
if that end is :math:`c_e` itself or strictly inside; so is a birth.

Variables, at each sample e where t is live and is not accessed by its op, for each outer tier x:
:math:`a^x_{te}`: bytes that are not in the fast memory and whose next return is from x; at each sample where
t is live, :math:`h^x_{te}`: bytes of which x holds the current version. Per epoch :math:`i^x_{te}`,
:math:`o^x_{te}`: bytes that return from x, bytes copied out to x; :math:`\sigma_e \ge 0`: stall. Per op k
of a sample that has several modes, and mode m, :math:`y_{km} \in [0, 1]`: how much of it runs so, which takes
:math:`\delta_{km}` ns and :math:`\omega_{km}` bytes more than the least of its modes. All bytes lie in
:math:`[0, z_t]`; at time 0 of a single run :math:`h^x` of initial tensors is 0 where they may not start, and
:math:`\sum_x a^x = z` if they may not start in the fast memory.

Objective. Minimize :math:`\sum_e \sigma_e + \sum_{k,m} \delta_{km} y_{km}` subject to

1. :math:`\sum_t (z_t - \sum_x a^x_{te}) \le M - w_e` over the live classes, at each sample, with
   :math:`\sum_m \omega_{km} y_{km}` for op k of the sample on the left;
2. :math:`\sum_x a^x_{te} \le z_t`, and :math:`a^x_{te} \le h^x_{te}`;
3. :math:`\sum_t h^x_{te} \le C_x` where :math:`C_x` is finite;
4. :math:`i^x_{te} \ge a^x_{te}` if t is accessed strictly inside epoch e, else :math:`i^x_{te} \ge a^x_{te} -
   a^x_{t,e+1}`;
5. :math:`o^x_{te} \ge h^x_{t,e+1}` if t gets a new version in epoch e, else :math:`o^x_{te} \ge h^x_{t,e+1} -
   h^x_{te}`;
6. :math:`\sum_t i^x_{te} \le B^{in}_x (D_e + \sigma_e)`, the same for o, and for each joint cap the sum
   over its channels; :math:`D_e` has :math:`\sum_m \delta_{km} y_{km}` for the ops k in the epoch;
7. :math:`\sigma_e = 0` if :math:`c_e, c_{e+1}` are the start and the end of one op;
8. :math:`\sum_m y_{km} \ge 1`.

The multipliers of rows 1, 3 and 6 are prices; `prices` makes a bound of them that needs no trust
in a solver, and at least as high as the program's optimum: what a byte pays there is the dual of 2, 4 and 5
at its best. Samples only at coarse instants give a weak bound; good ones are the ends of
`windows`. A model that keeps what is resident for a whole epoch is no bound at all.

Source: the model is this project's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ....models.units import SECOND
from ...linear_program import LinearProgram, ProgramBuilder, PyomoProgram, as_pyomo
from .prices import MemoryPrices, priced
from .samples import SampleData

ENGINE = "milp"
BYTES_PER_TERM = 600
"""Bytes of memory for each coefficient of the model while it is built and solved, about."""


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """The program, and where the rows of the prices are.

    Attributes
    ----------
    samples
        Instants.
    program
        The linear program.
    memory
        Row per sample.
    room, carried
        Row by outer tier and sample; by cap and epoch.
    columns
        Of sigma by epoch; h, a, i and o by class, sample (of o that at its end) and tier; y by op and mode.
    ideal
        ns of all ops, which the costs leave out.
    """

    samples: tuple[int, ...]
    program: LinearProgram
    memory: list[int]
    room: dict[tuple[int, int], int]
    carried: dict[tuple[int, int], int]
    columns: Mapping[str, Mapping[Any, int]]
    ideal: int

    @cached_property
    def pyomo(self) -> PyomoProgram:
        """The program with the time of all ops."""
        return as_pyomo(self.program, self.columns, self.ideal)

    @property
    def model(self) -> Any:
        """The Pyomo model."""
        return self.pyomo.model


def build(data: SampleData, samples: Sequence[int]) -> Sampled:
    """Return the program at some samples; those of a single run get -1, its beginning."""
    picked = sorted(set(samples) | (set() if data.periodic else {-1}))
    classes = _classes(data, picked)
    program = ProgramBuilder(bytes_unit=max(1, data.memory // 32), time_unit=max(1, data.clock[-1] // 64))
    epochs = data.epochs(picked)
    stall = _stalls(program, data, epochs)
    held, absent = _contents(program, data, classes)
    modes = _modes(program, data, picked)
    memory = _memory(program, data, picked, classes, absent, modes)
    _sources(program, data, classes, held, absent)
    room = _capacities(program, data, len(picked), classes, held)
    returned, copied = Columns(), Columns()
    inward = _returns(program, data, len(picked), classes, absent, returned)
    outward = _copies(program, data, len(picked), classes, held, copied)
    carried = _channels(program, data, picked, stall, inward, outward, modes)
    return Sampled(
        samples=tuple(picked),
        program=program.done(),
        memory=memory,
        room=room,
        carried=carried,
        columns={
            "stall": dict(enumerate(stall)),
            "held": held,
            "absent": absent,
            "returned": returned,
            "copied": copied,
            "mode": {(k, m): y for k, some in modes.items() for m, (y, _, _) in enumerate(some)},
        },
        ideal=data.clock[-1],
    )


def sampled_prices(data: SampleData, sampled: Sampled, multipliers: Sequence[float]) -> MemoryPrices:
    """Return the prices that multipliers of the program's rows stand for."""
    count = len(sampled.samples)
    return priced(
        data,
        sampled.samples,
        [multipliers[r] for r in sampled.memory],
        [
            [multipliers[sampled.room[x, e]] if (x, e) in sampled.room else 0.0 for e in range(count)]
            for x in range(len(data.outer))
        ],
        [
            [
                multipliers[sampled.carried[g, e]] * SECOND if (g, e) in sampled.carried else 0.0
                for e in range(len(data.epochs(sampled.samples)))
            ]
            for g in range(len(data.caps))
        ],
    )


Columns = dict[tuple[int, int, int], int]
"""Column of a variable by class, sample and tier."""

Flows = dict[tuple[int, int], list[int]]
"""Columns of the flows by epoch and tier."""

Modes = dict[int, list[tuple[int, int, int]]]
"""By op with several modes, of each: the column, ns and bytes above the least."""


def _stalls(program: ProgramBuilder, data: SampleData, epochs: Sequence[tuple[int, bool]]) -> list[int]:
    """(7) No stall between the start and the end of one op."""
    most = 16 * data.clock[-1]
    return [program.variable(most if waits else 0, program.time_unit, cost=1) for _, waits in epochs]


def _contents(
    program: ProgramBuilder, data: SampleData, classes: Sequence[_Class]
) -> tuple[Columns, Columns]:
    """Return the variables h and a."""
    held: Columns = {}
    absent: Columns = {}
    for t, kind in enumerate(classes):
        for e in kind.live:
            for x in range(len(data.outer)):
                banned = not data.periodic and e == 0 and x + 1 not in kind.start
                held[t, e, x] = program.variable(0 if banned else kind.nbytes, program.bytes_unit)
                if not kind.accessed[e]:
                    absent[t, e, x] = program.variable(kind.nbytes, program.bytes_unit)
    return held, absent


def _modes(program: ProgramBuilder, data: SampleData, picked: Sequence[int]) -> Modes:
    """(8) Return the variables y of the ops at samples that have several modes; each runs in some of them."""
    modes: Modes = {}
    for k in sorted({c // 2 for c in picked if c >= 0}):
        if (0, 0) not in data.modes[k]:
            columns = [program.variable(1, 1, cost=ns) for ns, _ in data.modes[k]]
            modes[k] = [(y, *mode) for y, mode in zip(columns, data.modes[k], strict=True)]
            program.row([(y, 1) for y in columns], 1, 1)
    return modes


def _memory(
    program: ProgramBuilder,
    data: SampleData,
    picked: Sequence[int],
    classes: Sequence[_Class],
    absent: Columns,
    modes: Modes,
) -> list[int]:
    """(1) What is live and not absent fits."""
    live = [0] * len(picked)
    away: list[list[tuple[int, int]]] = [[] for _ in picked]
    for kind in classes:
        for e in kind.live:
            live[e] += kind.nbytes
    for (_, e, _), a in absent.items():
        away[e].append((a, 1))
    rows = []
    for e, c in enumerate(picked):
        fixed = (data.fixed[c // 2] if c >= 0 else 0) + live[e]
        more = [(y, -nbytes) for y, _, nbytes in modes.get(c // 2, ()) if nbytes]
        rows.append(len(program.low))
        program.row(away[e] + more, fixed - data.memory, program.bytes_unit)
    return rows


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
                if not data.periodic and e == 0 and 0 not in kind.start:
                    program.row([(absent[t, e, x], 1) for x in tiers], kind.nbytes, program.bytes_unit)


def _capacities(
    program: ProgramBuilder, data: SampleData, count: int, classes: Sequence[_Class], held: Columns
) -> dict[tuple[int, int], int]:
    """(3) An outer tier holds no more than its capacity."""
    numbers = {}
    for x, tier in enumerate(data.outer):
        if tier.capacity is not None:
            rows: list[list[tuple[int, int]]] = [[] for _ in range(count)]
            for t, kind in enumerate(classes):
                for e in kind.live:
                    rows[e].append((held[t, e, x], -1))
            for e, row in enumerate(rows):
                numbers[x, e] = len(program.low)
                program.row(row, -tier.capacity, program.bytes_unit)
    return numbers


def _returns(
    program: ProgramBuilder,
    data: SampleData,
    count: int,
    classes: Sequence[_Class],
    absent: Columns,
    returned: Columns,
) -> Flows:
    """(4) What is absent at a sample and not at the next one returns in between."""
    flows: Flows = {(e, x): [] for e in range(count) for x in range(len(data.outer))}
    for (t, e, x), a in absent.items():
        if not data.periodic and e == count - 1:
            continue
        kind = classes[t]
        returned[t, e, x] = i = program.variable(kind.nbytes, program.bytes_unit)
        flows[e, x].append(i)
        later = None if kind.inside[e] else absent.get((t, (e + 1) % count, x))
        row = [(i, 1), (a, -1)]
        program.row(row if later is None else [*row, (later, 1)], 0, program.bytes_unit)
    return flows


def _copies(
    program: ProgramBuilder,
    data: SampleData,
    count: int,
    classes: Sequence[_Class],
    held: Columns,
    copied: Columns,
) -> Flows:
    """(5) What is held at a sample and was not at the one before was copied out in between."""
    flows: Flows = {(e, x): [] for e in range(count) for x in range(len(data.outer))}
    for (t, f, x), h in held.items():
        if not data.periodic and f == 0:
            continue
        kind, e = classes[t], (f - 1) % count
        copied[t, f, x] = o = program.variable(kind.nbytes, program.bytes_unit)
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
    modes: Modes,
) -> dict[tuple[int, int], int]:
    """(6) A channel, and a group of them, carries at most its rate times the time; rows in bytes * ns/s."""
    numbers = {}
    longer: dict[int, list[tuple[int, int]]] = {}
    for k, some in modes.items():
        e = (bisect_right(picked, 2 * k) - 1) % len(picked)
        longer[e] = longer.get(e, []) + [(y, ns) for y, ns, _ in some if ns]
    for e, (span, _) in enumerate(data.epochs(picked)):
        for g, cap in enumerate(data.caps):
            flows = outward if cap.outward else inward
            columns = [v for x in cap.tiers for v in flows[e, x]]
            if columns:
                numbers[g, e] = len(program.low)
                row = [(stall[e], cap.rate), *((v, -SECOND) for v in columns)]
                row += [(y, cap.rate * ns) for y, ns in longer.get(e, ())]
                program.row(row, -cap.rate * span, program.bytes_unit * SECOND)
    return numbers


@dataclass(frozen=True, eq=False)
class _Class:
    """Tensors alike at the samples: bytes; samples where live; per sample and epoch, what happens; start."""

    nbytes: int
    live: tuple[int, ...]
    accessed: tuple[bool, ...]
    inside: tuple[bool, ...]
    renewed: tuple[bool, ...]
    start: tuple[int, ...]


def _classes(data: SampleData, picked: Sequence[int]) -> list[_Class]:
    """Merge tensors with the same pattern."""
    count = len(picked)
    position = np.asarray(picked, dtype=np.int64)
    ops = position // 2
    sizes: dict[tuple[bytes, bytes, bytes, bytes, tuple[int, ...]], int] = {}
    for t in data.counted:
        accesses = np.asarray(data.accesses[t], dtype=np.int64)
        first, last = data.live(t)
        live = (position >= first) & (position <= last)
        inside = np.zeros(count, dtype=bool)
        renewed = np.zeros(count, dtype=bool)
        halves = np.concatenate((2 * accesses, 2 * accesses + 1))
        before = np.searchsorted(position, halves, side="right") - 1  # -1: in the last epoch
        inside[before[(before < 0) | (position[before] != halves)]] = True
        ends = 2 * np.asarray(data.writes[t], dtype=np.int64) + 1
        renewed[np.searchsorted(position, ends, side="right") - 1] = True
        key = (
            live.tobytes(),
            np.isin(ops, accesses).tobytes(),
            inside.tobytes(),
            renewed.tobytes(),
            data.start[t],
        )
        sizes[key] = sizes.get(key, 0) + data.size[t]
    classes = []
    for (where, *patterns, start), nbytes in sizes.items():
        accessed, inner, new = (tuple(np.frombuffer(x, dtype=bool).tolist()) for x in patterns)
        places = tuple(np.flatnonzero(np.frombuffer(where, dtype=bool)).tolist())
        classes.append(
            _Class(nbytes=nbytes, live=places, accessed=accessed, inside=inner, renewed=new, start=start)
        )
    return classes
