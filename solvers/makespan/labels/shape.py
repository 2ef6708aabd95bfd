"""A makespan problem of at most 62 ops as bit masks and flat arrays, for the kernels of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....formulations.makespan.data import MakespanData
from ....models.arrays import Integers
from ...engines.arrays import Rows, Rows8

MOST_OPS = 62
"""A set of ops is one signed 64-bit word."""


Steps = tuple[Integers, Integers, NDArray[np.int8], NDArray[np.int32]]
"""Of all ideals: set, and the steps from it as ``at, by, target``."""

LabelArrays = tuple[NDArray[np.int32], Integers, Integers, Rows8, Rows, Integers, NDArray[np.bool_]]
"""``ideal, time, live, ops, ends, bound, exact`` of some labels."""


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
    born_at, born_first, born_bytes
        By op: the lifetimes that begin with it if they have not begun, as rows
        ``[born_at[i]:born_at[i + 1]]``: all ops that they may begin with, and bytes.
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
    born_at: Integers
    born_first: Integers
    born_bytes: Integers
    life_at: Integers
    life_last: Integers
    life_bytes: Integers
    by_tail: Integers
    child_at: Integers
    child: Integers


def shape_of(data: MakespanData) -> Shape | None:
    """Return the arrays; None of problems that the labels are not for: many ops, accounting ``replace``.

    Under ``replace`` memory is released by starts, and ops that start together may fit where no sequence of
    them does (`lowtide.solvers.makespan.bounds.bounds`).
    """
    size = data.bytes
    if size.replace or data.n > MOST_OPS:
        return None
    lifetimes = [
        (() if x.born is None else (x.born,), tuple(x.last), x.nbytes, x.born is None) for x in size.lifetimes
    ]
    return _shape(data, size.predecessors, data.tail, lifetimes, _children(data))


def reversed_shape(data: MakespanData) -> Shape:
    """Return the same problem with time running backwards.

    A tensor is allocated by the first of its last accessors to start, and released by the end of its
    producer. What is live at an instant is the same, and so is what runs.
    """
    size = data.bytes
    successors: list[list[int]] = [[] for _ in range(data.n)]
    for i, row in enumerate(size.predecessors):
        for j in row:
            successors[j].append(i)
    lifetimes = [
        (tuple(x.last), () if x.born is None else (x.born,), x.nbytes, not x.last) for x in size.lifetimes
    ]
    return _shape(data, successors, data.head, lifetimes, [])


def _shape(
    data: MakespanData,
    before: Sequence[Sequence[int]],
    tail: Sequence[int],
    lifetimes: Sequence[tuple[tuple[int, ...], tuple[int, ...], int, bool]],
    children: list[list[int]],
) -> Shape:
    """Return the arrays; of lifetimes the ops they begin and end with, bytes, and if they begin before."""
    size = data.bytes
    alloc = list(size.workspace)
    begins: list[list[tuple[int, int]]] = [[] for _ in range(data.n)]
    ends: list[list[tuple[int, int]]] = [[] for _ in range(data.n)]
    live = size.base
    for first, last, nbytes, initial in lifetimes:
        if initial:
            live += nbytes
        elif len(first) == 1:
            alloc[first[0]] += nbytes
        else:
            for i in first:
                begins[i].append((sum(1 << j for j in first), nbytes))
        for i in last:
            ends[i].append((sum(1 << j for j in last), nbytes))

    def integers(values: object) -> Integers:
        return np.array(values, dtype=np.int64)

    def rows(pairs: list[list[tuple[int, int]]]) -> tuple[Integers, Integers, Integers]:
        flat = [pair for row in pairs for pair in row]
        at = integers([0, *np.cumsum([len(row) for row in pairs])])
        return at, integers([mask for mask, _ in flat]), integers([nbytes for _, nbytes in flat])

    born_at, born_first, born_bytes = rows(begins)
    life_at, life_last, life_bytes = rows(ends)
    return Shape(
        numbers=integers([data.processors, data.memory, live]),
        duration=integers(data.duration),
        tail=integers(tail),
        before=integers([sum(1 << j for j in row) for row in before]),
        alloc=integers(alloc),
        workspace=integers(size.workspace),
        born_at=born_at,
        born_first=born_first,
        born_bytes=born_bytes,
        life_at=life_at,
        life_last=life_last,
        life_bytes=life_bytes,
        by_tail=integers(sorted(range(data.n), key=lambda i: (-tail[i], i))),
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
