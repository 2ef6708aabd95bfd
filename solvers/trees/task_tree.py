r"""In-trees of tasks: the model of the published schedules of trees.

Node i runs for :math:`w_i`, holds :math:`n_i` bytes while it runs and passes :math:`f_i` bytes to its
parent, which holds them to the end of its own run. So while i runs, its children's outputs, :math:`n_i`
and :math:`f_i` are live; a finished node's output stays to the end of its parent. That is the accounting
``coexist`` with one datum per edge.

A graph is such a tree if its precedence is one (each op but the root precedes exactly one op directly), no
tensor is initial, each one with bytes has one writer and at most one reader, which is the parent, and only
the root writes final ones. What an op writes and nobody reads belongs to :math:`n_i`, unless it is final.

Liu's *best post-order* runs subtrees one after another and takes the children of each node by falling
:math:`P_c - f_c`, where the peak of a subtree is

.. math:: P_i = \max(\max_j (P_{c_j} + \sum_{k<j} f_{c_k}),\; \sum_j f_{c_j} + n_i + f_i).

Source: J. W. H. Liu, "On the storage requirement in the out-of-core multifrontal method for sparse
factorization", ACM Transactions on Mathematical Software 12 (1986).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.graph import Accounting

if TYPE_CHECKING:
    from ...models.graph import Graph
    from ...models.problems.makespan import Makespan
    from ...models.problems.minio import MinIO


@dataclass(frozen=True, kw_only=True)
class TaskTree:
    """The tree of the module's page; children have smaller indices than their parent, the root the largest.

    Attributes
    ----------
    parent
        By node; -1 for the root.
    duration
        w, in ns.
    held, out
        n and f, in bytes.
    """

    parent: tuple[int, ...]
    duration: tuple[int, ...]
    held: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of nodes."""
        return len(self.parent)

    @property
    def root(self) -> int:
        """The node without parent."""
        return self.n - 1

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """By node, ascending."""
        found: list[list[int]] = [[] for _ in self.parent]
        for i, above in enumerate(self.parent[:-1]):
            found[above].append(i)
        return tuple(map(tuple, found))

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Bytes live in a node's subtree while the node runs."""
        return tuple(
            sum(self.out[c] for c in below) + self.held[i] + self.out[i]
            for i, below in enumerate(self.children)
        )

    @cached_property
    def work(self) -> tuple[int, ...]:
        """By node: the durations of its subtree together."""
        total = list(self.duration)
        for i, above in enumerate(self.parent[:-1]):
            total[above] += total[i]
        return tuple(total)

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """By node: the durations from its start to the end of the root, itself included."""
        length = list(self.duration)
        for i in range(self.n - 2, -1, -1):
            length[i] += length[self.parent[i]]
        return tuple(length)

    @cached_property
    def level(self) -> tuple[int, ...]:
        """By node: edges to the root."""
        edges = [0] * self.n
        for i in range(self.n - 2, -1, -1):
            edges[i] = edges[self.parent[i]] + 1
        return tuple(edges)

    @cached_property
    def by_liu(self) -> tuple[tuple[int, ...], ...]:
        """By node: its children in the sequence of the best post-order."""
        return _best_sequences(self, ())[0]

    @cached_property
    def peak(self) -> tuple[int, ...]:
        """P: by node, the peak of its subtree in the best post-order."""
        return _best_sequences(self, ())[1]

    def post_order(self, finished: Collection[int] = ()) -> tuple[int, ...]:
        """Return the best post-order of the nodes that are left when these subtrees are finished."""
        below = _best_sequences(self, finished)[0] if finished else self.by_liu
        order, stack = [], [self.root] if self.root not in finished else []
        while stack:
            i = stack.pop()
            order.append(i)
            stack.extend(c for c in below[i] if c not in finished)
        return tuple(reversed(order))

    def subtree(self, i: int) -> tuple[int, ...]:
        """Return the nodes of a subtree in best post-order."""
        order, stack = [], [i]
        while stack:
            order.append(stack.pop())
            stack.extend(self.by_liu[order[-1]])
        return tuple(reversed(order))

    def memory(self, starts: Sequence[int]) -> int:
        """Return the most bytes live at once, given the start of each node in ns.

        Examples
        --------
        >>> from lowtide.solvers.trees.task_tree import TaskTree
        >>> tree = TaskTree(parent=(2, 2, -1), duration=(1, 1, 1), held=(5, 0, 0), out=(1, 2, 0))
        >>> tree.memory((0, 0, 1)), tree.memory((0, 1, 2)), tree.peak[tree.root]
        (8, 6, 6)
        """
        events = []
        for i, s in enumerate(starts):
            events.append((s, 1, self.held[i] + self.out[i]))
            events.append((s + self.duration[i], 0, self.out[i] - self.needed[i]))
        live = most = 0
        for _, _, change in sorted(events):
            live += change
            most = max(most, live)
        return most


def task_tree(problem: Makespan | MinIO, method: str) -> TaskTree:
    """Return the tree of a problem.

    Raises
    ------
    UsageError
        If the graph is no such tree; the message names the op or tensor and the `method`.
    """
    graph = problem.graph
    where = f"method {method}, graph {graph.name!r}"
    if graph.accounting is not Accounting.COEXIST:
        raise UsageError(f"{where}: found accounting {graph.accounting}, expected coexist")
    after = precedence(graph).successors
    roots = [i for i, above in enumerate(after) if not above]
    if len(roots) > 1:
        raise UsageError(
            f"{where}: found {len(roots)} ops that precede none, expected one, the root of a tree"
        )
    for i, above in enumerate(after):
        if len(above) > 1:
            raise UsageError(
                f"{where}, op {i} {graph.ops[i].name!r}: found {len(above)} ops that follow it directly, "
                "expected one, its parent in a tree"
            )
    parent = tuple(above[0] if above else -1 for above in after)
    durations = tuple(op.all_modes[0].duration_ns for op in graph.ops)
    held = [op.all_modes[0].workspace for op in graph.ops]
    out = [0] * len(parent)
    for t, some in enumerate(sequential_memory(graph).accessors):
        tensor = graph.tensors[t]
        if not tensor.nbytes or not (some or (tensor.initial and tensor.final)):
            continue
        _check_tensor(graph, t, some, where)
        if len(some) == 2 or tensor.final:
            out[some[0]] += tensor.nbytes
        else:
            held[some[0]] += tensor.nbytes
    return TaskTree(parent=parent, duration=durations, held=tuple(held), out=tuple(out))


def identical_processors(problem: Makespan, method: str) -> int:
    """Return how many processors there are.

    Raises
    ------
    UsageError
        If they are not identical, or an op has several modes.
    """
    where = f"method {method}, graph {problem.graph.name!r}"
    for i, op in enumerate(problem.graph.ops):
        if len(op.all_modes) > 1:
            raise UsageError(
                f"{where}, op {i} {op.name!r}: found {len(op.all_modes)} modes, expected one, for identical "
                "processors"
            )
    kinds = sorted({str(p.kind) for p in problem.machine.processors})
    if len(kinds) > 1:
        raise UsageError(f"{where}: found processors of kinds {', '.join(kinds)}, expected identical ones")
    return len(problem.machine.processors)


def _check_tensor(graph: Graph, t: int, some: Sequence[int], where: str) -> None:
    """Refuse a tensor that is not passed from a node to its parent; `some` are its accessors."""
    tensor = graph.tensors[t]
    about = f"{where}, tensor {t} {tensor.name!r}"
    if tensor.initial:
        raise UsageError(f"{about}: found an initial tensor, expected none in a tree of tasks")
    if len(some) > 2 or (len(some) == 2 and t in graph.ops[some[1]].writes):
        raise UsageError(f"{about}: found {len(some)} ops that access it, expected its writer and one reader")
    if tensor.final and some[-1] != len(graph.ops) - 1:
        raise UsageError(f"{about}: found a final tensor of an inner op, expected none but the root's")
    if tensor.final and len(some) == 2:
        raise UsageError(f"{about}: found a final tensor that the root reads, expected it to write them")


def _best_sequences(
    tree: TaskTree, finished: Collection[int]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the children of each node by Liu's rule, and P; a finished subtree holds its output alone."""
    peak = [0] * tree.n
    below: list[tuple[int, ...]] = []
    gone = set(finished)
    for i, children in enumerate(tree.children):
        if i in gone:
            peak[i] = tree.out[i]
            below.append(())
            continue
        # Outputs of finished subtrees are there from the beginning: they come first.
        some = sorted(children, key=lambda c: (c not in gone, tree.out[c] - peak[c], c))
        most = residue = 0
        for c in some:
            most = max(most, residue + peak[c])
            residue += tree.out[c]
        peak[i] = max(most, tree.needed[i])
        below.append(tuple(some))
    return tuple(below), tuple(peak)
