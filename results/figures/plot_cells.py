"""The picture of a recomputation plan: which op runs when, and what each memory cell holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.errors import UsageError
from ...models.lowering.residencies import first_moment, residencies
from ...models.plan import Plan
from ...models.result import Result
from ...models.verifier.verify import verify
from . import plan_drawing as drawing
from .figure import INCHES, pyplot_figure
from .plan_drawing import Bar, DrawnLane
from .plot_plan import draw_lanes, kept, plan_head
from .plot_profile import counts_ops_of, plan_and_graph
from .profile_drawing import COLOURS, scale_for, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...models.graph import Graph

FIRST, AGAIN = "first run", "run again"
RUN_COLOURS = {FIRST: "#4477AA", AGAIN: "#CC3311"}
MOST = 120
"""Cells of all tiers together that a picture can show."""

_RUNS, _CELL = 2.2, 0.24
"""Heights in inches of the axes of runs and of a lane of cells."""


def cells(
    item: Result | Plan,
    graph: Graph | None = None,
    figure: Figure | None = None,
    *,
    title: str | None = None,
    subtitle: str | None = None,
) -> list[Axes]:
    """Draw which op runs when, and under it what each memory cell holds over time, tier by tier.

    Above, every run stands at the place of its op in the reference order, and those that are not the first
    of their op have a colour of their own: checkpointing schedules show their sweeps. A cell is a row that
    holds one tensor at a time; there are as few as tensors are in the tier at once (for tensors of one size,
    as many as the peak).

    Parameters
    ----------
    item, graph, figure, title, subtitle
        As for `profile`, but a figure to draw on; the subtitle says counts, makespan and stall.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes of the runs, then those of the cells.

    Raises
    ------
    UsageError, VerificationError, BackendUnavailable
        As `profile`; if there are more cells than a picture can show.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Recompute(lt.load("gen:backprop-chain?l=5&accounting=replace"), memory=4)
    >>> runs, memory = lt.plot.cells(lt.solve(problem, "revolve"), figure=lt.plot.new_figure())
    >>> runs.get_ylabel(), memory.get_xlabel()
    ('op', 'ops executed')
    """
    plan, graph = plan_and_graph(item, graph, "cells")
    verdict = verify(graph, plan, start_tiers={})
    verdict.raise_if_invalid()
    lanes = cell_lanes(graph, plan)
    figure = pyplot_figure(_inches(lanes)) if figure is None else figure
    span = max(verdict.makespan, 1)
    scale = scale_for(span, 1, graph, counts_ops=counts_ops_of(plan))
    above, below = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [_RUNS, _CELL * max(len(lanes), 1)]}
    )
    style_axes(above, scale, span, 1)
    above.set(ylabel="op", ylim=(-1, len(graph.ops)))
    above.yaxis.get_major_locator().set_params(integer=True)
    _draw_runs(above, plan, scale.x_unit)
    draw_lanes(below, [(lane, COLOURS) for lane in lanes], scale, span)
    above.set_xlabel("")
    above.tick_params(labelbottom=False)
    held = {bar.kind for lane in lanes for bar in lane.bars}
    plan_head(
        above,
        item,
        graph,
        plan,
        verdict,
        (title, subtitle),
        RUN_COLOURS if verdict.recomputed else kept(RUN_COLOURS, [FIRST]),
        kept(COLOURS, held),
    )
    return [above, below]


def cells_inches(graph: Graph, plan: Plan) -> tuple[float, float]:
    """Return width and height of a figure in which every cell has a good height."""
    return _inches(cell_lanes(graph, plan))


def _inches(lanes: list[DrawnLane]) -> tuple[float, float]:
    return INCHES[0], 1.6 + _RUNS + _CELL * max(len(lanes), 1)


def cell_lanes(graph: Graph, plan: Plan) -> list[DrawnLane]:
    """Return a lane for each cell: tier by tier, those in use first.

    Raises
    ------
    UsageError
        If there are more than a picture can show.
    """
    bars: list[list[Bar]] = [[] for _ in plan.machine.tiers]
    held = residencies(graph, plan)
    first = -first_moment(held)
    for r in held:
        tensor = graph.tensors[r.tensor]
        edges = [max(r.lower, first), *(time for gap in r.gaps for time in gap), r.upper]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            bars[r.tier].append(Bar(start, end, tensor.kind, tensor.name))
    lanes = []
    for tier, some in zip(plan.machine.tiers, bars, strict=True):
        placed, count = drawing.rows_of(some)
        by_row: list[list[Bar]] = [[] for _ in range(count if some else 0)]
        for bar in placed:
            by_row[bar.row].append(bar._replace(start=max(bar.start, 0), row=0))
        lanes += [DrawnLane(f"{tier.name} {k + 1}", "", row, 1) for k, row in enumerate(by_row)]
    if len(lanes) > MOST:
        raise UsageError(
            f"cells: found {len(lanes)} tensors at once, expected at most {MOST} (profile draws any number)"
        )
    return lanes


def _draw_runs(ax: Axes, plan: Plan, unit: int) -> None:
    """Draw each run at the height of its op."""
    from matplotlib.collections import LineCollection

    segments: dict[str, list[list[tuple[float, float]]]] = {FIRST: [], AGAIN: []}
    seen: set[int] = set()
    for run in sorted(plan.runs, key=lambda r: (r.start, r.end, r.op)):
        kind = AGAIN if run.op in seen else FIRST
        seen.add(run.op)
        segments[kind].append([(run.start / unit, run.op), (run.end / unit, run.op)])
    for kind, some in segments.items():
        ax.add_collection(
            LineCollection(some, colors=RUN_COLOURS[kind], linewidths=3, capstyle="butt", zorder=2)
        )
