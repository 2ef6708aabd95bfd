"""Annealing of one order by moves of blocks, compiled; the mathematics is in `.local_search`.

One call is a slice of a run: it starts from an order, does a given amount of work, and leaves the order that
it ended with and the best one it met. All that it keeps on the way follows from the order:

* ``place``: where each op stands;
* ``memory``, ``cost``: M before each place, and the cost of the step there;
* ``above``: the places that cost more than the target, as a list and where in it each one is;
* ``last``: of each group, an op that may be its last. It is only looked at first: if it stands later than
  the op in question, that one does not complete the group; else all of them are looked at.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel
from ..search.state_space import StateSpace


class OrderArrays(NamedTuple):
    """A state space (forward) as flat arrays; kernels take it as one argument.

    The entries of list `i` in an array ``x`` are ``x[x_begin[i]:x_begin[i + 1]]``.
    """

    start: int
    increase: Integers
    extra: Integers
    extra_before: bool
    group_bytes: Integers
    group_begin: Integers
    group: Integers
    groups_begin: Integers
    groups_of: Integers
    before_begin: Integers
    before: Integers
    after_begin: Integers
    after: Integers


def order_arrays(space: StateSpace) -> OrderArrays:
    """Return the arrays of a state space."""
    return OrderArrays(
        space.start,
        np.array(space.increase, dtype=np.int64),
        np.array(space.extra, dtype=np.int64),
        space.extra_before,
        np.array(space.group_bytes, dtype=np.int64),
        *_lists(space.groups),
        *_lists(space.groups_of),
        *_lists(space.before),
        *_lists(space.after),
    )


def _lists(lists: tuple[tuple[int, ...], ...]) -> tuple[Integers, Integers]:
    begin = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(some) for some in lists], out=begin[1:])
    return begin, np.fromiter((v for some in lists for v in some), dtype=np.int64, count=int(begin[-1]))


@kernel
def anneal(
    arrays: OrderArrays,
    order: Integers,
    best: Integers,
    peak: int,
    warm: float,
    cold: float,
    reach: int,
    work: int,
    seed: int,
) -> tuple[int, int]:
    """Anneal an order; return the peak of the best one, and the work that was left.

    Parameters
    ----------
    arrays
        The state space.
    order
        Valid; changed in place.
    best
        Becomes the best order met, if one has less than `peak`; else it stays.
    peak
        To be undercut: the target is one byte less, and follows what is found.
    warm, cold
        Temperatures in bytes, at the start and at the end of the work.
    reach
        How many places a block may begin before, and end after, the place in focus.
    work
        Places to look at.
    seed
        Of all random choices.
    """
    np.random.seed(seed)
    n = len(order)
    extra, extra_before = arrays.extra, arrays.extra_before
    place, last = np.empty(n, np.int64), np.empty(max(1, len(arrays.group_bytes)), np.int64)
    memory, cost = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    above, index, count = np.empty(n, np.int64), np.full(n, -1, np.int64), 0
    block, mark, stamp = np.empty(n, np.int64), np.zeros(n, np.int64), 0
    new_memory, new_cost = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        place[order[k]] = k
    for g in range(len(arrays.group_bytes)):
        last[g] = arrays.group[arrays.group_begin[g]]
    memory[0] = arrays.start
    for k in range(n):
        v = order[k]
        memory[k + 1] = memory[k] + change(arrays, v, place, last)
        cost[k] = extra[v] + (memory[k] if extra_before else memory[k + 1])
    target = peak - 1
    for k in range(n):
        if cost[k] > target:
            index[k], above[count] = count, k
            count += 1
    left = work
    while left > 0:
        if count == 0:
            best[:] = order
            peak = cost.max()
            target = peak - 1
            for k in range(n):
                if cost[k] > target:
                    index[k], above[count] = count, k
                    count += 1
        k = above[np.random.randint(count)]
        if np.random.random() < 0.5:
            shift = scale_free(n // 2)
            k += shift if np.random.random() < 0.5 else -shift
        first, end = max(0, k - scale_free(reach)), min(n, k + scale_free(reach) + 1)
        length = end - first
        left -= 1
        if k < 0 or k >= n or length < 2:
            continue
        left -= length
        stamp += 1
        if np.random.random() < 0.5:
            moved = delay(arrays, order, first, end, block, mark, stamp)
        else:
            moved = advance(arrays, order, first, end, block, mark, stamp)
        if not moved:
            continue
        for k in range(length):
            place[block[k]] = first + k
        now, rise = memory[first], 0.0
        for k in range(length):
            v = block[k]
            new_memory[k] = now
            after = now + change(arrays, v, place, last)
            new_cost[k] = extra[v] + (now if extra_before else after)
            rise += max(0, new_cost[k] - target) - max(0, cost[first + k] - target)
            now = after
        temperature = cold * (warm / cold) ** (left / work)
        if rise > 0 and np.random.random() >= math.exp(-rise / temperature):
            for k in range(first, end):
                place[order[k]] = k
            continue
        for k in range(length):
            at = first + k
            order[at], memory[at], cost[at] = block[k], new_memory[k], new_cost[k]
            if cost[at] > target and index[at] < 0:
                index[at], above[count] = count, at
                count += 1
            elif cost[at] <= target and index[at] >= 0:
                count -= 1
                above[index[at]] = above[count]
                index[above[count]] = index[at]
                index[at] = -1
    if count == 0:
        best[:] = order
        peak = cost.max()
    return peak, left


@inner
def change(arrays: OrderArrays, v: int, place: Integers, last: Integers) -> int:
    """Return the change of M across an op, which follows from the places of its groups' ops."""
    total: int = arrays.increase[v]
    for x in range(arrays.groups_begin[v], arrays.groups_begin[v + 1]):
        g = arrays.groups_of[x]
        if place[last[g]] > place[v]:
            continue
        last[g] = v
        for y in range(arrays.group_begin[g], arrays.group_begin[g + 1]):
            if place[arrays.group[y]] > place[v]:
                last[g] = arrays.group[y]
                break
        if last[g] == v:
            total -= arrays.group_bytes[g]
    return total


@inner
def delay(
    arrays: OrderArrays, order: Integers, first: int, end: int, block: Integers, mark: Integers, stamp: int
) -> bool:
    """Write the block with its first op, and what needs it, moved to the end; say whether anything moved."""
    mark[order[first]] = stamp
    k = 0
    for at in range(first + 1, end):
        v = order[at]
        for x in range(arrays.before_begin[v], arrays.before_begin[v + 1]):
            if mark[arrays.before[x]] == stamp:
                mark[v] = stamp
                break
        if mark[v] != stamp:
            block[k] = v
            k += 1
    moved = k > 0
    for at in range(first, end):
        if mark[order[at]] == stamp:
            block[k] = order[at]
            k += 1
    return moved


@inner
def advance(
    arrays: OrderArrays, order: Integers, first: int, end: int, block: Integers, mark: Integers, stamp: int
) -> bool:
    """Write the block with its last op, and what it needs, moved to the front; say whether anything moved."""
    mark[order[end - 1]] = stamp
    k = end - first - 1
    for at in range(end - 2, first - 1, -1):
        v = order[at]
        for x in range(arrays.after_begin[v], arrays.after_begin[v + 1]):
            if mark[arrays.after[x]] == stamp:
                mark[v] = stamp
                break
        if mark[v] != stamp:
            block[k] = v
            k -= 1
    moved = k < end - first - 1
    for at in range(end - 1, first - 1, -1):
        if mark[order[at]] == stamp:
            block[k] = order[at]
            k -= 1
    return moved


@inner
def scale_free(most: int) -> int:
    """Return a random integer from 0 to `most`, each order of magnitude as likely."""
    return int(math.exp(np.random.random() * math.log(most + 1.0))) - 1
