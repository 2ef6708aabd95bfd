"""The search in windows of time, compiled; its page is that of `lowtide.solvers.makespan.lists.windows`."""

from __future__ import annotations

import math

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel
from .layout import Shop
from .list_kernel import schedule


@kernel
def anneal(
    shop: Shop, starts: Integers, order: Integers, sizes: Integers, moves: int, heat: float, seed: int
) -> int:
    """Schedule windows anew at one temperature; `starts` and `order` change; return the makespan.

    Parameters
    ----------
    shop
        The problem, of identical processors.
    starts, order
        By op, in ns: a schedule within the memory; its ops by start.
    sizes
        Ops of each window, whose place is drawn.
    moves
        Rankings of a window that are tried.
    heat
        The temperature in ns.
    seed
        Of all choices.
    """
    np.random.seed(seed)
    n = len(order)
    for size in sizes:
        first = max(0, np.random.randint(n) - size // 2)
        last = min(n, first + size)
        fits, part, ops, running, begin, latest, sum_of_ends = cut(shop, starts, order, first, last)
        if not fits:
            continue
        allowed = np.int64(-heat * math.log(1.0 - np.random.random()))
        late, new = reschedule(part, running, latest, allowed, sum_of_ends, moves)
        if late > allowed:
            continue
        for k in range(running, len(ops)):
            starts[ops[k]] = begin + new[k]
        for k in range(last, n):
            starts[order[k]] += late
        order[first:last] = ops[running:][np.argsort(new[running:])]
    return int((starts + shop.duration).max())


@kernel
def cut(
    shop: Shop, starts: Integers, order: Integers, first: int, last: int
) -> tuple[bool, Shop, Integers, int, int, Integers, int]:
    """Return the window of the ops at places [first, last) of the order of starts, as a problem.

    Whether the sequence of starts is a fallback order of it, as always under ``coexist``; its arrays, of R
    first, with what is left of its durations; its ops' numbers in the whole problem; how many are of R; t1
    in ns; by op, max(t2, its end) from t1 on; and the sum of the ends from t1 on.
    """
    n, replace = len(order), shop.numbers[3] == 1
    begin = starts[order[first]]
    ops = np.empty(n, np.int64)
    running, live, left = 0, shop.numbers[2], shop.accessors.copy()
    for k in range(first):
        v = order[k]
        ended = starts[v] + shop.duration[v] <= begin
        live += shop.alloc[v]
        if ended:
            live -= shop.at_end[v]
        else:
            ops[running] = v
            running += 1
        if ended or replace:
            for t in shop.tensors[shop.tensor_at[v] : shop.tensor_at[v + 1]]:
                left[t] -= 1
                if left[t] == 0:
                    live -= shop.size[t]
    m = running + last - first
    ops = ops[:m].copy()
    ops[running:] = order[first:last]
    # Tensors whose accessors left are all in the window die in it.
    here, place, edges, accesses = np.zeros(len(left), np.int64), np.full(n, np.int64(-1)), 0, 0
    for k in range(m):
        v = ops[k]
        place[v] = k
        edges += shop.after_at[v + 1] - shop.after_at[v]
        if k >= running or not replace:
            accesses += shop.tensor_at[v + 1] - shop.tensor_at[v]
            for t in shop.tensors[shop.tensor_at[v] : shop.tensor_at[v + 1]]:
                here[t] += 1
    number = np.full(len(left), np.int64(-1))
    tensor_at, tensors, size = (
        np.zeros(m + 1, np.int64),
        np.empty(accesses, np.int64),
        np.zeros(accesses + 1, np.int64),
    )
    accessors = np.zeros(accesses + 1, np.int64)
    after_at, after, waits = np.zeros(m + 1, np.int64), np.empty(edges, np.int64), np.zeros(m, np.int64)
    some = fill = edges = 0
    for k in range(m):
        v = ops[k]
        if k >= running or not replace:
            for t in shop.tensors[shop.tensor_at[v] : shop.tensor_at[v + 1]]:
                if here[t] == left[t]:
                    if number[t] < 0:
                        number[t], size[some] = some, shop.size[t]
                        some += 1
                    tensors[fill] = number[t]
                    accessors[number[t]] += 1
                    fill += 1
        tensor_at[k + 1] = fill
        for w in shop.after[shop.after_at[v] : shop.after_at[v + 1]]:
            if place[w] >= 0:
                after[edges] = place[w]
                waits[place[w]] += 1
                edges += 1
        after_at[k + 1] = edges
    ends = (starts + shop.duration)[ops] - begin
    alloc, at_end, duration = shop.alloc[ops], shop.at_end[ops], shop.duration[ops]
    alloc[:running] = 0
    duration[:running] = ends[:running]
    numbers = shop.numbers.copy()
    numbers[2], numbers[5] = live, m
    zeros = np.zeros(m, np.int64)
    part = Shop(
        numbers,
        shop.kind_at,
        np.arange(m + 1),
        zeros,
        duration,
        zeros,
        zeros - 1,
        alloc,
        at_end,
        alloc - at_end,
        tensor_at,
        tensors[:fill].copy(),
        size[: some + 1].copy(),
        accessors[: some + 1].copy(),
        after_at,
        after[:edges].copy(),
        waits,
    )
    latest = np.full(m, ends.max())
    if last < n:
        latest = np.maximum(starts[order[last]] - begin, ends)
    return not replace or in_sequence(part), part, ops, running, begin, latest, ends.sum()


@inner
def in_sequence(shop: Shop) -> bool:
    """Return whether the ops fit one after another, as they are numbered, under ``replace``."""
    left, level = shop.accessors.copy(), shop.numbers[2]
    for i in range(len(shop.alloc)):
        for t in shop.tensors[shop.tensor_at[i] : shop.tensor_at[i + 1]]:
            left[t] -= 1
            if left[t] == 0:
                level -= shop.size[t]
        level += shop.alloc[i]
        if level > shop.numbers[1]:
            return False
        level -= shop.at_end[i]
    return True


@kernel
def reschedule(
    shop: Shop, running: int, latest: Integers, allowed: int, sum_of_ends: int, moves: int
) -> tuple[int, Integers]:
    """Return -delta and the starts of the ops, from t1 on, of the best schedule of a window.

    Of those of `moves` rankings, the first of which, by starts, counts as none. If none has -delta below
    `allowed`, or equal with a smaller sum of ends than there is, what is returned is above it.
    """
    m = len(latest)
    fallback, rank = np.arange(m), np.arange(m)
    ranking, new = np.arange(running, m), np.arange(running, m)
    count = len(ranking)
    best, best_sum, found = allowed, sum_of_ends, np.empty(0, np.int64)
    late = total = 0
    for move in range(moves):
        new[:] = ranking
        reach = max(2, int(count ** np.random.random()))
        if move and np.random.random() < 0.5:
            low = np.random.randint(max(1, count - reach + 1))
            window = ranking[low : low + reach]
            keys = np.arange(len(window)) + reach ** np.random.random() * np.random.random(len(window))
            new[low : low + reach] = window[np.argsort(keys)]
        elif move:
            for _ in range(np.random.randint(1, 4)):
                at = np.random.randint(count)
                to = min(max(0, at + np.random.randint(-reach, reach + 1)), count - 1)
                v, step = new[at], 1 if to > at else -1
                for k in range(at, to, step):
                    new[k] = new[k + step]
                new[to] = v
        for k in range(count):
            rank[new[k]] = running + k
        shop.numbers[5] = m if np.random.random() < 0.7 else np.random.randint(running + 1, m + 1)
        starts = schedule(shop, fallback, rank)
        ends = starts + shop.duration
        lag, sum_now = (ends - latest).max(), ends.sum()
        if move == 0 or lag < late or (lag == late and sum_now <= total):
            late, total = lag, sum_now
            ranking[:] = new
        if move and (lag < best or (lag == best and sum_now < best_sum)):
            best, best_sum, found = lag, sum_now, starts
    return (best, found) if len(found) else (allowed + 1, found)
