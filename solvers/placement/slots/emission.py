"""From paths of whole bytes to a plan in whole ns: rounds in which channels copy side by side.

A *path* says in which tiers some bytes of a life are at each instant (`paths`). The processors of several
lanes go in step: op number k of each starts when all that belongs to op k - 1 is through.

1. Each piece is cut into the least number of rounds, a power of two, in which the integers fit; where copies
   follow each other within the piece, into the number with which that takes least time.
2. In each round an equal part of every path that changes in the piece begins to do so; a copy that follows
   another one comes in the round behind it. Each channel moves its bytes one copy after another, at such
   rates that all channels end together, as fast as rates and caps allow; copies end at whole ns. Where a
   round would last longer for that, those copies that do not end at whole ns by themselves go side by side.
   A round begins when the one before has ended, an op when the last round before it has.
3. What need not be in a tier any more, nor be copied from there, is released before the first round; the
   source of a copy at the end of its round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from ....formulations.placement.paths import State, tiers_of
from ....formulations.placement.states import Life, StateData
from ....formulations.placement.weightless import with_weightless
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Free, Plan, Resident
from ....models.problems.placement import Placement
from .rounds import Change, LanePart, changes, count, latency, length, moves, number_of_rounds


@dataclass
class _SlotEmission:
    """The plan in the making; `clock` is the time reached."""

    plan: PlanBuilder
    parts: Sequence[LanePart]
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
    parts: Sequence[LanePart], problem: Placement, expired: Callable[[], bool] = lambda: False
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
    out = _SlotEmission(PlanBuilder(problem.graph, problem.machine), parts)
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
        changed = changes(parts, p)
        rounds = None if expired() else number_of_rounds(parts, out.plan.machine.groups, p, changed)
        if rounds is None:
            return None
        _carry_out(out, changed, rounds)
        out.clock = max(out.clock, *ends)
        for change in changed:
            if change.accessed and change.after[1]:
                out.free(change.g, change.life, 0, change.low, change.high, out.clock)
        if piece.run and not piece.moment:
            for g, part in enumerate(parts):
                _unread(out, g, part, k, ends[1 + g])
    if problem.periodic:
        _around(out)
    plan = out.plan.plan(period=out.clock if problem.periodic else None)
    for part in parts:
        plan = with_weightless(plan, part.lane.problem, part.lane.ops, part.lane.tensors)
    return plan


def _start(out: _SlotEmission, g: int, part: LanePart) -> None:
    """Put what is there at time 0 where it is."""
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


def _last_use(out: _SlotEmission, g: int, part: LanePart, k: int) -> None:
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


def _unread(out: _SlotEmission, g: int, part: LanePart, k: int, end: int) -> None:
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


def _carry_out(out: _SlotEmission, changed: Sequence[Change], rounds: int) -> None:
    """Release what goes at once, then copy round by round, and set the clock to the end."""
    for change in changed:
        for x, _, gone in change.tiers():
            if gone == -1 and (x or not change.accessed):
                out.free(change.g, change.life, x, change.low, change.high, out.clock)
    for number in range(count(changed, rounds) if any(change.ways for change in changed) else 0):
        carried = moves(changed, rounds, number)
        nbytes = {channel: sum(b - a for _, a, b in ranges) for channel, ranges in carried.items()}
        taken, begin = length(out.parts, out.plan.machine.groups, nbytes), out.clock
        for channel, ranges in sorted(carried.items(), key=lambda item: item[0]):
            g, src, dst = channel
            wait = latency(out.parts, channel)
            at = begin + wait
            for turn, ns in _turns(ranges, taken / nbytes[channel]):
                for life, low, high in turn:
                    t = out.tensor(g, life)
                    names, part = out.names[g], out.plan.part(t, low, high)
                    out.plan.copy(t, names[src], names[dst], at - wait, at + ns, part)
                at += ns
            out.clock = max(out.clock, at)
        for change in changed:
            for x, _, gone in change.tiers():
                if gone is not None and gone >= 0 and (x or not change.accessed):
                    j = number - gone
                    if 0 <= j < rounds:
                        low, high = (int(b) for b in change.bounds(rounds)[j : j + 2])
                        out.free(change.g, change.life, x, low, high, out.clock)


def _turns(
    ranges: Sequence[tuple[Life, int, int]], per_byte: Fraction
) -> list[tuple[Sequence[tuple[Life, int, int]], int]]:
    """Return which copies of a channel go side by side, turn by turn, and the ns of each turn."""
    exact = [(high - low) * per_byte for _, low, high in ranges]
    if sum(map(ceil, exact)) <= ceil(sum(exact)):
        return [([some], ceil(ns)) for some, ns in zip(ranges, exact, strict=True)]
    turns: list[tuple[Sequence[tuple[Life, int, int]], int]] = [
        ([some], int(ns)) for some, ns in zip(ranges, exact, strict=True) if ns.denominator == 1
    ]
    beside = [some for some, ns in zip(ranges, exact, strict=True) if ns.denominator > 1]
    return [*turns, (beside, ceil(sum(ns for ns in exact if ns.denominator > 1)))]


def _around(out: _SlotEmission) -> None:
    """Let what goes on and is released as the period ends be released as the next one begins.

    Where it may not be there then, or finds no room, the period lasts a ns longer.
    """
    lasting = {
        part.lane.tensors[life.tensor] for part in out.parts for life in part.cut.data.lives if life.lasting
    }
    plan, tensors = out.plan, out.plan.graph.tensors
    lasting_frees = [i for i, x in enumerate(plan.frees) if x.time == out.clock and x.tensor in lasting]
    allowed = out.parts[0].lane.problem.may_start
    barred = any(
        x.tier not in allowed(tensors[x.tensor].kind) for x in (plan.frees[i] for i in lasting_frees)
    )
    if barred or not _begins(plan, [plan.frees[i] for i in lasting_frees]):
        out.clock += 1
        return
    for i in lasting_frees:
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
