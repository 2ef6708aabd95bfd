r"""Recognition of series-parallel graphs: reductions of a network whose arcs carry the ops.

**Network.** Each op v is an arc from a vertex *in(v)* to a vertex *out(v)*; an edge (v, w) of the precedence
is an arc without op from out(v) to in(w). Ops without predecessors begin at the source, ops without
successors end at the sink. Where all ops of a set U have the same successors W, and all of W the same
predecessors U, one vertex is out(v) of all of U and in(w) of all of W. So v precedes w iff a path leads from
the arc of v to that of w.

**Reductions.** *Parallel*: arcs with the same ends become one. *Series*: a vertex with one arc in and one arc
out vanishes, both arcs become one. Neither changes which arcs of ops precede each other. The graph is
series-parallel if this ends with one arc: the result does not depend on the order of the reductions. The
arc carries the composition of all ops. A transitive edge does no harm where the network without the joint
vertices is reducible; elsewhere the state space has removed it, up to `MASK_LIMIT` ops.

Series-parallel in this sense are both the two-terminal series-parallel graphs whose vertices are the
ops (a vertex with its arcs is then an arc that is split from it), and the vertex series-parallel orders of
J. Valdes, R. E. Tarjan, E. L. Lawler, "The recognition of series parallel digraphs", SIAM J. Computing 11
(1982), whose joint vertices and reductions these are. Every tree is one. Linear in ops and edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..search.state_space import StateSpace

Part = TypeVar("Part")

SOURCE, SINK = 0, 1
"""The first vertices of a network."""


@dataclass(slots=True)
class Arc(Generic[Part]):
    """What is in parallel between two vertices.

    Attributes
    ----------
    parts
        Compositions of ops; none if there is only an edge of the precedence.
    ops
        How many ops these have.
    op
        The largest op of them, -1 if there is none.
    """

    parts: list[Part]
    ops: int
    op: int


@dataclass(frozen=True)
class Irreducible:
    """What the reductions leave of a graph that is not series-parallel.

    Attributes
    ----------
    arcs
        How many arcs.
    ops
        One op of each arc that has ops, ascending.
    """

    arcs: int
    ops: tuple[int, ...]


class ArcNetwork(Generic[Part]):
    """The network of a graph; parallel arcs are always one.

    Parameters
    ----------
    space
        The ops and their neighbours.
    single
        Returns the part of one op.
    series, parallel
        Return the part of two parts, the first before the second, and that of two or more.

    Attributes
    ----------
    into, out_of
        The arcs of each vertex by their other end; a vertex without arcs has vanished.
    """

    def __init__(
        self,
        space: StateSpace,
        single: Callable[[int], Part],
        series: Callable[[Part, Part], Part],
        parallel: Callable[[list[Part]], Part],
    ) -> None:
        self._series, self._parallel = series, parallel
        vertices, begin, end, edges = _vertices(space)
        self.into: list[dict[int, Arc[Part]]] = [{} for _ in range(vertices)]
        self.out_of: list[dict[int, Arc[Part]]] = [{} for _ in range(vertices)]
        for v in range(space.n):
            self.connect(begin[v], end[v], Arc([single(v)], 1, v))
        for v, w in edges:
            self.connect(end[v], begin[w], Arc([], 0, -1))

    def connect(self, u: int, w: int, arc: Arc[Part]) -> None:
        """Add an arc, in parallel with the one that there is."""
        known = self.out_of[u].get(w)
        if known is None:
            self.out_of[u][w] = self.into[w][u] = arc
        else:
            known.parts += arc.parts
            known.ops += arc.ops
            known.op = max(known.op, arc.op)

    def take(self, u: int, w: int) -> Arc[Part]:
        """Remove an arc."""
        del self.into[w][u]
        return self.out_of[u].pop(w)

    def reduce(self, pending: Iterable[int]) -> list[int]:
        """Make vertices with one arc in and one out vanish, from those given; return whose arcs changed."""
        stack, changed = list(pending), list[int]()
        while stack:
            v = stack.pop()
            if v <= SINK or len(self.into[v]) != 1 or len(self.out_of[v]) != 1:
                continue
            (u,), (w,) = self.into[v], self.out_of[v]
            first, second = self.take(u, v), self.take(v, w)
            before, after = self._whole(first), self._whole(second)
            parts = [self._series(before[0], after[0])] if before and after else before or after
            self.connect(u, w, Arc(parts, first.ops + second.ops, max(first.op, second.op)))
            stack += (w, u)
            changed += (w, u)
        return changed

    def result(self) -> Part | Irreducible:
        """Return the composition of all ops, or what is left if there is more than one arc."""
        left = [arc for arcs in self.out_of for arc in arcs.values()]
        if len(left) == 1:
            return self._whole(left[0])[0]
        return Irreducible(len(left), tuple(sorted(arc.op for arc in left if arc.op >= 0)))

    def _whole(self, arc: Arc[Part]) -> list[Part]:
        """Return the parallel composition of an arc, or nothing if it has no ops."""
        return [self._parallel(arc.parts)] if len(arc.parts) > 1 else arc.parts


def compose(
    space: StateSpace,
    single: Callable[[int], Part],
    series: Callable[[Part, Part], Part],
    parallel: Callable[[list[Part]], Part],
) -> Part | Irreducible:
    """Return the composition of all ops (at least one), or what is left if they are not series-parallel.

    The parameters are those of `ArcNetwork`.

    Examples
    --------
    >>> from lowtide import load
    >>> from lowtide.solvers.peak.search.state_space import state_space
    >>> words = str, "{} {}".format, lambda parts: f"({' | '.join(parts)})"
    >>> compose(state_space(load("gen:sp?n=6&seed=8")), *words)
    '0 (1 | 4 | 2 3) 5'
    """
    network = ArcNetwork(space, single, series, parallel)
    network.reduce(range(len(network.into)))
    return network.result()


def _vertices(space: StateSpace) -> tuple[int, list[int], list[int], list[tuple[int, int]]]:
    """Return how many vertices there are, in(v) and out(v) of each op, and the edges without joint vertex."""
    vertices = SINK + 1
    begin, end = [SOURCE] * space.n, [SINK] * space.n
    users: dict[tuple[int, ...], list[int]] = {}
    for v in range(space.n):
        users.setdefault(tuple(sorted(space.after[v])), []).append(v)
    edges = []
    for after, ops in users.items():
        if not after:
            continue
        if all(len(space.before[w]) == len(ops) and sorted(space.before[w]) == ops for w in after):
            for v in ops:
                end[v] = vertices
            for w in after:
                begin[w] = vertices
            vertices += 1
        else:
            edges += [(v, w) for v in ops for w in after]
    for v, w in edges:
        if end[v] == SINK:
            end[v], vertices = vertices, vertices + 1
        if begin[w] == SOURCE:
            begin[w], vertices = vertices, vertices + 1
    return vertices, begin, end, edges
