"""Greedy allocations: valid with every feature, never below the optimum, compiled and plain ones the same."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.formulations.offsets.data import OffsetsData, greatest_load, offsets_data
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.problems.offsets import Offsets
from lowtide.solvers.context import Context
from lowtide.solvers.offsets import greedy
from lowtide.solvers.offsets.first_come import place_as_they_come
from lowtide.solvers.offsets.greedy import greedy_keys, greedy_offsets, solve_greedy
from lowtide.solvers.offsets.layout import layout
from lowtide.solvers.offsets.placing import place_plainly
from lowtide.solvers.offsets.placing_kernel import place
from tests.effort import many, seeds
from tests.oracles.brute_offsets import brute_heights, random_set
from tests.solvers.offsets.buffer_sets import faults, larger_set

SETS = many(100)


@SETS
@given(st.randoms(use_true_random=False))
def test_valid_and_never_below_the_optimum(rng: Random) -> None:
    buffers = random_set(rng)
    unlimited = Buffers(buffers=buffers.buffers, inplace=buffers.inplace)
    least = brute_heights(unlimited)
    for data in offsets_data(unlimited):
        for name, offsets in greedy_offsets(data):
            assert not faults(buffers, data, offsets), name
            whole = len(data.numbers) == len(buffers.buffers)
            if least is not None and whole:
                assert data.height(offsets) * data.unit >= least[data.pool], name


@pytest.mark.parametrize("seed", seeds(12))
def test_compiled_and_plain_placing_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    buffers = larger_set(rng, 40 + 20 * seed)
    for data in offsets_data(buffers):
        plain = list(greedy_offsets(data))
        monkeypatch.setattr(greedy, "PLAIN", 0)
        compiled = list(greedy_offsets(data))
        monkeypatch.undo()
        assert [name for name, _ in plain] == [name for name, _ in compiled]
        for (name, a), (_, b) in zip(plain, compiled, strict=True):
            assert (a == b).all(), name
            assert not faults(buffers, data, a), name


@pytest.mark.slow
def test_many_rectangles_in_chunks() -> None:
    """More rectangles than a chunk of the kernel holds."""
    rng = Random(1)
    starts = [rng.randint(0, 900) for _ in range(2300)]
    buffers = tuple(
        Buffer(id=str(n), lower=t, upper=t + rng.randint(1, 60), size=rng.randint(1, 50))
        for n, t in enumerate(starts)
    )
    (data,) = offsets_data(Buffers(buffers=buffers))
    places = layout(data)
    none = np.full(data.count, -1)
    for keys in greedy_keys(data).values():
        order = np.argsort(-keys, kind="stable")
        offsets = place(places, order, none, True)
        assert (offsets == place_plainly(places, order, none, True)).all()
        assert not faults(Buffers(buffers=buffers), data, offsets)


def one_part(*buffers: Buffer, inplace: tuple[tuple[str, str], ...] = ()) -> OffsetsData:
    (data,) = offsets_data(Buffers(buffers=buffers, inplace=inplace))
    return data


def buffer(name: str, lower: int, upper: int, size: int, **more: int) -> Buffer:
    return Buffer(id=name, lower=lower, upper=upper, size=size, **more)  # type: ignore[arg-type]


HOLES = (
    buffer("a", 0, 2, 3), buffer("b", 0, 9, 1), buffer("c", 0, 2, 2), buffer("d", 0, 9, 1),
    buffer("e", 3, 4, 2), buffer("f", 2, 3, 4),
)  # fmt: skip


@pytest.mark.parametrize("function", [place, place_plainly])
def test_first_fit_takes_the_lowest_hole_and_best_fit_the_tightest(function: greedy.Place) -> None:
    data = one_part(*HOLES)
    none = np.full(6, -1)
    order = np.arange(6)
    assert function(layout(data), order, none, False).tolist() == [0, 3, 4, 6, 0, 7]
    assert function(layout(data), order, none, True).tolist() == [0, 3, 4, 6, 4, 7]


@pytest.mark.parametrize("function", [place, place_plainly])
def test_partners_share_an_offset_unless_that_costs_height(function: greedy.Place) -> None:
    small, large = buffer("x", 0, 3, 2), buffer("y", 2, 5, 4)
    none = np.full(3, -1)
    under = one_part(buffer("z", 0, 1, 6), small, large, inplace=(("x", "y"),))
    assert function(layout(under), np.array([0, 1, 2]), none, False).tolist() == [0, 3, 0]
    tall = one_part(buffer("z", 0, 9, 6), small, large, inplace=(("x", "y"),))
    assert function(layout(tall), np.array([0, 1, 2]), none, False).tolist() == [0, 3, 3]


def test_at_run_time_the_largest_of_one_section_comes_first() -> None:
    data = one_part(*HOLES)
    assert place_as_they_come(data).tolist() == [0, 5, 3, 6, 0, 0]
    assert place_as_they_come(data, best_fit=True).tolist() == [0, 5, 3, 6, 0, 0]
    assert place_as_they_come(data, backwards=True).tolist() == [4, 2, 0, 3, 0, 4]


def placed_at_run_time(data: OffsetsData, *, best_fit: bool) -> list[int]:
    """Return what `place_as_they_come` does, one address after another."""
    offsets: list[int] = data.fixed.tolist()
    for i in sorted(
        range(data.count), key=lambda i: (data.first[i], -data.size[i], data.first[i] - data.last[i])
    ):
        if offsets[i] >= 0:
            continue
        alive = [
            j for j in range(data.count) if offsets[j] >= 0 and (data.fixed[j] >= 0 or _meet(data, i, j))
        ]
        holes, low = [], 0
        for j in sorted(alive, key=lambda j: offsets[j]):
            holes.append((low, offsets[j]))
            low = max(low, offsets[j] + int(data.size[j]))
        holes.append((low, 2**62))
        a, size = int(data.alignment[i]), int(data.size[i])
        fitting = [(low, high) for low, high in holes if -(-low // a) * a + size <= high]
        low, _ = min(fitting, key=lambda hole: hole[1] - hole[0]) if best_fit else fitting[0]
        offsets[i] = -(-low // a) * a
    return offsets


def _meet(data: OffsetsData, i: int, j: int) -> bool:
    return bool(data.first[j] <= data.first[i] < data.last[j])


@pytest.mark.slow
@pytest.mark.parametrize("best_fit", [False, True])
def test_at_run_time_many_free_ranges_are_kept_in_order(best_fit: bool) -> None:
    """So many that chunks of them are split and given up, and fixed buffers and alignments among them."""
    rng = Random(5)
    buffers = [buffer("all", 0, 700, 1)]  # which makes them one part
    for k in range(800):
        if k < 500:  # of two of one size that begin together the longer one comes first
            lower, upper, size = 0, (300 if k % 2 else rng.randint(1, 60)), 3 + k // 2
        else:
            lower, size = (k - 500) // 2, rng.choice((1, 2, 3, 50, 100, 200))
            upper = lower + rng.choice((1, 5, 90))
        fixed = {"offset": 64 * rng.randrange(900)} if k % 90 == 0 else {}
        buffers.append(buffer(str(k), lower, upper, size, alignment=rng.choice((1, 1, 1, 4)), **fixed))
    data = one_part(*buffers)
    assert place_as_they_come(data, best_fit=best_fit).tolist() == placed_at_run_time(data, best_fit=best_fit)


def test_hints_that_fit_together_are_all_kept() -> None:
    data = one_part(buffer("x", 0, 3, 2, hint=7), buffer("y", 2, 5, 4), buffer("z", 1, 4, 3, hint=4))
    name, offsets = next(greedy_offsets(data))
    assert name == "hint"
    assert offsets.tolist() == [7, 0, 4]


def test_greatest_load() -> None:
    rng = Random(5)
    for data in offsets_data(larger_set(rng, 120)):
        spans = zip(data.first.tolist(), data.last.tolist(), strict=True)
        assert greatest_load(data).tolist() == [data.load[a:b].max() for a, b in spans]


def test_conflicts_are_the_buffers_alive_at_some_time_of_the_lifetime() -> None:
    data = next(iter(offsets_data(larger_set(Random(3), 60))))
    spans = list(zip(data.first.tolist(), data.last.tolist(), strict=True))
    expected = [sum(a < d and c < b for c, d in spans) for a, b in spans]
    assert greedy_keys(data)["conflicts"].tolist() == expected


def test_solve_greedy_stops_when_nothing_is_to_be_gained() -> None:
    buffers = Buffers(buffers=HOLES)
    context = Context(problem=(problem := Offsets(buffers)))
    outcome = solve_greedy(problem, context)
    assert outcome.reason is None
    assert context.closed
    assert context.incumbent == 7
    assert len(context.trace) <= 3


def test_solve_greedy_stops_when_the_time_is_up() -> None:
    buffers = larger_set(Random(0), 60)
    context = Context(problem=(problem := Offsets(buffers)), time_limit=1e-9)
    assert solve_greedy(problem, context).reason == "time"


def test_allocations_come_one_by_one() -> None:
    data = one_part(*HOLES)
    names = [name for name, _ in islice(greedy_offsets(data), 5)]
    assert names[0] == "run time, first fit"
    assert names[4] == "breadth, first fit"


def test_no_order_is_begun_for_which_there_is_no_time() -> None:
    data = one_part(*HOLES)
    assert len(list(greedy_offsets(data, lambda: 0.0))) == 4
    left = iter((1.0, 1.0, 1.0, 0.0))
    assert len(list(greedy_offsets(data, lambda: next(left)))) == 6
