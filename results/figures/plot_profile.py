"""The picture of a plan's memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...models.checks import check_type
from ...models.derived.profile import MemoryProfile, memory_profile, reference_profile
from ...models.errors import UsageError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.problems import PROBLEMS
from ...models.result import Result
from ...models.units import format_gap
from ...models.verifier.verify import verify
from . import profile_drawing as drawing
from .figure import pyplot_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...models.machine import Tier


def profile(
    item: Result | Plan,
    graph: Graph | None = None,
    ax: Axes | None = None,
    *,
    tier: str | None = None,
    bound: int | None = None,
    title: str | None = None,
    subtitle: str | None = None,
) -> Axes:
    """Draw the memory of a plan over time, stacked by kind of tensor.

    A thin line shows the reference order, if ops run one at a time; horizontal lines show the peak and the
    bound; a dot marks the op that runs at the peak. Where time counts ops, so does the axis.

    Parameters
    ----------
    item
        A result with a plan, or a plan.
    graph
        The graph of a plan; a result has its own.
    ax
        Where to draw; default: a new pyplot figure.
    tier
        Default: the innermost of the plan's machine.
    bound
        Proved lower bound of the peak in bytes; default: that of a result for `peak`.
    title, subtitle
        Default: the instance; method, status and gap.

    Raises
    ------
    UsageError
        If there is no plan, no graph, no tier of that name, or a bound above the peak.
    VerificationError
        If the plan does not verify: nothing is drawn of such a plan.
    BackendUnavailable
        If matplotlib is not installed.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Peak(lt.load("gen:chain?n=5&seed=1")), method="greedy")
    >>> lt.plot.profile(result, ax=lt.plot.new_axes()).get_ylabel()
    'memory [B]'
    """
    plan, graph = plan_and_graph(item, graph, "profile")
    tier = tier_of(plan, tier).name
    verify(graph, plan).raise_if_invalid()
    ax = pyplot_figure().subplots() if ax is None else ax
    if bound is None and isinstance(item, Result):
        asked = PROBLEMS.get(item.problem)
        of_peak = asked is not None and asked.measure == "peak" and not asked.maximize
        bound = item.bound if of_peak else None

    memory = memory_profile(graph, plan, tier)
    if bound is not None and bound > memory.peak:
        raise UsageError(f"bound: found {bound} bytes, expected at most the peak, {memory.peak} bytes")
    several = len({run.processor for run in plan.runs}) > 1
    reference = None if several else reference_profile(graph, plan)
    levels = _levels(plan, memory, reference, bound)
    end, most = int(memory.times[-1]), max(levels.values())
    scale = drawing.scale_for(end, most, graph, counts_ops=counts_ops_of(plan))
    if len(plan.machine.tiers) > 1:
        scale = scale._replace(y_name=f"{drawing.shorten(memory.tier, 28)} {scale.y_name}")

    drawing.style_axes(ax, scale, end, most)
    drawing.draw_areas(ax, memory, scale)
    same = reference is not None and _same(reference, memory)
    if reference is not None and not same:
        drawing.draw_reference(ax, reference, scale)
    running = [r for r in plan.runs if r.start <= memory.peak_time < r.end]
    if memory.starts_highest:
        drawing.mark_peak(ax, memory, scale, "what is there at the start", None)
    elif running and memory.peak:
        run = max(running, key=lambda r: r.start)
        op = graph.ops[run.op]
        drawing.mark_peak(ax, memory, scale, op.name or op.kind, run.op)
    drawing.label_levels(ax, levels, scale)
    drawing.write_head(
        ax,
        plan_title(item, graph) if title is None else title,
        _subtitle(item, memory, bound, same) if subtitle is None else subtitle,
    )
    return ax


def plan_and_graph(item: Result | Plan, graph: Graph | None, picture: str) -> tuple[Plan, Graph]:
    """Return what is drawn: the plan of a result or a plan, and its graph.

    Raises
    ------
    UsageError
        If one of them is not there; the message begins with the name of the picture.
    """
    plan = item
    if isinstance(item, Result):
        if item.plan is None:
            raise UsageError(f"{picture}: found no plan in a result that is {item.status}, expected one")
        plan, graph = item.plan, item.graph if graph is None else graph
    check_type(plan, Plan, picture, "a Result or a Plan")
    assert isinstance(plan, Plan)
    check_type(graph, (Graph, type(None)), f"{picture}, graph", "a Graph")
    if graph is None:
        raise UsageError(f"{picture}: found a plan without its graph, expected {picture}(plan, graph)")
    return plan, graph


def tier_of(plan: Plan, name: str | None) -> Tier:
    """Return the tier of that name of the plan's machine; None: the innermost.

    Raises
    ------
    UsageError
        If it has no such tier.
    """
    tiers = {tier.name: tier for tier in plan.machine.tiers}
    if name is not None and name not in tiers:
        raise UsageError(f"tier: found {name!r}, expected one of {', '.join(tiers)}")
    return plan.machine.tiers[0] if name is None else tiers[name]


def counts_ops_of(plan: Plan) -> bool:
    """Return whether time counts ops: one after another, without a pause, each for one unit."""
    return sorted((run.start, run.end) for run in plan.runs) == [(k, k + 1) for k in range(len(plan.runs))]


def _levels(
    plan: Plan, memory: MemoryProfile, reference: MemoryProfile | None, bound: int | None
) -> dict[str, int]:
    """Return the bytes that get a label beside the picture."""
    levels = {"peak": memory.peak}
    if bound is not None:
        levels["bound"] = bound
    capacity = next(t.capacity for t in plan.machine.tiers if t.name == memory.tier)
    if capacity is not None:
        levels["capacity"] = capacity
    if reference is not None and reference.peak != memory.peak:
        levels["reference"] = reference.peak
    return levels


def _same(one: MemoryProfile, other: MemoryProfile) -> bool:
    return np.array_equal(one.times, other.times) and np.array_equal(one.total, other.total)


def plan_title(item: Result | Plan, graph: Graph) -> str:
    """Return the instance of a result, or the name of a plan's graph."""
    return item.instance if isinstance(item, Result) else item.graph_name or graph.name


def _subtitle(item: Result | Plan, memory: MemoryProfile, bound: int | None, same: bool) -> str:
    """Return how the plan was made and what is known about it."""
    words = [item.method, str(item.status)] if isinstance(item, Result) else ["verified plan"]
    words.append(f"peak {memory.peak:,} bytes")
    if bound is not None and memory.peak:
        words.append(f"gap {format_gap((memory.peak - bound) / memory.peak)}")
    if same:
        words.append("profile of the reference order")
    return " · ".join(words)
