"""Priorities of list scheduling: ranks of the ops, of which the lowest ready one goes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....formulations.makespan.data import MakespanData
from ....models.arrays import Integers
from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.problems.makespan import Makespan

Keys = Callable[[Makespan, MakespanData, Sequence[int]], list[tuple[int, ...]]]


def _critical(problem: Makespan, data: MakespanData, order: Sequence[int]) -> list[tuple[int, ...]]:
    return [(-(d + t),) for d, t in zip(data.duration, data.tail, strict=True)]


def _fallback(problem: Makespan, data: MakespanData, order: Sequence[int]) -> list[tuple[int, ...]]:
    place = dict(zip(order, range(data.n), strict=True))
    return [(place[i],) for i in range(data.n)]


def _successors(problem: Makespan, data: MakespanData, order: Sequence[int]) -> list[tuple[int, ...]]:
    after = precedence(problem.graph).successors
    return [(-len(after[i]), -(data.duration[i] + data.tail[i])) for i in range(data.n)]


def _longest(problem: Makespan, data: MakespanData, order: Sequence[int]) -> list[tuple[int, ...]]:
    return [(-d, -t) for d, t in zip(data.duration, data.tail, strict=True)]


def _bytes(problem: Makespan, data: MakespanData, order: Sequence[int]) -> list[tuple[int, ...]]:
    """Allocated bytes less those of tensors that die with the op in the fallback order."""
    _, after = sequential_memory(problem.relaxed).profile(order)
    before = sequential_memory(problem.relaxed).initial_bytes
    change = [0] * data.n
    for i, level in zip(order, after, strict=True):
        change[i], before = level - before, level
    return [(change[i], -(data.duration[i] + data.tail[i])) for i in range(data.n)]


PRIORITIES: dict[str, tuple[Keys, str]] = {
    "critical": (_critical, "longest chain to the end first (Hu 1961; highest level first)"),
    "fallback": (_fallback, "as in the fallback order"),
    "successors": (_successors, "most immediate successors first"),
    "longest": (_longest, "longest op first (Graham 1969, LPT)"),
    "bytes": (_bytes, "most bytes released, less those allocated, first"),
}
"""Keys by name, smallest first; ties by the reference order."""


MIXES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Weights of the fallback order, against the longest chain, among the first rankings of the local search."""


def mixed(weight: float, data: MakespanData, order: Sequence[int]) -> Integers:
    """Return a ranking between the longest chain (weight 0) and the fallback order (weight 1)."""
    place = np.empty(data.n)
    place[list(order)] = np.arange(data.n) / data.n
    chain = np.array(data.duration) + np.array(data.tail)
    rank = np.empty(data.n, dtype=np.int64)
    keys = weight * place - (1 - weight) * chain / chain.max()
    rank[np.argsort(keys, kind="stable")] = np.arange(data.n)
    return rank


def ranks(name: str, problem: Makespan, data: MakespanData, order: Sequence[int]) -> Integers:
    """Return the rank of each op, all different."""
    keys = PRIORITIES[name][0](problem, data, order)
    rank = np.empty(data.n, dtype=np.int64)
    rank[sorted(range(data.n), key=lambda i: (keys[i], i))] = np.arange(data.n)
    return rank
