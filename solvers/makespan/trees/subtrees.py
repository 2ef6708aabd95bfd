r"""ParSubtrees: some subtrees side by side, each sequential on its processor, then the rest on one processor.

1. *Split.* A queue holds disjoint subtrees by falling work W (durations together), at first the whole tree.
   Again and again the heaviest one is replaced by its children, and its root goes to the sequential part;
   this ends when the heaviest one is a leaf. With the queue :math:`W_1 \ge W_2 \ge \dots` a split costs
   :math:`W_1 + \sum_{k > p} W_k + \sum w`, the last sum over the sequential part. The first one of least
   cost is taken.
2. The p heaviest subtrees run side by side, each in best post-order.
3. All other nodes then run one after another, in best post-order of what is left.

*Balanced* (the paper calls it an optimization): all subtrees of the queue run in step 2, from the heaviest to
the lightest, each on the processor that is free first.

Each subtree in step 2 holds at most its peak P, at most that of the tree, so step 2 needs at most p times the
peak of the best post-order, if not balanced.

Source: Eyraud-Dubois, Marchal, Sinnen and Vivien (2015), see `list_schedules`; written from a summary,
the paper was not at hand. Ties in the queue: the smaller index first.
"""

from __future__ import annotations

import heapq
from bisect import insort
from itertools import islice

from ...trees.task_tree import TaskTree


def split(tree: TaskTree, processors: int) -> tuple[int, ...]:
    """Return the roots of the subtrees of the cheapest split, the heaviest first.

    Examples
    --------
    >>> from lowtide.solvers.trees.task_tree import TaskTree
    >>> tree = TaskTree(parent=(2, 2, -1), duration=(3, 4, 1), held=(0,) * 3, out=(1,) * 3)
    >>> split(tree, 1), split(tree, 2)
    ((2,), (1, 0))
    """
    queue = [(tree.work[tree.root], -tree.root)]  # ascending: the heaviest is the last one
    parts: list[int] = []
    best = tree.work[tree.root]
    best_step = 0
    while tree.children[i := -queue[-1][1]]:
        queue.pop()
        parts.append(i)
        for c in tree.children[i]:
            insort(queue, (tree.work[c], -c))
        side_by_side = sum(work for work, _ in queue[-processors:])
        cost = queue[-1][0] + tree.work[tree.root] - side_by_side
        if cost < best:
            best, best_step = cost, len(parts)
    cut = set(parts[:best_step])
    roots = [c for i in cut for c in tree.children[i] if c not in cut] or [tree.root]
    return tuple(sorted(roots, key=lambda i: (-tree.work[i], i)))


def subtrees_schedule(tree: TaskTree, processors: int, *, balanced: bool = False) -> tuple[int, ...]:
    """Return the start of each node in ns.

    Examples
    --------
    >>> from lowtide.solvers.trees.task_tree import TaskTree
    >>> tree = TaskTree(parent=(3, 3, 3, -1), duration=(3, 4, 2, 1), held=(0,) * 4, out=(1,) * 4)
    >>> subtrees_schedule(tree, 2), subtrees_schedule(tree, 2, balanced=True)
    ((0, 0, 4, 6), (0, 0, 3, 5))
    """
    start = [0] * tree.n
    roots = split(tree, processors)
    idle = [0] * processors
    for i in roots if balanced else islice(roots, processors):
        now = heapq.heappop(idle)
        for node in tree.subtree(i):
            start[node] = now
            now += tree.duration[node]
        heapq.heappush(idle, now)
    now = max(idle)
    for node in tree.post_order(roots if balanced else roots[:processors]):
        start[node] = now
        now += tree.duration[node]
    return tuple(start)
