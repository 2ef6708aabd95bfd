"""The picture of an allocation: what lies where in memory, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...models.derived.profile import MemoryProfile
from ...models.errors import UsageError
from ...models.units import binary_unit
from . import allocation_case as cases
from . import allocation_drawing as drawing
from .allocation_drawing import Rectangles, Timeline
from .figure import GREY, INCHES, INK, TEXT, pyplot_figure
from .profile_drawing import Scale, label_levels, shorten, style_axes, write_head

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ...models.buffers import Buffers
    from ...models.graph import Graph
    from .allocation_case import AllocationCase, Item

TIMES = ("auto", "linear", "events")
"""Scales of the time axis."""

COLOURINGS = ("kind", "size", "lifetime")
"""What the colour of a buffer can tell."""

_STRIP = 42
"""Points that the strip takes above the axes."""


def allocation(
    item: Item,
    buffers: Buffers | Graph | None = None,
    ax: Axes | None = None,
    *,
    pool: str | None = None,
    time: str = "auto",
    colour: str | None = None,
    title: str | None = None,
    subtitle: str | None = None,
) -> Axes:
    """Draw the buffers of a pool as rectangles: lifetime across, addresses up; above them the load.

    White within the picture is memory that nobody uses. The strip above says how much is in use at each
    time; lines show the height that the allocation needs, what it cannot be below, and the capacity of the
    pool. In-place pairs that share an address overlap. Thousands of buffers become one image, each with its
    exact share of every pixel.

    Parameters
    ----------
    item
        A result or a plan with an allocation, an allocation, or offsets by buffer id.
    buffers
        The graph of a plan, or the buffers; a result has its own.
    ax
        Where to draw; default: a new pyplot figure.
    pool
        Default: the one that needs most memory.
    time
        "linear", or "events": one step for each time at which a lifetime begins or ends, however far apart
        they are; "auto" takes the latter if most of the buffers were too narrow to be seen otherwise.
    colour
        What it tells: the "kind" of tensor (default, where the graph is known and nearly everything is not of
        one kind), "size" (default otherwise) or "lifetime".
    title, subtitle
        Default: the instance; method, status, count and fragmentation.

    Returns
    -------
    matplotlib.axes.Axes
        The strip is their child.

    Raises
    ------
    UsageError
        If there is no allocation, no buffers or no such pool, or an option is unknown.
    VerificationError
        If the allocation does not verify: nothing is drawn of such an allocation.
    BackendUnavailable
        If matplotlib is not installed.

    Examples
    --------
    >>> import lowtide as lt
    >>> x, y = lt.Buffer(id="x", lower=0, upper=3, size=4), lt.Buffer(id="y", lower=2, upper=5, size=8)
    >>> both = lt.Buffers(buffers=(x, y))
    >>> lt.plot.allocation({"x": 0, "y": 4}, both, lt.plot.new_axes()).get_ylabel()
    'address [B]'
    """
    _check_options(time, colour)
    case = cases.case_of(item, buffers)
    pools = case.buffers.pools
    if pool is None:
        pool = max(pools, key=lambda name: case.heights[name], default="")
    elif pool not in pools:
        raise UsageError(f"pool: found {pool!r}, expected one of {', '.join(map(repr, pools))}")
    ax = pyplot_figure().subplots() if ax is None else ax
    _draw(case, [pool], [ax], time, colour, title, subtitle)
    return ax


def allocations(
    item: Item,
    buffers: Buffers | Graph | None = None,
    figure: Figure | None = None,
    *,
    time: str = "auto",
    colour: str | None = None,
    title: str | None = None,
    subtitle: str | None = None,
) -> list[Axes]:
    """Draw the buffers of every pool that has some, one pool under the other, else as `allocation`.

    Parameters
    ----------
    item, buffers, time, colour, title, subtitle
        As for `allocation`.
    figure
        Where to draw; default: a new pyplot figure.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes of each pool.

    Raises
    ------
    UsageError, VerificationError, BackendUnavailable
        As `allocation`.
    """
    _check_options(time, colour)
    case = cases.case_of(item, buffers)
    used = {b.pool for b in case.buffers.buffers}
    pools = [pool for pool in case.buffers.pools if pool in used] or [""]
    figure = pyplot_figure((INCHES[0], 1.2 + 3.2 * len(pools))) if figure is None else figure
    rows: list[Axes] = figure.subplots(len(pools), 1, squeeze=False)[:, 0].tolist()
    _draw(case, pools, rows, time, colour, title, subtitle)
    for ax in rows[:-1]:
        ax.set_xlabel("")
    figure.align_ylabels(rows)
    return rows


def _check_options(time: str, colour: str | None) -> None:
    for name, value, known in (("time", time, TIMES), ("colour", colour, (None, *COLOURINGS))):
        if value not in known:
            expected = ", ".join(k for k in known if k is not None)
            raise UsageError(f"{name}: found {value!r}, expected one of {expected}")


def _draw(
    case: AllocationCase,
    pools: Sequence[str],
    rows: Sequence[Axes],
    time: str,
    colour: str | None,
    title: str | None,
    subtitle: str | None,
) -> None:
    """Draw the pools, all in the same colours and the same scale of time, and the words above the first."""
    from matplotlib.patches import Patch

    parts = [drawing.rectangles_of(case.buffers, case.offsets, pool) for pool in pools]
    line = cases.timeline(case, parts, time)
    chosen = cases.telling(case, parts) if colour is None else colour
    colours, legend = cases.colours_of(
        case, chosen, {int(i) for part in parts for i in np.unique(part.owner)}
    )
    rgb = drawing.shaded(colours)
    loads = [cases.load_over_time(case, pool, part, line) for pool, part in zip(pools, parts, strict=True)]
    for ax, pool, part, load in zip(rows, pools, parts, loads, strict=True):
        _draw_pool(ax, case, pool, part, line, load, rgb)
    if chosen != "kind":
        _write_beside(rows[0], chosen, 1, _STRIP + 11)
    write_head(
        rows[0],
        cases.title_of(case) if title is None else title,
        cases.subtitle_of(case, pools, loads) if subtitle is None else subtitle,
        {label: Patch(facecolor=c, edgecolor="#999999", linewidth=0.4) for label, c in legend.items()},
        lift=_STRIP,
    )


def _draw_pool(
    ax: Axes,
    case: AllocationCase,
    pool: str,
    part: Rectangles,
    line: Timeline,
    load: NDArray[np.int64],
    rgb: NDArray[np.float64],
) -> None:
    """Draw a pool with its levels, and the strip above it."""
    levels = cases.levels_of(case, pool, int(load.max()))
    most = max(levels.values())
    y_name, y_unit = binary_unit(most)
    where = f"{shorten(pool, 28)} " if len(case.buffers.pools) > 1 and pool else ""
    scale = Scale(cases.time_name(case, line), line.unit, f"{where}address [{y_name}]", y_unit)
    style_axes(ax, scale, int(line.times[-1]), most)
    ax.set_ylim(0, max(most, 1) * 1.02 / y_unit)
    _set_times(ax, line)
    ax.grid(visible=False)
    if y_unit == 1:
        ax.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]

    corners = np.stack(
        [line.at(part.begin), line.at(part.end), part.low / y_unit, part.high / y_unit], axis=1
    )
    faces = rgb[part.owner]
    if len(corners) <= drawing.VECTOR:
        drawing.draw_shapes(ax, corners, faces)
    else:
        drawing.draw_image(ax, corners, faces)
    names = [drawing.short_name(b.id) if case.plan is not None else b.id for b in case.buffers.buffers]
    drawing.write_names(ax, corners, [names[i] for i in part.owner], faces)
    label_levels(ax, levels, scale)
    _draw_strip(ax, line, load, case.heights.get(pool, 0))


def _draw_strip(ax: Axes, line: Timeline, load: NDArray[np.int64], height: int) -> None:
    """Draw how much of the height is in use, in a strip above the picture."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    # Across as the axes; up in inches from their upper edge.
    upwards = ax.figure.dpi_scale_trans + ScaledTranslation(0, 1, ax.transAxes)  # type: ignore[arg-type]
    place = blended_transform_factory(ax.transAxes, upwards)
    strip = ax.inset_axes((0, 8 / 72, 1, (_STRIP - 8) / 72), transform=place, sharex=ax)
    places = np.arange(len(line.times)) if line.by_events else line.times
    thin = MemoryProfile(tier="", times=places, by_kind={}, total=load[:-1]).thin(1200)
    x = thin.times if line.by_events else thin.times / line.unit
    y = np.append(thin.total, thin.total[-1:]) / max(height, 1)
    strip.fill_between(x, y, step="post", color="#B8B8B8", linewidth=0)
    strip.axhline(1, color=INK, linewidth=0.6)
    strip.set(ylim=(0, 1.02), yticks=[])
    strip.tick_params(bottom=False, labelbottom=False)
    for side in ("top", "right", "left"):
        strip.spines[side].set_visible(False)
    strip.spines["bottom"].set_color(GREY)
    spans = np.diff(line.times).astype(np.float64)
    share = float((load[:-1] * spans).sum() / max(height * spans.sum(), 1))
    _write_beside(strip, f"{100 * share:.3g} %\nin use", 0.5, 0)


def _write_beside(ax: Axes, text: str, y: float, up: float) -> None:
    """Write a remark left of the axes, at a part of their height and some points above it."""
    ax.annotate(
        text,
        (0, y),
        (-6, up),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=TEXT,
        color=GREY,
    )


def _set_times(ax: Axes, line: Timeline) -> None:
    first, last = line.at(line.times[[0, -1]])
    ax.set_xlim(first, last)
    if line.by_events:
        places = np.unique(np.linspace(0, len(line.times) - 1, 7).astype(np.int64))
        values = [t / line.unit for t in line.times[places].tolist()]
        ax.set_xticks(places, [f"{v:,.0f}" if v >= 1000 else f"{v:.4g}" for v in values])
    else:
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")
