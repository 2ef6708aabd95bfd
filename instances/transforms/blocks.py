"""Coarser graphs: consecutive ops in blocks, each of them one op."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from ...models.errors import InstanceError
from ...models.graph import Graph, Op
from ...models.work import together


def in_blocks(graph: Graph, many: int) -> Graph:
    """Return the graph whose ops are blocks of consecutive ops of the reference order, of like durations.

    A block reads what its ops read from outside, writes what others need of what they write, and takes as
    long as they do together. Its memory is that of its ops or more: what it reads and writes it holds for all
    of its time; tensors that only its ops access become workspace, as much as is live of them at once, with
    the workspace of its ops.

    Parameters
    ----------
    graph
        Its ops have one mode each.
    many
        Number of blocks, at most that of the ops.

    Raises
    ------
    InstanceError
        If there are fewer ops, or an op has several modes.
    """
    if not 1 <= many <= len(graph.ops):
        raise InstanceError(
            f"blocks: found {many}, expected 1 to {len(graph.ops)}, the ops of {graph.name!r}"
        )
    for k, op in enumerate(graph.ops):
        if len(op.all_modes) > 1 or op.all_modes[0].operands or op.all_modes[0].processors:
            raise InstanceError(f"blocks, op {k} {op.name!r}: found modes, expected one way to run it")
    firsts = _firsts([op.all_modes[0].duration_ns for op in graph.ops], many)
    blocks = [range(a, b) for a, b in zip(firsts, [*firsts[1:], len(graph.ops)], strict=True)]
    owner = [number for number, block in enumerate(blocks) for _ in block]
    seen: list[set[int]] = [set() for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in (*op.reads, *op.writes):
            seen[t].add(owner[k])
    inner = {
        t
        for t, tensor in enumerate(graph.tensors)
        if len(seen[t]) == 1 and not tensor.initial and not tensor.final
    }
    kept = [t for t in range(len(graph.tensors)) if t not in inner]
    number = {t: i for i, t in enumerate(kept)}
    return Graph(
        name=f"{graph.name} in {many} blocks",
        tensors=tuple(graph.tensors[t] for t in kept),
        ops=tuple(_block(graph, block, owner, inner, number) for block in blocks),
        accounting=graph.accounting,
        provenance={**graph.provenance, "blocks": many},
    )


def _firsts(durations: Sequence[int], many: int) -> list[int]:
    """Return the first op of each block: where a new part of the time begins, but no block is empty."""
    ends, n = list(accumulate(durations)), len(durations)
    firsts = [0]
    for j in range(1, many):
        wanted = bisect_left(ends, ends[-1] * j // many) + 1
        firsts.append(min(max(wanted, firsts[-1] + 1), n - (many - j)))
    return firsts


def _block(graph: Graph, block: range, owner: Sequence[int], inner: set[int], number: dict[int, int]) -> Op:
    """Return the op of a block."""
    reads, writes, after = set[int](), set[int](), set[int]()
    last: dict[int, int] = {}
    for k in block:
        op = graph.ops[k]
        reads |= {t for t in op.reads if t not in writes and t not in inner}
        writes |= set(op.writes) - inner
        after |= {owner[j] for j in op.after if j not in block}
        last.update(dict.fromkeys([t for t in (*op.reads, *op.writes) if t in inner], k))
    live, most = set[int](), 0
    for k in block:
        op = graph.ops[k]
        live |= {t for t in op.writes if t in inner}
        most = max(most, op.all_modes[0].workspace + sum(graph.tensors[t].nbytes for t in live))
        live = {t for t in live if last[t] > k}
    only = [graph.ops[k] for k in block]
    return Op(
        name=only[0].name if len(only) == 1 else f"{only[0].name} to {only[-1].name}",
        kind=only[0].kind if len(only) == 1 else "block",
        duration_ns=sum(op.all_modes[0].duration_ns for op in only),
        workspace=most,
        reads=tuple(sorted(number[t] for t in reads)),
        writes=tuple(sorted(number[t] for t in writes)),
        after=tuple(sorted(after)),
        work=together(op.all_modes[0].work or op.work for op in only),
    )
