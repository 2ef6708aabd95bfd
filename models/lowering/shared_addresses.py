r"""From a partial order of ops to the buffers that an allocation of its memory places.

Streams fix an order of the ops, not their times: addresses that are set before the run must hold however
long ops take. So two buffers may share addresses if and only if one is gone before the other comes in *every*
execution that obeys the order (the precedence, streams, waits).

**When that is.** A tensor comes at the start of its first writer, or is there from the first if it is
initial; an access lets go of it at the op's end, under ``replace`` at its start if it only reads. A workspace
comes and goes with its op. Buffer a is gone before b comes if b comes with an op y, a is not final, and every
access i of a lets go no later than y starts: i precedes y, or is y itself and lets go at its start.

**No other pair may share.** Let a come with x, b with y, neither gone before the other comes. If x and y are
independent, run both after all that precedes them: both buffers are there. If x precedes y, or is y, or a is
there from the first, run y after all that precedes y: b is there, and a too, since some access of a is y and
lets go at its end, or has not begun. If both are there from the first, they meet at once.

**As lifetimes.** Such conflicts are no intervals of a line in general: three buffers may meet pairwise and
never all at once, so addresses may take more than any execution ever holds. But buffers have gaps
(`lowtide.models.buffers.Gap`), and any graph is given by cliques that cover its edges: the k-th of them is
the k-th moment, at which its members, and no others, are there. Two buffers then overlap if and only if they
conflict. Each clique is grown from a buffer with a pair that none covers yet, by the member that covers most,
to one that nothing can join: the largest one is a bound on the addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..buffers import Buffer, Buffers, Gap
from ..derived.precedence import bits, descendants_with, order_with
from ..derived.streams import Edge
from ..graph import Accounting, Graph


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """What is to be placed: the op that it comes with, and those whose end or start lets go of it.

    Attributes
    ----------
    born
        None if it is there from the first.
    ends, starts
        Sets of ops, as bits.
    """

    name: str
    size: int
    born: int | None
    ends: int
    starts: int
    final: bool = False


def buffers_of_order(graph: Graph, edges: Sequence[Edge] = (), *, capacity: int | None = None) -> Buffers:
    """Return buffers whose allocation holds in every execution of the graph with further edges.

    Lifetimes are moments without a length: two buffers overlap if and only if they are there together in
    some execution. Ids name tensors and workspaces as those of plans do, without tier and time. A tensor that
    an op makes in place of one that dies with it may lie at its address.

    Parameters
    ----------
    edges
        Pairs (i, j): op i must end before op j starts, such as `Result.edges` of streams.
    capacity
        Of the memory in bytes; None if unlimited.

    Raises
    ------
    InstanceError
        If an edge dangles, or they close a cycle.

    Examples
    --------
    >>> import lowtide as lt
    >>> ops = (lt.Op(name="a", workspace=3), lt.Op(name="b", workspace=4))
    >>> two = lt.Graph(name="two", tensors=(), ops=ops)
    >>> [[(b.lower, b.upper) for b in buffers_of_order(two, edges).buffers] for edges in ((), [(0, 1)])]
    [[(0, 1), (0, 1)], [(0, 1), (1, 2)]]
    """
    pieces = list(_pieces(graph))
    place = {i: k for k, i in enumerate(order_with(graph, edges))}
    pieces.sort(key=lambda p: -1 if p.born is None else place[p.born])
    after = descendants_with(graph, edges)
    before = [0] * len(after)
    for i, some in enumerate(after):
        for j in bits(some):
            before[j] |= 1 << i
    meet = _meetings(pieces, before)
    moments: list[list[int]] = [[] for _ in pieces]
    for k, clique in enumerate(_covering_cliques(meet)):
        for n in bits(clique):
            moments[n].append(k)
    named = {piece.name: piece for piece in pieces}
    pairs = []
    for i, op in enumerate(graph.ops):
        for read, write in op.inplace:
            a, b = named.get(_named(graph, read)), named.get(_named(graph, write))
            if a is None or b is None or read in op.writes or a.final or b.born != i:
                continue
            if not (a.ends | a.starts) & ~(before[i] | 1 << i):
                pairs.append((a.name, b.name))
    return Buffers(
        buffers=tuple(_buffer(piece, some) for piece, some in zip(pieces, moments, strict=True)),
        pools={"": capacity},
        inplace=tuple(pairs),
        name=graph.name,
    )


def _named(graph: Graph, t: int) -> str:
    return f"{t}:{graph.tensors[t].name}"


def _pieces(graph: Graph) -> Iterator[_Piece]:
    """Yield tensors that are ever there, then workspaces; nothing of 0 bytes."""
    replaces = graph.accounting is Accounting.REPLACE
    for t, tensor in enumerate(graph.tensors):
        writers = [i for i, op in enumerate(graph.ops) if t in op.writes]
        readers = [i for i, op in enumerate(graph.ops) if t in op.reads and t not in op.writes]
        if not tensor.nbytes or not (writers or readers or tensor.final):
            continue
        ends = sum(1 << i for i in writers)
        starts = sum(1 << i for i in readers)
        yield _Piece(
            name=_named(graph, t),
            size=tensor.nbytes,
            born=None if tensor.initial else writers[0],
            ends=ends if replaces else ends | starts,
            starts=starts if replaces else 0,
            final=tensor.final,
        )
    for i, op in enumerate(graph.ops):
        if workspace := max(mode.workspace for mode in op.all_modes):
            yield _Piece(name=f"{i}:{op.name}/workspace", size=workspace, born=i, ends=1 << i, starts=0)


def _meetings(pieces: Sequence[_Piece], before: Sequence[int]) -> list[int]:
    """Return per piece the set of those that are there with it in some execution."""

    def gone(a: _Piece, b: _Piece) -> bool:
        if b.born is None or a.final:
            return False
        past = before[b.born]
        return not a.ends & ~past and not a.starts & ~(past | 1 << b.born)

    meet = [0] * len(pieces)
    for k, a in enumerate(pieces):
        for m, b in enumerate(pieces[:k]):
            if not gone(a, b) and not gone(b, a):
                meet[k] |= 1 << m
                meet[m] |= 1 << k
    return meet


def _covering_cliques(meet: Sequence[int]) -> Iterator[int]:
    """Yield cliques, to which nothing can be added, that cover every edge and every node of a graph."""
    left = list(meet)
    alone = (1 << len(meet)) - 1
    for a in range(len(meet)):
        while left[a] or alone >> a & 1:
            clique, open_to = 1 << a, meet[a]
            gain = {b: left[a] >> b & 1 for b in bits(open_to)}
            while open_to:
                b = max(bits(open_to), key=lambda b: (gain[b], -b))
                clique |= 1 << b
                open_to &= meet[b]
                for c in bits(open_to & left[b]):
                    gain[c] += 1
            alone &= ~clique
            for b in bits(clique):
                left[b] &= ~clique
            yield clique


def _buffer(piece: _Piece, moments: Sequence[int]) -> Buffer:
    gaps = [Gap(k + 1, m) for k, m in pairwise(moments) if m > k + 1]
    return Buffer(id=piece.name, lower=moments[0], upper=moments[-1] + 1, size=piece.size, gaps=tuple(gaps))
