"""Local search: valid with every feature, never below the optimum, often at it, the same for a seed."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest

from lowtide.formulations.offsets.data import OffsetsData, offsets_data
from lowtide.instances.load_buffers import load_buffers
from lowtide.models.arrays import Integers
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.problems.offsets import Offsets
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.context import Context
from lowtide.solvers.offsets.greedy import greedy_offsets
from lowtide.solvers.offsets.layout import layout
from lowtide.solvers.offsets.local_search import OUT, improved_offsets, solve_local_search
from lowtide.solvers.offsets.squeeze_kernel import squeeze
from tests.effort import seeds, share
from tests.oracles.brute_offsets import brute_heights, random_set
from tests.solvers.offsets.buffer_sets import faults, larger_set


def squeezed(
    data: OffsetsData, offsets: Integers, target: int, steps: int, seed: int
) -> tuple[Integers, int]:
    """Return the offsets after squeezing under a target, and how many buffers are left out."""
    places = layout(data)
    offsets = np.where((offsets + data.size > target) & (data.fixed < 0), OUT, offsets)
    lies = np.flatnonzero(offsets[places.owner] != OUT)
    at = offsets[places.owner[lies]]
    by_bottom = lies[np.argsort(at + places.rect_low[lies])]
    by_top = lies[np.argsort(at + places.rect_high[lies])]
    weights = np.ones(data.count, dtype=np.int64)
    left = squeeze(places, offsets, by_bottom, by_top, weights, target, steps, seed)
    assert left == (offsets == OUT).sum()
    return offsets, left


def sound(buffers: Buffers, data: OffsetsData) -> bool:
    """Return whether the fixed buffers of a part are in order."""
    chosen = [buffers.buffers[i] for i in data.numbers.tolist()]
    fixed = [b for b in chosen if b.offset is not None]
    ids = {b.id for b in fixed}
    pairs = tuple(pair for pair in buffers.inplace if set(pair) <= ids)
    answer = {b.id: b.offset for b in fixed if b.offset is not None}
    return verify_allocation(Buffers(buffers=tuple(fixed), inplace=pairs), answer).valid


def test_the_optimum_is_nearly_always_found_and_never_passed() -> None:
    met, asked = 0, 0
    for seed in seeds(200):
        buffers = random_set(Random(seed), most=5)
        unlimited = Buffers(buffers=buffers.buffers, inplace=buffers.inplace)
        least = brute_heights(unlimited)
        parts = [data for data in offsets_data(unlimited) if sound(buffers, data)]
        for data in parts:
            _, start = next(greedy_offsets(data))
            *_, offsets = islice(improved_offsets(data, start, 0), 25)
            assert not faults(buffers, data, offsets)
            if least is not None and len(data.numbers) == len(buffers.buffers):
                height = data.height(offsets) * data.unit
                assert height >= least[data.pool], seed
                met += height == least[data.pool]
                asked += 1
    assert asked >= share(200) // 4
    assert met >= 0.95 * asked


@pytest.mark.parametrize("seed", seeds(10))
def test_squeezing_keeps_every_rule(seed: int) -> None:
    """What lies in place is valid whenever the steps are used up, complete or not."""
    rng = Random(seed)
    buffers = larger_set(rng, 60 + 10 * seed)
    for data in offsets_data(buffers):
        if data.count < 5 or not sound(buffers, data):
            continue
        offsets = min((x for _, x in greedy_offsets(data)), key=data.height)
        least = int((data.fixed + data.size)[data.fixed >= 0].max(initial=0))
        for target in {data.height(offsets) - 1, max(least, int(data.load.max() * 0.8))}:
            found, _ = squeezed(data, offsets, max(target, least), 300, seed)
            lies = np.flatnonzero(found != OUT)
            assert ((found + data.size)[lies] <= max(target, least)).all()
            chosen = {data.numbers[k] for k in lies}
            rest = tuple(b for i, b in enumerate(buffers.buffers) if i in chosen)
            ids = {b.id for b in rest}
            pairs = tuple(pair for pair in buffers.inplace if set(pair) <= ids)
            answer = {buffers.buffers[data.numbers[k]].id: int(found[k]) * data.unit for k in lies}
            assert not verify_allocation(Buffers(buffers=rest, inplace=pairs), answer).violations


@pytest.mark.parametrize("target", [5, 50])
@pytest.mark.parametrize("offset", [0, 8])
def test_squeezing_leaves_fixed_buffers_where_they_are(offset: int, target: int) -> None:
    """Neither do others take their place nor do they move at random after each step, as those in place do."""
    free = [Buffer(id=str(k), lower=0, upper=9, size=4) for k in range(4)]
    fixed = Buffer(id="fixed", lower=0, upper=9, size=4, offset=offset)
    (data,) = offsets_data(Buffers(buffers=(*free[:2], fixed, *free[2:])))
    for seed in range(6):
        found, left = squeezed(data, np.where(data.fixed < 0, OUT, data.fixed), target, 100, seed)
        assert left == 0
        assert found[data.fixed >= 0].tolist() == [offset // data.unit]


def tiling(rng: Random, height: int, steps: int) -> Buffers:
    """Return buffers that fill a rectangle without waste, so that its height is the least."""
    found: list[Buffer] = []

    def cut(lower: int, upper: int, low: int, high: int) -> None:
        wide, tall = upper - lower, high - low
        if (wide < 2 and tall < 2) or (wide * tall < 40 and rng.random() < 0.3):
            found.append(Buffer(id=str(len(found)), lower=lower, upper=upper, size=tall))
        elif wide > 1 and (tall < 2 or rng.random() < 0.5):
            t = rng.randint(lower + 1, upper - 1)
            cut(lower, t, low, high)
            cut(t, upper, low, high)
        else:
            y = rng.randint(low + 1, high - 1)
            cut(lower, upper, low, y)
            cut(lower, upper, y, high)

    cut(0, steps, 0, height)
    return Buffers(buffers=tuple(found))


def test_a_perfect_packing_is_found() -> None:
    buffers = tiling(Random(3), 24, 16)
    problem = Offsets(buffers)
    context = Context(problem=problem, time_limit=None, seed=1)
    assert solve_local_search(problem, context).reason is None
    assert context.incumbent == 24
    assert context.closed
    assert len(buffers.buffers) > 20


def test_a_seed_gives_the_same_search() -> None:
    data = max(offsets_data(tiling(Random(8), 60, 40)), key=lambda data: data.count)
    _, start = next(greedy_offsets(data))

    def heights(seed: int) -> list[int]:
        return [data.height(x) for x in islice(improved_offsets(data, start, 0, seed), 80)]

    assert heights(1) == heights(1)
    assert heights(1)[-1] < data.height(start)


def test_it_stops_when_the_time_is_up() -> None:
    buffers = tiling(Random(8), 60, 40)
    context = Context(problem=(problem := Offsets(buffers)), time_limit=1e-9)
    assert solve_local_search(problem, context).reason == "time"


def test_independent_parts_take_turns() -> None:
    sets = [tiling(Random(seed), 20, 14) for seed in (1, 2)]
    later = [
        Buffer(id=f"{k}/{b.id}", lower=b.lower + 100 * k, upper=b.upper + 100 * k, size=b.size)
        for k, some in enumerate(sets)
        for b in some.buffers
    ]
    problem = Offsets(Buffers(buffers=tuple(later)))
    context = Context(problem=problem, time_limit=None)
    solve_local_search(problem, context)
    assert context.incumbent == 20
    assert problem.judge(context.answer).objective == 20


def test_nothing_is_placed_anew_that_would_take_longer_than_what_is_left() -> None:
    data = offsets_data(load_buffers("catalogue:minimalloc/example"))[0]
    _, start = next(greedy_offsets(data))
    assert not list(improved_offsets(data, start, 0, remaining=lambda: 0.0))
    left = iter([1.0, 1.0, 0.0])
    assert len(list(improved_offsets(data, start, 0, remaining=lambda: next(left)))) == 2


def test_it_ends_where_placing_once_more_would_take_longer_than_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lowtide.solvers.offsets.layout.PAIR_SECONDS", 1e9)
    problem = Offsets(larger_set(Random(3), 60))
    context = Context(problem=problem, time_limit=60)
    assert solve_local_search(problem, context).reason == "time"
    assert context.incumbent is not None
