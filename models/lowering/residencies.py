"""Residencies: which bytes of a tensor a plan keeps in a tier, from when to when.

What pictures, allocations and unrolled iterations are made from. The verifier has a program of its own for
the buffers that it judges (`lowtide.models.verifier.residencies`): that one follows all tiers through time,
this one looks at one tensor in one tier after the other and cuts it where an action's bytes begin or end.
Within a *strip* between two cuts all bytes share their fate, so that a scan of the few actions on it is all
there is; neighbouring strips of one fate are one residency.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from ..errors import InstanceError
from ..graph import Accounting, Graph, Mode
from ..plan import Copy, Free, Plan, Resident, Run

Interval = tuple[int, int]
Place = tuple[int, int]
"""A tensor and a tier."""


@dataclass(frozen=True, slots=True)
class Residency:
    """Bytes ``[low, high)`` of a tensor in a tier over ``[lower, upper)`` but for the gaps.

    A `lower` of `BEFORE`: they are there when the plan or the period begins, before any event; if they are
    released at time 0, that instant is all. Not `released`: they stay to the end of the plan or period.
    """

    tensor: int
    tier: int
    lower: int
    upper: int
    gaps: tuple[Interval, ...]
    low: int
    high: int
    released: bool = True


class _Event(NamedTuple):
    """At one time copies without duration come first (phase 0), then frees (1), then starts (2)."""

    time: int
    phase: int
    low: int
    high: int


_INSTANT, _FREE, _START = range(3)
_LATEST = 2**63 - 1
"""The last nanosecond of a plan."""
BEFORE = -1
"""The time of what is there when the plan or the period begins."""

_Life = tuple[int, int, tuple[Interval, ...], bool]
"""Begin, end, gaps, and whether it ends by a release."""


def residencies(graph: Graph, plan: Plan) -> list[Residency]:
    """Return the maximal residencies of a plan by tensor, tier, time and bytes.

    In a periodic plan a tensor that is both initial and final lives on across the period's end: one
    residency with a gap where it is away. Nothing of 0 bytes or no time is a residency; what is there when
    the plan begins is there for that instant, also if it is released at time 0.

    Raises
    ------
    InstanceError
        If an action is malformed, or releases bytes that are not allocated.
    """
    events = _events(graph, plan)
    horizon = plan_length(plan)
    listed: list[Residency] = []
    for (t, k), of_tier in sorted(events.items()):
        tensor = graph.tensors[t]
        of_tier.sort()
        lasting = plan.period is not None and tensor.initial and tensor.final
        cuts, spells = _spells(graph, plan, t, k, of_tier)
        lives: dict[_Life, list[Interval]] = {}
        for a, b, times in zip(cuts, cuts[1:], spells, strict=False):
            for life in _lives(times, horizon, lasting):
                strips = lives.setdefault(life, [])
                if strips and strips[-1][1] == a:
                    strips[-1] = (strips[-1][0], b)
                else:
                    strips.append((a, b))
        if tensor.nbytes:
            listed += [
                Residency(t, k, lower, upper, gaps, low, high, released)
                for (lower, upper, gaps, released), strips in lives.items()
                for low, high in strips
            ]
    listed.sort(key=attrgetter("tensor", "tier", "lower", "upper", "gaps", "low"))
    return listed


def plan_length(plan: Plan) -> int:
    """Return the nanoseconds of a period, or else up to the last event, at least 1."""
    if plan.period is not None:
        return plan.period
    ends = [*(run.end for run in plan.runs), *(copy.end for copy in plan.copies)]
    return max([1, *ends, *(free.time for free in plan.frees)])


def first_moment(found: Iterable[Residency]) -> int:
    """Return 1 if bytes are there at the start for that instant alone, which then takes a moment, else 0."""
    return int(any(r.lower == BEFORE and (r.gaps[0][0] if r.gaps else r.upper) == 0 for r in found))


def mode_of(graph: Graph, run: Run) -> Mode:
    """Return the mode that a run takes."""
    return graph.ops[run.op].all_modes[run.mode]


def home_tiers(plan: Plan) -> dict[str, int]:
    """Return the number of each processor's home tier."""
    number = {tier.name: k for k, tier in enumerate(plan.machine.tiers)}
    return {p.name: number[p.tiers[0].tier] for p in plan.machine.processors}


def _uses(graph: Graph, plan: Plan, tensors: set[int]) -> dict[int, list[Interval]]:
    """Return when runs and copies use some tensors, sorted."""
    uses: dict[int, list[Interval]] = {t: [] for t in tensors}
    for run in plan.runs:
        op = graph.ops[run.op]
        for t in tensors.intersection({*op.reads, *op.writes}):
            uses[t].append((run.start, run.end))
    for copy in plan.copies:
        if copy.tensor in tensors:
            uses[copy.tensor].append((copy.start, copy.end))
    return {t: sorted(intervals) for t, intervals in uses.items()}


def inplace_pairs(graph: Graph, plan: Plan, listed: list[Residency]) -> list[tuple[int, int]]:
    """Return positions ``(a, b)`` in `listed` of residencies that may share an address.

    A run begins b, a whole tensor that one of its op's in-place pairs names and that is not there before; a
    is the other tensor of the pair, whole, in the same tier, released by the end of the run, and nothing else
    uses it meanwhile.
    """
    named = {t for op in graph.ops for pair in op.inplace for t in pair}
    if not named:
        return []
    begun: dict[tuple[int, int, int], int] = {}
    dying: dict[Place, list[int]] = {}
    for n, r in enumerate(listed):
        if r.tensor in named and not r.gaps and r.high - r.low == graph.tensors[r.tensor].nbytes:
            begun[r.tensor, r.tier, r.lower] = n
            dying.setdefault((r.tensor, r.tier), []).append(n)
    uses = _uses(graph, plan, named)
    tiers, homes = {tier.name: k for k, tier in enumerate(plan.machine.tiers)}, home_tiers(plan)
    # In ``replace`` a read may end as its op starts, which needs the content up to then.
    at_its_end = graph.accounting is Accounting.REPLACE
    pairs = []
    for run in sorted(plan.runs, key=attrgetter("start")):
        op = graph.ops[run.op]
        for read, write in op.inplace:
            named_tier = dict(mode_of(graph, run).operands).get(write)
            k = homes[run.processor] if named_tier is None else tiers[named_tier]
            b = begun.get((write, k, run.start))
            if b is None or read in op.writes:
                continue
            # Whole residencies of a tensor in a tier follow each other: one at most is alive at a time.
            before = dying.get((read, k), [])
            i = bisect_right(before, run.start, key=lambda n: listed[n].lower) - 1
            if i < 0:
                continue
            r = listed[before[i]]
            if r.released and run.start < r.upper <= run.end:
                first = bisect_left(uses[read], (r.lower,))
                last = bisect_left(uses[read], (r.upper + at_its_end,))
                if sum(end > run.start for _, end in uses[read][first:last]) <= 1:
                    pairs.append((before[i], b))
    return pairs


# -- the actions of a plan, checked -----------------------------------------------------------------------


def _events(graph: Graph, plan: Plan) -> dict[Place, list[_Event]]:
    """Return by place what is allocated and released in it."""
    period = plan.period
    if period is not None and (type(period) is not int or period < 1):
        raise InstanceError(f"plan, period: found {period!r}, expected an integer >= 1")
    tiers, homes = {tier.name: k for k, tier in enumerate(plan.machine.tiers)}, home_tiers(plan)
    events: dict[Place, list[_Event]] = {}

    def add(t: int, k: int, time: int, phase: int, bytes_: Interval) -> None:
        events.setdefault((t, k), []).append(_Event(time, phase, *bytes_))

    for i, entry in enumerate(plan.start):
        where = f"start entry {i}"
        _kind(entry, Resident, where)
        bytes_ = _bytes(graph, entry, where)
        if type(entry.valid) is not bool:
            raise InstanceError(f"{where}: found valid {entry.valid!r}, expected true or false")
        if not graph.tensors[entry.tensor].initial:
            name = graph.tensors[entry.tensor].name
            raise InstanceError(
                f"{where}: tensor {entry.tensor} {name!r} is not initial, expected no residency"
            )
        add(entry.tensor, _known(tiers, entry.tier, where, "tier"), BEFORE, _START, bytes_)
    for i, run in enumerate(plan.runs):
        where = f"run {i}"
        _kind(run, Run, where)
        _index(run.op, len(graph.ops), where, "op")
        op = graph.ops[run.op]
        _index(run.mode, len(op.modes) or 1, where, "mode")
        home = _known(homes, run.processor, where, "processor")
        _times(run.start, run.end, where, least=1, last=period)
        named = dict(mode_of(graph, run).operands)
        for t in op.writes:
            k = _known(tiers, named[t], where, "a mode that names tier") if t in named else home
            add(t, k, run.start, _START, (0, _span(graph, t)))
    for i, copy in enumerate(plan.copies):
        where = f"copy {i}"
        _kind(copy, Copy, where)
        bytes_ = _bytes(graph, copy, where)
        _known(tiers, copy.src, where, "source tier")
        k = _known(tiers, copy.dst, where, "destination tier")
        _times(copy.start, copy.end, where, least=0, last=None)
        if period is not None:
            if copy.start >= period or copy.end - copy.start > period:
                times = f"[{copy.start}, {copy.end})"
                expected = f"a start before the period's end {period} and at most a period"
                raise InstanceError(f"{where}: found times {times}, expected {expected}")
            if copy.end > period:
                add(copy.tensor, k, BEFORE, _START, bytes_)
        add(copy.tensor, k, copy.start, _INSTANT if copy.start == copy.end else _START, bytes_)
    for i, free in enumerate(plan.frees):
        where = f"free {i}"
        _kind(free, Free, where)
        bytes_ = _bytes(graph, free, where)
        k = _known(tiers, free.tier, where, "tier")
        _times(free.time, free.time, where, least=0, last=period)
        add(free.tensor, k, free.time, _FREE, bytes_)
    return events


def _kind(action: object, kind: type, where: str) -> None:
    if not isinstance(action, kind):
        raise InstanceError(f"{where}: found a {type(action).__name__}, expected a {kind.__name__}")


def _index(value: object, limit: int, where: str, what: str) -> None:
    if type(value) is not int or not 0 <= value < limit:
        raise InstanceError(f"{where}: found {what} {value!r}, expected an index in [0, {limit})")


def _known(numbers: dict[str, int], name: str, where: str, what: str) -> int:
    if not isinstance(name, str) or name not in numbers:
        raise InstanceError(f"{where}: found {what} {name!r}, expected one of {list(numbers)}")
    return numbers[name]


def _times(start: int, end: int, where: str, least: int, last: int | None) -> None:
    if type(start) is not int or type(end) is not int or start < 0 or end < start + least:
        raise InstanceError(f"{where}: found times {start!r} to {end!r}, expected integers, in this order")
    if end > _LATEST:
        raise InstanceError(f"{where}: found time {end}, expected at most {_LATEST}")
    if last is not None and end > last:
        raise InstanceError(f"{where}: found time {end}, expected it within the period {last}")


def _span(graph: Graph, t: int) -> int:
    """Return the bytes of a tensor; one of 0 bytes is one indivisible unit that weighs nothing."""
    return graph.tensors[t].nbytes or 1


def _bytes(graph: Graph, action: Resident | Copy | Free, where: str) -> Interval:
    _index(action.tensor, len(graph.tensors), where, "tensor")
    nbytes = graph.tensors[action.tensor].nbytes
    if action.bytes is None:
        return 0, nbytes or 1
    given: object = action.bytes
    if isinstance(given, tuple | list) and [type(edge) for edge in given] == [int, int]:
        low, high = given
        if 0 <= low < high <= nbytes or low == high == nbytes == 0:
            return low, high or 1
    expected = f"low < high within [0, {nbytes})" if nbytes else "(0, 0) for a tensor of 0 bytes"
    raise InstanceError(f"{where}: found bytes {given!r}, expected {expected}")


# -- the life of a strip ---------------------------------------------------------------------------------


def _spells(
    graph: Graph, plan: Plan, t: int, k: int, events: list[_Event]
) -> tuple[list[int], list[list[list[int]]]]:
    """Return where the bytes of a place are cut, and of each strip its times by turns: in, out, in."""
    cuts = sorted({edge for event in events for edge in (event.low, event.high)})
    spells: list[list[list[int]]] = [[] for _ in cuts[1:]]
    number = {edge: n for n, edge in enumerate(cuts)}
    for event in events:
        release = event.phase == _FREE
        for n in range(number[event.low], number[event.high]):
            spell = spells[n]
            present = bool(spell) and len(spell[-1]) == 1
            if release and not present:
                raise InstanceError(_not_there(graph, plan, t, k, event))
            if release:
                spell[-1].append(event.time)
            elif not present:
                spell.append([event.time])
    return cuts, spells


def _not_there(graph: Graph, plan: Plan, t: int, k: int, event: _Event) -> str:
    part = f"tensor {t} {graph.tensors[t].name!r}"
    if (event.low, event.high) != (0, _span(graph, t)):
        part = f"bytes [{event.low}, {event.high}) of {part}"
    tier = plan.machine.tiers[k].name
    return (
        f"free of {part} at {event.time} ns: found bytes that are not in tier {tier!r}, "
        "expected them allocated"
    )


def _lives(spells: list[list[int]], horizon: int, lasting: bool) -> list[_Life]:
    """Return the lives of a strip; `lasting`: what is left at the end is what was there at the start."""
    lives: list[_Life] = []
    for spell in spells:
        released = len(spell) == 2
        lives.append((spell[0], spell[1] if released else horizon, (), released))
    if lasting and len(lives) > 1:
        first, last = lives[0], lives[-1]
        if first[0] == BEFORE and not last[3]:
            away = ((first[1], last[0]),) if first[1] < last[0] else ()
            lives = [*lives[1:-1], (BEFORE, horizon, away, False)]
    return [life for life in lives if life[0] < life[1]]
