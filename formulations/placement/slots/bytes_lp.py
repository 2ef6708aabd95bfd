r"""Tensor placement in bytes as linear programs over pieces of time: bounds, and plans in rounds.

Any tiers, channels between any of them, joint caps and capacities; single runs and periods; both accountings.
Data: see `states` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs in tier 0, lives l of
:math:`z_l` bytes, capacities :math:`C_x`, channels w and joint caps of :math:`B_w` bytes/ns).

Sets. *Pieces* p and *instants* e of `pieces`, one piece for each run and one for each stall, and under
``replace`` a moment between. A life has instants from its birth to the start of its last access (to the end
if it is kept). :math:`Q`: sets of outer tiers, those but 0.

Variables, in bytes. For each life, instant and :math:`Q \ne \emptyset`, :math:`h^Q_{le}`: bytes of it that
the tiers of Q hold and no other outer one; :math:`a^Q_{le}`: those of them that are absent from tier 0,
unless an op that accesses the life starts at the instant (then nothing is absent); both 0 at a birth. Per
piece that is no moment, *moves*: :math:`r^{Qw}_{lp}` bytes of a that pass channel w from a tier of Q to tier
0; :math:`c^{Qw}_{lp}` present bytes that pass w from tier 0 or a tier of Q to a tier x not in Q, and are of
:math:`Q \cup x` then; :math:`b^{Qw}_{lp}` absent ones that pass w from a tier of Q to an outer tier;
:math:`g^{Qx}_{lp}` and :math:`f^{Qx}_{lp}` present and absent ones that x gives up, if it has a capacity or
may not hold at time 0 what goes on. Bytes may pass several channels within a piece: moves there are from each
Q, also where :math:`h^Q` or :math:`a^Q` must be 0 at its beginning (at a birth; at time 0); r, b and f only
where something may be absent then. Only a program for plans may leave out the moves from such Q. :math:`0 \le
\sigma_p \le U`: lengths of the stalls in ns, with U any number.

Objective. Minimize :math:`\sum_p \sigma_p` subject to

1. :math:`a^Q_{le} \le h^Q_{le}`; :math:`\sum_Q h^Q_{le} \le z_l`; at time 0 :math:`h^Q = 0` where the life
   may not start in all of Q, and :math:`\sum_Q a^Q_{le} = z_l` where it may not start in tier 0;
2. :math:`h^Q_{l,p+1} \le h^Q_{lp} + (b, c, f, g)` into Q less those out of Q, and :math:`a^Q_{l,p+1} \ge
   a^Q_{lp} + (b, f)` into Q less those out of Q less :math:`\sum_w r^{Qw}_{lp}`; in a moment h stays, and a
   only grows, for lives that its op reads;
3. in tier 0, with :math:`R_p` and :math:`R'_p` the bytes needed and not absent at the two ends of piece p,
   :math:`I_p` those copied in, and N rounds: :math:`R_p + I_p/N \le C_0` and :math:`R_p/N + (1 - 1/N) R'_p +
   I_p/N \le C_0`; not in moments;
4. the same for each outer tier of finite capacity, with what it holds and what is copied to it; at time 0 of
   a period, in each tier, what there is and what goes on from the iteration before though nobody accesses it
   any more, which is released only then;
5. for each channel: bytes in a piece at most its rate times the length of the piece, and for each joint cap
   the sum over its channels. (In rounds a run is shorter by N latencies, and where channels join outer tiers
   what passes takes (N + D) / N of the time, with D the tiers beyond the second.)

In a period, instant P is instant 0 of the next iteration: a life that goes on has its variables there, and a
ring has those of instant 0 at instant P.

*Without limit on the rounds (N infinite) it is a bound.* Proof. Of a feasible plan with a stall above U,
the least of the two that is reported is no more than that stall. Take any other plan. A byte passes a channel
at one moment within its copy, for copies take constant rates; its destination is allocated before. A tier
*holds* a byte from its birth, from time 0 or from when it passes there, until it gives it up; outer tiers
that have no f and g hold it to the end of its life, those of a ring at all times. What is given up at the
time of an instant is gone then; only what an op reads is still held at the first instant of its moment.

Row 1: a byte that is needed is in one state at each instant, the outer tiers Q that hold it and whether it is
absent; a tier holds all of a copy's source. No tier without f and g is one where a life that goes on may not
be at time 0, and no copy is on its way to such a tier then.

Row 2: of each byte take in a piece what happens in turn, a passage before what is given up at the same time.
If it is not absent at the beginning of the piece let it count as present until the end of the piece, else as
absent until it passes to tier 0 for the first time and as present from then on. So if tier 0 gives it up, it
counts as absent from the end of the piece on. A passage to an outer tier that does not hold it is c or b, the
first one of an absent byte to tier 0 is r, and other passages change no state; giving up is g or f, and where
no outer tier is left the slack of h. Each of these begins in the state that the one before has left: so it is
a move of the program, whatever the states at the instants are, and r, b and f are of bytes absent at the
beginning of the piece. (Under ``coexist`` nothing that the op accesses is absent in the piece of its run.)
Adding up what leads into each Q and out of it gives the row for h; in that for a the bytes that are absent at
the end, but count as present until then, are on the greater side. Between the two instants of a moment no
byte passes and nothing else is given up than by tier 0 of what its op reads.

Rows 3 and 4: what a tier of finite capacity holds at an instant was allocated just before it, and unless it
is given up later still is just behind it; so are, at both ends of its run, the needs of op k, which hold what
is born at its end. At time 0 it may have started there. Row 5: what channels carry. Every iteration of a
period does the same, and a life goes on from one to the next by its own instants, a ring from the last one to
the first. Latencies are dropped; whole tensors, no preemption and the like only restrict. QED.

*With N rounds it is a plan.* A solution divides the bytes of a life into *paths*, each a sequence of states
(`paths`), also where the program lacks some moves, which are 0 then. Cut each piece into N equal rounds (N +
D, where copies follow each other) in which everything moves linearly: of each path that changes, an equal
part in each round; within a round copies run side by side, and what leaves a memory leaves it between rounds.
In round j, from 0, tier 0 holds :math:`R_p + (R'_p - R_p) j/N + I_p/N` at most, which is linear in j, so j =
0 and j = N - 1 suffice (3). As N grows the two programs, with all moves, become one: both approach the
optimum of placement in bytes without latencies.

Source: this suite: pieces of variable length, in which rates are the only limits, and rounds that make them
exact without finer pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from ....models.units import SECOND
from ...linear_program import LinearProgram, PyomoProgram, as_pyomo
from ...model import ModelSize, ticker
from ..paths import Move, State, moves
from ..states import StateData
from .columns import Columns, SlotColumns
from .pieces import Cut, coarse

ENGINE = "milp"
BYTES_PER_TERM = 600
"""Measured at the peak of building a program of 275,000 coefficients and solving it with HiGHS."""


@dataclass(frozen=True, kw_only=True)
class SlotProgram:
    """The program and what its columns mean: a and h by life, instant and Q; moves by life and piece."""

    program: LinearProgram
    cut: Cut
    absent: Columns
    held: Columns
    moved: dict[tuple[int, int], dict[Move, int]]
    stalls: tuple[int, ...]

    @cached_property
    def pyomo(self) -> PyomoProgram:
        """The program with the time of all ops; moves by life, piece, states and channel."""
        stalls = [p for p, piece in enumerate(self.cut.pieces) if not piece.run]
        moved = {
            (number, p, f"{_label(move.before)}_to_{_label(move.after)}", f"by{move.way}"): column
            for (number, p), some in self.moved.items()
            for move, column in some.items()
        }
        columns: dict[str, Mapping[Any, int]] = {"stall": dict(zip(stalls, self.stalls, strict=True))}
        columns |= {"held": self.held, "absent": self.absent, "moved": moved}
        return as_pyomo(self.program, columns, self.cut.data.ideal)

    @property
    def model(self) -> Any:
        """The Pyomo model."""
        return self.pyomo.model

    def carried(self, values: Sequence[float], number: int, p: int) -> dict[Move, float]:
        """Return the bytes of a life that each move takes in a piece."""
        return {move: values[column] for move, column in self.moved.get((number, p), {}).items()}

    def amounts(self, values: Sequence[float], number: int, e: int) -> dict[State, float]:
        """Return the bytes of a life that are in each state at an instant."""
        life = self.cut.data.lives[number]
        amounts, rest = {}, float(life.nbytes)
        e = e % len(self.cut.pieces) if life.ring else e
        for q in range(2, 2 ** len(self.cut.data.capacity), 2):
            if (number, e, q) in self.held:
                held = max(0.0, values[self.held[number, e, q]])
                column = self.absent.get((number, e, q))
                away = 0.0 if column is None else min(held, max(0.0, values[column]))
                amounts[q, True], amounts[q, False] = away, held - away
                rest -= held
        amounts[0, False] = max(0.0, rest)
        return amounts


def _label(state: State) -> str:
    """Return the tiers that hold the bytes of a state."""
    q, away = state
    return "_".join(str(x) for x in range(q.bit_length() + 1) if (q >> x & 1 if x else not away))


def size(data: StateData) -> ModelSize:
    """Return about the counts of the program without building it: they grow with the lengths of the lives."""
    cut = coarse(data)
    instants = sum(len(cut.instants(life)) for life in data.lives)
    sets = 2 ** (len(data.capacity) - 1) - 1
    count = len(moves(data, tuple(c is not None for c in data.capacity)))
    return ModelSize(
        variables=instants * (2 * sets + count) + data.n,
        constraints=3 * sets * instants,
        terms=instants * (8 * sets + 4 * count),
    )


def build(
    data: StateData,
    *,
    stall: int,
    rounds: int | None = None,
    reserve: int = 0,
    margin: int = 0,
    onward: bool = True,
    expired: Callable[[], bool] = lambda: False,
) -> SlotProgram:
    """Return the program.

    Parameters
    ----------
    data
        From `states`.
    stall
        U, ns.
    rounds
        N; None: without limit, the bound.
    reserve
        Bytes of each memory left free where possible, for rounding.
    margin
        ns at the end of each run in which nothing is copied, for rounding (with rounds only).
    onward
        Whether moves begin where the bytes cannot be at the beginning of the piece, too: without them fewer
        plans, and a smaller program (with rounds only: the bound has them).

    Examples
    --------
    >>> from lowtide.formulations.placement.states import state_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=a100-40g-pcie3&periodic=1")
    >>> len(build(state_data(problem), stall=1).stalls)
    4
    """
    columns = SlotColumns(coarse(data), stall, ticker(expired))
    columns.contents()
    columns.flows(onward or rounds is None)
    _balances(columns)
    _presence(columns)
    _memory(columns, rounds, reserve)
    _capacities(columns, rounds, reserve)
    _start(columns, reserve)
    _channels(columns, rounds, margin)
    return SlotProgram(
        program=columns.builder.done(),
        cut=columns.cut,
        absent=columns.absent,
        held=columns.held,
        moved=columns.moved,
        stalls=tuple(columns.stalls.values()),
    )


def _balances(columns: SlotColumns) -> None:
    """(2) From one instant to the next bytes go from state to state by the moves."""
    builder, unit = columns.builder, columns.builder.bytes_unit
    for away in (True, False):
        table = columns.absent if away else columns.held
        for number, life in enumerate(columns.data.lives):
            some = list(columns.instants(life))
            for (_, p), (_, e) in pairwise(some):
                if columns.cut.pieces[p % columns.span].moment:
                    continue
                changes = columns.moved.get((number, p), {})
                for q in columns.sets:
                    before, later = table.get((number, p, q)), table.get((number, e, q))
                    row = [
                        (column, (move.before[0] == q) - (move.after[0] == q and move.after != (q, False)))
                        for move, column in changes.items()
                        if move.before[1]
                    ]
                    if not away:
                        row = [
                            (column, (move.after[0] == q) - (move.before[0] == q))
                            for move, column in changes.items()
                        ]
                    row = [(column, sign) for column, sign in row if sign]
                    ends = [(before, -1), (later, 1)] if away else [(later, -1), (before, 1)]
                    row += [(column, sign) for column, sign in ends if column is not None]
                    if any(value < 0 for _, value in row):
                        builder.row(row, 0, unit)


def _presence(columns: SlotColumns) -> None:
    """(1) What is absent is held; nothing is in two states; where lives may start."""
    data, builder = columns.data, columns.builder
    unit = builder.bytes_unit
    rows = dict.fromkeys((a, columns.held[key]) for key, a in columns.absent.items())
    for a, h in rows:
        builder.row([(h, 1), (a, -1)], 0, unit)
    for number, life in enumerate(data.lives):
        for e, at in columns.instants(life):
            held = [columns.held[number, at, q] for q in columns.sets if (number, at, q) in columns.held]
            if len(held) > 1:
                builder.row([(h, -1) for h in held], -life.nbytes, unit)
            around = e % columns.span == 0 and (life.lasting or life.born < 0)
            if around and not life.starts[0]:
                some = [columns.absent.get((number, at, q)) for q in columns.sets]
                builder.row([(a, 1) for a in some if a is not None], life.nbytes, unit)


def _memory(columns: SlotColumns, rounds: int | None, reserve: int) -> None:
    """(3) What is needed and not absent fits in tier 0, with what is on its way."""
    data, builder = columns.data, columns.builder
    capacity = data.capacity[0]
    if capacity is None:
        return
    reads = [columns.read(life) for life in data.lives]
    for p, piece in enumerate(columns.cut.pieces):
        if piece.moment:
            continue
        counted = [
            (number, e)
            for number, e in columns.cut.inside[p]
            if data.replace or not piece.run or e not in reads[number]
        ]
        ends = [_absent(columns, counted, later) for later in (0, 1)]
        base = data.need[piece.op] if piece.run else 0
        base += sum(data.lives[number].nbytes for number, _ in counted)
        away = [sum(data.lives[number].nbytes for number in dict(end)) for end in ends]
        short = base - capacity + min(reserve, max(0, capacity - base + min(away)))
        if short > 0:
            arriving = _arriving(columns, counted, 0)
            columns_of = [[column for _, column in end] for end in ends]
            for terms, weight in _ends_of_rounds(columns_of[0], columns_of[1], arriving, rounds):
                builder.row(terms, weight * short, weight * builder.bytes_unit)


def _absent(columns: SlotColumns, lives: Sequence[tuple[int, int]], later: int) -> list[tuple[int, int]]:
    """Return lives and columns of what is absent at an end of a piece."""
    absent = []
    for number, e in lives:
        at = (e + later) % columns.span if columns.data.lives[number].ring else e + later
        some = [(number, at, q) for q in columns.sets]
        absent += [(number, columns.absent[key]) for key in some if key in columns.absent]
    return absent


def _arriving(columns: SlotColumns, lives: Sequence[tuple[int, int]], x: int) -> list[int]:
    """Return the columns of what is copied to a tier in a piece."""
    ways = columns.data.ways
    return [
        column
        for number, p in lives
        for move, column in columns.moved.get((number, p), {}).items()
        if move.way is not None and ways[move.way].dst == x
    ]


def _capacities(columns: SlotColumns, rounds: int | None, reserve: int) -> None:
    """(4) An outer tier holds what it holds, with what is on its way."""
    data, builder = columns.data, columns.builder
    for x, capacity in enumerate(data.capacity):
        if not x or capacity is None:
            continue
        room = max(0, capacity - reserve)
        for piece, lives in zip(columns.cut.pieces, columns.cut.inside, strict=True):
            if piece.moment:
                continue
            ends = []
            for later in (0, 1):
                at = [
                    (number, (e + later) % columns.span if data.lives[number].ring else e + later)
                    for number, e in lives
                ]
                keys = [(number, e, q) for number, e in at for q in columns.sets if q >> x & 1]
                ends.append([columns.held[key] for key in keys if key in columns.held])
            arriving = _arriving(columns, lives, x)
            for terms, weight in _ends_of_rounds(ends[0], ends[1], arriving, rounds, -1):
                if terms:
                    builder.row(terms, -weight * room, weight * builder.bytes_unit)


def _start(columns: SlotColumns, reserve: int) -> None:
    """(4) At time 0 of a period all fits, also what is released then."""
    data, builder = columns.data, columns.builder
    lives = [*columns.cut.inside[0], *((number, columns.span) for number in data.unread)]
    for x, capacity in enumerate(data.capacity if data.unread else ()):
        if capacity is None:
            continue
        if x:
            keys = [(number, e, q) for number, e in lives for q in columns.sets if q >> x & 1]
            row = [(columns.held[key], -1) for key in keys if key in columns.held]
            low = -max(0, capacity - reserve)
        else:
            away = _absent(columns, lives, 0)
            row, low = [(column, 1) for _, column in away], -capacity
            low += sum(data.lives[number].nbytes for number, _ in lives)
            low += min(reserve, max(0, sum(data.lives[number].nbytes for number in dict(away)) - low))
        builder.row(row, low, builder.bytes_unit)


def _ends_of_rounds(
    first: Sequence[int], last: Sequence[int], arriving: Sequence[int], rounds: int | None, sign: int = 1
) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Return the terms of the first and the last round, and what both are multiplied by.

    Parameters
    ----------
    first, last
        Variables at the two ends of a piece; `sign` is that of their weight.
    arriving
        What is copied in; it counts against the room.
    """
    if rounds is None:
        yield [(column, sign) for column in first], 1
        yield [(column, sign) for column in last], 1
        return
    flow = [(column, -1) for column in arriving]
    yield [*((column, sign * rounds) for column in first), *flow], rounds
    if rounds > 1:
        weights = dict.fromkeys(first, sign)
        for column in last:
            weights[column] = weights.get(column, 0) + sign * (rounds - 1)
        yield [*weights.items(), *flow], rounds


def _channels(columns: SlotColumns, rounds: int | None, margin: int) -> None:
    """(5) Channels and joint caps carry at most their rate times the length of the piece."""
    data, builder = columns.data, columns.builder
    shared: list[tuple[tuple[int, ...], int, int]]
    shared = [((w,), way.rate, way.latency) for w, way in enumerate(data.ways)]
    shared += [(ways, rate, 0) for ways, rate in data.caps]
    share = (rounds, rounds + len(data.capacity) - 2) if rounds is not None and data.linked else (1, 1)
    for p, (piece, lives) in enumerate(zip(columns.cut.pieces, columns.cut.inside, strict=True)):
        by_channel: dict[int, list[int]] = {}
        for key in lives:
            for move, column in columns.moved.get(key, {}).items():
                if move.way is not None:
                    by_channel.setdefault(move.way, []).append(column)
        for ways, rate, latency in shared:
            moved = [column for w in ways for column in by_channel.get(w, ())]
            if moved:
                row = [(column, -SECOND * share[1]) for column in moved]
                length = piece.length or 0
                if not piece.run:
                    row.append((columns.stalls[p], rate * share[0]))
                elif rounds is not None:
                    length = max(0, length - rounds * latency - margin)
                builder.row(row, -rate * share[0] * length, builder.bytes_unit * SECOND * share[1])
