r"""A task tree reduced to some of its nodes: a relaxation, whose schedules are those of the rest left out.

Data: the tree of `task_tree` (w, n, f, and the bytes needed :math:`m_i = n_i + f_i + \sum_c f_c`), and a set
K of nodes, the root among them. The *reduced tree* has the nodes K. Each keeps its duration and all its bytes
:math:`m_i` while it runs, and holds :math:`x_i \le f_i` bytes from its start to the end of its parent in the
reduced tree, which is its nearest ancestor in K. The x come from taking nodes away one by one, with
:math:`x = f` at first, and 0 for the root, whose output is part of its :math:`m` alone. With node v its
children pass to its parent, and what they hold is cut to

.. math:: \sum_{c} x_c \le x_v ,

by filling :math:`x_v` with the children of most bytes first.

*Relaxation.* Take a schedule of the tree within the memory M, and leave out all nodes but K. At each instant
no more is live in what is left than was:

* While a node i of K runs, :math:`m_i` counts, as it did: its own output and those of its children in the
  whole tree. What its children in the reduced tree hold is part of it, since those that passed to i in place
  of a child c hold :math:`f_c` together at most.
* Any other node u of K that has ended counts :math:`x_u` while its parent q in the reduced tree has not
  started. Let y be the last node on the path from u to q, without q, that has started. What follows y has
  not, so the output of y is live, and it is none of those above. All u with the same y lie in its subtree,
  and have passed to the parent of y, if y is not u itself: they hold :math:`f_y` together at most.

Precedence is kept through nodes that are left out. So no schedule of the whole is faster than the fastest of
the reduced tree. If the nodes of :math:`K \setminus K'` are taken away after all others, the tree of
:math:`K' \subset K` is a reduction of that of K in the same way.

Nodes of few bytes times duration go first.

Source: the suite's own; leaving out activities is a common relaxation in project scheduling. That of an
output and what it is made from the smaller one is live all the time is the idea of valleys in J. W. H. Liu,
"An application of generalized tree pebbling to sparse matrix factorization", SIAM Journal on Algebraic and
Discrete Methods 8 (1987).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...trees.task_tree import TaskTree
from ..labels.shape import Shape


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A reduced tree.

    Attributes
    ----------
    kept
        The nodes K, ascending; the places in it number the nodes of the reduced tree.
    parent
        By place: the parent's; -1 for the root.
    held
        x by place, in bytes.
    """

    kept: tuple[int, ...]
    parent: tuple[int, ...]
    held: tuple[int, ...]


def lightest_first(tree: TaskTree) -> list[int]:
    """Return the nodes but the root by rising bytes times duration."""
    return sorted(range(tree.root), key=lambda i: (tree.needed[i] * tree.duration[i], i))


def reduced(tree: TaskTree, away: Sequence[int]) -> Reduced:
    """Return the tree without some nodes, taken away in this sequence.

    Examples
    --------
    >>> from lowtide.solvers.trees.task_tree import TaskTree
    >>> tree = TaskTree(parent=(2, 2, 3, -1), duration=(1,) * 4, held=(0,) * 4, out=(5, 4, 6, 1))
    >>> reduced(tree, [2])
    Reduced(kept=(0, 1, 3), parent=(2, 2, -1), held=(5, 1, 0))
    """
    parent, held = list(tree.parent), [*tree.out[:-1], 0]
    children: list[set[int]] = [set() for _ in range(tree.n)]
    for i, above in enumerate(parent[:-1]):
        children[above].add(i)
    for v in away:
        room, above = held[v], parent[v]
        for c in sorted(children[v], key=lambda c: (-held[c], c)):
            parent[c], held[c] = above, min(held[c], room)
            room -= held[c]
        children[above].remove(v)
        children[above] |= children[v]
    gone = set(away)
    kept = tuple(i for i in range(tree.n) if i not in gone)
    place = {v: k for k, v in enumerate(kept)} | {-1: -1}
    return Reduced(kept=kept, parent=tuple(place[parent[v]] for v in kept), held=tuple(held[v] for v in kept))


def both_shapes(
    tree: TaskTree, some: Reduced, processors: int, memory: int, tick: int
) -> tuple[Shape, Shape]:
    """Return the arrays of the reduced tree, and those of it with the time reversed.

    Heads and tails are those of the reduced tree: labels start ops as soon as they can there, and one may
    dominate another whose running op ends sooner, which would break those of the whole tree. With the time
    reversed, a node comes after its parent, and its output is live from the start of the parent to its own
    end: the same intervals.

    Parameters
    ----------
    tree, some
        The whole and the reduced tree.
    processors, memory
        Of the machine, in bytes.
    tick
        Nanoseconds that divide all durations.
    """
    n = len(some.kept)
    children: list[list[int]] = [[] for _ in range(n)]
    for c, above in enumerate(some.parent[:-1]):
        children[above].append(c)
    duration = [tree.duration[v] // tick for v in some.kept]
    head, tail = [0] * n, [0] * n
    for c, above in enumerate(some.parent[:-1]):
        head[above] = max(head[above], head[c] + duration[c])
    for c in range(n - 2, -1, -1):
        tail[c] = tail[some.parent[c]] + duration[some.parent[c]]
    taken = [sum(some.held[c] for c in row) for row in children]
    own = [tree.needed[v] - some.held[k] - taken[k] for k, v in enumerate(some.kept)]

    def shape(
        before: list[int],
        tail: list[int],
        made: Sequence[int],
        freed: Sequence[int],
        children: Sequence[Sequence[int]],
    ) -> Shape:
        def integers(values: object) -> np.ndarray:
            return np.array(values, dtype=np.int64)

        return Shape(
            numbers=integers([processors, memory, 0]),
            duration=integers(duration),
            tail=integers(tail),
            before=integers(before),
            alloc=integers([a + b for a, b in zip(own, made, strict=True)]),
            workspace=integers(own),
            born_at=integers([0] * (n + 1)),
            born_first=integers([]),
            born_bytes=integers([]),
            life_at=integers(range(n + 1)),
            life_last=integers([1 << i for i in range(n)]),
            life_bytes=integers(freed),
            by_tail=integers(sorted(range(n), key=lambda i: (-tail[i], i))),
            child_at=integers([0, *np.cumsum([len(row) for row in children])] if children else []),
            child=integers([c for row in children for c in row]),
        )

    before = [sum(1 << c for c in row) for row in children]
    forward = shape(before, tail, some.held, taken, [*children, [n - 1]])
    backward = shape([1 << a if a >= 0 else 0 for a in some.parent], head, taken, some.held, [])
    return forward, backward
