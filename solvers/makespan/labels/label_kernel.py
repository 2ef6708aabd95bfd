"""Compiled kernels of `search`: what each label leads to.

A label is a row of arrays: its ideal, its time, the bytes live then, the ops that run and their ends (by
rising end; -1 and 0 in places that are not used), the label before it and the op that it started.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import inner, kernel
from .bound_kernel import areas, fullest, meet, room_until, write_sums
from .ideals_kernel import needs
from .meeting import Others
from .shape import LabelArrays, Shape, Steps

FEW = 24
"""Most unstarted ops whose sums of durations are looked at: those of more leave hardly a number out."""

LONGEST = 1 << 18
"""Longest makespan, in ticks, for which sums are looked at: each label writes a bit a tick."""


@inner
def _running(started, ops):  # type: ignore[no-untyped-def]
    """Return how many ops of a label run, and the set of those that have ended."""
    running = 0
    while running < len(ops) and ops[running] >= 0:
        started &= ~(np.int64(1) << ops[running])
        running += 1
    return running, started


@inner
def _end(shape, ops, ends, x, running, ended, live):  # type: ignore[no-untyped-def]
    """End the ops that end when that at place x does; return the next place, the ended ops, the bytes."""
    time = ends[x]
    while x < running and ends[x] == time:
        i = ops[x]
        ended |= np.int64(1) << i
        live -= shape.workspace[i]
        for y in range(shape.life_at[i], shape.life_at[i + 1]):
            if not shape.life_last[y] & ~ended:
                live -= shape.life_bytes[y]
        x += 1
    return x, ended, live


@inner
def _start(shape, started, time, live, ops, ends, j, new_ops, new_ends):  # type: ignore[no-untyped-def]
    """Start op j as soon as it can after a label; write what runs then, by rising end.

    Returns
    -------
    tuple
        When, the bytes that are live then, and how many ops run; 0 ops if it never can.
    """
    processors, capacity = shape.numbers[0], shape.numbers[1]
    running, ended = _running(started, ops)
    x = 0
    more = needs(shape, started, j)
    while running - x >= processors or shape.before[j] & ~ended or live + more > capacity:
        if x == running:
            return time, live, 0
        time = ends[x]
        x, ended, live = _end(shape, ops, ends, x, running, ended, live)
    finish = time + shape.duration[j]
    k = 0
    placed = False
    for y in range(x, running + 1):
        if not placed and (y == running or ends[y] > finish):
            new_ops[k], new_ends[k] = j, finish
            placed = True
            k += 1
        if y < running:
            new_ops[k], new_ends[k] = ops[y], ends[y]
            k += 1
    for y in range(k, processors):
        new_ops[y], new_ends[y] = -1, 0
    return time, live + more, k


@inner
def _wait(shape, started, first, end, by, time, live, ops, ends):  # type: ignore[no-untyped-def]
    """Move a label on to the first time at which some op can start; ops that have ended leave its rows.

    Parameters
    ----------
    shape
        The problem.
    started, time, live, ops, ends
        Of the label.
    first, end, by
        The steps from its ideal.

    Returns
    -------
    tuple
        The time, the bytes that are live then, and how many ops run.
    """
    processors, capacity = shape.numbers[0], shape.numbers[1]
    running, ended = _running(started, ops)
    x = 0
    while x < running:
        if running - x < processors:
            waits = True
            for step in range(first, end):
                j = by[step]
                if not shape.before[j] & ~ended and live + needs(shape, started, j) <= capacity:
                    waits = False
                    break
            if not waits:
                break
        time = ends[x]
        x, ended, live = _end(shape, ops, ends, x, running, ended, live)
    if x:
        for y in range(running):
            ops[y] = ops[y + x] if y + x < running else -1
            ends[y] = ends[y + x] if y + x < running else 0
    return time, live, running - x


@kernel
def expand(
    shape: Shape,
    prices: Rows,
    rank: Integers,
    ideals: Steps,
    labels: LabelArrays,
    others: Others,
    below: int,
    waits: bool,
    stop: Integers,
) -> Any:
    """Return the labels that start one op more, apart from those that cannot end before `below`.

    Parameters
    ----------
    shape
        The problem.
    prices
        Vectors of prices by row.
    rank
        By op: its place by falling tail.
    ideals
        Sets, and steps as ``at, by, target``.
    labels
        ``ideal, time, live, ops, ends, bound, exact`` of the labels, sorted by ideal; the last says whether
        it is a schedule, not one merged.
    others
        Labels of the other direction, or none.
    below
        Makespans of interest are smaller.
    waits
        Whether labels are moved on to the first time at which some op can start.
    stop
        One number: the kernel gives up when it is not 0.

    Returns
    -------
    tuple
        ``ideal, time, live, ops, ends, parent, op, bound, waste`` of the new labels; of these `bound` is the
        least makespan of any schedule through it, and `waste` the time that the processors have had and that
        what is left still takes: but for a constant, the time that they have been idle.
    """
    sets, at, by, target = ideals
    ideal, time, live, ops, ends, known, exact = labels
    n = len(shape.duration)
    processors = shape.numbers[0]
    scale = processors << 20
    room = np.int64(0)
    for a in range(len(ideal)):
        room += at[ideal[a] + 1] - at[ideal[a]]
    to = np.empty(room, np.int32)
    new_time, new_live = np.empty(room, np.int64), np.empty(room, np.int64)
    new_ops, new_ends = np.empty((room, processors), np.int8), np.empty((room, processors), np.int64)
    parent, started_op = np.empty(room, np.int32), np.empty(room, np.int8)
    bound, waste = np.empty(room, np.int64), np.empty(room, np.int64)
    vectors = len(prices)
    area, best_behind = np.empty((vectors, n), np.int64), np.empty((vectors, n), np.int64)
    ranks = np.empty(processors, np.int64)
    sums = np.empty((below >> 6) + 1 if below <= LONGEST else 0, np.uint64)
    count = 0
    low = 0
    while low < len(ideal):
        if stop[0]:
            break
        g = ideal[low]
        high = low
        while high < len(ideal) and ideal[high] == g:
            high += 1
        for step in range(at[g], at[g + 1]):
            j = by[step]
            wider = sets[target[step]]
            areas(shape, prices, wider, area, best_behind)
            left, least, shortest = np.int64(0), np.int64(0), below
            for i in range(n):
                if not wider >> i & 1:
                    left += shape.duration[i]
                    shortest = min(shortest, shape.duration[i])
                    least = max(least, shape.duration[i] + shape.tail[i])
            late, chosen, few, load = fullest(shape, wider)
            until = below - 1 - late
            looked = 0 < few <= FEW and below <= LONGEST
            if looked:
                write_sums(shape, chosen, sums)
            for a in range(low, high):
                now, bytes_now, k = _start(
                    shape, sets[g], time[a], live[a], ops[a], ends[a], j, new_ops[count], new_ends[count]
                )
                if not k:
                    continue
                if waits and at[target[step]] < at[target[step] + 1]:
                    now, bytes_now, k = _wait(
                        shape, wider, at[target[step]], at[target[step] + 1], by, now, bytes_now,
                        new_ops[count], new_ends[count],
                    )  # fmt: skip
                reach = max(known[a], now + least)
                work = left
                for y in range(k):
                    i = new_ops[count, y]
                    reach = max(reach, new_ends[count, y] + shape.tail[i])
                    work += new_ends[count, y] - now
                    # by falling tail
                    z = y
                    while z > 0 and ranks[z - 1] > rank[i]:
                        ranks[z] = ranks[z - 1]
                        z -= 1
                    ranks[z] = rank[i]
                if reach >= below:
                    continue
                for z in range(vectors):
                    best = best_behind[z, 0]
                    cost = np.int64(0)
                    for y in range(k):
                        i = shape.by_tail[ranks[y]]
                        rest = np.int64(0)
                        for q in range(k):
                            if new_ops[count, q] == i:
                                rest = new_ends[count, q] - now
                        cost += prices[z, i] * rest
                        # It counts for itself and for all thresholds from its rank on.
                        best = max(best, cost + area[z, ranks[y]] + scale * shape.tail[i])
                        best = max(best, cost + best_behind[z, ranks[y]])
                    reach = max(reach, now + -(-best // scale))
                    if reach >= below:
                        break
                if reach >= below:
                    continue
                if looked and room_until(sums, until, now, new_ends[count], k, processors) < load:
                    continue
                if exact[a] and len(others.table):
                    reach = meet(
                        shape, others, wider, shortest, now, new_ops[count], new_ends[count], k, reach, below
                    )
                    if reach >= below:
                        continue
                to[count], new_time[count] = target[step], now
                new_live[count] = bytes_now
                parent[count], started_op[count] = a, j
                bound[count] = reach
                waste[count] = now * processors + work
                count += 1
        low = high
    return (
        to[:count], new_time[:count], new_live[:count], new_ops[:count], new_ends[:count],
        parent[:count], started_op[:count], bound[:count], waste[:count],
    )  # fmt: skip


@kernel
def complete(
    shape: Shape, ideals: Steps, labels: LabelArrays, turn: Integers, below: int, enough: int, stop: Integers
) -> Any:
    """Complete labels in every way, depth first, for a makespan less than `below`.

    Parameters
    ----------
    shape, ideals, labels, stop
        As for `expand`.
    turn
        The order in which labels are taken.
    below
        Makespans of interest are smaller; so are those of later finds.
    enough
        A makespan that ends the search.

    Returns
    -------
    tuple
        The least makespan, or `below`; the label that it comes from, or -1; the ops that it starts, in order.
    """
    sets, at, by, target = ideals
    ideal, time, live, ops, ends, _, _ = labels
    n, processors = len(shape.duration), shape.numbers[0]
    node = np.empty(n + 1, np.int64)
    cursor = np.empty(n + 1, np.int64)
    when, bytes_live, left = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    runs, until = np.empty((n + 1, processors), np.int8), np.empty((n + 1, processors), np.int64)
    chosen, best_chosen = np.empty(n, np.int8), np.empty(0, np.int8)
    best, source = below, -1
    for a in turn:
        if stop[0] or best <= enough:
            break
        depth = 0
        node[0], cursor[0] = ideal[a], at[ideal[a]]
        when[0], bytes_live[0] = time[a], live[a]
        runs[0], until[0] = ops[a], ends[a]
        left[0] = 0
        for i in range(n):
            if not sets[ideal[a]] >> i & 1:
                left[0] += shape.duration[i]
        while depth >= 0:
            g = node[depth]
            if cursor[depth] == at[g + 1]:
                depth -= 1
                continue
            step = cursor[depth]
            cursor[depth] += 1
            j = by[step]
            now, now_live, k = _start(
                shape, sets[g], when[depth], bytes_live[depth], runs[depth], until[depth], j,
                runs[depth + 1], until[depth + 1],
            )  # fmt: skip
            if not k:
                continue
            work = left[depth] - shape.duration[j]
            left[depth + 1] = work
            reach = now
            for y in range(k):
                work += until[depth + 1, y] - now
                reach = max(reach, until[depth + 1, y] + shape.tail[runs[depth + 1, y]])
            if max(reach, now + -(-work // processors)) >= best:
                continue
            chosen[depth] = j
            depth += 1
            node[depth], cursor[depth] = target[step], at[target[step]]
            when[depth], bytes_live[depth] = now, now_live
            if at[node[depth]] == at[node[depth] + 1]:
                best, source = reach, a
                best_chosen = chosen[:depth].copy()
                if best <= enough:
                    break
    return best, source, best_chosen
