"""The variables of the interval model of placement (`intervals_cpsat`), and the order that they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ....models.units import SECOND
from ..states import StateData
from .absences import absences, holds
from .sequence import At, Copying, EventResidency, Order, Timing
from .windows_cpsat import WindowModel

Value = Callable[[Any], int]


@dataclass
class Trip:
    """Variables of an absence: b by outer tier, r and q."""

    away: dict[int, Any]
    release: Any
    allocate: Any


@dataclass
class Out:
    """Variables of a life in an outer tier: w, p (None where it can start there), and e (None: no end)."""

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
    ends: dict[int, Any] = field(default_factory=dict)
    """Of ops with several modes."""
    numbers: Iterator[int] = field(default_factory=count)
    """Of variables that stand for sums, in their names."""

    def copying(self, life: int, channel: int) -> int:
        """Return the ticks of a copy, rounded up."""
        data = self.data
        ns = data.ways[channel].latency - (-data.lives[life].nbytes * SECOND // self.rate[channel])
        return -(-ns // self.tick)

    def end(self, k: int) -> Any:
        """Return when op k ends, as one variable and a number (-1: time 0)."""
        if k < 0 or k % self.data.n not in self.data.modes:
            return super().end(k)
        if k not in self.ends:
            self.ends[k] = self.model.new_int_var(0, 2 * self.horizon, f"end {k}")
            self.model.add(self.ends[k] == super().end(k))
        return self.ends[k]

    def begin(self, k: int) -> Any:
        """Return when op k starts (`data.end`: when the iteration ends)."""
        return self.start[k] if k < self.data.end else self.finish

    def until(self, life: int, k: int) -> Any:
        """Return when op k needs a life no longer (-1: time 0)."""
        return self.end(k) if holds(self.data, life, k) else self.start[k]

    def earlier(self, number: int, time: Any) -> list[Any]:
        """Return a time of a life a period before, if it lasts (8)."""
        if not self.data.lives[number].lasting:
            return []
        found = self.model.new_int_var(-self.horizon, self.horizon, f"earlier {number} {next(self.numbers)}")
        self.model.add(found == time - self.finish)
        return [found]

    def copies(self) -> Iterator[tuple[int, int, int, Any, Any]]:
        """Yield life, absence (-1: out), channel of each copy that may be made, whether it is, and when."""
        ways = {(way.src, way.dst): w for w, way in enumerate(self.data.ways)}
        for (number, x), out in self.outs.items():
            if out.at is not None:
                yield number, -1, ways[0, x], out.used, out.at
        for g, trip in self.trips.items():
            absence = self.absences[g]
            for x, away in trip.away.items():
                if absence.behind < self.data.end:
                    yield absence.life, g, ways[x, 0], away, trip.allocate

    def variables(self) -> dict[str, Any]:
        """Return the variables that a plan is read from, by name."""
        named = {f"start {k}": part for k, part in enumerate(self.start)}
        named |= {"finish": self.finish} if self.data.periodic else {}
        named |= {f"mode {k} {i}": part for (k, i), part in self.mode.items()}
        named |= {f"gone {g} {c}": part for (g, c), part in self.gone.items()}
        for g, trip in self.trips.items():
            named |= {f"r {g}": trip.release, f"q {g}": trip.allocate}
            named |= {f"away {g} {x}": away for x, away in trip.away.items()}
        for (number, x), out in self.outs.items():
            named |= {f"tier {number} {x}": out.used}
            named |= {} if out.until is None else {f"e {number} {x}": out.until}
            named |= {} if out.at is None else {f"p {number} {x}": out.at}
        return named


@dataclass(kw_only=True)
class Moves:
    """What a solution says, times in ns from the beginning of the iteration.

    Attributes
    ----------
    starts, modes, period
        Of ops, the latter by places in `StateData.modes`; None in a single run.
    away
        By absence in which the life is away, its outer tier.
    out, back
        When copies begin: by life that of its copy out, by absence that of its return.
    """

    starts: list[int]
    modes: list[int]
    period: int | None
    away: dict[int, int]
    out: dict[int, int]
    back: dict[int, int]


def moves_of(built: IntervalModel, value: Value) -> Moves:
    """Return what a solution of the model says."""
    tick, periodic = built.tick, built.data.periodic
    moves = Moves(
        starts=[value(built.start[k]) * tick for k in range(built.data.n)],
        modes=[
            next((i for i in range(len(built.data.modes.get(k, ()))) if value(built.mode[k, i])), 0)
            for k in range(built.data.n)
        ],
        period=value(built.finish) * tick if periodic else None,
        away={g: x for g, trip in built.trips.items() for x, b in trip.away.items() if value(b)},
        out={},
        back={},
    )
    homes = {built.absences[g].life for g in moves.away}
    for number, g, _, made, at in built.copies():
        if value(made) and number in homes:
            (moves.out if g < 0 else moves.back)[number if g < 0 else g] = value(at) * tick
    return moves


def order_of(data: StateData, rate: Sequence[int], moves: Moves) -> tuple[Order, Timing]:
    """Return the order and the times of moves, with copies at these rates by channel."""
    n, gaps = data.n, absences(data)
    place = [(float(s), float(s + d)) for s, d in zip(moves.starts, data.duration, strict=True)]
    latest = max((*moves.starts, *moves.out.values(), *moves.back.values()))
    order = Order(stays=[], copies=[], place=place, length=moves.period or latest + max(data.duration) + 1)
    times = [*moves.starts, 0]
    homes = {gaps[g].life: x for g, x in moves.away.items()}
    ways = {(way.src, way.dst): w for w, way in enumerate(data.ways)}
    events: dict[tuple[int, int], At] = {}
    since: dict[At, float] = {(k, 0): place[k][0] for k in range(n)}
    copies = [(number, -1, ways[0, homes[number]], at) for number, at in moves.out.items()]
    copies += [(gaps[g].life, g, ways[moves.away[g], 0], at) for g, at in moves.back.items()]
    for number, g, w, at in copies:
        turn, begin = divmod(at, order.length)
        event = events[number, g] = n + 1 + len(order.copies), turn
        since[event] = float(begin + turn * order.length)
        end = begin + data.ways[w].latency - (-data.lives[number].nbytes * SECOND // rate[w])
        order.copies.append(Copying(life=number, way=w, begin=float(begin), end=float(end)))
        times.append(begin)
    of: dict[int, list[int]] = {}
    for g, absence in enumerate(gaps):
        of.setdefault(absence.life, []).append(g)
    for number, own in of.items():
        life = data.lives[number]
        born = (life.born, 0) if life.born >= 0 else None
        first = stay = EventResidency(life=number, tier=0, begin=born, since=since[born] if born else 0.0)
        stays = [stay]
        if number in homes:
            copied = events.get((number, -1))
            outer = EventResidency(life=number, tier=homes[number], begin=copied)
            if copied is not None:
                stay.uses.append(copied)
                outer.since = since[copied]
            stays.append(outer)
        for g in own:
            behind = gaps[g].behind
            if g in moves.away and behind < data.end:
                back = events[number, g]
                outer.uses.append(back)
                stay = EventResidency(life=number, tier=0, begin=back, since=since[back])
                stays.append(stay)
            ended = (n, 1) if behind == data.end else (behind % n, behind // n)
            (outer if g in moves.away and behind == data.end else stay).uses.append(ended)
        if life.ring and stay is not first:  # it goes on with what came first, in the next iteration
            stay.uses += [(i, y + 1) for i, y in first.uses]
            stays.remove(first)
        stay.last = bool(life.accesses)
        order.stays += [stay for stay in stays if stay.uses]
    return order, Timing(start=times, period=moves.period)
