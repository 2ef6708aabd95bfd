r"""Memory of sequential executions: the accounting of the design as arrays.

When each op runs once and precedence holds, the memory between two ops depends only on the set S of
ops executed so far (a downset). Let F(t) be the first writer of tensor t and A(t) all ops that access
it. Tensor t is live after S iff

    (t initial or F(t) in S)  and  (t final or A(t) not a subset of S),

for initial tensors that are accessed or final; others that nobody accesses are never live. So
M(S) = sum of nbytes over live tensors. While op i runs after S,

* ``coexist``: every read and write and the workspace are resident: M(S) + first_bytes(i) + workspace(i),
  where first_bytes(i) sums the non-initial tensors whose first writer is i;
* ``replace``: reads that die with i, unless i writes them or they are final, are gone when its writes
  appear; what i writes stays to its end: M(S + i) + dead_bytes(i) + workspace(i), where dead_bytes(i)
  sums the non-final tensors that i writes and nobody accesses later.

The memory must also hold what is there before the first op, M of the empty set. So the *peak* of an order
is the largest of that and of the memory while each op runs. In ``coexist`` the first op needs no less; in
``replace`` it may.

Both are "M of a downset plus a constant of i": `during_extra` is added to M before i (coexist),
`after_extra` to M after i (replace). dead_bytes(i) is a constant because a last access that writes
follows, by write-after-read and write-after-write, every other access of the tensor.

The workspace of an op with several modes is its least: the peak only grows with it.

M is submodular on downsets: it is modular, sum over t of nbytes(t) [F(t) in S], minus the supermodular
function sum over non-final t of nbytes(t) [A(t) subset of S]. The reductions of exact methods rest on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..graph import Accounting

if TYPE_CHECKING:
    from ..graph import Graph


@dataclass(frozen=True)
class SequentialMemory:
    """The arrays of the module's page of mathematics; all bytes.

    Attributes
    ----------
    initial_bytes
        M of the empty set: what is there before the first op.
    first_bytes
        Per op: bytes of non-initial tensors that it is the first to write.
    during_extra
        Per op, ``coexist``: what is added to M before the op while it runs (None for ``replace``).
    after_extra
        Per op, ``replace``: what is added to M after the op while it runs (None for ``coexist``).
    accessors
        Per tensor: the ops that read or write it, ascending; empty if it is never live.
    sizes
        Per tensor: nbytes.
    mortal
        Per tensor: True if it dies once all accessors have run (it is accessed and not final).
    accessed
        Per op: the mortal tensors with at least one byte that it accesses.
    """

    initial_bytes: int
    first_bytes: tuple[int, ...]
    during_extra: tuple[int, ...] | None
    after_extra: tuple[int, ...] | None
    accessors: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    mortal: tuple[bool, ...]
    accessed: tuple[tuple[int, ...], ...]

    def profile(self, order: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the memory during and after each op of a valid order, in the order's sequence.

        The order is not checked (`lowtide.models.derived.precedence.check_order` does).
        """
        left = [len(a) for a in self.accessors]
        now = self.initial_bytes
        during, after = [], []
        for i in order:
            before = now
            now += self.first_bytes[i]
            for t in self.accessed[i]:
                left[t] -= 1
                if left[t] == 0:
                    now -= self.sizes[t]
            if self.during_extra is not None:
                during.append(before + self.during_extra[i])
            else:
                assert self.after_extra is not None
                during.append(now + self.after_extra[i])
            after.append(now)
        return during, after

    def peak(self, order: Sequence[int]) -> int:
        """Return the peak memory of a valid order, what is there before the first op included."""
        during, _ = self.profile(order)
        return max([self.initial_bytes, *during])

    @cached_property
    def reference_peak(self) -> int:
        """The peak memory of the reference order."""
        return self.peak(range(len(self.first_bytes)))


def sequential_memory(graph: Graph) -> SequentialMemory:
    """Return the arrays of the graph (computed once, kept with it).

    Examples
    --------
    >>> from lowtide import Graph, Op, Tensor
    >>> graph = Graph(
    ...     name="chain",
    ...     tensors=(Tensor(name="x", nbytes=3), Tensor(name="y", nbytes=5)),
    ...     ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    ... )
    >>> sequential_memory(graph).profile((0, 1))
    ([3, 8], [3, 0])
    """
    known = graph.__dict__.get("_sequential_memory")
    if known is None:
        known = _derive(graph)
        graph.__dict__["_sequential_memory"] = known
    assert isinstance(known, SequentialMemory)
    return known


def _derive(graph: Graph) -> SequentialMemory:
    n_ops = len(graph.ops)
    accessors: list[list[int]] = [[] for _ in graph.tensors]
    first_bytes = [0] * n_ops
    last_write = [-1] * len(graph.tensors)
    written = [t.initial for t in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes} if op.reads and op.writes else op.reads or op.writes:
            accessors[t].append(i)
        for t in op.writes:
            last_write[t] = i
            if not written[t]:
                written[t] = True
                first_bytes[i] += graph.tensors[t].nbytes
    mortal = tuple(bool(a) and not t.final for t, a in zip(graph.tensors, accessors, strict=True))
    accessed: list[list[int]] = [[] for _ in graph.ops]
    dead_bytes = [0] * n_ops
    for t, tensor in enumerate(graph.tensors):
        if mortal[t] and tensor.nbytes:
            for i in accessors[t]:
                accessed[i].append(t)
            if last_write[t] == accessors[t][-1]:
                dead_bytes[last_write[t]] += tensor.nbytes
    workspace = [op.least_workspace for op in graph.ops]
    coexist = graph.accounting is Accounting.COEXIST
    return SequentialMemory(
        initial_bytes=sum(
            t.nbytes for t, a in zip(graph.tensors, accessors, strict=True) if t.initial and (a or t.final)
        ),
        first_bytes=tuple(first_bytes),
        during_extra=tuple(map(sum, zip(first_bytes, workspace, strict=True))) if coexist else None,
        after_extra=None if coexist else tuple(map(sum, zip(dead_bytes, workspace, strict=True))),
        accessors=tuple(tuple(a) for a in accessors),
        sizes=tuple(t.nbytes for t in graph.tensors),
        mortal=mortal,
        accessed=tuple(tuple(a) for a in accessed),
    )
