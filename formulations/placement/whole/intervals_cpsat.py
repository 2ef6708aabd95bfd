r"""Tensor placement with whole tensors on any tiers, single runs and periods, as intervals in CP-SAT: plans.

Data: see `states` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs, lives l of :math:`z_l`
bytes, capacities :math:`C_x` of tiers x, of which ops use tier 0) and `absences` (absences g of lives). All
times are rounded up to ticks, so every solution is a plan.

Variables, times in ticks. :math:`S_k`: start of op k. For each absence g: :math:`b^x_g \in \{0, 1\}`: the
life is away, in outer tier x that has channels from tier 0 and to it; :math:`r_g \le q_g`: when it is
released and when it is allocated again. For each life, :math:`w^x_l \in \{0, 1\}`: x is its outer tier;
:math:`e^x_l`: when it is released there; :math:`p^x_l`: when it is copied there, if it cannot start there.

In a period :math:`\Pi` op n + k is op k of the next iteration, :math:`S_{n+k} = S_k + \Pi`, and the times of
a life go on from the iteration in which it begins (a ring: from its first access) into the next one.

Objective. Minimize :math:`S_{n-1} + d_{n-1}`, or :math:`\Pi`, subject to

1. :math:`S_k + d_k \le S_{k+1}`, :math:`S_{n-1} + d_{n-1} \le \Pi`;
2. :math:`\sum_x b^x_g \le 1`; :math:`r_g \ge` the end of the use before, :math:`q_g \le` the start of that
   behind, :math:`r_g = q_g` if no :math:`b^x_g` is 1; if one is, :math:`q_g` and the time of a copy in are at
   most that start or, if that is the end of the run, :math:`q_g` is;
3. :math:`b^x_g \le w^x_l`, :math:`\sum_x w^x_l \le 1`, :math:`p^x_l \ge` the birth, :math:`r_g \ge p^x_l` and
   the time of a copy out if :math:`b^x_g`, :math:`e^x_l \ge` the ends of these copies, the end of the run if
   that is behind;
4. the copies on a channel do not overlap, nor do those on channels whose joint cap does not carry them
   together, if they take turns (`sequence.rates`);
5. tier 0 holds a life from the start of its writer (from its end, if that reads the tensor too: then the
   version before is there) to :math:`r_g`, from :math:`q_g` on, and to the end of its last use; it holds
   during an op its workspace and what it writes for nobody; an outer tier with a capacity holds a life from
   :math:`p^x_l` (or 0) to :math:`e^x_l` if :math:`w^x_l`; never more than the capacities;
6. a life that cannot start in tier 0 is away in the absence in which an iteration begins; one that lasts is
   then released by that time, and allocated again no sooner;
7. a life that lasts and cannot start in tier x is there, if :math:`w^x_l`, before the iteration ends or
   behind that, not both; a ring that can is there all the time;
8. in 4 and 5, each interval of a life that lasts which may end behind :math:`\Pi` counts also
   :math:`\Pi` earlier: then what overlaps in the steady state overlaps in these;
9. with `rows`, 2 to 6 of `windows_cpsat`, which change no plan but prove; or with `gone`, what is gone at
   which instants: then some :math:`b^x_g = 1` and :math:`r_g \le T_c < q_g` (at an end, :math:`r_g < T_c \le
   q_g`);
10. an op with several modes has one of them, which says its duration and workspace (7 of `windows_cpsat`).

With two tiers, the outer one without a capacity, one trip for each absence and one copy out are enough in a
single run if no copies share a channel: nothing uses the life in between, and copies stay valid.

Sources: optional intervals are those of P. Laborie and J. Rogerie, "Reasoning with conditional
time-intervals", FLAIRS 2008; the model is this suite's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import gcd
from typing import Any

from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...model import CPSAT_BYTES, Tick
from ..states import StateData
from .absences import holds
from .intervals_model import IntervalModel, Moves, Out, Trip, Value, moves_of, order_of
from .sequence import Order, Timing, rates, timing
from .sequence_plan import plan
from .windows_cpsat import add_windows, choices, line

ENGINE = "cpsat"
BYTES_PER_TERM = CPSAT_BYTES


def common_tick(data: StateData, rate: Sequence[int]) -> int:
    """Return the greatest common divisor of all durations and copy times, in ns; 1 in a period."""
    if data.periodic:  # which may be a fraction of some of them
        return 1
    times = [
        way.latency - (-life.nbytes * SECOND // r)
        for life in data.lives
        for way, r in zip(data.ways, rate, strict=True)
    ]
    return gcd(*data.duration, *(x.ns for modes in data.modes.values() for x in modes), *times) or 1


def build(
    data: StateData,
    horizon: int,
    *,
    tick: int,
    beside: bool = False,
    every: bool = True,
    rows: bool = True,
    gone: Mapping[tuple[int, int], bool] | None = None,
    row: Tick = lambda: None,
) -> IntervalModel:
    """Return the model; its objective is the makespan or the period in ticks.

    Parameters
    ----------
    data
        See `states`.
    horizon
        No plan of interest takes longer, in ns.
    tick
        Everything starts at multiples of so many ns; `common_tick` loses no plan.
    beside
        Whether channels under a joint cap share it, rather than to take turns.
    every
        Whether lives may leave in each absence, rather than in those with an instant only.
    rows, gone
        See constraint 9.
    row
        Called for each row of these.
    """
    from ortools.sat.python import cp_model

    rate, turns = rates(data, beside=beside)
    model = cp_model.CpModel()
    last = -(-horizon // tick) + data.n
    mode, length = choices(model, data, tick)  # (10)
    start, finish = line(model, data, length, last)  # (1)
    horizon = 2 * last if data.periodic else last
    built = IntervalModel(model, data, start, length, finish, tick, mode=mode, horizon=horizon, rate=rate)
    _trips(built, every)
    _channels(built, turns)
    _rooms(built)
    if rows:
        add_windows(built, row)  # (9)
    _links(built, built.gone if gone is None else gone)
    model.minimize(finish)
    return built


def _trips(built: IntervalModel, every: bool) -> None:
    """(2, 3, 6, 7) When lives leave and return."""
    data, model, horizon = built.data, built.model, built.horizon
    out = {way.dst: w for w, way in enumerate(data.ways) if not way.src}
    into = {way.src: w for w, way in enumerate(data.ways) if not way.dst}
    for g, absence in enumerate(built.absences):
        life = data.lives[absence.life]
        must = absence.away(data)
        if not (every or must or built.within[g]):
            continue
        clean = [x for x, there in enumerate(life.starts) if x and there and life.born < 0]
        rests = life.ring and not life.accesses
        goes = life.born >= 0 or (life.starts[0] and not rests)
        back = range(1, len(data.capacity)) if rests else into
        ways = sorted(x for x in back if x in clean or (x in out and goes))
        if not ways:
            continue
        if (absence.life, ways[0]) not in built.outs:
            _outs(built, absence.life, clean, {x: out.get(x, -1) for x in ways})
        away = {x: model.new_bool_var(f"away {g} {x}") for x in ways}
        release, allocate = (model.new_int_var(0, horizon, f"{w} {g}") for w in ("r", "q"))
        built.trips[g] = Trip(away, release, allocate)
        (model.add_exactly_one if must else model.add_at_most_one)(away.values())  # (2, 6)
        model.add(release >= built.until(absence.life, absence.before))  # (2)
        model.add(release <= allocate)  # (2)
        model.add(release == allocate).only_enforce_if([~b for b in away.values()])  # (2)
        model.add(allocate <= built.begin(absence.behind))  # (2)
        if must and life.lasting:
            model.add(release == 0 if rests else release <= built.finish)  # (6)
            model.add(allocate >= built.finish)  # (6)
        for x, b in away.items():
            place = built.outs[absence.life, x]
            model.add_implication(b, place.used)  # (3)
            if place.at is not None:
                done = place.at + built.copying(absence.life, out[x])
                model.add(release >= done).only_enforce_if(b)  # (3)
            if absence.behind < data.end:
                back = allocate + built.copying(absence.life, into[x])
                model.add(back <= built.begin(absence.behind)).only_enforce_if(b)  # (2)
                if place.until is not None:
                    model.add(place.until >= back).only_enforce_if(b)  # (3)
            else:
                model.add(allocate == built.finish).only_enforce_if(b)  # (2)
                if place.until is not None:
                    model.add(place.until == built.finish).only_enforce_if(b)  # (3)


def _outs(built: IntervalModel, number: int, clean: Sequence[int], ways: Mapping[int, int]) -> None:
    """(3, 7) The outer tier of a life, and the copy to it."""
    model, horizon, life = built.model, built.horizon, built.data.lives[number]
    for x, w in ways.items():
        used, until = (
            model.new_bool_var(f"tier {number} {x}"),
            model.new_int_var(0, horizon, f"e {number} {x}"),
        )
        if x in clean:
            built.outs[number, x] = Out(used, None, None if life.ring else until)
            continue
        at = model.new_int_var(0, horizon, f"p {number} {x}")
        model.add(at >= (built.start[life.accesses[0]] if life.ring else built.end(life.born)))  # (3)
        if life.lasting and not life.starts[x]:
            before = model.new_bool_var(f"before {number} {x}")
            model.add(until <= built.finish).only_enforce_if(before)  # (7)
            model.add(at >= built.finish).only_enforce_if(~before)  # (7)
        model.add(until >= at + built.copying(number, w)).only_enforce_if(used)  # (3)
        built.outs[number, x] = Out(used, at, until)
    model.add_at_most_one(built.outs[number, x].used for x in ways)  # (3)


def _channels(built: IntervalModel, turns: Sequence[Sequence[int]]) -> None:
    """(4, 8) One copy at a time."""
    model, copies = built.model, dict[int, list[Any]]()
    for number, _, w, made, at in built.copies():
        length = built.copying(number, w)
        make = partial(model.new_optional_fixed_size_interval_var, size=length, is_present=made, name="")
        copies.setdefault(w, []).append(make(at))
        for begin in built.earlier(number, at):
            copies[w].append(make(begin))  # (8)
    for group in [*([w] for w in copies), *turns]:
        model.add_no_overlap([copy for w in group for copy in copies.get(w, ())])  # (4)


def _rooms(built: IntervalModel) -> None:
    """(5, 8) What occupies the tiers."""
    data, model = built.data, built.model
    held: dict[int, list[tuple[Any, int]]] = {}

    def hold(x: int, begin: Any, end: Any, nbytes: int, made: Any = None) -> None:
        if data.capacity[x] is not None and nbytes:
            size = model.new_int_var(0, built.horizon, f"length {x} {next(built.numbers)}")
            some = (begin, size, end) if made is None else (begin, size, end, made)
            make = model.new_interval_var if made is None else model.new_optional_interval_var
            held.setdefault(x, []).append((make(*some, ""), nbytes))

    def keep(x: int, number: int, begin: Any, end: Any, made: Any = None) -> None:
        hold(x, begin, end, data.lives[number].nbytes, made)
        for some in zip(built.earlier(number, begin), built.earlier(number, end), strict=True):
            hold(x, *some, data.lives[number].nbytes, made)  # (8)

    at: dict[int, list[int]] = {}
    for g, absence in enumerate(built.absences):
        at.setdefault(absence.life, []).append(g)
    renewed = {(data.lives[number].tensor, k % data.n) for number in at for k in data.lives[number].accesses}
    rest = list(data.need)
    for number, life in enumerate(data.lives):
        renews = (life.tensor, life.born) in renewed
        for k in [*life.accesses, *([life.born] if life.born >= 0 and not renews else [])]:
            rest[k % data.n] -= life.nbytes * holds(data, number, k)
        first = life.accesses[0] if life.ring and life.accesses else life.born
        begin = built.end(first) if first < 0 or renews else built.start[first]
        for g in at[number]:
            if g in built.trips:
                keep(0, number, begin, built.trips[g].release)  # (5)
                begin = built.trips[g].allocate
        behind = built.absences[at[number][-1]].behind
        ends = built.begin if life.ring or behind == data.end else partial(built.until, number)
        keep(0, number, begin, ends(behind))  # (5)
    for k, nbytes in enumerate(rest):
        if k not in data.modes:
            hold(0, built.start[k], built.end(k), nbytes)  # (5)
        for i, mode in enumerate(data.modes.get(k, ())):
            hold(0, built.start[k], built.end(k), nbytes + mode.nbytes, built.mode[k, i])  # (5, 10)
    for (number, x), out in built.outs.items():
        if out.at is None:
            until = built.finish if out.until is None else out.until
            hold(x, 0, until, data.lives[number].nbytes, out.used)  # (5)
        else:
            keep(x, number, out.at, out.until, out.used)  # (5)
    for x, some in held.items():
        model.add_cumulative([room for room, _ in some], [z for _, z in some], data.capacity[x])  # (5)


def _links(built: IntervalModel, gone: Mapping[tuple[int, int], Any]) -> None:
    """Constraint 9: what is gone is away."""
    model = built.model
    for (g, c), there in gone.items():
        if g not in built.trips:
            model.add(there == 0)  # (9)
        elif there is not False:
            trip, late = built.trips[g], c % 2
            model.add(sum(trip.away.values()) >= there)  # (9)
            for row in (trip.release + late <= built.time(c), trip.allocate + late >= built.time(c) + 1):
                model.add(row).only_enforce_if(there)  # (9)


def decode(
    built: IntervalModel,
    value: Value,
    problem: Placement,
    *,
    beside: bool = False,
    data: StateData | None = None,
) -> Plan:
    """Return the plan of a solution.

    Its events follow each other as in the solution, as early as they can in that order (`sequence`), unless
    that needs more time than the solution itself. `data`: that of the problem, if the model's is `finer`.
    """
    moves = moves_of(built, value)
    if data is None:
        return plan_of(built.data, moves, problem, beside=beside)
    order, times = order_of(built.data.chosen(moves.modes), rates(built.data, beside=beside)[0], moves)
    sooner = timing(data.chosen(moves.modes), order, beside=beside)
    return planned(data, problem, order, times if sooner is None else sooner, moves.modes, beside=beside)


def plan_of(data: StateData, moves: Moves, problem: Placement, *, beside: bool = False) -> Plan:
    """Return the plan of moves, as `decode` does."""
    order, times = order_for(data, moves, beside=beside)
    return planned(data, problem, order, times, moves.modes, beside=beside)


def order_for(data: StateData, moves: Moves, *, beside: bool = False) -> tuple[Order, Timing]:
    """Return the order of moves, and its times: as early as they can be, unless that needs more time."""
    data = data.chosen(moves.modes)
    order, times = order_of(data, rates(data, beside=beside)[0], moves)
    sooner, last = timing(data, order, beside=beside), data.n - 1
    if sooner is not None and (sooner.period or sooner.start[last]) <= (times.period or times.start[last]):
        times = sooner
    return order, times


def planned(
    data: StateData,
    problem: Placement,
    order: Order,
    times: Timing,
    modes: Sequence[int],
    *,
    beside: bool = False,
) -> Plan:
    """Return the plan of an order with its times, ops in modes by their places in `StateData.modes`."""
    numbers = [x[m].number if (x := data.modes.get(k)) else 0 for k, m in enumerate(modes)]
    return plan(data.chosen(modes), problem, order, times, modes=numbers, beside=beside)
