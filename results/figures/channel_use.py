"""How much of a channel's bandwidth is in use over time: what thousands of copies look like on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...models.units import format_bytes
from .plan_drawing import LANE, write_lane_names
from .profile_drawing import COLOURS
from .stacked_steps import draw_stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...models.graph import Graph
    from ...models.machine import Channel
    from ...models.plan import Copy, Plan

COLUMNS = 700
"""Parts of the width whose mean is shown: on a page of eight inches, two thirds of a point each."""
_LEAST = 0.02
"""Share of a lane's height below which nothing can be seen."""
_HEIGHT = 0.8
"""Height of the drawing in a lane, as a part of it."""


def draw_use(ax: Axes, graph: Graph, plan: Plan, channel: Channel, y: float, unit: int, span: int) -> None:
    """Draw the lane of a channel: the share of its bandwidth in use, stacked by kind of tensor.

    Parameters
    ----------
    y
        Its middle, on an axis that points down.
    unit
        Nanoseconds of a unit of the horizontal axis.
    span
        Nanoseconds that the axes show.
    """
    edges, shares = bandwidth_use(graph, plan, channel, span, COLUMNS)
    ax.axhspan(y - _HEIGHT / 2, y + _HEIGHT / 2, color=LANE, linewidth=0, zorder=1)
    draw_stack(
        ax,
        edges / unit,
        {kind if share.max() > _LEAST else f"_{kind}": share for kind, share in shares.items()},
        COLOURS,
        least=_LEAST,
        base=y + _HEIGHT / 2,
        unit=-_HEIGHT,
    )
    moved = sum(_nbytes(graph, copy) for copy in _copies(plan, channel))
    mean = sum(float(share.mean()) for share in shares.values())
    remark = f"{100 * mean:.3g} % in use\n{format_bytes(moved)}" if moved else "unused"
    write_lane_names(ax, y, f"{channel.src} → {channel.dst}", remark)


def bandwidth_use(
    graph: Graph, plan: Plan, channel: Channel, span: int, columns: int
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return the edges of columns of equal width in ns, and by kind of tensor the mean share in each.

    A copy of b bytes takes the rate b / (end - start - latency) from start + latency to its end; what goes
    beyond the period comes round at its beginning.
    """
    edges = np.linspace(0, span, columns + 1)
    flows: dict[str, list[tuple[float, float, float]]] = {}
    for copy in _copies(plan, channel):
        start, end = copy.start + channel.latency_ns, copy.end
        if end > start:
            rate = _nbytes(graph, copy) * 1e9 / (end - start) / channel.bytes_per_s
            flows.setdefault(graph.tensors[copy.tensor].kind, []).append((start, end, rate))
    turns = [0] if plan.period is None else [0, -plan.period]
    return edges, {
        kind: sum((_mean_rate(flows[kind], edges - turn) for turn in turns), np.zeros(columns))
        for kind in COLOURS
        if kind in flows
    }


def _mean_rate(flows: list[tuple[float, float, float]], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the sum of the rates between neighbouring edges."""
    start, end, rate = np.array(flows).T
    times = np.concatenate((start, end))
    order = times.argsort(kind="stable")
    steps = np.concatenate((rate, -rate))[order].cumsum()
    times = times[order]
    area = np.concatenate(([0.0], (steps[:-1] * np.diff(times)).cumsum()))
    mean: NDArray[np.float64] = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return mean.clip(min=0)


def _copies(plan: Plan, channel: Channel) -> list[Copy]:
    return [copy for copy in plan.copies if (copy.src, copy.dst) == (channel.src, channel.dst)]


def _nbytes(graph: Graph, copy: Copy) -> int:
    low, high = copy.bytes or (0, graph.tensors[copy.tensor].nbytes)
    return high - low
