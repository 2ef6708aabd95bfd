r"""The method `pumpkin`: disjoint paths between a source and a sink, by exact search over position vectors.

A *pumpkin* is a source, d disjoint paths of ops, and a sink; source or sink may be missing. Each op writes
one tensor that all its successors read, so that the source's is released by the path begun last: the
memory is not additive. But what a path does beyond its shared tensors is:

1. Each path is cut into pieces: ops that may access a shared tensor last are pieces of their own, and what
   is between them becomes canonical blocks (`blocks`), which are free of all other paths and additive. So
   some optimal order runs each block at once.
2. A state is a vector of positions :math:`(k_1, \dots, k_d)`, the pieces done of each path. Its memory is
   that of nothing, plus the changes of the pieces done, less the groups whose ops have all run.
3. States are visited by the least peak with which they can be reached (Dijkstra's algorithm with the largest
   instead of the sum); the first one with what is there before any op. Where a piece lowers the memory, or
   leaves it, within that peak, it is run and no other: M is submodular, so its change is no more later, and
   every way on from the state can begin with it.

The peak of the last vector, or of source or sink if larger, is the least. There are at most
:math:`\prod_i (pieces_i + 1)` states: polynomial for fixed d.

Pumpkins with shared outputs are strongly NP-hard, with an algorithm in O(2^d poly(n)) time, which was not
at hand: R. Jin, M. Purohit, Z. Svitkina, E. Vee, J. Wang, "Dominant schedules...", arXiv 2312.13526 (2023).
The search over vectors is this project's own.
"""

from __future__ import annotations

from heapq import heappop, heappush

from ....models.errors import UsageError
from ....models.graph import Graph
from ....models.problems.peak import Peak
from ...context import Context, Outcome
from ...trees.blocks import Blocks, flattened, in_series
from ..search.state_space import StateSpace, state_space
from .additive import op_block

STATES = 5_000_000
"""Vectors reached before the search gives up: about a gigabyte."""

KIND = "position vectors"
"""The kind of the bound."""


def solve_pumpkin(problem: Peak, context: Context) -> Outcome:
    """Offer an optimal order, whose peak bounds that of every order, unless time or memory end."""
    graph = problem.graph
    space = state_space(graph)
    context.offer(range(space.n))
    source, paths, sink = paths_of(graph, space)
    search = VectorSearch(space, source, [_pieces(space, path) for path in paths])
    reason = search.run(context)
    if reason is not None:
        return Outcome(reason=reason, detail=f"{len(search.came_from)} position vectors")
    context.raise_bound(context.offer((*source, *search.order(), *sink)), kind=KIND)
    return Outcome()


def paths_of(graph: Graph, space: StateSpace) -> tuple[list[int], list[list[int]], list[int]]:
    """Return the source, the paths, and the sink; the first and the last list have at most one op.

    Raises
    ------
    UsageError
        If the graph is no pumpkin.

    Examples
    --------
    >>> from lowtide import load
    >>> graph = load("gen:pumpkin?paths=2&length=3&seed=1")
    >>> paths_of(graph, state_space(graph))
    ([0], [[1], [2, 3, 4]], [5])
    """
    first = [v for v, some in enumerate(space.before) if not some]
    last = [v for v, some in enumerate(space.after) if not some]
    source = first if len(first) == 1 and len(space.after[first[0]]) > 1 else []
    sink = last if len(last) == 1 and len(space.before[last[0]]) > 1 else []
    ends = {*source, *sink}
    for v in range(space.n):
        for word, some in (("successors", space.after[v]), ("predecessors", space.before[v])):
            if v not in ends and len(some) > 1:
                raise UsageError(
                    f"method pumpkin, graph {graph.name!r}, op {v} {graph.ops[v].name!r}: found {len(some)} "
                    f"direct {word}, expected at most one but at a single source and a single sink"
                )
    paths = []
    for v in range(space.n):
        if v in ends or not ends.issuperset(space.before[v]):
            continue
        path = [v]
        while space.after[path[-1]] and space.after[path[-1]][0] not in ends:
            path.append(space.after[path[-1]][0])
        paths.append(path)
    return source, paths, sink


def _pieces(space: StateSpace, path: list[int]) -> Blocks:
    """Return the pieces of a path (1)."""
    pieces: Blocks = []
    between: Blocks = []
    for v in path:
        one = op_block(space, v, space.increase[v])
        if space.groups_of[v]:
            pieces += [*between, one]
            between = []
        else:
            between = in_series(between, [one])
    return pieces + between


class VectorSearch:
    """The search over position vectors (2 and 3), which are numbers in a mixed radix.

    Parameters
    ----------
    space
        Of the whole graph.
    source
        Ops that run before.
    paths
        The pieces of each path.

    Attributes
    ----------
    came_from
        By vector that was reached: the path whose piece was last, and the least peak known.
    """

    def __init__(self, space: StateSpace, source: list[int], paths: list[Blocks]) -> None:
        self._space, self._paths = space, paths
        start = space.start + sum(space.increase[v] for v in source)
        self._memory = [[0] for _ in paths]  # by path and position: changes without groups
        self._strides: list[int] = []
        stride, place = 1, dict[int, tuple[int, int]]()
        for i, pieces in enumerate(paths):
            self._strides.append(stride)
            stride *= len(pieces) + 1
            for k, piece in enumerate(pieces):
                self._memory[i].append(self._memory[i][-1] + piece.change)
                place.update(dict.fromkeys(flattened([piece.ops]), (i, k + 1)))
        self._groups = [
            (nbytes, [place[v] for v in ops if v in place])
            for ops, nbytes in zip(space.groups, space.group_bytes, strict=True)
        ]
        self._start, self._goal = start, stride - 1
        self.came_from: dict[int, tuple[int, int]] = {0: (0, 0)}

    def run(self, context: Context) -> str | None:
        """Search; return None if the goal was reached, else why not: "time" or "memory"."""
        heap, visited = [(self._space.start, 0)], set[int]()
        while heap:
            peak, vector = heappop(heap)
            if vector in visited:
                continue
            visited.add(vector)
            if vector == self._goal:
                return None
            if len(visited) % 1024 == 0 and context.expired:
                return "time"
            if len(self.came_from) > STATES:
                return "memory"
            for reached, i, needed in self._steps(peak, vector):
                known = self.came_from.get(reached)
                if known is None or needed < known[1]:
                    self.came_from[reached] = (i, needed)
                    heappush(heap, (needed, reached))
        raise AssertionError("every vector leads to the last one")

    def order(self) -> list[int]:
        """Return the ops of the paths in the order found."""
        vector, taken = self._goal, []
        while vector:
            i, _ = self.came_from[vector]
            vector -= self._strides[i]
            position = vector // self._strides[i] % (len(self._paths[i]) + 1)
            taken.append(self._paths[i][position].ops)
        return flattened(taken[::-1])

    def _steps(self, peak: int, vector: int) -> list[tuple[int, int, int]]:
        """Return the vectors one piece further, that piece's path, and the peaks; one only if (3) allows."""
        positions = [
            vector // stride % (len(pieces) + 1)
            for stride, pieces in zip(self._strides, self._paths, strict=True)
        ]
        now = self._memory_at(positions)
        steps = []
        for i, pieces in enumerate(self._paths):
            if positions[i] == len(pieces):
                continue
            piece = pieces[positions[i]]
            positions[i] += 1
            change = self._memory_at(positions) - now
            positions[i] -= 1
            height = piece.height
            if not self._space.extra_before:  # groups that the piece releases lower its height too
                height += change - piece.change
            step = (vector + self._strides[i], i, max(peak, now + height))
            if change <= 0 and step[2] == peak:
                return [step]
            steps.append(step)
        return steps

    def _memory_at(self, positions: list[int]) -> int:
        total = self._start
        for memory, k in zip(self._memory, positions, strict=True):
            total += memory[k]
        for nbytes, ops in self._groups:
            if all(positions[i] >= k for i, k in ops):
                total -= nbytes
        return total
