r"""Tensor placement in a single run as linear programs over pieces of time: bounds, and plans in rounds.

Data: see `data` (ops k, durations :math:`d_k`, bytes :math:`W_k` that an op needs, lives l of
:math:`z_l` bytes, outer tiers x with rates and capacities, joint caps, M bytes of fast memory).

Sets. *Instants* :math:`e = 0..2n`: 0 is time 0, 2k + 1 the start of op k, 2k + 2 its end. *Pieces*
:math:`p = 0..2n-1` lie between instants p and p + 1: the stall before op k (p = 2k), of any length, and
the run of op k (p = 2k + 1), of length :math:`d_k`. A life has instants from its birth (the end of its
writer) to the end of the op before its last access (to 2n if it is kept).

Variables, in bytes. For each life, instant and outer tier :math:`h^x_{le}`: bytes of it that x holds;
:math:`a^x_{le}`: bytes that are absent from the fast memory and return from x, unless the instant is the
start of an op that accesses the life (then nothing is absent); both 0 at a birth. Per piece, :math:`i^x_{lp}`
and :math:`o^x_{lp}`: bytes copied in and out. :math:`0 \le \sigma_p \le U`: lengths of the stalls in ns, with
U any number.

Objective. Minimize :math:`\sum_p \sigma_p` subject to

1. :math:`a^x_{le} \le h^x_{le}`; :math:`\sum_x a^x_{le} \le z_l`, and :math:`= z_l` at time 0 where the life
   may not start in the fast memory; :math:`h^x_{l0} = 0` where it may not start in x;
2. :math:`i^x_{lp} \ge a^x_{lp} - a^x_{l,p+1}` (0 for what does not exist) and
   :math:`o^x_{lp} \ge h^x_{l,p+1} - h^x_{lp}`;
3. in the fast memory, with :math:`R_p` and :math:`R'_p` the bytes needed and not absent at the two ends of
   piece p, :math:`I_p` those copied in, and N rounds: :math:`R_p + I_p/N \le M` and
   :math:`R_p/N + (1 - 1/N) R'_p + I_p/N \le M`;
4. the same for each outer tier of finite capacity, with what it holds and what is copied out to it;
5. for each channel: bytes in a piece at most its rate times the length of the piece, and for each joint cap
   the sum over its channels. (In rounds a run is shorter by N latencies.)
6. With two outer tiers and rounds: :math:`h^x_{l,p+1} + a^y_{lp} \le z_l`,
   :math:`h^x_{le} + a^y_{le} \le z_l` for :math:`x \ne y`.

*Without limit on the rounds (N infinite) it is a bound.* Read the quantities off any feasible plan whose
stall is at most U, at the instants; let a byte be absent until the moment, within its copy, at which it
passes the channel (copies take constant rates), and held by x from the moment at which it passes outwards.
Both are moments at which its destination is allocated, so 3 and 4 (at the two ends of each piece: the
needs of op k count at both ends of its run, what it frees does not count behind it) are the limits of the
machine; 1 holds because an absent byte of a life that is still needed returns from some tier that holds it
until then; 2 and 5 are what channels carry. If the plan's stall is more than U, it is at least U: the least
of the two is reported. Latencies are dropped. Whole tensors, no preemption and the like only restrict.

*With N rounds it is a plan.* Put the bytes of a life in a row; tier 0 holds the first :math:`h^0`, tier 1
the last :math:`h^1`, the fast memory what lies between the first :math:`a^0` and the last :math:`a^1`. Cut
each piece into N equal rounds in which everything moves linearly; within a round copies run side by side,
and what leaves a memory leaves it between rounds. In round j, from 0, the fast memory holds
:math:`R_p + (R'_p - R_p) j/N + I_p/N`, which is linear in j, so j = 0 and j = N - 1 suffice (3). What is
copied out is present and stays for the round, because :math:`a^0 \le h^0` and 6; what is copied in is held
by 1. As N grows the two programs become one (but for 6): both approach the optimum of placement in bytes
without latencies.

Source: this suite: pieces of variable length, in which rates are the only limits, and rounds that make them
exact without finer pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..linear_program import SECOND, LinearProgram, ProgramBuilder
from ..model import ModelSize, Tick, ticker
from .data import Lifetime, PlacementData

Columns = dict[tuple[int, int, int], int]
"""Column of a variable by life, instant or piece, and tier."""


@dataclass(frozen=True, kw_only=True)
class SlotProgram:
    """The program and what its columns mean: a, h, i, o by life, instant or piece, and tier."""

    program: LinearProgram
    data: PlacementData
    absent: Columns
    held: Columns
    stalls: tuple[int, ...]


def instants(data: PlacementData, life: Lifetime) -> range:
    """Return the instants of a life."""
    return range(2 * life.born + 2, (2 * data.n if life.kept else 2 * life.accesses[-1]) + 1)


def size(data: PlacementData) -> ModelSize:
    """Return about the counts of the program without building it: they grow with the lengths of the lives."""
    states = sum(len(instants(data, life)) for life in data.lives) * len(data.outer)
    return ModelSize(variables=4 * states + data.n, constraints=3 * states, terms=16 * states)


def build(
    data: PlacementData,
    *,
    stall: int,
    rounds: int | None = None,
    reserve: int = 0,
    margin: int = 0,
    expired: Callable[[], bool] = lambda: False,
) -> SlotProgram:
    """Return the program.

    Parameters
    ----------
    data
        From `data`.
    stall
        U, ns.
    rounds
        N; None: without limit, the bound.
    reserve
        Bytes of each memory left free where possible, for rounding.
    margin
        ns at the end of each run in which nothing is copied, for rounding (with rounds only).
    expired
        Asked at each variable and row whether to stop.

    Raises
    ------
    BuildTimeout
        If it expires before the program stands.

    Examples
    --------
    >>> from lowtide.formulations.placement.data import placement_data
    >>> from lowtide.instances import load_problem
    >>> problem = load_problem("placement", "gen:chain?n=3&seed=1&machine=a100-40g-pcie3")
    >>> len(build(placement_data(problem), stall=1).stalls)
    3
    """
    columns = _Columns(data, stall, ticker(expired))
    columns.contents()
    columns.flows()
    _presence(columns)
    _memory(columns, rounds, reserve)
    _capacities(columns, rounds, reserve)
    _channels(columns, rounds, margin)
    if rounds is not None:
        _rows_of_bytes(columns)
    return SlotProgram(
        program=columns.builder.done(),
        data=data,
        absent=columns.absent,
        held=columns.held,
        stalls=tuple(columns.stalls),
    )


class _Columns:
    """The variables."""

    def __init__(self, data: PlacementData, stall: int, tick: Tick) -> None:
        self.data = data
        self.builder = ProgramBuilder(
            bytes_unit=max(1, data.memory // 32), time_unit=max(1, max(stall, data.ideal) // 64), tick=tick
        )
        self.stalls = [self.builder.variable(stall, self.builder.time_unit, cost=1) for _ in range(data.n)]
        self.absent: Columns = {}
        self.held: Columns = {}
        self.inward: Columns = {}
        self.outward: Columns = {}
        self.pieces: list[list[int]] = [[] for _ in range(2 * data.n)]
        """Per piece, the lives that have an instant at its beginning."""

    def contents(self) -> None:
        """Variables a and h."""
        tiers = range(len(self.data.outer))
        for number, life in enumerate(self.data.lives):
            found = instants(self.data, life)
            starts = {2 * k + 1 for k in life.accesses}
            for e in found:
                if e < 2 * self.data.n:
                    self.pieces[e].append(number)
                for x in tiers:
                    if e > found.start or (life.born < 0 and life.outer[x]):
                        self.held[number, e, x] = self._bytes(life.nbytes)
                        if e not in starts:
                            self.absent[number, e, x] = self._bytes(life.nbytes)

    def flows(self) -> None:
        """Variables i and o, and what they carry (2)."""
        unit = self.builder.bytes_unit
        for (number, e, x), a in self.absent.items():
            life = self.data.lives[number]
            if e < 2 * self.data.n:
                rate = self.data.outer[x].into.rate
                i = self.inward[number, e, x] = self._bytes(life.nbytes if rate else 0)
                later = self.absent.get((number, e + 1, x))
                row = [(i, 1), (a, -1)]
                self.builder.row(row if later is None else [*row, (later, 1)], 0, unit)
        for (number, e, x), h in self.held.items():
            life = self.data.lives[number]
            if e > instants(self.data, life).start:
                rate = self.data.outer[x].out.rate
                o = self.outward[number, e - 1, x] = self._bytes(life.nbytes if rate else 0)
                before = self.held.get((number, e - 1, x))
                row = [(o, 1), (h, -1)]
                self.builder.row(row if before is None else [*row, (before, 1)], 0, unit)

    def _bytes(self, most: int) -> int:
        return self.builder.variable(most, self.builder.bytes_unit)


def _presence(columns: _Columns) -> None:
    """(1) What is absent is absent once, and held where it returns from."""
    data, builder = columns.data, columns.builder
    unit = builder.bytes_unit
    tiers = range(len(data.outer))
    for (number, e, x), a in columns.absent.items():
        builder.row([(columns.held[number, e, x], 1), (a, -1)], 0, unit)
    for number, life in enumerate(data.lives):
        for e in instants(data, life):
            some = [columns.absent[number, e, x] for x in tiers if (number, e, x) in columns.absent]
            if len(some) > 1:
                builder.row([(a, -1) for a in some], -life.nbytes, unit)
            if e == 0 and not life.device:
                builder.row([(a, 1) for a in some], life.nbytes, unit)


def _memory(columns: _Columns, rounds: int | None, reserve: int) -> None:
    """(3) What is needed and not absent fits, with what is on its way."""
    data, builder = columns.data, columns.builder
    tiers = range(len(data.outer))
    for p, lives in enumerate(columns.pieces):
        k, run = divmod(p, 2)
        counted = [number for number in lives if not run or k not in data.lives[number].accesses]
        base = data.need[k] if run else 0
        base += sum(data.lives[number].nbytes for number in counted)
        ends = [_some(columns.absent, counted, e, tiers) for e in (p, p + 1)]
        away = [
            sum(data.lives[number].nbytes for number in counted if (number, e, 0) in columns.absent)
            for e in (p, p + 1)
        ]
        room = max(0, data.memory - base + min(away))
        short = base - data.memory + min(reserve, room)
        if short > 0:
            arriving = _some(columns.inward, counted, p, tiers)
            for terms, weight in _ends_of_rounds(ends[0], ends[1], arriving, rounds):
                builder.row(terms, weight * short, weight * builder.bytes_unit)


def _some(table: Columns, lives: Sequence[int], e: int, tiers: Sequence[int]) -> list[int]:
    return [table[number, e, x] for number in lives for x in tiers if (number, e, x) in table]


def _capacities(columns: _Columns, rounds: int | None, reserve: int) -> None:
    """(4) An outer tier holds what it holds, with what is on its way."""
    data, builder = columns.data, columns.builder
    for x, tier in enumerate(data.outer):
        if tier.capacity is None:
            continue
        room = max(0, tier.capacity - reserve)
        for p, lives in enumerate(columns.pieces):
            now = {number: columns.held.get((number, p, x)) for number in lives}
            # behind the last instant of a life its copy stays for the piece in which it returns
            later = {number: columns.held.get((number, p + 1, x), h) for number, h in now.items()}
            ends = [[h for h in end.values() if h is not None] for end in (now, later)]
            arriving = _some(columns.outward, lives, p, (x,))
            for terms, weight in _ends_of_rounds(ends[0], ends[1], arriving, rounds, -1):
                if terms:
                    builder.row(terms, -weight * room, weight * builder.bytes_unit)


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


def _channels(columns: _Columns, rounds: int | None, margin: int) -> None:
    """(5) Channels and joint caps carry at most their rate times the length of the piece."""
    data, builder = columns.data, columns.builder
    tiers = range(len(data.outer))
    for p, lives in enumerate(columns.pieces):
        k, run = divmod(p, 2)
        flows = [
            {x: [table[number, p, x] for number in lives if (number, p, x) in table] for x in tiers}
            for table in (columns.outward, columns.inward)
        ]
        shared: list[tuple[Sequence[int], Sequence[int], int, int]] = []
        for x, tier in enumerate(data.outer):
            shared += [
                ((x,), (), tier.out.rate, tier.out.latency),
                ((), (x,), tier.into.rate, tier.into.latency),
            ]
        shared += [(cap.out, cap.into, cap.rate, 0) for cap in data.caps]
        for out, into, rate, latency in shared:
            moved = [o for x in out for o in flows[0][x]] + [i for x in into for i in flows[1][x]]
            if moved and rate:
                row = [(column, -SECOND) for column in moved]
                length = data.duration[k] if run else 0
                if not run:
                    row.append((columns.stalls[k], rate))
                elif rounds is not None:
                    length = max(0, length - rounds * latency - margin)
                builder.row(row, -rate * length, builder.bytes_unit * SECOND)


def _rows_of_bytes(columns: _Columns) -> None:
    """(6) Held bytes at one end of the row and absent ones at the other do not overlap."""
    data, builder = columns.data, columns.builder
    for (number, e, x), h in columns.held.items():
        nbytes = data.lives[number].nbytes
        for y in range(len(data.outer)):
            for other in (e, e - 1):
                a = columns.absent.get((number, other, y))
                if y != x and a is not None:
                    builder.row([(h, -1), (a, -1)], -nbytes, builder.bytes_unit)


def window_bound(
    data: PlacementData,
    *,
    many: int = 1,
    joint_out: int | None = None,
    joint_in: int | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> int:
    r"""Return a lower bound on the makespan in ns from single ops, in the time of one pass.

    Parameters
    ----------
    data
        Of a machine, or of each of several lanes that are alike (`lanes`).
    many
        m, how many lanes there are.
    joint_out, joint_in
        What the channels of all lanes out of their fast memories and into them carry together, bytes/s; None
        for no limit but their own.
    expired
        Asked at each op whether to stop; each op gives a bound of its own.

    Notes
    -----
    One lane.

    While op k runs, at least :math:`V_k = W_k + \sum_l z_l - M` bytes of the lives that span it are absent.
    Those that were not in an outer tier at time 0 were copied out before, and not before the first birth
    among them; those that are accessed later return behind the end of k, and an op that accesses one runs
    behind that. With the sum B of the rates of a direction, k starts no earlier than the first birth plus
    :math:`V/B`, and what follows takes no less than :math:`V/B` and the shortest next reader.

    Several lanes, in any plan, in step or not. Number the lanes in the order in which op k starts in them.
    When it starts in lane j, j lanes have copied their V bytes out, all behind the least time of the first
    birth, so k starts there no earlier than that plus :math:`jV/R`, with R the joint rate. In the m - j + 1
    lanes from j on, k ends no earlier than in j; their bytes return behind that, which takes
    :math:`(m - j + 1) V'/R'`, and the reader of the last ones follows. So for each j the makespan is at least
    the start, :math:`d_k` and what follows. (It would be wrong that each lane has an m-th of the link: lanes
    that are not in step can have it in turn, one while the others compute.)
    """
    out = sum(tier.out.rate for tier in data.outer)
    into = sum(tier.into.rate for tier in data.outer)
    clock = [0]
    for d in data.duration:
        clock.append(clock[-1] + d)
    best = clock[-1]
    for k in range(data.n):
        if expired():
            break
        spanning = [
            life
            for life in data.lives
            if life.born < k and k not in life.accesses and (life.kept or k < life.accesses[-1])
        ]
        excess = data.need[k] + sum(life.nbytes for life in spanning) - data.memory
        if excess <= 0:
            continue
        dirty = [life for life in spanning if life.born >= 0 or not any(life.outer)]
        leaving = excess - sum(life.nbytes for life in spanning if life.born < 0 and any(life.outer))
        readers = [min(j for j in life.accesses if j > k) for life in spanning if life.accesses[-1:] > (k,)]
        returning = excess - sum(life.nbytes for life in spanning if not life.accesses[-1:] > (k,))
        for j in range(1, many + 1):
            before, behind = clock[k], clock[-1] - clock[k + 1]
            if leaving > 0 and out:
                born = min(clock[life.born + 1] for life in dirty)
                before = max(before, born + _transfer(leaving, out, j, joint_out))
            if returning > 0 and into:
                reader = min(data.duration[i] for i in readers)
                behind = max(behind, reader + _transfer(returning, into, many - j + 1, joint_in))
            best = max(best, before + data.duration[k] + behind)
    return best


def _transfer(nbytes: int, rate: int, many: int, joint: int | None) -> int:
    """Return the least ns in which each of several lanes can carry some bytes, rounded up."""
    alone = -(-nbytes * SECOND // rate)
    return alone if joint is None else max(alone, -(-many * nbytes * SECOND // joint))
