r"""Orders by expansion: files that `furthest` evicts are made smaller, and Liu's order is taken again.

For each node r, children first, while the least peak of its subtree exceeds the memory:

1. take Liu's order of the subtree, and what `furthest` evicts in it;
2. of the files that it evicts take the one whose reader runs last, and from now on let so many bytes less
   of it wait.

The published trees say 2 by *expanding* the file's node into three in a row: one that makes the file, one
that keeps what is not evicted, one that has it whole again before the reader. The last one fits wherever
the reader does, which needs the whole file too; so the expanded tree has the peak of the tree whose file
waits with fewer bytes (`lowtide.solvers.minio.waiting`), and the nodes are not made.

Since :math:`L(f - w) \le M` in the end, the last order writes at most what all expansions took (divisible
files). `FullRecExpand` expands as long as needed, and ends: each time a file loses a byte. `RecExpand`
expands at most twice for each node, which may leave an excess; `furthest` then evicts more.

Source: L. Marchal, S. McCauley, B. Simon, F. Vivien, "Minimizing I/Os in out-of-core task tree scheduling",
Inria research report 9025 and IPDPS workshops, 2017, whose text was not at hand: rebuilt from its outline.
Where a node needs more than its inputs and output together, and for whole files, which `furthest` evicts
whole, the expansion is carried over by us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...formulations.minio.data import MinIOData
from .evictions import evict
from .waiting import WaitingTree

FEW = 2
"""Expansions for each node in `RecExpand`."""


def expanded_order(
    data: MinIOData,
    *,
    most: int | None = None,
    sizes: Sequence[int] | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> tuple[int, ...]:
    """Return the order of the expanded tree.

    Parameters
    ----------
    data
        No node alone exceeds the memory.
    most
        Expansions for each node; None for as many as it takes.
    sizes
        Of the files to begin with, in bytes; all of them by default.
    expired
        Whether to expand no more.

    Examples
    --------
    >>> from lowtide import MinIO, load
    >>> from lowtide.solvers.minio.rules import tree_data
    >>> from lowtide.solvers.minio.evictions import evict
    >>> data = tree_data(MinIO(load("gen:intree?n=100&arity=2&largest=100&seed=1"), memory=230), "test")
    >>> sum(e.nbytes for e in evict(data, expanded_order(data)).evictions)
    195
    """
    left = list(data.size if sizes is None else sizes)
    waiting = [sum(left[k] for k in some) for some in data.files_of]
    tree = WaitingTree(data, waiting)
    file = {t: k for k, t in enumerate(data.tensor)}
    for r in range(data.n):
        tree.refresh(r)
        count = 0
        while tree.peak(r) > data.memory and count != most and not expired():
            count += 1
            order = tree.order(r)
            place = {v: step for step, v in enumerate(order)}
            evicted: dict[int, int] = {}
            for eviction in evict(data, order, sizes=left).evictions:
                k = file[eviction.tensor]
                evicted[k] = evicted.get(k, 0) + eviction.nbytes
            last = max(evicted, key=lambda k: (place[data.user[k]], -k))
            left[last] -= evicted[last]
            node = data.maker[last]
            tree.resize({node: tree.waiting[node] - evicted[last]}, r)
    return tuple(tree.order(data.n - 1))
