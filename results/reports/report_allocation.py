"""An allocation in the report: rectangles as SVG paths, and their exact numbers for the read-out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.units import format_bytes
from ..figures import allocation_case as cases
from ..figures import allocation_drawing as drawing
from ..figures.profile_drawing import COLOURS
from .report_charts import HEIGHT, WIDTH, Axis, Chart, Tick, span_ticks, value_ticks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..figures.allocation_case import AllocationCase
    from ..figures.allocation_drawing import Floats, Rectangles, Timeline

MOST = 5000
"""Rectangles that a chart keeps as such, the largest; others are too small to be told apart."""

_THIN = 3
"""Units of the box below which an outline would hide what it encloses."""
_LEAST = 0.3
"""Units of the box that every rectangle has across and up, so that it can be seen."""
_UNITS = {"": "", "op": "ops", "ns": "ns"}
_STYLES = {colour: f"k-{kind}" for kind, colour in COLOURS.items()}
_STYLES |= {colour: f"c{k}" for k, colour in enumerate(drawing.SCHEME)}


def allocation_chart(title: str, case: AllocationCase, *, bound: int | None) -> Chart:
    """Return the chart of an allocation that verifies: time across, addresses up.

    Of several pools it shows the one that needs most memory.

    Parameters
    ----------
    bound
        Proved lower bound in bytes, or None.
    """
    pools = sorted({b.pool for b in case.buffers.buffers}, key=lambda name: (-case.heights[name], name))
    pool = pools[0] if pools else ""
    part = drawing.rectangles_of(case.buffers, case.offsets, pool)
    line = cases.timeline(case, [part], "auto")
    height = case.heights.get(pool, 0)
    levels = {"height": height}
    load = int(cases.load_over_time(case, pool, part, line).max())
    if bound is not None and len(pools) == 1:
        levels["bound"] = bound
    elif load < height:
        levels["max load"] = load
    capacity = case.buffers.pools.get(pool)
    if capacity is not None and capacity <= height * cases.FAR:
        levels["capacity"] = capacity
    ends = line.at(line.times[[0, -1]]) * (1 if line.by_events else line.unit)
    x, y = Axis(float(ends[0]), float(ends[1])), Axis(0, max(*levels.values(), 1) * 1.03)
    colours, legend = cases.colours_of(case, cases.telling(case, [part]), {int(i) for i in part.owner})
    corners, styles = _corners(part, line, x, y), [_STYLES[colours[i]] for i in part.owner]
    large = _largest(corners)
    shown = drawing.Rectangles(*(values[large] for values in part))
    paths = _mosaic(corners[~large], [s for s, kept in zip(styles, large, strict=True) if not kept])
    paths += _paths(corners[large], [s for s, kept in zip(styles, large, strict=True) if kept])
    lines = _lines(levels)
    paths += [(style, _line(y, levels[names[0]])) for names, style in lines]
    return Chart(
        title=title,
        paths=paths,
        x_ticks=_time_ticks(case, line, x),
        y_ticks=value_ticks(y, "bytes"),
        legend=[(label, f"area {_STYLES[colour]}") for label, colour in legend.items()]
        + [(f"{' = '.join(names)}, {format_bytes(levels[names[0]])}", style) for names, style in lines],
        data=_data(case, shown, line, x, y),
        note=_note(len(part.owner), len(shown.owner), pools),
        wide=True,
    )


def _lines(levels: Mapping[str, int]) -> list[tuple[list[str], str]]:
    """Return the names that share a line, with its style."""
    names_of: dict[int, list[str]] = {}
    for name, value in levels.items():
        names_of.setdefault(value, []).append(name)
    styles = {"height": "peak", "max load": "bound", "bound": "bound", "capacity": "capacity"}
    return [(names, f"line level-{styles[names[0]]}") for names in names_of.values()]


def _line(y: Axis, value: int) -> str:
    return f"M0 {_text((1 - y.position(value)) * HEIGHT)}H{WIDTH}"


def _corners(part: Rectangles, line: Timeline, x: Axis, y: Axis) -> Floats:
    """Return left, width, top and height of each rectangle in units of the box."""
    scale = 1 if line.by_events else line.unit
    begin, end = line.at(part.begin) * scale, line.at(part.end) * scale
    across, up = WIDTH / max(x.high - x.low, 1), HEIGHT / y.high
    width = np.maximum((end - begin) * across, _LEAST)
    height = np.maximum((part.high - part.low) * up, _LEAST)
    return np.stack([(begin - x.low) * across, width, HEIGHT - part.high * up, height], axis=1)


def _largest(corners: Floats) -> NDArray[np.bool_]:
    """Return which rectangles are kept as such."""
    large = np.zeros(len(corners), dtype=np.bool_)
    large[np.argsort(-corners[:, 1] * corners[:, 3], kind="stable")[:MOST]] = True
    return large


def _mosaic(corners: Floats, styles: Sequence[str]) -> list[tuple[str, str]]:
    """Return one path for each style of what covers at least half of a unit of the box, and most of that."""
    known = sorted({*styles})
    if not known:
        return []
    cover = np.zeros((len(known), HEIGHT, WIDTH), dtype=np.float32)
    for (left, width, top, height), style in zip(corners.tolist(), styles, strict=True):
        rows, columns = drawing.shares(top, top + height, HEIGHT), drawing.shares(left, left + width, WIDTH)
        place = cover[known.index(style), slice(*rows[0]), slice(*columns[0])]
        place += rows[1][:, None] * columns[1][None, :]
    style_of = np.where(cover.sum(axis=0) >= 0.5, cover.argmax(axis=0), -1)
    parts: dict[str, list[str]] = {style: [] for style in known}
    for y, row in enumerate(style_of):
        stops = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), WIDTH]
        for begin, end in pairwise(stops):
            if row[begin] >= 0:
                parts[known[row[begin]]].append(f"M{begin} {y}h{end - begin}v1h-{end - begin}z")
    return [(f"block thin {style}", "".join(pieces)) for style, pieces in parts.items() if pieces]


def _paths(corners: Floats, styles: Sequence[str]) -> list[tuple[str, str]]:
    """Return one path for each look: thin rectangles have no outline, every second one is a little paler."""
    parts: dict[str, list[str]] = {}
    for k, ((left, width, top, height), style) in enumerate(zip(corners.tolist(), styles, strict=True)):
        look = "block" + " thin" * (min(width, height) < _THIN) + " pale" * (k % 2)
        across, up = _text(width), _text(height)
        parts.setdefault(f"{look} {style}", []).append(
            f"M{_text(left)} {_text(top)}h{across}v{up}h-{across}z"
        )
    return [(look, "".join(pieces)) for look, pieces in sorted(parts.items())]


def _text(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _data(case: AllocationCase, part: Rectangles, line: Timeline, x: Axis, y: Axis) -> dict[str, Any]:
    """Return what the read-out needs: of each rectangle its buffer's name, times and addresses."""
    owners, number = np.unique(part.owner, return_inverse=True)
    times = [np.searchsorted(line.times, t) if line.by_events else t for t in (part.begin, part.end)]
    columns = np.stack([number.reshape(-1), *times, part.low, part.high], axis=1)
    used = np.unique(times).tolist() if line.by_events else []
    stops = {k: int(line.times[k]) for k in used} or None
    return {
        "x": {"low": x.low, "high": x.high, "unit": _unit(case), "times": stops},
        "y": {"high": y.high},
        "names": [case.buffers.buffers[i].id for i in owners.tolist()],
        "sizes": [case.buffers.buffers[i].size for i in owners.tolist()],
        "rectangles": columns.reshape(-1).tolist(),
    }


def _time_ticks(case: AllocationCase, line: Timeline, x: Axis) -> list[Tick]:
    if not line.by_events:
        return span_ticks(x, _UNITS[_unit(case)])
    places = np.unique(np.linspace(0, len(line.times) - 1, 6).astype(np.int64)).tolist()
    times = line.times[places].tolist()
    return [Tick(round(100 * x.position(k), 2), _time(case, t)) for k, t in zip(places, times, strict=True)]


def _time(case: AllocationCase, value: int) -> str:
    """Return a time as a tick says it; a large number without a unit in powers of ten."""
    if case.plan is not None or value < 10**7:
        return cases.duration_text(value, case.plan)
    power = (len(str(value)) - 1) // 3 * 3
    return f"{value / 10**power:.4g}e{power}"


def _unit(case: AllocationCase) -> str:
    """Return what the read-out calls the unit of time."""
    if case.plan is None:
        return ""
    return "op" if cases.counts_ops(case.plan) else "ns"


def _note(count: int, kept: int, pools: Sequence[str]) -> str:
    words = []
    if kept < count:
        words.append(f"Values can be read off the {kept:,} largest of {count:,} rectangles.")
    if len(pools) > 1:
        words.append(f"Pool {pools[0]!r}; the others are {', '.join(map(repr, pools[1:]))}.")
    return " ".join(words)
