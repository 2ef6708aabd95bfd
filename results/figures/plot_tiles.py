"""Picture of an answer of `tiles`: groups and their tiles over time, what stays, and the fast memory."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ...models.errors import UsageError
from ...models.plan import Plan
from ...models.problems.tiles import Tiles
from ...models.result import Result
from .figure import INCHES, INK, TEXT, name_axes, plain, pyplot_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...models.tile_rules import TileGroup, Tiling

_COLOURS = {"tiles": "#4477AA", "compute": "#66CCEE", "transfer": "#CCBB44", "kept": "#228833"}

_MOST_LINES = 64
"""Largest number of tiles of a group that are drawn apart: more would be a grey area."""


def tiling(
    item: Result | Plan | Tiling, problem: Tiles, figure: Figure | None = None, *, title: str | None = None
) -> list[Axes]:
    """Draw the groups over time with their tiles, the tensors that stay, and what the fast memory holds.

    Bars of compute and transfer are as long as all of it takes; a step takes the larger of its own. Below is
    a line for each tensor that is kept, over the groups that it is whole in, and at the bottom the elements
    that each group holds at most, those of such tensors apart; the dashed line is the capacity.

    Parameters
    ----------
    item
        A result or a plan of `tiles`, or the groups.
    problem
        What was asked.
    figure
        Where it is drawn; default: a figure of pyplot.

    Returns
    -------
    list of matplotlib.axes.Axes
        Those of groups and tensors, then those of the memory.

    Raises
    ------
    VerificationError
        If the answer is not valid.
    UsageError
        If a result has no plan.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Tiles(lt.load_tiles("gen:tiles?kind=mlp"))
    >>> result = lt.solve(problem, "greedy", threads=1)
    >>> groups, memory = lt.plot.tiling(result, problem, lt.plot.new_figure())
    >>> memory.get_ylabel()
    'elements'
    """
    if isinstance(item, Result):
        if item.plan is None:
            raise UsageError(f"tiling: found no plan in a result that is {item.status}, expected one")
        item = item.plan
    answer = problem.read(item)
    problem.judge(answer).verification.raise_if_invalid()
    given, verdict = problem.shapes, problem.verdict(answer)
    ends = [float(x) for x in accumulate(verdict.latencies)]
    kept = sorted({t for group in answer.groups for t in group.keep})
    names = ["ops", "compute", "transfer", *(f"tensor {t}" for t in kept)]
    figure = pyplot_figure(tiling_inches(answer)) if figure is None else figure
    top, bottom = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [len(names), 5]})
    before: frozenset[int] = frozenset()
    for group, begin, end, held, moved in zip(
        answer.groups, [0.0, *ends], ends, verdict.held, verdict.moved, strict=False
    ):
        _draw_tiles(top, problem, group, (begin, end), ends[-1])
        top.barh(2, moved / given.bandwidth, 0.6, left=begin, color=_COLOURS["transfer"])
        whole = before.union(group.keep)
        for t in whole:
            top.barh(3 + kept.index(t), end - begin, 0.6, left=begin, color=_COLOURS["kept"])
        below = sum(map(given.area, whole))
        bottom.bar(begin, below, end - begin, align="edge", color=_COLOURS["kept"])
        bottom.bar(begin, held - below, end - begin, bottom=below, align="edge", color=_COLOURS["tiles"])
        before = frozenset(group.keep)
    bottom.legend(["kept whole", "slices and tiles"], loc="lower right", fontsize=TEXT, framealpha=0.9)
    bottom.axhline(given.capacity, color="#BB5566", linestyle="--", linewidth=0.9)
    top.set(yticks=range(len(names)), ylim=(len(names) - 0.4, -0.6), xlim=(0, ends[-1]))
    name_axes(top, "", "", "x")
    top.set_yticklabels(names)
    name_axes(bottom, "time", "elements", "y")
    for axis in (bottom.xaxis, bottom.yaxis):
        axis.set_major_formatter("{x:,.0f}")
    top.set_title(plain(title or problem.shapes.name), loc="left", fontsize=10, color=INK)
    return [top, bottom]


def tiling_inches(answer: Tiling) -> tuple[float, float]:
    """Return width and height of a figure in which each kept tensor has a line."""
    return INCHES[0], 3.6 + 0.2 * len({t for group in answer.groups for t in group.keep})


def _draw_tiles(ax: Axes, problem: Tiles, group: TileGroup, span: tuple[float, float], latest: float) -> None:
    """Draw the bars of a group's tiles and compute, and its ops where there is room."""
    given, (w, h, _) = problem.shapes, group.granularity
    begin, end = span
    read = {t for i in group.ops for t in given.inputs[i]}
    width, height = next(given.shape(given.outputs[i]) for i in group.ops if given.outputs[i] not in read)
    tiles, native = width // w * (height // h), -(-w // given.native[0]) * -(-h // given.native[1])
    compute = tiles * native * sum(given.base_costs[i] for i in group.ops)
    ax.barh(0, end - begin, 0.8, left=begin, color=_COLOURS["tiles"], edgecolor="white", linewidth=1.2)
    ax.barh(1, compute, 0.6, left=begin, color=_COLOURS["compute"])
    if tiles <= _MOST_LINES:
        lines = [begin + (end - begin) * n / tiles for n in range(1, tiles)]
        ax.vlines(lines, 0.15, 0.4, color="white", linewidth=0.6)
    text = "+".join(map(str, group.ops))
    if end - begin > 0.011 * (len(text) + 1) * latest:
        place = begin + (end - begin) / 2
        ax.text(place, -0.1, text, ha="center", va="center", fontsize=TEXT, color="white")
