r"""Memory of executed sets, derived from the raw fields of a graph alone.

Each op runs once. Op i must precede op j, listed later, if j lists it in `after`, or both access a
tensor and one of them writes it. An *executed set* S is closed under that: with an op it has all that
precede it. A tensor t, accessed by the ops A(t), first written by F(t), is resident after S iff

    (t is initial, or F(t) in S)  and  (t is final, or A(t) is not a subset of S),                  (1)

initial tensors only if they are accessed or final. M(S) is the sum of their bytes. An accessor that
precedes another accessor of the same tensor can be left out of A(t): S has it with the other one.
What is left are the *last accessors*. With F(t) adding its bytes, and tensors with a single last accessor
taking theirs away there,

    M(S) = start + sum of gain(v) over v in S - sum of bytes(g) over groups g with all its ops in S,    (2)

where a *group* are the tensors with the same two or more last accessors. While op v runs between S and S
+ v, it holds

    | coexist: M(S) + bytes of the tensors that it is the first to write + workspace,
    | replace: M(S + v) + bytes of the tensors that it writes last, not final + workspace,          (3)

a constant extra(v) of the op over M before or after it. In `replace`, (3) holds because reads that die
with v are gone and what v writes stays to its end.

On graphs of more than `LARGEST` ops only direct predecessors are left out of A(t), which changes nothing but
the form of (2).

By (2) M is **submodular** on executed sets: M(X | Y) + M(X & Y) <= M(X) + M(Y).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...graph import Accounting, Graph
from .refused import Refused

LARGEST = 20_000
"""Beyond this number of ops there are no masks (n^2 / 8 bytes each)."""

Lists = tuple[tuple[int, ...], ...]


def members(mask: int) -> Iterator[int]:
    """Yield the ops of a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(ops: Sequence[int]) -> int:
    """Return some different ops as a mask."""
    return sum(1 << v for v in ops)


@dataclass(frozen=True, kw_only=True)
class Executed:
    """The numbers of (2) and (3), bytes, and the precedence.

    Attributes
    ----------
    start
        M of the empty set.
    gain, extra
        Per op.
    extra_before
        Whether extra is added to M before the op (`coexist`), else to M after it.
    groups, group_bytes, group_names
        Per group: its ops, bytes, and the first of its tensors.
    before, after
        Per op: the ops that directly precede and follow it.
    """

    start: int
    gain: tuple[int, ...]
    extra: tuple[int, ...]
    extra_before: bool
    groups: Lists
    group_bytes: tuple[int, ...]
    group_names: tuple[int, ...]
    before: Lists
    after: Lists

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.gain)

    def memory(self, done: set[int]) -> int:
        """Return M of an executed set."""
        freed = sum(b for g, b in zip(self.groups, self.group_bytes, strict=True) if done.issuperset(g))
        return self.start + sum(self.gain[v] for v in done) - freed

    def adds_extra_before(self, backward: bool) -> bool:
        """Return whether a step costs extra + M where it begins (else where it ends)."""
        return self.extra_before != backward


@dataclass(frozen=True, kw_only=True)
class Masks:
    """Sets of ops as bit masks.

    Attributes
    ----------
    before, after
        Per op, as in `Executed`.
    ancestors, descendants
        The same, transitively.
    groups
        Per group: its ops.
    groups_of
        Per op: the numbers of its groups.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    groups: tuple[int, ...]
    groups_of: Lists

    @property
    def everything(self) -> int:
        """The mask of all ops."""
        return (1 << len(self.before)) - 1


def masks(sets: Executed) -> Masks:
    """Return the sets of a graph as masks.

    Raises
    ------
    Refused
        If it has more than `LARGEST` ops.
    """
    if sets.n > LARGEST:
        raise Refused(f"the graph has {sets.n:,} ops; this kind of proof is checked up to {LARGEST:,}")
    groups_of: list[list[int]] = [[] for _ in range(sets.n)]
    for number, group in enumerate(sets.groups):
        for v in group:
            groups_of[v].append(number)
    return Masks(
        before=tuple(map(mask_of, sets.before)),
        after=tuple(map(mask_of, sets.after)),
        ancestors=tuple(_closure(sets.before, range(sets.n))),
        descendants=tuple(_closure(sets.after, range(sets.n - 1, -1, -1))),
        groups=tuple(map(mask_of, sets.groups)),
        groups_of=tuple(map(tuple, groups_of)),
    )


def _accesses(graph: Graph) -> tuple[list[list[int]], list[list[int]]]:
    """Return by tensor the ops that access it, and those that write it."""
    accessors: list[list[int]] = [[] for _ in graph.tensors]
    writers: list[list[int]] = [[] for _ in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            accessors[t].append(i)
        for t in op.writes:
            writers[t].append(i)
    return accessors, writers


def executed_sets(graph: Graph) -> Executed:
    """Return the numbers of a graph."""
    n = len(graph.ops)
    accessors, writers = _accesses(graph)
    before = _before(graph)
    ancestors = _closure(before, range(n)) if n <= LARGEST else None
    gain, dead, first, start = [0] * n, [0] * n, [0] * n, 0
    bytes_of: dict[tuple[int, ...], int] = {}
    names: dict[tuple[int, ...], int] = {}
    for t, tensor in enumerate(graph.tensors):
        if tensor.initial:
            start += tensor.nbytes if accessors[t] or tensor.final else 0
        elif writers[t]:
            first[writers[t][0]] += tensor.nbytes
        if tensor.final or not accessors[t] or not tensor.nbytes:
            continue
        if writers[t] and writers[t][-1] == accessors[t][-1]:
            dead[writers[t][-1]] += tensor.nbytes
        last = _last(accessors[t], before, ancestors)
        if len(last) > 1:
            bytes_of[last] = bytes_of.get(last, 0) + tensor.nbytes
            names.setdefault(last, t)
        else:
            gain[last[0]] -= tensor.nbytes
    if ancestors is not None:
        before = [_last(some, before, ancestors) for some in before]
    after: list[list[int]] = [[] for _ in range(n)]
    for j, some in enumerate(before):
        for i in some:
            after[i].append(j)
    coexist = graph.accounting is Accounting.COEXIST
    workspace = (min(mode.workspace for mode in op.all_modes) for op in graph.ops)
    return Executed(
        start=start,
        gain=tuple(map(sum, zip(gain, first, strict=True))),
        extra=tuple(map(sum, zip(first if coexist else dead, workspace, strict=True))),
        extra_before=coexist,
        groups=tuple(bytes_of),
        group_bytes=tuple(bytes_of.values()),
        group_names=tuple(names.values()),
        before=tuple(map(tuple, before)),
        after=tuple(map(tuple, after)),
    )


def _before(graph: Graph) -> list[tuple[int, ...]]:
    """Return for each op those directly before it: others follow from these."""
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}  # since the last write
    before = []
    for j, op in enumerate(graph.ops):
        direct = {*op.after, *(writer[t] for t in (*op.reads, *op.writes) if t in writer)}
        for t in op.writes:
            direct.update(readers.get(t, ()))
            writer[t], readers[t] = j, []
        for t in op.reads:
            if writer.get(t) != j:
                readers.setdefault(t, []).append(j)
        before.append(tuple(sorted(direct)))
    return before


def _closure(near: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Return for each op the mask of those that it can reach; `order` has these before it."""
    reached = [0] * len(near)
    for j in order:
        for i in near[j]:
            reached[j] |= reached[i] | 1 << i
    return reached


def _last(
    ops: Sequence[int], before: Sequence[Sequence[int]], ancestors: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the ops that precede no other of them, ascending; without ancestors, as far as edges tell."""
    if len(ops) < 2:
        return tuple(ops)
    if ancestors is None:
        earlier = {i for j in ops for i in before[j]}
        return tuple(j for j in ops if j not in earlier)
    covered, last = 0, []
    for j in reversed(ops):
        if not covered >> j & 1:
            last.append(j)
            covered |= ancestors[j]
    return tuple(reversed(last))
