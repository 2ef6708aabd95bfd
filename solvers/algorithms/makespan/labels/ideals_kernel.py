"""Compiled kernels of `ideals` and `together`: steps between sets of started ops, and what runs together."""

from __future__ import annotations

import numpy as np
from numba import njit

EMPTY = -1
"""A free place of a hash table; no set is negative."""


@njit(cache=True, nogil=True)
def next_ideals(shape, sets, after):  # type: ignore[no-untyped-def]
    """Return the sets with one op more, their bytes, and the steps to them: from, op, to.

    Parameters
    ----------
    shape
        The problem.
    sets, after
        Sets of one size, and the bytes that are live when all their ops have ended.
    """
    capacity = shape.numbers[1]
    n, ops = len(sets), len(shape.duration)
    steps = 0
    for g in range(n):
        for i in range(ops):
            if not sets[g] >> i & 1 and not shape.before[i] & ~sets[g]:
                steps += after[g] + shape.alloc[i] <= capacity
    size = 16
    while size < 2 * steps:
        size *= 2
    table = np.full(size, np.int64(EMPTY))
    index = np.empty(size, np.int32)
    found = np.empty(steps, np.int64)
    bytes_after = np.empty(steps, np.int64)
    source, by, target = np.empty(steps, np.int32), np.empty(steps, np.int8), np.empty(steps, np.int32)
    count, step = 0, 0
    for g in range(n):
        for i in range(ops):
            if sets[g] >> i & 1 or shape.before[i] & ~sets[g]:
                continue
            if after[g] + shape.alloc[i] > capacity:
                continue
            wider = sets[g] | np.int64(1) << i
            place = ((wider * np.int64(7046029254386353131)) >> 17) & (size - 1)
            while table[place] != EMPTY and table[place] != wider:
                place = (place + 1) & (size - 1)
            if table[place] == EMPTY:
                table[place] = wider
                index[place] = count
                found[count] = wider
                live = after[g] + shape.alloc[i] - shape.workspace[i]
                for x in range(shape.life_at[i], shape.life_at[i + 1]):
                    if not shape.life_last[x] & ~wider:
                        live -= shape.life_bytes[x]
                bytes_after[count] = live
                count += 1
            source[step], by[step], target[step] = g, i, index[place]
            step += 1
    return found[:count].copy(), bytes_after[:count].copy(), source, by, target


@njit(cache=True, nogil=True)
def sets_together(shape, sets, after, level, at, by, target, table, latest, count, budget):  # type: ignore[no-untyped-def]
    """Add to a hash table the sets that can run together just after the ideals of one level.

    Parameters
    ----------
    shape
        The problem.
    sets, after, at, by, target
        Of all ideals: set, bytes, and the steps from it as rows of `at`.
    level
        First and last ideal (exclusive) to begin from, and their size.
    table
        Of sets of ops, `EMPTY` where free; it must be less than half full.
    latest
        By place of the table: the size of the largest ideal just after which the set can run.
    count
        Sets in the table.
    budget
        Most steps.

    Returns
    -------
    tuple
        Sets in the table; the first ideal that is not done; steps.
    """
    processors, capacity = shape.numbers[0], shape.numbers[1]
    size = len(table)
    node = np.empty(processors + 1, np.int64)
    cursor = np.empty(processors + 1, np.int64)
    live = np.empty(processors + 1, np.int64)
    chosen = np.empty(processors + 1, np.int64)
    grown = np.empty(processors + 1, np.bool_)
    steps = 0
    for g in range(level[0], level[1]):
        if steps > budget or 3 * count > size:
            return count, g, steps
        depth = 0
        node[0], cursor[0], live[0], chosen[0], grown[0] = g, at[g], after[g], 0, False
        last = -1
        while depth >= 0:
            v = node[depth]
            moved = False
            if depth < processors:
                while cursor[depth] < at[v + 1]:
                    c = cursor[depth]
                    cursor[depth] += 1
                    i = by[c]
                    steps += 1
                    if i <= last or shape.before[i] & ~sets[g] or live[depth] + shape.alloc[i] > capacity:
                        continue
                    grown[depth] = True
                    depth += 1
                    node[depth], cursor[depth] = target[c], at[target[c]]
                    live[depth] = live[depth - 1] + shape.alloc[i]
                    chosen[depth] = chosen[depth - 1] | np.int64(1) << i
                    grown[depth] = False
                    last = i
                    moved = True
                    break
            if moved:
                continue
            if not grown[depth] and depth:
                place = ((chosen[depth] * np.int64(7046029254386353131)) >> 17) & (size - 1)
                while table[place] != EMPTY and table[place] != chosen[depth]:
                    place = (place + 1) & (size - 1)
                if table[place] == EMPTY:
                    table[place] = chosen[depth]
                    count += 1
                latest[place] = level[2]
            depth -= 1
            if depth > 0:
                last = 62
                while not chosen[depth] >> last & 1:
                    last -= 1
            else:
                last = -1
    return count, level[1], steps


@njit(cache=True, nogil=True)
def put(table, latest, sets, sizes):  # type: ignore[no-untyped-def]
    """Put sets, with a number each, into a hash table that has room for them."""
    size = len(table)
    for k in range(len(sets)):
        place = ((sets[k] * np.int64(7046029254386353131)) >> 17) & (size - 1)
        while table[place] != EMPTY and table[place] != sets[k]:
            place = (place + 1) & (size - 1)
        table[place] = sets[k]
        latest[place] = sizes[k]
