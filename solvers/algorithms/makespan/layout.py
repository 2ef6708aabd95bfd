"""A makespan problem as flat arrays for the compiled list scheduler."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....formulations.offsets_data import Integers
from ....models.graph import Accounting
from ....models.makespan import Makespan
from ....models.memory import sequential_memory
from ....models.precedence import precedence

UNLIMITED = 2**62


class Shop(NamedTuple):
    """Bytes and nanoseconds by op; rows of lists as ``flat[starts[i]:starts[i + 1]]``.

    Attributes
    ----------
    numbers
        Processors, bytes of memory, bytes live before the first op, 1 if the accounting is ``replace``.
    duration
        By op.
    alloc
        By op: allocated as it starts (tensors that it is the first to write, workspace).
    at_end
        By op: released as it ends, whatever else runs: its workspace, and under ``replace`` what it writes
        for nobody.
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
    duration: Integers
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
    graph, memory = problem.graph, sequential_memory(problem.graph)
    order = precedence(graph)
    replace = graph.accounting is Accounting.REPLACE
    workspace = np.array([op.all_modes[0].workspace for op in graph.ops], dtype=np.int64)
    first = np.array(memory.first_bytes, dtype=np.int64)
    dead = np.zeros(len(graph.ops), dtype=np.int64)
    if memory.after_extra is not None:
        dead = np.array(memory.after_extra, dtype=np.int64) - workspace
    held = {
        t for t, some in enumerate(memory.accessors) if replace and some and t in graph.ops[some[-1]].writes
    }
    rows = [[t for t in some if t not in held] for some in memory.accessed]
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    tensors = np.array([t for row in rows for t in row], dtype=np.int64)
    after_at, after = order.successors_csr
    return Shop(
        numbers=np.array(
            [
                problem.processors,
                UNLIMITED if problem.memory is None else problem.memory,
                memory.initial_bytes,
                int(replace),
            ],
            dtype=np.int64,
        ),
        duration=np.array(problem.durations, dtype=np.int64),
        alloc=first + workspace,
        at_end=workspace + dead,
        gain=first - dead,
        tensor_at=starts,
        tensors=tensors,
        size=np.array([*memory.sizes, 0], dtype=np.int64),
        accessors=np.bincount(tensors, minlength=len(graph.tensors) + 1).astype(np.int64),
        after_at=after_at,
        after=after,
        waits=np.array([len(p) for p in order.predecessors], dtype=np.int64),
    )
