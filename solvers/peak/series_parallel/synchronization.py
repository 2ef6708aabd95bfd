r"""Any graph made series-parallel: where the reductions of its network stop, an arc is moved.

Let the network of `networks` be irreducible with more than one arc, and an order of the ops be given. The
*rank* of a vertex is the last place in the order of the ops on paths to it. Ranks never fall along arcs; ties
are broken by a topological order of the vertices.

* A vertex x with one arc in and several out: let y be the end of these with the least rank. The
  other arcs out of x begin at y instead. So their ops wait for all on the way to y, not to x alone.
* A vertex x with one arc out and several in: let y be the beginning of these with the largest rank. The other
  arcs into x end at y instead, so that all that follows y waits for their ops.

After either, x has one arc in and one out and vanishes. There always is such an x: all arcs into the vertex
of least rank but the source come from the source. Each move adds to the precedence; it is taken where
the ranks of x and y, times the ops of arcs that move, differ least in sum. Moved arcs obey the ranks, so the
network stays without cycles, and after as many moves as there are vertices one arc is left.

Bytes of a tensor that several unordered ops may access last are taken to be released by the one that
is last in the order: the memory is only nearly right then, and the order found valid but not the best of
the new precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from ...trees.blocks import Blocks, in_parallel, in_series
from ..search.state_space import StateSpace
from .additive import attributed_changes, op_block
from .networks import SINK, SOURCE, ArcNetwork, Irreducible

Move = tuple[int, int, bool, int]
"""What it costs, x, whether arcs out of x are moved, y."""


def synchronized_blocks(space: StateSpace, order: Sequence[int]) -> Blocks:
    """Return the blocks of an order of some series-parallel precedence that contains that of the graph.

    Parameters
    ----------
    order
        A valid order of its ops, which guides the moves.

    Examples
    --------
    >>> from lowtide import load
    >>> from lowtide.solvers.trees.blocks import ops_of
    >>> from lowtide.solvers.peak.search.state_space import state_space
    >>> ops_of(synchronized_blocks(state_space(load("gen:layered?layers=3&width=2&seed=1")), range(6)))
    [1, 0, 2, 5, 3, 4]
    """
    if not space.n:
        return []
    change = attributed_changes(space, order)
    network = ArcNetwork(space, lambda v: [op_block(space, v, change[v])], in_series, in_parallel)
    rank = _ranks(network, {v: k for k, v in enumerate(order)})
    network.reduce(range(len(network.into)))
    moves: list[Move] = []
    for x in range(SINK + 1, len(network.into)):
        _push(moves, network, rank, x)
    while moves:
        move = heappop(moves)
        _, x, out, y = move
        if move not in _moves_at(network, rank, x):
            continue
        changed = [x, y]
        if out:
            for z in [z for z in network.out_of[x] if z != y]:
                network.connect(y, z, network.take(x, z))
                changed.append(z)
        else:
            for z in [z for z in network.into[x] if z != y]:
                network.connect(z, y, network.take(z, x))
                changed.append(z)
        changed += network.reduce(changed)
        for v in dict.fromkeys(changed):
            _push(moves, network, rank, v)
    found = network.result()
    assert not isinstance(found, Irreducible)
    return found


def _ranks(network: ArcNetwork[Blocks], place: dict[int, int]) -> list[tuple[int, int]]:
    """Return the rank of each vertex, and its place in a topological order."""
    vertices = len(network.into)
    waits = [len(arcs) for arcs in network.into]
    last, number = [-1] * vertices, [0] * vertices
    order = [SOURCE]
    for k, u in enumerate(order):  # grows
        number[u] = k
        for w, arc in network.out_of[u].items():
            ops = [place[one.ops] for part in arc.parts for one in part]
            last[w] = max(last[w], last[u], *ops)
            waits[w] -= 1
            if not waits[w]:
                order.append(w)
    return list(zip(last, number, strict=True))


def _push(moves: list[Move], network: ArcNetwork[Blocks], rank: list[tuple[int, int]], x: int) -> None:
    for move in _moves_at(network, rank, x):
        heappush(moves, move)


def _moves_at(network: ArcNetwork[Blocks], rank: list[tuple[int, int]], x: int) -> list[Move]:
    """Return the moves that make x vanish."""
    into, out = network.into[x], network.out_of[x]
    if x <= SINK or len(into) == len(out) or min(len(into), len(out)) != 1:
        return []
    if len(into) == 1:
        y = min(out, key=rank.__getitem__)
        cost = sum(arc.ops for z, arc in out.items() if z != y) * (rank[y][0] - rank[x][0] + 1)
        return [(cost, x, True, y)]
    y = max(into, key=rank.__getitem__)
    cost = sum(arc.ops for z, arc in into.items() if z != y) * (rank[x][0] - rank[y][0] + 1)
    return [(cost, x, False, y)]
