r"""Checks proofs of `arena`, that no order and no addresses need less: by the peaks of another graph.

**The kind** `stacks` names a *threshold* :math:`\rho` below the alignment A, and has a proof, of a kind of
`peak`, for the graph that is made here: sizes are multiples of A, rounded down if the residue is in :math:`1,
\dots, \rho`, else up; and of tensors that some order lets share an address, a unit that all of a tree of them
have counts once. If every order of that graph has a peak of at least A K, every height is at least
:math:`A (K - 1) + \rho'`, with :math:`\rho'` the least residue of a size above :math:`\rho`, or A; of P pools
with bytes the heights sum to at least :math:`A K - P (A - \rho')`: why, is said in
`lowtide.formulations.arena.stacks`.

**The trees.** An op i may put w at the address of r if i lists the pair, is the first to write w, which is
not initial, only reads r, which is not final and in the same pool, and precedes no other op that accesses r;
not in ``replace``.
Of units between two neighbouring rounded sizes, w's *parent* is the first listed such r that has these units;
those that all other accessors of r precede i come first. The tensors of a tree are in it with all that their
parents lead to. For each different tree of two or more, in the order of its root and then of its members,
there is one further tensor: written by the first writer of its root (initial, if that is), final if a member
is, read by all other ops that access a member. Its bytes are taken from the members.

**The kind** `pools`. The height of a pool is that of an answer in which nothing else has bytes. So a bound
for each pool, proved alone for the graph in which all else has none, gives their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ...graph import KINDS, Accounting, Graph
from ...setting import ArenaSetting
from ...written import Written
from .claims import DescentsProof
from .cut import CutProof
from .executed import executed_sets, masks
from .refused import Refused
from .states import StatesProof
from .working_set import WorkingSetProof

PeakProof = WorkingSetProof | CutProof | StatesProof | DescentsProof


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksProof(Written):
    """A threshold, and a proof about the peak of the graph that it leads to."""

    kind: ClassVar[str] = "stacks"
    threshold: int
    peak: PeakProof


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsProof(Written):
    """A bound and its proof for each pool alone.

    Attributes
    ----------
    bounds
        Bytes by pool, the one of all other kinds first.
    stacks
        What proves each.
    """

    kind: ClassVar[str] = "pools"
    bounds: tuple[int, ...]
    stacks: tuple[StacksProof, ...]


def each_pool(
    graph: Graph, setting: ArenaSetting, bound: int, proof: PoolsProof
) -> Iterator[tuple[Graph, ArenaSetting, int, StacksProof]]:
    """Yield for each pool what must hold: a bound on the heights of a graph, and its proof.

    Raises
    ------
    Refused
        If there is not one for each pool, or they sum to less than the bound.
    """
    count = len(setting.pools) + 1
    if not len(proof.bounds) == len(proof.stacks) == count:
        raise Refused(
            f"pools: found {len(proof.bounds)} and {len(proof.stacks)}, expected {count}, one a pool"
        )
    total = sum(x for x in proof.bounds if x > 0)
    if total < bound:
        raise Refused(f"pools: found bounds of {total} bytes together, expected at least the bound {bound}")
    kinds = _pool_of(setting)
    for pool, (least, part) in enumerate(zip(proof.bounds, proof.stacks, strict=True)):
        tensors = tuple(t if kinds.get(t.kind, 0) == pool else replace(t, nbytes=0) for t in graph.tensors)
        ops = graph.ops
        if kinds.get("workspace", 0) != pool:
            ops = tuple(replace(op, workspace=0, modes=()) for op in ops)
        yield replace(graph, tensors=tensors, ops=ops), replace(setting, pools=()), least, part


def _pool_of(setting: ArenaSetting) -> dict[str, int]:
    """Return the pool of each kind that is not in the first.

    Raises
    ------
    Refused
        If a kind is none, or in two pools.
    """
    kinds = [kind for pool in setting.pools for kind in pool.split("+")]
    if not {*kinds} <= {*KINDS} or len({*kinds}) < len(kinds):
        raise Refused(f"pools: found {list(setting.pools)}, expected kinds of tensors, each at most once")
    return {kind: k for k, pool in enumerate(setting.pools, 1) for kind in pool.split("+")}


def stacked(graph: Graph, setting: ArenaSetting, bound: int, proof: StacksProof) -> tuple[Graph, int]:
    """Return the graph that a proof is about, and the peak that all of its orders must have.

    Raises
    ------
    Refused
        If the alignment, the threshold or the pools are none.
    """
    a, threshold = setting.alignment, proof.threshold
    if a < 1 or not 0 <= threshold < a:
        raise Refused(
            f"stacks: found threshold {threshold} of alignment {a}, expected 0 <= threshold < alignment"
        )
    pool_of = _pool_of(setting)
    workspaces = [min(mode.workspace for mode in op.all_modes) for op in graph.ops]
    residues = {size % a for size in (*(t.nbytes for t in graph.tensors), *workspaces)}
    step = min((x for x in residues if x > threshold), default=a)
    pools = [pool_of.get(t.kind, 0) for t in graph.tensors]
    filled = {pool for t, pool in zip(graph.tensors, pools, strict=True) if t.nbytes}
    filled |= {pool_of.get("workspace", 0) for size in workspaces if size}
    units = -(-(bound + len(filled) * (a - step)) // a) if bound > 0 else 0

    def rounded(size: int) -> int:
        return size // a * a + (a if size % a > threshold else 0)

    tensors = [replace(t, nbytes=rounded(t.nbytes)) for t in graph.tensors]
    parents = _parents(graph, pools)
    sizes = [t.nbytes for t in tensors]
    trees = Counter[tuple[int, ...]]()
    paired = {*parents, *(r for members_of in parents.values() for r in members_of)}
    low = 0
    for high in sorted({sizes[t] for t in paired} - {0}):
        members: dict[int, list[int]] = {}
        for t in sorted(paired):
            if sizes[t] >= high:
                members.setdefault(_root(t, parents, sizes, high), []).append(t)
        for root, members_of in members.items():
            if len(members_of) > 1:
                trees[root, *members_of] += high - low
        low = high
    reads = [list(op.reads) for op in graph.ops]
    writes = [list(op.writes) for op in graph.ops]
    users = [[i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes] for t in sorted(paired)]
    users_of = dict(zip(sorted(paired), users, strict=True))
    for (root, *members_of), nbytes in sorted(trees.items()):
        top, final = graph.tensors[root], any(graph.tensors[t].final for t in members_of)
        for i in sorted({i for t in members_of for i in users_of[t]}):
            first = not top.initial and i == users_of[root][0]
            (writes if first else reads)[i].append(len(tensors))
        tensors.append(replace(top, nbytes=nbytes, final=final))
        for t in members_of:
            tensors[t] = replace(tensors[t], nbytes=tensors[t].nbytes - nbytes)
    ops = tuple(
        replace(op, reads=tuple(r), writes=tuple(w), workspace=rounded(space), modes=(), inplace=())
        for op, r, w, space in zip(graph.ops, reads, writes, workspaces, strict=True)
    )
    return replace(graph, tensors=tuple(tensors), ops=ops), a * units


def _parents(graph: Graph, pools: list[int]) -> dict[int, list[int]]:
    """Return by tensor those whose address it may take, in the order in which they may be its parent."""
    if graph.accounting is Accounting.REPLACE or not any(op.inplace for op in graph.ops):
        return {}
    after = masks(executed_sets(graph)).descendants
    sure: dict[int, list[int]] = {}
    unsure: dict[int, list[int]] = {}
    for i, op in enumerate(graph.ops):
        for r, w in dict.fromkeys(op.inplace):
            users = [j for j, x in enumerate(graph.ops) if r in x.reads or r in x.writes]
            first = next(j for j, x in enumerate(graph.ops) if w in x.writes)
            if r in op.writes or graph.tensors[r].final or graph.tensors[w].initial or first != i:
                continue
            if pools[r] != pools[w]:
                continue
            if not any(after[i] >> j & 1 for j in users):
                earlier = all(j == i or after[j] >> i & 1 for j in users)
                (sure if earlier else unsure).setdefault(w, []).append(r)
    return {w: [*sure.get(w, ()), *unsure.get(w, ())] for w in {**sure, **unsure}}


def _root(t: int, parents: dict[int, list[int]], sizes: list[int], high: int) -> int:
    """Return where the parents of a tensor lead to, in the units below `high`."""
    while (parent := next((r for r in parents.get(t, ()) if sizes[r] >= high), None)) is not None:
        t = parent
    return t
