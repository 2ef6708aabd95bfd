"""Compiled kernels of `search`: which labels others dominate, and one label that dominates several.

Labels are rows as in `label_kernel`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ...engines.arrays import Rows, Rows8
from ...engines.kernels import kernel
from .shape import LabelArrays, Shape

COMPARISONS = 400
"""With so many labels of the same ideal each label is compared at most."""


@kernel
def undominated(
    order: Integers,
    ideal: NDArray[np.int32],
    time: Integers,
    ops: Rows8,
    ends: Rows,
    bound: Integers,
    stop: Integers,
) -> NDArray[np.bool_]:
    """Return which of some labels no other one of these dominates.

    Parameters
    ----------
    order
        Some labels by ideal, and by rising time in each.
    ideal, time, ops, ends, bound
        Of the labels. A label that dominates another one takes the lower bound: it stands for both, and its
        own may have come from labels that it is more than.
    stop
        As for `expand`.
    """
    count, processors = ops.shape
    keep = np.zeros(count, np.bool_)
    kept = np.empty(count, np.int64)
    top, begin = 0, 0
    for p in range(len(order)):
        b = order[p]
        if p == 0 or ideal[order[p - 1]] != ideal[b]:
            begin = top
            if stop[0]:
                break
        dominated = False
        c = top - 1
        while c >= begin and c >= top - COMPARISONS and not dominated:
            a = kept[c]
            dominated = True
            for x in range(processors):
                if ops[a, x] < 0:
                    break
                if ends[a, x] <= time[b]:
                    continue
                later = time[b]
                for y in range(processors):
                    if ops[b, y] == ops[a, x]:
                        later = ends[b, y]
                if ends[a, x] > later:
                    dominated = False
                    break
            c -= 1
            if dominated:
                bound[a] = min(bound[a], bound[b])
        if not dominated:
            kept[top] = b
            top += 1
            keep[b] = True
    return keep


@kernel
def merged(
    shape: Shape, sets: Integers, after: Integers, order: Integers, chunk: Integers, labels: LabelArrays
) -> Any:
    """Return one label for each chunk of labels of one ideal, which dominates them all.

    Its time is the least; an op runs in it that runs in all of them, until the least of its ends.

    Parameters
    ----------
    shape, sets, after
        The problem, the ideals, and the bytes that are live when all their ops have ended.
    order
        The labels, those of a chunk one after another.
    chunk
        Where chunks begin in `order`, and its length.
    labels
        ``ideal, time, live, ops, ends, bound, exact`` of the labels.
    """
    ideal, time, _, ops, ends, bound, exact = labels
    count, processors = len(chunk) - 1, ops.shape[1]
    to, new_time, new_live = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.int64)
    new_ops = np.full((count, processors), np.int8(-1))
    new_ends = np.zeros((count, processors), np.int64)
    new_bound, new_exact = np.empty(count, np.int64), np.empty(count, np.bool_)
    for c in range(count):
        a = order[chunk[c]]
        to[c], least, reach = ideal[a], time[a], bound[a]
        for p in range(chunk[c] + 1, chunk[c + 1]):
            least = min(least, time[order[p]])
            reach = min(reach, bound[order[p]])
        k = 0
        running = np.int64(0)
        for x in range(processors):
            i = ops[a, x]
            if i < 0:
                break
            end = ends[a, x]
            for p in range(chunk[c] + 1, chunk[c + 1]):
                b = order[p]
                here = np.int64(-1)
                for y in range(processors):
                    if ops[b, y] == i:
                        here = ends[b, y]
                end = min(end, here)
            if end > least:
                running |= np.int64(1) << i
                z = k
                while z > 0 and new_ends[c, z - 1] > end:
                    new_ends[c, z], new_ops[c, z] = new_ends[c, z - 1], new_ops[c, z - 1]
                    z -= 1
                new_ends[c, z], new_ops[c, z] = end, i
                k += 1
        live = after[to[c]]
        for x in range(k):
            i = new_ops[c, x]
            live += shape.workspace[i]
            for y in range(shape.life_at[i], shape.life_at[i + 1]):
                last = shape.life_last[y]
                # What unstarted ops hold is in `after`; the rest is counted with the first op that holds it.
                if not last & ~sets[to[c]] and not last & running & (np.int64(1) << i) - 1:
                    live += shape.life_bytes[y]
        new_time[c], new_live[c], new_bound[c] = least, live, reach
        new_exact[c] = exact[a] and chunk[c + 1] == chunk[c] + 1
    return to, new_time, new_live, new_ops, new_ends, new_bound, new_exact
