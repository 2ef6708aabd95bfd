"""The picture of a result: the one that suits its problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models.errors import UsageError
from ..models.problems import PROBLEMS

if TYPE_CHECKING:
    from ..models.buffers import Buffers
    from ..models.result import Result

KINDS = ("profile", "gantt", "residency", "timeline", "cells", "stages", "allocation", "allocations")
"""The functions of `lowtide.plot` that draw a result."""

_MOST_CELLS_OPS = 200
"""Runs up to which `cells` can be read."""


def picture_of(result: Result) -> str:
    """Return the function of `lowtide.plot` for a result: its own; the timeline of many runs, or tiers."""
    kind, plan = PROBLEMS[result.problem].picture, result.plan
    many = kind == "cells" and plan is not None and len(plan.runs) > _MOST_CELLS_OPS
    several = kind == "gantt" and plan is not None and len(plan.machine.tiers) > 1
    return "timeline" if many or several else kind


def plot_result(result: Result, kind: str | None = None, **options: Any) -> Any:
    """Draw the answer with matplotlib, in a figure that notebooks and windows show.

    Parameters
    ----------
    kind
        "profile" (memory over time), "gantt" (processors, and memory), "timeline" (runs, stalls, copies and
        every tier), "residency" (every tier), "cells" (runs and runs again, memory cells), "stages" (of a
        pipeline, and what a device of each holds) or "allocations" (time x address). None: what suits the
        problem.
    **options
        Of the function of that name in `lowtide.plot`, such as ``title`` or ``ax``.

    Returns
    -------
    matplotlib.axes.Axes, or a list of them
        What that function returns; ``lowtide.plot.save`` writes the figure to a file.

    Raises
    ------
    UsageError
        If there is no such picture, or no answer to draw.
    BackendUnavailable
        If matplotlib is not installed.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "greedy")
    >>> result.plot(ax=lt.plot.new_axes()).get_title(loc="left")
    'diamond'
    """
    from . import plot

    chosen = kind or picture_of(result)
    if not PROBLEMS[result.problem].picture:
        raise UsageError(f"plot: found a result of {result.problem}, expected one of a problem with pictures")
    if chosen not in KINDS:
        raise UsageError(f"plot: found kind {kind!r}, expected one of {', '.join(KINDS)}")
    return getattr(plot, chosen)(result, **options)


def rendered_picture(item: Result | Buffers) -> bytes:
    """Return the picture of a result, or of buffers with offsets, as SVG, in a figure of no window."""
    from ..models.result import Result
    from . import plot
    from .figures.figure import INCHES

    if not isinstance(item, Result):
        offsets = {b.id: b.offset for b in item.buffers if b.offset is not None}
        return plot.rendered(plot.allocations(offsets, item, plot.new_figure())[0], "svg")
    kind, plan = picture_of(item), item.plan
    options: dict[str, Any] = {}
    if kind == "profile":
        return plot.rendered(plot.profile(item, ax=plot.new_axes()), "svg")
    inches = INCHES
    if plan is not None and kind in ("gantt", "timeline"):
        inches = (plot.gantt_inches if kind == "gantt" else plot.timeline_inches)(plan)
    if plan is not None and kind == "stages":
        inches = plot.stages_inches(plan)
    if plan is not None and item.graph is not None and kind == "cells":
        inches = plot.cells_inches(item.graph, plan)
    if kind == "timeline":
        options["verdict"] = item.verification
    axes = getattr(plot, kind)(item, figure=plot.new_figure(inches), **options)
    return plot.rendered(axes[0], "svg")
