r"""What to evict in a given order: furthest in the future, and rules for whole files.

While the node at some place of the order runs, the files that wait and the node's own need must fit. If they
exceed the memory by :math:`d > 0` bytes, a rule evicts files or parts of them until d <= 0, from the list
of the waiting ones, *furthest first*: the later a file's reader runs, the earlier it is listed.

`furthest`
    The first one of the list, of divisible files as much as is needed. With divisible files no other
    rule writes less (theorem below).
`first-fit`
    The first one of at least d bytes.
`best-fit`
    The one whose size is closest to d.
`first-fill`
    The first one of at most d bytes.
`best-fill`
    The largest one of at most d bytes, closest to d from below.
`best-k`
    Of the first K = 5, the set whose bytes are closest to d.

Each rule is applied again until d <= 0; where it finds no file, `furthest` takes its place. Of equally good
files or sets the first one in the list is taken. All but `furthest` move whole files.

**Theorem.** For divisible files and a given order `furthest` writes the fewest bytes. By
`lowtide.formulations.minio.data`, :math:`w_k` bytes of file k in the storage cover its interval of waiting,
and each step has a demand that the files over it must cover, at least. Take an optimal w that agrees with
`furthest` up to a step, and let the step's rule evict a byte of file k where w has one of file j in its
place, whose interval at this step is open too and ends no later. Before this step all demands are covered
by what both have, and from it on k covers each step that j does; so to exchange them keeps w optimal.

Sources: the rules are those of M. Jacquelin, L. Marchal, Y. Robert, B. Uçar, "On optimal tree traversals for
sparse matrix factorization", IPDPS 2011, section on I/O, written from a summary of it; what ties and an empty
choice do is ours. Furthest in the future is L. A. Belady's rule (IBM Systems Journal 5, 1966).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from itertools import combinations

from ...formulations.minio.data import MinIOData
from ...models.problems.minio import Eviction, Traversal

K = 5
"""Files of which `best-k` looks at every subset: the 5 whose next use is furthest."""

Rule = Callable[[Sequence[int], int], Sequence[int]]
"""From the sizes of the waiting files, furthest first, and d to places in the list; empty: none suits."""


def first_fit(sizes: Sequence[int], d: int) -> Sequence[int]:
    """Return the first of at least d."""
    return next(([j] for j, size in enumerate(sizes) if size >= d), [])


def best_fit(sizes: Sequence[int], d: int) -> Sequence[int]:
    """Return the one closest to d."""
    return [min(range(len(sizes)), key=lambda j: abs(sizes[j] - d))]


def first_fill(sizes: Sequence[int], d: int) -> Sequence[int]:
    """Return the first of at most d."""
    return next(([j] for j, size in enumerate(sizes) if size <= d), [])


def best_fill(sizes: Sequence[int], d: int) -> Sequence[int]:
    """Return the largest of at most d."""
    some = [j for j, size in enumerate(sizes) if size <= d]
    return [max(some, key=lambda j: sizes[j])] if some else []


def best_k(sizes: Sequence[int], d: int) -> Sequence[int]:
    """Return the set of the first K that is closest to d."""
    first = range(min(K, len(sizes)))
    sets = [some for count in range(1, len(first) + 1) for some in combinations(first, count)]
    return min(sets, key=lambda some: abs(sum(sizes[j] for j in some) - d))


def furthest(sizes: Sequence[int], d: int) -> Sequence[int]:
    """Return the first."""
    return [0]


RULES: dict[str, Rule] = {
    "furthest": furthest,
    "first-fit": first_fit,
    "best-fit": best_fit,
    "first-fill": first_fill,
    "best-fill": best_fill,
    "best-k": best_k,
}
"""By name of the method."""


def evict(
    data: MinIOData, order: Sequence[int], rule: str = "furthest", *, sizes: Sequence[int] | None = None
) -> Traversal:
    """Return a traversal of a tree or subtree in an order, with what a rule evicts.

    Parameters
    ----------
    data
        No node alone exceeds the memory.
    order
        Of the nodes, children before parents.
    rule
        A name in `RULES`.
    sizes
        What waits of each file, in bytes; all of it by default.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 6, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> evict(data, (0, 1, 2)).evictions
    (Eviction(step=1, tensor=0, nbytes=2),)
    """
    choose = RULES[rule]
    divisible = rule == "furthest" and not data.whole
    place = [0] * data.n
    for step, v in enumerate(order):
        place[v] = step
    waiting: list[tuple[int, int]] = []  # (place of the reader, -file): the furthest comes last
    left = list(data.size if sizes is None else sizes)
    held = 0
    evictions = []
    for step, v in enumerate(order):
        while waiting and waiting[0][0] == step:
            _, k = waiting.pop(0)
            held -= left[-k]
        d = held + data.need[v] - data.memory
        while d > 0:
            if rule == "furthest":
                chosen: Sequence[int] = [0]
            else:
                listed = [left[-k] for _, k in reversed(waiting)]
                chosen = choose(listed, d) or furthest(listed, d)
            for k in [-waiting[-1 - j][1] for j in chosen]:
                nbytes = min(left[k], d) if divisible else left[k]
                evictions.append(Eviction(step, data.tensor[k], nbytes))
                left[k] -= nbytes
                held -= nbytes
                d -= nbytes
            for j in sorted(chosen, reverse=True):
                if not left[-waiting[-1 - j][1]]:
                    del waiting[-1 - j]
        if v != order[-1]:
            for k in data.files_of[v]:
                if left[k]:
                    insort(waiting, (place[data.parent[v]], -k))
                    held += left[k]
    return Traversal(tuple(order), tuple(evictions))
