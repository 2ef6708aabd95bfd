"""Bounds on the height of offsets: never above the brute-force optimum, and exact where they promise it."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.formulations.offsets.data import offsets_data
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.solvers.offsets import bounds as module
from lowtide.solvers.offsets.bounds import lower_bound
from tests.effort import seeds
from tests.oracles.brute_offsets import brute_heights, random_set


def heights_below(buffers: Buffers) -> dict[str, int]:
    """Return the best bound of each pool, in bytes."""
    found = dict.fromkeys(buffers.pools, 0)
    for part in offsets_data(buffers):
        found[part.pool] = max(found[part.pool], lower_bound(part) * part.unit)
    return found


def one(*chosen: Buffer, inplace: tuple[tuple[str, str], ...] = ()) -> int:
    """Return the bound of one pool, in bytes."""
    return heights_below(Buffers(buffers=chosen, inplace=inplace))[""]


def box(
    name: str, size: int, *, lower: int = 0, upper: int = 9, alignment: int = 1, offset: int | None = None
) -> Buffer:
    return Buffer(id=name, lower=lower, upper=upper, size=size, alignment=alignment, offset=offset)


@pytest.mark.parametrize("block", seeds(12, least=2))
def test_bounds_hold_on_random_sets(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 4 == 1:
        monkeypatch.setattr(module, "EXACT", 1)
    if block % 4 == 2:
        monkeypatch.setattr(module, "STEPS", 3)
        monkeypatch.setattr(module, "BITS", 0)
    met = 0
    for seed in range(400 * block, 400 * block + 400):
        buffers = random_set(Random(seed), most=5)
        heights = brute_heights(Buffers(buffers=buffers.buffers, inplace=buffers.inplace))
        if heights is None:
            continue
        found = heights_below(buffers)
        assert all(found[pool] <= heights[pool] for pool in heights), seed
        met += found == heights
    assert met > 240


def test_load_counts_windows_and_skips_gaps() -> None:
    gappy = Buffer(id="x", lower=0, upper=9, size=8, gaps=(Gap(3, 6, 0, 2), Gap(6, 8)))
    assert one(gappy, box("y", 5, lower=3, upper=6)) == 8
    assert one(gappy, box("y", 7, lower=3, upper=6)) == 9
    assert one(gappy, box("y", 7, lower=6, upper=8)) == 8


def test_a_pair_needs_the_larger_of_the_two() -> None:
    assert one(box("x", 5), box("y", 3), box("z", 1), inplace=(("x", "y"),)) == 6
    assert one(box("x", 5), box("y", 3, lower=8, upper=12), inplace=(("y", "x"),)) == 5
    assert one(box("x", 5, upper=5), box("y", 3), box("z", 4, lower=6), inplace=(("x", "y"),)) == 7


def test_a_chain_of_three_pairs_shares_only_two_by_two() -> None:
    """Address of a is that of b or not: 10 + min(6, 6), where sets without pairs show only 12."""
    chain = (("a", "b"), ("b", "c"))
    three = (box("a", 6), box("b", 10), box("c", 6))
    assert one(*three, inplace=chain) == 16
    assert one(*three, inplace=(*chain, ("c", "a"))) == 10


def test_windows_of_a_chain_that_do_not_meet_lie_on_top_of_the_middle() -> None:
    low = Buffer(id="a", lower=0, upper=9, size=4, gaps=(Gap(1, 9, 0, 2),))
    high = Buffer(id="c", lower=1, upper=10, size=4, gaps=(Gap(1, 9, 2, 4),))
    middle = box("b", 4, lower=1, upper=9)
    buffers = Buffers(buffers=(low, middle, high), inplace=(("a", "b"), ("b", "c")))
    assert heights_below(buffers) == brute_heights(buffers) == {"": 4}


def test_alignment_pads_all_but_the_highest() -> None:
    aligned = [box(f"x{i}", 5, alignment=8) for i in range(3)]
    assert one(*aligned) == 8 + 8 + 5
    assert one(*aligned, box("y", 3)) == 8 + 8 + 5  # fits into a hole
    assert one(*aligned, box("y", 2), box("z", 4)) == 21
    assert one(*(box(f"x{n}", n, alignment=8) for n in (5, 6, 7)), box("y", 8)) == 24 + 8 - 3 - 2
    assert one(*aligned, box("x3", 6, alignment=8), box("y", 7)) == 8 * 4 + 7 - 3 - 3


def test_alignments_that_would_overflow_are_left_out() -> None:
    assert one(*(box(f"x{i}", 1, alignment=2**60 - 2) for i in range(4))) == 4


def test_alignments_of_divisors_count_together() -> None:
    assert one(box("x", 5, alignment=6), box("y", 7, alignment=10)) == 6 + 7


def test_fixed_buffers_leave_holes_that_others_must_fill() -> None:
    low, high = box("low", 2, offset=5), box("high", 3, offset=12)
    assert one(low, high) == 15
    assert one(low, high, box("x", 5), box("y", 5)) == 15
    assert one(low, high, box("x", 6)) == 15 + 6
    assert one(low, high, box("x", 3), box("y", 4)) == 15
    assert one(low, high, *(box(f"x{i}", 3) for i in range(3))) == 15 + 3
    assert one(low, high, box("x", 6), inplace=(("x", "low"),)) == 15


def test_outermost_windows_leave_bytes_below_and_above() -> None:
    def waist(name: str) -> Buffer:
        return Buffer(id=name, lower=0, upper=9, size=10, gaps=(Gap(0, 9, 3, 8),))

    assert one(waist("x"), waist("y"), waist("z")) == 3 + 15 + 2


def test_pairs_beyond_the_limit_of_work_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", 0)
    assert one(box("x", 5), box("y", 3), box("z", 1), inplace=(("x", "y"),)) == 5


@pytest.mark.slow
def test_many_buffers_take_little_work() -> None:
    rng = Random(1)
    chosen = []
    for n in range(20_000):
        lower = rng.randint(0, 100_000)
        size, alignment = rng.randint(1, 10**7), rng.choice((1, 64, 512))
        chosen.append(Buffer(id=str(n), lower=lower, upper=lower + 2500, size=size, alignment=alignment))
    pairs = tuple((str(n), str(n + 1)) for n in range(0, 19_999, 7))
    (part,) = offsets_data(Buffers(buffers=tuple(chosen), inplace=pairs))
    assert lower_bound(part) > 10**9
