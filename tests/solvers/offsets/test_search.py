"""The branch and bound for offsets: agrees with brute force at every capacity, in every way it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from lowtide.formulations.offsets.data import OffsetsData, offsets_data
from lowtide.instances import load_buffers
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.errors import UsageError
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.offsets import search, search_arrays, search_kernel
from lowtide.solvers.offsets.merging import merge_pairs
from lowtide.solvers.offsets.search import Found, Infeasible, Search, Stopped
from tests.effort import share
from tests.oracles.brute_offsets import brute_heights, random_set


def never() -> bool:
    return False


def small_set(rng: Random, *, inplace: bool = False) -> Buffers:
    """Return a random set without capacities and windows, and unless asked without pairs."""
    found = random_set(rng)
    buffers = tuple(
        replace(b, gaps=tuple(g for g in b.gaps if not g.high), pool="") for b in found.buffers if b.size
    )
    names = {b.id for b in buffers}
    pairs = tuple(pair for pair in found.inplace if set(pair) <= names) if inplace else ()
    return Buffers(buffers=buffers, inplace=pairs)


def crowd(rng: Random, count: int) -> Buffers:
    """Return many buffers, more than a choice point keeps candidates."""
    found = []
    for n in range(count):
        lower = rng.randint(0, 12)
        upper = lower + rng.randint(1, 12)
        found.append(Buffer(id=f"b{n}", lower=lower, upper=upper, size=rng.randint(1, 9)))
    return Buffers(buffers=tuple(found))


def place(buffers: Buffers, height: int, **options: Any) -> dict[str, int] | None:
    """Return the addresses that the search finds below a height in bytes; it must decide."""
    found: dict[str, int] = {}
    for part in offsets_data(buffers):
        result = Search(part, height // part.unit, seed=3).run(never, **options)
        if isinstance(result, Infeasible):
            return None
        assert isinstance(result, Found)
        for i, offset in zip(part.numbers.tolist(), result.offsets.tolist(), strict=True):
            found[buffers.buffers[i].id] = offset * part.unit
    return found


def check_around(buffers: Buffers, least: int | None, **options: Any) -> None:
    """Compare with the known least height at heights around it."""
    for height in (50,) if least is None else range(max(0, least - 3), least + 3):
        found = place(buffers, height, **options)
        assert (found is not None) == (least is not None and height >= least)
        if found is not None:
            verdict = verify_allocation(buffers, found)
            assert verdict.valid, verdict.violations
            assert max(verdict.heights.values(), default=0) <= height


def least_height(buffers: Buffers) -> int | None:
    heights = brute_heights(buffers)
    return None if heights is None else max(heights.values(), default=0)


@pytest.mark.parametrize("start", range(0, share(300), 50))
def test_decides_as_brute_force_does(start: int) -> None:
    for seed in range(start, start + 50):
        buffers = small_set(Random(seed))
        check_around(buffers, least_height(buffers))


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """The kernels as Python functions."""
    for name in ("_note", "_undo", "_lifted", "_supported", "_collect", "_place", "part"):
        monkeypatch.setattr(search_kernel, name, getattr(search_kernel, name).py_func)
    return search_kernel.advance.py_func  # type: ignore[no-any-return]


def test_plain_python_takes_the_same_course(plain: Callable[..., int]) -> None:
    for seed in range(12):
        for part in offsets_data(crowd(Random(seed), 24)):
            for capacity in (int(part.load.max()), int(part.load.max()) + 1):
                runs = [Search(part, capacity, seed) for _ in range(2)]
                expired = [_after(run, 3000) for run in runs]
                results = [runs[0].run(expired[0]), runs[1].run(expired[1], kernel=plain)]
                assert runs[0].attempts == runs[1].attempts
                assert type(results[0]) is type(results[1])
                if isinstance(results[0], Found) and isinstance(results[1], Found):
                    assert (results[0].offsets == results[1].offsets).all()


def _after(run: Search, attempts: int) -> Callable[[], bool]:
    return lambda: run.attempts > attempts


def test_one_candidate_at_a_time(plain: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (search_kernel, search_arrays):
        monkeypatch.setattr(module, "WIDTH", 1)
    for seed in range(60):
        buffers = small_set(Random(seed))
        check_around(buffers, least_height(buffers), kernel=plain)


def test_layout_is_that_of_the_kernel() -> None:
    assert vars(search_kernel)["FRAME_SIZE"] == search_arrays.FRAME_SIZE
    slots = ("AND_TOP", "ATTEMPTS", "LIMIT", "CAPACITY", "STATE_SIZE", "WIDTH")
    answers = ("FOUND", "EXHAUSTED", "AT_LIMIT", "NEEDS_TRAIL", "NEEDS_POOL")
    for name in slots + answers:
        assert getattr(search_kernel, name) == getattr(search_arrays, name)


def test_a_run_in_pieces_takes_the_same_course(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(10):
        (part,) = offsets_data(crowd(Random(seed), 40))
        capacity = int(part.load.max())
        whole = Search(part, capacity)
        first = whole.run(_after(whole, 20_000))
        pieces = Search(part, capacity)
        with monkeypatch.context() as patch:
            patch.setattr(search, "CHUNK", 400)
            second = pieces.run(_after(pieces, 30_000))
        if isinstance(first, Stopped):
            continue
        assert type(second) is type(first)
        assert pieces.attempts == whole.attempts
        if isinstance(first, Found) and isinstance(second, Found):
            assert (first.offsets == second.offsets).all()


def test_arrays_grow_where_they_must() -> None:
    for seed in range(10):
        (part,) = offsets_data(crowd(Random(seed), 40))
        capacity = int(part.load.max()) + 1
        found = []
        for tight in (False, True):
            arrays = search_arrays.PartArrays.of(part)
            assert arrays is not None
            assert arrays.start(capacity)
            if tight:
                arrays._trail = np.zeros((1, 2), dtype=np.int64)
                arrays._pool = np.zeros(part.count, dtype=np.int32)
                arrays._comps = np.zeros((1, 4), dtype=np.int64)
            ranks = search_arrays.Ranks(part, arrays._tables[0][3])
            arrays.sort(ranks.sorted_by("TWA", True, 0.0, np.random.default_rng(0)))
            ended = arrays.advance(search_kernel.advance, 20_000)
            found.append((ended, arrays.attempts, arrays.least.tolist()))
        assert found[0] == found[1]


def test_same_seed_same_course() -> None:
    (part,) = offsets_data(crowd(Random(5), 60))
    runs = [Search(part, int(part.load.max()), seed=8) for _ in range(2)]
    results = [run.run(_after(run, 100_000)) for run in runs]
    assert runs[0].attempts == runs[1].attempts
    assert type(results[0]) is type(results[1])


def test_pairs_in_place_are_merged_or_kept_apart() -> None:
    merged = 0
    for seed in range(200):
        buffers = small_set(Random(seed), inplace=True)
        least = least_height(buffers)
        for part in offsets_data(buffers):
            merged += len(part.inplace) and merge_pairs(part)[0].count < part.count
            result = Search(part, 40 // part.unit).run(never)
            if len(part.inplace):
                assert not isinstance(result, Infeasible)
            if isinstance(result, Found):
                assert _valid_part(buffers, part, result)
            elif least is not None:
                assert isinstance(result, Stopped)
                assert result.reason == "incomplete"
    assert merged


def _valid_part(buffers: Buffers, part: OffsetsData, result: Found) -> bool:
    chosen = [buffers.buffers[i] for i in part.numbers.tolist()]
    names = {b.id for b in chosen}
    pairs = tuple(pair for pair in buffers.inplace if set(pair) <= names)
    offsets = {b.id: o * part.unit for b, o in zip(chosen, result.offsets.tolist(), strict=True)}
    return verify_allocation(Buffers(buffers=tuple(chosen), inplace=pairs), offsets).valid


def test_merging_halves_a_chain() -> None:
    chain = [Buffer(id=f"b{n}", lower=n, upper=n + 2, size=4) for n in range(5)]
    pairs = tuple((f"b{n}", f"b{n + 1}") for n in range(4))
    (part,) = offsets_data(Buffers(buffers=tuple(chain), inplace=pairs))
    result = Search(part, 1).run(never)
    assert isinstance(result, Found)
    assert result.offsets.tolist() == [0] * 5


@pytest.mark.parametrize("seed", range(40))
def test_neighbours_are_listed_piece_by_piece(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in offsets_data(small_set(Random(seed))):
        sections = [
            {
                s
                for r in range(*part.rectangles[i : i + 2])
                for s in range(part.rect_first[r], part.rect_last[r])
            }
            for i in range(part.count)
        ]
        for block in (1, 7, 1 << 20):
            monkeypatch.setattr(search_arrays, "BLOCK", block)
            arrays = search_arrays.PartArrays.of(part)
            assert arrays is not None
            pointer, near = arrays._tables[2]
            for i in range(part.count):
                met = sorted(near[pointer[i] : pointer[i + 1]].tolist())
                assert met == [j for j in range(part.count) if j != i and sections[i] & sections[j]]


def test_no_piece_lists_more_pairs_than_a_buffer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = offsets_data(crowd(Random(3), 60))
    listed: list[int] = []
    whole = search_arrays._numbers

    def numbers(lows: Any, highs: Any) -> Any:
        listed.append(int((highs - lows).sum()))
        return whole(lows, highs)

    monkeypatch.setattr(search_arrays, "_numbers", numbers)
    monkeypatch.setattr(search_arrays, "BLOCK", 100)
    assert len(list(search_arrays.tables_of(part))) > 10
    assert max(listed[1:]) <= max(100, part.count)


def test_windows_are_refused() -> None:
    b = Buffer(id="x", lower=0, upper=4, size=4, gaps=(Gap(1, 2, 0, 2),))
    (part,) = offsets_data(Buffers(buffers=(b,)))
    with pytest.raises(UsageError, match="windows"):
        Search(part, 4)


def test_stops_when_expired_and_when_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = offsets_data(crowd(Random(1), 30))
    assert Search(part, 1000).run(lambda: True) == Stopped("time")
    monkeypatch.setattr(search_arrays, "LARGEST", 10)
    assert Search(part, 1000).run(never) == Stopped("memory")


@pytest.mark.parametrize(
    ("name", "height"),
    [("B", 1024), ("C", 1015), ("D", 1016), ("F", 1024), ("G", 1024), ("H", 1024), ("J", 1012)],
)
def test_known_instances(name: str, height: int) -> None:
    buffers = load_buffers(f"catalogue:minimalloc/{name}", capacity=height * 1024)
    offsets = place(buffers, height * 1024)
    assert offsets is not None
    verify_allocation(buffers, offsets).raise_if_invalid()
