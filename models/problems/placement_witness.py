"""Why a placement has no plan at all: one op, one moment or the start needs more bytes than there are.

An op runs in one of its modes, on a processor of a kind that the mode names, with operands in tiers that it
names: where the machine has no such processor or tier, in no mode at all.

Under the accounting ``coexist`` what an op reads and writes is resident with its workspace while it runs, in
tiers that its processor uses; under ``replace`` what it reads is there when it starts, what it writes and the
workspace while it runs. More than the capacity of those tiers cannot be.

On one processor the ops run in the reference order. Before op k a tensor has *content* if the next op that
accesses it, k or a later one, reads it, or if there is none and it is final: then its current version exists
in some tier, because nothing makes it anew. So the tensors with content before k, and under ``coexist`` what
k only writes and its workspace beside them, are in the tiers of the machine at once, and together they need
no more than all capacities. The same holds at the end. In a periodic plan every iteration is such a run.

At time 0, on any number of processors, an initial tensor has content if the first op in the reference order
that accesses it reads it, or if there is none and it is final. Each of its bytes is then in a tier where its
kind may start. So for each set of tiers, the tensors with content that may start in these only fit into them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import combinations, pairwise

from ..graph import Accounting, Graph
from ..machine import Machine


def impossible_mode(graph: Graph, machine: Machine) -> str | None:
    """Return the op that the machine cannot run in any of its modes."""
    kinds, tiers = {p.kind for p in machine.processors}, {tier.name for tier in machine.tiers}
    for k, op in enumerate(graph.ops):
        able = [mode for mode in op.all_modes if not mode.processors or kinds & {*mode.processors}]
        if not any({tier for _, tier in mode.operands} <= tiers for mode in able):
            where = f"machine {machine.name!r}"
            return f"op {k} {op.name!r}: found no mode whose processors and tiers {where} has"
    return None


def impossible_op(graph: Graph, machine: Machine) -> str | None:
    """Return the op and the bytes that fit into none of the tiers that any processor may use."""
    capacity_of = {tier.name: tier.capacity for tier in machine.tiers}
    most = 0
    for processor in machine.processors:
        capacities = [capacity_of[tier] for tier in {access.tier for access in processor.tiers}]
        if None in capacities:
            return None
        most = max(most, sum(c for c in capacities if c is not None))
    for k in range(len(graph.ops)):
        needed = _bytes_of_op(graph, k)
        if needed > most:
            return (
                f"op {k} {graph.ops[k].name!r} needs {needed} bytes at once, expected at most {most}, the "
                f"capacity of the tiers that a processor of machine {machine.name!r} uses"
            )
    return None


def impossible_moment(graph: Graph, machine: Machine) -> str | None:
    """Return the op during which all tiers together are too small for what is needed then or later."""
    capacities = [tier.capacity for tier in machine.tiers]
    if len(machine.processors) > 1 or None in capacities:
        return None
    most = sum(c for c in capacities if c is not None)
    content = _content(graph)
    for k, held in enumerate(content):
        needed = held + (_bytes_of_writes(graph, k) if k < len(graph.ops) else 0)
        if needed > most:
            where = f"op {k} {graph.ops[k].name!r}" if k < len(graph.ops) else "the end"
            return (
                f"at {where} {needed} bytes are needed then or later, expected at most {most}, the capacity "
                f"of all tiers of machine {machine.name!r}"
            )
    return None


def impossible_start(
    graph: Graph, machine: Machine, may_start: Callable[[str], Collection[str]]
) -> str | None:
    """Return tiers with more than they hold among what may start in them only."""
    first: dict[int, int] = {}
    for k, op in enumerate(graph.ops):
        for t in (*op.reads, *op.writes):
            first.setdefault(t, k)
    bound = []
    for t, tensor in enumerate(graph.tensors):
        needed = t in graph.ops[first[t]].reads if t in first else tensor.final
        if tensor.initial and needed:
            bound.append((tensor.nbytes, set(may_start(tensor.kind))))
    for many in range(len(machine.tiers) + 1):
        for some in combinations(machine.tiers, many):
            names = [tier.name for tier in some]
            capacities = [tier.capacity for tier in some]
            total = sum(nbytes for nbytes, allowed in bound if allowed.issubset(names))
            most = sum(c for c in capacities if c is not None)
            if None not in capacities and total > most:
                where = " or ".join(f"tier {name!r}" for name in names) or "no tier at all"
                return f"at time 0, {total} bytes must be in {where}, expected at most {most}"
    return None


def _bytes_of_op(graph: Graph, k: int) -> int:
    op = graph.ops[k]
    workspace = min(mode.workspace for mode in op.all_modes)
    reads = sum(graph.tensors[t].nbytes for t in set(op.reads))
    if graph.accounting is Accounting.REPLACE:
        return max(reads, workspace + sum(graph.tensors[t].nbytes for t in set(op.writes)))
    return reads + workspace + sum(graph.tensors[t].nbytes for t in {*op.writes} - {*op.reads})


def _bytes_of_writes(graph: Graph, k: int) -> int:
    """Return what an op needs beside the tensors with content before it."""
    if graph.accounting is Accounting.REPLACE:
        return 0
    op = graph.ops[k]
    workspace = min(mode.workspace for mode in op.all_modes)
    return workspace + sum(graph.tensors[t].nbytes for t in {*op.writes} - {*op.reads})


def _content(graph: Graph) -> list[int]:
    """Return the bytes of tensors with content before each op and, last, at the end."""
    n = len(graph.ops)
    accesses: list[list[int]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in {*op.reads, *op.writes}:
            accesses[t].append(k)
    change = [0] * (n + 2)
    for t, tensor in enumerate(graph.tensors):
        begun = -1 if tensor.initial else None
        ends: list[int | None] = [begun, *accesses[t], n if tensor.final else None]
        for a, b in pairwise(ends):
            if a is not None and b is not None and (b == n or t in graph.ops[b].reads):
                change[a + 1] += tensor.nbytes
                change[b + 1] -= tensor.nbytes
    held, content = 0, []
    for delta in change[: n + 1]:
        held += delta
        content.append(held)
    return content
