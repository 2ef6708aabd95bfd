"""Forbidden differences byte by byte, groups pair by pair, twins by exchanging them."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from lowtide.formulations.offsets.data import OffsetsData, offsets_data
from lowtide.formulations.offsets.differences import (
    Range,
    allowed_differences,
    forbidden_differences,
    groups,
    live_pairs,
    simple_bound,
    stacked_height,
    twin_step,
    twins,
)
from lowtide.models.buffers import Buffer, Buffers
from tests.oracles import brute_offsets as oracle


def integers(ranges: list[Range], unit: int = 1) -> set[int]:
    return {unit * d for low, high in ranges for d in range(low, high + 1)}


def sets(count: int, most: int = 8) -> list[Buffers]:
    return [oracle.random_set(Random(seed), most=most) for seed in range(count)]


def members(buffers: Buffers, data: OffsetsData) -> list[Buffer]:
    return [buffers.buffers[i] for i in data.numbers]


def test_differences_are_those_of_the_bytes() -> None:
    for buffers in sets(150):
        for data in offsets_data(buffers):
            found = forbidden_differences(data)
            for (i, a), (j, b) in combinations(enumerate(members(buffers, data)), 2):
                wrong = oracle.forbidden_differences(a, b, paired=False)
                in_units = {d // data.unit for d in wrong if d % data.unit == 0}
                assert integers(found.get((i, j), [])) == in_units


@pytest.mark.parametrize("inplace", [False, True])
def test_allowed_are_those_that_are_not_forbidden(inplace: bool) -> None:
    rng = Random(3)
    for _ in range(300):
        forbidden = set(rng.sample(range(-5, 6), rng.randint(0, 8)))
        ranges = [(d, d) for d in sorted(forbidden)]
        merged: list[Range] = []
        for low, high in ranges:
            if merged and merged[-1][1] + 1 == low:
                merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        low, high = sorted((rng.randint(-7, 7), rng.randint(-7, 7)))
        allowed = allowed_differences(merged, low, high, inplace=inplace)
        expected = {d for d in range(low, high + 1) if d not in forbidden or (inplace and d == 0)}
        assert integers(allowed) == expected
        assert sum(b - a + 1 for a, b in allowed) == len(expected)


@pytest.mark.slow
def test_each_pair_that_meets_is_kept_apart_once_or_more_and_live_pairs_in_no_group() -> None:
    alive = several = 0
    for buffers in sets(400):
        for data in offsets_data(buffers):
            found, own = groups(data)
            together = {pair for group in found for pair in combinations(sorted(group.tolist()), 2)}
            live = live_pairs(data)
            assert not live & together
            assert live <= set(own)
            assert forbidden_differences(data).keys() <= together | set(own)
            assert {i for group in found for i in group.tolist()} == set(range(data.count))
            alive += bool(live)
            several += len(own) > len(live)
    assert alive >= 40
    assert several >= 5


def test_pairs_that_never_share_a_byte_are_no_live_pairs() -> None:
    apart = Buffers(
        buffers=(Buffer(id="a", lower=0, upper=2, size=1), Buffer(id="b", lower=2, upper=4, size=1)),
        inplace=(("a", "b"),),
    )
    for data in offsets_data(apart):
        assert not live_pairs(data)


def test_twins_can_be_exchanged() -> None:
    """And those of the same size, alignment and times, without pair or fixed offset, are twins."""
    seen = 0
    for buffers in sets(200):
        for data in offsets_data(buffers):
            own = members(buffers, data)
            alike = twins(data)
            paired = {x for pair in buffers.inplace for x in pair if {*pair} <= {b.id for b in own}}
            for a, b in combinations(range(data.count), 2):
                first, second = own[a], own[b]
                same = all(
                    oracle.occupied_bytes(first, t) == oracle.occupied_bytes(second, t) for t in range(12)
                )
                same = same and first.size == second.size and first.alignment == second.alignment
                free = all(x.offset is None and x.id not in paired for x in (first, second))
                if same and free:
                    seen += 1
                    assert any({a, b} <= set(group) for group in alike)
                    wrong = oracle.forbidden_differences(first, second, paired=False)
                    step = twin_step(data, a) * data.unit
                    assert wrong == set(range(-step + 1, step))
    assert seen >= 50


def test_stacked_height_is_enough_and_the_bound_not_too_much() -> None:
    for buffers in sets(100, most=6):
        free = Buffers(buffers=buffers.buffers, inplace=buffers.inplace)
        for data in offsets_data(free):
            own = Buffers(
                buffers=tuple(members(free, data)),
                inplace=tuple(
                    (a, b) for a, b in free.inplace if {a, b} <= {x.id for x in members(free, data)}
                ),
            )
            least = oracle.brute_offsets(own)
            if least is not None:
                assert simple_bound(data) * data.unit <= least <= stacked_height(data) * data.unit


def test_stacked_height_stops_at_the_capacity() -> None:
    row = tuple(Buffer(id=str(k), lower=0, upper=2, size=3) for k in range(3))
    (data,) = offsets_data(Buffers(buffers=row, pools={"": 7}))
    assert (data.unit, stacked_height(data)) == (3, 2)
    assert np.array_equal(twins(data), [[0, 1, 2]])
