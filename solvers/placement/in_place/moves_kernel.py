"""Annealing of the paths of live ranges, beside each other, by the time of their schedule.

A move takes a few ranges that are alive at one op off their paths, and gives them the best ones beside all
others, one after another, at random rents of the first tier and prices of copies.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...engines.kernels import inner, kernel_in_place
from .paths_kernel import (
    NEVER,
    READ,
    WRITE,
    BytePath,
    Integers,
    LiveRanges,
    Matrix,
    PathPrices,
    channel_of,
    find_part,
    find_path,
    use_from,
)
from .plan_kernel import OpTable, PlanState, Schedule, States, add_copy, lift, price_accesses, put, simulate

TRIES = 20
"""Draws of a range for a move, so that one in which few ranges are alive ends."""


class MoveArrays(NamedTuple):
    """What moves need beside a plan.

    ``first``, ``alive``: by op, the ranges alive there. ``spare``: numbers of copies; those from the count of
    copies on are free. ``chosen``: the ranges of a move. ``low``, ``high``: their ops that it changes.
    ``during``, ``before``, ``after``: their paths before it. ``rents``: by op, the price of the first tier.
    ``run``: by op, the prices of copies beside it.
    """

    first: Integers
    alive: Integers
    spare: Integers
    chosen: Integers
    low: Integers
    high: Integers
    during: States
    before: States
    after: States
    rents: Integers
    run: Matrix


@inner
def last_stall(ranges: LiveRanges, n: int, i: int, high: int) -> int:
    """Return the last stall in which a path that ends with op `high` may copy."""
    return int(min(n, high + 1) if high >= ranges.end[i] else high)


@inner
def link_copies(
    ranges: LiveRanges, plan: PlanState, times: Schedule, spare: Integers, i: int, low: int, high: int
) -> None:
    """Add the copies of a range to those of their stalls."""
    n, base, last = len(plan.room), ranges.base[i], ranges.first[i + 1]
    u, written = use_from(ranges, i, low)
    for e in range(low, last_stall(ranges, n, i, high) + 1):
        channel = channel_of(plan.before[base + e], plan.after[base + e]) if plan.after[base + e] >= 0 else -1
        if channel >= 0:
            c = spare[times.counts[0]]
            times.counts[0] += 1
            following = ranges.op[ranges.use[u]] if u < last else n
            add_copy(times, c, i, e, channel, min(e, written) - 1 if channel == 1 else following)
            written = following + 1 if channel == 0 else written
        if u < last and ranges.op[ranges.use[u]] == e:
            written = e + 1 if ranges.role[ranges.use[u]] != READ else written
            u += 1


@inner
def unlink_copies(
    ranges: LiveRanges, plan: PlanState, times: Schedule, spare: Integers, i: int, low: int, high: int
) -> None:
    """Take the copies of a range off their stalls."""
    base = ranges.base[i]
    for e in range(low, last_stall(ranges, len(plan.room), i, high) + 1):
        channel = channel_of(plan.before[base + e], plan.after[base + e]) if plan.after[base + e] >= 0 else -1
        if channel >= 0:
            previous, c = -1, times.head[e, channel]
            while times.moved[c] != i:
                previous, c = c, times.tail[c]
            if previous < 0:
                times.head[e, channel] = times.tail[c]
            else:
                times.tail[previous] = times.tail[c]
            times.counts[0] -= 1
            spare[times.counts[0]] = c


@inner
def window(ranges: LiveRanges, n: int, i: int, k: int) -> tuple[int, int]:
    """Draw ops around op k: all of the range, between uses of it, or a number of them."""
    low, high, kind = ranges.begin[i], ranges.end[i], np.random.random()
    for u in range(ranges.first[i] + 1, ranges.first[i + 1]):
        if ranges.role[ranges.use[u]] == WRITE:
            return low, high  # contents end in between
    if kind < 0.1:
        return low, high
    if kind < 0.6:
        u = use_from(ranges, i, k)[0]
        before, after = u - 1 - np.random.randint(2), u + np.random.randint(2)
        if before >= ranges.first[i]:
            low = ranges.op[ranges.use[before]]
        if after < ranges.first[i + 1]:
            high = ranges.op[ranges.use[after]]
    else:
        low = max(low, k - int(math.exp(np.random.random() * 5)))
        high = min(high, k + int(math.exp(np.random.random() * 5)))
    return low, ranges.end[i] if high >= n - 1 else high


@inner
def choose(ranges: LiveRanges, times: Schedule, moves: MoveArrays, time: int, most: int) -> int:
    """Draw ranges that are alive about a random time, and ops of each; return their number."""
    n = len(times.begin)
    at, low, high = np.random.randint(time + 1), 0, n
    while low < high:
        middle = (low + high) // 2
        if times.begin[middle] <= at:
            low = middle + 1
        else:
            high = middle
    k = min(n - 1, max(0, low - 1 + np.random.randint(4)))
    first, count, wanted = moves.first[k], 0, 1 + np.random.randint(most)
    alive = moves.first[k + 1] - first
    for _ in range(TRIES):
        if count >= wanted or alive == 0:
            break
        i = moves.alive[first + np.random.randint(alive)]
        other = moves.alive[first + np.random.randint(alive)]
        i = other if ranges.size[other] > ranges.size[i] else i
        fresh = True
        for c in range(count):
            fresh = fresh and moves.chosen[c] != i
        if fresh:
            moves.chosen[count] = i
            moves.low[count], moves.high[count] = window(ranges, n, i, k)
            count += 1
    return count


@inner
def take(ranges: LiveRanges, plan: PlanState, times: Schedule, moves: MoveArrays, c: int, keep: bool) -> None:
    """Take range c of a move off its path, which is noted if `keep`."""
    n, i, low, high = len(plan.room), moves.chosen[c], moves.low[c], moves.high[c]
    base = ranges.base[i]
    if keep:
        for e in range(low, min(n, high + 1) + 1):
            moves.before[base + e], moves.after[base + e] = plan.before[base + e], plan.after[base + e]
            moves.during[base + e] = plan.during[base + e]
    unlink_copies(ranges, plan, times, moves.spare, i, low, high)
    lift(ranges, plan, i, low, high)


@inner
def recall(
    ranges: LiveRanges,
    ops: OpTable,
    plan: PlanState,
    times: Schedule,
    moves: MoveArrays,
    path: BytePath,
    c: int,
) -> None:
    """Put range c of a move on the path that was noted."""
    n, i, low, high = len(plan.room), moves.chosen[c], moves.low[c], moves.high[c]
    base = ranges.base[i]
    for e in range(low, min(n, high + 1) + 1):
        path.before[e], path.after[e] = moves.before[base + e], moves.after[base + e]
        if e < n:
            path.during[e] = moves.during[base + e]
    put(ranges, ops, plan, path, i, low, high)
    link_copies(ranges, plan, times, moves.spare, i, low, high)


@inner
def perturb(
    ranges: LiveRanges, prices: PathPrices, moves: MoveArrays, share: States, full: Integers, c: int
) -> None:
    """Draw the rents, and the prices of copies, of range c of a move."""
    i, low, high = moves.chosen[c], moves.low[c], moves.high[c]
    base, n = ranges.base[i], len(prices.begin)
    rent = math.exp(np.random.random() * 6 - 4)
    into, out = math.exp(np.random.random() * 6 - 4), math.exp(np.random.random() * 6 - 4)
    discount = 1 if np.random.random() < 0.5 else 0
    dear = low + np.random.randint(max(1, min(n, high + 1) - low))
    end = dear + int(math.exp(np.random.random() * 5))
    for k in range(low, min(n, high + 1)):
        prices.begin[k] = int(moves.rents[k] * rent) * (100 - discount * int(share[base + k])) // 100
        if dear <= k < end:
            prices.begin[k] *= 4
        prices.run[k, 0] = min(full[0], 1 + int(moves.run[k, 0] * into))
        prices.run[k, 1] = min(full[1], 1 + int(moves.run[k, 1] * out))


@inner
def reroute(
    ranges: LiveRanges,
    ops: OpTable,
    plan: PlanState,
    prices: PathPrices,
    path: BytePath,
    times: Schedule,
    moves: MoveArrays,
    c: int,
    unit: int,
) -> bool:
    """Give range c of a move the best path beside all others; return whether there is one."""
    n, i, low, high = len(plan.room), moves.chosen[c], moves.low[c], moves.high[c]
    base, starts, state = ranges.base[i], ranges.starts[i], -1
    price_accesses(ranges, ops, plan, prices, i, low, high, unit)
    if low == ranges.begin[i] and high == ranges.end[i]:
        cost = find_path(ranges, prices, path, i, plan.room)
    else:
        if low > ranges.begin[i] or ranges.cyclic[i]:
            starts = 1 << plan.before[base + low]
        if high < ranges.end[i]:
            state = plan.before[base + high + 1]
        elif ranges.cyclic[i]:
            state = plan.after[base + n]
        cost = find_part(ranges, prices, path, i, plan.room, low, high, starts if starts else 7, state)
    if cost >= NEVER:
        return False
    put(ranges, ops, plan, path, i, low, high)
    link_copies(ranges, plan, times, moves.spare, i, low, high)
    return True


@kernel_in_place
def anneal(
    ranges: LiveRanges,
    ops: OpTable,
    plan: PlanState,
    prices: PathPrices,
    path: BytePath,
    times: Schedule,
    moves: MoveArrays,
    share: States,
    full: Integers,
    unit: int,
    steps: int,
    most: int,
    heat: float,
    seed: int,
) -> int:
    """Change the paths of a plan by moves; return its ns.

    ``heat``: ns that a worse plan may take longer by, in the mean.
    """
    np.random.seed(seed)
    times.head[:, :] = -1
    times.counts[:] = 0
    for c in range(len(moves.spare)):
        moves.spare[c] = c
    for i in range(len(ranges.size)):
        link_copies(ranges, plan, times, moves.spare, i, ranges.begin[i], ranges.end[i])
    time = simulate(plan, prices, times)
    for _ in range(steps):
        count, done = choose(ranges, times, moves, time, most), 0
        for c in range(count):
            take(ranges, plan, times, moves, c, True)
        fits = True
        while fits and done < count:
            perturb(ranges, prices, moves, share, full, done)
            fits = reroute(ranges, ops, plan, prices, path, times, moves, done, unit)
            done += fits
        after = simulate(plan, prices, times) if fits else 0
        if fits and after - time <= -math.log(1.0 - np.random.random()) * heat:
            time = after
            continue
        for c in range(done):
            take(ranges, plan, times, moves, c, False)
        for c in range(count):
            recall(ranges, ops, plan, times, moves, path, c)
    return int(time)
