"""Compiled kernels of `ideals` and `together`: steps between sets of started ops, and what runs together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel
from .forest_kernel import forest_fits, segments, subtrees
from .shape import Shape

EMPTY = -1
"""A free place of a hash table; no set is negative."""


SEARCHED = 100
"""Steps of a search for a path to all ops."""


@inner
def _place(table, key):  # type: ignore[no-untyped-def]
    """Return where a set is in a hash table, or the free place where it belongs."""
    place = ((key * np.int64(7046029254386353131)) >> 17) & (len(table) - 1)
    while table[place] != EMPTY and table[place] != key:
        place = (place + 1) & (len(table) - 1)
    return place


@inner
def _remember(table, alive, count, key, answer):  # type: ignore[no-untyped-def]
    """Put a set with its answer into the table, unless it is nearly full."""
    place = _place(table, key)
    if table[place] == EMPTY:
        if 3 * count[0] > 2 * len(table):
            return
        table[place] = key
        count[0] += 1
    alive[place] = answer


@inner
def needs(shape, started, i):  # type: ignore[no-untyped-def]
    """Return the bytes that op i allocates as it starts after a set."""
    total = shape.alloc[i]
    for x in range(shape.born_at[i], shape.born_at[i + 1]):
        if not shape.born_first[x] & started:
            total += shape.born_bytes[x]
    return total


@inner
def _ended(shape, started, live, i):  # type: ignore[no-untyped-def]
    """Return the bytes that are live when op i has been run alone after all of a set had ended."""
    wider = started | np.int64(1) << i
    live += needs(shape, started, i) - shape.workspace[i]
    for x in range(shape.life_at[i], shape.life_at[i + 1]):
        if not shape.life_last[x] & ~wider:
            live -= shape.life_bytes[x]
    return live


@inner
def _closure(shape, started, live):  # type: ignore[no-untyped-def]
    """Run all ops that fit and leave no more live than there was."""
    ops, capacity = len(shape.duration), shape.numbers[1]
    again = True
    while again:
        again = False
        for i in range(ops):
            if started >> i & 1 or shape.before[i] & ~started:
                continue
            if live + needs(shape, started, i) > capacity:
                continue
            after = _ended(shape, started, live, i)
            if after <= live:
                started |= np.int64(1) << i
                live = after
                again = True
    return started, live


@inner
def _forest_leads_to_all(shape, started, next_op, live, ready, table, alive, count, forest):  # type: ignore[no-untyped-def]
    """Return whether all ops can be run after a set and an op; `ready` is False at first for each set."""
    wider = started | np.int64(1) << next_op
    place = _place(table, wider)
    if table[place] == wider:
        return alive[place] == 1
    if count[0] < 0:
        return False
    if not ready[0]:
        for v in range(len(shape.duration)):
            if not started >> v & 1 and forest[0][v] & started:
                segments(shape, started, -1, v, *forest)
        ready[0] = True
    answer = forest_fits(shape, started, next_op, live, *forest)
    _remember(table, alive, count, wider, 1 if answer else 0)
    return answer


@inner
def _leads_to_all(shape, started, live, table, alive, count, nodes, bytes_live, tried):  # type: ignore[no-untyped-def]
    """Return whether all ops may be run after a set; a search of too many steps says yes."""
    place = _place(table, started)
    if table[place] == started:
        return alive[place] == 1
    if count[0] < 0:
        return False
    ops, capacity = len(shape.duration), shape.numbers[1]
    everything = (np.int64(1) << ops) - 1
    nodes[0], bytes_live[0] = _closure(shape, started, live)
    tried[0] = 0
    depth, steps, answer = 0, 0, False
    entered = True
    while depth >= 0:
        now = nodes[depth]
        if entered:
            steps += 1
            place = _place(table, now)
            if now == everything or steps > SEARCHED or (table[place] == now and alive[place] == 1):
                answer = True
                break
            if table[place] == now:
                depth -= 1
                entered = False
                continue
        best, least = -1, np.int64(0)
        for i in range(ops):
            if (now | tried[depth]) >> i & 1 or shape.before[i] & ~now:
                continue
            if bytes_live[depth] + needs(shape, now, i) > capacity:
                continue
            after = _ended(shape, now, bytes_live[depth], i)
            if best < 0 or after < least:
                best, least = i, after
        if best < 0:
            _remember(table, alive, count, now, 0)
            depth -= 1
            entered = False
            continue
        tried[depth] |= np.int64(1) << best
        nodes[depth + 1], bytes_live[depth + 1] = _closure(shape, now | np.int64(1) << best, least)
        depth += 1
        tried[depth] = 0
        entered = True
    if answer:
        for k in range(depth + 1):
            _remember(table, alive, count, nodes[k], 1)
    _remember(table, alive, count, started, 1 if answer else 0)
    return answer


@kernel
def next_ideals(
    shape: Shape,
    sets: Integers,
    after: Integers,
    table: Integers,
    alive: NDArray[np.int8],
    count: Integers,
    most: int,
    stop: Integers,
) -> Any:
    """Return the sets with one op more, their bytes, and the steps to them: from, op, to.

    Parameters
    ----------
    shape
        The problem.
    sets, after
        Sets of one size, and the bytes that are live when all their ops have ended.
    table, alive, count
        What is known of sets: whether all ops can be run after them. Dead ends are left out.
    most
        It ends when so many have been found.
    stop
        One number: it ends when that is not 0.
    """
    capacity = shape.numbers[1]
    n, ops = len(sets), len(shape.duration)
    steps = 0
    for g in range(n):
        for i in range(ops):
            if not sets[g] >> i & 1 and not shape.before[i] & ~sets[g]:
                steps += after[g] + needs(shape, sets[g], i) <= capacity
    size = 16
    while size < 2 * steps:
        size *= 2
    hashed = np.full(size, np.int64(EMPTY))
    index = np.empty(size, np.int32)
    found = np.empty(steps, np.int64)
    bytes_after = np.empty(steps, np.int64)
    source, by, target = np.empty(steps, np.int32), np.empty(steps, np.int8), np.empty(steps, np.int32)
    nodes, bytes_live = np.empty(ops + 1, np.int64), np.empty(ops + 1, np.int64)
    tried = np.empty(ops + 1, np.int64)
    in_tree = len(shape.child_at) > 0
    rows = ops + 1 if in_tree else 0
    forest = (
        np.empty(rows, np.int64),
        np.empty((3, rows, rows), np.int64),
        np.empty((3, rows, rows), np.int64),
        np.empty((3, rows), np.int64),
    )
    ready = np.empty(1, np.bool_)
    if in_tree:
        subtrees(shape, *forest)
    many, step = 0, 0
    for g in range(n):
        if many >= most or stop[0]:
            break
        ready[0] = False
        for i in range(ops):
            if sets[g] >> i & 1 or shape.before[i] & ~sets[g]:
                continue
            if after[g] + needs(shape, sets[g], i) > capacity:
                continue
            wider = sets[g] | np.int64(1) << i
            place = _place(hashed, wider)
            if hashed[place] == EMPTY:
                hashed[place] = wider
                live = _ended(shape, sets[g], after[g], i)
                leads = live <= after[g]
                if not leads and in_tree:
                    leads = _forest_leads_to_all(shape, sets[g], i, live, ready, table, alive, count, forest)
                elif not leads:
                    leads = _leads_to_all(shape, wider, live, table, alive, count, nodes, bytes_live, tried)
                if leads:
                    index[place] = many
                    found[many], bytes_after[many] = wider, live
                    many += 1
                else:
                    index[place] = -1
            if index[place] >= 0:
                source[step], by[step], target[step] = g, i, index[place]
                step += 1
    return (
        found[:many].copy(), bytes_after[:many].copy(),
        source[:step].copy(), by[:step].copy(), target[:step].copy(),
    )  # fmt: skip


@kernel
def next_ops(shape: Shape, sets: Integers, after: Integers) -> tuple[Integers, NDArray[np.int8]]:
    """Return how many ops fit next, by set, and these ops.

    Parameters
    ----------
    shape, sets, after
        As for `next_ideals`.
    """
    capacity = shape.numbers[1]
    n, ops = len(sets), len(shape.duration)
    counts = np.zeros(n, np.int64)
    by = np.empty(n * ops, np.int8)
    step = 0
    for g in range(n):
        for i in range(ops):
            if sets[g] >> i & 1 or shape.before[i] & ~sets[g]:
                continue
            if after[g] + needs(shape, sets[g], i) > capacity:
                continue
            by[step] = i
            counts[g] += 1
            step += 1
    return counts, by[:step].copy()


@kernel
def sets_together(
    shape: Shape,
    sets: Integers,
    after: Integers,
    level: Integers,
    at: Integers,
    by: NDArray[np.int8],
    target: NDArray[np.int32],
    table: Integers,
    latest: Integers,
    count: int,
    budget: int,
) -> tuple[int, int, int]:
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
                    if i <= last or shape.before[i] & ~sets[g]:
                        continue
                    more = needs(shape, sets[v], i)
                    if live[depth] + more > capacity:
                        continue
                    grown[depth] = True
                    depth += 1
                    node[depth], cursor[depth] = target[c], at[target[c]]
                    live[depth] = live[depth - 1] + more
                    chosen[depth] = chosen[depth - 1] | np.int64(1) << i
                    grown[depth] = False
                    last = i
                    moved = True
                    break
            if moved:
                continue
            if not grown[depth] and depth:
                place = _place(table, chosen[depth])
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


@kernel
def put(table: Integers, latest: Integers, sets: Integers, sizes: Integers) -> None:
    """Put sets, with a number each, into a hash table that has room for them."""
    for k in range(len(sets)):
        place = _place(table, sets[k])
        table[place] = sets[k]
        latest[place] = sizes[k]


@kernel
def numbered(sets: Integers) -> tuple[Integers, Integers]:
    """Return a hash table of different sets, less than half full, and their numbers by place."""
    size = 16
    while size < 2 * len(sets):
        size *= 2
    table, row = np.full(size, np.int64(EMPTY)), np.zeros(size, np.int64)
    for k in range(len(sets)):
        place = _place(table, sets[k])
        table[place], row[place] = sets[k], k
    return table, row
