"""A graph in its reference order as the flat arrays of the planner: accesses, chunks, live bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.graph import Graph

Integers = NDArray[np.int64]


class Workload(NamedTuple):
    """Ops 0..n-1 in their order, tensors that are accessed, their chunks.

    Attributes
    ----------
    duration, workspace, starts
        Per op: ns, bytes; starts has n + 1 entries, the ideal clock.
    live
        Per op: bytes live while it runs (inputs on the slow tier count from their first use).
    op_first, op_tensor, op_write
        Accesses of each op.
    access_first, access_op, access_write
        Accesses of each tensor, ascending.
    size, fetch, movable, persistent, entry
        Per tensor: bytes; ns that its return takes; whether it may leave the device; whether it outlives the
        iteration; 1 if it is an input that starts on the device, 2 on the slow tier, else 0.
    chunk_first, chunk_low, chunk_bytes, owner
        Chunks of each tensor: first byte, bytes, tensor.
    read_only
        Persistent tensors that nobody writes.
    tensor
        Index in the graph.
    """

    duration: Integers
    workspace: Integers
    starts: Integers
    live: Integers
    op_first: Integers
    op_tensor: Integers
    op_write: Integers
    access_first: Integers
    access_op: Integers
    access_write: Integers
    size: Integers
    fetch: Integers
    movable: Integers
    persistent: Integers
    entry: Integers
    chunk_first: Integers
    chunk_low: Integers
    chunk_bytes: Integers
    owner: Integers
    read_only: Integers
    tensor: Integers


def workload(graph: Graph, chunk: int, least: int, rate: int, entry: Sequence[int]) -> Workload:
    """Return the arrays of a graph.

    Parameters
    ----------
    graph
        Its reference order is the order of execution.
    chunk
        Largest chunk in bytes.
    least
        Smaller tensors stay on the device: they hardly fill memory, and each costs a copy.
    rate
        Of the channel by which tensors return, kB/s.
    entry
        Per tensor of the graph, where an input starts (see `Workload.entry`).
    """
    n = len(graph.ops)
    accesses: list[list[tuple[int, int]]] = [[] for _ in graph.tensors]
    for k, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            accesses[t].append((k, int(t in op.writes)))
    for t, tensor in enumerate(graph.tensors):
        if tensor.final and not tensor.initial and accesses[t] and accesses[t][-1][0] < n - 1:
            accesses[t].append((n - 1, 0))  # it must be there at the end
    kept = [t for t in range(len(graph.tensors)) if accesses[t]]
    modes = [min(op.all_modes, key=lambda m: (m.workspace, m.duration_ns)) for op in graph.ops]
    duration = np.array([m.duration_ns for m in modes], dtype=np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(duration)))
    workspace = np.array([m.workspace for m in modes], dtype=np.int64)
    live = np.zeros(n + 1, dtype=np.int64)
    by_op: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for i, t in enumerate(kept):
        tensor, some = graph.tensors[t], accesses[t]
        outlives = tensor.initial and tensor.final
        first = 0 if outlives or (tensor.initial and entry[t] == 1) else some[0][0]
        live[first] += tensor.nbytes
        live[n if outlives else some[-1][0] + 1] -= tensor.nbytes
        for k, w in some:
            by_op[k].append((i, w))
    size = np.array([graph.tensors[t].nbytes for t in kept], dtype=np.int64)
    counts = np.maximum(1, -(-size // chunk))
    owner = np.repeat(np.arange(len(kept), dtype=np.int64), counts)
    chunk_first = _offsets(counts)
    number = np.arange(len(owner), dtype=np.int64) - chunk_first[owner]
    low = number * (size[owner] // counts[owner]) + np.minimum(number, size[owner] % counts[owner])
    chunk_bytes = size[owner] // counts[owner] + (number < size[owner] % counts[owner])
    persistent = np.array([graph.tensors[t].initial and graph.tensors[t].final for t in kept], dtype=np.int64)
    written = np.array([any(w for _, w in accesses[t]) for t in kept], dtype=np.int64)
    return Workload(
        duration=duration,
        workspace=workspace,
        starts=starts,
        live=np.cumsum(live)[:n] + workspace,
        op_first=_offsets(np.array([len(x) for x in by_op])),
        op_tensor=np.array([i for x in by_op for i, _ in x], dtype=np.int64),
        op_write=np.array([w for x in by_op for _, w in x], dtype=np.int64),
        access_first=_offsets(np.array([len(accesses[t]) for t in kept])),
        access_op=np.array([k for t in kept for k, _ in accesses[t]], dtype=np.int64),
        access_write=np.array([w for t in kept for _, w in accesses[t]], dtype=np.int64),
        size=size,
        fetch=size * 10**6 // max(rate, 1),
        movable=(size >= least).astype(np.int64),
        persistent=persistent,
        entry=np.array([entry[t] for t in kept], dtype=np.int64),
        chunk_first=chunk_first,
        chunk_low=low,
        chunk_bytes=chunk_bytes,
        owner=owner,
        read_only=np.flatnonzero(persistent & (written == 0)).astype(np.int64),
        tensor=np.array(kept, dtype=np.int64),
    )


def _offsets(counts: Integers) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int64)
