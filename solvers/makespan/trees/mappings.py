r"""Mappings of subtrees to processors: all-to-all, proportional, and memory-aware.

A node that is mapped on q processors has its children in *batches*, one batch after another; a batch consists
of *groups* side by side, each with processors of its own; in a group subtrees run one after another, each
mapped on all processors of the group; then the node runs. On one processor a subtree runs in best
post-order. In the papers the node is then parallel itself, on all q processors. Tasks are sequential here:
it runs on one of them, the others stay idle, and with all-to-all only one processor ever works.

* *All-to-all*: every node is mapped on all processors, so each child is a batch of its own, in best
  post-order. The memory is that of the sequential post-order.
* *Proportional*: one batch. Children share q in proportion to their work W, rounded down; those with the
  largest remainders have one processor more, until all are given away. Children left without, the heaviest
  first, join the group with the least work for each of its processors.
* *Memory-aware*: a node has a budget of bytes. The children, in best post-order, form batches: each is
  the longest run of those left whose proportional groups fit together. A group needs

  .. math:: \max_k (P_{c_k} + \sum_{j<k} f_{c_j});

  the groups of a batch fit if their needs together are within the budget less the outputs of the
  batches before. What is left of the budget is given to the groups in proportion to their processors; in
  a group each child has its budget less the outputs of those before it.

*The memory-aware mapping keeps within a memory of at least the peak P of the best post-order.* By induction a
node with a budget of at least its P keeps to it: what the batches before leave is the sum of their outputs,
as in the best post-order, so that the next child alone always fits; each child's budget is at least its
own P; and the node itself needs at most P.

Sources: proportional mapping: A. Pothen, C. Sun, "A mapping algorithm for parallel sparse Cholesky
factorization", SIAM Journal on Scientific Computing 14 (1993). Memory-aware: E. Agullo, P. R. Amestoy, A.
Buttari, A. Guermouche, J.-Y. L'Excellent, F.-H. Rouet, "Robust memory-aware mappings for parallel
multifrontal factorizations", SIAM Journal on Scientific Computing 38 (2016). Written from
summaries, the papers were not at hand; how batches are cut and what is left is shared is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...trees.task_tree import TaskTree

Groups = list[tuple[tuple[int, ...], int]]
"""Children that run one after another, and on how many processors; groups run side by side."""

Batches = list[Groups]


def mapped_schedule(tree: TaskTree, processors: int, batches_of: BatchesOf) -> tuple[int, ...]:
    """Return the start of each node in ns.

    Parameters
    ----------
    batches_of
        Returns the batches of a node that is mapped on several processors.
    """
    mapped: dict[int, Batches] = {}
    preorder, stack = [], [(tree.root, processors)]
    while stack:
        i, q = stack.pop()
        preorder.append(i)
        if q > 1:
            mapped[i] = batches_of(i, q)
            stack.extend((c, share) for groups in mapped[i] for group, share in groups for c in group)
    span = dict[int, int]()
    for i in reversed(preorder):
        if i in mapped:
            span[i] = tree.duration[i] + sum(
                max(sum(span[c] for c in group) for group, _ in groups) for groups in mapped[i]
            )
        else:
            span[i] = tree.work[i]
    start = [0] * tree.n
    begin = {tree.root: 0}
    for i in preorder:
        now = begin[i]
        if i not in mapped:
            for node in tree.subtree(i):
                start[node] = now
                now += tree.duration[node]
            continue
        for groups in mapped[i]:
            ends = []
            for group, _ in groups:
                at = now
                for c in group:
                    begin[c] = at
                    at += span[c]
                ends.append(at)
            now = max(ends)
        start[i] = now
    return tuple(start)


BatchesOf = Callable[[int, int], Batches]


def all_to_all(tree: TaskTree) -> BatchesOf:
    """Return the batches of a node: each child by itself, on all processors."""
    return lambda i, q: [[((c,), q)] for c in tree.by_liu[i]]


def proportional(tree: TaskTree) -> BatchesOf:
    """Return the batches of a node: all children in one, by proportional shares."""
    return lambda i, q: [groups] if (groups := shares(tree, tree.children[i], q)) else []


def memory_aware(tree: TaskTree, memory: int) -> BatchesOf:
    """Return the batches of a node within its budget; the root's is `memory`, at least its P.

    The function that comes back must be asked about each node before its children.
    """
    budget = {tree.root: memory}

    def batches_of(i: int, q: int) -> Batches:
        left, residue = list(tree.by_liu[i]), 0
        batches: Batches = []
        while left:
            room = budget[i] - residue
            count, groups = 1, shares(tree, left[:1], q)
            while count < len(left):
                more = shares(tree, left[: count + 1], q)
                if sum(_need(tree, group) for group, _ in more) > room:
                    break
                count, groups = count + 1, more
            spare = room - sum(_need(tree, group) for group, _ in groups)
            for group, share in groups:
                own = _need(tree, group) + spare * share // q
                for c in group:
                    budget[c] = own
                    own -= tree.out[c]
            batches.append(groups)
            residue += sum(tree.out[c] for c in left[:count])
            del left[:count]
        return batches

    return batches_of


def shares(tree: TaskTree, children: Sequence[int], processors: int) -> Groups:
    """Return the groups of proportional shares; the children of a group keep their sequence.

    Examples
    --------
    >>> from lowtide.solvers.trees.task_tree import TaskTree
    >>> tree = TaskTree(parent=(3, 3, 3, -1), duration=(30, 45, 2, 1), held=(0,) * 4, out=(1,) * 4)
    >>> shares(tree, (0, 1, 2), 4), shares(tree, (0, 1, 2), 2)
    ([((0, 2), 2), ((1,), 2)], [((0, 2), 1), ((1,), 1)])
    """
    total = sum(tree.work[c] for c in children)
    given = {c: processors * tree.work[c] // total for c in children}
    by_remainder = sorted(children, key=lambda c: (-(processors * tree.work[c] % total), c))
    for c in by_remainder[: processors - sum(given.values())]:
        given[c] += 1
    members = {c: [c] for c in children if given[c]}
    load = {c: tree.work[c] for c in members}
    for c in sorted((c for c in children if not given[c]), key=lambda c: (-tree.work[c], c)):
        least = min(members, key=lambda k: (load[k] / given[k], k))
        members[least].append(c)
        load[least] += tree.work[c]
    place = {c: k for k, c in enumerate(children)}
    return [(tuple(sorted(group, key=place.__getitem__)), given[k]) for k, group in members.items()]


def _need(tree: TaskTree, group: Sequence[int]) -> int:
    most = residue = 0
    for c in group:
        most = max(most, residue + tree.peak[c])
        residue += tree.out[c]
    return most
