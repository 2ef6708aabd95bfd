r"""Bounds on the bytes written, whatever the order.

Let :math:`L_i` be the least peak of the subtree of node i (Liu), M the memory. Every traversal writes at
least :math:`B_i` bytes of the files between nodes of that subtree, where

.. math:: B_i = \max\bigl(L_i - M,\; \sum_{c \text{ child of } i} B_c\bigr).

*Proof.* Take from a traversal of the tree only the nodes of the subtree and the files between them; the rest
only took memory. Without I/O their order needs at least :math:`L_i` at some node; with it at most M, so at
least :math:`L_i - M` bytes of files that wait there are in the storage, and have been written. The files
between nodes of the subtrees of two children are different ones, so their bytes add up.

*Packed.* That is a packing of cuts (`waiting`) in which s is f on some disjoint subtrees, 0 elsewhere. In
general, node by node, children first: the cuts of the children's subtrees leave sizes r of the files; while
:math:`L_i(r) > M` a cut with the excess as its gain takes the least it can from r. If :math:`L_i - M` is
more than all of these gains, they are given up, and the node begins with r = f. When the time is up, nodes
that are left take the maximum above over the bounds that their children have.

*Whole files.* The bytes written of a subtree are the sum of the sizes of some of its files; the bound of the
whole tree is rounded up to the next sum of sizes, and to the next multiple of their common divisor where the
sums are too many.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import gcd

from ...formulations.minio.data import MinIOData
from ...models.graph import Graph
from ..peak.series_parallel.additive import op_block
from ..peak.trees.walks import tree_space
from ..trees.blocks import Blocks, height_of, in_parallel, in_series
from .waiting import TreeCut, WaitingTree, below, disjoint_cuts

SLICE = 64
"""Nodes between two looks at the clock: a node takes microseconds."""

LARGEST_SUM = 10**6
"""Units of the sum of all sizes, up to which sums are enumerated."""


def subtree_bounds(
    graph: Graph, data: MinIOData, *, expired: Callable[[], bool] = lambda: False
) -> list[int]:
    """Return B of each node, in bytes, at least 0; once `expired`, the sum of those below it.

    Examples
    --------
    >>> from lowtide import MinIO, load
    >>> from lowtide.solvers.minio.rules import tree_data
    >>> problem = MinIO(load("catalogue:harpoon"), memory=13)
    >>> subtree_bounds(problem.graph, tree_data(problem, "furthest"))[-1]
    2
    """
    space = tree_space(graph, "minio")
    parts: dict[int, list[Blocks]] = {}
    bounds = [0] * data.n
    stopped = False
    for i in range(data.n):
        above = data.parent[i]
        stopped = stopped or (not i % SLICE and expired())
        if stopped:
            if above >= 0:
                bounds[above] += bounds[i]
            continue
        whole = in_series(in_parallel(parts.pop(i, [])), [op_block(space, i, space.increase[i])])
        bounds[i] = max(bounds[i], height_of(whole) - data.memory)
        if above >= 0:
            bounds[above] += bounds[i]
            parts.setdefault(above, []).append(whole)
    return bounds


def packed_cuts(
    data: MinIOData, *, expired: Callable[[], bool] = lambda: False
) -> tuple[list[int], list[TreeCut]]:
    """Return the bound of each node by packed cuts, in bytes, and the cuts of the last one, the root.

    Once `expired`, nodes have bounds without cuts, or with fewer.

    Examples
    --------
    >>> from lowtide import MinIO, load
    >>> from lowtide.solvers.minio.rules import tree_data
    >>> problem = MinIO(load("gen:intree?n=100&arity=2&largest=100&seed=1"), memory=230)
    >>> data = tree_data(problem, "furthest")
    >>> subtree_bounds(problem.graph, data)[-1], packed_cuts(data)[0][-1]
    (82, 131)
    """
    memory = data.memory // data.unit * data.unit
    full, rest = WaitingTree(data), WaitingTree(data)
    bounds: list[int] = []
    cuts: list[list[TreeCut]] = []

    def largest_first(nodes: list[int]) -> None:
        nodes.sort(key=lambda v: (-rest.waiting[v], v))

    for i, children in enumerate(data.children):
        own: list[TreeCut] = []
        below_it, alone = sum(bounds[c] for c in children), full.peak(i) - memory
        if not expired():
            rest.refresh(i)
            own = [cut for c in children for cut in cuts[c]]
            own += disjoint_cuts(rest, i, memory, largest_first, expired)
            if alone > sum(cut.gain for cut in own):
                rest.resize({v: data.out[v] for v in below(data, children)}, i)
                own = disjoint_cuts(rest, i, memory, largest_first, expired)
        cuts.append(own)
        bounds.append(max(sum(cut.gain for cut in own), below_it, alone))
    return bounds, cuts[-1]


def least_sum(sizes: tuple[int, ...], least: int) -> int:
    """Return the smallest sum of some of the sizes that is at least so much, or a bound on it.

    Examples
    --------
    >>> least_sum((6, 9, 20), 10), least_sum((6, 9, 20), 16)
    (15, 20)
    """
    if least <= 0:
        return 0
    unit = reduce(gcd, sizes)
    if sum(sizes) // unit > LARGEST_SUM:
        return -(-least // unit) * unit
    sums = 1
    for size in sizes:
        sums |= sums << size // unit
    above = sums >> -(-least // unit)
    return unit * (-(-least // unit) + (above & -above).bit_length() - 1)
