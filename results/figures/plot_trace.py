"""Pictures of what runs knew when: the gap over time of an experiment, the incumbents of one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.errors import UsageError
from ...models.units import binary_unit, time_unit
from ..tables.cells import natural
from ..tables.measured import primal_integrals, traces
from ..tables.metrics import primal_gap
from . import runs_drawing as drawing
from .figure import name_axes, pyplot_figure
from .plot_runs import SHORTEST
from .profile_drawing import write_head

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..tables.metrics import Floats


def trace(
    runs: pd.DataFrame, ax: Axes | None = None, *, by: str = "setting", title: str | None = None
) -> Axes:
    """Draw the primal gap of each setting over time, as the mean over all its runs.

    The gap (T. Berthold, 2013; see `primal_gap`) is taken to the best objective that is known, is 1
    until a run has a plan, and stays when it ends; so every run counts at any time. The area under a
    line, divided by the time limit, is the primal integral written at its end. Questions known to have
    no plan are left out. Where all runs are of one question, `incumbents` shows more.

    Parameters
    ----------
    runs, ax, by, title
        As for `cactus`; the runs have time limits.

    Raises
    ------
    UsageError
        If no run has a plan and a time limit, or a case has several runs of a setting.
    """
    look = drawing.looks(runs, by)
    runs = runs.sort_values("name")  # the same sums whatever order the runs come in
    runs = runs.assign(_case=drawing.case_numbers(runs, by))
    runs = runs.assign(_integral=primal_integrals(runs), _trace=_column(runs))
    runs = runs[runs["_integral"].notna() & runs["best"].notna()]
    if runs.empty:
        raise UsageError("trace: found no run with a plan and a time limit, expected at least one")
    ax = pyplot_figure().subplots() if ax is None else ax
    horizon = float(runs["limits_seconds"].max())
    name_axes(ax, "time [s]", "mean primal gap [%]")
    lines = {name: _mean_gap(group) for name, group in runs.groupby(by)}
    last = max(horizon, *(float(times[-1]) for times, _ in lines.values()))  # limits are kept about
    first = min(float(times[0]) for times, _ in lines.values())
    first = min(max(first, SHORTEST), horizon / 10)
    ends, texts = {}, {}
    for name in (n for n in look if n in lines):
        times, gaps = lines[name]
        xs, ys = np.concatenate([[0.0], times, [last]]), np.concatenate([[100.0], gaps, gaps[-1:]])
        drawing.draw_steps(ax, np.maximum(xs, first / 2), ys, name, look[name])
        ends[name] = float(ys[-1])
        texts[name] = f"{name}: {100 * runs.loc[runs[by] == name, '_integral'].mean():.3g} %"
    ax.set_xscale("log")
    ax.set_xlim(first / 2, last)
    drawing.plain_numbers(ax.xaxis)
    drawing.percent_axis(ax.yaxis, 100)
    write_head(
        ax,
        title or "Gap over time",
        f"{drawing.number_of_cases(runs['_case'].nunique())}; primal integral / time limit at the right",
    )
    drawing.label_ends(ax, {n: drawing.height_of(ax, y) for n, y in ends.items()}, texts, look)
    return ax


def incumbents(
    runs: pd.DataFrame, ax: Axes | None = None, *, by: str = "setting", title: str | None = None
) -> Axes:
    """Draw the incumbents (lines) and bounds (dotted, same colour) of the runs of one question over time.

    Seeds of a setting fade one after the other, and are named at their ends.

    Parameters
    ----------
    runs, ax, by, title
        As for `cactus`; the runs are of one question, and the title is its instance.

    Raises
    ------
    UsageError
        If there are several questions, or no run has a plan.
    """
    if runs["question"].nunique() > 1:
        raise UsageError(f"incumbents: found {runs['question'].nunique()} questions, expected one")
    look = drawing.looks(runs, by)
    runs = runs.assign(_trace=_column(runs))[runs["answered"].to_numpy()].sort_values([by, "seed", "name"])
    if runs.empty:
        raise UsageError("incumbents: found no run with a plan, expected at least one")
    ax = pyplot_figure().subplots() if ax is None else ax
    unit, size = _unit(runs)
    name_axes(ax, "time [s]", f"objective [{unit}]")
    first = max(min(float(points[0][0]) for points in runs["_trace"]), SHORTEST)
    last = max(float(points[-1][0]) for points in runs["_trace"])
    last = max(float(runs["limits_seconds"].max()), last) if runs["limits_seconds"].notna().any() else last
    last = max(last, 10 * first)
    ends: dict[str, float] = {}
    several = runs.groupby(by)["seed"].nunique() > 1
    seen: dict[str, int] = {}
    for name, seed, points in zip(runs[by], runs["seed"], runs["_trace"], strict=True):
        who = f"{name}, seed {seed}" if several[name] else name
        look[who], faded = look[name], max(0.35, 0.8 ** seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
        for side, dashes, width in ((1, look[name].dashes, 1.4), (2, ":", 1.0)):
            known = [(max(p[0], first / 2), p[side] / size) for p in points if p[side] is not None]
            if known:
                times, values = zip(*[*known, (last, known[-1][1])], strict=True)
                (line,) = ax.plot(times, values, drawstyle="steps-post", linewidth=width, zorder=3)
                line.set(color=look[name].colour, linestyle=dashes, alpha=faded)
                if side == 1:
                    ends[who] = min(ends.get(who, values[-1]), values[-1])
    ax.set_xscale("log")
    ax.set_xlim(first / 2, last)
    drawing.plain_numbers(ax.xaxis)
    first_run = runs.iloc[0]
    write_head(ax, title or first_run["instance"], f"{first_run['problem']}: incumbents, and bounds dotted")
    ordered = sorted(ends, key=lambda name: natural((name,)))
    heights = {name: drawing.height_of(ax, ends[name]) for name in ordered}
    drawing.label_ends(ax, heights, {name: f"{name}: {value:.6g}" for name, value in ends.items()}, look)
    return ax


def _unit(runs: pd.DataFrame) -> tuple[str, int]:
    """Return the unit that suits the objectives of one question: its name, and how many it is."""
    most = int(runs["objective"].max())
    unit = next((u for u in runs["unit"] if isinstance(u, str)), "") if "unit" in runs else ""
    if unit == "bytes":
        return binary_unit(most)
    return time_unit(most) if unit == "ns" else (unit, 1)


def _mean_gap(runs: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return when the mean primal gap of the runs changes, and its percentage from then on."""
    changes: list[tuple[float, float]] = []
    for points, best in zip(runs["_trace"], runs["best"], strict=True):
        gap = 1.0
        for point in points:
            if point[1] is not None:
                now = primal_gap(point[1], best)
                changes.append((point[0] or 0.0, now - gap))
                gap = now
    changes.sort()
    times, moves = np.array(changes or [(0.0, 0.0)]).T
    gaps = np.maximum(100 * (1 + moves.cumsum() / len(runs)), 0)
    kept = drawing.thin(times.size)
    return times[kept], gaps[kept]


def _column(runs: pd.DataFrame) -> pd.Series[Any]:
    """Return the traces as a column."""
    import pandas as pd

    return pd.Series([*traces(runs)], runs.index, dtype=object)
