"""`auto` and `search` for offsets: the brute force's optimum on small sets, known optima of real ones."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.offsets.data import OffsetsData
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.offsets import search, search_arrays
from tests.effort import seeds
from tests.oracles.brute_offsets import brute_offsets, random_set


@pytest.mark.parametrize("seed", seeds(120))
def test_optimum_of_small_sets_with_every_feature(seed: int) -> None:
    buffers = random_set(Random(seed))
    if any((b.offset or 0) % b.alignment for b in buffers.buffers):
        with pytest.raises(lt.InstanceError, match="expected a multiple of its alignment"):
            lt.Offsets(buffers)
        return
    least = brute_offsets(buffers)
    result = lt.solve(lt.Offsets(buffers), threads=1)
    if least is None:
        assert result.status is lt.Status.INFEASIBLE
    else:
        assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, least, least)


def test_search_alone_proves_plain_sets() -> None:
    proved = 0
    for seed in range(80):
        buffers = random_set(Random(seed))
        plain = not buffers.inplace and not any(gap.high for b in buffers.buffers for gap in b.gaps)
        if not plain or any((b.offset or 0) % b.alignment for b in buffers.buffers):
            continue
        least = brute_offsets(buffers)
        result = lt.solve(lt.Offsets(buffers), "search", threads=1)
        assert (result.objective, result.bound) in ((least, least), (None, result.bound))
        assert (result.status is lt.Status.INFEASIBLE) == (least is None)
        proved += 1
    assert proved >= 10


@pytest.mark.parametrize(
    ("name", "optimum"), [("B", 1048576), ("C", 1039360), ("G", 1048576), ("K", 1048576)]
)
def test_known_optima(name: str, optimum: int) -> None:
    problem = load_problem("offsets", f"catalogue:minimalloc/{name}")
    result = lt.solve(problem, threads=1)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, optimum)


def test_capacity_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = load_problem("offsets", "catalogue:minimalloc/D", capacity=1048576)
    assert isinstance(problem, lt.Offsets)
    result = lt.solve(lt.Offsets(problem.buffers, satisfy=True), threads=1)
    assert result.objective is not None
    assert result.objective <= 1048576
    assert result.bound == 963 * 1024


def test_one_iteration_after_the_other(tmp_path: Path) -> None:
    spec = "catalogue:aten/unet_tr?iterations=4"
    result = lt.solve(load_problem("offsets", spec), threads=1)
    once = lt.solve(load_problem("offsets", "catalogue:aten/unet_tr"), threads=1)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, once.objective)


def test_stops_in_time_with_the_best_so_far() -> None:
    rng = Random(1)
    lives = [(rng.randint(0, 300), rng.randint(1, 90)) for _ in range(300)]
    buffers = lt.Buffers(
        buffers=tuple(
            lt.Buffer(id=str(k), lower=a, upper=a + n, size=rng.randint(1, 10**6))
            for k, (a, n) in enumerate(lives)
        )
    )
    result = lt.solve(lt.Offsets(buffers), threads=1, time_limit=1.0)
    assert result.status in (lt.Status.FEASIBLE, lt.Status.OPTIMAL)
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound <= result.objective


def two_pools(n: int) -> lt.Offsets:
    rng = Random(2)
    some = [
        (pool, rng.randint(0, 30), rng.randint(1, 20), rng.randint(1, 99)) for pool in "ab" for _ in range(n)
    ]
    return lt.Offsets(
        lt.Buffers(
            buffers=tuple(
                lt.Buffer(
                    id=str(k),
                    pool=pool,
                    lower=a,
                    upper=a + length,
                    size=size,
                    gaps=(lt.Gap(a, a + 1),) * (length > 3),
                )
                for k, (pool, a, length, size) in enumerate(some)
            )
        )
    )


def test_every_part_is_placed_before_any_is_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "expired", property(lambda context: True))
    result = lt.solve(two_pools(40), threads=1)
    assert result.status in (lt.Status.FEASIBLE, lt.Status.OPTIMAL)
    assert result.bound is not None


def test_tables_of_a_part_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def tables_of(data: OffsetsData) -> Any:
        made.append(data)
        return search_arrays.tables_of(data)

    now = [time.perf_counter()]

    def clock() -> float:
        """Half a second passes at each look, so that searches give up at once."""
        now[0] += 0.5
        return now[0]

    monkeypatch.setattr(search, "tables_of", tables_of)
    monkeypatch.setattr(time, "perf_counter", clock)
    lt.solve(two_pools(40), method="search", threads=1, time_limit=200.0)
    assert 0 < len(made) <= 2
