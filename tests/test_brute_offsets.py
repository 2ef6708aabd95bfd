"""The oracle of offset allocation: small drawings, and the judge asked about every address."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.verifier.allocation import verify_allocation
from tests.effort import seeds
from tests.oracles.brute_offsets import brute_heights, brute_offsets, random_set


def test_three_in_a_row_need_5_bytes() -> None:
    """The longest lies above the two others, which take turns."""
    row = (
        Buffer(id="a", lower=0, upper=2, size=3),
        Buffer(id="b", lower=2, upper=4, size=1),
        Buffer(id="c", lower=1, upper=3, size=2),
    )
    assert brute_offsets(Buffers(buffers=row)) == 5
    assert brute_offsets(Buffers(buffers=row, pools={"": 4})) is None
    aligned = (*row[:2], replace(row[2], alignment=2))
    assert brute_offsets(Buffers(buffers=aligned)) == 5  # c below a
    assert brute_offsets(Buffers(buffers=(replace(row[0], offset=0), *aligned[1:]))) == 6
    assert brute_offsets(Buffers(buffers=row, inplace=(("a", "c"),))) == 3


def test_window_of_a_gap_is_all_that_stays() -> None:
    host = Buffer(id="h", lower=0, upper=6, size=4, gaps=(Gap(2, 4, 1, 2),))
    for size, height in ((1, 4), (2, 4), (3, 5)):
        guest = Buffer(id="g", lower=2, upper=4, size=size)
        assert brute_offsets(Buffers(buffers=(host, guest))) == height


def test_fixed_offset_counts_without_bytes() -> None:
    nothing = Buffer(id="n", lower=0, upper=1, size=0, offset=7)
    assert brute_offsets(Buffers(buffers=(nothing,))) == 7
    assert brute_offsets(Buffers(buffers=(nothing,), pools={"": 6})) is None
    assert brute_offsets(Buffers(buffers=(replace(nothing, alignment=2),))) is None


@pytest.mark.parametrize("seed", seeds(60))
def test_no_address_is_better_than_the_least_height(seed: int) -> None:
    rng = Random(seed)
    buffers = random_set(rng, most=3)
    heights = brute_heights(buffers)
    top = 9 if heights is None else max(9, *(h + 2 for h in heights.values()))
    best = None
    for choice in product(range(top), repeat=len(buffers.buffers)):
        verdict = verify_allocation(
            buffers, {b.id: offset for b, offset in zip(buffers.buffers, choice, strict=True)}
        )
        if verdict.valid:
            total = sum(verdict.heights.values())
            best = total if best is None else min(best, total)
    assert best == brute_offsets(buffers)


def test_random_sets_have_every_feature() -> None:
    seen = Counter[str]()
    for seed in range(300):
        found = random_set(Random(seed))
        seen["infeasible"] += brute_offsets(found) is None
        seen["pools"] += len(found.pools) > 1
        seen["capacity"] += any(c is not None for c in found.pools.values())
        seen["pairs"] += len(found.inplace) == 1
        seen["several pairs"] += len(found.inplace) > 2
        for b in found.buffers:
            seen["zero"] += b.size == 0
            seen["fixed"] += b.offset is not None
            seen["hint"] += b.hint is not None
            seen["alignment"] += b.alignment > 1
            seen["gap"] += any(gap.high == gap.low for gap in b.gaps)
            seen["window"] += any(gap.high > gap.low for gap in b.gaps)
    assert min(seen.values()) >= 20
    assert len(seen) == 11
