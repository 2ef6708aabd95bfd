r"""A bound on the height of every order and allocation: the least peak of a graph with fewer bytes.

**Without alignment and in-place pairs** what is there at one time has disjoint addresses within the height,
so the height is at least the peak of the order, and at least the least peak over all orders.

**Alignment.** Let all addresses be multiples of A. Fix a *threshold* :math:`\rho \in \{0, \dots, A - 1\}`,
and round each size s to a multiple of A: down if its residue :math:`s \bmod A` is in :math:`1, \dots, \rho`,
else up; :math:`A \lfloor s \rceil_\rho` is the rounded size. Let A K be the least peak with these sizes, over
all orders. Then the height is more than :math:`A (K - 1) + \rho`.

*Proof.* At some moment of the order, what is there has :math:`\sum_x \lfloor s_x \rceil_\rho \ge K`. Let b be
the highest of it. All others lie below b, at multiples of A, so that each takes
:math:`\lceil s_x / A \rceil` units of its own: the height is at least
:math:`A \sum_{x \ne b} \lceil s_x / A \rceil + s_b`. If the residue of b is in :math:`1, \dots, \rho`, that
is at least :math:`A (K - \lfloor s_b / A \rfloor) + s_b > A K`. Else
:math:`s_b > A (\lceil s_b / A \rceil - 1) + \rho`, and the sum over all x is at least K, which gives the
claim.

The height is the end of a buffer, so that its residue is 0 or that of some size: it is at least
:math:`A (K - 1) + \rho'`, where :math:`\rho'` is the least residue of a size above :math:`\rho`, or A if
there is none. A height of this form can only be refuted further with a larger threshold; so one threshold
tells whether a given height is least by this argument (`threshold_for`).

**Pools.** What is there in pool g has :math:`K_g` units at that moment, so that its height is at least
:math:`A (K_g - 1) + \rho'` (also if nothing is there). Of P pools that have bytes, the heights sum to at
least :math:`A K - P (A - \rho')`. Besides, each pool alone is a case of its own: the bounds of cases with
the bytes of one pool each sum to a bound, too (`apart`).

**In-place pairs.** Rounding is monotone: of two that share an address, which take the larger of their sizes,
the larger one's rounded size is the larger. Take the rounded sizes in layers: layer h holds the units
:math:`[h, h + 1)` of each size above h. In each layer, each w that may be made in place
(`sharing_pairs`) gets as *parent* one of the reads whose address it may take and whose size is above h, if
there is one. Trees of parents count once in their layer, as long as one of their tensors is there.

*Proof that this is no more than what is occupied.* At a moment, let N tensors with a size above h be there.
If op i runs, those that share an address are disjoint pairs (r, w) with w made by i: two reads at one address
are both there, as are two writes, and are no pair. So they occupy at least :math:`N - u` units of the layer,
u the pairs with both sizes above h. Each of these u writes has a parent, which i reads, so that it is there,
too: the N tensors fall into at most :math:`N - u` trees. Between ops nothing is shared, and there are at most
N trees.

A tree is there from its root's first writer (or from the first) to the last access of any of its tensors:
each w comes while its parent is there. So a tree is one tensor, written by that first writer and
read by all other ops that access one of its tensors, which asks for no new precedence: each of
these ops follows the root's first writer. The tensors themselves stay, with the bytes that are in no tree of
two.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from ...models.derived.memory import sequential_memory
from ...models.derived.precedence import precedence
from ...models.graph import Graph, Op, Tensor
from ...models.problems.arena import Arena
from .data import sharing_pairs


@dataclass(frozen=True, kw_only=True)
class Stacks:
    """A graph whose peaks, by `to_height`, bound heights: all sizes are multiples of `alignment`.

    Attributes
    ----------
    graph
        The same ops by number, so that orders of one are orders of the other.
    step
        Bytes that the topmost unit has at least: the residue behind the threshold.
    pools
        How many pools have bytes.
    """

    graph: Graph
    alignment: int
    step: int
    pools: int

    def to_height(self, peak: int) -> int:
        """Return the least height that a bound on the peak of `graph` allows."""
        units = -(-peak // self.alignment)
        return max(0, self.alignment * units - self._open) if units else 0

    def to_peak(self, height: int) -> int:
        """Return the least peak that proves a height."""
        return -(-(height + self._open) // self.alignment) * self.alignment if height > 0 else 0

    @property
    def _open(self) -> int:
        return self.pools * (self.alignment - self.step)


def threshold_for(problem: Arena, height: int) -> int:
    """Return the threshold at which a bound may reach a height that ends with some buffer.

    Of several pools it is one to try, as the bound may reach their sum at another.
    """
    residue = (height - 1) % problem.alignment + 1
    return max((x for x in _residues(problem) if x < residue), default=0)


def apart(problem: Arena) -> list[Arena]:
    """Return a problem for each pool, in which all else has no bytes."""
    if not problem.pools:
        return [problem]
    graph, pool_of = problem.graph, problem.pool_of
    many = len(graph.tensors)
    found = []
    for pool in range(len(problem.pool_names)):
        tensors = tuple(
            t if p == pool else replace(t, nbytes=0) for t, p in zip(graph.tensors, pool_of, strict=False)
        )
        ops = tuple(
            op if p == pool else replace(op, workspace=0, modes=())
            for op, p in zip(graph.ops, pool_of[many:], strict=True)
        )
        found.append(replace(problem, graph=replace(graph, tensors=tensors, ops=ops), pools=""))
    return found


def stacks(problem: Arena, threshold: int = 0) -> Stacks:
    """Return the graph of the page of mathematics for a threshold.

    Examples
    --------
    >>> import lowtide as lt
    >>> found = stacks(lt.Arena(lt.load("catalogue:diamond"), 4))
    >>> [t.nbytes for t in found.graph.tensors], found.to_height(24)
    ([4, 4, 4, 4], 21)
    """
    graph, alignment, pairs = problem.graph, problem.alignment, sharing_pairs(problem)
    plain = alignment == 1 and not pairs and not any(op.modes or op.inplace for op in graph.ops)

    def rounded(size: int) -> int:
        units, residue = divmod(size, alignment)
        return alignment * (units + (residue > threshold))

    steps = [x for x in _residues(problem) if x > threshold]
    sizes = (*(t.nbytes for t in graph.tensors), *(op.least_workspace for op in graph.ops))
    pools = len({pool for size, pool in zip(sizes, problem.pool_of, strict=True) if size})
    if not plain:  # else it is the graph of the problem, whose precedence is kept with it
        tensors = tuple(replace(t, nbytes=rounded(t.nbytes)) for t in graph.tensors)
        ops = (replace(op, workspace=rounded(op.least_workspace), modes=(), inplace=()) for op in graph.ops)
        graph = _merged(replace(graph, tensors=tensors, ops=tuple(ops)), pairs)
    return Stacks(graph=graph, alignment=alignment, step=min(steps, default=alignment), pools=pools)


def _residues(problem: Arena) -> list[int]:
    graph = problem.graph
    sizes = {*(t.nbytes for t in graph.tensors), *(op.least_workspace for op in graph.ops)}
    return sorted({s % problem.alignment for s in sizes} - {0})


def _merged(graph: Graph, pairs: list[tuple[int, int, int]]) -> Graph:
    """Return the graph with a tensor for each tree of two or more."""
    sizes = [t.nbytes for t in graph.tensors]
    accessors = sequential_memory(graph).accessors
    before = precedence(graph).ancestors if pairs else ()
    reads: dict[int, list[int]] = defaultdict(list)
    for surely in (True, False):  # first those that die with the op in every order
        for i, r, w in pairs:
            if surely == all(j == i or before[i] >> j & 1 for j in accessors[r]) and sizes[r] and sizes[w]:
                reads[w].append(r)
    trees: dict[tuple[int, ...], int] = defaultdict(int)
    for low, high, members in _layers(reads, sizes):
        root: dict[int, int] = {}
        for t in sorted(members, key=lambda t: accessors[t][0] if not graph.tensors[t].initial else -1):
            root[t] = next((root[r] for r in reads.get(t, ()) if sizes[r] >= high), t)
        of_root: dict[int, list[int]] = defaultdict(list)
        for t in members:
            of_root[root[t]].append(t)
        for r, some in of_root.items():
            if len(some) > 1:
                trees[r, *sorted(some)] += high - low
    left = list(sizes)
    extra: list[Tensor] = []
    new_reads: list[list[int]] = [[] for _ in graph.ops]
    new_writes: list[list[int]] = [[] for _ in graph.ops]
    for (r, *some), nbytes in sorted(trees.items()):
        m = len(sizes) + len(extra)
        top = graph.tensors[r]
        final = any(graph.tensors[t].final for t in some)
        extra.append(replace(top, nbytes=nbytes, final=final))
        first = None if top.initial else accessors[r][0]
        for i in sorted({i for t in some for i in accessors[t]}):
            (new_writes if i == first else new_reads)[i].append(m)
        for t in some:
            left[t] -= nbytes
    if not extra:
        return graph
    ops: list[Op] = [
        replace(op, reads=(*op.reads, *new_reads[i]), writes=(*op.writes, *new_writes[i]))
        for i, op in enumerate(graph.ops)
    ]
    tensors = (*(replace(t, nbytes=x) for t, x in zip(graph.tensors, left, strict=True)), *extra)
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _layers(reads: dict[int, list[int]], sizes: list[int]) -> list[tuple[int, int, list[int]]]:
    """Return layers of like units, as low and high ends, of tensors that pairs connect, with those above."""
    root: dict[int, int] = {}

    def find(t: int) -> int:
        while root.setdefault(t, t) != t:
            t = root[t]
        return t

    for w, some in reads.items():
        for r in some:
            root[find(r)] = find(w)
    groups: dict[int, list[int]] = defaultdict(list)
    for t in sorted(root):
        groups[find(t)].append(t)
    found = []
    for some in groups.values():
        low = 0
        for high in sorted({sizes[t] for t in some}):
            found.append((low, high, [t for t in some if sizes[t] >= high]))
            low = high
    return found
