"""What to keep within a memory, against every subset."""

from __future__ import annotations

import itertools
import random

from lowtide.results.adapters.kept_sets import KnapsackItem, kept_sets
from tests.effort import seeds


def test_against_every_subset() -> None:
    for seed in seeds(16):
        rng = random.Random(seed)
        base = [rng.randint(0, 9) for _ in range(rng.randint(1, 6))]
        items = [
            KnapsackItem(
                rng.randint(0, 9), {e: rng.randint(-2, 9) for e in range(len(base)) if rng.random() < 0.6}
            )
            for _ in range(rng.randint(0, 6))
        ]
        memory = rng.randint(5, 20)
        within = []
        for kept in itertools.product((0, 1), repeat=len(items)):
            held = list(base)
            for item, x in zip(items, kept, strict=True):
                for e, nbytes in item.change.items():
                    held[e] += x * nbytes
            if max(held) <= memory:
                within.append(sum(item.value * (1 - x) for item, x in zip(items, kept, strict=True)))
        found = kept_sets(base, items, memory, 10, seed)
        if not within:
            assert found.status == "infeasible"
            continue
        cost = sum(item.value for i, item in enumerate(items) if i not in found.items)
        assert (found.status, found.bound, cost) == ("optimal", min(within), min(within))


def test_bytes_beyond_32_bits() -> None:
    items = [KnapsackItem(k + 1, {0: 3 * 2**40 + k}) for k in range(5)]
    found = kept_sets([2**41], items, 2**41 + 9 * 2**40 + 9, 10, 0)
    assert (found.items, found.bound, found.status) == ((2, 3, 4), 3, "optimal")
