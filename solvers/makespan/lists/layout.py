"""A makespan problem as flat arrays for the compiled list scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....models.arrays import Integers
from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.graph import Accounting
from ....models.problems.makespan import Makespan

UNLIMITED = 2**62
"""Bytes of a memory without a limit, more than all tensors have."""


class Shop(NamedTuple):
    """Bytes and nanoseconds by op; rows of lists as ``flat[starts[i]:starts[i + 1]]``.

    Attributes
    ----------
    numbers
        Processors, bytes of memory, bytes live before the first op, 1 if the accounting is ``replace``, 1 if
        all processors are of one kind and no op has a choice, the reach: how many places of the fallback
        order may be looked at, from the first one left.
    kind_at
        By kind: its processors, as they are numbered.
    way_at
        By op: its alternatives.
    kind, duration, extra
        By alternative: its kind of processors, its nanoseconds, its workspace beyond the op's least.
    prefer
        By op: the alternative that it is to take, counted from 0; -1: the one that ends first.
    alloc
        By op: allocated as it starts (tensors that it is the first to write, least workspace).
    at_end
        By op: released as it ends, whatever else runs: its least workspace, and under ``replace`` what it
        writes for nobody.
    gain
        By op: what its execution adds to the memory, apart from the tensors that it shares.
    tensor_at, tensors
        By op: the tensors that die with the last end (``coexist``) or start (``replace``) of their accessors.
    size, accessors
        By tensor: bytes, number of accessors; 0 accessors of tensors that never die so.
    after_at, after, waits
        By op: its direct successors; how many predecessors it has.
    """

    numbers: Integers
    kind_at: Integers
    way_at: Integers
    kind: Integers
    duration: Integers
    extra: Integers
    prefer: Integers
    alloc: Integers
    at_end: Integers
    gain: Integers
    tensor_at: Integers
    tensors: Integers
    size: Integers
    accessors: Integers
    after_at: Integers
    after: Integers
    waits: Integers


def shop_of(problem: Makespan) -> Shop:
    """Return the arrays of a problem."""
    graph, memory = problem.graph, sequential_memory(problem.relaxed)
    order = precedence(graph)
    replace = graph.accounting is Accounting.REPLACE
    least = [min(a.workspace for a in some) for some in problem.alternatives]
    workspace = np.array(least, dtype=np.int64)
    first = np.array(memory.first_bytes, dtype=np.int64)
    dead = np.zeros(len(graph.ops), dtype=np.int64)
    if memory.after_extra is not None:
        dead = np.array(memory.after_extra, dtype=np.int64) - workspace
    held = {
        t for t, some in enumerate(memory.accessors) if replace and some and t in graph.ops[some[-1]].writes
    }
    rows = [[t for t in some if t not in held] for some in memory.accessed]
    every = [(a, w) for some, w in zip(problem.alternatives, least, strict=True) for a in some]
    tensors = np.array([t for row in rows for t in row], dtype=np.int64)
    after_at, after = order.successors_csr
    return Shop(
        numbers=np.array(
            [
                problem.count,
                UNLIMITED if problem.memory is None else problem.memory,
                memory.initial_bytes,
                int(replace),
                int(problem.identical),
                len(graph.ops),
            ],
            dtype=np.int64,
        ),
        kind_at=_starts([count for _, count in problem.kinds]),
        way_at=_starts([len(some) for some in problem.alternatives]),
        kind=np.array([a.kind for a, _ in every], dtype=np.int64),
        duration=np.array([a.duration for a, _ in every], dtype=np.int64),
        extra=np.array([a.workspace - w for a, w in every], dtype=np.int64),
        prefer=np.full(len(graph.ops), -1, dtype=np.int64),
        alloc=first + workspace,
        at_end=workspace + dead,
        gain=first - dead,
        tensor_at=_starts([len(row) for row in rows]),
        tensors=tensors,
        size=np.array([*memory.sizes, 0], dtype=np.int64),
        accessors=np.bincount(tensors, minlength=len(graph.tensors) + 1).astype(np.int64),
        after_at=after_at,
        after=after,
        waits=np.array([len(p) for p in order.predecessors], dtype=np.int64),
    )


def _starts(lengths: Sequence[int]) -> Integers:
    """Return where rows of these lengths start, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
