"""The parts of the memory profile: stacked areas, lines, labels. Sizes are in points.

Colours are Paul Tol's "light" scheme (https://personal.sron.nl/~pault/), made for filled areas and
distinct under every common kind of colour blindness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models.texts import printable
from ...models.units import binary_unit, format_bytes, time_unit
from .figure import GREY, INK, TEXT, name_axes, plain
from .stacked_steps import draw_stack, thinned

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from ...models.derived.profile import MemoryProfile
    from ...models.graph import Graph

COLOURS = {
    "weight": "#EEDD88",
    "state": "#BBCC33",
    "input": "#44BB99",
    "activation": "#77AADD",
    "gradient": "#EE8866",
    "output": "#99DDFF",
    "workspace": "#FFAABB",
    "other": "#CCCCCC",
}
"""Kinds from the bottom of the stack (what stays) to its top, and their colours."""

_REFERENCE = "#AA3377"
_LEVELS = {  # colour, style of the line across the picture
    "peak": (INK, "-"),
    "height": (INK, "-"),
    "bound": ("#004488", "--"),
    "max load": ("#004488", "--"),
    "capacity": ("#BB5566", "-."),
    "reference": (_REFERENCE, ""),
}
_COLUMNS = 1200
"""Steps that are drawn: more cannot be told apart on a page of eight inches."""
_DENSE = 400
"""Steps from which on an outline of full width would hide the areas."""
_LEAST = 0.002
"""Share of the height of the axes below which a change cannot be seen."""
_VISIBLE = 0.003
"""Share of the peak below which an area cannot be seen, so that no legend names it."""
_LABEL_HEIGHT = 25
"""Height in points of a label, two lines of text."""
_CHARACTER = 0.54
"""Mean width of a character of DejaVu Sans in ems, measured on op names."""


class Scale(NamedTuple):
    """Units of the axes: their names, and how many ns (or ops) and bytes one unit is."""

    x_name: str
    x_unit: int
    y_name: str
    y_unit: int


def scale_for(end_ns: int, most_bytes: int, graph: Graph, *, counts_ops: bool) -> Scale:
    """Return the units that suit a picture of a graph up to the given time and size."""
    x_name, x_unit = ("ops executed", 1) if counts_ops else time_unit(end_ns)
    y_name, y_unit = binary_unit(most_bytes)
    return Scale(
        x_name if counts_ops else time_label(x_name, graph.durations), x_unit, f"memory [{y_name}]", y_unit
    )


def time_label(unit: str, durations: str | None, name: str = "time") -> str:
    """Return the label of an axis of time: its unit, and where durations that were not given come from.

    Examples
    --------
    >>> time_label("ms", "roofline of l4, fp32"), time_label("s", "given", "makespan")
    ('time [ms], roofline of l4, fp32', 'makespan [s]')
    """
    return f"{name} [{unit}]" + ("" if durations in (None, "given") else f", {durations}")


def draw_areas(ax: Axes, memory: MemoryProfile, scale: Scale) -> None:
    """Draw the bytes of each kind, stacked, and the outline of their total."""
    thin = memory.thin(_COLUMNS)
    kinds = [kind for kind in COLOURS if kind in thin.by_kind]
    if not kinds:
        return
    x = thin.times / scale.x_unit
    visible = {kind for kind in kinds if thin.by_kind[kind].max() >= _VISIBLE * memory.peak}
    layers = {kind if kind in visible else f"_{kind}": thin.by_kind[kind] / scale.y_unit for kind in kinds}
    least = _LEAST * ax.get_ylim()[1]
    draw_stack(ax, x, layers, COLOURS, least=least)
    width = 0.7 if thin.total.size <= _DENSE else 0.3
    x, total = thinned(x, thin.total / scale.y_unit, least)
    ax.step(x, np.append(total, total[-1]), where="post", color=INK, linewidth=width, zorder=3)


def draw_reference(ax: Axes, reference: MemoryProfile, scale: Scale) -> None:
    """Draw the total of the reference order as a thin line."""
    thin = reference.thin(_COLUMNS)
    ax.step(
        thin.times / scale.x_unit,
        _closed(thin.total, scale),
        where="post",
        color=_REFERENCE,
        linewidth=0.8,
        zorder=2.5,  # over the areas, under their outline: seen where the two differ
        label="reference order",
    )


def style_axes(ax: Axes, scale: Scale, end_ns: int, most_bytes: int) -> None:
    """Set limits (with room above for the name of the peak's op), names, ticks and grid."""
    ax.set_xlim(0, max(end_ns, 1) / scale.x_unit)
    ax.set_ylim(0, max(most_bytes, 1) / scale.y_unit * 1.18)
    if scale.x_unit == 1:
        ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    name_axes(ax, scale.x_name, scale.y_name, "y")


def write_head(ax: Axes, title: str, subtitle: str, *legends: Mapping[str, Artist], lift: float = 0) -> None:
    """Write title, subtitle and legends above the axes, one under the other.

    Parameters
    ----------
    legends
        The labels of each and what is drawn beside them; default: one, of what the axes have.
    lift
        Points above the axes that something else takes.
    """
    width, above = _points(ax)[0], 6 + lift
    own = ax.get_legend_handles_labels()
    for legend in reversed(legends or [dict(zip(own[1], own[0], strict=True))]):
        above += 13 * _write_legend(ax, legend, width, above)
    above += 5
    ax.annotate(
        plain(shorten(subtitle, int(width / (9 * _CHARACTER)))),
        (0, 1),
        (0, above),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9,
        color=GREY,
    )
    ax.set_title(
        plain(shorten(title, int(width / (11 * 1.15 * _CHARACTER)))),  # bold is wider
        loc="left",
        fontsize=11,
        fontweight="bold",
        color=INK,
        pad=above + 16,
    )


def _write_legend(ax: Axes, entries: Mapping[str, Artist], width: float, above: float) -> int:
    """Write a legend that many points above the axes; return its lines."""
    from matplotlib.transforms import ScaledTranslation

    if not entries:
        return 0
    longest = max(map(len, entries))
    columns = max(1, min(len(entries), int(width / max(72, longest * TEXT * _CHARACTER + 24))))
    if (other := ax.get_legend()) is not None:
        ax.add_artist(other)  # or it would be replaced
    ax.legend(
        [*entries.values()],
        [*entries],
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=ax.transAxes + ScaledTranslation(0, above / 72, ax.figure.dpi_scale_trans),
        ncols=columns,
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.2,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.4,
        labelspacing=0.4,
    )
    return -(-len(entries) // columns)


def mark_peak(ax: Axes, memory: MemoryProfile, scale: Scale, name: str, index: int | None) -> None:
    """Put a dot on the first peak, and the name of what sets it into the room above all.

    Parameters
    ----------
    name, index
        Of the op that runs there; without an index, what is there before any op.
    """
    step = int(memory.total.argmax())
    middle = (int(memory.times[step]) + int(memory.times[step + 1])) / 2
    x = 0 if memory.starts_highest else middle / scale.x_unit
    y = memory.peak / scale.y_unit
    to_the_right = x <= ax.get_xlim()[1] / 2
    room = int(_points(ax)[0] / 2 / (TEXT * _CHARACTER))
    which = "" if index is None else f" (op {index})"
    remark = which + (" sets the peak" if room >= 45 else "")
    ax.annotate(
        plain(shorten(name, max(room - len(remark), 8))) + remark,
        (x, y),
        (x, ax.get_ylim()[1] * (1 - 0.3 * 0.18)),
        ha="left" if to_the_right else "right",
        va="center",
        fontsize=TEXT,
        color=INK,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        arrowprops={
            "arrowstyle": "-",
            "color": GREY,
            "linewidth": 0.6,
            "shrinkA": 0,
            "shrinkB": 2,
            "relpos": (0 if to_the_right else 1, 0),
        },
    )
    ax.plot([x], [y], "o", color=INK, markersize=4, zorder=6)


def label_levels(ax: Axes, levels: Mapping[str, int], scale: Scale) -> None:
    """Draw the horizontal lines and write their names to the right of the axes, none over another."""
    names_of: dict[int, list[str]] = {}
    for name, value in levels.items():
        names_of.setdefault(value, []).append(name)
    height, top = _points(ax)[1], ax.get_ylim()[1] * scale.y_unit
    ascending = sorted(names_of)
    wanted = [value / top * height for value in ascending]
    for value, have, at in zip(ascending, wanted, spread(wanted, _LABEL_HEIGHT), strict=True):
        names = names_of[value]
        colour, line = _LEVELS[names[0]]
        y = value / scale.y_unit
        if line:
            ax.axhline(y, color=colour, linestyle=line, linewidth=0.9, zorder=5)
        ax.annotate(
            " = ".join(names) + f"\n{format_bytes(value)}",
            (1, y),
            (12, at - have),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            annotation_clip=False,
            va="center",
            fontsize=TEXT,
            color=colour,
            fontweight="bold" if {"peak", "height"} & {*names} else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Return positions at least `gap` apart with the least squared distance from the wanted ones.

    Parameters
    ----------
    wanted
        Ascending.

    Examples
    --------
    >>> spread([0.0, 1.0, 50.0], 10.0)
    [-4.5, 5.5, 50.0]
    """
    # Isotonic regression of wanted[i] - i * gap by pooling adjacent violators: (mean, members).
    blocks: list[tuple[float, int]] = []
    for i, y in enumerate(wanted):
        mean, members = y - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            other, more = blocks.pop()
            mean, members = (mean * members + other * more) / (members + more), members + more
        blocks.append((mean, members))
    flat = [mean for mean, members in blocks for _ in range(members)]
    return [z + i * gap for i, z in enumerate(flat)]


def shorten(text: str, most: int) -> str:
    """Return the text with control characters written out, its middle left out beyond `most` characters.

    Examples
    --------
    >>> shorten("features/denseblock4/conv", 12)
    'featur…/conv'
    """
    text = printable(text)
    if len(text) <= most:
        return text
    keep = max(most - 1, 2)
    return text[: keep - keep // 2] + "…" + text[len(text) - keep // 2 :]


def _points(ax: Axes) -> tuple[float, float]:
    """Return width and height of the axes in points (before a layout engine moves them: about)."""
    box = ax.get_window_extent()
    per_point = ax.figure.dpi / 72
    return box.width / per_point, box.height / per_point


def _closed(values: NDArray[np.int64], scale: Scale) -> NDArray[np.float64]:
    """Return the steps in the axis' unit, the last one repeated as step plots expect it."""
    scaled = values / scale.y_unit
    return np.append(scaled, scaled[-1:]) if scaled.size else np.zeros(1)
