r"""Trees whose waiting files have other sizes: least peaks, and what they prove about the bytes written.

Data: see `lowtide.formulations.minio.data`. Let only :math:`s_k \in [0, f_k]` bytes of file k be in the
memory while it waits, while each node still needs all of its :math:`c_v` bytes when it runs.
:math:`L_i(s)` is the least peak of the subtree of node i under s: each node is a block of height
:math:`c_v` less the :math:`s` of its children's files, that changes the memory by the :math:`s` of its own
less that, so that Liu's merge of blocks (`lowtide.solvers.trees.blocks`) finds it,
with an order.

**Writing.** It is enough to write :math:`w` iff :math:`L(f - w) \le M` at the root: both say that some order
has, at each node v, :math:`c_v + \sum_k (f_k - w_k) \le M` over the files that wait. So the problem is to
find the fewest bytes w with :math:`L(f - w) \le M`.

**Cuts.** For each node i, each s of the files between nodes of its subtree, and each w that is enough,

.. math:: \sum_k \max(0,\; w_k - (f_k - s_k)) \;\ge\; L_i(s) - M.

*Proof.* Let e be the terms of the sum. Then :math:`s - e = \min(s, f - w)`. :math:`L_i` does not fall if
sizes grow, since no order's memory does, and it grows by no more than all sizes together. So
:math:`L_i(s) - \sum_k e_k \le L_i(s - e) \le L_i(f - w) \le L(f - w) \le M`; the third step holds since the
order of the tree induces one of the subtree.

**Packing.** Cuts whose sizes add up to at most f prove :math:`\sum_k w_k \ge \sum_j (L_{i_j}(s^j) - M)`.

*Proof.* The term of file k is convex in :math:`w_k`, 0 at 0 and :math:`s_k` at :math:`f_k`, so at most
:math:`w_k s_k / f_k`. Over all cuts these are at most :math:`w_k`.

Source: the proofs are this project's own. Jacquelin et al., IPDPS 2011, and Marchal et al., IPDPS workshops
2017, have the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...formulations.minio.data import MinIOData
from ..trees.blocks import Blocks, block, height_of, in_parallel, in_series, ops_of

Sequencer = Callable[[list[int]], None]
"""Puts nodes in the sequence in which their files are made smaller, in place."""


class WaitingTree:
    """Liu's blocks of every subtree of a tree, kept up to date while files change their sizes.

    Parameters
    ----------
    waiting
        By node: the bytes of its files that wait; all of them by default.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 6, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> tree = WaitingTree(data)
    >>> tree.peak(2), tree.order(2)
    (8, [1, 0, 2])
    """

    def __init__(self, data: MinIOData, waiting: Sequence[int] | None = None) -> None:
        self.data = data
        self.waiting = list(data.out if waiting is None else waiting)
        self._blocks: list[Blocks] = []
        for i in range(data.n):
            self._blocks.append(self._merged(i))

    def _merged(self, i: int) -> Blocks:
        below = self.data.children[i]
        inputs = sum(self.waiting[c] for c in below)
        own = block(self.data.need[i] - inputs, self.waiting[i] - inputs, i)
        return in_series(in_parallel([list(self._blocks[c]) for c in below]), [own])

    def peak(self, i: int) -> int:
        """Return the least peak of a subtree in bytes."""
        return height_of(self._blocks[i])

    def order(self, i: int) -> list[int]:
        """Return an order of a subtree with its least peak."""
        return ops_of(self._blocks[i])

    def resize(self, sizes: Mapping[int, int], top: int) -> None:
        """Give files of some nodes of a subtree other sizes; blocks above its `top` stay as they are."""
        changed = set()
        for v, size in sizes.items():
            self.waiting[v] = size
            while v not in changed:
                changed.add(v)
                if v == top:
                    break
                v = self.data.parent[v]
        for v in sorted(changed):
            self._blocks[v] = self._merged(v)

    def refresh(self, i: int) -> None:
        """Make the blocks of a node from those of its children again."""
        self._blocks[i] = self._merged(i)


@dataclass(frozen=True, kw_only=True)
class TreeCut:
    """A cut of the module's page.

    Attributes
    ----------
    waiting
        s, by node; nodes that are left out have 0.
    gain
        :math:`L_i(s) - M` in bytes, above 0.
    """

    waiting: Mapping[int, int]
    gain: int


def below(data: MinIOData, roots: Iterable[int]) -> list[int]:
    """Return the nodes of some subtrees."""
    nodes = list(roots)
    for v in nodes:
        nodes.extend(data.children[v])
    return nodes


def disjoint_cuts(
    tree: WaitingTree,
    i: int,
    memory: int,
    sequencer: Sequencer,
    expired: Callable[[], bool] = lambda: False,
) -> list[TreeCut]:
    """Return cuts of a subtree, and take their sizes from what waits in it until its peak is in the memory.

    Each cut has the whole excess as its gain and sizes none of which can be smaller; once `expired`, there
    are no more, and the last one's sizes may be larger.

    Examples
    --------
    >>> from lowtide.formulations.minio.data import MinIOData
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(8, 8, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> disjoint_cuts(WaitingTree(data), 2, 8, list.sort)
    [TreeCut(waiting={0: 2, 1: 2}, gain=2)]
    """
    cuts: list[TreeCut] = []
    while (gain := tree.peak(i) - memory) > 0 and not expired():
        left = {v: tree.waiting[v] for v in below(tree.data, tree.data.children[i]) if tree.waiting[v]}
        _shrink(tree, i, memory + gain, sequencer, expired)
        used = {v: tree.waiting[v] for v in left if tree.waiting[v]}
        cuts.append(TreeCut(waiting=dict(sorted(used.items())), gain=gain))
        tree.resize({v: size - used.get(v, 0) for v, size in left.items()}, i)
    return cuts


def _shrink(tree: WaitingTree, i: int, peak: int, sequencer: Sequencer, expired: Callable[[], bool]) -> None:
    """Make what waits in a subtree smaller, as long as its least peak is at least so much.

    Whole subtrees are tried first, from the top, so that few single files are left to try.
    """
    children = tree.data.children
    kept: list[int] = []
    stack = list(children[i])
    while stack and not expired():
        v = stack.pop()
        old = {u: tree.waiting[u] for u in below(tree.data, (v,)) if tree.waiting[u]}
        if not old:
            continue
        tree.resize(dict.fromkeys(old, 0), i)
        if tree.peak(i) < peak:
            tree.resize(old, i)
            kept.append(v)
            stack.extend(children[v])
    sequencer(kept)
    for v in kept:
        if expired():
            return
        size = tree.waiting[v]
        if size:
            tree.resize({v: 0}, i)
            while (
                missing := peak - tree.peak(i)
            ) > 0:  # a byte more of the file raises the peak by at most one
                tree.resize({v: min(size, tree.waiting[v] + missing)}, i)
