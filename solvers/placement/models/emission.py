"""From walks over whole bytes to a plan in whole ns: rounds in which channels copy side by side.

A *walk* says how many bytes of a life are absent and held at each of its instants (`slots_lp`). The
processors of several lanes go in step: op number k of each starts when all that belongs to op k - 1 is
through.

1. Each piece is cut into the least number of rounds, a power of two, in which the integers fit.
2. In a round each channel moves its bytes one copy after another, at such rates that all channels end
   together, as fast as rates and caps allow; copies end at whole ns. A round begins when the one before has
   ended, an op when the last round before it has.
3. Between rounds memory is released: in the fast memory what has a copy elsewhere, outside it what nobody
   needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ....formulations.linear_program import SECOND
from ....formulations.placement.data import Lifetime, PlacementData
from ....formulations.placement.lanes import Lane
from ....formulations.placement.states import weightless
from ....formulations.placement.walks import Bytes, Walk
from ....models.lowering.builder import PlanBuilder
from ....models.plan import Plan
from ....models.problems.placement import Placement

MOST_ROUNDS = 2**12

Way = tuple[int, bool, int]
"""A channel: number of the lane, whether it leads outwards, outer tier."""


@dataclass(frozen=True, eq=False)
class Part:
    """What a lane does: its data and a walk for each of its lives."""

    lane: Lane
    data: PlacementData
    walks: Sequence[Walk]


@dataclass(frozen=True, eq=False)
class _Step:
    """What a life does in a round: absent and held bytes before and behind it."""

    life: Lifetime
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

    plan: PlanBuilder
    parts: Sequence[Part]
    clock: int = 0

    def tier(self, g: int, x: int) -> str:
        """Return the name of an outer tier; of the fast memory of lane g, if x is -1."""
        return self.parts[g].lane.problem.machine.tiers[x + 1].name

    def tensor(self, g: int, t: int) -> int:
        """Return the number in the whole graph of tensor t of lane g."""
        return self.parts[g].lane.tensors[t]

    def free(self, g: int, life: Lifetime, x: int, part: tuple[int, int], time: int) -> None:
        """Release bytes in a tier, if there are any."""
        if part[0] < part[1]:
            t = self.tensor(g, life.tensor)
            self.plan.free(t, self.tier(g, x), time, self.plan.part(t, *part))


def emit(parts: Sequence[Part], problem: Placement) -> Plan | None:
    """Return the plan of walks; None if a piece does not fit in any number of rounds.

    Parameters
    ----------
    parts
        Per lane; each has as many ops as the others, and at most two outer tiers.
    problem
        That of all lanes.
    """
    out = _Emission(PlanBuilder(problem.graph, problem.machine), parts)
    for g, part in enumerate(parts):
        _start(out, g, part)
    ending = [_ending(part.walks) for part in parts]
    goes_on = [{(w.life.tensor, w.life.born) for w in part.walks} for part in parts]
    for p in range(2 * parts[0].data.n):
        k, run = divmod(p, 2)
        begin, ends = out.clock, []
        if run:
            for g, part in enumerate(parts):
                ends.append(begin + part.data.duration[k])
                out.plan.run(part.lane.ops[k], 0, begin, ends[g], part.lane.processor)
                for w in ending[g].get(k, ()):
                    for x, h in enumerate(w.at(p)[1]):
                        out.free(g, w.life, x, _outer_part(w.life, x, 0, h), begin)
        rounds = _rounds(parts, p)
        if rounds is None:
            return None
        for steps in rounds:
            _move(out, steps)
        if run:
            out.clock = max(out.clock, *ends)
            for g, part in enumerate(parts):
                for w in part.walks:
                    if p in w.held and k in w.life.accesses:
                        absent, held = w.at(p + 1)
                        _release(out, g, [_Step(w.life, (0,) * len(absent), held, absent, held)])
                own = part.lane.problem.graph
                writes = own.ops[k].writes
                gone = {w.life.tensor for w in ending[g].get(k, ())} - set(writes)
                gone |= {t for t in writes if (t, k) not in goes_on[g]}
                device = out.tier(g, -1)
                for t in sorted(gone):
                    if own.tensors[t].nbytes:
                        out.plan.free(out.tensor(g, t), device, ends[g])
    return out.plan.plan()


def _ending(walks: Iterable[Walk]) -> dict[int, list[Walk]]:
    """Return the walks by the op behind which nobody needs the life."""
    found: dict[int, list[Walk]] = {}
    for w in walks:
        if not w.life.kept:
            found.setdefault(w.life.accesses[-1], []).append(w)
    return found


def _start(out: _Emission, g: int, part: Part) -> None:
    """Put what is there at time 0 where it is; tensors of no bytes into the fast memory at once."""
    for w in part.walks:
        life = w.life
        if life.born >= 0:
            continue
        absent, held = w.at(0)
        ranges = [(-1, _present(life, absent))]
        ranges += [(x, _outer_part(life, x, 0, h)) for x, h in enumerate(held)]
        for x, some in ranges:
            if some[0] < some[1]:
                t = out.tensor(g, life.tensor)
                out.plan.start(t, out.tier(g, x), out.plan.part(t, *some))
    device = out.tier(g, -1)
    for t, tier, ns in weightless(part.lane.problem):
        out.plan.start(out.tensor(g, t), tier)
        if tier != device:
            out.plan.copy(out.tensor(g, t), tier, device, 0, ns)
            out.clock = max(out.clock, ns)


def _rounds(parts: Sequence[Part], p: int) -> list[list[list[_Step]]] | None:
    """Return the rounds of a piece: for each and each lane, what the lives do; None if nothing fits."""
    k, run = divmod(p, 2)
    outer = parts[0].data.outer
    outside = [0 for _ in outer]
    still, changing = [], []
    for part in parts:
        here = part.data.need[k] if run else 0
        some = []
        for w in part.walks:
            if p not in w.held:
                continue
            (absent, held), (absent_then, held_then) = w.at(p), w.at(p + 1)
            accessed = bool(run) and k in w.life.accesses
            whole = _Step(w.life, absent, held, absent if accessed else absent_then, held_then, accessed)
            if whole.changes:
                some.append(whole)
            else:
                here += whole.occupied
                outside = [u + h for u, h in zip(outside, held, strict=True)]
        still.append(here)
        changing.append(some)
    rounds = 1
    while rounds <= MOST_ROUNDS:
        found = [[[_part_of(step, j, rounds) for step in some] for some in changing] for j in range(rounds)]
        if all(
            _fits(parts, still, steps) and _fits_outside(parts[0].data, outside, steps) for steps in found
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


def _fits(parts: Sequence[Part], still: Sequence[int], steps: Sequence[Sequence[_Step]]) -> bool:
    """Whether each fast memory has room for a round."""
    return all(
        rest + sum(s.occupied for s in some) <= part.data.memory
        for part, rest, some in zip(parts, still, steps, strict=True)
    )


def _fits_outside(data: PlacementData, still: Sequence[int], steps: Sequence[Sequence[_Step]]) -> bool:
    """Whether the outer tiers have room for a round, and the bytes of each life lie right."""
    every = [s for some in steps for s in some]
    for x, tier in enumerate(data.outer):
        used = still[x] + sum(max(s.held[x], s.held_then[x]) for s in every)
        if tier.capacity is not None and used > tier.capacity:
            return False
    return all(s.fits_in_row() for s in every)


def _move(out: _Emission, steps: Sequence[Sequence[_Step]]) -> None:
    """Copy what a round copies, then release what it releases, and set the clock to its end."""
    moves: dict[Way, list[tuple[Lifetime, tuple[int, int]]]] = {}
    for g, some in enumerate(steps):
        for s in some:
            for x in range(len(s.held)):
                if s.absent_then[x] < s.absent[x]:
                    part = _outer_part(s.life, x, s.absent_then[x], s.absent[x])
                    moves.setdefault((g, False, x), []).append((s.life, part))
                if s.held_then[x] > s.held[x]:
                    part = _outer_part(s.life, x, s.held[x], s.held_then[x])
                    moves.setdefault((g, True, x), []).append((s.life, part))
    nbytes = {way: sum(b - a for _, (a, b) in ranges) for way, ranges in moves.items()}
    length = _length(out, nbytes)
    begin = out.clock
    for (g, outward, x), ranges in sorted(moves.items(), key=lambda item: item[0]):
        tier = out.parts[g].data.outer[x]
        link = tier.out if outward else tier.into
        src, dst = (-1, x) if outward else (x, -1)
        at = begin + link.latency
        for life, (low, high) in ranges:
            share = (high - low) * length / nbytes[g, outward, x]
            end = at - (-share.numerator // share.denominator)
            t = out.tensor(g, life.tensor)
            some_bytes = out.plan.part(t, low, high)
            out.plan.copy(t, out.tier(g, src), out.tier(g, dst), at - link.latency, end, some_bytes)
            at = end
        out.clock = max(out.clock, at)
    for g, some in enumerate(steps):
        _release(out, g, some)


def _release(out: _Emission, g: int, steps: Sequence[_Step]) -> None:
    """Release now what is absent or no longer held behind some steps."""
    for s in steps:
        for x in range(len(s.held)):
            if s.absent_then[x] > s.absent[x]:
                out.free(g, s.life, -1, _outer_part(s.life, x, s.absent[x], s.absent_then[x]), out.clock)
            if s.held_then[x] < s.held[x]:
                out.free(g, s.life, x, _outer_part(s.life, x, s.held_then[x], s.held[x]), out.clock)


def _length(out: _Emission, nbytes: dict[Way, int]) -> Fraction:
    """Return the ns in which all channels together can carry these bytes."""
    times, by_pair = [], dict[tuple[str, str], int]()
    for (g, outward, x), moved in nbytes.items():
        tier = out.parts[g].data.outer[x]
        times.append(Fraction(moved * SECOND, (tier.out if outward else tier.into).rate))
        device, other = out.tier(g, -1), out.tier(g, x)
        by_pair[(device, other) if outward else (other, device)] = moved
    for group in out.plan.machine.groups:
        moved = sum(by_pair.get(pair, 0) for pair in group.channels)
        times.append(Fraction(moved * SECOND, group.bytes_per_s))
    return max(times, default=Fraction(0))


def _outer_part(life: Lifetime, x: int, less: int, more: int) -> tuple[int, int]:
    """Return the bytes by which `more` bytes at the end of the row of outer tier x exceed `less`."""
    return (less, more) if x == 0 else (life.nbytes - more, life.nbytes - less)


def _present(life: Lifetime, absent: Bytes) -> tuple[int, int]:
    """Return the bytes in the fast memory: behind the first absent ones, before the last ones."""
    return (absent[0] if absent else 0), life.nbytes - (absent[1] if len(absent) > 1 else 0)
