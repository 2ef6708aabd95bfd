"""What the pictures of experiments share: a look for each setting, axes, labels at the ends of lines.

Colours are Paul Tol's "bright" scheme without its grey (https://personal.sron.nl/~pault/), distinct under
every common kind of colour blindness; dashes and markers tell the lines apart without colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models.errors import UsageError
from ..tables.cells import natural
from ..tables.measured import CASE, VIRTUAL_BEST
from .figure import GREY, INK, TEXT, plain
from .profile_drawing import spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from ..tables.metrics import Floats

_COLOURS = ("#4477AA", "#EE6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_COLUMNS = 2400
"""Points of a curve that are drawn: more cannot be told apart on any page."""
_MARKERS = "osD^vPX<>*hp"


class Look(NamedTuple):
    """How the runs of a setting are drawn everywhere."""

    colour: str
    dashes: Any
    marker: str


def looks(runs: pd.DataFrame, by: str = "setting") -> dict[str, Look]:
    """Return the look of each setting, in natural order, the virtual best last and in black."""
    names = sorted((str(name) for name in runs[by].unique()), key=lambda name: natural((name,)))
    look_of = {}
    for k, name in enumerate(names):
        turn, which = divmod(k, len(_COLOURS))
        look_of[name] = Look(_COLOURS[which], _DASHES[turn % len(_DASHES)], _MARKERS[k % len(_MARKERS)])
    if VIRTUAL_BEST in look_of:
        look_of[VIRTUAL_BEST] = Look(INK, (0, (1, 1)), "")
    return look_of


def case_numbers(runs: pd.DataFrame, by: str) -> pd.Series[int]:
    """Return a number for each run that tells its case.

    Raises
    ------
    UsageError
        If a case has several runs of a setting: they cannot be told apart.
    """
    numbers = runs.groupby([*CASE], dropna=False).ngroup()
    if runs.assign(_case=numbers).duplicated(["_case", by]).any():
        raise UsageError(
            f"runs: found several runs of one {by} in a case, expected one (select one version of the code, "
            "or compare by another column)"
        )
    return numbers


def number_of_cases(count: int) -> str:
    """Return the number in words for a subtitle."""
    return f"{count:,} case{'s' * (count != 1)}"


def plain_numbers(axis: Axis) -> None:
    """Write the ticks of a logarithmic axis, whose limits are set, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 200 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def percent_axis(axis: Axis, most: float) -> None:
    """Make the axis of percentages linear up to a hundredth of a percent, then logarithmic: it has a 0."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    axes = axis.axes
    scale, limit = (
        (axes.set_xscale, axes.set_xlim) if axis is axes.xaxis else (axes.set_yscale, axes.set_ylim)
    )
    scale("symlog", linthresh=0.01, linscale=0.5)
    limit(0, max(most, 0.02))
    axis.set_major_locator(FixedLocator([0, 0.01, 0.1, 1, 10, 100]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def square(ax: Axes, values: Floats, beyond: str, *, percent: bool) -> float:
    """Set equal axes for the values, with a diagonal and a line of failures beyond; return where that is.

    Parameters
    ----------
    values
        All that is drawn; positive unless they are percentages.
    beyond
        What a point on the line of failures is.
    percent
        Whether the axes begin at 0 percent; otherwise they are logarithmic.
    """
    most = float(values.max())
    if percent:
        edge = max(3 * most, 0.1)
        for axis in (ax.xaxis, ax.yaxis):
            percent_axis(axis, edge)
        low = 0.0
    else:
        low, edge = float(values[values > 0].min(initial=most or 1.0)) / 1.5, most * 2.2
        low = min(low, edge / 20)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(low, edge)
        ax.set_ylim(low, edge)
        for axis in (ax.xaxis, ax.yaxis):
            plain_numbers(axis)
    ax.plot([low, edge], [low, edge], color=GREY, linewidth=0.8, zorder=1)
    if not percent:
        for factor in (10.0, 0.1):
            ends = [low, edge], [low * factor, edge * factor]
            ax.plot(*ends, color=GREY, linewidth=0.6, linestyle=":", zorder=1)
    for line in (ax.axhline, ax.axvline):
        line(edge, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1, clip_on=False)
    notes = {edge: beyond} if percent else {edge: beyond, edge / 10: "10 times"}
    for y, text in notes.items():
        ax.annotate(
            plain(text),
            (1, y),
            (5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=TEXT,
            color=GREY,
        )
    return edge


def height_of(ax: Axes, y: float) -> float:
    """Return where a value lies on the vertical axis, as a share of its height."""
    low, high = ax.transData.transform([(ax.get_xlim()[0], v) for v in ax.get_ylim()])[:, 1]
    return float((ax.transData.transform((ax.get_xlim()[0], y))[1] - low) / (high - low))


def draw_steps(ax: Axes, x: Floats, y: Floats, name: str, look: Look) -> None:
    """Draw the steps of a setting, those of the virtual best over all others."""
    (line,) = ax.plot(x, y, drawstyle="steps-post", linewidth=1.4, zorder=4 if name == VIRTUAL_BEST else 3)
    line.set(color=look.colour, linestyle=look.dashes)


def some(count: int) -> list[int]:
    """Return about eight positions among so many, the first and the last with them: those with a marker."""
    return sorted({round(k * (count - 1) / 7) for k in range(8)}) if count else []


def thin(count: int) -> NDArray[np.int64]:
    """Return which of so many points of a line are drawn: all, or as many as a page can show."""
    return np.unique(np.linspace(0, count - 1, min(count, _COLUMNS)).astype(np.int64))


def label_ends(
    ax: Axes, ends: Mapping[str, float], texts: Mapping[str, str], styles: Mapping[str, Look]
) -> None:
    """Write a text for each line to the right of the axes, at the height where the line ends.

    Parameters
    ----------
    ends
        Where each line ends, as a share of the height of the axes; of equal ones the last is on top.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the layout engine gives the axes their height now
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    names = sorted(ends, key=ends.__getitem__)
    wanted = [ends[name] * height for name in names]
    gap = TEXT * 1.35
    places = spread(wanted, gap)
    for k in reversed(range(len(places))):  # none above the axes, where the title may be ...
        places[k] = min(places[k], height if k == len(places) - 1 else places[k + 1] - gap)
    for k in range(len(places)):  # ... and none below, if they fit
        places[k] = max(places[k], 0.0 if k == 0 else places[k - 1] + gap)
    for name, have, at in zip(names, wanted, places, strict=True):
        ax.annotate(
            plain(texts[name]),
            (1, ends[name]),
            (14, at - have),
            xycoords="axes fraction",
            textcoords="offset points",
            annotation_clip=False,
            va="center",
            fontsize=TEXT,
            color=INK,
            arrowprops={
                "arrowstyle": "-",
                "color": styles[name].colour,
                "linestyle": styles[name].dashes,
                "linewidth": 1.4,
                "shrinkA": 3,
                "shrinkB": 0,
                "relpos": (0, 0.5),
                "patchA": None,  # or a steep line would end at the box of the text, far from its middle
            },
        )


def mark_limits(ax: Axes, runs: pd.DataFrame) -> None:
    """Draw the time limits of the runs as horizontal lines."""
    for limit in sorted({float(v) for v in runs["limits_seconds"].dropna()}):
        ax.axhline(limit, color=GREY, linestyle=(0, (4, 3)), linewidth=0.8, zorder=2)
        ax.annotate(
            f"limit {limit:g} s",
            (0, limit),
            (4, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            fontsize=TEXT,
            color=GREY,
        )


def legend_beside(ax: Axes) -> None:
    """Write the legend to the right of the axes."""
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(1, 1),
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
        borderpad=0,
        borderaxespad=0.8,
        handlelength=2.4,
    )
