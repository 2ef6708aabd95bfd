"""Guided ejection over addresses: it reaches optima of small sets, and never leaves an overlap."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from lowtide.formulations.offsets.data import OffsetsData, offsets_data
from lowtide.models.arrays import Integers
from lowtide.models.buffers import Buffer, Buffers, Gap
from lowtide.models.verifier.allocation import verify_allocation
from lowtide.solvers.offsets import dense_kernel as module
from lowtide.solvers.offsets.dense_kernel import OUT, differences, squeeze_dense
from tests.effort import seeds
from tests.oracles.brute_offsets import brute_heights, random_set


def squeezed(data: OffsetsData, target: int, seed: int = 0, steps: int = 3000) -> tuple[int, Integers]:
    """Return how many buffers are left out below a target, and the offsets."""
    part = differences(data)
    assert part is not None
    offsets = np.where(data.fixed >= 0, data.fixed, OUT)
    weights = np.ones(data.count, dtype=np.int64)
    return int(squeeze_dense(part, offsets, weights, target, steps, seed)), offsets


@pytest.mark.parametrize("block", seeds(8, least=2))
def test_optima_of_random_sets_are_reached(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        drawn = random_set(Random(seed))
        buffers = Buffers(buffers=drawn.buffers, inplace=drawn.inplace)
        heights = brute_heights(buffers)
        if heights is None:
            continue
        placed = {b.id: b.offset or 0 for b in buffers.buffers if not b.size}
        for data in offsets_data(buffers):
            left, offsets = squeezed(data, heights[data.pool] // data.unit, seed)
            assert left == 0, seed
            for number, offset in zip(data.numbers.tolist(), offsets.tolist(), strict=True):
                placed[buffers.buffers[number].id] = offset * data.unit
        verdict = verify_allocation(buffers, placed)
        assert verdict.violations == (), seed
        assert all(verdict.heights[pool] <= heights[pool] for pool in heights)


def test_what_is_in_place_never_overlaps_when_steps_end() -> None:
    rng = Random(3)
    chosen = []
    for n in range(60):
        lower = rng.randint(0, 30)
        size = rng.randint(1, 9)
        gaps = (Gap(lower + 1, lower + 3, 0, size // 2),) if n % 5 == 0 else ()
        chosen.append(Buffer(id=str(n), lower=lower, upper=lower + rng.randint(4, 12), size=size, gaps=gaps))
    (data,) = offsets_data(Buffers(buffers=tuple(chosen)))
    for steps in (1, 10, 300):
        left, offsets = squeezed(data, int(data.load.max()) - 1, steps=steps)
        kept = [i for i in range(data.count) if offsets[i] != OUT]
        assert left == data.count - len(kept) > 0
        assert (offsets + data.size)[kept].max() < data.load.max()
        alive = {chosen[data.numbers[i]].id: int(offsets[i]) * data.unit for i in kept}
        some = Buffers(buffers=tuple(b for b in chosen if b.id in alive))
        assert verify_allocation(some, alive).valid


def test_one_seed_takes_one_course() -> None:
    chosen = (Buffer(id=str(n), lower=n % 4, upper=n % 4 + 3, size=n % 5 + 1) for n in range(24))
    (data,) = offsets_data(Buffers(buffers=tuple(chosen)))
    first, again = (squeezed(data, int(data.load.max()), seed=4, steps=200) for _ in range(2))
    assert first[0] == again[0]
    assert (first[1] == again[1]).all()


def test_a_buffer_above_the_target_stays_out() -> None:
    (data,) = offsets_data(Buffers(buffers=(Buffer(id="x", lower=0, upper=1, size=6, alignment=5),)))
    assert [squeezed(data, target)[0] for target in (4, 5, 6)] == [1, 1, 0]


def test_too_many_pairs_give_no_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = (Buffer(id=str(n), lower=0, upper=3, size=2) for n in range(4))
    (data,) = offsets_data(Buffers(buffers=tuple(chosen)))
    monkeypatch.setattr(module, "PAIRS", 5)
    assert differences(data) is None
    monkeypatch.setattr(module, "PAIRS", 6)
    assert differences(data) is not None
