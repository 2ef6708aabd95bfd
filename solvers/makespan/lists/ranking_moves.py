"""Moves of local search on rankings: lists of ops, of which the first ready one goes first."""

from __future__ import annotations

from random import Random


def jittered(ranking: list[int], rng: Random) -> list[int]:
    """Return the ranking with the ops of a window in another order, none far from its place."""
    n = len(ranking)
    width = max(2, int(n ** rng.random()))
    low = rng.randrange(max(1, n - width + 1))
    reach = max(2.0, width ** rng.random())
    keys = [k + reach * rng.random() for k in range(width)]
    window = ranking[low : low + width]
    order = sorted(range(len(window)), key=keys.__getitem__)
    return [*ranking[:low], *(window[k] for k in order), *ranking[low + width :]]


def shuffled(ranking: list[int], rng: Random) -> list[int]:
    """Return the ranking with one to three ops elsewhere."""
    new, n = ranking.copy(), len(ranking)
    reach = max(2, int(n ** rng.random()))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(n)
        op = new.pop(at)
        new.insert(min(max(0, at + rng.randint(-reach, reach)), n - 1), op)
    return new
