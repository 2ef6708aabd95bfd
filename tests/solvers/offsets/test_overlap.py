from __future__ import annotations

from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.formulations.offsets.data import Integers, OffsetsData, offsets_data
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.problems.problem import Offsets
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.context import Context
from lowtide.solvers.offsets import overlap_kernel, overlap_tables
from lowtide.solvers.offsets.greedy import greedy_offsets
from lowtide.solvers.offsets.overlap_search import OverlapSearch, descend, solve_overlap
from tests.effort import many, seeds
from tests.oracles.brute_offsets import brute_heights, random_set

SETS = many(100)


def whole(rng: Random, most: int = 5) -> tuple[Buffers, OffsetsData, int] | None:
    """Return a random set that is one part, and its least height in units; None if it is none."""
    drawn = random_set(rng, most=most)
    buffers = Buffers(buffers=drawn.buffers, inplace=drawn.inplace)
    parts = offsets_data(buffers)
    least = brute_heights(buffers)
    if len(parts) != 1 or parts[0].count != len(buffers.buffers) or least is None:
        return None
    return buffers, parts[0], least[parts[0].pool] // parts[0].unit


def valid(buffers: Buffers, data: OffsetsData, offsets: Integers) -> bool:
    names = [buffers.buffers[i].id for i in data.numbers.tolist()]
    answer = dict(zip(names, (offsets * data.unit).tolist(), strict=True))
    return verify_allocation(buffers, answer).valid


def greedy(data: OffsetsData) -> Integers:
    return min((offsets for _, offsets in greedy_offsets(data)), key=data.height)


def crowd(seed: int, count: int = 40) -> OffsetsData:
    """Return a part of many buffers, some with gaps, windows, alignments and partners."""
    rng = Random(seed)
    buffers = []
    for n in range(count):
        lower = rng.randint(0, 30)
        upper = lower + rng.randint(2, 20)
        size = rng.randint(1, 30)
        gap = [(lower + 1, upper - 1, 0, rng.randint(0, size))] if n % 7 == 0 and upper - lower > 2 else []
        alignment = rng.choice((1, 1, 1, 4))
        buffers.append(
            Buffer(id=f"b{n}", lower=lower, upper=upper, size=size, gaps=gap, alignment=alignment)  # type: ignore[arg-type]
        )
    inplace = tuple((f"b{n}", f"b{n + 1}") for n in range(0, count - 1, 5))
    data = offsets_data(Buffers(buffers=tuple(buffers), inplace=inplace))
    return max(data, key=lambda part: part.count)


@SETS
@given(st.randoms(use_true_random=False))
def test_valid_below_the_capacity_and_found_where_there_is_one(rng: Random) -> None:
    case = whole(rng)
    if case is None:
        return
    buffers, data, least = case
    search = OverlapSearch.of(data, seed=rng.randint(0, 99))
    assert search is not None
    for capacity in (least - 1, least, least + 1):
        start = None if rng.random() < 0.5 else greedy(data)
        found = search.advance(work=100_000) if search.begin(capacity, start) else None
        if capacity < least:
            assert found is None
        else:
            assert found is not None
            assert data.height(found) <= capacity
            assert valid(buffers, data, found)


@SETS
@given(st.randoms(use_true_random=False))
def test_a_descent_reaches_the_least_height(rng: Random) -> None:
    case = whole(rng)
    if case is None:
        return
    buffers, data, least = case
    descent = descend(data, greedy(data), least, seed=1)
    assert descent is not None
    descent.work(lambda: False, slices=50)
    assert descent.height == least == data.height(descent.offsets)
    assert valid(buffers, data, descent.offsets)


def plain_kernel(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Take all compiled functions of the kernel out of the way."""
    for name, function in vars(overlap_kernel).copy().items():
        if hasattr(function, "py_func"):
            monkeypatch.setattr(overlap_kernel, name, function.py_func)
    return overlap_kernel


@pytest.mark.parametrize("addresses", [0, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_plain_python_takes_the_same_course(
    seed: int, addresses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap_tables, "ADDRESSES", addresses)
    data = crowd(seed)
    capacity = int(data.load.max())

    def course() -> list[int]:
        search = OverlapSearch.of(data, seed)
        assert search is not None
        assert search.begin(capacity)
        found = [search.advance(work=20_000) for _ in range(2)]
        assert search._run._now.clashes.any() or found[-1] is not None
        run = search._run._now
        return [int(x) for array in (run.state, run.offsets, run.weights) for x in array]

    compiled = course()
    plain_kernel(monkeypatch)
    assert course() == compiled


@pytest.mark.parametrize("seed", seeds(6, least=2))
def test_the_offset_proposed_is_the_best(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every buffer, against all of its offsets; and the clashes that are kept are those there are."""
    k = overlap_kernel
    monkeypatch.setattr(overlap_tables, "ADDRESSES", seed % 2 * 10)
    data = crowd(seed)
    search = OverlapSearch.of(data, seed)
    assert search is not None
    assert search.begin(int(data.load.max()) - seed * 3)
    for _ in range(5):
        search.advance(work=2_000)
        tables, run = search._run._tables, search._run._now
        fresh = OverlapSearch.of(data)
        assert fresh is not None
        fresh.begin(int(run.state[k.CAPACITY]), run.offsets)
        assert fresh._run._now.clashes.tolist() == run.clashes.tolist()
        assert fresh._run._now.state[k.CLASHES] == run.state[k.CLASHES]
        for i in range(data.count):
            a = int(data.alignment[i])
            most = int(run.state[k.CAPACITY] - data.size[i]) // a * a
            costs = [k.overlap(tables, run, i, y) for y in range(0, most + 1, a)]
            run.state[k.COST], run.state[k.TIES] = 2**62, 0
            if tables.shapes[i + 1] - tables.shapes[i] == 1:
                (k.look_along if run.state[k.ALONG] else k.look)(tables, run, i, most)
            else:
                k.look_widely(tables, run, i, most)
            if run.state[k.TIES] and not len(tables.partner[tables.partner_at[i] : tables.partner_at[i + 1]]):
                assert run.state[k.COST] == k.overlap(tables, run, i, int(run.state[k.BEST]))
                assert a > 1 or run.state[k.COST] == min(costs)


def test_same_seed_same_course() -> None:
    data = crowd(3)
    start = greedy(data)
    found = []
    for seed in (5, 5, 6):
        descent = descend(data, start, int(data.load.max()), seed)
        assert descent is not None
        descent.work(lambda: False, slices=5)
        found.append((descent.height, descent.offsets.tolist()))
    assert found[0] == found[1] != found[2]


def test_sizes_beyond_what_the_weights_allow_are_refused_and_large_ones_are_not() -> None:
    buffers = [Buffer(id=f"b{n}", lower=0, upper=2, size=10**10 + n) for n in range(8)]
    (data,) = offsets_data(Buffers(buffers=tuple(buffers)))
    search = OverlapSearch.of(data)
    assert search is not None
    assert search.run(int(data.load.max()), None, lambda: False, slices=2) is not None
    assert not search.begin(2**60)


def test_fixed_ones_stay_and_nothing_is_found_where_they_are_in_conflict() -> None:
    fixed = [Buffer(id=f"f{n}", lower=0, upper=2, size=4, offset=n) for n in range(2)]
    (data,) = offsets_data(Buffers(buffers=(*fixed, Buffer(id="x", lower=0, upper=2, size=1))))
    search = OverlapSearch.of(data)
    assert search is not None
    assert search.run(20, None, lambda: False, slices=2) is None
    assert search.run(4, None, lambda: False, slices=2) is None


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_tables, "LARGEST", 10)
    data = crowd(0)
    assert OverlapSearch.of(data) is None
    assert descend(data, greedy(data), 0) is None


def test_the_method_improves_on_greedy_and_stops_at_the_target() -> None:
    rng = Random(0)
    drawn = [(rng.randint(0, 20), rng.randint(3, 12), rng.randint(1, 12)) for _ in range(50)]
    buffers = Buffers(
        buffers=tuple(Buffer(id=f"b{n}", lower=a, upper=a + d, size=s) for n, (a, d, s) in enumerate(drawn))
    )
    (data,) = offsets_data(buffers)
    problem = Offsets(buffers=buffers)
    context = Context(problem=problem)
    outcome = solve_overlap(problem, context)
    assert outcome.reason is None
    assert context.incumbent == context.bound == int(data.load.max()) < data.height(greedy(data))
    assert verify_allocation(buffers, context.answer).valid
    hasty = Context(problem=problem, time_limit=0.0)
    assert solve_overlap(problem, hasty).reason == "time"
