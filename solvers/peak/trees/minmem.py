r"""The method `minmem`: an out-tree is explored under a memory that grows to the least that suffices.

An in-tree is explored from its root and the order reversed. Exploring node i takes its file f_i away and
puts the files of its children there; it needs :math:`c_i = \sum_j f_j + h_i` with children j (:math:`h_i` the
height of op i in the walk that runs the in-tree). The *cut* of i is the set of files there are after some
nodes of its subtree have been explored, its weight W their sum.

*Explore(i, M)* explores what can be in the subtree of i with a memory of M, as long as this lightens cuts:

1. If i is new: explore it; its cut is its children, each with the *peak* :math:`c_j`.
2. While some j of the cut has peak_j <= M - (W - f_j): Explore(j, M - (W - f_j)). If the weight of the cut of
   j is at most f_j now, that cut takes the place of j, and what was explored is appended. Else j stays,
   with a new peak; its own cut is kept for the next time.
3. The peak of i, with which it could go on, is the least peak_j + W - f_j over its cut.

The tree is explored with M the largest c, then with the peak of the root, until its cut is empty; the last M
is the least memory.

Files are changes of whole subtrees, which must not be negative: the method refuses trees whose leaves take
more inputs away than they leave. Candidates of 2 come from a heap with key peak_j - f_j, since the test is
key <= M - W; the cut of j joins that of i as heaps do, the smaller into the larger. The paper looks at all
candidates again, in O(n^2) time.

Source: M. Jacquelin, L. Marchal, Y. Robert, B. Uçar, "On optimal tree traversals for sparse matrix
factorization", IPDPS 2011, algorithms Explore and MinMem; written from a summary of them.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from ....models.errors import UsageError
from ....models.graph import Graph
from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ...trees.blocks import Rope, flattened
from ..search.state_space import StateSpace
from ..series_parallel.additive import op_block
from ..series_parallel.dominant import conclude
from .walks import tree_space, upwards

METHOD = "minmem"


def solve_minmem(problem: Peak, context: Context) -> Outcome:
    """Offer MinMem's order, whose peak bounds that of every order."""
    space = tree_space(problem.graph, METHOD)
    exploration = Exploration(space, files(problem.graph, space))
    exploration.finish()
    conclude(problem, context, space.order(exploration.walk()))
    return Outcome()


def files(graph: Graph, space: StateSpace) -> list[int]:
    """Return the change of each op's subtree in bytes.

    Raises
    ------
    UsageError
        If one is negative.
    """
    found = list(space.increase)
    for v in upwards(space):
        if found[v] < 0:
            raise UsageError(
                f"method {METHOD}, graph {graph.name!r}, op {v} {graph.ops[v].name!r}: found a subtree that "
                f"lowers the memory by {-found[v]} bytes, expected none (liu takes such trees)"
            )
        for parent in space.after[v]:
            found[parent] += found[v]
    return found


class Exploration:
    """The state of the exploration; lists are by op, their last entry for a root above all roots.

    Attributes
    ----------
    file, cost
        f and c.
    cut
        Heaps of (peak_j - f_j, j).
    weight
        W; None for nodes that are new.
    explored
        What was explored of each node's subtree, in that order.
    """

    def __init__(self, space: StateSpace, file: list[int]) -> None:
        n = space.n
        self.file = [*file, 0]
        self.children: list[list[int]] = [[] for _ in range(n + 1)]
        for v in upwards(space):
            self.children[space.after[v][0] if space.after[v] else n].append(v)
        own = [*(op_block(space, v, space.increase[v]).height for v in range(n)), 0]
        self.cost = [
            h + sum(self.file[j] for j in below) for h, below in zip(own, self.children, strict=True)
        ]
        self.cut: list[list[tuple[int, int]]] = [[] for _ in range(n + 1)]
        self.weight: list[int | None] = [None] * (n + 1)
        self.explored: list[Rope] = list(range(n + 1))

    def finish(self) -> int:
        """Explore the whole tree; return the least memory in bytes, above that before the walk."""
        root = len(self.cost) - 1
        memory: int | None = max(self.cost)
        while memory is not None:
            used, memory = memory, self._explore(root, memory)
        return used

    def walk(self) -> list[int]:
        """Return the explored ops from the last to the first: a walk of the in-tree."""
        return flattened([self.explored[-1]])[:0:-1]

    def _explore(self, root: int, memory: int) -> int | None:
        """Explore (1 to 3); return the peak of the root, None if all is explored."""
        stack = [(root, memory)]
        while True:
            i, memory = stack[-1]
            weight, cut = self.weight[i], self.cut[i]
            if weight is None:
                weight = self.weight[i] = sum(self.file[j] for j in self.children[i])
                cut += [(self.cost[j] - self.file[j], j) for j in self.children[i]]
                heapify(cut)
            if cut and cut[0][0] <= memory - weight:
                _, j = heappop(cut)
                stack.append((j, memory - weight + self.file[j]))
                continue
            stack.pop()
            peak = cut[0][0] + weight if cut else None
            if not stack:
                return peak
            self._close(stack[-1][0], i, weight, peak)

    def _close(self, parent: int, j: int, weight: int, peak: int | None) -> None:
        """Put the cut of j, or j itself, into the cut it was taken from."""
        if peak is not None and weight > self.file[j]:
            heappush(self.cut[parent], (peak - self.file[j], j))
            return
        above = self.weight[parent]
        assert above is not None
        self.weight[parent] = above + weight - self.file[j]
        self.explored[parent] = (self.explored[parent], self.explored[j])
        larger, smaller = self.cut[parent], self.cut[j]
        if len(larger) < len(smaller):
            larger, smaller = smaller, larger
        for entry in smaller:
            heappush(larger, entry)
        self.cut[parent], self.cut[j] = larger, []
