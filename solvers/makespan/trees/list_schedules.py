"""List schedules of trees that do not look at memory, or only at their leaves: inner nodes go first.

Whenever a processor is idle, a node whose children are finished starts on it.

* *ParInnerFirst*: inner nodes before leaves; of inner nodes the one with the most edges to the root; leaves
  in best post-order. Once a subtree is begun, it is finished before new leaves are begun.
* *ParDeepestFirst*: the node with the longest chain of durations to the end of the root; of equal ones inner
  nodes first, then leaves in best post-order.
* Both *limited*: a leaf starts only if what it holds fits into the memory at that moment, or nothing runs;
  inner nodes start in any case. So they never get stuck, and may still need more than the memory.

As list schedules, those without limit take at most 2 - 1/p times the least makespan without a memory (R. L.
Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied Mathematics 17 (1969)); there
is no constant factor for their memory.

Source: L. Eyraud-Dubois, L. Marchal, O. Sinnen, F. Vivien, "Parallel scheduling of task trees with limited
memory", ACM Transactions on Parallel Computing 2 (2015). Written from a summary; the paper was not at
hand, and its limited variants are for trees whose inner nodes release
memory, with a memory of twice the sequential peak, where theirs has a guarantee. The ties are ours.
"""

from __future__ import annotations

import heapq

from ...trees.task_tree import TaskTree


def inner_first(tree: TaskTree) -> list[tuple[int, ...]]:
    """Return the key of each node in ParInnerFirst; the least one starts first."""
    place = _places(tree)
    return [(0, -tree.level[i], i) if tree.children[i] else (1, place[i]) for i in range(tree.n)]


def deepest_first(tree: TaskTree) -> list[tuple[int, ...]]:
    """Return the key of each node in ParDeepestFirst; the least one starts first."""
    place = _places(tree)
    return [(-tree.depth[i], int(not tree.children[i]), place[i]) for i in range(tree.n)]


def list_schedule(
    tree: TaskTree, processors: int, keys: list[tuple[int, ...]], memory: int | None = None
) -> tuple[int, ...]:
    """Return the start of each node in ns.

    Parameters
    ----------
    keys
        By node, all different: the least one starts first.
    memory
        Bytes in which leaves must fit as they start, unless nothing runs; None: leaves start freely.

    Examples
    --------
    >>> from lowtide.solvers.trees.task_tree import TaskTree
    >>> tree = TaskTree(parent=(2, 2, -1), duration=(1, 1, 1), held=(5, 0, 0), out=(1, 2, 0))
    >>> list_schedule(tree, 2, inner_first(tree)), list_schedule(tree, 2, inner_first(tree), memory=7)
    ((0, 0, 1), (0, 1, 2))
    """
    start = [-1] * tree.n
    waits = [len(below) for below in tree.children]
    inner: list[tuple[tuple[int, ...], int]] = []
    leaves = [(keys[i], i) for i in range(tree.n) if not waits[i]]
    heapq.heapify(leaves)
    running: list[tuple[int, int]] = []
    now = live = 0
    while inner or leaves or running:
        while (inner or leaves) and len(running) < processors:
            fits = bool(leaves) and (
                memory is None or not (running or inner) or live + tree.needed[leaves[0][1]] <= memory
            )
            if not inner and not fits:
                break
            take_leaf = fits and (not inner or leaves[0] < inner[0])
            _, i = heapq.heappop(leaves if take_leaf else inner)
            start[i] = now
            live += tree.held[i] + tree.out[i]
            heapq.heappush(running, (now + tree.duration[i], i))
        now = running[0][0]
        while running and running[0][0] == now:
            _, i = heapq.heappop(running)
            live -= tree.needed[i] - tree.out[i]
            if (above := tree.parent[i]) >= 0:
                waits[above] -= 1
                if not waits[above]:
                    heapq.heappush(inner, (keys[above], above))
    return tuple(start)


def _places(tree: TaskTree) -> list[int]:
    """Return the place of each node in the best post-order."""
    place = [0] * tree.n
    for k, i in enumerate(tree.post_order()):
        place[i] = k
    return place
