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

    coexist:  M(S) + bytes of the tensors that it is the first to write + workspace,
    replace:  M(S + v) + bytes of the tensors that it writes last, not final + workspace,           (3)

a constant extra(v) of the op over M before or after it. In `replace`, (3) holds because reads that die
with v are gone and what v writes stays to its end.

By (2) M is **submodular** on executed sets: M(X | Y) + M(X & Y) <= M(X) + M(Y).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..graph import Accounting, Graph
from .refused import Refused

LARGEST = 20_000
"""Proofs that need all ancestors (n^2 / 8 bytes) are refused beyond this number of ops."""


def members(mask: int) -> Iterator[int]:
    """Yield the ops of a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, kw_only=True)
class Executed:
    """The numbers of (2) and (3), bytes, and the precedence as masks.

    Attributes
    ----------
    start
        M of the empty set.
    gain, extra
        Per op.
    extra_before
        Whether extra is added to M before the op (`coexist`), else to M after it.
    groups, group_bytes, group_names
        Per group: mask of its ops, bytes, and the first of its tensors.
    groups_of
        Per op: the groups that it is in, by number.
    before, after
        Per op: masks of the ops that directly precede and follow it (none that others imply).
    ancestors, descendants
        The same, transitively.
    """

    start: int
    gain: tuple[int, ...]
    extra: tuple[int, ...]
    extra_before: bool
    groups: tuple[int, ...]
    group_bytes: tuple[int, ...]
    group_names: tuple[int, ...]
    groups_of: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of ops."""
        return len(self.gain)

    @property
    def everything(self) -> int:
        """The mask of all ops."""
        return (1 << self.n) - 1

    def memory(self, done: int) -> int:
        """Return M of an executed set."""
        total = self.start + sum(self.gain[v] for v in members(done))
        return total - sum(
            nbytes for g, nbytes in zip(self.groups, self.group_bytes, strict=True) if not g & ~done
        )

    def adds_extra_before(self, backward: bool) -> bool:
        """Return whether a step costs extra + M where it begins (else where it ends)."""
        return self.extra_before != backward


def executed_sets(graph: Graph) -> Executed:
    """Return the numbers of a graph.

    Raises
    ------
    Refused
        If the graph has more than `LARGEST` ops.
    """
    n = len(graph.ops)
    if n > LARGEST:
        raise Refused(f"the graph has {n:,} ops; this kind of proof is checked up to {LARGEST:,}")
    accessors: list[list[int]] = [[] for _ in graph.tensors]
    writers: list[list[int]] = [[] for _ in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            accessors[t].append(i)
        for t in op.writes:
            writers[t].append(i)
    before = _before(graph, accessors)
    after = [0] * n
    ancestors, descendants = [0] * n, [0] * n
    for j in range(n):
        implied = 0
        for i in members(before[j]):
            implied |= ancestors[i]
        ancestors[j] = before[j] | implied
        before[j] &= ~implied
        for i in members(before[j]):
            after[i] |= 1 << j
    for i in reversed(range(n)):
        for j in members(after[i]):
            descendants[i] |= descendants[j] | 1 << j
    first = [0] * n
    dead = [0] * n
    start = 0
    gain = [0] * n
    bytes_of: dict[int, int] = {}
    names: dict[int, int] = {}
    for t, tensor in enumerate(graph.tensors):
        if tensor.initial:
            start += tensor.nbytes if accessors[t] or tensor.final else 0
        elif writers[t]:
            first[writers[t][0]] += tensor.nbytes
        if tensor.final or not accessors[t] or not tensor.nbytes:
            continue
        if writers[t] and writers[t][-1] == accessors[t][-1]:
            dead[writers[t][-1]] += tensor.nbytes
        covered, last = 0, 0
        for i in reversed(accessors[t]):
            if not covered >> i & 1:
                last |= 1 << i
                covered |= ancestors[i]
        if last & last - 1:
            bytes_of[last] = bytes_of.get(last, 0) + tensor.nbytes
            names.setdefault(last, t)
        else:
            gain[last.bit_length() - 1] -= tensor.nbytes
    groups_of: list[list[int]] = [[] for _ in range(n)]
    for number, group in enumerate(bytes_of):
        for i in members(group):
            groups_of[i].append(number)
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
        groups_of=tuple(map(tuple, groups_of)),
        before=tuple(before),
        after=tuple(after),
        ancestors=tuple(ancestors),
        descendants=tuple(descendants),
    )


def _before(graph: Graph, accessors: list[list[int]]) -> list[int]:
    """Return for each op the mask of the ops that the precedence puts directly before it."""
    before = [sum(1 << i for i in set(op.after)) for op in graph.ops]
    for t, some in enumerate(accessors):
        read_or_written, written = 0, 0
        for j in some:
            if t in graph.ops[j].writes:
                before[j] |= read_or_written
                written |= 1 << j
            else:
                before[j] |= written
            read_or_written |= 1 << j
    return before
