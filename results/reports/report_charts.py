"""The charts of the report: SVG paths for the lines, HTML for the words, JSON for the read-out.

A chart stretches to any width: its lines are drawn in a box of `WIDTH` x `HEIGHT` units with
``preserveAspectRatio="none"``, and tick labels stand beside it at percentages, so that text keeps its
size on a narrow screen. The values that a script reads out under the pointer are exact; those drawn are
rounded to the box.

They are no pictures of `lowtide.results.plot`: those follow neither the width nor the dark theme of the page,
answer no pointer, and are six to eight times as large (15 to 25 KB each; a report may show hundreds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...models.result import relative_gap
from ...models.units import binary_unit, format_bytes, time_unit

if TYPE_CHECKING:
    from ...models.derived.profile import MemoryProfile

WIDTH, HEIGHT = 1000, 400
"""Units of the box that lines are drawn in."""
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
"""Width and height of a small curve in a table, in pixels."""
COLUMNS = 400
"""Steps of a memory profile that a chart keeps; of more, each column keeps its highest."""
LEAST_GAP = 1e-4
"""Gaps below this are drawn as this; only a gap of 0 lies on the base line."""

Point = tuple[float, float | None]
"""A value from then on; None: none."""


class Axis(NamedTuple):
    """A scale: its range, and whether it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def position(self, value: float) -> float:
        """Return where a value lies, 0 at the low end, 1 at the high end, not beyond."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0


class Tick(NamedTuple):
    """A labelled place of an axis, in percent of its length."""

    percent: float
    label: str


class Series(NamedTuple):
    """One line of a chart.

    Attributes
    ----------
    name, style
        What the read-out calls it; its classes in the style sheet.
    points, end
        Its steps, and where the last one ends.
    is_bound
        Whether it is the bound to the incumbent of the same name.
    """

    name: str
    style: str
    points: Sequence[Point]
    end: float
    is_bound: bool = False


class Chart(NamedTuple):
    """What the page shows as one figure; `data` is what the read-out needs."""

    title: str
    paths: list[tuple[str, str]]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    legend: list[tuple[str, str]]
    data: dict[str, Any]
    note: str = ""
    wide: bool = False


def step_chart(
    title: str,
    series: Sequence[Series],
    x: Axis,
    y: Axis,
    *,
    unit: str,
    legend: list[tuple[str, str]],
    x_unit: str = "s",
    note: str = "",
) -> Chart:
    """Return a chart of step functions.

    Parameters
    ----------
    series
        The lines, the lowest first.
    unit
        Of the values: "bytes", "ns", or "" for counts.
    legend
        Names and classes of what a colour or a dash means.
    x_unit
        "s" for seconds, "gap" for gaps; both axes are logarithmic.
    """
    paths = [(s.style, path) for s in series if (path := _steps(s.points, s.end, x, y))]
    lines = [
        {"name": s.name, "style": s.style, "points": list(s.points), "end": s.end, "isBound": s.is_bound}
        for s in series
    ]
    return Chart(
        title=title,
        paths=paths,
        x_ticks=_decades(x, {"s": seconds_text, "gap": percent_text}[x_unit]),
        y_ticks=value_ticks(y, unit),
        legend=legend,
        data={
            "x": {"low": x.low, "high": x.high, "log": x.log, "unit": x_unit},
            "unit": unit,
            "series": lines,
        },
        note=note,
    )


def memory_chart(
    title: str,
    memory: MemoryProfile,
    *,
    reference: MemoryProfile | None,
    bound: int | None,
    counts_ops: bool,
    kinds: Sequence[str],
) -> Chart:
    """Return the chart of a memory profile: areas by kind of tensor, reference order, peak and bound.

    Parameters
    ----------
    memory, reference
        Of the plan, and of the reference order if there is one.
    bound
        Proved lower bound on the peak in bytes, or None.
    counts_ops
        Whether every op takes 1 ns, so that time counts ops.
    kinds
        Kinds of tensor, from the bottom of the stack to its top.
    """
    thin = memory.thin(COLUMNS)
    top = max(memory.peak, bound or 0, reference.peak if reference is not None else 0, 1)
    x, y = Axis(0, max(int(memory.times[-1]), 1)), Axis(0, top * 1.04)
    kinds = [kind for kind in kinds if kind in thin.by_kind]
    paths, level = [], np.zeros(thin.total.size, dtype=np.int64)
    for kind in kinds:
        above = level + thin.by_kind[kind]
        paths.append((f"area k-{kind}", _band(thin.times, level, above, x, y)))
        level = above
    legend = [(kind, f"area k-{kind}") for kind in kinds]
    if reference is not None and not np.array_equal(reference.total, memory.total):
        line = reference.thin(COLUMNS)
        points = list(zip(line.times.tolist(), line.total.tolist(), strict=False))
        paths.append(("line reference", _steps(points, x.high, x, y)))
        legend.append((f"reference order, {format_bytes(reference.peak)}", "line reference"))
    for name, value in (("peak", memory.peak), ("bound", bound)):
        if value is not None and not (name == "bound" and value == memory.peak):
            paths.append((f"line level-{name}", _steps([(0, value)], x.high, x, y)))
    peak = f"{'peak = bound' if bound == memory.peak else 'peak'}, {format_bytes(memory.peak)}"
    legend.append((peak, "line level-peak"))
    if bound is not None and bound != memory.peak:
        legend.append((f"bound, {format_bytes(bound)}", "line level-bound"))
    return Chart(
        title=title,
        paths=paths,
        x_ticks=span_ticks(x, "ops" if counts_ops else "ns"),
        y_ticks=value_ticks(y, "bytes"),
        legend=legend,
        data={
            "x": {"low": x.low, "high": x.high, "log": False, "unit": "op" if counts_ops else "ns"},
            "unit": "bytes",
            "times": thin.times.tolist(),
            "series": [
                {"name": kind, "style": f"area k-{kind}", "values": thin.by_kind[kind].tolist()}
                for kind in reversed(kinds)
            ],
        },
    )


def sparkline(gaps: Sequence[Point], end: float, x: Axis) -> str:
    """Return the SVG path of a run's own gap over time (log scale), empty if it never had one."""
    y = Axis(LEAST_GAP, 1, log=True)
    room = 0.14  # between the base line, where the gap is 0, and the least other gap

    def height(gap: float) -> float:
        return 0.0 if gap == 0 else room + (1 - room) * y.position(abs(gap))

    heights = [(time, None if gap is None else height(gap)) for time, gap in gaps]
    return _steps(heights, end, x, Axis(0, 1), SPARK_WIDTH, SPARK_HEIGHT)


def own_gaps(trace: Sequence[Sequence[Any]]) -> list[Point]:
    """Return the gap of a run between its own incumbent and bound, over time."""
    # The kind of the bound follows, in newer records.
    return [(seconds, relative_gap(incumbent, bound)) for seconds, incumbent, bound, *_ in trace]


def time_axis(seconds: Sequence[float]) -> Axis:
    """Return a logarithmic axis of time, over whole decades, that has room for all the given times."""
    positive = [s for s in seconds if s > 0] or [1.0]
    low = 10.0 ** max(-3, math.floor(math.log10(min(positive))))
    high = max(*positive, 10 * low)
    return Axis(low, high, log=True)


def value_ticks(axis: Axis, unit: str) -> list[Tick]:
    """Return round values of a linear axis of bytes, of nanoseconds, or of counts."""
    if unit == "bytes":
        name, one = binary_unit(int(axis.high))
    elif unit == "ns":
        name, one = time_unit(int(axis.high))
    else:
        name, one = "", 1
    values = _round_values(axis.low / one, axis.high / one, 5)
    return _ticks(axis, [v for v in values if one > 1 or v == int(v)], one, name)


def span_ticks(axis: Axis, unit: str) -> list[Tick]:
    """Return round values of a linear axis of time in nanoseconds ("ns"), or of counts with that unit."""
    if unit == "ns":
        name, one = time_unit(int(axis.high))
        return _ticks(axis, _round_values(axis.low / one, axis.high / one, 5), one, name)
    values = [v for v in _round_values(axis.low, axis.high, 5) if v == int(v)]
    return _ticks(axis, values, 1, unit)


def seconds_text(seconds: float) -> str:
    """Return a time as a tick says it.

    Examples
    --------
    >>> [seconds_text(s) for s in (0.001, 0.1, 10, 3600)]
    ['1 ms', '100 ms', '10 s', '3,600 s']
    """
    return f"{1000 * seconds:g} ms" if seconds < 1 else f"{seconds:,g} s"


def percent_text(gap: float) -> str:
    """Return a gap as a tick says it.

    Examples
    --------
    >>> [percent_text(gap) for gap in (0.0001, 0.1, 1)]
    ['0.01 %', '10 %', '100 %']
    """
    return f"{100 * gap:g} %"


def _decades(axis: Axis, text: Callable[[float], str]) -> list[Tick]:
    """Return the powers of ten of a logarithmic axis, six at most."""
    first, last = math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9)
    stride = max(1, -(-(last - first + 1) // 6))
    values = [10.0**k for k in range(first, last + 1, stride)]
    return [Tick(round(100 * axis.position(v), 2), text(v)) for v in values]


def _ticks(axis: Axis, values: Sequence[float], one: int, name: str) -> list[Tick]:
    """Return ticks at multiples of a unit."""
    return [
        Tick(round(100 * axis.position(v * one), 2), f"{v:,.10g} {name}".rstrip() if v else "0")
        for v in values
    ]


def _round_values(low: float, high: float, wanted: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two values, about as many as wanted."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _steps(
    points: Sequence[Point], end: float, x: Axis, y: Axis, width: int = WIDTH, height: int = HEIGHT
) -> str:
    """Return the path of a step function up to `end`; a value of None is a gap in it."""
    parts, drawing, reached = [], False, 0
    for time, value in points:
        at = round(x.position(time) * width)
        if drawing and at != reached:
            parts.append(f"H{at}")
        reached = at
        if value is None:
            drawing = False
            continue
        up = round((1 - y.position(value)) * height)
        parts.append(f"V{up}" if drawing else f"M{at} {up}")
        drawing = True
    if drawing:
        parts.append(f"H{round(x.position(end) * width)}")
    return "".join(parts)


def _band(times: Any, lower: Any, upper: Any, x: Axis, y: Axis) -> str:
    """Return the closed path between two step functions."""
    at = [round(x.position(t) * WIDTH) for t in times.tolist()]
    top = [round((1 - y.position(v)) * HEIGHT) for v in upper.tolist()]
    base = [round((1 - y.position(v)) * HEIGHT) for v in lower.tolist()]
    there = "".join(f"V{v}H{b}" for v, b in zip(top, at[1:], strict=True))
    back = "".join(f"V{v}H{a}" for v, a in zip(base[::-1], at[-2::-1], strict=True))
    return f"M{at[0]} {base[0]}{there}{back}Z"
