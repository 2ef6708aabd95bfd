"""The cases on which the verifier and the naive simulator are compared: seeded, always the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from tests.mutations import MUTATIONS, mutate
from tests.random_plans import FLAVOURS, Case, random_case

SINGLE = sorted(MUTATIONS)
"""Every mutation by name."""

TAME = [name for name in SINGLE if not name.startswith("nonsense") and name != "period"]
"""Mutations after which another one still finds well-formed fields."""


@cache
def base_case(flavour: str, seed: int) -> Case:
    """Return the valid case of that number."""
    return random_case(Random(f"{flavour}{seed}"), flavour)


def valid_cases(flavour: str, seeds: range) -> Iterator[Case]:
    """Yield cases whose plans are valid by construction."""
    for seed in seeds:
        yield base_case(flavour, seed)


def broken_cases(flavour: str, seeds: range, name: str) -> Iterator[Case]:
    """Yield those cases with one mutation, and with another one before it."""
    for seed in seeds:
        case = base_case(flavour, seed)
        rng = Random(f"{flavour}{seed}{name}")
        once = mutate(rng, case, name)
        first = mutate(rng, case, rng.choice(TAME))
        twice = None if first is None else mutate(rng, first, name)
        yield from (x for x in (once, twice) if x is not None)


def corpus(seeds: range) -> Iterator[Case]:
    """Yield valid and broken cases of every flavour and mutation, mixed."""
    for seed in seeds:
        for flavour in FLAVOURS:
            yield from valid_cases(flavour, range(seed, seed + 1))
            for name in SINGLE:
                yield from broken_cases(flavour, range(seed, seed + 1), name)
