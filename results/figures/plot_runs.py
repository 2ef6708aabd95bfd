"""Pictures of experiments: cactus, performance profile, scatter of two settings.

All are drawn from a measured frame (`lowtide.results.tables.measured.measured`). A *case* is a question
with a seed and limits; nothing unsolved is drawn as if it were solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...models.errors import UsageError
from ..tables.measured import VIRTUAL_BEST
from ..tables.metrics import performance_ratios, profile_steps
from ..tables.values import VALUES, Kind, ShownValue, value_of
from . import runs_drawing as drawing
from .figure import name_axes, plain, pyplot_figure
from .profile_drawing import write_head

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SCATTER_INCHES = (6.2, 6.0)
"""Width and height of the figure of a scatter."""

SHORTEST = 0.001
"""Seconds; shorter times are drawn, and compared, as this one: they cannot be told apart."""


def cactus(
    runs: pd.DataFrame, ax: Axes | None = None, *, by: str = "setting", title: str | None = None
) -> Axes:
    """Draw how many cases each setting solves within which time.

    The k-th point of a line is the k-th shortest time to solve (a proof) of that setting: lines that
    reach far to the right and stay low are good. Times are on a logarithmic axis.

    Parameters
    ----------
    runs
        A measured frame.
    ax
        Where to draw; default: a new pyplot figure.
    by
        The column whose values are compared.
    title
        Default: what is drawn.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, to go on with.

    Raises
    ------
    UsageError
        If no run solved its case, or a case has several runs of a setting.
    """
    cases = drawing.case_numbers(runs, by).nunique()
    solved = {n: np.sort(g["seconds"].dropna().clip(lower=SHORTEST)) for n, g in runs.groupby(by)}
    if not any(times.size for times in solved.values()):
        raise UsageError("cactus: found no run that solved its case, expected at least one")
    ax = pyplot_figure().subplots() if ax is None else ax
    from matplotlib.ticker import MaxNLocator

    look = drawing.looks(runs, by)
    name_axes(ax, "cases solved", "time to solve [s]")
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    for name in sorted((n for n in look if solved[n].size), key=lambda n: (-solved[n].size, solved[n].sum())):
        times = solved[name]
        drawn = drawing.thin(times.size)
        ax.plot(
            drawn + 1,
            times[drawn],
            color=look[name].colour,
            linestyle=look[name].dashes,
            marker=look[name].marker,
            markersize=3.5,
            markevery=drawing.some(drawn.size),
            linewidth=1.4,
            label=plain(f"{name}: {times.size}"),
            clip_on=False,
            zorder=4 if name == VIRTUAL_BEST else 3,
        )
    ax.set_xlim(0, cases)
    drawing.mark_limits(ax, runs)
    drawing.plain_numbers(ax.yaxis)
    never = [name for name in look if not solved[name].size]
    words = drawing.number_of_cases(cases) + (f", no proof by {', '.join(never)}" if never else "")
    write_head(ax, title or "Cases solved over time", words, {})
    drawing.legend_beside(ax)
    return ax


def performance_profile(
    runs: pd.DataFrame,
    ax: Axes | None = None,
    *,
    value: str = "seconds",
    by: str = "setting",
    title: str | None = None,
) -> Axes:
    """Draw the performance profile of each setting.

    The height of a line at x is the share of all cases in which the setting is within a factor x of the
    best setting of that case (E. Dolan, J. Moré, 2002; see `performance_ratios`). At the left it is how
    often the setting is best, at the right how often it succeeds at all.

    Parameters
    ----------
    runs, ax, by, title
        As for `cactus`; one run of each setting per case.
    value
        ``seconds`` to solve, ``objective``, or another amount or time of `VALUES`.

    Raises
    ------
    UsageError
        If the value has no ratio, no run has it, or a case has several runs of a setting.
    """
    shown, _ = value_of(runs, value)
    _check_value("performance-profile", value, shown, ("seconds", "amount"))
    costs = _by_case(runs, value, by)
    cases = drawing.case_numbers(runs, by).nunique()
    ratios = performance_ratios(costs.reindex(range(cases)), SHORTEST if shown.kind == "seconds" else 0.0)
    finite = ratios.to_numpy()[np.isfinite(ratios.to_numpy())]
    if not finite.size:
        raise UsageError(f"performance-profile: found no run with {value}, expected at least one")
    ax = pyplot_figure().subplots() if ax is None else ax
    look = drawing.looks(runs, by)
    relative = shown.kind == "amount" and finite.max() < 4  # told apart by what they exceed 1 by
    end = max(float(finite.max()), 1.0002 if relative else 2.0)
    heading = shown.heading.partition(" [")[0]
    within = "so many percent" if relative else "this factor"
    name_axes(ax, f"{heading} within {within} of the best", "share of cases [%]")
    ends, texts = {}, {}
    never = [name for name in look if not np.isfinite(ratios[name]).any()]
    area = np.log(
        ratios.clip(upper=end)
    ).sum()  # above each line; where lines end together the least is on top
    for name in sorted((n for n in look if n not in never), key=lambda name: -area[name]):
        at, share = profile_steps(ratios[name])
        at, share = at[drawing.thin(at.size)], share[drawing.thin(at.size)]
        before = [] if at[0] == 1 else [0.0]
        xs = np.concatenate([[1.0] * len(before), at, [end]])
        ys = 100 * np.concatenate([before, share, share[-1:]])
        drawing.draw_steps(ax, 100 * (xs - 1) if relative else xs, ys, name, look[name])
        ends[name], texts[name] = float(ys[-1]) / 104, f"{name}: {ys[-1]:.3g} %"
    ax.set_ylim(0, 104)
    if relative:
        drawing.percent_axis(ax.xaxis, 100 * (end - 1))
    else:
        ax.set_xscale("log")
        ax.set_xlim(1, end)
        drawing.plain_numbers(ax.xaxis)
    words = drawing.number_of_cases(cases) + (f", none by {', '.join(never)}" if never else "")
    write_head(ax, title or f"Performance profile: {heading}", words)
    drawing.label_ends(ax, ends, texts, look)
    return ax


def scatter(
    runs: pd.DataFrame,
    ax: Axes | None = None,
    *,
    x: str | None = None,
    y: str | None = None,
    value: str = "seconds",
    by: str = "setting",
    title: str | None = None,
) -> Axes:
    """Draw each case as a point: a value of one setting against that of another.

    Cases in which one of the two has no value (unsolved, crashed) lie on a line of their own beyond all
    values; those in which neither has one are only counted.

    Parameters
    ----------
    runs, ax, by, title
        As for `cactus`; one run of each of the two settings per case.
    x, y
        The two settings; default: the only two there are.
    value
        A time, an amount, or a gap of `VALUES`.

    Raises
    ------
    UsageError
        If the two settings are not there or not named, the value cannot be drawn, or no run has it.
    """
    shown, _ = value_of(runs, value)
    _check_value("scatter", value, shown, ("seconds", "amount", "share"))
    names = [*drawing.looks(runs, by)]
    pair = [n for n in (x, y) if n is not None] or [n for n in names if n != VIRTUAL_BEST]
    if len(pair) != 2 or not {*pair} <= {*names}:
        raise UsageError(f"scatter: found {', '.join(pair)}, expected two of {', '.join(names)}")
    costs = _by_case(runs[runs[by].isin(pair)], value, by)[pair]
    if not costs.notna().any(axis=None):
        raise UsageError(f"scatter: found no run with {value}, expected at least one")
    share = shown.kind == "share"
    floor = SHORTEST if shown.kind == "seconds" else 0.0
    points = (100 * costs if share else costs.clip(lower=floor)).to_numpy()
    ax = pyplot_figure(SCATTER_INCHES).subplots() if ax is None else ax
    thing, _, unit = shown.heading.partition(" [")
    name_axes(ax, f"{pair[0]}: {thing} [{unit or '%]'}", f"{pair[1]}: {thing} [{unit or '%]'}")
    ax.set_aspect("equal", adjustable="box")
    beyond = "unsolved" if value == "seconds" else "no value"
    edge = drawing.square(ax, points[np.isfinite(points)], beyond, percent=share)
    both = np.isfinite(points).all(axis=1)
    better = np.where(np.isnan(points), np.inf, points)
    wins = [int((better[:, k] < better[:, 1 - k]).sum()) for k in (0, 1)]
    styles = (
        (both, "#4477AA", "o", "both"),
        (~both & np.isfinite(points[:, 0]), "#EE6677", "^", f"only {pair[0]}"),
        (~both & np.isfinite(points[:, 1]), "#228833", ">", f"only {pair[1]}"),
    )
    for chosen, colour, marker, label in styles:
        if chosen.any():
            at = np.where(np.isnan(points[chosen]), edge, points[chosen])
            ax.plot(
                *at.T,
                marker,
                color=colour,
                markersize=5,
                alpha=0.75,
                markeredgewidth=0,
                label=plain(f"{label}: {int(chosen.sum())}"),
                clip_on=False,
                rasterized=len(points) > 5000,
                zorder=3,
            )
    neither = int(np.isnan(points).all(axis=1).sum())
    words = [f"{name} better in {n}" for name, n in zip(pair, wins, strict=True)]
    ties = len(points) - sum(wins) - neither
    words += [f"{n} {what}" for n, what in ((ties, "ties"), (neither, "without either")) if n]
    subtitle = f"{drawing.number_of_cases(len(points))}: {', '.join(words)}"
    write_head(ax, title or f"{pair[1]} against {pair[0]}", subtitle)
    return ax


def _check_value(picture: str, name: str, value: ShownValue, kinds: Sequence[Kind]) -> None:
    """Raise `UsageError` if a value is of another kind, or less of it is not better."""
    if value.kind not in kinds or value.better != 1:
        good = ", ".join(n for n, v in VALUES.items() if v.kind in kinds and v.better == 1)
        raise UsageError(f"{picture}: found the value {name!r}, expected one of {good}")


def _by_case(runs: pd.DataFrame, value: str, by: str) -> pd.DataFrame:
    """Return the value of each setting (columns) in each case (rows, numbered)."""
    numbers = value_of(runs, value)[1].astype("float64")
    numbered = runs.assign(_case=drawing.case_numbers(runs, by), _value=numbers)
    return numbered.pivot(index="_case", columns=by, values="_value")
