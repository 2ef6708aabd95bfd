"""The picture of a memory/time trade-off: two staircases, and what is proved impossible below them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...models.errors import UsageError
from ...models.units import binary_unit, format_bytes, format_duration, time_unit
from .figure import INK, TEXT, name_axes, pyplot_figure
from .profile_drawing import time_label, write_head

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...models.problems.trade_off import TradeOff

Steps = list[tuple[float, float]]
"""Memory from which on a value holds, and the value."""

_SCHEDULE, _OPEN, _BOUND, _IMPOSSIBLE = "#882255", "#F6E3B4", "#004488", "#D5DCE6"
_MARGIN = 0.06
"""Margin at both sides, as a part of the range of memories."""
_BELOW, _ABOVE = 0.22, 0.08
"""Margins below the lowest bound and above the slowest schedule, as parts of the range of makespans."""


def trade_off(
    curve: TradeOff, ax: Axes | None = None, *, title: str | None = None, subtitle: str | None = None
) -> Axes:
    """Draw the makespan within each memory: schedules as a staircase, and what is proved impossible.

    A dot is a schedule, at its peak and its makespan: filled if it is proved to be a fastest one within that
    memory, else hollow. Between the staircases lies what is open.

    Parameters
    ----------
    curve
        As `lowtide.sweep_memory` returns it.
    ax
        Where to draw; default: a new pyplot figure.
    title, subtitle
        Default: the instance; processors, method, and how many schedules are proved fastest.

    Raises
    ------
    UsageError
        If the curve has no points.
    BackendUnavailable
        If matplotlib is not installed.

    Examples
    --------
    >>> import lowtide as lt
    >>> points = (lt.TradeOffPoint(memory=4, makespan=9, peak=4, bound=8),)
    >>> curve = lt.TradeOff(instance="g", machine="2 processors", least_memory=3, points=points)
    >>> lt.plot.trade_off(curve, lt.plot.new_axes()).get_xlabel()
    'memory [B]'
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not curve.points:
        raise UsageError("trade-off: found a curve without points, expected at least one")
    ax = pyplot_figure().subplots() if ax is None else ax
    (left, right), (low, high) = _limits(curve)
    x_name, x_unit = binary_unit(round(right))
    y_name, y_unit = time_unit(curve.points[0].makespan)
    name_axes(ax, f"memory [{x_name}]", time_label(y_name, curve.durations, "makespan"))
    ax.set_xlim(left / x_unit, right / x_unit)
    ax.set_ylim(low / y_unit, high / y_unit)
    for axis, unit in ((ax.xaxis, x_unit), (ax.yaxis, y_unit)):
        if unit == 1:
            axis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    known: Steps = [(curve.least_memory, high), *curve.front, (right, curve.front[-1][1])]
    impossible: Steps = [(left, high), *_bounds(curve, low), (right, low)]
    for steps, colour, layer in ((known, _OPEN, 1.0), (impossible, _IMPOSSIBLE, 1.1)):
        x, y = _scaled(steps, x_unit, y_unit)
        ax.fill_between(x, y, low / y_unit, step="post", color=colour, linewidth=0, zorder=layer)
    for steps, colour, width, layer in (
        (known[1:], _SCHEDULE, 1.4, 4),
        ([(curve.least_memory, high), *impossible[1:-1], (right, impossible[-2][1])], _BOUND, 0.9, 3),
    ):
        ax.step(*_scaled(steps, x_unit, y_unit), where="post", color=colour, linewidth=width, zorder=layer)
    proved = [makespan == curve.bound_within(peak) for peak, makespan in curve.front]
    for (peak, makespan), fastest in zip(curve.front, proved, strict=True):
        ax.plot(peak / x_unit, makespan / y_unit, linestyle="", zorder=5, **_dot(fastest))
    _name_ends(ax, curve, x_unit, y_unit)
    names = {True: "proved fastest", False: "best known"}
    write_head(
        ax,
        curve.instance if title is None else title,
        _subtitle(curve, sum(proved)) if subtitle is None else subtitle,
        {
            **{names[f]: Line2D([], [], linewidth=1.4, **_dot(f)) for f in names if f in proved},
            "open": Patch(facecolor=_OPEN),
            "proved impossible": Patch(facecolor=_IMPOSSIBLE, edgecolor=_BOUND, linewidth=0.9),
        },
    )
    return ax


def _dot(fastest: bool) -> dict[str, Any]:
    """Return the look of a schedule, filled if it is proved fastest."""
    face = _SCHEDULE if fastest else "white"
    return {
        "color": _SCHEDULE,
        "marker": "o",
        "markerfacecolor": face,
        "markersize": 5.5,
        "markeredgewidth": 1.2,
    }


def _limits(curve: TradeOff) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the range of memories and of makespans, with room around what is known.

    Memories beyond the last schedule of the front are left out if that one is proved fastest of all.
    """
    last, fastest = curve.front[-1]
    end = last if fastest == curve.bound else curve.points[-1].memory
    margin = _MARGIN * max(end - curve.least_memory, 0.01 * end, 1)
    slowest = curve.front[0][1]
    lowest = min([fastest, *(value for _, value in _bounds(curve, fastest))])
    room = max(slowest - lowest, 0.02 * slowest)
    across = max(curve.least_memory - margin, 0), end + margin
    return across, (max(lowest - _BELOW * room, 0), slowest + _ABOVE * room)


def _bounds(curve: TradeOff, none: float) -> Steps:
    """Return the staircase of bounds, from the least memory on; `none` where nothing is proved."""
    memories = [curve.least_memory, *(p.memory for p in curve.points)]
    values = [*(curve.bound_within(p.memory) for p in curve.points), curve.bound]
    return [(memory, none if v is None else v) for memory, v in zip(memories, values, strict=True)]


def _scaled(steps: Steps, x_unit: int, y_unit: int) -> tuple[list[float], list[float]]:
    return [memory / x_unit for memory, _ in steps], [value / y_unit for _, value in steps]


def _name_ends(ax: Axes, curve: TradeOff, x_unit: int, y_unit: int) -> None:
    """Write memory and makespan beside the first and the last schedule of the front."""
    ends = {curve.front[0]: ((8, 2), "left", "bottom"), curve.front[-1]: ((5, -8), "right", "top")}
    for (peak, makespan), (offset, align, vertical) in ends.items():
        ax.annotate(
            f"{format_bytes(peak)}, {format_duration(makespan)}",
            (peak / x_unit, makespan / y_unit),
            offset,
            textcoords="offset points",
            ha=align,
            va=vertical,
            fontsize=TEXT,
            color=INK,
            zorder=6,
        )


def _subtitle(curve: TradeOff, proved: int) -> str:
    """Return processors, method and what is proved, in one line."""
    count = len(curve.front)
    words = [curve.machine, curve.method, f"{count} schedule{'s' * (count != 1)}, {proved} proved fastest"]
    if curve.reason is not None:
        words.append({"time": "stopped by time"}.get(curve.reason, curve.reason))
    return " · ".join(words)
