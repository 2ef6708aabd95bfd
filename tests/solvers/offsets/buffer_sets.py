"""Sets of many buffers with every feature, and what is wrong with offsets of them."""

from __future__ import annotations

from random import Random

from lowtide.formulations.offsets.data import OffsetsData
from lowtide.models.arrays import Integers
from lowtide.models.buffers import Buffer, Buffers
from lowtide.models.verifier.allocation import verify_allocation
from tests.oracles.brute_offsets import random_set


def faults(buffers: Buffers, data: OffsetsData, offsets: Integers) -> list[str]:
    """Return what is wrong with offsets of a part, but for the capacity and faults of the fixed alone."""
    answer = {}
    chosen = [buffers.buffers[i] for i in data.numbers.tolist()]
    for b, offset in zip(chosen, offsets.tolist(), strict=True):
        answer[b.id] = offset * data.unit
    pairs = tuple(pair for pair in buffers.inplace if set(pair) <= set(answer))
    verdict = verify_allocation(Buffers(buffers=tuple(chosen), inplace=pairs), answer)
    fixed = {b.id for b in chosen if b.offset is not None}
    return [v.message for v in verdict.violations if not set(v.buffers) <= fixed]


def larger_set(rng: Random, count: int) -> Buffers:
    """Return buffers with every feature, many alive at once."""
    sets = [random_set(rng) for _ in range(count // 3)]
    found = {f"{k}{b.id}": (k, b) for k, some in enumerate(sets) for b in some.buffers if b.pool in ("", "a")}
    buffers = []
    for name, (k, b) in found.items():
        shift, stretch = rng.randint(0, count // 6), rng.choice((1, 1, 4))
        lower, upper = shift + b.lower * stretch, shift + b.upper * stretch
        gaps = tuple((shift + g.lower * stretch, shift + g.upper * stretch, g.low, g.high) for g in b.gaps)
        buffers.append(
            Buffer(
                id=name,
                lower=lower,
                upper=upper,
                size=b.size * rng.choice((1, 5)) if not gaps else b.size,
                alignment=b.alignment,
                offset=b.offset if k % 9 == 0 else None,
                hint=b.hint,
                gaps=gaps,  # type: ignore[arg-type]
            )
        )
    pairs = [(f"{k}{a}", f"{k}{b}") for k, some in enumerate(sets) for a, b in some.inplace]
    pairs = [pair for pair in pairs if pair[0] in found and pair[1] in found]
    return Buffers(buffers=tuple(buffers), inplace=tuple(pairs))
