"""Picture of stages of a pipeline (problem `hybrid`): what each runs, and beside it what its devices hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...models.plan import Plan
from ...models.problems.hybrid import Hybrid
from ...models.result import Result
from ...models.units import format_bytes
from ...models.verifier.verify import verify
from . import plan_drawing as drawing
from .figure import INCHES, INK, TEXT, name_axes, pyplot_figure
from .plot_plan import draw_lanes, plan_head, processor_lanes
from .plot_profile import counts_ops_of, plan_and_graph
from .profile_drawing import COLOURS, scale_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...models.graph import Graph

_LANE = 0.45
"""Height of a processor's lane in inches."""
_PARTS = {"weights and states": COLOURS["weight"], "micro-batches": COLOURS["activation"]}


def stages(
    item: Result | Plan,
    graph: Graph | None = None,
    figure: Figure | None = None,
    *,
    problem: Hybrid | None = None,
    title: str | None = None,
    subtitle: str | None = None,
) -> list[Axes]:
    """Draw one sample's way through the stages and, beside each, the bytes of each of its devices.

    At the left a lane per stage that runs anything, as in `gantt`, with its replicas and the size of their
    groups. At the right, on the same lines, what each device of the stage holds: once, whatever is under way
    (weights, states, what a second run needs), and for the micro-batches under way; the line is the limit of
    the memory.

    Parameters
    ----------
    item, graph, figure, title, subtitle
        As for `gantt`.
    problem
        What was asked, whose limit of the memory is drawn; default: what the graph's provenance says of
        needs, without a limit, as a plan does not tell it.

    Returns
    -------
    list of matplotlib.axes.Axes
        The axes of the lanes, then those of the bytes.

    Raises
    ------
    UsageError, VerificationError, BackendUnavailable
        As `profile`.
    InstanceError
        If it is no plan of stages.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Hybrid(lt.load("gen:chain?n=5&seed=1"), 2, micro=2), threads=1)
    >>> lanes, held = lt.plot.stages(result, figure=lt.plot.new_figure())
    >>> held.get_xlabel()
    'memory of a device [B]'
    """
    plan, graph = plan_and_graph(item, graph, "stages")
    asked = Hybrid.of(graph) if problem is None else problem
    split = asked.read(plan)
    busy = {run.processor for run in plan.runs}
    stages_of_plan = tuple(p for p in plan.machine.processors if p.name in busy)
    plan = replace(plan, machine=replace(plan.machine, processors=stages_of_plan))
    verification = verify(graph, plan, rerun=False)
    verification.raise_if_invalid()
    memories = asked.verdict(split).memories
    once = [0] * len(memories)
    for i, s in enumerate(split.stage):
        once[s] += asked.all_needs[i][split.modes[i]].once
    limit = None if problem is None else problem.memory
    figure = pyplot_figure(stages_inches(plan)) if figure is None else figure
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2], "wspace": 0.22})
    span = max(verification.makespan, 1)
    ops = drawing.op_kinds(graph, plan)
    scale = scale_for(span, max(*memories, limit or 0), graph, counts_ops=counts_ops_of(plan))
    lanes = [
        (lane._replace(name=f"stage {s}", remark=f"{d} x {kind}"), ops)
        for s, (lane, d, kind) in enumerate(
            zip(processor_lanes(graph, plan, span), split.replicas, split.kinds, strict=True)
        )
    ]
    draw_lanes(left, lanes, scale, span)
    rows = range(len(memories))
    held = [[x / scale.y_unit for x in once]]
    held.append([(all_ - x) / scale.y_unit for all_, x in zip(memories, once, strict=True)])
    right.barh(rows, held[0], 0.8, color=_PARTS["weights and states"])
    right.barh(rows, held[1], 0.8, left=held[0], color=_PARTS["micro-batches"])
    right.set(ylim=left.get_ylim(), yticks=[], xlim=(0, max(*memories, limit or 0, 1) / scale.y_unit * 1.02))
    name_axes(right, f"memory of a device {scale.y_name.partition(' ')[2]}", "", "x")
    right.spines["left"].set_visible(False)
    for s, nbytes in enumerate(memories):
        right.annotate(
            format_bytes(nbytes),
            (1, s),
            (8, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            annotation_clip=False,
            va="center",
            fontsize=TEXT,
            color=INK,
        )
    if limit is not None:
        right.axvline(limit / scale.y_unit, color="#BB5566", linestyle="-.", linewidth=0.9, zorder=5)
    plan_head(left, item, graph, plan, verification, (title, subtitle), ops, _PARTS)
    return [left, right]


def stages_inches(plan: Plan) -> tuple[float, float]:
    """Return width and height of a figure in which each stage has a good height."""
    return INCHES[0] * 1.25, 1.8 + _LANE * len(plan.machine.processors)
