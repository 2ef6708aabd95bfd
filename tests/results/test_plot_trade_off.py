"""The picture of a trade-off curve: staircases where schedules and bounds are, dots that tell proved ones."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.formats.native_trade_off import trade_off_from_dict
from lowtide.models.errors import UsageError

pytest.importorskip("matplotlib")

MIB, MS = 2**20, 10**6


def curve(**changes: Any) -> lt.TradeOff:
    """Return a curve whose middle schedule is not proved to be a fastest one."""
    points = tuple(
        lt.TradeOffPoint(memory=m * MIB, makespan=c * MS, peak=q * MIB, bound=b * MS)
        for m, c, q, b in ((4, 9, 4, 9), (6, 7, 5, 6), (8, 5, 8, 5))
    )
    known: dict[str, Any] = {"instance": "net", "machine": "2 processors", "least_memory": 3 * MIB}
    return lt.TradeOff(**{**known, "points": points, "bound": 5 * MS, **changes})


def steps(ax: Any) -> list[list[tuple[float, float]]]:
    """Return the corners of each staircase."""
    lines = [line for line in ax.lines if line.get_drawstyle() == "steps-post"]
    return [list(zip(map(float, x.get_xdata()), map(float, x.get_ydata()), strict=True)) for x in lines]


def test_staircases_lie_where_schedules_and_bounds_are() -> None:
    ax: Any = lt.plot.trade_off(curve(), lt.plot.new_axes())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("memory [MiB]", "makespan [ms]")
    schedules, bounds = steps(ax)
    assert schedules[:-1] == [(4, 9), (5, 7), (8, 5)]
    assert bounds[1:-1] == [(3, 9), (4, 6), (6, 5), (8, 5)]
    assert schedules[-1] == (ax.get_xlim()[1], 5)
    assert bounds[-1] == (ax.get_xlim()[1], 5)
    low, high = ax.get_ylim()
    assert 0 <= low < 5 < 9 < high


def test_time_says_whose_the_durations_are() -> None:
    problem = lt.Makespan(lt.load("gen:unet?depth=1&durations=l4"), 2)
    known = lt.sweep_memory(problem, 2, threads=1, time_limit=5)
    again = trade_off_from_dict(known.record())
    assert again.durations == known.durations == "roofline of l4, fp32"
    label = lt.plot.trade_off(again, lt.plot.new_axes()).get_ylabel()
    assert label.startswith("makespan [")
    assert label.endswith("], roofline of l4, fp32")


def test_dots_are_filled_where_a_schedule_is_proved_fastest() -> None:
    ax: Any = lt.plot.trade_off(curve(), lt.plot.new_axes())
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert [(d.get_xdata()[0], d.get_ydata()[0]) for d in dots] == [(4, 9), (5, 7), (8, 5)]
    assert [d.get_markerfacecolor() == "white" for d in dots] == [False, True, False]
    words = [t.get_text() for t in ax.get_legend().get_texts()]
    assert words == ["proved fastest", "best known", "open", "proved impossible"]
    texts = {t.get_text() for t in ax.texts}
    assert {"2 processors · auto · 3 schedules, 2 proved fastest", "4 MiB, 9 ms", "8 MiB, 5 ms"} <= texts


def test_memory_that_is_of_no_use_is_left_out_if_that_is_proved() -> None:
    more = lt.TradeOffPoint(memory=90 * MIB, makespan=5 * MS, peak=8 * MIB, bound=5 * MS)
    points = (*curve().points, more)
    assert lt.plot.trade_off(curve(points=points), lt.plot.new_axes()).get_xlim()[1] < 9
    assert lt.plot.trade_off(curve(points=points, bound=4 * MS), lt.plot.new_axes()).get_xlim()[1] > 90


def test_curves_without_bounds_or_with_one_point_are_drawn() -> None:
    one = (lt.TradeOffPoint(memory=4, makespan=9, peak=4),)
    ax: Any = lt.plot.trade_off(curve(points=one, bound=None, least_memory=0), lt.plot.new_axes())
    schedules, bounds = steps(ax)
    assert schedules[0] == (4, 9)
    assert {y for _, y in bounds[1:]} == {ax.get_ylim()[0]}
    with pytest.raises(UsageError, match="found a curve without points"):
        lt.plot.trade_off(curve(points=()), lt.plot.new_axes())


@pytest.mark.slow
def test_same_curve_same_bytes() -> None:
    pictures = [lt.plot.rendered(lt.plot.trade_off(curve(), lt.plot.new_axes()), "svg") for _ in range(2)]
    assert len({hashlib.sha256(p).hexdigest() for p in pictures}) == 1
