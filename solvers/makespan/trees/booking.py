r"""MemBooking: nodes are activated in a sequential order that fits, and book what they will need.

The *activation order* is a topological order with a sequential peak within the memory M. A node needs
:math:`need_i = n_i + f_i + \sum_c f_c`. ``booked[i]`` bytes are booked by node i, ``below[i]`` by the nodes
of its subtree together, ``total`` by all.

*Activate* the next node i of the activation order, as long as that goes:
:math:`miss = \max(0, need_i - \sum_c below_c)` more bytes must be booked, so :math:`total + miss \le M`. What
finished children still hold passes to i.

*Finish* node j; it holds at least :math:`need_j`. If its parent is not active, j keeps :math:`f_j` and the
rest is released. Else :math:`f_j` passes to the parent, and what is left over goes up along the active
ancestors: each takes what its subtree still lacks of its need. The rest is released.

*Start* active nodes whose children are finished, by priority, on idle processors.

Source: G. Aupy, C. Brasseur, L. Marchal, "Dynamic memory-aware task-tree scheduling", IPDPS 2017. Written
from a summary; the paper was not at hand. Its
guarantee, that it never gets stuck within the memory of the activation order, is checked at every step.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ...trees.task_tree import TaskTree


def booking_schedule(
    tree: TaskTree, processors: int, memory: int, activation: Sequence[int], keys: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the start of each node in ns.

    Parameters
    ----------
    memory
        M in bytes.
    activation
        A topological order with a sequential peak of at most M.
    keys
        By node, all different: of nodes that can start, the one of the least key does.

    Raises
    ------
    RuntimeError
        If it got stuck, or a node does not hold what it needs: a defect.

    Examples
    --------
    >>> from lowtide.solvers.trees.task_tree import TaskTree
    >>> tree = TaskTree(parent=(2, 2, -1), duration=(1, 1, 1), held=(5, 0, 0), out=(1, 2, 0))
    >>> for memory in (8, 7):
    ...     booking_schedule(tree, 2, memory, (0, 1, 2), [(0,), (1,), (2,)])
    (0, 0, 1)
    (0, 1, 2)
    """
    parent, children, out, needed = tree.parent, tree.children, tree.out, tree.needed
    booked, below = [0] * tree.n, [0] * tree.n
    active, finished = [False] * tree.n, [False] * tree.n
    waits = [len(some) for some in children]
    start = [-1] * tree.n
    ready: list[tuple[tuple[int, ...], int]] = []
    running: list[tuple[int, int]] = []
    total = now = activated = 0

    def finish(j: int) -> int:
        """Return how many bytes are released."""
        if booked[j] < needed[j]:
            raise RuntimeError(f"MemBooking, node {j}: {booked[j]} bytes are booked, {needed[j]} are needed")
        free, above = booked[j], parent[j]
        finished[j] = True
        if above < 0:
            booked[j] = below[j] = 0
            return free
        waits[above] -= 1
        if not active[above]:
            booked[j] = below[j] = out[j]
            return free - out[j]
        booked[j] = below[j] = 0
        booked[above] += out[j]
        free -= out[j]
        while above >= 0 and active[above] and free:
            below[above] -= free
            taken = min(free, max(0, needed[above] - below[above]))
            booked[above] += taken
            below[above] += taken
            free -= taken
            above = parent[above]
        return free

    while activated < tree.n or ready or running:
        while activated < tree.n:
            i = activation[activated]
            there = sum(below[c] for c in children[i])
            miss = max(0, needed[i] - there)
            if total + miss > memory:
                break
            total += miss
            booked[i], below[i] = miss, miss + there
            for c in children[i]:
                if finished[c]:
                    booked[i] += booked[c]
                    booked[c] = below[c] = 0
            active[i] = True
            activated += 1
            if not waits[i]:
                heapq.heappush(ready, (keys[i], i))
        while ready and len(running) < processors:
            _, i = heapq.heappop(ready)
            start[i] = now
            heapq.heappush(running, (now + tree.duration[i], i))
        if not running:
            raise RuntimeError(f"MemBooking got stuck with {activated} of {tree.n} nodes activated")
        now = running[0][0]
        while running and running[0][0] == now:
            _, j = heapq.heappop(running)
            total -= finish(j)
            above = parent[j]
            if above >= 0 and active[above] and not waits[above]:
                heapq.heappush(ready, (keys[above], above))
    return tuple(start)
