"""A graph in its reference order as the tables of the planner: ops, accesses, tensors, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....models.arrays import Integers
from ....models.graph import Accounting, Graph
from ...engines.arrays import Records
from ..world.chunks import cut
from .tables import ACCESS, BY_OP, CHUNK, OP, TENSOR

LONGEST = 2**50
"""ns that a return takes, as far as leads know: thirteen days."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Ops 0..n-1 in their order, tensors that are accessed, their chunks.

    Under ``replace`` op k of the graph is two of them: 2 k reads, in no time, and 2 k + 1 writes.

    Attributes
    ----------
    op, by_op, access, tensor, chunk
        The tables of `PlannerTables`, what changes in them zero.
    index
        Per tensor of the tables: its number in the graph.
    low
        Per chunk: its first byte within the tensor.
    """

    op: Records
    by_op: Records
    access: Records
    tensor: Records
    chunk: Records
    index: Integers
    low: Integers


def workload(
    graph: Graph,
    *,
    chunk: int,
    least: int,
    rate: int,
    lead: int,
    entry: Sequence[int],
    periodic: bool = True,
    believed: Sequence[int] | None = None,
) -> Workload:
    """Return the tables of a graph.

    Lifetimes are counted here and in `simulator.problem`: what must outlive the run has one more access here,
    at the end; there it has an absence without an end.

    Parameters
    ----------
    graph
        Its reference order is the order of execution; ops have one mode.
    chunk
        Largest chunk in bytes.
    least
        Smaller tensors stay on the device: they hardly fill memory, and each costs a copy.
    rate
        Of the channel by which tensors return, kB/s.
    lead
        Of a return, in sixteenths of the time that the tensor takes on that channel.
    entry
        Per tensor of the graph, where an input of a period starts: 1 for the device + 2 for the slow tier or
        4 for the host; 0 for all other tensors.
    periodic
        Whether the iteration is repeated; else final tensors are kept to its end, anywhere.
    believed
        Per op, the ns of the ideal clock; default: its duration.
    """
    twice = graph.accounting is Accounting.REPLACE
    n = len(graph.ops) * (1 + twice)
    accesses: list[list[tuple[int, int]]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            if not twice:
                accesses[t].append((k, int(t in op.writes)))
                continue
            accesses[t] += [(2 * k, 0)] * (t in op.reads) + [(2 * k + 1, 1)] * (t in op.writes)
    by_op: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
    if periodic:
        for t, x in enumerate(graph.tensors):
            if x.final and not x.initial and accesses[t] and accesses[t][-1][0] < n - 1:
                accesses[t].append((n - 1, 0))  # it must be there at the end
    else:
        for t, x in enumerate(graph.tensors):
            if x.final and (x.initial or accesses[t]):
                accesses[t].append((n, 0))  # it must be somewhere at the end
    kept = [t for t in range(len(graph.tensors)) if accesses[t]]
    for i, t in enumerate(kept):
        for number, (k, w) in enumerate(accesses[t]):
            if k < n:
                by_op[k].append((i, w, number))
    table = _ops(graph, by_op, believed)
    live = np.zeros(n + 2, dtype=np.int64)
    for t in kept:
        x, uses = graph.tensors[t], accesses[t]
        outlives = x.initial and x.final and periodic
        at_once = outlives or (x.initial and (entry[t] & 1 or not periodic))
        live[0 if at_once else uses[0][0]] += x.nbytes
        live[n if outlives else uses[-1][0] + 1] -= x.nbytes
    table["live"][:n] = np.cumsum(live)[:n] + table["workspace"][:n]
    tensor = np.zeros(len(kept) + 1, TENSOR)
    size = np.array([graph.tensors[t].nbytes for t in kept], dtype=np.int64)
    pieces = cut(size, chunk)
    tensor["first_access"] = _offsets([len(accesses[t]) for t in kept])
    tensor["first_chunk"] = pieces.first
    tensor["length"][:-1] = size
    tensor["movable"][:-1] = size >= least
    tensor["persistent"][:-1] = [
        periodic and graph.tensors[t].initial and graph.tensors[t].final for t in kept
    ]
    tensor["written"][:-1] = [
        max((number + 1 for number, (_, w) in enumerate(accesses[t]) if w), default=0) for t in kept
    ]
    tensor["entry"][:-1] = [entry[t] for t in kept]
    access = np.zeros(sum(len(uses) for uses in accesses), ACCESS)
    access["at"] = [k for t in kept for k, _ in accesses[t]]
    access["writes"] = [w for t in kept for _, w in accesses[t]]
    fetch = np.array(  # in Python: the product may exceed 64 bits
        [min(graph.tensors[t].nbytes * 10**6 // max(rate, 1), LONGEST) for t in kept for _ in accesses[t]],
        dtype=np.int64,
    )
    access["lead"] = _leads(access["at"], lead * fetch // 16, table["clock"])
    table["floor"] = table["live"]
    for i, t in enumerate(kept):
        if entry[t] > 1:
            first, last = tensor["first_access"][i : i + 2]
            _leave_out(table["floor"], access[first:last], int(size[i]), bool(entry[t] & 1))
    chunks = np.zeros(len(pieces.owner), CHUNK)
    chunks["owner"], chunks["length"] = pieces.owner, pieces.length
    return Workload(
        op=table,
        by_op=np.array([row for uses in by_op for row in uses], BY_OP),
        access=access,
        tensor=tensor,
        chunk=chunks,
        index=np.array(kept, dtype=np.int64),
        low=pieces.low,
    )


def _ops(
    graph: Graph, by_op: Sequence[Sequence[tuple[int, int, int]]], believed: Sequence[int] | None
) -> Records:
    """Return durations, workspace, the ideal clock and the accesses of the ops."""
    n, each = len(by_op), len(by_op) // len(graph.ops)
    modes = [op.all_modes[0] for op in graph.ops]
    table = np.zeros(n + 1, OP)
    table["duration"][each - 1 : n : each] = [m.duration_ns for m in modes]
    table["workspace"][each - 1 : n : each] = [m.workspace for m in modes]
    ideal = np.zeros(n, dtype=np.int64)
    ideal[each - 1 :: each] = table["duration"][each - 1 : n : each] if believed is None else believed
    table["clock"] = _offsets(ideal)
    table["first_access"] = _offsets([len(uses) for uses in by_op])
    return table


def _leave_out(floor: Integers, access: Records, nbytes: int, here: bool) -> None:
    """Take an input out of the floor where it could be away: in the absences of its first version.

    `here`: it starts on the device, so there is an absence before its first access.
    """
    absence = 0
    for at, writes, lead in access.tolist():
        if absence or here:
            floor[absence : max(absence, at - lead)] -= nbytes
        if writes:
            return
        absence = at + 1


def _leads(at: Integers, ns: Integers, clock: Integers) -> Integers:
    """Return per access how many ops before it, in steps back around the iteration, `ns` reach.

    Nothing must be back for the end of a single run.
    """
    n = len(clock) - 1
    turn, rest = np.divmod(clock[at] - ns, max(int(clock[n]), 1))
    boundary = np.searchsorted(clock, rest, side="right") - 1  # the last one at or before
    return np.where(at == n, 0, np.maximum(0, at - (turn * n + boundary)))


def _offsets(counts: Sequence[int] | Integers) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int64)
