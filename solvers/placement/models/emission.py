"""From paths of whole bytes to a plan in whole ns: rounds in which channels copy side by side.

A *path* says in which tiers some bytes of a life are at each instant (`paths`). The processors of several
lanes go in step: op number k of each starts when all that belongs to op k - 1 is through.

1. Each piece is cut into the least number of rounds, a power of two, in which the integers fit; where copies
   follow each other within the piece, into the number with which that takes least time.
2. In each round an equal part of every path that changes in the piece begins to do so; a copy that follows
   another one comes in the round behind it. Each channel moves its bytes one copy after another, at such
   rates that all channels end together, as fast as rates and caps allow; copies end at whole ns. A round
   begins when the one before has ended, an op when the last round before it has.
3. What need not be in a tier any more, nor be copied from there, is released before the first round; the
   source of a copy at the end of its round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ....formulations.linear_program import SECOND
from ....formulations.placement.lanes import Lane
from ....formulations.placement.paths import State, Walk, tiers_of
from ....formulations.placement.pieces import Cut
from ....formulations.placement.states import Life, StateData, weightless
from ....models.arrays import Integers
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Free, Plan, Resident
from ....models.problems.placement import Placement

MOST_ROUNDS = 2**12
MORE = 32
"""Times the least number of rounds that are tried where copies follow each other."""


@dataclass(frozen=True, eq=False)
class Part:
    """What a lane does: how its time is cut, and a walk for each of its lives."""

    lane: Lane
    cut: Cut
    walks: Sequence[Walk]

    @property
    def names(self) -> list[str]:
        """The names of its tiers."""
        return [tier.name for tier in self.lane.problem.machine.tiers]


@dataclass(frozen=True, eq=False)
class _Change:
    """What some bytes do in a piece.

    `accessed`: whether the op that runs needs the life in tier 0 to its end, and counts it.
    """

    g: int
    life: Life
    low: int
    high: int
    before: State
    ways: tuple[tuple[int, int], ...]
    after: State
    accessed: bool

    def tiers(self) -> Iterator[tuple[int, int | None, int | None]]:
        """Yield tiers, the copies with which bytes come there (None: before) and after which they go.

        The last is None for those that stay, and -1 for those that go at once.
        """
        there, stays = tiers_of(self.before), tiers_of(self.after)
        for x in {**dict.fromkeys(there), **dict.fromkeys(dst for _, dst in self.ways)}:
            came = None if x in there else next(i for i, (_, dst) in enumerate(self.ways) if dst == x)
            used = [i for i, (src, _) in enumerate(self.ways) if src == x]
            yield x, came, None if x in stays else max([-1 if came is None else came, *used])

    def bounds(self, rounds: int) -> Integers:
        """Return where the parts of its rounds end, from its first byte on."""
        parts = np.arange(rounds + 1, dtype=np.int64)
        return self.low + (self.high - self.low) * parts // rounds


@dataclass
class _Emission:
    """The plan in the making; `clock` is the time reached."""

    plan: PlanBuilder
    parts: Sequence[Part]
    clock: int = 0

    def __post_init__(self) -> None:
        self.names = [part.names for part in self.parts]

    def tensor(self, g: int, life: Life) -> int:
        """Return the number in the whole graph of the tensor of a life of lane g."""
        return self.parts[g].lane.tensors[life.tensor]

    def free(self, g: int, life: Life, x: int, low: int, high: int, time: int) -> None:
        """Release bytes in a tier, if there are any."""
        if low < high:
            t = self.tensor(g, life)
            self.plan.free(t, self.names[g][x], time, self.plan.part(t, low, high))

    def start(self, g: int, life: Life, low: int, high: int, state: State) -> None:
        """Put bytes where they are at time 0."""
        for x in tiers_of(state):
            t = self.tensor(g, life)
            self.plan.start(t, self.names[g][x], self.plan.part(t, low, high))


def emit(
    parts: Sequence[Part], problem: Placement, expired: Callable[[], bool] = lambda: False
) -> Plan | None:
    """Return the plan of walks; None if its start or a piece, in any number of rounds, does not fit.

    Parameters
    ----------
    parts
        Per lane; each has as many pieces as the others.
    problem
        That of all lanes.
    expired
        Whether the time is up: then there is none.
    """
    out = _Emission(PlanBuilder(problem.graph, problem.machine), parts)
    for g, part in enumerate(parts):
        _start(out, g, part)
    if not _begins(out.plan):
        return None
    for p, piece in enumerate(parts[0].cut.pieces):
        k, starting = piece.op, parts[0].cut.start[piece.op] == p
        ends = [out.clock]
        if piece.run and starting:
            for g, part in enumerate(parts):
                _last_use(out, g, part, k)
        if piece.run and not piece.moment:
            for part in parts:
                ends.append(out.clock + part.cut.data.duration[k])
                out.plan.run(part.lane.ops[k], 0, out.clock, ends[-1], part.lane.processor)
        found = _changes(parts, p)
        rounds = None if expired() else _rounds(out, p, found)
        if rounds is None:
            return None
        _carry_out(out, found, rounds)
        out.clock = max(out.clock, *ends)
        for change in found:
            if change.accessed and change.after[1]:
                out.free(change.g, change.life, 0, change.low, change.high, out.clock)
        if piece.run and not piece.moment:
            for g, part in enumerate(parts):
                _unread(out, g, part, k, ends[1 + g])
    if problem.periodic:
        _around(out)
    return out.plan.plan(period=out.clock if problem.periodic else None)


def _start(out: _Emission, g: int, part: Part) -> None:
    """Put what is there at time 0 where it is; tensors of no bytes into tier 0 at once."""
    span = len(part.cut.pieces)
    for walk in part.walks:
        life = walk.life
        if life.born < 0 or life.lasting:
            for path in walk.paths:
                state = path.state if life.born < 0 else path.at(span)
                out.start(g, life, path.low, path.high, state)
                if life.lasting and not life.ring and _reader(part.cut.data, life) is None:
                    for x in tiers_of(state):  # it is not read any more
                        out.free(g, life, x, path.low, path.high, 0)
    for t, tier, ns in weightless(part.lane.problem):
        out.plan.start(part.lane.tensors[t], tier)
        if tier != out.names[g][0]:
            out.plan.copy(part.lane.tensors[t], tier, out.names[g][0], 0, ns)
            out.clock = max(out.clock, ns)


def _last_use(out: _Emission, g: int, part: Part, k: int) -> None:
    """Release what an op accesses for the last time: outside tier 0; there too, if it need not keep it.

    What it writes has the room of the version before.
    """
    data = part.cut.data
    for walk in part.walks:
        life = walk.life
        if _reader(data, life) != k:
            continue
        for path in walk.paths:
            state = path.events[-1].after if path.events else path.state
            for x in tiers_of(state):
                if x or (data.replace and life.tensor not in data.keeps[k]):
                    out.free(g, life, x, path.low, path.high, out.clock)


def _reader(data: StateData, life: Life) -> int | None:
    """Return the op with whose access a life ends; None if it lasts to the end of the iteration."""
    if not life.accesses or (life.kept and life.accesses[-1] < data.n):
        return None
    return life.accesses[-1] % data.n


def _unread(out: _Emission, g: int, part: Part, k: int, end: int) -> None:
    """Release at the end of an op what it accesses for the last time, and versions that nobody reads."""
    data, graph = part.cut.data, part.lane.problem.graph
    lives = {(life.tensor, life.born) for life in data.lives}
    gone = {t for t in graph.ops[k].writes if (t, k) not in lives}
    if not data.replace:
        gone |= {
            life.tensor
            for life in data.lives
            if _reader(data, life) == k and life.tensor not in graph.ops[k].writes
        }
    for t in sorted(gone):
        if graph.tensors[t].nbytes:
            out.plan.free(part.lane.tensors[t], out.names[g][0], end)
    if data.periodic:
        for t, tensor in enumerate(graph.tensors):
            used = [j for j, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
            if used[-1:] == [k] and not (tensor.nbytes or tensor.initial or tensor.final):
                out.plan.free(part.lane.tensors[t], out.names[g][0], end)


def _changes(parts: Sequence[Part], p: int) -> list[_Change]:
    """Return what changes in a piece."""
    found = []
    for g, part in enumerate(parts):
        ways = [(way.src, way.dst) for way in part.cut.data.ways]
        for number, e in part.cut.inside[p]:
            walk = part.walks[number]
            kept = _kept(part.cut, number, e)
            for path, before, event in walk.steps(e):
                taken = tuple(ways[w] for w in event.ways)
                found.append(_Change(g, walk.life, path.low, path.high, before, taken, event.after, kept))
    return found


def _kept(cut: Cut, number: int, e: int) -> bool:
    """Whether the op of a piece keeps a life in tier 0 to its end."""
    piece = cut.pieces[e % len(cut.pieces)]
    life = cut.data.lives[number]
    return piece.run and any(cut.at(k) <= e < cut.end(k) for k in life.accesses) and not cut.data.replace


def _rounds(out: _Emission, p: int, some: Sequence[_Change]) -> int | None:
    """Return the number of rounds of a piece; None if none fits."""
    parts = out.parts
    if parts[0].cut.pieces[p].moment:
        return 1
    still = [[0] * len(part.names) for part in parts]
    for g, part in enumerate(parts):
        piece = part.cut.pieces[p]
        still[g][0] += part.cut.data.need[piece.op] if piece.run else 0
        for number, e in part.cut.inside[p]:
            accessed, walk = _kept(part.cut, number, e), part.walks[number]
            held = dict(walk.held(e))
            for path, before, _ in walk.steps(e):
                for x in tiers_of(before):
                    held[x] -= path.high - path.low
            for x, nbytes in held.items():
                if x or not accessed:
                    still[g if not x else 0][x] += nbytes
    behind = max([0, *(len(change.ways) for change in some)]) - 1
    least = next((r for r in _powers() if _fits(out, still, some, r)), None)
    if least is None or behind < 1:
        return least
    return min((r for r in _powers() if least <= r <= MORE * least), key=lambda r: (_time(out, some, r), r))


def _powers() -> Iterator[int]:
    rounds = 1
    while rounds <= MOST_ROUNDS:
        yield rounds
        rounds *= 2


def _count(some: Sequence[_Change], rounds: int) -> int:
    """Return how many rounds there are, with those in which copies follow others."""
    return rounds + max([0, *(len(change.ways) - 1 for change in some)])


def _fits(out: _Emission, still: Sequence[Sequence[int]], some: Sequence[_Change], rounds: int) -> bool:
    """Whether all tiers have room in every round."""
    at = np.arange(_count(some, rounds))
    used = [[np.full(len(at), nbytes, dtype=np.int64) for nbytes in row] for row in still]
    for change in some:
        bounds = change.bounds(rounds)
        for x, came, gone in change.tiers():
            if gone == -1 or (not x and change.accessed):
                continue
            row = used[change.g if not x else 0]
            row[x] += change.high if came is None else bounds[np.clip(at - came + 1, 0, rounds)]
            row[x] -= change.low if gone is None else bounds[np.clip(at - gone, 0, rounds)]
    for g, part in enumerate(out.parts):
        for x, capacity in enumerate(part.cut.data.capacity):
            if capacity is not None and (not g or not x) and used[g][x].max(initial=0) > capacity:
                return False
    return True


def _time(out: _Emission, some: Sequence[_Change], rounds: int) -> Fraction:
    """Return about the ns of a piece in so many rounds."""
    total = Fraction(0)
    for number in range(_count(some, rounds)):
        moves = _moves(some, rounds, number)
        total += _length(out, {way: sum(b - a for _, a, b in ranges) for way, ranges in moves.items()})
        total += max((_latency(out, way) for way in moves), default=0)
    return total


Channel = tuple[int, int, int]
"""Number of the lane, tiers from and to."""


def _moves(some: Sequence[_Change], rounds: int, number: int) -> dict[Channel, list[tuple[Life, int, int]]]:
    """Return what the channels carry in a round."""
    found: dict[Channel, list[tuple[Life, int, int]]] = {}
    for change in some:
        for i, (src, dst) in enumerate(change.ways):
            j = number - i
            if 0 <= j < rounds:
                length = change.high - change.low
                low, high = (change.low + length * x // rounds for x in (j, j + 1))
                if low == high:
                    continue
                ranges = found.setdefault((change.g, src, dst), [])
                if ranges and ranges[-1][0] is change.life and ranges[-1][2] == low:
                    ranges[-1] = change.life, ranges[-1][1], high
                else:
                    ranges.append((change.life, low, high))
    return found


def _carry_out(out: _Emission, some: Sequence[_Change], rounds: int) -> None:
    """Release what goes at once, then copy round by round, and set the clock to the end."""
    for change in some:
        for x, _, gone in change.tiers():
            if gone == -1 and (x or not change.accessed):
                out.free(change.g, change.life, x, change.low, change.high, out.clock)
    for number in range(_count(some, rounds) if any(change.ways for change in some) else 0):
        moves = _moves(some, rounds, number)
        nbytes = {way: sum(b - a for _, a, b in ranges) for way, ranges in moves.items()}
        length, begin = _length(out, nbytes), out.clock
        for way, ranges in sorted(moves.items(), key=lambda item: item[0]):
            g, src, dst = way
            latency = _latency(out, way)
            at = begin + latency
            for life, low, high in ranges:
                share = (high - low) * length / nbytes[way]
                end = at - (-share.numerator // share.denominator)
                t = out.tensor(g, life)
                names, part = out.names[g], out.plan.part(t, low, high)
                out.plan.copy(t, names[src], names[dst], at - latency, end, part)
                at = end
            out.clock = max(out.clock, at)
        for change in some:
            for x, _, gone in change.tiers():
                if gone is not None and gone >= 0 and (x or not change.accessed):
                    j = number - gone
                    if 0 <= j < rounds:
                        low, high = (int(b) for b in change.bounds(rounds)[j : j + 2])
                        out.free(change.g, change.life, x, low, high, out.clock)


def _latency(out: _Emission, way: Channel) -> int:
    g, src, dst = way
    return next(w.latency for w in out.parts[g].cut.data.ways if (w.src, w.dst) == (src, dst))


def _length(out: _Emission, nbytes: dict[Channel, int]) -> Fraction:
    """Return the ns in which all channels together can carry these bytes."""
    times, by_pair = [Fraction(0)], dict[tuple[str, str], int]()
    for (g, src, dst), moved in nbytes.items():
        rate = next(w.rate for w in out.parts[g].cut.data.ways if (w.src, w.dst) == (src, dst))
        times.append(Fraction(moved * SECOND, rate))
        pair = out.names[g][src], out.names[g][dst]
        by_pair[pair] = by_pair.get(pair, 0) + moved
    for group in out.plan.machine.groups:
        moved = sum(by_pair.get(pair, 0) for pair in group.channels)
        times.append(Fraction(moved * SECOND, group.bytes_per_s))
    return max(times)


def _around(out: _Emission) -> None:
    """Let what goes on and is released as the period ends be released as the next one begins.

    Where it may not be there then, or finds no room, the period lasts a ns longer.
    """
    lasting = {
        part.lane.tensors[life.tensor] for part in out.parts for life in part.cut.data.lives if life.lasting
    }
    plan, tensors = out.plan, out.plan.graph.tensors
    late = [i for i, x in enumerate(plan.frees) if x.time == out.clock and x.tensor in lasting]
    allowed = out.parts[0].lane.problem.may_start
    barred = any(x.tier not in allowed(tensors[x.tensor].kind) for x in (plan.frees[i] for i in late))
    if barred or not _begins(plan, [plan.frees[i] for i in late]):
        out.clock += 1
        return
    for i in late:
        free = plan.frees[i]
        plan.frees[i] = replace(free, time=0)
        plan.start(free.tensor, free.tier, free.bytes)


def _begins(plan: PlanBuilder, more: Sequence[Free] = ()) -> bool:
    """Whether what is there at time 0 fits, with what these release."""
    room = {tier.name: tier.capacity for tier in plan.machine.tiers if tier.capacity is not None}
    there: list[Resident | Free] = [*plan.residents, *more]
    for x in there:
        if x.tier in room:
            low, high = x.bytes or (0, plan.graph.tensors[x.tensor].nbytes)
            room[x.tier] -= high - low
    return min(room.values(), default=0) >= 0
