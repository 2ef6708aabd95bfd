"""Pictures of a plan: Gantt chart of runs and copies with the memory under it, memory of every tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...models.derived.profile import MemoryProfile, memory_profile, memory_profiles
from ...models.plan import Plan
from ...models.result import Result
from ...models.units import format_bytes, format_duration
from ...models.verifier.verify import verify
from . import plan_drawing as drawing
from .figure import GREY, INCHES, plain, pyplot_figure
from .plan_drawing import Bar, DrawnLane
from .plot_profile import counts_ops_of, plan_and_graph, plan_title, tier_of
from .profile_drawing import (
    COLOURS,
    Scale,
    draw_areas,
    label_levels,
    scale_for,
    shorten,
    style_axes,
    write_head,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...models.graph import Graph
    from ...models.machine import Channel, Tier
    from ...models.verifier.verdict import Verification

_LANE, _TIER = 0.45, 1.7
"""Heights of a lane and of a tier's axes in inches."""


def gantt(
    item: Result | Plan,
    graph: Graph | None = None,
    figure: Figure | None = None,
    *,
    tier: str | None = None,
    title: str | None = None,
    subtitle: str | None = None,
) -> list[Axes]:
    """Draw what each processor runs and what each channel copies, and the memory of a tier under it.

    One lane per processor, then one per channel; copies at the same time lie in rows of their lane.
    Runs are coloured by kind of op, copies and memory by kind of tensor. At the right stands how busy each
    is. What is too narrow to be seen is joined, so that thousands of runs are a small file. Below, on the
    same axis of time, the bytes in the tier, stacked, with their peak and its capacity as lines.

    Parameters
    ----------
    item, graph, figure, tier, title, subtitle
        As for `profile`, but a figure to draw on; the subtitle says counts, makespan and stall.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes of the lanes, then those of the memory.

    Raises
    ------
    UsageError, VerificationError, BackendUnavailable
        As `profile`.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("gen:chain?n=5&seed=1")), method="greedy")
    >>> lanes, memory = lt.plot.gantt(result, figure=lt.plot.new_figure())
    >>> memory.get_xlabel(), memory.get_ylabel()
    ('ops executed', 'memory [B]')
    """
    plan, graph = plan_and_graph(item, graph, "gantt")
    shown = tier_of(plan, tier)
    verdict = verify(graph, plan)
    verdict.raise_if_invalid()
    figure = pyplot_figure(gantt_inches(plan)) if figure is None else figure
    span = max(verdict.makespan, 1)
    scale = scale_for(span, 1, graph, counts_ops=counts_ops_of(plan))
    ops, copies = drawing.op_kinds(graph, plan), drawing.copy_kinds(graph, plan)
    lanes = [(lane, ops) for lane in processor_lanes(graph, plan, span)]
    lanes += [(lane, copies) for lane in channel_lanes(graph, plan, span)]

    top, below = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [_LANE * len(lanes), _TIER]}
    )
    draw_tier(below, graph, plan, shown, memory_profile(graph, plan, shown.name))
    draw_lanes(top, lanes, scale, span)
    top.set_xlabel("")
    top.tick_params(bottom=False, labelbottom=False)
    top.spines["bottom"].set_visible(False)
    kinds = {*copies, *below.get_legend_handles_labels()[1]}
    plan_head(top, item, graph, plan, verdict, (title, subtitle), ops, kept(COLOURS, kinds))
    return [top, below]


def gantt_inches(plan: Plan) -> tuple[float, float]:
    """Return width and height of a figure in which lanes and memory have good heights."""
    lanes = len(plan.machine.processors) + len(plan.machine.channels)
    return INCHES[0], 1.8 + _LANE * lanes + _TIER


def residency(
    item: Result | Plan,
    graph: Graph | None = None,
    figure: Figure | None = None,
    *,
    title: str | None = None,
    subtitle: str | None = None,
) -> list[Axes]:
    """Draw the memory of every tier over time, one under the other, stacked by kind of tensor.

    Without tiers where nothing is found again (`drawn_tiers`).

    Parameters
    ----------
    item, graph, figure, title, subtitle
        As for `profile`, but a figure to draw on; the subtitle says counts, makespan and stall.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes of each tier, innermost first.

    Raises
    ------
    UsageError, VerificationError, BackendUnavailable
        As `profile`.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("gen:chain?n=5&seed=1")), method="greedy")
    >>> [ax.get_ylabel() for ax in lt.plot.residency(result, figure=lt.plot.new_figure())]
    ['memory [B]']
    """
    plan, graph = plan_and_graph(item, graph, "residency")
    verdict = verify(graph, plan)
    verdict.raise_if_invalid()
    figure = pyplot_figure(residency_inches(plan)) if figure is None else figure
    tiers = drawn_tiers(graph, plan)
    rows: Sequence[Axes] = figure.subplots(len(tiers), 1, sharex=True, squeeze=False)[:, 0].tolist()
    kinds: set[str] = set()
    memories = memory_profiles(graph, plan)
    for ax, tier in zip(rows, tiers, strict=True):
        draw_tier(ax, graph, plan, tier, memories[tier.name])
        kinds.update(ax.get_legend_handles_labels()[1])
        if ax is not rows[-1]:
            ax.set_xlabel("")
            ax.tick_params(labelbottom=False)
    figure.align_ylabels(rows)
    plan_head(rows[0], item, graph, plan, verdict, (title, subtitle), kept(COLOURS, kinds))
    return [*rows]


def residency_inches(plan: Plan) -> tuple[float, float]:
    """Return width and height of a figure in which every tier of the plan has the same good height."""
    tiers = len(plan.machine.tiers)
    return INCHES[0], INCHES[1] if tiers == 1 else 1.4 + 1.7 * tiers


def drawn_tiers(graph: Graph, plan: Plan) -> list[Tier]:
    """Return the tiers without those that modes name for what they do not keep, as in a taped chain.

    There no op finds a tensor, none starts, and none leads to or from there; no result of the graph is
    written to it.
    """
    machine = plan.machine
    named: set[str] = set()
    used = {machine.tiers[0].name} | {place.tier for place in plan.start}
    used |= {end for channel in machine.channels for end in (channel.src, channel.dst)}
    for op in graph.ops:
        for t, tier in {operand for mode in op.modes for operand in mode.operands}:
            (used if t in op.reads or graph.tensors[t].final else named).add(tier)
    return [tier for tier in machine.tiers if tier.name not in named - used]


def draw_lanes(ax: Axes, lanes: Sequence[tuple[DrawnLane, dict[str, str]]], scale: Scale, span: int) -> None:
    """Draw lanes with the colours of their kinds, one under the other, over `span` nanoseconds."""
    style_lanes(ax, len(lanes), scale, span)
    for y, (lane, colours) in enumerate(lanes):
        drawing.draw_lane(ax, lane, y, scale.x_unit, span, colours)


def style_lanes(ax: Axes, count: int, scale: Scale, span: int) -> None:
    """Set limits for that many lanes over `span` nanoseconds: the middle of lane y is at y, downwards."""
    style_axes(ax, scale, span, 1)
    ax.set(ylim=(count - 0.4, -0.6), ylabel="", yticks=[])
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)


def draw_tier(ax: Axes, graph: Graph, plan: Plan, tier: Tier, memory: MemoryProfile) -> None:
    """Draw the memory of a tier, stacked by kind of tensor, with its peak and its capacity."""
    levels = {"peak": memory.peak} if memory.peak else {}
    if tier.capacity is not None:
        levels["capacity"] = tier.capacity
    end, most = max(int(memory.times[-1]), 1), max(levels.values(), default=0)
    scale = scale_for(end, most, graph, counts_ops=counts_ops_of(plan))
    style_axes(ax, scale, end, most)
    unit = scale.y_name.partition(" ")[2]
    ax.set_ylabel(f"{plain(shorten(tier.name, 14))} {unit}")
    draw_areas(ax, memory, scale)
    label_levels(ax, levels, scale)
    if not memory.peak:
        ax.set_yticks([0])
        ax.text(0.5, 0.5, "never used", transform=ax.transAxes, ha="center", va="center", color=GREY)


def processor_lanes(graph: Graph, plan: Plan, span: int) -> list[DrawnLane]:
    """Return the lane of the runs of each processor."""
    lanes = []
    for processor in plan.machine.processors:
        bars = [
            Bar(run.start, run.end, graph.ops[run.op].kind or "op", graph.ops[run.op].name)
            for run in plan.runs
            if run.processor == processor.name
        ]
        placed, rows = drawing.rows_of(bars)
        lanes.append(DrawnLane(processor.name, _busy(bars, span), placed, rows))
    return lanes


def channel_lanes(graph: Graph, plan: Plan, span: int) -> list[DrawnLane]:
    """Return the lane of the copies of each channel."""
    return [channel_lane(graph, plan, channel, span) for channel in plan.machine.channels]


def channel_lane(graph: Graph, plan: Plan, channel: Channel, span: int) -> DrawnLane:
    """Return the lane of the copies of a channel."""
    bars, moved = [], 0
    for copy in plan.copies:
        if (copy.src, copy.dst) != (channel.src, channel.dst):
            continue
        tensor = graph.tensors[copy.tensor]
        moved += tensor.nbytes if copy.bytes is None else copy.bytes[1] - copy.bytes[0]
        for start, end in _within(copy.start, copy.end, plan.period):
            bars.append(Bar(start, end, tensor.kind, tensor.name))
    placed, rows = drawing.rows_of(bars)
    remark = f"{_busy(bars, span)}\n{format_bytes(moved)}" if moved else "unused"
    return DrawnLane(f"{channel.src} → {channel.dst}", remark, placed, rows)


def _within(start: int, end: int, period: int | None) -> list[tuple[int, int]]:
    """Return when something takes place; what goes beyond the period comes round at its beginning."""
    if period is None or end <= period:
        return [(start, end)]
    if start >= period:
        return [(start - period, end - period)]
    return [(start, period), (0, end - period)]


def _busy(bars: Sequence[Bar], span: int) -> str:
    """Return the share of the time during which at least one of the bars takes place."""
    busy = reached = 0
    for bar in sorted(bars):
        busy += max(bar.end - max(bar.start, reached), 0)
        reached = max(reached, bar.end)
    return f"{100 * busy / span:.3g} % busy"


def plan_head(
    ax: Axes,
    item: Result | Plan,
    graph: Graph,
    plan: Plan,
    verdict: Verification,
    words: tuple[str | None, str | None],
    *legends: Mapping[str, str],
) -> None:
    """Write title and subtitle (given, or by default) and legends (colours by kind) above the axes."""
    from matplotlib.patches import Patch

    title, subtitle = words
    write_head(
        ax,
        plan_title(item, graph) if title is None else title,
        _subtitle(item, plan, verdict) if subtitle is None else subtitle,
        *({kind: Patch(facecolor=colour) for kind, colour in legend.items()} for legend in legends),
    )


def kept(colours: Mapping[str, str], kinds: Collection[str]) -> dict[str, str]:
    """Return the colours of some kinds, in their order."""
    return {kind: colour for kind, colour in colours.items() if kind in kinds}


def _subtitle(item: Result | Plan, plan: Plan, verdict: Verification) -> str:
    """Return method, counts, makespan and stall in one line."""
    words = [item.method, str(item.status)] if isinstance(item, Result) else ["verified plan"]
    words.append(_number(len(plan.runs), "run", "runs"))
    if verdict.recomputed:
        words.append(f"{verdict.recomputed:,} of them again")
    if plan.copies:
        words.append(_number(len(plan.copies), "copy", "copies"))
    if not counts_ops_of(plan):
        name = "makespan" if plan.period is None else "period"
        words.append(f"{name} {format_duration(verdict.makespan)}")
        words += [f"stall {format_duration(verdict.stall)}"] if verdict.stall else []
    return " · ".join(words)


def _number(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
