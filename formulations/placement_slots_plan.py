"""From values of the slot model to a plan in whole bytes and nanoseconds.

What is absent and what is held are rounded up, so memories are never fuller than in the program but for what
is on its way. Each life of the model is then a walk over integers, how many bytes are absent and held at each
instant, from which everything else follows:

1. What is held and never needed again is left out: at each instant, the most that is absent from there on.
2. Each piece is cut into the least number of rounds, a power of two, in which the integers fit.
3. In a round each channel moves its bytes one copy after another, at such rates that all channels end
   together, as fast as rates and caps allow; copies end at whole ns. A round begins when the one before has
   ended, an op when the last round before it has.
4. Between rounds memory is released: in the fast memory what has a copy elsewhere, outside it what nobody
   needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from ..models.placement import Placement
from ..models.plan import ByteRange, Copy, Free, Plan, Resident, Run
from .linear_program import SECOND
from .placement_data import Life, PlacementData, may_start
from .placement_slots import SlotProgram, instants

MOST_ROUNDS = 2**12

Bytes = tuple[int, ...]
"""By outer tier."""


@dataclass(frozen=True, eq=False)
class Walk:
    """A life: bytes absent and held at each of its instants."""

    life: Life
    absent: dict[int, Bytes]
    held: dict[int, Bytes]

    def at(self, e: int) -> tuple[Bytes, Bytes]:
        """Return what is absent and held; behind the last instant nothing is absent, and copies stay."""
        if e in self.held:
            return self.absent[e], self.held[e]
        last = self.held[e - 1]
        return (0,) * len(last), last


@dataclass(frozen=True, eq=False)
class _Step:
    """What a life does in a round: absent and held bytes before and behind it."""

    life: Life
    absent: Bytes
    held: Bytes
    absent_then: Bytes
    held_then: Bytes
    accessed: bool = False
    """Whether the op that runs accesses it: then the op's need counts it."""

    @property
    def changes(self) -> bool:
        """Whether anything moves."""
        return (self.absent, self.held) != (self.absent_then, self.held_then)

    @property
    def occupied(self) -> int:
        """Bytes of the fast memory in use: what is there, and what is on its way."""
        if self.accessed:
            return 0
        arriving = sum(max(0, a - b) for a, b in zip(self.absent, self.absent_then, strict=True))
        return self.life.nbytes - sum(self.absent) + arriving

    def fits_in_row(self) -> bool:
        """Whether what is copied to one of two outer tiers is present until the round ends."""
        if len(self.held) < 2:
            return True
        return all(
            self.held_then[x] <= self.held[x] or self.held_then[x] + self.absent[1 - x] <= self.life.nbytes
            for x in (0, 1)
        )


@dataclass
class _Emission:
    """The plan in the making; `clock` is the time reached."""

    problem: Placement
    clock: int = 0
    start: list[Resident] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    frees: list[Free] = field(default_factory=list)

    def tier(self, x: int) -> str:
        """Return the name of an outer tier; of the fast memory, if x is -1."""
        return self.problem.machine.tiers[x + 1].name

    def free(self, life: Life, x: int, part: tuple[int, int], time: int) -> None:
        """Release bytes in a tier, if there are any."""
        if part[0] < part[1]:
            self.frees.append(Free(life.tensor, self.tier(x), time, _range(life, part)))


def decode(slots: SlotProgram, values: Sequence[float], problem: Placement) -> Plan | None:
    """Return the plan that the values of a program with rounds stand for; None if rounding breaks it.

    Parameters
    ----------
    slots, values
        The program, and the values of its columns.
    problem
        Whose plan it is; its machine has at most two outer tiers.
    """
    return emit(slots.data, [walk(slots, values, i) for i in range(len(slots.data.lives))], problem)


def walk(slots: SlotProgram, values: Sequence[float], number: int) -> Walk:
    """Round the values of a life."""
    data, life = slots.data, slots.data.lives[number]
    tiers = range(len(data.outer))
    near = min(life.nbytes // 10**6, 10**4)

    def rounded(column: int | None) -> int:
        if column is None:
            return 0
        value = values[column]
        whole = round(value) if abs(value - round(value)) < 1e-3 else int(value) + 1
        return 0 if whole <= near else life.nbytes if whole >= life.nbytes - near else whole

    absent, held = {}, {}
    for e in instants(data, life):
        away = [rounded(slots.absent.get((number, e, x))) for x in tiers]
        if away:
            most = max(tiers, key=lambda x: away[x])
            must = e == 0 and not life.device
            away[most] += life.nbytes - sum(away) if must else min(0, life.nbytes - sum(away))
        absent[e] = tuple(away)
        held[e] = tuple(max(away[x], rounded(slots.held.get((number, e, x)))) for x in tiers)
    if len(tiers) == 2:
        _keep_apart(life.nbytes, absent, held)
    needed = [0 for _ in tiers]
    for e in reversed(instants(data, life)):
        needed = [max(m, a) for m, a in zip(needed, absent[e], strict=True)]
        held[e] = tuple(min(h, m) for h, m in zip(held[e], needed, strict=True))
    return Walk(life, absent, held)


def _keep_apart(nbytes: int, absent: dict[int, Bytes], held: dict[int, Bytes]) -> None:
    """Take off what rounding has made overlap: held bytes of one tier, and absent ones of the other (6)."""
    for e in sorted(held):
        before = e - 1 if e - 1 in held else e
        most = [
            max(nbytes - max(absent[e][1 - x], absent[before][1 - x]), held[before][x] if before < e else 0)
            for x in (0, 1)
        ]
        held[e] = tuple(min(h, m) for h, m in zip(held[e], most, strict=True))
        absent[e] = tuple(min(a, h) for a, h in zip(absent[e], held[e], strict=True))


def emit(data: PlacementData, walks: Sequence[Walk], problem: Placement) -> Plan | None:
    """Return the plan of walks; None if a piece does not fit in any number of rounds."""
    out = _Emission(problem)
    graph = problem.graph
    _start(out, walks)
    ending: dict[int, list[Walk]] = {}
    for w in walks:
        if not w.life.kept:
            ending.setdefault(w.life.accesses[-1], []).append(w)
    goes_on = {(w.life.tensor, w.life.born) for w in walks}
    for p in range(2 * data.n):
        k, run = divmod(p, 2)
        begin = out.clock
        if run:
            end = begin + data.duration[k]
            out.runs.append(Run(k, 0, begin, end, problem.machine.processors[0].name))
            for w in ending.get(k, ()):
                for x, h in enumerate(w.at(p)[1]):
                    out.free(w.life, x, _outer_part(w.life, x, 0, h), begin)
        here = [w for w in walks if p in w.held]
        used = [w for w in here if run and k in w.life.accesses]
        rounds = _rounds(data, p, here, used)
        if rounds is None:
            return None
        for steps in rounds:
            _move(out, data, steps)
        if run:
            out.clock = max(out.clock, end)
            for w in used:
                absent, held = w.at(p + 1)
                _release(out, [_Step(w.life, (0,) * len(absent), held, absent, held)])
            op = graph.ops[k]
            gone = {w.life.tensor for w in ending.get(k, ())} - set(op.writes)
            gone |= {t for t in op.writes if (t, k) not in goes_on and not graph.tensors[t].final}
            device = out.tier(-1)
            out.frees += [Free(t, device, end) for t in sorted(gone) if graph.tensors[t].nbytes]
    return Plan(
        machine=problem.machine,
        accounting=graph.accounting,
        start=tuple(out.start),
        runs=tuple(out.runs),
        copies=tuple(out.copies),
        frees=tuple(out.frees),
        graph_name=graph.name,
        graph_source=graph.source,
        graph_sha256=graph.sha256,
    )


def _start(out: _Emission, walks: Sequence[Walk]) -> None:
    """Put what is there at time 0 where it is; tensors of no bytes into the fast memory at once."""
    for w in walks:
        life = w.life
        if life.born >= 0:
            continue
        absent, held = w.at(0)
        parts = [(-1, _present(life, absent))]
        parts += [(x, _outer_part(life, x, 0, h)) for x, h in enumerate(held)]
        for x, part in parts:
            if part[0] < part[1]:
                out.start.append(Resident(life.tensor, out.tier(x), _range(life, part)))
    device = out.tier(-1)
    latency = {c.src: c.latency_ns for c in out.problem.machine.channels if c.dst == device}
    for t, tensor in enumerate(out.problem.graph.tensors):
        if tensor.initial and not tensor.nbytes:
            allowed = may_start(out.problem, tensor.kind)
            tier = device if device in allowed else allowed[0]
            out.start.append(Resident(t, tier))
            if tier != device:
                out.copies.append(Copy(t, tier, device, 0, latency[tier]))
                out.clock = max(out.clock, latency[tier])


def _rounds(
    data: PlacementData, p: int, here: Sequence[Walk], used: Sequence[Walk]
) -> list[list[_Step]] | None:
    """Return the rounds of a piece: for each, what the lives do that change; None if nothing fits.

    Parameters
    ----------
    data, p
        The piece.
    here, used
        Lives with an instant at its beginning; those of them that the op accesses, which stay while it runs.
    """
    k, run = divmod(p, 2)
    still = data.need[k] if run else 0
    outside = [0 for _ in data.outer]
    changing = []
    for w in here:
        (absent, held), (absent_then, held_then) = w.at(p), w.at(p + 1)
        accessed = w in used
        whole = _Step(w.life, absent, held, absent if accessed else absent_then, held_then, accessed)
        if whole.changes:
            changing.append(whole)
        else:
            still += whole.occupied
            outside = [u + h for u, h in zip(outside, held, strict=True)]
    rounds = 1
    while rounds <= MOST_ROUNDS:
        found = [[_part_of(step, j, rounds) for step in changing] for j in range(rounds)]
        if all(
            still + sum(s.occupied for s in steps) <= data.memory and _fits_outside(data, outside, steps)
            for steps in found
        ):
            return found
        rounds *= 2
    return None


def _part_of(step: _Step, j: int, rounds: int) -> _Step:
    """Return round j of a piece: absent bytes rounded down, held ones up."""

    def between(a: Bytes, b: Bytes, i: int, sign: int) -> Bytes:
        return tuple(u + sign * (sign * (v - u) * i // rounds) for u, v in zip(a, b, strict=True))

    return _Step(
        step.life,
        between(step.absent, step.absent_then, j, 1),
        between(step.held, step.held_then, j, -1),
        between(step.absent, step.absent_then, j + 1, 1),
        between(step.held, step.held_then, j + 1, -1),
        step.accessed,
    )


def _fits_outside(data: PlacementData, still: Sequence[int], steps: Sequence[_Step]) -> bool:
    """Whether the outer tiers have room for a round, and the bytes of each life lie right."""
    for x, tier in enumerate(data.outer):
        used = still[x] + sum(max(s.held[x], s.held_then[x]) for s in steps)
        if tier.capacity is not None and used > tier.capacity:
            return False
    return all(s.fits_in_row() for s in steps)


def _move(out: _Emission, data: PlacementData, steps: Sequence[_Step]) -> None:
    """Copy what a round copies, then release what it releases, and set the clock to its end."""
    moves: dict[tuple[bool, int], list[tuple[Life, tuple[int, int]]]] = {}
    for s in steps:
        for x in range(len(data.outer)):
            if s.absent_then[x] < s.absent[x]:
                part = _outer_part(s.life, x, s.absent_then[x], s.absent[x])
                moves.setdefault((False, x), []).append((s.life, part))
            if s.held_then[x] > s.held[x]:
                part = _outer_part(s.life, x, s.held[x], s.held_then[x])
                moves.setdefault((True, x), []).append((s.life, part))
    nbytes = {key: sum(b - a for _, (a, b) in some) for key, some in moves.items()}
    length = _length(data, nbytes)
    begin = out.clock
    for (outward, x), some in sorted(moves.items(), key=lambda item: item[0]):
        link = data.outer[x].out if outward else data.outer[x].into
        src, dst = (-1, x) if outward else (x, -1)
        at = begin + link.latency
        for life, (low, high) in some:
            share = (high - low) * length / nbytes[outward, x]
            end = at - (-share.numerator // share.denominator)
            out.copies.append(
                Copy(
                    life.tensor,
                    out.tier(src),
                    out.tier(dst),
                    at - link.latency,
                    end,
                    _range(life, (low, high)),
                )
            )
            at = end
        out.clock = max(out.clock, at)
    _release(out, steps)


def _release(out: _Emission, steps: Sequence[_Step]) -> None:
    """Release now what is absent or no longer held behind some steps."""
    for s in steps:
        for x in range(len(s.held)):
            if s.absent_then[x] > s.absent[x]:
                out.free(s.life, -1, _outer_part(s.life, x, s.absent[x], s.absent_then[x]), out.clock)
            if s.held_then[x] < s.held[x]:
                out.free(s.life, x, _outer_part(s.life, x, s.held_then[x], s.held[x]), out.clock)


def _length(data: PlacementData, nbytes: dict[tuple[bool, int], int]) -> Fraction:
    """Return the ns in which all channels together can carry these bytes."""
    times = [
        Fraction(moved * SECOND, (data.outer[x].out if outward else data.outer[x].into).rate)
        for (outward, x), moved in nbytes.items()
    ]
    for cap in data.caps:
        moved = sum(nbytes.get((True, x), 0) for x in cap.out)
        moved += sum(nbytes.get((False, x), 0) for x in cap.into)
        times.append(Fraction(moved * SECOND, cap.rate))
    return max(times, default=Fraction(0))


def _range(life: Life, part: tuple[int, int]) -> ByteRange | None:
    """Return a byte range; None for the whole tensor."""
    return None if part == (0, life.nbytes) else part


def _outer_part(life: Life, x: int, less: int, more: int) -> tuple[int, int]:
    """Return the bytes by which `more` bytes at the end of the row of outer tier x exceed `less`."""
    return (less, more) if x == 0 else (life.nbytes - more, life.nbytes - less)


def _present(life: Life, absent: Bytes) -> tuple[int, int]:
    """Return the bytes in the fast memory: behind the first absent ones, before the last ones."""
    return (absent[0] if absent else 0), life.nbytes - (absent[1] if len(absent) > 1 else 0)
