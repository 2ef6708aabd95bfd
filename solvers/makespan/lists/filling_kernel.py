"""Compiled annealing of `filling`, whose page has the words: sequences and lanes, lateness, exchanges.

Times are in ns. A *state* is a triple of arrays: the ops in a topological sequence, and by op its lane (a
processor) and its start.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import inner, kernel
from .layout import Shop

MOST = 8
"""Runs of ops that are looked at in exchanges, per op."""

TRIES = 100
"""Exchanges that are decoded from one state."""

NEVER = 2**62
"""Nanoseconds that no schedule reaches: there is no such event."""


class Target(NamedTuple):
    """What schedules are to meet.

    Attributes
    ----------
    numbers
        The goal for the makespan; the head and the goal less the tail between which the counted ops keep the
        processors busy; how long these may be idle then; how far apart ops of an exchange may start; 1 if
        there are exchanges.
    counted
        By op: 1 if it is among the ops whose load is next to the goal.
    tail
        By op.
    before_at, before
        Rows of direct predecessors.
    by_duration, rank
        The ops by duration, and by op its place there.
    """

    numbers: Integers
    counted: Integers
    tail: Integers
    before_at: Integers
    before: Integers
    by_duration: Integers
    rank: Integers


@inner
def decode(  # type: ignore[no-untyped-def]
    shop: Shop, target: Target, order, lane, start, latest: int, idlest: int
) -> int:
    """Write the starts of a sequence on lanes and sort it by them; return the lateness.

    Parameters
    ----------
    shop, target
        The problem, in which nobody has a choice.
    order, lane, start
        The state; starts are written.
    latest, idlest
        Lateness, and idle time of the lanes beyond what the goal leaves, from which on it gives up.

    Returns
    -------
    int
        -1 if it gave up, or if the sequence is not topological or not within the memory.
    """
    n, processors = len(order), shop.numbers[0]
    rows = np.zeros((3, processors), np.int64)
    free, over, busy = rows[0], rows[1], rows[2]
    busy[:] = target.numbers[1]
    late, idle = np.int64(0), -target.numbers[3]
    for v in order:
        start[v] = -1
    for v in order:
        a = lane[v]
        time = free[a]
        for x in range(target.before_at[v], target.before_at[v + 1]):
            u = target.before[x]
            if start[u] < 0:
                return -1
            time = max(time, start[u] + shop.duration[u])
        start[v] = time
        free[a] = time + shop.duration[v]
        if target.counted[v]:
            idle += time - busy[a]
            busy[a] = free[a]
            if idle > idlest:
                return -1
        more = free[a] + target.tail[v] - target.numbers[0] - over[a]
        if more > 0:
            over[a] += more
            late += more
            if late > latest:
                return -1
    given = order.copy()
    for k in range(1, n):
        v, x = order[k], k
        while x > 0 and start[order[x - 1]] > start[v]:
            order[x] = order[x - 1]
            x -= 1
        order[x] = v
    late = _within_memory(shop, target, order, lane, start, latest)
    if late == -2:
        order[:] = given
        late = _within_memory(shop, target, order, lane, start, latest)
    return int(max(np.int64(-1), late))


@inner
def _within_memory(shop, target, order, lane, start, latest):  # type: ignore[no-untyped-def]
    """Delay ops to when they fit, none before one in front of it in the sequence.

    Return the lateness; -1 if it is above `latest`, -2 if nothing runs and the next op does not fit.
    """
    processors, memory, live, replace = shop.numbers[0], shop.numbers[1], shop.numbers[2], shop.numbers[3]
    left, running = shop.accessors.copy(), np.full(processors, np.int64(-1))
    over = np.zeros(processors, np.int64)
    late, time = np.int64(0), np.int64(0)
    for v in order:
        a = lane[v]
        time = max(time, start[v])
        if running[a] >= 0:
            time = max(time, start[running[a]] + shop.duration[running[a]])
        for x in range(target.before_at[v], target.before_at[v + 1]):
            u = target.before[x]
            time = max(time, start[u] + shop.duration[u])
        while True:
            soonest = np.int64(NEVER)
            for b in range(processors):
                u = running[b]
                if u < 0:
                    continue
                end = start[u] + shop.duration[u]
                if end > time:
                    soonest = min(soonest, end)
                    continue
                running[b] = -1
                live -= shop.at_end[u]
                if not replace:
                    for t in shop.tensors[shop.tensor_at[u] : shop.tensor_at[u + 1]]:
                        left[t] -= 1
                        if left[t] == 0:
                            live -= shop.size[t]
            dying = np.int64(0)
            if replace:
                for t in shop.tensors[shop.tensor_at[v] : shop.tensor_at[v + 1]]:
                    if left[t] == 1:
                        dying += shop.size[t]
            if live + shop.alloc[v] - dying <= memory:
                break
            if soonest == NEVER:
                return np.int64(-2)
            time = soonest
        live += shop.alloc[v] - dying
        if replace:
            for t in shop.tensors[shop.tensor_at[v] : shop.tensor_at[v + 1]]:
                left[t] -= 1
        running[a], start[v] = v, time
        more = time + shop.duration[v] + target.tail[v] - target.numbers[0] - over[a]
        if more > 0:
            over[a] += more
            late += more
            if late > latest:
                return np.int64(-1)
    return late


@inner
def _move(target, processors, order, lane, place, new_order, new_lane):  # type: ignore[no-untyped-def]
    """Write a neighbour of a state; return False if it is the same."""
    n = len(order)
    new_order[:], new_lane[:] = order, lane
    draw = np.random.random()
    at = np.random.randint(n)
    i = order[at]
    reach = 1 + int(n ** np.random.random())
    if draw < 0.45:  # two ops change places and lanes: near in the sequence, or of about the same duration
        if draw < 0.3:
            to = min(n - 1, at + np.random.randint(1, reach + 1))
            j = order[to]
        else:
            r = target.rank[i] + np.random.randint(-3, 4)
            if not 0 <= r < n:
                return False
            j = target.by_duration[r]
            to = place[j]
            if lane[i] == lane[j]:
                return False
        new_order[at], new_order[to] = j, i
        new_lane[i], new_lane[j] = lane[j], lane[i]
        return i != j
    if draw < 0.6:  # two ops change lanes
        j = order[np.random.randint(n)]
        new_lane[i], new_lane[j] = lane[j], lane[i]
        return lane[i] != lane[j]
    if draw < 0.65:  # one op changes its lane
        new_lane[i] = np.random.randint(processors)
        return new_lane[i] != lane[i]
    if draw < 0.9:  # one op goes elsewhere in the sequence
        to = max(0, min(n - 1, at + np.random.randint(-reach, reach + 1)))
        step = 1 if to > at else -1
        for k in range(at, to, step):
            new_order[k] = order[k + step]
        new_order[to] = i
        if np.random.random() < 0.5:
            new_lane[i] = np.random.randint(processors)
        return to != at
    a, b = np.random.randint(processors), np.random.randint(processors)
    for k in range(at, n):  # two lanes change all that follows
        i = order[k]
        if lane[i] == a:
            new_lane[i] = b
        elif lane[i] == b:
            new_lane[i] = a
    return a != b


@inner
def _runs(shop, target, order, lane, start, a, rows):  # type: ignore[no-untyped-def]
    """Write one to three counted ops of a lane that start near each other, in every way; return how many.

    A row has their duration together, the first and the last start, and the ops (-1: no further one).
    """
    count, width = 0, target.numbers[4]
    ops = order[(lane[order] == a) & (target.counted[order] == 1)]
    for x in range(len(ops)):
        for y in range(x, len(ops)):
            for z in range(y, len(ops)):
                i, j, k = ops[x], ops[y], ops[z]
                if start[k] - start[i] > width:
                    break
                if count == len(rows):
                    return count
                if y == x and z > y:  # two ops are those of x and y with z = y
                    break
                rows[count, 0] = shop.duration[i]
                rows[count, 1], rows[count, 2] = start[i], start[k]
                rows[count, 3], rows[count, 4], rows[count, 5] = i, -1, -1
                if y > x:
                    rows[count, 0] += shop.duration[j]
                    rows[count, 4] = j
                if z > y:
                    rows[count, 0] += shop.duration[k]
                    rows[count, 5] = k
                count += 1
    return count


@inner
def _missing(shop, target, order, lane, start):  # type: ignore[no-untyped-def]
    """Return, by lane, the time from the end of its last counted op until all of them should have ended."""
    ends = np.full(shop.numbers[0], target.numbers[1])
    for v in order:
        if target.counted[v]:
            ends[lane[v]] = max(ends[lane[v]], start[v] + shop.duration[v])
    return target.numbers[2] - ends


@inner
def exchange(shop, target, order, lane, start, tries):  # type: ignore[no-untyped-def]
    """Make the lanes end as the goal says, one after another; return whether the state meets it now.

    Parameters
    ----------
    shop, target
        The problem.
    order, lane, start
        A state whose lanes are idle no longer than they may.
    tries
        Exchanges that are decoded at most.
    """
    missing = _missing(shop, target, order, lane, start)
    if missing.sum() < 0:
        return False
    rows = np.empty((2, MOST * len(order), 6), np.int64)
    new_order, new_lane, new_start = order.copy(), lane.copy(), start.copy()
    while True:
        missing = _missing(shop, target, order, lane, start)
        slack = missing.sum()
        wrong = np.flatnonzero((missing < 0) | (missing > slack))
        if slack < 0 or len(wrong) < 2:
            return False
        changed = False
        for a in wrong:
            for b in wrong:
                if a == b or (len(wrong) == 2 and b < a) or changed:
                    continue
                first = _runs(shop, target, order, lane, start, a, rows[0])
                second = _runs(shop, target, order, lane, start, b, rows[1])
                for x in range(first):
                    for y in range(second):
                        more = rows[1, y, 0] - rows[0, x, 0]
                        if changed or not missing[a] - slack <= more <= missing[a]:
                            continue
                        begin = min(rows[0, x, 1], rows[1, y, 1])
                        if max(rows[0, x, 2], rows[1, y, 2]) - begin > target.numbers[4]:
                            continue
                        if not tries:
                            return False
                        tries -= 1
                        new_order[:], new_lane[:] = order, lane
                        for z in range(3, 6):
                            if rows[0, x, z] >= 0:
                                new_lane[rows[0, x, z]] = b
                            if rows[1, y, z] >= 0:
                                new_lane[rows[1, y, z]] = a
                        late = decode(shop, target, new_order, new_lane, new_start, NEVER, 0)
                        if late < 0:
                            continue
                        changed = True
                        order[:], lane[:], start[:] = new_order, new_lane, new_start
                        if late == 0:
                            return True
        if not changed:
            return False


@kernel
def anneal(
    shop: Shop,
    target: Target,
    state: Rows,
    best: Integers,
    moves: int,
    hot: float,
    cold: float,
    near: float,
    seed: int,
) -> int:
    """Move at falling temperatures, until the goal is met; return the best makespan.

    Parameters
    ----------
    shop, target
        The problem.
    state
        Rows of sequence, lanes and starts, a schedule within the memory; changes.
    best
        Starts of the fastest schedule so far; changes.
    moves
        How many.
    hot, cold
        The first and the last temperature.
    near
        Exchanges are tried from states of at most this lateness.
    seed
        Of all choices.
    """
    np.random.seed(seed)
    order, lane, start = state[0], state[1], state[2]
    n, processors = len(order), int(shop.numbers[0])
    fastest = (best + shop.duration).max()
    new_order, new_lane, new_start = order.copy(), lane.copy(), start.copy()
    place, over = np.empty(n, np.int64), np.zeros(processors, np.int64)
    for k in range(n):
        v = order[k]
        place[v] = k
        over[lane[v]] = max(over[lane[v]], start[v] + shop.duration[v] + target.tail[v] - target.numbers[0])
    late = over.sum()
    for m in range(moves):
        if fastest <= target.numbers[0]:
            break
        heat = hot * (cold / hot) ** (m / moves)
        if not _move(target, processors, order, lane, place, new_order, new_lane):
            continue
        allowed = late + np.int64(-heat * math.log(1.0 - np.random.random()))
        new = decode(shop, target, new_order, new_lane, new_start, allowed, allowed)
        if new < 0:
            continue
        changed = new != late
        late = new
        order[:], lane[:], start[:] = new_order, new_lane, new_start
        for k in range(n):
            place[order[k]] = k
        close = changed and 0 < late <= near and target.numbers[5] == 1
        if close and exchange(shop, target, new_order, new_lane, new_start, TRIES):
            order[:], lane[:], start[:] = new_order, new_lane, new_start
        made = (start + shop.duration).max()
        if made < fastest:
            fastest = made
            best[:] = start
    return int(fastest)
