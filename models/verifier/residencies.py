"""Residencies: which bytes of a tensor a plan keeps in a tier, from when to when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter

from ..errors import InstanceError
from ..graph import Accounting
from .actions import Actions, RunItem
from .byte_ranges import ByteRanges
from .case import Case

Interval = tuple[int, int]
Place = tuple[int, int]
"""A tier and a tensor."""


@dataclass(frozen=True, slots=True)
class Residency:
    """Bytes ``[low, high)`` of a tensor in a tier over ``[lower, upper)`` but for the gaps.

    A `lower` of `CARRIED`: they are there when the plan or the period begins. Not `released`: they stay to
    the end of the plan or period.
    """

    tensor: int
    tier: int
    lower: int
    upper: int
    gaps: tuple[Interval, ...]
    low: int
    high: int
    released: bool = True


CARRIED = -1
"""The time of allocation of what is there when the plan (or the period) begins."""


def _write_tier(case: Case, run: RunItem, tensor: int) -> int:
    return run.tiers.get(tensor, case.processors[run.processor].home)


def residencies(case: Case, actions: Actions) -> list[Residency]:
    """Follow allocations and releases; return the residencies by tensor, tier, time and bytes."""
    period = case.period
    held: dict[Place, ByteRanges] = {}
    closed: list[Residency] = []
    # (time, phase, tier, tensor, low, high); phase 0: copies that take no time, 1: frees, 2: starts
    events: list[tuple[int, int, int, int, int, int]] = []
    for entry in actions.start:
        _allocate(held, entry.tier, entry.tensor, entry.low, entry.high, CARRIED)
    for run in actions.runs:
        for t, _ in case.writes[run.op]:
            events.append((run.start, 2, _write_tier(case, run, t), t, 0, case.span[t]))
    for copy in actions.copies:
        phase = 0 if copy.start == copy.end else 2
        events.append((copy.start, phase, copy.dst, copy.tensor, copy.low, copy.high))
        if period is not None and copy.end > period:
            _allocate(held, copy.dst, copy.tensor, copy.low, copy.high, CARRIED)
    for free in actions.frees:
        events.append((free.time, 1, free.tier, free.tensor, free.low, free.high))
    for time, phase, k, t, low, high in sorted(events):
        if phase != 1:
            _allocate(held, k, t, low, high, time)
            continue
        ranges = held.setdefault((k, t), ByteRanges())
        for a, b, since in ranges.pieces(low, high):
            closed.append(Residency(t, k, since, time, (), a, b))
        if ranges.replace(low, high, None) < high - low:
            raise InstanceError(
                f"free of {case.part(t, low, high)} at {time} ns: found bytes that are not in tier "
                f"{case.tiers[k]!r}, expected them allocated"
            )
    ends = [r.end for r in actions.runs] + [c.end for c in actions.copies]
    horizon = max([1, *ends, *(f.time for f in actions.frees)]) if period is None else period
    left = [
        Residency(t, k, since, horizon, (), a, b, released=False)
        for (k, t), ranges in held.items()
        for a, b, since in ranges
    ]
    joined = closed + left if period is None else _around_the_period(case, closed, left)
    return _maximal(case, joined)


def _allocate(held: dict[Place, ByteRanges], k: int, t: int, low: int, high: int, time: int) -> None:
    ranges = held.setdefault((k, t), ByteRanges())
    for a, b in ranges.gaps(low, high):
        ranges.replace(a, b, time)


def _around_the_period(case: Case, closed: list[Residency], left: list[Residency]) -> list[Residency]:
    """Join what is left at the period's end with what was there at its beginning, byte by byte.

    Only tensors that are both initial and final live on; the others are made anew.
    """
    left_at: dict[Place, ByteRanges] = {}
    for r in left:
        left_at.setdefault((r.tier, r.tensor), ByteRanges()).replace(r.low, r.high, 0)
    listed: list[Residency] = []
    released_at: dict[Place, ByteRanges] = {}
    for r in closed:
        tensor = case.graph.tensors[r.tensor]
        place = (r.tier, r.tensor)
        if r.lower != CARRIED or not (tensor.initial and tensor.final):
            listed.append(r)
            continue
        released_at.setdefault(place, ByteRanges()).replace(r.low, r.high, r.upper)
        gone = left_at.get(place, ByteRanges()).gaps(r.low, r.high)
        listed += [replace(r, low=a, high=b) for a, b in gone]
    for r in left:
        released = released_at.get((r.tier, r.tensor), ByteRanges())
        for a, b, time in released.pieces(r.low, r.high):
            gaps = ((time, r.lower),) if time < r.lower else ()
            listed.append(replace(r, lower=CARRIED, gaps=gaps, low=a, high=b))
        listed += [replace(r, low=a, high=b) for a, b in released.gaps(r.low, r.high)]
    return listed


def _maximal(case: Case, residencies: list[Residency]) -> list[Residency]:
    """Merge neighbouring bytes with the same lifetime; leave out empty lifetimes and sizes."""
    merged: list[Residency] = []
    for r in sorted(residencies, key=attrgetter("tensor", "tier", "lower", "upper", "gaps", "low")):
        if r.lower >= r.upper or not case.nbytes[r.tensor]:
            continue
        if merged:
            p = merged[-1]
            if replace(p, low=p.high, high=r.high) == r:
                merged[-1] = replace(p, high=r.high)
                continue
        merged.append(r)
    return merged


def inplace_pairs(case: Case, actions: Actions, residencies: list[Residency]) -> list[tuple[int, int]]:
    """Return positions ``(a, b)``: a is released by the end of the run that begins b, its last user.

    What is there before the run starts, or when the plan begins, is begun by no run.
    """
    wanted = {t for op in case.graph.ops for pair in op.inplace for t in pair}
    if not wanted:
        return []
    whole: dict[Place, list[int]] = {}
    for n, r in enumerate(residencies):
        if r.tensor in wanted and r.high - r.low == case.nbytes[r.tensor] and not r.gaps:
            whole.setdefault((r.tier, r.tensor), []).append(n)
    uses: dict[int, list[Interval]] = {t: [] for t in wanted}
    for run in actions.runs:
        for t in {t for t, _ in (*case.reads[run.op], *case.writes[run.op])} & wanted:
            uses[t].append((run.start, run.end))
    for copy in actions.copies:
        if copy.tensor in wanted:
            uses[copy.tensor].append((copy.start, copy.end))
    for intervals in uses.values():
        intervals.sort()
    pairs = []
    for run in actions.runs:
        op = case.graph.ops[run.op]
        for read, write in op.inplace:
            if read in op.writes:
                continue
            tier = _write_tier(case, run, write)
            a = _alive(residencies, whole.get((tier, read), []), run.start)
            b = _alive(residencies, whole.get((tier, write), []), run.start)
            if a is None or b is None or residencies[b].lower != run.start:
                continue
            place = residencies[a]
            # In ``replace`` reads end as their op starts: one that starts at the release is a use before it.
            behind = place.upper + (case.graph.accounting is Accounting.REPLACE)
            if place.released and place.upper <= run.end and not _shared(place, behind, run, uses[read]):
                pairs.append((a, b))
    return pairs


def _alive(residencies: list[Residency], numbers: list[int], time: int) -> int | None:
    """Return the residency among those of a tensor in a tier that is alive at that time."""
    i = bisect_right(numbers, time, key=lambda n: residencies[n].lower) - 1
    return numbers[i] if i >= 0 and residencies[numbers[i]].upper > time else None


def _shared(residency: Residency, behind: int, run: RunItem, uses: list[Interval]) -> bool:
    """Return whether a use other than the run's own overlaps the run, or starts behind it before `behind`."""
    overlapping = 0
    for i in range(bisect_left(uses, (behind,)) - 1, -1, -1):
        start, end = uses[i]
        if start < residency.lower:
            break
        overlapping += end > run.start
    return overlapping > 1
