"""What the picture of an allocation shows: buffers with their addresses, in colours, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...instances import Allocation
from ...models.arrays import Integers
from ...models.buffers import Buffer, Buffers
from ...models.errors import UsageError
from ...models.graph import Graph
from ...models.lowering.buffers import buffers_from_plan
from ...models.plan import Plan
from ...models.result import Result
from ...models.units import format_bytes, format_duration, format_gap, time_unit
from ...models.verifier.allocation import verify_allocation
from . import allocation_drawing as drawing
from .allocation_drawing import Rectangles, Timeline
from .profile_drawing import COLOURS, time_label

if TYPE_CHECKING:
    Item = Result | Plan | Allocation | Mapping[str, int]

FAR = 1.4
"""A capacity that many times the height is told, not drawn."""

_NARROW = 1 / 500
"""Part of the width below which a rectangle is hard to see."""
_ONE_KIND = 0.95
"""Share of bytes times ns from which on one kind has nearly all, so that kinds tell nothing."""


class AllocationCase(NamedTuple):
    """What is drawn, and what is known about it; `plan` says what its times mean."""

    buffers: Buffers
    offsets: Mapping[str, int]
    heights: Mapping[str, int]
    graph: Graph | None
    plan: Plan | None
    result: Result | None


def case_of(item: Item, buffers: Buffers | Graph | None) -> AllocationCase:
    """Gather what the caller gave in pieces.

    Raises
    ------
    UsageError
        If a piece is missing.
    VerificationError
        If the allocation does not verify.
    """
    result = item if isinstance(item, Result) else None
    plan = item if isinstance(item, Plan) else None
    graph = buffers if isinstance(buffers, Graph) else None
    offsets: Mapping[str, int] | None = None
    if isinstance(item, Result):
        plan, graph, offsets = item.plan, item.graph if graph is None else graph, item.allocation
        buffers = item.buffers if buffers is None else buffers
    elif isinstance(item, Allocation):
        offsets = item.offsets
    elif not isinstance(item, Plan):
        offsets = item
    if offsets is None and plan is not None:
        offsets = plan.allocation
    if offsets is None:
        what = "a plan" if result is None else f"a result that is {result.status}"
        raise UsageError(f"allocation: found none in {what}, expected one")
    if not isinstance(buffers, Buffers):
        if plan is None or graph is None:
            missing = "offsets without their buffers" if plan is None else "a plan without its graph"
            raise UsageError(f"allocation: found {missing}, expected allocation(item, buffers)")
        buffers = buffers_from_plan(graph, plan)
    verdict = verify_allocation(buffers, offsets)
    verdict.raise_if_invalid()
    return AllocationCase(buffers, offsets, verdict.heights, graph, plan, result)


def timeline(case: AllocationCase, parts: Sequence[Rectangles], time: str) -> Timeline:
    """Return how times become positions, the same for all pools."""
    times = np.unique(np.concatenate([x for part in parts for x in (part.begin, part.end)]))
    if not len(times):
        times = np.array([0, 1], dtype=np.int64)
    span = int(times[-1] - times[0])
    if time == "auto":
        widths = np.concatenate([part.end - part.begin for part in parts])
        time = "events" if len(widths) and np.median(widths) < span * _NARROW else "linear"
    unit = 1
    if case.plan is None:
        unit = 1 if span < 10**7 else 1000 ** ((len(str(span)) - 1) // 3)
    elif not counts_ops(case.plan):
        unit = time_unit(span)[1]
    return Timeline(times, time == "events", unit)


def load_over_time(case: AllocationCase, pool: str, part: Rectangles, line: Timeline) -> Integers:
    """Return the bytes in use from each time on; what an in-place pair shares counts once."""
    shared = drawing.shared_rectangles(case.buffers, case.offsets, pool)
    return drawing.load_of(part, line.times) - drawing.load_of(shared, line.times)


def levels_of(case: AllocationCase, pool: str, load: int) -> dict[str, int]:
    """Return the bytes that get a line and a label: the height, what it cannot be below, the capacity."""
    height, capacity = case.heights.get(pool, 0), case.buffers.pools.get(pool)
    levels = {"height": height}
    bound = case.result.bound if case.result is not None and _is_alone(case, pool) else None
    if bound is not None:
        levels["bound"] = bound
    elif load < height:
        levels["max load"] = load
    if capacity is not None and capacity <= height * FAR:
        levels["capacity"] = capacity
    return levels


def telling(case: AllocationCase, parts: Sequence[Rectangles]) -> str:
    """Return the kind, unless it is unknown or nearly everything is of one: then the size."""
    if case.graph is None:
        return "size"
    areas: dict[str, float] = {}
    kinds = [_kind(b, case.graph) for b in case.buffers.buffers]
    for part in parts:
        area = (part.end - part.begin).astype(np.float64) * (part.high - part.low)
        for i, amount in zip(part.owner.tolist(), area.tolist(), strict=True):
            areas[kinds[i]] = areas.get(kinds[i], 0) + amount
    return "kind" if max(areas.values(), default=0) < _ONE_KIND * sum(areas.values()) else "size"


def colours_of(case: AllocationCase, chosen: str, drawn: set[int]) -> tuple[list[str], dict[str, str]]:
    """Return the colour of each buffer, and what the legend says of those that are drawn."""
    buffers = case.buffers.buffers
    if chosen == "kind":
        kinds = [_kind(b, case.graph) for b in buffers]
        there = {kinds[i] for i in drawn}
        return [COLOURS[kind] for kind in kinds], {k: c for k, c in COLOURS.items() if k in there}
    by_size = chosen == "size"
    values = [b.size if by_size else b.upper - b.lower for b in buffers]
    classes, highest = drawing.classes(values, 2 if by_size else 10)
    scheme = drawing.scheme(len(highest))
    texts = [format_bytes(v) if by_size else duration_text(v, case.plan) for v in highest]
    used = sorted({int(classes[i]) for i in drawn})
    return [scheme[k] for k in classes.tolist()], {f"≤ {texts[k]}": scheme[k] for k in used}


def title_of(case: AllocationCase) -> str:
    """Return the name of the instance."""
    if case.result is not None:
        return case.result.instance
    graph = "" if case.graph is None else case.graph.name
    return case.buffers.name or graph or "allocation"


def subtitle_of(case: AllocationCase, pools: Sequence[str], loads: Sequence[Integers]) -> str:
    """Return how the allocation was made and what is known about it."""
    result = case.result
    words = ["verified allocation"] if result is None else [result.method, str(result.status)]
    count = sum(b.pool in pools for b in case.buffers.buffers)
    words.append(f"{count:,} buffer{'s' * (count != 1)}")
    others = len({b.pool for b in case.buffers.buffers} - {*pools})
    if others:
        words[-1] += f" in {pools[0]!r} ({others} other pool{'s' * (others > 1)})"
    if result is not None and result.bound is not None:
        words.append(f"gap {format_gap(result.gap)}")
    if len(pools) == 1:
        height, capacity = case.heights.get(pools[0], 0), case.buffers.pools.get(pools[0])
        of = f" of {format_bytes(capacity)}" if capacity is not None and capacity > height * FAR else ""
        words.append(f"height {height:,} bytes{of}")
        if load := int(loads[0].max()):
            above = format_gap((height - load) / load)
            words[-1] += " = max load" if load == height else f", {above} above max load"
    return " · ".join(words)


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def time_name(case: AllocationCase, line: Timeline) -> str:
    """Return the label of the time axis."""
    if case.plan is None:
        power = len(str(line.unit)) - 1
        name = f"time [10{str(power).translate(_RAISED)}]" if power else "time"
    elif counts_ops(case.plan):
        name = "ops executed"
    else:
        unit = time_unit(int(line.times[-1] - line.times[0]))[0]
        name = time_label(unit, None if case.graph is None else case.graph.durations)
    return f"{name}, one step for each start or end of a lifetime" if line.by_events else name


def counts_ops(plan: Plan) -> bool:
    """Return whether every op takes 1 ns, so that time counts ops."""
    return all(run.end - run.start == 1 for run in plan.runs)


def _is_alone(case: AllocationCase, pool: str) -> bool:
    return all(b.pool == pool for b in case.buffers.buffers)


def _kind(b: Buffer, graph: Graph | None) -> str:
    """Return the kind of tensor that a buffer of a plan holds, as its id says."""
    number, _, rest = b.id.partition(":")
    if graph is not None and number.isdecimal() and int(number) < len(graph.tensors):
        tensor = graph.tensors[int(number)]
        if rest.startswith((f"{tensor.name}@", f"{tensor.name}[")):
            return tensor.kind
    return "workspace" if "/workspace@" in rest else "other"


def duration_text(value: int, plan: Plan | None) -> str:
    """Return a time as people read it, in the unit that the plan's times have; without a plan, the number."""
    return f"{value:,}" if plan is None or counts_ops(plan) else format_duration(value)
