"""The parts of a Gantt chart: what happens in each lane, as few rectangles as a page can show.

Runs have dark colours of Paul Tol's schemes "muted", "bright" and "high-contrast", by kind of op; copies
have the light ones of the memory profile, by kind of tensor (https://personal.sron.nl/~pault/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from .figure import GREY, INK, TEXT, plain
from .profile_drawing import COLOURS, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...models.graph import Graph
    from ...models.plan import Plan

RUN_COLOURS = ("#4477AA", "#CC6677", "#117733", "#DDAA33", "#AA4499", "#332288", "#999933", "#882255")
OTHER = "other ops"
OTHER_COLOUR = "#BBBBBB"
LANE = "#F3F3F3"

_COLUMNS = 2400
"""Parts of the width of which a narrower one cannot be told apart on any page."""
_WIDE = 1 / 200
"""Part of the width from which on a bar ends a hair before its neighbour begins."""
_HAIR = 1 / 1200
"""Part of the width that is the gap between two bars."""
_SEEN = 1 / 1400
"""Part of the width that every bar has, so that it can be seen."""
_LONGEST = 28
"""Characters of the name of a lane at most."""
_NAMED = 150
"""Bars of a lane up to which names are written into them."""
_LOW = 6
"""Height in points of a row in which text of 7 points meets no text of the next."""
_CHARACTER = 0.54 * 7
"""Width in points of a character of 7 points, on average."""


class Bar(NamedTuple):
    """Something that takes place in a lane over ``[start, end)`` nanoseconds.

    Attributes
    ----------
    kind
        Decides the colour.
    name
        Written into it, if there is room.
    row
        Number of the part of the lane, for what takes place at the same time.
    """

    start: int
    end: int
    kind: str
    name: str = ""
    row: int = 0


class DrawnLane(NamedTuple):
    """A processor or a channel: its name, what is said of it at the right, its bars, rows of bars."""

    name: str
    remark: str
    bars: list[Bar]
    rows: int


def op_kinds(graph: Graph, plan: Plan) -> dict[str, str]:
    """Return the colours of the kinds of ops that take most time, most first; the others share one."""
    spent: dict[str, int] = {}
    for run in plan.runs:
        kind = graph.ops[run.op].kind or "op"
        spent[kind] = spent.get(kind, 0) + run.end - run.start
    most = sorted(spent, key=lambda kind: (-spent[kind], kind))
    shown = most if len(most) <= len(RUN_COLOURS) else most[: len(RUN_COLOURS) - 1]
    found = dict(zip(shown, RUN_COLOURS, strict=False))
    return found | ({OTHER: OTHER_COLOUR} if len(most) > len(shown) else {})


def copy_kinds(graph: Graph, plan: Plan) -> dict[str, str]:
    """Return the colours of the kinds of tensors that are copied."""
    kinds = {graph.tensors[copy.tensor].kind for copy in plan.copies}
    return {kind: colour for kind, colour in COLOURS.items() if kind in kinds}


def rows_of(bars: Iterable[Bar]) -> tuple[list[Bar], int]:
    """Return the bars in rows of which none overlap, and how many rows there are (at least 1).

    Examples
    --------
    >>> bars, count = rows_of([Bar(0, 4, "x"), Bar(2, 6, "x"), Bar(4, 8, "x")])
    >>> [bar.row for bar in bars], count
    ([0, 1, 0], 2)
    """
    placed: list[Bar] = []
    busy: list[tuple[int, int]] = []  # end, row
    free: list[int] = []
    count = 0
    for bar in sorted(bars, key=lambda b: (b.start, b.end, b.kind, b.name)):
        while busy and busy[0][0] <= bar.start:
            heappush(free, heappop(busy)[1])
        row = heappop(free) if free else count
        count = max(count, row + 1)
        heappush(busy, (bar.end, row))
        placed.append(bar._replace(row=row))
    return placed, max(count, 1)


def merged(bars: Sequence[Bar], span: int) -> list[Bar]:
    """Return the bars with those too narrow to be seen joined to their neighbours of the same row.

    A joined bar has the kind that takes most of its time, and covers no more than one column of the
    page; wider bars stay as they are.

    Parameters
    ----------
    bars
        Sorted by start; none overlap in a row.
    span
        Nanoseconds that the page shows.

    Examples
    --------
    >>> merged([Bar(0, 1, "a"), Bar(1, 4, "b"), Bar(4, 100_000, "a")], 100_000)
    [Bar(start=0, end=4, kind='b', name='', row=0), Bar(start=4, end=100000, kind='a', name='', row=0)]
    """
    column = span / _COLUMNS
    joined: list[Bar] = []
    groups: dict[int, list[Bar]] = {}

    def close(row: int) -> None:
        group = groups.pop(row, [])
        if group:
            spent: dict[str, int] = {}
            for bar in group:
                spent[bar.kind] = spent.get(bar.kind, 0) + bar.end - bar.start
            kind = max(spent, key=lambda k: (spent[k], k))
            name = group[0].name if len(group) == 1 else ""
            joined.append(Bar(group[0].start, group[-1].end, kind, name, row))

    for bar in bars:
        group = groups.get(bar.row, [])
        if group and (bar.end - group[0].start > column or bar.end - bar.start > column):
            close(bar.row)
        groups.setdefault(bar.row, []).append(bar)
    for row in sorted(groups):
        close(row)
    return sorted(joined)


def draw_lane(ax: Axes, lane: DrawnLane, y: float, unit: int, span: int, colours: dict[str, str]) -> None:
    """Draw a lane: its background, its bars, its name at the left and the remark at the right.

    Parameters
    ----------
    y
        Its middle; a lane is 0.8 high.
    unit
        Nanoseconds of a unit of the horizontal axis.
    span
        Nanoseconds that the axes show.
    colours
        By kind of bar; other kinds are `OTHER`.
    """
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    bottom, height = y - 0.4, 0.8 / lane.rows
    ax.axhspan(bottom, bottom + 0.8, color=LANE, linewidth=0, zorder=1)
    bars = merged(lane.bars, span)
    corners: dict[str, list[tuple[float, float]]] = {}
    for bar in bars:
        wide = bar.end - bar.start > span * _WIDE
        end = bar.end - span * _HAIR if wide else max(bar.end, bar.start + span * _SEEN)
        left, right = bar.start / unit, end / unit
        low = bottom + height * bar.row
        high = low + height * (1 if lane.rows == 1 else 0.94)
        around = [(left, low), (right, low), (right, high), (left, high), (left, low)]
        corners.setdefault(colours.get(bar.kind, OTHER_COLOUR), []).extend(around)
    turns = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    ax.add_collection(
        PathCollection(
            [Path(path, turns * (len(path) // len(turns))) for path in corners.values()],
            facecolors=[*corners],
            linewidths=0,
            zorder=2,
        )
    )
    write_lane_names(ax, y, lane.name, lane.remark)
    if len(bars) <= _NAMED:
        _write_names(ax, bars, bottom, height, unit, span, colours)


def write_lane_names(ax: Axes, y: float, name: str, remark: str) -> None:
    """Write the name of the lane with that middle at its left, and the remark at its right."""
    shown = plain(shorten(name, _LONGEST))
    for text, x, align in ((shown, (0, -8), "right"), (remark, (1, 8), "left")):
        ax.annotate(
            text,
            (x[0], y),
            (x[1], 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha=align,
            va="center",
            fontsize=TEXT,
            color=INK if align == "right" else GREY,
            annotation_clip=False,
        )


def _write_names(
    ax: Axes, bars: Sequence[Bar], bottom: float, height: float, unit: int, span: int, colours: dict[str, str]
) -> None:
    """Write names into the bars that have room for four characters, unless a row is too low for text."""
    extent, shown = ax.get_window_extent(), abs(ax.get_ylim()[1] - ax.get_ylim()[0])
    width, row = (length / ax.figure.dpi * 72 for length in (extent.width, extent.height * height / shown))
    if row < _LOW:
        return
    for bar in bars:
        room = int(((bar.end - bar.start) / span * width - 4) / _CHARACTER)
        if bar.name and room >= 4:
            colour = colours.get(bar.kind, OTHER_COLOUR)
            ax.text(
                (bar.start + bar.end) / 2 / unit,
                bottom + height * (bar.row + 0.5),
                plain(shorten(bar.name, room)),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if _is_dark(colour) else INK,
                zorder=3,
                clip_on=True,
            )


def _is_dark(colour: str) -> bool:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140
