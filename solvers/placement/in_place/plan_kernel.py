"""Plans of whole tensors: paths that fit beside all others, and their schedule.

Copies begin and end in stalls. In each direction they are in the order of their stalls, and within a stall in
the order of the ops that bound them, each as early as possible. An outward copy starts after the last op that
writes its range, and ends before the op behind its stall starts. An inward copy starts in its stall, after
the outward ones there, and ends before the op that uses it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.kernels import inner, kernel_in_place
from .paths_kernel import (
    NEVER,
    READ,
    STEPS,
    BytePath,
    Integers,
    LiveRanges,
    Matrix,
    PathPrices,
    access_of,
    channel_of,
    find_path,
    use_from,
)

States = NDArray[np.int8]

HIGHEST = 2**46
"""Largest price of a byte in an access; a path of 2**14 uses stays below `NEVER`."""


class OpTable(NamedTuple):
    """Modes of the ops: by op, the first of its operands and the first of its modes.

    By mode: ``time``, in ns; ``allowed``, by operand of its op the bits of the accesses. ``slow``: by
    operand, what the accesses other than near add to the length of its op, in ns / ``grain``.
    """

    operand: Integers
    mode: Integers
    time: Integers
    allowed: Matrix
    slow: Integers
    grain: int


class PlanState(NamedTuple):
    """The paths of all live ranges, in flat arrays (`LiveRanges.base`): the fields of `BytePath`.

    ``placed``: by range, whether it has a path. ``room``: by op, the bytes free in the first tier.
    ``access``: by operand, -1 if its range has no path. ``length``: by op, in ns.
    """

    during: States
    before: States
    after: States
    placed: Integers
    room: Integers
    access: Integers
    length: Integers


class Schedule(NamedTuple):
    """When everything happens, in ns.

    Copies, in a list by stall and direction: ``head``, the first one; ``tail``, by copy the next one. By
    copy: ``moved``, its range; ``outward``, 1 or 0; ``bound``, the op after which it starts (outward; -1:
    none) or before which it ends (inward; n: none); ``start`` and ``end``. ``release``: range, tier, stall,
    and the copy with whose end the range leaves the tier, or -1. ``counts``: of copies and of releases. By
    op: ``begin``, its start; ``ready``, the end of the copies of what it uses.
    """

    head: Matrix
    tail: Integers
    moved: Integers
    outward: Integers
    bound: Integers
    start: Integers
    end: Integers
    release: Matrix
    counts: Integers
    begin: Integers
    ready: Integers


@inner
def length_of(ops: OpTable, plan: PlanState, k: int, j: int, access: int) -> int:
    """Return the ns of an op with an access to operand j, all others as they are; `NEVER`: no mode has it."""
    first, best, slow = ops.operand[k], NEVER, 0
    for m in range(ops.mode[k], ops.mode[k + 1]):
        slow, allowed = 0, True
        for x in range(first, ops.operand[k + 1]):
            chosen = access if x == j else plan.access[x]
            slow += ops.slow[x] if chosen > 0 else 0
            allowed = allowed and (chosen < 0 or ops.allowed[m, x - first] >> chosen & 1 == 1)
        if allowed:
            best = min(best, ops.time[m])
    return NEVER if best >= NEVER else int(best + (slow + ops.grain - 1) // ops.grain)


@inner
def lift(ranges: LiveRanges, plan: PlanState, i: int, low: int, high: int) -> None:
    """Take a range off its path, from stall `low` to op `high`."""
    base = ranges.base[i]
    for k in range(low, min(len(plan.room), high + 1)):
        if plan.during[base + k] >= 0 and plan.during[base + k] != 1:
            plan.room[k] += ranges.size[i]
    plan.placed[i] = 0
    u = use_from(ranges, i, low)[0]
    while u < ranges.first[i + 1] and ranges.op[ranges.use[u]] <= high:
        plan.access[ranges.use[u]] = -1
        u += 1


@inner
def put(
    ranges: LiveRanges, ops: OpTable, plan: PlanState, path: BytePath, i: int, low: int, high: int
) -> None:
    """Put a range on a path, from stall `low` to op `high`."""
    n, base = len(plan.room), ranges.base[i]
    for k in range(low, min(n, high + 1)):
        plan.before[base + k], plan.after[base + k] = path.before[k], path.after[k]
        plan.during[base + k] = path.during[k]
        if path.during[k] >= 0 and path.during[k] != 1:
            plan.room[k] -= ranges.size[i]
    e = min(n, high + 1)
    plan.before[base + e] = path.before[e]
    if high >= ranges.end[i]:
        plan.after[base + e] = path.after[e]
    plan.placed[i] = 1
    u = use_from(ranges, i, low)[0]
    while u < ranges.first[i + 1] and ranges.op[ranges.use[u]] <= high:
        j = ranges.use[u]
        k = ranges.op[j]
        plan.access[j] = access_of(path.during[k], ranges.role[j])
        plan.length[k] = length_of(ops, plan, k, -1, 0)
        u += 1


@inner
def price_accesses(
    ranges: LiveRanges,
    ops: OpTable,
    plan: PlanState,
    prices: PathPrices,
    i: int,
    low: int,
    high: int,
    unit: int,
) -> None:
    """Write the prices of the accesses to a range without a path there, beside all others."""
    u = use_from(ranges, i, low)[0]
    while u < ranges.first[i + 1] and ranges.op[ranges.use[u]] <= high:
        j = ranges.use[u]
        least = length_of(ops, plan, ranges.op[j], -1, 0)
        for access in range(3):
            length = length_of(ops, plan, ranges.op[j], j, access)
            price = unit * 1.0 * (length - least) / max(1, ranges.size[i])
            prices.access[j, access] = NEVER if length >= NEVER else int(min(1.0 * HIGHEST, price))
        u += 1


@kernel_in_place
def fill(
    ranges: LiveRanges,
    ops: OpTable,
    plan: PlanState,
    prices: PathPrices,
    path: BytePath,
    order: Integers,
    at: int,
    rents: Integers,
    share: States,
    unit: int,
) -> int:
    """Give the ranges of an order, from `at` on, their best paths beside all others.

    ``rents``: by op, the price of the first tier. ``share``: by range and op, flat, the percents of the rent
    that the range does not pay. ``unit``: prices are in ns / unit.

    Return the place in the order with which the next call begins; ~at if the range there has no path.
    """
    steps = 0
    while at < len(order) and steps < STEPS:
        i = order[at]
        base, end = ranges.base[i], min(len(rents), ranges.end[i] + 1)
        for k in range(ranges.begin[i], end):
            prices.begin[k] = rents[k] * (100 - share[base + k]) // 100
        if plan.placed[i]:
            lift(ranges, plan, i, ranges.begin[i], ranges.end[i])
        price_accesses(ranges, ops, plan, prices, i, ranges.begin[i], ranges.end[i], unit)
        if find_path(ranges, prices, path, i, plan.room) >= NEVER:
            return ~at
        put(ranges, ops, plan, path, i, ranges.begin[i], ranges.end[i])
        steps += end - ranges.begin[i] + 1
        at += 1
    return at


@inner
def release(times: Schedule, i: int, tiers: int, e: int, copy: int) -> None:
    """Note that a range leaves tiers, given as bits, in a stall or with a copy."""
    for tier in range(2):
        if tiers >> tier & 1:
            row = times.release[times.counts[1]]
            row[0], row[1], row[2], row[3] = i, tier, e, copy
            times.counts[1] += 1


@inner
def add_copy(times: Schedule, c: int, i: int, e: int, channel: int, bound: int) -> None:
    """Add a copy, as number c, to those of its stall, behind those bound by earlier ops."""
    times.moved[c], times.outward[c], times.bound[c] = i, channel, bound
    previous, following = -1, times.head[e, channel]
    while following >= 0 and times.bound[following] < bound:
        previous, following = following, times.tail[following]
    times.tail[c] = following
    if previous < 0:
        times.head[e, channel] = c
    else:
        times.tail[previous] = c


@kernel_in_place
def collect(ranges: LiveRanges, plan: PlanState, times: Schedule) -> None:
    """Note the copies and releases of all ranges; a state s is in the tiers of bits s + 1."""
    n = len(plan.room)
    times.head[:, :] = -1
    times.counts[:] = 0
    for i in range(len(ranges.size)):
        base, u, last = ranges.base[i], ranges.first[i], ranges.first[i + 1]
        written, held, stop = -1, 0, min(n, ranges.end[i] + 1)
        for e in range(ranges.begin[i], stop + 1):
            before, after, copy = plan.before[base + e], plan.after[base + e], -1
            release(times, i, held & ~(before + 1), e, -1)
            channel = channel_of(before, after) if after >= 0 else -1
            if channel >= 0:
                copy = times.counts[0]
                times.counts[0] += 1
                following = ranges.op[ranges.use[u]] if u < last else n
                add_copy(times, copy, i, e, channel, min(e - 1, written) if channel == 1 else following)
                written = following if channel == 0 else written  # what is brought in goes out behind its use
            release(times, i, (before + 1) & ~(after + 1), e, copy)
            held = after + 1
            if e < stop and u < last and ranges.op[ranges.use[u]] == e:
                if ranges.role[ranges.use[u]] != READ:
                    written = e
                    target = 2 if plan.during[base + e] == 1 else 1
                    release(times, i, held & ~target, e + 1, -1)
                    held = target
                u += 1


@kernel_in_place
def simulate(plan: PlanState, prices: PathPrices, times: Schedule) -> int:
    """Write the schedule of the copies and ops to `times`; return the ns until all of them are done."""
    n = len(plan.room)
    times.ready[:] = 0
    now, out, into, done = 0, 0, 0, 0
    for e in range(n + 1):
        c, free = times.head[e, 1], now
        while c >= 0:
            k = times.bound[c]
            if k >= 0:
                out = max(out, times.begin[k] + plan.length[k])
            times.start[c] = out
            out += prices.copy[times.moved[c], 1]
            times.end[c] = out
            free = max(free, out)
            c = times.tail[c]
        c = times.head[e, 0]
        while c >= 0:
            into = max(into, free)
            times.start[c] = into
            into += prices.copy[times.moved[c], 0]
            times.end[c] = into
            times.ready[times.bound[c]] = max(times.ready[times.bound[c]], into)
            c = times.tail[c]
        done = max(done, free, into)
        if e < n:
            times.begin[e] = max(free, times.ready[e])
            now = times.begin[e] + plan.length[e]
    return int(max(now, done))


@inner
def hold(ranges: LiveRanges, plan: PlanState, i: int, k: int, state: int) -> bool:
    """Move a range from the second tier to a state of the first one beside op k; return whether it fits."""
    at = ranges.base[i] + k
    away = plan.after[at] == plan.during[at] == plan.before[at + 1] == 1
    if not away or plan.room[k] < ranges.size[i]:
        return False
    for u in range(ranges.first[i], ranges.first[i + 1]):
        if ranges.op[ranges.use[u]] == k:
            return False
    plan.after[at] = plan.during[at] = plan.before[at + 1] = state
    plan.room[k] -= ranges.size[i]
    return True


@kernel_in_place
def widen(ranges: LiveRanges, plan: PlanState, times: Schedule) -> int:
    """Give each copy that delays an op one more op beside it, if there is room; return the number of them."""
    n, changed = len(plan.room), 0
    for e in range(1, n + 1):
        now = times.begin[e - 1] + plan.length[e - 1]
        c = times.head[e, 1]
        while c >= 0:
            i = times.moved[c]
            if times.end[c] > now and e < n:
                changed += hold(ranges, plan, i, e, 0)
            c = times.tail[c]
        c = times.head[e, 0]
        while c >= 0:
            i, k = times.moved[c], times.bound[c]
            if 0 < k < n and times.end[c] > times.begin[k - 1] + plan.length[k - 1]:
                changed += hold(ranges, plan, i, e - 1, plan.after[ranges.base[i] + e])
            c = times.tail[c]
    return changed
