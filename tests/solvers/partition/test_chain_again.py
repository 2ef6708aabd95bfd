"""The chain of 12 layers with a choice of what runs again: the program against all cuts and choices."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise, product

import lowtide as lt
from tests.problems.partition import CHAIN, KEPT, PASSED, WEIGHTS, chain_of

THREE, FOUR = (140, 180, 200, 220, 400, 600), (180, 220, 400, 500, 600)
"""Memories on three and on four devices, in bytes."""


def test_the_chain_with_a_choice_of_what_runs_again() -> None:
    graph, classes = chain_of(tuple((t, 2 * t) for t in CHAIN), WEIGHTS, KEPT, PASSED)

    def optimum(devices: int, memory: int) -> int | None:
        problem = lt.Partition(
            graph, devices, memory=memory, micro=8, schedule="1f1b", recompute="choose", **classes
        )
        return lt.solve(problem, "chain", threads=1).objective

    found = [optimum(3, m) for m in THREE], [optimum(4, m) for m in FOUR]
    assert found == ([None, 71, 68, 63, 63, 63], [56, 48, 47, 44, 43])
    assert found == ([enumerated(3, m, 0) for m in THREE], [enumerated(4, m, 0) for m in FOUR])


def test_an_input_of_ten_bytes_makes_the_difference_to_what_was_known() -> None:
    """Known values of this chain count an input that the first stage keeps; it is no value of the graph."""
    assert [enumerated(3, m, 10) for m in THREE] == [None, None, 68, 63, 63, 63]
    assert [enumerated(4, m, 10) for m in FOUR] == [56, 48, 47, 44, 43]


def enumerated(stages: int, memory: int, entering: int) -> int | None:
    """Return the least load by all cuts and choices; so many bytes enter the first stage."""
    found = []
    for inner in combinations(range(1, len(CHAIN)), stages - 1):
        loads = [
            min((time for need, time in choices(i, j, stages - q, entering) if need <= memory), default=None)
            for q, (i, j) in enumerate(pairwise((0, *inner, len(CHAIN))))
        ]
        found += [max(x for x in loads if x is not None)] if None not in loads else []
    return min(found, default=None)


@cache
def choices(i: int, j: int, held: int, entering: int) -> list[tuple[int, int]]:
    """Return bytes and time of layers i to j - 1 as a stage with so many micro-batches, by what runs again.

    A choice that needs no less than a faster one is left out.
    """
    passed = (entering, *PASSED)[i]
    found = []
    for again in product((0, 1), repeat=j - i):
        kept = sum(KEPT[x] for x in range(i, j) if not again[x - i])
        largest = max(KEPT[x] * again[x - i] for x in range(i, j))
        need = 16 * sum(WEIGHTS[i:j]) + held * (passed + kept) + largest
        found.append((sum(CHAIN[x] * (3 + again[x - i]) for x in range(i, j)), need))
    best: list[tuple[int, int]] = []
    for time, need in sorted(found):
        if not best or need < best[-1][0]:
            best.append((need, time))
    return best
