r"""Tensor placement with whole tensors on any tiers in a single run, as intervals in CP-SAT: plans.

Data: see `states` (ops k, durations :math:`d_k`, bytes :math:`W_k` that op k needs, lives l of :math:`z_l`
bytes, capacities :math:`C_x` of tiers x, of which ops use tier 0) and `absences` (absences g of lives). All
times are rounded up to ticks, so every solution is a plan.

Variables, times in ticks. :math:`S_k`: start of op k. For each absence g: :math:`b^x_g \in \{0, 1\}`: the
life is away, in outer tier x that has channels from tier 0 and to it; :math:`r_g \le q_g`: when it is
released and when it is allocated again. For each life, :math:`w^x_l \in \{0, 1\}`: x is its outer tier;
:math:`e^x_l`: when it is released there; :math:`p^x_l`: when it is copied there, if it cannot start there.

Objective. Minimize :math:`S_{n-1} + d_{n-1}` subject to

1. :math:`S_k + d_k \le S_{k+1}`;
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
6. a life that cannot start in tier 0 is away in its first absence;
7. with `rows`, 2 to 6 of `windows_cpsat`, which change no plan but prove; or with `gone`, what is gone at
   which instants: then some :math:`b^x_g = 1` and :math:`r_g \le T_c < q_g` (at an end, :math:`r_g < T_c \le
   q_g`).

With two tiers, the outer one without a capacity, one trip for each absence and one copy out are enough if no
copies share a channel: nothing uses the life in between, and a copy stays valid for the whole life.

Sources: optional intervals are those of P. Laborie and J. Rogerie, "Reasoning with conditional
time-intervals", FLAIRS 2008; the model is this suite's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from ...models.errors import UsageError
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..linear_program import SECOND
from ..model import Tick
from . import sequence
from .absences import holds
from .sequence import Copying, Order, Stay, Timing, rates, timing
from .states import StateData
from .windows_cpsat import WindowModel, add_windows

ENGINE = "cpsat"
BYTES_PER_TERM = 600

Value = Callable[[Any], int]


@dataclass
class Trip:
    """Variables of an absence: b by outer tier, r and q."""

    away: dict[int, Any]
    release: Any
    allocate: Any


@dataclass
class Out:
    """Variables of a life in an outer tier: w, p (None where it can start there), and e."""

    used: Any
    at: Any
    until: Any


@dataclass(kw_only=True)
class IntervalModel(WindowModel):
    """The CP-SAT model and what its variables mean."""

    horizon: int
    """Ticks."""
    rate: Sequence[int]
    """Of copies by channel, bytes per second."""
    trips: dict[int, Trip] = field(default_factory=dict)
    outs: dict[tuple[int, int], Out] = field(default_factory=dict)
    """By life and outer tier."""

    def copying(self, life: int, way: int) -> int:
        """Return the ticks of a copy, rounded up."""
        data = self.data
        ns = data.ways[way].latency - (-data.lives[life].nbytes * SECOND // self.rate[way])
        return -(-ns // self.tick)

    def begin(self, k: int) -> Any:
        """Return when op k starts (n: the end of the run)."""
        return self.start[k] if k < self.data.n else self.end(k - 1)

    def until(self, life: int, k: int) -> Any:
        """Return when op k needs a life no longer (-1: time 0)."""
        return self.end(k) if holds(self.data, life, k) else self.start[k]

    def variables(self) -> dict[str, Any]:
        """Return the variables that a plan is read from, by name."""
        found = {f"start {k}": part for k, part in enumerate(self.start)}
        found |= {f"gone {g} {c}": part for (g, c), part in self.gone.items()}
        for g, trip in self.trips.items():
            found |= {f"r {g}": trip.release, f"q {g}": trip.allocate}
            found |= {f"away {g} {x}": away for x, away in trip.away.items()}
        for (number, x), out in self.outs.items():
            found |= {f"tier {number} {x}": out.used, f"e {number} {x}": out.until}
            found |= {} if out.at is None else {f"p {number} {x}": out.at}
        return found


def common_tick(data: StateData, rate: Sequence[int]) -> int:
    """Return the greatest common divisor of all durations and copy times, in ns."""
    times = [
        way.latency - (-life.nbytes * SECOND // r)
        for life in data.lives
        for way, r in zip(data.ways, rate, strict=True)
    ]
    return gcd(*data.duration, *times) or 1


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
    """Return the model; its objective is the makespan in ticks.

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
        See constraint 7.
    row
        Called for each row of these.

    Raises
    ------
    UsageError
        If the problem is periodic.
    """
    from ortools.sat.python import cp_model

    if data.periodic:
        raise UsageError("interval model of placement: found a periodic problem, expected a single run")
    rate, turns = rates(data, beside=beside)
    model = cp_model.CpModel()
    last = -(-horizon // tick) + data.n
    start = [model.new_int_var(0, last, f"start {k}") for k in range(data.n)]
    length = [-(-d // tick) for d in data.duration]
    built = IntervalModel(model, data, start, length, tick, horizon=last, rate=rate)
    for k in range(data.n - 1):
        model.add(built.end(k) <= start[k + 1])  # (1)
    _trips(built, every)
    _channels(built, turns)
    _rooms(built)
    if rows:
        add_windows(built, row)  # (7)
    _links(built, built.gone if gone is None else gone)
    model.minimize(built.end(data.n - 1))
    return built


def _trips(built: IntervalModel, every: bool) -> None:
    """(2, 3, 6) When lives leave and return."""
    data, model, horizon = built.data, built.model, built.horizon
    out = {way.dst: w for w, way in enumerate(data.ways) if not way.src}
    into = {way.src: w for w, way in enumerate(data.ways) if not way.dst}
    for g, absence in enumerate(built.absences):
        life = data.lives[absence.life]
        must = absence.before < 0 and not life.starts[0]
        if not (every or must or built.within[g]):
            continue
        clean = [x for x in into if life.born < 0 and life.starts[x]]
        ways = sorted(x for x in into if x in clean or (x in out and (life.born >= 0 or life.starts[0])))
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
        for x, b in away.items():
            place = built.outs[absence.life, x]
            model.add_implication(b, place.used)  # (3)
            if place.at is not None:
                done = place.at + built.copying(absence.life, out[x])
                model.add(release >= done).only_enforce_if(b)  # (3)
            if absence.behind < data.n:
                back = allocate + built.copying(absence.life, into[x])
                model.add(back <= built.begin(absence.behind)).only_enforce_if(b)  # (2)
                model.add(place.until >= back).only_enforce_if(b)  # (3)
            else:
                model.add(allocate == built.begin(data.n)).only_enforce_if(b)  # (2)
                model.add(place.until == built.begin(data.n)).only_enforce_if(b)  # (3)


def _outs(built: IntervalModel, number: int, clean: Sequence[int], ways: Mapping[int, int]) -> None:
    """(3) The outer tier of a life, and the copy to it."""
    model, horizon, life = built.model, built.horizon, built.data.lives[number]
    for x, w in ways.items():
        used, until = (
            model.new_bool_var(f"tier {number} {x}"),
            model.new_int_var(0, horizon, f"e {number} {x}"),
        )
        if x in clean:
            built.outs[number, x] = Out(used, None, until)
            continue
        at = model.new_int_var(0, horizon, f"p {number} {x}")
        model.add(at >= built.end(life.born))  # (3)
        model.add(until >= at + built.copying(number, w)).only_enforce_if(used)  # (3)
        built.outs[number, x] = Out(used, at, until)
    model.add_at_most_one(built.outs[number, x].used for x in ways)  # (3)


def copies(built: IntervalModel) -> Iterator[tuple[int, int, int, Any, Any]]:
    """Yield the life, the absence (-1: out), the channel, whether and when of each copy that may be made."""
    ways = {(way.src, way.dst): w for w, way in enumerate(built.data.ways)}
    for (number, x), out in built.outs.items():
        if out.at is not None:
            yield number, -1, ways[0, x], out.used, out.at
    for g, trip in built.trips.items():
        absence = built.absences[g]
        for x, away in trip.away.items():
            if absence.behind < built.data.n:
                yield absence.life, g, ways[x, 0], away, trip.allocate


def _channels(built: IntervalModel, turns: Sequence[Sequence[int]]) -> None:
    """(4) One copy at a time."""
    model, some = built.model, dict[int, list[Any]]()
    for number, g, w, made, at in copies(built):
        length = built.copying(number, w)
        name = f"copy {number} {g} {w}"
        some.setdefault(w, []).append(model.new_optional_fixed_size_interval_var(at, length, made, name))
    for group in [*([w] for w in some), *turns]:
        model.add_no_overlap([copy for w in group for copy in some.get(w, ())])  # (4)


def _rooms(built: IntervalModel) -> None:
    """(5) What occupies the tiers."""
    data, model = built.data, built.model
    held: dict[int, list[tuple[Any, int]]] = {}

    def hold(x: int, begin: Any, end: Any, nbytes: int, made: Any = None) -> None:
        if data.capacity[x] is not None and nbytes:
            size = model.new_int_var(0, built.horizon, "")
            some = (begin, size, end) if made is None else (begin, size, end, made)
            make = model.new_interval_var if made is None else model.new_optional_interval_var
            held.setdefault(x, []).append((make(*some, ""), nbytes))

    at: dict[int, list[int]] = {}
    for g, absence in enumerate(built.absences):
        at.setdefault(absence.life, []).append(g)
    renewed = {(data.lives[number].tensor, k) for number in at for k in data.lives[number].accesses}
    rest = list(data.need)
    for number, life in enumerate(data.lives):
        renews = (life.tensor, life.born) in renewed
        for k in [*life.accesses, *([life.born] if life.born >= 0 and not renews else [])]:
            rest[k] -= life.nbytes * holds(data, number, k)
        begin = built.end(life.born) if life.born < 0 or renews else built.start[life.born]
        for g in at[number]:
            if g in built.trips:
                hold(0, begin, built.trips[g].release, life.nbytes)  # (5)
                begin = built.trips[g].allocate
        last = built.begin(data.n) if life.kept else built.until(number, life.accesses[-1])
        hold(0, begin, last, life.nbytes)  # (5)
    for k, nbytes in enumerate(rest):
        hold(0, built.start[k], built.end(k), nbytes)  # (5)
    for (number, x), out in built.outs.items():
        hold(x, 0 if out.at is None else out.at, out.until, data.lives[number].nbytes, out.used)  # (5)
    for x, some in held.items():
        model.add_cumulative([room for room, _ in some], [z for _, z in some], data.capacity[x])  # (5)


def _links(built: IntervalModel, gone: Mapping[tuple[int, int], Any]) -> None:
    """Constraint 7: what is gone is away."""
    model = built.model
    for (g, c), there in gone.items():
        if g not in built.trips:
            model.add(there == 0)  # (7)
        elif there is not False:
            trip, late = built.trips[g], c % 2
            model.add(sum(trip.away.values()) >= there)  # (7)
            for row in (trip.release + late <= built.time(c), trip.allocate + late >= built.time(c) + 1):
                model.add(row).only_enforce_if(there)  # (7)


def decode(built: IntervalModel, value: Value, problem: Placement, *, beside: bool = False) -> Plan:
    """Return the plan of a solution.

    Its events follow each other as in the solution, as early as they can in that order (`sequence`), unless
    that needs more time than the solution itself.
    """
    order, times = _order(built, value)
    sooner = timing(built.data, order, beside=beside)
    last = built.data.n - 1
    if sooner is not None and sooner.start[last] <= times.start[last]:
        times = sooner
    return sequence.plan(built.data, problem, order, times, beside=beside)


def _order(built: IntervalModel, value: Value) -> tuple[Order, Timing]:
    """Return the order and the times of a solution."""
    data, n = built.data, built.data.n
    times = [value(built.start[k]) * built.tick for k in range(n)]
    place = [(float(s), float(s + d)) for s, d in zip(times, data.duration, strict=True)]
    order = Order(stays=[], copies=[], place=place, length=built.horizon * built.tick + 1)
    times.append(0)
    away = {g: x for g, trip in built.trips.items() for x, b in trip.away.items() if value(b)}
    homes = {built.absences[g].life: x for g, x in away.items()}
    events: dict[tuple[int, int], int] = {}
    for number, g, w, made, at in copies(built):
        if value(made) and number in homes:
            events[number, g] = n + 1 + len(order.copies)
            begin = value(at) * built.tick
            end = begin + built.copying(number, w) * built.tick
            order.copies.append(Copying(life=number, way=w, begin=float(begin), end=float(end)))
            times.append(begin)
    of: dict[int, list[int]] = {}
    for g, absence in enumerate(built.absences):
        of.setdefault(absence.life, []).append(g)
    for number, own in of.items():
        life = data.lives[number]
        stay = Stay(life=number, tier=0, begin=(life.born, 0) if life.born >= 0 else None)
        some = [stay]
        if number in homes:
            copied = events.get((number, -1))
            outer = Stay(life=number, tier=homes[number], begin=None)
            if copied is not None:
                stay.uses.append((copied, 0))
                outer.begin, outer.since = (copied, 0), float(times[copied])
            some.append(outer)
        for g in own:
            behind = built.absences[g].behind
            if g in away and behind < n:
                back = events[number, g]
                outer.uses.append((back, 0))
                stay = Stay(life=number, tier=0, begin=(back, 0), since=float(times[back]))
                some.append(stay)
            (outer if g in away and behind == n else stay).uses.append((behind, behind // n))
        stay.last = bool(life.accesses)
        order.stays += [stay for stay in some if stay.uses]
    return order, Timing(start=times, period=None)
