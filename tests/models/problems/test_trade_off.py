"""Conclusions from schedules and bounds of some memories about all of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.instances.formats.native_trade_off import trade_off_from_dict
from lowtide.models.errors import InstanceError
from lowtide.models.problems.trade_off import KnownBound, KnownSchedule, TradeOff, TradeOffPoint, closed
from tests.effort import many

MOST = 12


@st.composite
def knowledge(draw: st.DrawFn) -> tuple[dict[int, int], list[KnownSchedule], list[KnownBound]]:
    """Return makespans that never increase with the memory, schedules above them, bounds below them."""
    drops = draw(st.lists(st.integers(0, 3), min_size=MOST, max_size=MOST))
    least = {memory: 40 - sum(drops[: memory + 1]) for memory in range(MOST)}
    peaks = draw(st.lists(st.tuples(st.integers(0, MOST - 1), st.integers(0, 4)), max_size=6))
    schedules = [KnownSchedule(peak=q, makespan=least[q] + more) for q, more in peaks]
    claims = draw(st.lists(st.tuples(st.integers(0, MOST), st.integers(0, 4)), max_size=6))
    bounds = [
        KnownBound(value=least[min(m, MOST - 1)] - less, memory=None if m == MOST else m)
        for m, less in claims
    ]
    return least, schedules, bounds


@many(200)
@given(knowledge())
def test_what_is_concluded_is_true_and_nothing_better_follows(
    known: tuple[dict[int, int], list[KnownSchedule], list[KnownBound]],
) -> None:
    least, schedules, bounds = known
    points = closed(range(MOST), schedules, bounds)
    assert [p.memory for p in points] == [m for m in range(MOST) if any(s.peak <= m for s in schedules)]
    for point in points:
        assert point.peak <= point.memory
        assert point.makespan >= least[point.memory] >= (point.bound or 0)
        assert point.makespan == min(s.makespan for s in schedules if s.peak <= point.memory)
        holding = [b.value for b in bounds if b.memory is None or b.memory >= point.memory]
        assert point.bound == max(holding, default=None)
    for low, high in pairwise(points):
        assert low.makespan >= high.makespan
        assert (low.bound or 0) >= (high.bound or 0)


def curve() -> TradeOff:
    """Return a curve whose schedule within 6 is not as fast as the bound."""
    points = (
        TradeOffPoint(memory=4, makespan=9, peak=4, bound=9, proof="exact"),
        TradeOffPoint(memory=6, makespan=7, peak=5, bound=6, proof="exact"),
        TradeOffPoint(memory=8, makespan=5, peak=8, bound=5, proof="floating"),
        TradeOffPoint(memory=9, makespan=5, peak=8, bound=5, proof="exact"),
    )
    return TradeOff(instance="g", machine="2 processors", least_memory=3, points=points, bound=4)


def test_front_and_bounds_between_the_points() -> None:
    found = curve()
    assert found.front == ((4, 9), (5, 7), (8, 5))
    assert [found.bound_within(m) for m in (3, 4, 5, 6, 7, 9, 10)] == [9, 9, 6, 6, 5, 5, 4]
    assert [p.optimal for p in found.points] == [True, False, True, True]
    assert found.points[1].gap == pytest.approx(1 / 7)
    assert TradeOffPoint(memory=4, makespan=9, peak=4).gap is None


def test_record_is_read_back() -> None:
    assert trade_off_from_dict(curve().record()) == curve()


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("version",), 2, "version: found 2, expected 1"),
        (("colour",), "red", "unknown key 'colour'"),
        (("least_memory",), -1, "least_memory: found -1, expected an integer >= 0"),
        (("points",), {}, "points: found {}, expected a list of points"),
        (("points", 0, "peak"), 5, "point 0, peak: found 5, expected a number from the least memory, 3, to"),
        (("points", 0, "peak"), 2, "point 0, peak: found 2, expected a number from the least memory, 3, to"),
        (("points", 1, "bound"), 8, "point 1, bound: found 8, expected at most the makespan, 7"),
        (("points", 1, "memory"), 9, "found memory 8 after 9, expected ascending ones"),
        (("points", 1, "makespan"), 10, "found makespan 10 within memory 6, expected at most that within 4"),
        (("points", 2, "memory"), 8.5, "point 2, memory: found 8.5, expected an integer >= 0"),
    ],
)
def test_files_that_contradict_themselves_are_refused(
    place: tuple[str | int, ...], value: object, said: str
) -> None:
    record = curve().record()
    inner = record
    for key in place[:-1]:
        inner = inner[key]  # type: ignore[index]
    inner[place[-1]] = value  # type: ignore[index]
    with pytest.raises(InstanceError) as error:
        trade_off_from_dict(record, "curve.json")
    assert said in str(error.value)
    assert str(error.value).startswith("curve.json")
