"""The graph's precedence: which ops must end before which may start, when each op runs once.

For each tensor the reference order fixes the chain of versions. An op that reads version k must follow
the op that wrote it (read after write) and precede the op that writes version k + 1 (write after read);
writers follow each other (write after write). `Op.after` adds control edges. The reference order is a
topological order of the result, so every edge points to a larger index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from ..errors import InstanceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..graph import Graph


@dataclass(frozen=True)
class Precedence:
    """Direct predecessors and successors of each op, sorted, without repetition.

    Edges that another two edges of the same tensor imply (write after write with a reader between)
    are left out; otherwise nothing is transitively reduced.
    """

    predecessors: tuple[tuple[int, ...], ...]
    successors: tuple[tuple[int, ...], ...]

    @cached_property
    def n_edges(self) -> int:
        """The number of direct edges."""
        return sum(map(len, self.predecessors))

    @cached_property
    def successors_csr(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """``(starts, indices)``: successors of i are ``indices[starts[i]:starts[i + 1]]``."""
        return _csr(self.successors)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Bit masks: bit j of ``ancestors[i]`` says that j must precede i (transitively)."""
        masks: list[int] = []
        for before in self.predecessors:
            mask = 0
            for j in before:
                mask |= masks[j] | (1 << j)
            masks.append(mask)
        return tuple(masks)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Bit masks: bit j of ``descendants[i]`` says that i must precede j (transitively)."""
        masks = [0] * len(self.successors)
        for i in range(len(masks) - 1, -1, -1):
            for j in self.successors[i]:
                masks[i] |= masks[j] | (1 << j)
        return tuple(masks)


def precedence(graph: Graph) -> Precedence:
    """Return the precedence of the graph (computed once, kept with it)."""
    known = graph.__dict__.get("_precedence")
    if known is None:
        known = _derive(graph)
        graph.__dict__["_precedence"] = known
    assert isinstance(known, Precedence)
    return known


def successors_with(graph: Graph, edges: Sequence[tuple[int, int]]) -> list[set[int]]:
    """Return the immediate successors of each op under the precedence and further edges.

    Raises
    ------
    InstanceError
        If an edge dangles.
    """
    n = len(graph.ops)
    later = [set(some) for some in precedence(graph).successors]
    for i, j in edges:
        if not (0 <= i < n and 0 <= j < n):
            raise InstanceError(f"edge [{i}, {j}]: found an unknown op, expected ops in [0, {n})")
        later[i].add(j)
    return later


def order_with(graph: Graph, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return an order of the ops that obeys the precedence and further edges, lowest index first.

    Raises
    ------
    InstanceError
        If an edge dangles, or they close a cycle.
    """
    later = successors_with(graph, edges)
    n = len(later)
    waits = [0] * n
    for some in later:
        for j in some:
            waits[j] += 1
    ready = [i for i in range(n) if not waits[i]]
    heapify(ready)
    order = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for j in later[i]:
            waits[j] -= 1
            if not waits[j]:
                heappush(ready, j)
    if len(order) < n:
        raise InstanceError(f"edges: found a cycle through op {waits.index(max(waits))}, expected none")
    return order


def descendants_with(
    graph: Graph, edges: Sequence[tuple[int, int]] = (), tick: Callable[[], object] = lambda: None
) -> list[int]:
    """Return per op the set of ops that must come later, as the bits of an integer, n^2 / 8 bytes in all.

    `tick` is called for each op, and may raise.

    Raises
    ------
    InstanceError
        If an edge dangles, or they close a cycle.
    """
    direct = successors_with(graph, edges)
    after = [0] * len(direct)
    for i in reversed(order_with(graph, edges)):
        tick()
        for j in direct[i]:
            after[i] |= after[j] | 1 << j
    return after


def bits(mask: int) -> list[int]:
    """Return the places of the bits that are set, ascending.

    Examples
    --------
    >>> bits(0b1101)
    [0, 2, 3]
    """
    text, places = bin(mask)[:1:-1], []
    k = text.find("1")
    while k >= 0:
        places.append(k)
        k = text.find("1", k + 1)
    return places


def check_order(graph: Graph, order: Sequence[int]) -> None:
    """Raise `InstanceError` unless `order` is a permutation of the ops that obeys the precedence."""
    n = len(graph.ops)
    before = precedence(graph).predecessors
    done = [False] * n
    for place, i in enumerate(order):
        if not 0 <= i < n:
            raise InstanceError(f"order, place {place}: found op {i}, expected one in [0, {n})")
        name = graph.ops[i].name
        if done[i]:
            raise InstanceError(f"order, place {place}: found op {i} {name!r} twice, expected once")
        for j in before[i]:
            if not done[j]:
                raise InstanceError(
                    f"order, place {place}: found op {i} {name!r} before op {j} "
                    f"{graph.ops[j].name!r}, expected it after (precedence)"
                )
        done[i] = True
    if len(order) != n:
        lost = done.index(False)
        raise InstanceError(
            f"order: found {len(order)} ops, expected {n}; missing op {lost} {graph.ops[lost].name!r}"
        )


def _derive(graph: Graph) -> Precedence:
    writer = [-1] * len(graph.tensors)
    readers: list[list[int]] = [[] for _ in graph.tensors]
    before: list[tuple[int, ...]] = []
    after: list[list[int]] = [[] for _ in graph.ops]
    for i, op in enumerate(graph.ops):
        direct = {*op.after, *[writer[t] for t in op.reads]}
        for t in op.writes:
            if readers[t]:
                direct.update(readers[t])
                readers[t] = []
            else:
                direct.add(writer[t])
            writer[t] = i
        for t in op.reads:
            if writer[t] != i:
                readers[t].append(i)
        direct.discard(-1)
        before.append(tuple(sorted(direct)) if len(direct) > 1 else tuple(direct))
        for j in direct:
            after[j].append(i)
    return Precedence(predecessors=tuple(before), successors=tuple(map(tuple, after)))


def _csr(lists: tuple[tuple[int, ...], ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    import numpy as np  # here, not above: a third of the time that `import lowtide` would take

    starts = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(x) for x in lists], out=starts[1:])
    indices = np.fromiter((j for x in lists for j in x), dtype=np.int64, count=int(starts[-1]))
    return starts, indices
