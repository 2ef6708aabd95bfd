"""Paths: byte ranges of a life that go through the same states, read off how many bytes are in each state.

A *state* of a byte is the set of outer tiers that hold it, as bits of their numbers, and whether it is absent
from tier 0. A *move* takes bytes from one state to another: over a channel, or because a tier gives them up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from .slots.pieces import Cut
from .states import Life, StateData

State = tuple[int, bool]
"""Bits of the outer tiers that hold a byte, and whether it is absent from tier 0."""

PRESENT: State = (0, False)


@dataclass(frozen=True)
class Move:
    """A change of state, and the number of the channel that it takes; None: none."""

    before: State
    after: State
    way: int | None


@dataclass(frozen=True)
class Event:
    """What a path does in a piece: the channels that its bytes pass, in turn, and its state behind."""

    piece: int
    ways: tuple[int, ...]
    after: State


@dataclass(frozen=True)
class Path:
    """Bytes ``[low, high)`` of a life: their state at its first instant, and what they do, by pieces."""

    low: int
    high: int
    state: State
    events: tuple[Event, ...]

    @cached_property
    def _pieces(self) -> list[int]:
        return [event.piece for event in self.events]

    def at(self, piece: int) -> State:
        """Return the state before a piece."""
        number = bisect_left(self._pieces, piece)
        return self.events[number - 1].after if number else self.state


class PathStep(NamedTuple):
    """What a path does in a piece, and its state before."""

    path: Path
    before: State
    event: Event


def tiers_of(state: State) -> list[int]:
    """Return the tiers where bytes in a state are, tier 0 last."""
    q, away = state
    return [x for x in range(q.bit_length()) if q >> x & 1] + [0] * (not away)


@dataclass(frozen=True, eq=False)
class LifePaths:
    """A life and its paths, ascending; `instants` are those of the life."""

    life: Life
    instants: range
    paths: tuple[Path, ...]

    @cached_property
    def _steps(self) -> dict[int, list[PathStep]]:
        steps: dict[int, list[PathStep]] = {}
        for path in self.paths:
            before = path.state
            for event in path.events:
                steps.setdefault(event.piece, []).append(PathStep(path, before, event))
                before = event.after
        return steps

    def steps(self, piece: int) -> Sequence[PathStep]:
        """Return what the paths do in a piece, those that do something."""
        return self._steps.get(piece, ())

    @cached_property
    def _held(self) -> tuple[list[int], list[dict[int, int]]]:
        """The pieces in which something happens; bytes by tier before all of them, and behind each."""
        now: dict[int, int] = {}
        pieces, held = sorted(self._steps), []
        for path in self.paths:
            for x in tiers_of(path.state):
                now[x] = now.get(x, 0) + path.high - path.low
        held.append(dict(now))
        for piece in pieces:
            for path, before, event in self._steps[piece]:
                for sign, state in ((-1, before), (1, event.after)):
                    for x in tiers_of(state):
                        now[x] = now.get(x, 0) + sign * (path.high - path.low)
            held.append(dict(now))
        return pieces, held

    def held(self, piece: int) -> Mapping[int, int]:
        """Return the bytes by tier before a piece."""
        pieces, found = self._held
        return found[bisect_left(pieces, piece)]


def moves(data: StateData, limited: Sequence[bool]) -> list[Move]:
    """Return the moves of any byte; tiers that are not `limited` never give up what they hold."""
    possible = []
    for q in range(0, 2 ** len(data.capacity), 2):
        for w, channel in enumerate(data.ways):
            if not channel.dst and q >> channel.src & 1:
                possible.append(Move((q, True), (q, False), w))
            elif channel.dst and not q >> channel.dst & 1:
                more = q | 1 << channel.dst
                if not channel.src:
                    possible.append(Move((q, False), (more, False), w))
                elif q >> channel.src & 1:
                    possible += [Move((q, away), (more, away), w) for away in (False, True)]
        for x in range(1, len(data.capacity)):
            if limited[x] and q >> x & 1 and (less := q & ~(1 << x)):
                possible += [Move((q, away), (less, away), None) for away in (False, True)]
    return possible


Amounts = Callable[[int], Mapping[State, float]]
"""By instant, the bytes in each state."""

Carried = Callable[[int], Mapping[Move, float]]
"""By piece, the bytes of each move over a channel; what is missing has no limit but what it must not move."""


@dataclass
class _Segment:
    """Bytes in the making of paths."""

    length: float
    first: State
    state: State
    events: tuple[Event, ...]


def walk(
    cut: Cut, life: Life, every: Sequence[Move], amounts: Amounts, carried: Carried, *, whole: bool = False
) -> LifePaths | None:
    """Return the paths of a life; None if those of a ring do not close.

    Parameters
    ----------
    cut, life
        Where its instants are.
    every
        The moves over channels.
    amounts, carried
        What is where, and what moves; neither need add up exactly.
    whole
        They do, in whole bytes, and so shall the paths.
    """
    instants = cut.instants(life)
    least, near = (0.5, 0) if whole else (life.nbytes * SAME, min(life.nbytes // 10**6, 10**4))
    here = amounts(instants[0])
    order = sorted((item for item in here.items() if item[1] > 0), key=lambda item: _rank(item[0]))
    total = sum(part for _, part in order)
    row = [_Segment(part / total * life.nbytes, state, state, ()) for state, part in order]
    for p in instants[:-1]:
        following = amounts(p + 1)
        if _differs(here, following, least, row):
            row = _changed(row, life.nbytes, p, following, _arcs(every, carried(p)))
            here = following
    paths = []
    for path in _whole(row, life.nbytes, near):
        kept = _needed(cut, life, path)
        if kept is None:
            return None
        paths.append(kept)
    return LifePaths(life, instants, tuple(paths))


SAME = 1e-7
"""Part of a life that counts as none of it."""


def _differs(
    here: Mapping[State, float], there: Mapping[State, float], least: float, row: Sequence[_Segment]
) -> bool:
    """Whether bytes change their state by more than a little, or an op needs all of them."""
    if any(abs(part - there.get(state, 0.0)) > least for state, part in here.items()):
        return True
    needed = not any(part for (_, away), part in there.items() if away)
    return needed and any(segment.state[1] for segment in row)


def _rank(state: State) -> tuple[float, int, bool]:
    """Order the states in the row of bytes: what tier 1 holds at its beginning, what others do at its end."""
    q, away = state
    side = ((q > 3) - (q >> 1 & 1)) * (1 + away) if q else 0
    return side, q, away


FREE = float("inf")


@dataclass
class _Arc:
    """A move in a piece: how many bytes may still take it, and how many do."""

    before: State
    after: State
    way: int | None
    left: float
    used: float = 0.0


def _arcs(every: Sequence[Move], carried: Mapping[Move, float]) -> list[_Arc]:
    """Return the moves of a piece, with all that releases something."""
    arcs = [_Arc(move.before, move.after, move.way, max(0.0, carried.get(move, 0.0))) for move in every]
    for q, away in sorted({state for move in every for state in (move.before, move.after)}):
        if q and not away:
            arcs.append(_Arc((q, False), (q, True), None, FREE))
        for x in range(1, q.bit_length()):
            if q >> x & 1 and (q != 1 << x or not away):
                arcs.append(_Arc((q, away), (q & ~(1 << x), away), None, FREE))
    return arcs


def _changed(
    row: list[_Segment], nbytes: int, p: int, following: Mapping[State, float], arcs: list[_Arc]
) -> list[_Segment]:
    """Return the row behind a piece: a flow from where bytes are to where they shall be, in paths."""
    least = min(0.5, nbytes * 1e-9)
    supply: dict[State, float] = {}
    for segment in row:
        supply[segment.state] = supply.get(segment.state, 0.0) + segment.length
    total = sum(following.values())
    demand = {state: part / total * nbytes for state, part in following.items() if part > 0}
    _send(dict(supply), dict(demand), arcs, least)
    plans: dict[State, list[tuple[State, tuple[int, ...], float]]] = {state: [] for state in supply}
    for state in sorted(supply, key=_rank):
        for target in sorted(demand, key=_rank):
            while min(supply[state], demand[target]) > least:
                route = _route([state], {target}, arcs, least, back=False)
                if route is None:
                    break
                part = min([supply[state], demand[target], *(arc.used for arc, _ in route)])
                for arc, _ in route:
                    arc.used -= part
                supply[state] -= part
                demand[target] -= part
                ways = tuple(arc.way for arc, _ in route if arc.way is not None)
                plans[state].append((target, ways, part))
    for state, targets in plans.items():
        if not targets:  # next to nothing, which goes where there is a way
            for arc in arcs:
                arc.left = FREE
            for target in sorted(demand, key=lambda x: (-following[x], _rank(x))):
                route = _route([state], {target}, arcs, least, back=True)
                if route is not None:
                    ways = tuple(arc.way for arc, sign in route if arc.way is not None and sign > 0)
                    targets.append((target, ways, supply[state]))
                    break
    return _applied(row, plans, p)


def _send(supply: dict[State, float], demand: dict[State, float], arcs: list[_Arc], least: float) -> None:
    """Send what there is to where it shall be by shortest augmenting paths; without limits, what is left."""
    for state in supply:
        part = min(supply[state], demand.get(state, 0.0))
        supply[state] -= part
        demand[state] = demand.get(state, 0.0) - part
    for limited in (True, False):
        for arc in () if limited else arcs:
            arc.left = FREE
        while True:
            sources = [state for state in sorted(supply, key=_rank) if supply[state] > least]
            route = _route(sources, {x for x in demand if demand[x] > least}, arcs, least, back=True)
            if route is None:
                break
            first, last = route[0], route[-1]
            begin = first[0].before if first[1] > 0 else first[0].after
            end = last[0].after if last[1] > 0 else last[0].before
            part = min([supply[begin], demand[end], *(a.left if sign > 0 else a.used for a, sign in route)])
            for arc, sign in route:
                arc.left -= sign * part
                arc.used += sign * part
            supply[begin] -= part
            demand[end] -= part


def _route(
    sources: Sequence[State], targets: set[State], arcs: Sequence[_Arc], least: float, *, back: bool
) -> list[tuple[_Arc, int]] | None:
    """Return the fewest arcs between states, and whether they are taken forwards.

    With `back` those with room, or against what is used; without it, those that are used.
    """
    came: dict[State, tuple[State, _Arc, int] | None] = dict.fromkeys(sources)
    queue = list(sources)
    for here in queue:
        if here in targets:
            route = []
            while (step := came[here]) is not None:
                here, arc, sign = step
                route.append((arc, sign))
            return route[::-1]
        for arc in arcs:
            if arc.before == here and (arc.left if back else arc.used) > least and arc.after not in came:
                came[arc.after] = here, arc, 1
                queue.append(arc.after)
            elif back and arc.after == here and arc.used > least and arc.before not in came:
                came[arc.before] = here, arc, -1
                queue.append(arc.before)
    return None


def _applied(
    row: list[_Segment], plans: dict[State, list[tuple[State, tuple[int, ...], float]]], p: int
) -> list[_Segment]:
    """Split the row by what its bytes do: in each state, in the order of the states behind."""
    segments: list[_Segment] = []
    left = {state: sorted(targets, key=lambda x: _rank(x[0])) for state, targets in plans.items()}
    for segment in row:
        rest, targets = segment.length, left[segment.state]
        while targets and rest > 0:
            target, ways, part = targets[0]
            last = len(targets) == 1
            taken = rest if last else min(rest, part)
            event = (Event(p, ways, target),) if ways or target != segment.state else ()
            segments.append(_Segment(taken, segment.first, target, segment.events + event))
            rest -= taken
            targets[0] = target, ways, part - taken
            if not last and part <= taken:
                targets.pop(0)
        if rest > 0:
            segments.append(replace(segment, length=rest))
    return segments


def _whole(row: Sequence[_Segment], nbytes: int, near: int) -> list[Path]:
    """Round where paths end to whole bytes; ends so near those of the life are those."""
    paths: list[Path] = []
    position, low = 0.0, 0
    for number, segment in enumerate(row):
        position += segment.length
        high = round(position) if abs(position - round(position)) < 1e-3 else int(position) + 1
        high = 0 if high <= near else nbytes if high >= nbytes - near or number == len(row) - 1 else high
        if high > low:
            paths.append(Path(low, high, segment.first, segment.events))
            low = high
    return paths


def _needed(cut: Cut, life: Life, path: Path) -> Path | None:
    """Return a path without what nobody needs behind; None if it should close and does not."""
    last = path.events[-1].after if path.events else path.state
    kept = 0
    if not life.ring:
        return _without(cut, path, kept)[0]
    if last[1] != path.state[1]:
        return None
    while True:
        found, first = _without(cut, path, kept)
        if first == kept:
            return found
        kept |= first
        if kept & ~last[0]:
            return None


def _without(cut: Cut, path: Path, needed: int) -> tuple[Path, int]:
    """Return a path of which tiers hold what is needed later only, and those needed at first.

    `needed`: the tiers of which that is said at the end.
    """
    ways = cut.data.ways
    events: list[Event] = []
    for event in reversed(path.events):
        q, away = event.after
        if away and not needed:
            needed = q & -q
        behind, inside, kept = needed, not away, list[int]()
        for w in reversed(event.ways):
            src, dst = ways[w].src, ways[w].dst
            if not (needed >> dst & 1 if dst else inside):
                continue
            kept.append(w)
            if dst:
                needed &= ~(1 << dst)
            else:
                inside = False
            if src:
                needed |= 1 << src
            else:
                inside = True
        events.append(Event(event.piece, tuple(reversed(kept)), (behind, away)))
    q, away = path.state
    if away and not needed:
        needed = q & -q
    state, dropped = (needed, away), list[Event]()
    before = state
    for event in reversed(events):
        if event.ways or event.after != before:
            dropped.append(event)
        before = event.after
    return replace(path, state=state, events=tuple(dropped)), needed
