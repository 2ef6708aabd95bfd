"""A makespan problem of at most 62 ops as bit masks and flat arrays, for the kernels of this folder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .....formulations.makespan_data import MakespanData
from .....formulations.offsets_data import Integers

MOST_OPS = 62
"""A set of ops is one signed 64-bit word."""


class Shape(NamedTuple):
    """Ticks and units of bytes; sets of ops are bit masks.

    Attributes
    ----------
    numbers
        Processors, capacity, bytes live before the first op.
    duration, tail
        By op.
    before
        By op: its direct predecessors.
    alloc, workspace
        By op: bytes allocated as it starts (its workspace among them), and those of its workspace.
    life_at, life_last, life_bytes
        By op: the lifetimes that may end with it, as rows ``[life_at[i]:life_at[i + 1]]``: all ops that must
        have ended before, and bytes.
    by_tail
        The ops by falling tail.
    child_at, child
        Of in-trees: by op those that precede it directly, as rows of `child_at`, and those that precede none
        as one row more. Empty of other graphs, and where the end of several ops ends one lifetime.
    """

    numbers: Integers
    duration: Integers
    tail: Integers
    before: Integers
    alloc: Integers
    workspace: Integers
    life_at: Integers
    life_last: Integers
    life_bytes: Integers
    by_tail: Integers
    child_at: Integers
    child: Integers


def shape_of(data: MakespanData) -> Shape | None:
    """Return the arrays; None of problems that the labels are not for: many ops, accounting ``replace``.

    Under ``replace`` memory is released by starts, and ops that start together may fit where no sequence of
    them does (`lowtide.solvers.algorithms.makespan.bounds`).
    """
    size = data.bytes
    if size.replace or data.n > MOST_OPS:
        return None
    alloc = list(size.workspace)
    rows: list[list[tuple[int, int]]] = [[] for _ in range(data.n)]
    live = size.base
    for x in size.lifetimes:
        if x.born is None:
            live += x.nbytes
        else:
            alloc[x.born] += x.nbytes
        for i in x.last:
            rows[i].append((sum(1 << j for j in x.last), x.nbytes))
    flat = [pair for row in rows for pair in row]

    def integers(values: object) -> Integers:
        return np.array(values, dtype=np.int64)

    children = _children(data)

    return Shape(
        numbers=integers([data.processors, data.memory, live]),
        duration=integers(data.duration),
        tail=integers(data.tail),
        before=integers([sum(1 << j for j in row) for row in size.predecessors]),
        alloc=integers(alloc),
        workspace=integers(size.workspace),
        life_at=integers([0, *np.cumsum([len(row) for row in rows])]),
        life_last=integers([last for last, _ in flat]),
        life_bytes=integers([nbytes for _, nbytes in flat]),
        by_tail=integers(sorted(range(data.n), key=lambda i: (-data.tail[i], i))),
        child_at=integers([0, *np.cumsum([len(row) for row in children])] if children else []),
        child=integers([j for row in children for j in row]),
    )


def _children(data: MakespanData) -> list[list[int]]:
    """Return the rows of `child`."""
    rows = [sorted(row) for row in data.bytes.predecessors]
    inner = [i for row in rows for i in row]
    if len(set(inner)) < len(inner) or any(len(x.last) > 1 for x in data.bytes.lifetimes):
        return []
    return [*rows, sorted(set(range(data.n)).difference(inner))]
