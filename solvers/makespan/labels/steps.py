"""Labels as rows of arrays, and the step from those of one size to those of the next; for all passes.

A label's row has its ideal, its time, the bytes live then, the ops that run and their ends, its bound, and
whether it is a schedule, not one merged from several.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ....models.arrays import Integers
from .ideals import Ideals
from .meeting import Others
from .shape import Shape

SPLIT = 5000
"""From so many labels on they are parted among the threads."""

Labels = tuple[Any, ...]


class Wider(NamedTuple):
    """New labels; by label the one that it comes from, the op that it starts, and its waste.

    See `label_kernel.expand`.
    """

    labels: Labels
    parent: Integers
    op: Integers
    waste: Integers


def first_labels(shape: Shape) -> Labels:
    """Return the label of nothing started."""
    processors = int(shape.numbers[0])
    return (
        np.zeros(1, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        shape.numbers[2:3].copy(),
        np.full((1, processors), -1, dtype=np.int8),
        np.zeros((1, processors), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.ones(1, dtype=bool),
    )


def wider_labels(
    shape: Shape,
    prices: Integers,
    ideals: Ideals,
    labels: Labels,
    *,
    others: Others,
    below: int,
    waits: bool = True,
    threads: int,
    stop: Integers,
) -> Wider:
    """Return the labels that start one op more and may end before `below`; arguments as for `expand`."""
    from .label_kernel import expand

    rank = np.empty(len(shape.duration), dtype=np.int64)
    rank[shape.by_tail] = np.arange(len(rank))

    def some(low: int, high: int) -> Labels:
        rows = tuple(x[low:high] for x in labels)
        new = expand(shape, prices, rank, steps_of(ideals), rows, others, below, waits, stop)
        new[5][:] += low
        return new  # type: ignore[no-any-return]

    pieces = by_pieces(some, labels[0], threads)
    *rows, parent, op, bound, waste = (
        pieces[0] if len(pieces) == 1 else [np.concatenate(x) for x in zip(*pieces, strict=True)]
    )
    return Wider((*rows, bound, labels[6][parent]), parent, op, waste)


def undominated_labels(labels: Labels, threads: int, stop: Integers) -> Integers:
    """Return the labels that no others dominate, by ideal and time."""
    from .dominance_kernel import undominated

    ideal, time, _, ops, ends, bound, _ = labels
    order = np.lexsort((time, ideal))

    def some(low: int, high: int) -> Integers:
        return undominated(order[low:high], ideal, time, ops, ends, bound, stop)  # type: ignore[no-any-return]

    keep = np.logical_or.reduce(by_pieces(some, ideal[order], threads))
    return order[keep[order]]  # type: ignore[no-any-return]


def steps_of(ideals: Ideals) -> Labels:
    """Return what the kernels take."""
    return ideals.sets, ideals.at, ideals.by, ideals.target


def renumbered(labels: Labels, ideals: Ideals) -> tuple[Labels, Integers, Integers]:
    """Return the labels with new numbers for their ideals, and the sets and bytes of these."""
    used, number = np.unique(labels[0], return_inverse=True)
    return (number.astype(np.int32), *labels[1:]), ideals.sets[used], ideals.after[used]


def by_pieces(work: Callable[[int, int], Any], ideal: np.ndarray, threads: int) -> list[Any]:
    """Return what the work on each of some ranges gives, in order; no range parts labels of one ideal."""
    count = len(ideal)
    if threads == 1 or count < SPLIT:
        return [work(0, count)]
    cuts = [0]
    for k in range(1, threads):
        at = count * k // threads
        cuts.append(int(np.searchsorted(ideal, ideal[at])))
    cuts = sorted({*cuts, count})
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda pair: work(*pair), pairwise(cuts)))


def running_ops(ops: np.ndarray) -> Integers:
    """Return the masks of the ops that run, by label; -1 stands for none."""
    running = np.zeros(len(ops), dtype=np.int64)
    for row in ops.T.astype(np.int64):
        running |= np.where(row >= 0, np.int64(1) << np.maximum(row, 0), 0)
    return running


def row_of(history: list[tuple[Integers, Integers]], last: int) -> list[int]:
    """Return the ops that a label started, in order, from what each size's labels came from and started."""
    row = []
    for parents, by in reversed(history):
        row.append(int(by[last]))
        last = int(parents[last])
    return row[::-1]


def starts_of(shape: Shape, row: list[int]) -> tuple[int, ...]:
    """Return the starts of ops that start in this order, each as soon as it can."""
    processors, capacity, live = (int(x) for x in shape.numbers)
    start, now, ended, started = [0] * len(row), 0, 0, 0
    running: list[tuple[int, int]] = []
    for j in row:
        more = _needs(shape, started, j)
        while len(running) >= processors or int(shape.before[j]) & ~ended or live + more > capacity:
            now = running[0][0]
            while running and running[0][0] == now:
                _, i = running.pop(0)
                ended |= 1 << i
                live -= int(shape.workspace[i])
                for x in range(shape.life_at[i], shape.life_at[i + 1]):
                    live -= 0 if int(shape.life_last[x]) & ~ended else int(shape.life_bytes[x])
        start[j] = now
        live += more
        started |= 1 << j
        running = sorted([*running, (now + int(shape.duration[j]), j)])
    return tuple(start)


def _needs(shape: Shape, started: int, j: int) -> int:
    """Return the bytes that an op allocates as it starts after a set."""
    rows = range(shape.born_at[j], shape.born_at[j + 1])
    return int(shape.alloc[j]) + sum(
        int(shape.born_bytes[x]) for x in rows if not int(shape.born_first[x]) & started
    )
