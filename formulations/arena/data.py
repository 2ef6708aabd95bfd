r"""The data of `arena`: what is to be placed, and when it is there under an order.

**Pieces.** The tensors of at least one byte that are accessed or final, and the workspaces. A piece comes
with the op `born` (its first writer; None: it is there from the first) and stays while one of its `ends` (ops
that hold it to their end) has not ended, one of its `starts` (``replace``: ops that only read it) has not
begun, or if it is `final`. Under an order with op i at position :math:`\pi_i` it occupies its bytes over the
half-open positions from :math:`\pi_{born}` (-1, before the first op, if it is there from the first) to the
largest of :math:`\pi_i + 1` over its ends and :math:`\pi_i` over its starts, or to n if it is final. Runs of
a plan follow each other, so that two buffers of the plan meet if and only if these intervals of positions do.

**Pairs.** (a, b, i): op i makes b and may put it at the address of a, which it reads and does not write, if
no other access of a comes later (`lowtide.models.lowering.residencies.inplace_pairs`). Both are in one pool.

**Pools.** Piece p lies in pool :math:`g_p`; pools have addresses of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from ...models.buffers import Buffer, Buffers
from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.graph import Accounting, Graph
from ...models.problems.arena import Addressed, Arena


@dataclass(frozen=True, slots=True)
class PlacedPiece:
    """What is to be placed; `number` is its place in `Addressed.addresses`, `size` its bytes, `pool` g."""

    number: int
    size: int
    born: int | None
    ends: tuple[int, ...]
    starts: tuple[int, ...]
    final: bool = False
    pool: int = 0


@dataclass(frozen=True, kw_only=True)
class ArenaData:
    """Pieces, pairs that some order lets share as ``(a, b, op)``, graph, alignment, and how many pools."""

    graph: Graph
    pieces: tuple[PlacedPiece, ...]
    pairs: tuple[tuple[int, int, int], ...]
    alignment: int
    pools: int = 1

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.graph.ops)

    @property
    def unit(self) -> int:
        """Bytes of a unit of models: sizes are multiples of it, the alignment is a multiple or divides it."""
        unit = gcd(*(p.size for p in self.pieces)) or 1
        return unit if unit % self.alignment == 0 else gcd(unit, self.alignment)

    @property
    def step(self) -> int:
        """The alignment in units, 1 if it divides the unit."""
        return max(1, self.alignment // self.unit)

    @property
    def stacked(self) -> int:
        """The height of all pieces on top of each other, in units."""
        return sum(-(-p.size // self.unit // self.step) * self.step for p in self.pieces)

    def lifetimes(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Return the half-open positions of each piece; -1 is before the first op."""
        at = [0] * self.n
        for k, i in enumerate(order):
            at[i] = k
        found = []
        for p in self.pieces:
            upper = max(1, self.n)
            if not p.final:
                upper = max(*(at[i] + 1 for i in p.ends), *(at[i] for i in p.starts), 0)
            found.append((-1 if p.born is None else at[p.born], upper))
        return found

    def buffers(self, order: Sequence[int]) -> Buffers:
        """Return what an allocation for an order must place; ids are the numbers of the pieces.

        Where something is gone when the first op runs, all times are 1 later.
        """
        lives = self.lifetimes(order)
        later = int(any(b == 0 for _, b in lives))
        pieces = [
            Buffer(
                id=str(k),
                lower=max(a + later, 0),
                upper=b + later,
                size=p.size,
                alignment=self.alignment,
                pool=str(p.pool),
            )
            for k, (p, (a, b)) in enumerate(zip(self.pieces, lives, strict=True))
        ]
        pairs = [(str(a), str(b)) for a, b, i in self.pairs if lives[a][1] == lives[b][0] + 1]
        return Buffers(buffers=tuple(pieces), inplace=tuple(pairs))

    def answer(self, order: Sequence[int], offsets: dict[str, int]) -> Addressed:
        """Return the answer of an order with the offsets of its `buffers`."""
        addresses: list[int | None] = [None] * (len(self.graph.tensors) + self.n)
        for name, offset in offsets.items():
            addresses[self.pieces[int(name)].number] = offset
        return Addressed(tuple(order), tuple(addresses))


def arena_data(problem: Arena) -> ArenaData:
    """Return the data of a problem.

    Examples
    --------
    >>> import lowtide as lt
    >>> data = arena_data(Arena(lt.load("catalogue:diamond")))
    >>> data.lifetimes((0, 2, 1, 3))
    [(0, 3), (2, 4), (1, 4), (3, 4)]
    """
    graph = problem.graph
    memory = sequential_memory(graph)
    replaces = graph.accounting is Accounting.REPLACE
    pieces: list[PlacedPiece] = []
    where: dict[int, int] = {}
    for t, tensor in enumerate(graph.tensors):
        accessors = memory.accessors[t]
        if not tensor.nbytes or not (accessors or tensor.final):
            continue
        starts = tuple(i for i in accessors if replaces and t not in graph.ops[i].writes)
        ends = tuple(i for i in accessors if i not in starts)
        born = None if tensor.initial else accessors[0]
        where[t] = len(pieces)
        pool = problem.pool_of[t]
        pieces.append(PlacedPiece(t, tensor.nbytes, born, ends, starts, tensor.final, pool))
    for i, op in enumerate(graph.ops):
        if op.least_workspace:
            number = len(graph.tensors) + i
            pieces.append(PlacedPiece(number, op.least_workspace, i, (i,), (), pool=problem.pool_of[number]))
    pairs = tuple((where[r], where[w], i) for i, r, w in sharing_pairs(problem) if {r, w} <= {*where})
    return ArenaData(
        graph=graph,
        pieces=tuple(pieces),
        pairs=pairs,
        alignment=problem.alignment,
        pools=len(problem.pool_names),
    )


def sharing_pairs(problem: Arena) -> list[tuple[int, int, int]]:
    """Return ``(op, read, write)``: the in-place pairs that some order may let share an address.

    The op is the first writer of the write, only reads the read, which is not final, and no other access of
    the read must come later; both are in one pool. In ``replace`` such reads are gone when the write comes,
    and there are none.
    """
    graph, pool_of = problem.graph, problem.pool_of
    if graph.accounting is Accounting.REPLACE or not any(op.inplace for op in graph.ops):
        return []
    accessors, after = sequential_memory(graph).accessors, precedence(graph).descendants
    return [
        (i, r, w)
        for i, op in enumerate(graph.ops)
        for r, w in dict.fromkeys(op.inplace)
        if r not in op.writes
        and pool_of[r] == pool_of[w]
        and not graph.tensors[r].final
        and not graph.tensors[w].initial
        and accessors[w][0] == i
        and not any(after[i] >> j & 1 for j in accessors[r])
    ]
