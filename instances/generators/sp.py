"""Series-parallel graphs: compositions of forks and joins.

Least-memory orders of these are polynomial in the per-edge-data model: Kayaaslan, Lambert, Marchal,
Uçar, "Scheduling series-parallel task graphs to minimize peak memory", TCS 707 (2018).
"""

from __future__ import annotations

import random

from ...models.graph import Graph
from .builder import from_successors


def sp(*, n: int, seed: int, branches: int, data: str, sizes: str, largest: int) -> Graph:
    """Return a random series-parallel graph of `n` ops with one source and one sink.

    A block of at least four ops is, with equal probability, either two blocks in series or a fork, two
    to `branches` blocks in parallel, and a join; a smaller one is a chain.
    """
    rng = random.Random(seed)
    successors: list[list[int]] = [[] for _ in range(n)]
    _block(0, n, rng, branches, successors)
    return from_successors([sorted(s) for s in successors], rng, data=data, sizes=sizes, largest=largest)


def pumpkin(*, paths: int, length: int, seed: int, data: str, sizes: str, largest: int) -> Graph:
    """Return a source, so many disjoint paths of one to `length` ops, and a sink.

    With ``data=op`` least memory is strongly NP-hard (R. Jin, M. Purohit, Z. Svitkina, E. Vee, J. Wang,
    "Dominant schedules...", arXiv 2312.13526).
    """
    rng = random.Random(seed)
    lengths = [rng.randint(1, length) for _ in range(paths)]
    sink = sum(lengths) + 1
    successors: list[list[int]] = [[]]
    for count in lengths:
        successors[0].append(len(successors))
        for k in range(count):
            successors.append([len(successors) + 1 if k < count - 1 else sink])
    return from_successors([*successors, []], rng, data=data, sizes=sizes, largest=largest)


def _block(first: int, n: int, rng: random.Random, branches: int, arcs: list[list[int]]) -> None:
    """Join the ops ``first .. first + n - 1`` to one block, whose source and sink are its ends."""
    last = first + n - 1
    if n >= 4 and rng.random() < 0.5:
        count = min(rng.randint(2, branches), n - 2)
        cuts = sorted(rng.sample(range(first + 2, last), count - 1))
        for start, end in zip([first + 1, *cuts], [*cuts, last], strict=True):
            _block(start, end - start, rng, branches, arcs)
            arcs[first].append(start)
            arcs[end - 1].append(last)
    elif n >= 2:
        cut = rng.randrange(first + 1, last + 1) if n >= 4 else first + 1
        _block(first, cut - first, rng, branches, arcs)
        _block(cut, last + 1 - cut, rng, branches, arcs)
        arcs[cut - 1].append(cut)
