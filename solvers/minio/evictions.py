r"""What to evict in a given order: furthest in the future, and rules for whole files.

While the op at some place of the order runs, the files that wait and the op's own need must fit. If they
exceed the memory by :math:`d > 0` bytes, a rule evicts files or parts of them until d <= 0, from the list
of the waiting ones, *furthest first*: the later a file is used next, the earlier it is listed. Where only
writes count, what the storage has of a file is released as soon as it waits: it never costs anything again.

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

**Theorem.** For divisible files and a given order `furthest` moves the fewest bytes if all gaps cost the same
for each byte and share nothing: in trees, and wherever reads count and each file begins in the storage, or
each one has a single reader and none is kept to the end. By `lowtide.formulations.minio.data`, :math:`a_g`
bytes out of the memory cover gap g, and each step has a demand that the gaps over it must cover, at least.
Take an optimal a that agrees with `furthest` up to a step, and let the step's rule evict a byte in gap g
where a has one in gap h in its place, which is open at this step too and ends no later. Before this step all
demands are covered by what both have, and from it on g covers each step that h does; so to exchange them
keeps a optimal.

Where files have several readers, a write is shared by all later gaps: the linear program of
`lowtide.formulations.minio.order_milp` then moves fewer bytes on some orders. With *clean first*, files that
the storage has are listed before all others.

Sources: the rules are those of M. Jacquelin, L. Marchal, Y. Robert, B. Uçar, "On optimal tree traversals for
sparse matrix factorization", IPDPS 2011, section on I/O, written from a summary of it; what ties and an empty
choice do is ours. Furthest in the future is L. A. Belady's rule (IBM Systems Journal 5, 1966).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from itertools import combinations

from ...formulations.minio.data import GraphData
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
    data: GraphData,
    order: Sequence[int],
    rule: str = "furthest",
    *,
    sizes: Sequence[int] | None = None,
    clean_first: bool = False,
) -> Traversal:
    """Return a traversal of a graph, or of a subtree, in an order, with what a rule evicts.

    Parameters
    ----------
    data
        No op alone exceeds the memory.
    order
        Of the ops, each one after those before it.
    rule
        A name in `RULES`.
    sizes
        What waits of each file, in bytes; all of it by default.
    clean_first
        Whether files that the storage has come first.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 6, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> evict(data, (0, 1, 2)).evictions
    (Eviction(step=1, tensor=0, nbytes=2),)
    """
    return evicted(data, order, rule, sizes=sizes, clean_first=clean_first)[0]


def evicted(
    data: GraphData,
    order: Sequence[int],
    rule: str = "furthest",
    *,
    sizes: Sequence[int] | None = None,
    clean_first: bool = False,
) -> tuple[Traversal, int]:
    """Return the traversal of `evict`, and the bytes that it moves, as the objective counts them."""
    choose = RULES[rule]
    waiting = _Waiting(data, order, data.size if sizes is None else sizes, clean_first)
    divisible = rule == "furthest" and not data.whole
    for step, v in enumerate(order):
        for k in data.inputs[v]:
            waiting.use(k)
        d = waiting.held + data.need[v] - data.memory
        while d > 0:
            listed = [0] if rule == "furthest" else waiting.sizes()
            chosen = choose(listed, d) or [0]
            for k in [-waiting.keys[-1 - j][-1] for j in chosen]:
                nbytes = min(waiting.left[k], d) if divisible else waiting.left[k]
                waiting.evict(k, step, nbytes)
                d -= nbytes
        if v != order[-1]:
            for k in (*data.inputs[v], *data.files_of[v]):
                waiting.wait(k, step + 1)
    return Traversal(tuple(order), tuple(waiting.evictions)), waiting.moved


class _Waiting:
    """The files that wait at a moment: the furthest comes last in `keys`."""

    def __init__(
        self, data: GraphData, order: Sequence[int], sizes: Sequence[int], clean_first: bool
    ) -> None:
        self.data, self.full, self.clean_first = data, sizes, clean_first
        place = {v: step for step, v in enumerate(order)}
        end = len(order)
        self.uses = [
            [*([end] if kept else []), *sorted((place[v] for v in users if v in place), reverse=True)]
            for users, kept in zip(data.users, data.kept, strict=True)
        ]
        self.left = list(sizes)
        self.saved = [size * clean for size, clean in zip(sizes, data.clean, strict=True)]
        self.keys: list[tuple[bool, int, int]] = []
        self.key_of: dict[int, tuple[bool, int, int]] = {}
        self.held, self.moved = 0, data.fixed
        self.evictions: list[Eviction] = []
        for k, u in enumerate(data.maker):
            if u < 0 and not data.clean[k]:
                self.wait(k, 0)

    def wait(self, k: int, step: int) -> None:
        """Let a file wait from a step on, if it is used again."""
        if not self.uses[k] or not self.full[k]:
            return
        place, self.left[k] = self.uses[k][-1], self.full[k]
        free = not self.data.traffic or place == len(self.data.need)
        if free and self.saved[k] and place > step:
            self.left[k] -= self.saved[k]
            self.evictions.append(Eviction(step, self.data.tensor[k], self.saved[k]))
        if self.left[k]:
            key = (self.clean_first and self.saved[k] == self.full[k], place, -k)
            self.key_of[k] = key
            insort(self.keys, key)
            self.held += self.left[k]

    def use(self, k: int) -> None:
        """Bring a file back, which an op accesses."""
        self.uses[k].pop()
        if self.data.traffic:
            self.moved += self.full[k] - self.left[k]
        if k in self.key_of:
            self._remove(k)

    def evict(self, k: int, step: int, nbytes: int) -> None:
        """Evict bytes of a file that waits."""
        self.evictions.append(Eviction(step, self.data.tensor[k], nbytes))
        self.held -= nbytes
        self.left[k] -= nbytes
        written = max(0, self.full[k] - self.left[k] - self.saved[k])
        self.saved[k] += written
        self.moved += written
        if not self.left[k]:
            self._remove(k)

    def _remove(self, k: int) -> None:
        key = self.key_of.pop(k)
        del self.keys[bisect_left(self.keys, key)]
        self.held -= self.left[k]

    def sizes(self) -> list[int]:
        """Return the bytes of the files, furthest first."""
        return [self.left[-key[-1]] for key in reversed(self.keys)]
