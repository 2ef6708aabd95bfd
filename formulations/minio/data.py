r"""Graphs whose values pass through one memory, as numbers: what the models of `minio` share.

Op v needs :math:`c_v` bytes while it runs: all values that it accesses, and its own memory. *File* k, of
:math:`f_k` bytes, is a value: the content that op :math:`u_k` gives to a tensor, or that the tensor has at
the beginning. Others read it; an op that changes the tensor reads one file and makes another one. The memory
has M bytes. Between two accesses a file is *waiting*, in a *gap*; only then are any of its bytes out of the
memory.

*Early is as good as late.* The number of bytes of a file that are out of the memory at some moment of a gap
might as well be out from its beginning to its end: they are read back for the access anyway, and the memory
is lower in between. So :math:`a_g \in [0, f_k]`, or :math:`\{0, f_k\}` for whole files, is all to know of gap
g. Which bytes does not matter, so that they are taken from the beginning of the file: what is written at all,
:math:`w_k = \max_g a_g`, is written once. Let an order of the ops be given, :math:`W_v` the gaps that are
open while v runs. The order can be executed iff

.. math:: \sum_{g \in W_v} (f_{k(g)} - a_g) + c_v \le M \text{ for each op } v.

*In-trees.* Op v has a parent, the only reader of its files: each file has one gap, and :math:`w_k = a_g`.

All numbers are multiples of `unit`; whole files only fill multiples of their common divisor, so that M may
be rounded down to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import gcd
from typing import NamedTuple

from ...models.derived.precedence import precedence
from ...models.errors import UsageError
from ...models.problems.minio import Eviction, MinIO, Traversal


@dataclass(frozen=True, kw_only=True)
class GraphData:
    """The numbers of the module's page, of any graph.

    Attributes
    ----------
    memory
        M, in bytes.
    whole
        Whether files are moved whole.
    need
        By op: c, in bytes.
    maker, size
        By file: u, -1 if it is there at the beginning, and f in bytes, at least 1.
    tensor
        By file: which tensor of the graph it is.
    users
        By file: the ops that access it after u, ascending.
    kept
        By file: whether it waits to the end, in the memory or the storage.
    clean
        By file: whether no byte of it must be written to be evicted: it begins in the storage, or its writing
        counts in `fixed`.
    traffic
        Whether bytes that are read count, as those that are written do.
    fixed
        Bytes that every traversal moves: first reads of files in the storage, and writes of final ones.
    before
        By op: those that must run before it, directly.
    """

    memory: int
    whole: bool
    need: tuple[int, ...]
    maker: tuple[int, ...]
    size: tuple[int, ...]
    tensor: tuple[int, ...]
    users: tuple[tuple[int, ...], ...] = ()
    kept: tuple[bool, ...] = ()
    clean: tuple[bool, ...] = ()
    traffic: bool = False
    fixed: int = 0
    before: tuple[tuple[int, ...], ...] = ()

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.need)

    @cached_property
    def files_of(self) -> tuple[tuple[int, ...], ...]:
        """By op: the files that it makes."""
        files: list[list[int]] = [[] for _ in self.need]
        for k, u in enumerate(self.maker):
            if u >= 0:
                files[u].append(k)
        return tuple(map(tuple, files))

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """By op: the files that it accesses and does not make."""
        files: list[list[int]] = [[] for _ in self.need]
        for k, some in enumerate(self.users):
            for u in some:
                files[u].append(k)
        return tuple(map(tuple, files))

    @property
    def first_reads(self) -> int:
        """Bytes of `fixed` that are read: those of files that begin in the storage, if reads count."""
        files = zip(self.size, self.maker, self.clean, strict=True)
        return sum(size for size, u, clean in files if u < 0 and clean) * self.traffic

    @cached_property
    def unit(self) -> int:
        """The common divisor of sizes and needs of whole files; divisible ones may be halved: a byte."""
        return (reduce(gcd, (*self.size, *self.need)) or 1) if self.whole else 1


def graph_data(problem: MinIO) -> GraphData:
    """Return the numbers of any graph.

    Raises
    ------
    UsageError
        If an op overwrites a tensor that it does not read: what waits before is of no use to anybody.

    Examples
    --------
    >>> import lowtide as lt
    >>> data = graph_data(lt.MinIO(lt.load("gen:layered?layers=2&width=2&seed=1"), memory=99))
    >>> data.size, data.users
    ((15, 16, 13, 7), ((2, 3), (3,), (), ()))
    """
    graph, stored = problem.graph, problem.stored
    files: list[tuple[int, int, list[int]]] = [(-1, t, []) for t, x in enumerate(graph.tensors) if x.initial]
    current = {t: k for k, (_, t, _) in enumerate(files)}
    need = []
    for i, op in enumerate(graph.ops):
        operands = {*op.reads, *op.writes}
        need.append(sum(graph.tensors[t].nbytes for t in operands) + op.all_modes[0].workspace)
        for t in sorted(operands & current.keys()):
            if t not in op.reads:
                raise UsageError(
                    f"minio, op {i} {op.name!r}: found tensor {t} {graph.tensors[t].name!r} overwritten "
                    "without being read, expected a tensor of its own for each value"
                )
            files[current[t]][2].append(i)
        for t in sorted(op.writes):
            current[t] = len(files)
            files.append((i, t, []))
    rows, fixed = [], 0
    for k, (u, t, users) in enumerate(files):
        nbytes, ends = graph.tensors[t].nbytes, graph.tensors[t].final and current[t] == k
        clean = stored and (u < 0 or ends)
        fixed += nbytes if clean and u >= 0 else 0
        fixed += nbytes if stored and u < 0 and users and problem.count == "traffic" else 0
        if nbytes and (users or (ends and not stored)):
            rows.append((u, nbytes, t, tuple(users), ends and not stored, clean))
    maker, size, tensor, readers, kept, clean_files = zip(*rows, strict=True) if rows else ((),) * 6
    return GraphData(
        memory=problem.memory,
        whole=problem.whole,
        need=tuple(need),
        maker=maker,
        size=size,
        tensor=tensor,
        users=readers,
        kept=kept,
        clean=clean_files,
        traffic=problem.count == "traffic",
        fixed=fixed,
        before=precedence(graph).predecessors,
    )


@dataclass(frozen=True, kw_only=True)
class MinIOData(GraphData):
    """The numbers of an in-tree of nodes, of which writes count; children have smaller indices than parents.

    Attributes
    ----------
    parent
        By node; -1 for the root. A node's files are those of `maker`, in this sequence.
    """

    parent: tuple[int, ...]

    def __post_init__(self) -> None:
        none = (False,) * len(self.size)
        users = tuple((v,) for v in self.user)
        for name, value in (("users", users), ("kept", none), ("clean", none), ("before", self.children)):
            object.__setattr__(self, name, value)

    @cached_property
    def user(self) -> tuple[int, ...]:
        """By file: p."""
        return tuple(self.parent[u] for u in self.maker)

    @cached_property
    def out(self) -> tuple[int, ...]:
        """By node: bytes of its files together."""
        return tuple(sum(self.size[k] for k in some) for some in self.files_of)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """By node, ascending."""
        children: list[list[int]] = [[] for _ in self.parent]
        for v, above in enumerate(self.parent[:-1]):
            children[above].append(v)
        return tuple(map(tuple, children))

    @cached_property
    def unit(self) -> int:
        """The common divisor of sizes and needs, and of the memory where files are divisible."""
        return reduce(gcd, (*self.size, *self.need, *(() if self.whole else (self.memory,)))) or 1


class FileGap(NamedTuple):
    """A file waits while the ops at places `begin` to `end` - 1 run; then it is read, or all ends."""

    file: int
    begin: int
    end: int
    read: bool


def gaps_of(data: GraphData, order: Sequence[int]) -> list[FileGap]:
    """Return the gaps of all files in an order, file by file; those in the storage have none before a use.

    Examples
    --------
    >>> data = MinIOData(
    ...     memory=8, whole=False, parent=(2, 2, -1), need=(4, 6, 8), maker=(0, 1), size=(4, 2), tensor=(0, 1)
    ... )
    >>> gaps_of(data, (0, 1, 2))
    [FileGap(file=0, begin=1, end=2, read=True), FileGap(file=1, begin=2, end=2, read=True)]
    """
    place = {v: step for step, v in enumerate(order)}
    listed = []
    for k, u in enumerate(data.maker):
        ends = [(place[v], True) for v in data.users[k]]
        begin = place[u] + 1 if u >= 0 else 0
        if u < 0 and data.clean[k]:
            first = min(ends)
            ends.remove(first)
            begin = first[0] + 1
        for end, read in (*sorted(ends), *([(len(order), False)] if data.kept[k] else [])):
            listed.append(FileGap(k, begin, end, read))
            begin = end + 1
    return listed


def evicted_at_once(
    data: GraphData, order: Sequence[int], gaps: Sequence[FileGap], away: Sequence[int]
) -> Traversal:
    """Return the traversal that evicts a bytes at the beginning of each gap in which a file waits at all."""
    return Traversal(
        tuple(order),
        tuple(
            Eviction(gap.begin, data.tensor[gap.file], nbytes)
            for gap, nbytes in zip(gaps, away, strict=True)
            if nbytes and gap.end > gap.begin
        ),
    )


def written_at_once(data: MinIOData, order: Sequence[int], written: Sequence[int]) -> Traversal:
    """Return the traversal of a tree that writes w bytes of each file right after its node."""
    return evicted_at_once(data, order, gaps_of(data, order), written)
