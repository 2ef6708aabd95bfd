"""The timeline of a plan for several tiers: ops, stalls, channels, and the memory of every tier under them.

Channels whose copies can be told apart on a page have a bar for each of them; with more copies each channel
shows the share of its bandwidth that is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from ...models.derived.profile import memory_profiles
from ...models.plan import Plan
from ...models.result import Result
from ...models.units import format_duration
from ...models.verifier.verify import verify
from . import plan_drawing as drawing
from .channel_use import draw_use
from .figure import INCHES, pyplot_figure
from .plan_drawing import Bar, DrawnLane
from .plot_plan import (
    channel_lane,
    draw_tier,
    drawn_tiers,
    kept,
    plan_head,
    processor_lanes,
    style_lanes,
)
from .plot_profile import counts_ops_of, plan_and_graph
from .profile_drawing import COLOURS, scale_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...models.graph import Graph
    from ...models.verifier.verdict import Verification

STALL = "stall"
STALL_COLOUR = "#CC3311"
_LANE, _TIER = 0.39, 1.1
"""Heights of a lane and of a tier's axes in inches."""


def timeline(
    item: Result | Plan,
    graph: Graph | None = None,
    figure: Figure | None = None,
    *,
    start: Mapping[str, tuple[str, ...]] | None = None,
    verdict: Verification | None = None,
    title: str | None = None,
    subtitle: str | None = None,
) -> list[Axes]:
    """Draw what happens when, and how full each tier is then.

    At the top one lane for the ops of each processor, one for its stalls, and one for each channel (its
    copies as in `gantt`, or how much of its bandwidth thousands of them use); below the memory of every
    tier, stacked by kind of tensor, on the same axis of time, but for tiers where nothing is found again.

    Parameters
    ----------
    item, graph, figure, title, subtitle
        As for `profile`, but a figure to draw on; the subtitle says counts, makespan and stall.
    start
        Where tensors of a kind may be at time 0, as for `lowtide.verify`.
    verdict
        What `lowtide.verify` said of the plan, if that is known.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes of the lanes, then those of each tier, innermost first.

    Raises
    ------
    UsageError, VerificationError, BackendUnavailable
        As `profile`.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("gen:chain?n=5&seed=1")), method="greedy")
    >>> len(lt.plot.timeline(result, figure=lt.plot.new_figure()))
    2
    """
    plan, graph = plan_and_graph(item, graph, "timeline")
    verdict = verify(graph, plan, start_tiers=start) if verdict is None else verdict
    verdict.raise_if_invalid()
    figure = pyplot_figure(timeline_inches(plan)) if figure is None else figure
    span = max(verdict.makespan, 1)
    ops = drawing.op_kinds(graph, plan)
    lanes: list[tuple[DrawnLane, dict[str, str]]] = []
    for lane, processor in zip(processor_lanes(graph, plan, span), plan.machine.processors, strict=True):
        lanes.append((lane, ops))
        if (stalls := _stalls(plan, processor.name, span)) is not None:
            lanes.append((stalls, {STALL: STALL_COLOUR}))
    tiers, channels = drawn_tiers(graph, plan), plan.machine.channels
    count = len(lanes) + len(channels)
    heights = [_LANE * count, *[_TIER] * len(tiers)]
    rows: list[Axes] = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0].tolist()
    copies, kinds = drawing.copy_kinds(graph, plan), set[str]()
    memories = memory_profiles(graph, plan)
    for ax, tier in zip(rows[1:], tiers, strict=True):
        draw_tier(ax, graph, plan, tier, memories[tier.name])
        kinds.update(ax.get_legend_handles_labels()[1])
    scale = scale_for(span, 1, graph, counts_ops=counts_ops_of(plan))
    style_lanes(rows[0], count, scale, span)
    for y, (lane, colours) in enumerate(lanes):
        drawing.draw_lane(rows[0], lane, y, scale.x_unit, span, colours)
    of_channels = [channel_lane(graph, plan, channel, span) for channel in channels]
    if all(len(drawing.merged(lane.bars, span)) == len(lane.bars) for lane in of_channels):
        for y, lane in enumerate(of_channels, start=len(lanes)):
            drawing.draw_lane(rows[0], lane, y, scale.x_unit, span, copies)
        kinds.update(copies)
    else:
        for y, channel in enumerate(channels, start=len(lanes)):
            draw_use(rows[0], graph, plan, channel, y, scale.x_unit, span)
        kinds.update(rows[0].get_legend_handles_labels()[1])
    for ax in rows[:-1]:
        ax.set_xlabel("")
        ax.tick_params(labelbottom=False)
    figure.align_ylabels(rows)
    plan_head(rows[0], item, graph, plan, verdict, (title, subtitle), ops, kept(COLOURS, kinds))
    return rows


def timeline_inches(plan: Plan) -> tuple[float, float]:
    """Return width and height of a figure in which lanes and tiers have good heights."""
    machine = plan.machine
    lanes = 2 * len(machine.processors) + len(machine.channels)
    return INCHES[0], 1.5 + _LANE * lanes + _TIER * len(machine.tiers)


def _stalls(plan: Plan, processor: str, span: int) -> DrawnLane | None:
    """Return the lane of the times between the runs of a processor; None if there are none."""
    runs = sorted((r.start, r.end) for r in plan.runs if r.processor == processor)
    edges = [(0, 0), *runs, (span, span)]
    bars = [Bar(a[1], b[0], STALL) for a, b in pairwise(edges) if b[0] > a[1]]
    if not bars or not runs:
        return None
    total = sum(bar.end - bar.start for bar in bars)
    return DrawnLane("stalls", f"{100 * total / span:.3g} %\n{format_duration(total)}", bars, 1)
