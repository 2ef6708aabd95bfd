r"""The method `postorder`: the best order that runs every subtree without interruption.

Of the subtree of a node c, run at once, let :math:`P_c` be the height of the best post-order and :math:`f_c`
its change: with a datum for each edge, the output of c. At a node the children c_1, c_2, ... are taken by
decreasing P - f, and

.. math:: P_i = \max(\max_j (P_{c_j} + \sum_{k<j} f_{c_k}),\; \sum_j f_{c_j} + h_i)

with h_i what the node itself needs above the memory before it. Where inputs vanish with leaves, f may be
negative; such subtrees come first, by increasing P. Both are the sorted order of blocks, and (3) of
`lowtide.solvers.trees.blocks` the proof that it is best among the sequences of
subtrees.

An out-tree is walked from its end, so that its order is a reversed post-order: each subtree is run without
interruption after its root.

Source: J. W. H. Liu, "On the storage requirement in the out-of-core multifrontal method for sparse
factorization", ACM Transactions on Mathematical Software 12 (1986). O(n log n).
"""

from __future__ import annotations

from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ...trees.blocks import TreeBlock, block
from ..search.state_space import StateSpace
from ..series_parallel.additive import op_block
from .walks import tree_space, upwards


def solve_postorder(problem: Peak, context: Context) -> Outcome:
    """Offer the best post-order."""
    space = tree_space(problem.graph, "postorder")
    context.offer(space.order(best_post_order(space)))
    return Outcome()


def best_post_order(space: StateSpace) -> list[int]:
    """Return the best post-order of an in-tree as a walk.

    Examples
    --------
    >>> from lowtide import load
    >>> best_post_order(tree_space(load("catalogue:harpoon"), "postorder"))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    parts: dict[int, list[TreeBlock]] = {}
    children: list[list[int]] = [[] for _ in range(space.n)]
    roots = []
    for v in upwards(space):
        subtrees = sorted(parts.pop(v, []))
        children[v] = [subtree.ops for subtree in subtrees]
        memory = highest = 0
        for subtree in subtrees:
            highest = max(highest, memory + subtree.height)
            memory += subtree.change
        whole = block(
            max(highest, memory + op_block(space, v, space.increase[v]).height), memory + space.increase[v], v
        )
        if space.after[v]:
            parts.setdefault(space.after[v][0], []).append(whole)
        else:
            roots.append(whole)
    walk, stack = [], [subtree.ops for subtree in sorted(roots)]
    while stack:
        v = stack.pop()
        walk.append(v)
        stack += children[v]
    return walk[::-1]
