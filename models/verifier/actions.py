"""The verifier's first look: which actions of a plan are well formed, as numbers and byte ranges.

A malformed action is reported as ``shape`` and left out of the simulation; whatever its fields hold,
nothing raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from ..checks import shown
from ..plan import Copy, Free, Plan, Resident, Run
from .case import Case


@dataclass(slots=True)
class RunItem:
    """A well-formed run; `tiers` numbers the tier that its mode names for an operand."""

    position: int
    op: int
    start: int
    end: int
    processor: int
    duration: int
    workspace: int
    kinds: tuple[str, ...]
    tiers: dict[int, int]


@dataclass(slots=True)
class CopyItem:
    """A well-formed copy of the bytes ``[low, high)``; `linked`: a channel can carry it in that time."""

    position: int
    tensor: int
    src: int
    dst: int
    start: int
    end: int
    low: int
    high: int
    nbytes: int
    linked: bool = True


@dataclass(slots=True)
class FreeItem:
    """A well-formed release of the bytes ``[low, high)``."""

    position: int
    tensor: int
    tier: int
    time: int
    low: int
    high: int


@dataclass(slots=True)
class ResidentItem:
    """A well-formed entry of the plan's start."""

    position: int
    tensor: int
    tier: int
    low: int
    high: int
    valid: bool


@dataclass(slots=True)
class Actions:
    """The well-formed actions of a plan."""

    start: list[ResidentItem] = field(default_factory=list)
    runs: list[RunItem] = field(default_factory=list)
    copies: list[CopyItem] = field(default_factory=list)
    frees: list[FreeItem] = field(default_factory=list)


class _Malformed(Exception):
    """Carries the words for what is wrong with an action."""


def well_formed(case: Case, plan: Plan, start_tiers: Mapping[str, Sequence[str]]) -> Actions:
    """Return the well-formed actions; report the others, bad starts, and copies without channel."""
    actions = Actions()
    for i, entry in enumerate(plan.start):
        try:
            resident = _resident(case, i, entry)
        except _Malformed as fault:
            case.report("shape", f"start entry {i}: {fault}", entry=i)
        else:
            if _may_start(case, resident, start_tiers):
                actions.start.append(resident)
    actions.runs = well_formed_runs(case, plan)
    channels = {
        (case.tier_number[c.src], case.tier_number[c.dst]): c.latency_ns for c in case.machine.channels
    }
    for i, copy in enumerate(plan.copies):
        try:
            item = _copy(case, i, copy)
        except _Malformed as fault:
            case.report("shape", f"copy {i}: {fault}", copy=i)
        else:
            _judge_channel(case, item, channels.get((item.src, item.dst)))
            actions.copies.append(item)
    for i, free in enumerate(plan.frees):
        try:
            actions.frees.append(_free(case, i, free))
        except _Malformed as fault:
            case.report("shape", f"free {i}: {fault}", free=i)
    _judge_start_overlaps(case, actions.start)
    actions.copies.sort(key=attrgetter("start"))
    return actions


def well_formed_runs(case: Case, plan: Plan) -> list[RunItem]:
    """Return the well-formed runs by their starts; report the others."""
    runs = []
    for i, run in enumerate(plan.runs):
        try:
            runs.append(_run(case, i, run))
        except _Malformed as fault:
            case.report("shape", f"run {i}: {fault}", run=i)
    return sorted(runs, key=attrgetter("start"))


LATEST = 2**63 - 1
"""The last nanosecond of a plan: 292 years."""


def _index(value: object, limit: int, what: str) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise _Malformed(f"found {what} {shown(value)}, expected an index in [0, {limit})")
    return value


def _tier(case: Case, value: object, what: str) -> int:
    number = case.tier_number.get(value) if isinstance(value, str) else None
    if number is None:
        raise _Malformed(f"found {what} {shown(value)}, expected one of {case.tiers}")
    return number


def _time(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value <= LATEST:
        raise _Malformed(f"found {what} {shown(value)}, expected an integer in [0, {LATEST}]")
    return value


def _byte_range(case: Case, tensor: int, value: object) -> tuple[int, int]:
    """Return the range within the tensor's span (a zero-byte tensor is one unit)."""
    nbytes = case.nbytes[tensor]
    if value is None:
        return 0, case.span[tensor]
    if isinstance(value, tuple | list) and len(value) == 2:
        low, high = value
        if type(low) is int and type(high) is int:
            if nbytes and 0 <= low < high <= nbytes:
                return low, high
            if not nbytes and low == high == 0:
                return 0, 1
    expected = f"low < high within [0, {nbytes})" if nbytes else "(0, 0) for a tensor of 0 bytes"
    raise _Malformed(f"found bytes {shown(value)}, expected {expected}")


def _resident(case: Case, position: int, entry: object) -> ResidentItem:
    if not isinstance(entry, Resident):
        raise _Malformed(f"found {shown(entry)}, expected a Resident")
    tensor = _index(entry.tensor, len(case.nbytes), "tensor")
    tier = _tier(case, entry.tier, "tier")
    low, high = _byte_range(case, tensor, entry.bytes)
    if type(entry.valid) is not bool:
        raise _Malformed(f"found valid {shown(entry.valid)}, expected true or false")
    return ResidentItem(position, tensor, tier, low, high, entry.valid)


def _run(case: Case, position: int, run: object) -> RunItem:
    if not isinstance(run, Run):
        raise _Malformed(f"found {shown(run)}, expected a Run")
    index = _index(run.op, len(case.graph.ops), "op")
    op = case.graph.ops[index]
    # Without listed modes there is one, number 0, from the op's own duration and workspace.
    number = _index(run.mode, len(op.modes) or 1, "mode")
    start, end = _time(run.start, "start"), _time(run.end, "end")
    if end <= start:
        raise _Malformed(f"found end {end}, expected it after the start {start}")
    if case.period is not None and end > case.period:
        raise _Malformed(f"found end {end}, expected it within the period {case.period}")
    name: object = run.processor
    processor = case.processor_number.get(name) if isinstance(name, str) else None
    if processor is None:
        names = list(case.processor_number)
        raise _Malformed(f"found processor {shown(name)}, expected one of {names}")
    if not op.modes:
        return RunItem(position, index, start, end, processor, op.duration_ns, op.workspace, (), {})
    mode = op.modes[number]
    tiers = {t: _tier(case, tier, "a mode that names tier") for t, tier in mode.operands}
    work = (mode.duration_ns, mode.workspace, mode.processors, tiers)
    return RunItem(position, index, start, end, processor, *work)


def _copy(case: Case, position: int, copy: object) -> CopyItem:
    if not isinstance(copy, Copy):
        raise _Malformed(f"found {shown(copy)}, expected a Copy")
    tensor = _index(copy.tensor, len(case.nbytes), "tensor")
    src, dst = _tier(case, copy.src, "source tier"), _tier(case, copy.dst, "destination tier")
    start, end = _time(copy.start, "start"), _time(copy.end, "end")
    low, high = _byte_range(case, tensor, copy.bytes)
    if end < start:
        raise _Malformed(f"found end {end}, expected it not before the start {start}")
    period = case.period
    if period is not None:
        if start >= period:
            raise _Malformed(f"found start {start}, expected it before the period's end {period}")
        if end - start > period:
            raise _Malformed(f"found a duration of {end - start} ns, expected at most {period}")
    nbytes = high - low if case.nbytes[tensor] else 0
    return CopyItem(position, tensor, src, dst, start, end, low, high, nbytes)


def _free(case: Case, position: int, free: object) -> FreeItem:
    if not isinstance(free, Free):
        raise _Malformed(f"found {shown(free)}, expected a Free")
    tensor = _index(free.tensor, len(case.nbytes), "tensor")
    tier = _tier(case, free.tier, "tier")
    time = _time(free.time, "time")
    low, high = _byte_range(case, tensor, free.bytes)
    if case.period is not None and time > case.period:
        raise _Malformed(f"found time {time}, expected it within the period {case.period}")
    return FreeItem(position, tensor, tier, time, low, high)


def _judge_channel(case: Case, copy: CopyItem, latency: int | None) -> None:
    """Rule ``channel``: a channel exists, and the copy takes long enough to use it."""
    duration = copy.end - copy.start
    src, dst = case.tiers[copy.src], case.tiers[copy.dst]
    if latency is None:
        fault = f"found no channel from {src!r} to {dst!r}"
    elif duration < latency or (copy.nbytes and duration == latency):
        fault = f"found a duration of {duration} ns, expected more than the latency {latency} ns"
    else:
        return
    copy.linked = False
    case.report(
        "channel",
        f"copy {copy.position} of {case.tensor(copy.tensor)} at {copy.start} ns: {fault}",
        time=copy.start,
        tensor=copy.tensor,
        copy=copy.position,
        resource=f"{src}->{dst}",
    )


def _may_start(
    case: Case,
    entry: ResidentItem,
    start_tiers: Mapping[str, Sequence[str]],
) -> bool:
    """Rule ``start``, entry by entry; say whether the entry takes part in the simulation."""
    tensor, tier = case.graph.tensors[entry.tensor], case.tiers[entry.tier]
    where = f"start entry {entry.position}: {case.tensor(entry.tensor)}"
    witness = {"time": 0, "tensor": entry.tensor, "tier": tier, "entry": entry.position}
    if not tensor.initial:
        case.report("start", f"{where} is not initial, expected no residency", **witness)
        return False
    if tier not in start_tiers.get(tensor.kind, (tier,)):
        expected = f"expected {list(start_tiers[tensor.kind])} for kind {tensor.kind!r}"
        case.report("start", f"{where} starts in tier {tier!r}, {expected}", **witness)
    return True


def _judge_start_overlaps(case: Case, entries: list[ResidentItem]) -> None:
    """Rule ``start``: entries of one tensor in one tier are disjoint."""
    reach: dict[tuple[int, int], int] = {}
    for entry in sorted(entries, key=lambda e: (e.tensor, e.tier, e.low, e.high)):
        key = (entry.tensor, entry.tier)
        if entry.low < reach.get(key, 0):
            part = case.part(entry.tensor, entry.low, entry.high)
            tier = case.tiers[entry.tier]
            case.report(
                "start",
                f"start: {part} in tier {tier!r} overlaps another entry, expected disjoint entries",
                time=0,
                tensor=entry.tensor,
                tier=tier,
                entry=entry.position,
            )
        reach[key] = max(reach.get(key, 0), entry.high)
