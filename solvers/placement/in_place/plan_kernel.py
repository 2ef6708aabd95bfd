"""Plans of whole items: paths that fit beside all others, and when everything happens then.

Copies begin and end in stalls, in the order of these, each as early as the plan allows: an outward one behind
the last op that writes its item, to be through before the op behind its stall starts; an inward one in its
stall, behind the outward ones there, to be through before the op that uses it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.kernels import inner, kernel_in_place
from .paths_kernel import (
    NEVER,
    READ,
    UPDATE,
    WRITE,
    BytePath,
    PathItems,
    PathPrices,
    find_path,
    first_op,
    found_in,
    way_of,
)

Integers = NDArray[np.int64]
Matrix = Annotated[NDArray[np.int64], 2]
Bytes = Annotated[NDArray[np.int8], 2]


MOST = 2**50
"""Price of a byte in a way, at most."""


class Ops(NamedTuple):
    """Ops: first operand and first mode by op; by mode ns, and by operand of its op the ways as bits.

    ``slow``: by operand ns over ``grain`` in ways other than near.
    """

    operand: Integers
    mode: Integers
    time: Integers
    allowed: Matrix
    slow: Integers
    grain: int


class PlanWorld(NamedTuple):
    """All items: the state in which each is while an op runs, before its end, behind the stall; at time 0.

    ``room``: by op, the bytes free in the first tier; ``way``: by operand, -1 if its item is nowhere;
    ``length``: by op.
    """

    during: Bytes
    late: Bytes
    next: Bytes
    start: Integers
    placed: Integers
    room: Integers
    way: Integers
    length: Integers


class CopyTimes(NamedTuple):
    """Copies by stall, linked lists: first one, next one; item, stall or op that binds it, start and end.

    ``head``: by stall, of outward and inward copies. ``begin``: by op its start. ``ready``: by op, when what
    it uses has come.
    """

    head: Matrix
    tail: Integers
    item: Integers
    bind: Integers
    start: Integers
    end: Integers
    begin: Integers
    ready: Integers


@inner
def length_of(ops: Ops, world: PlanWorld, k: int, j: int, way: int) -> int:
    """Return the ns of an op that takes operand j in some way, all others as they are; `NEVER`: no mode."""
    first, last = ops.operand[k], ops.operand[k + 1]
    slow = 0
    for x in range(first, last):
        at = way if x == j else world.way[x]
        if at > 0:
            slow += ops.slow[x]
    best = NEVER
    for m in range(ops.mode[k], ops.mode[k + 1]):
        fits = True
        for x in range(first, last):
            at = way if x == j else world.way[x]
            if at >= 0 and not ops.allowed[m, x - first] >> at & 1:
                fits = False
                break
        if fits:
            best = min(best, ops.time[m])
    return NEVER if best >= NEVER else int(best + (slow + ops.grain - 1) // ops.grain)


@inner
def place(items: PathItems, world: PlanWorld, i: int, sign: int) -> None:
    """Take an item's room, or give it back (sign -1)."""
    n, size = len(world.room), items.size[i]
    for k in range(first_op(items, i), min(n, items.end[i] + 1)):
        if world.during[i, k] >= 0 and world.during[i, k] != 1:
            world.room[k] -= sign * size
    world.placed[i] = sign > 0


@inner
def put(items: PathItems, ops: Ops, world: PlanWorld, path: BytePath, i: int) -> None:
    """Put an item on a path."""
    n = len(world.room)
    for k in range(first_op(items, i), min(n, items.end[i] + 1)):
        world.during[i, k] = path.during[k]
        world.late[i, k] = path.late[k]
        world.next[i, k] = path.next[k]
    world.start[i] = path.start[0]
    for u in range(items.first[i], items.first[i + 1]):
        j = items.use[u]
        k = items.op[j]
        world.way[j] = way_of(path.during[k], items.role[j])
        world.length[k] = length_of(ops, world, k, -1, 0)
    place(items, world, i, 1)


@inner
def reroute(
    items: PathItems, ops: Ops, world: PlanWorld, prices: PathPrices, path: BytePath, i: int, unit: int
) -> bool:
    """Give an item that is nowhere its best path beside all others; return whether it has one."""
    for u in range(items.first[i], items.first[i + 1]):
        j = items.use[u]
        k = items.op[j]
        world.way[j] = -1
        least = length_of(ops, world, k, -1, 0)
        size = max(1, items.size[i])
        for way in range(3):
            length = length_of(ops, world, k, j, way)
            prices.way[j, way] = (
                NEVER if length >= NEVER else min(MOST, min(length - least, MOST // unit) * unit // size)
            )
    if find_path(items, prices, path, i, world.room, world.room) >= NEVER:
        return False
    put(items, ops, world, path, i)
    return True


@inner
def lift(items: PathItems, world: PlanWorld, i: int) -> None:
    """Take an item out of the world."""
    place(items, world, i, -1)
    for u in range(items.first[i], items.first[i + 1]):
        world.way[items.use[u]] = -1


@kernel_in_place
def fill(
    items: PathItems,
    ops: Ops,
    world: PlanWorld,
    prices: PathPrices,
    path: BytePath,
    order: Integers,
    unit: int,
    memory: Integers,
    share: Bytes,
) -> bool:
    """Give the items of an order, one after the other, their best paths beside all others.

    `memory`: the price of the first tier by op, of which an item pays the percents that it has no `share` of.
    """
    for at in range(len(order)):
        i = order[at]
        for k in range(first_op(items, i), min(len(memory), items.end[i] + 1)):
            prices.begin[k] = memory[k] * (100 - share[i, k]) // 100
        if world.placed[i]:
            lift(items, world, i)
        if not reroute(items, ops, world, prices, path, i, unit):
            return False
    return True


@kernel_in_place
def simulate(items: PathItems, world: PlanWorld, prices: PathPrices, times: CopyTimes) -> int:
    """Return when all is done, and note when everything happens."""
    n = len(world.room)
    times.head[:, :] = -1
    times.ready[:] = 0
    number = 0
    for i in range(len(items.size)):
        k = first_op(items, i)
        written, u, last = -1, items.first[i], items.first[i + 1]
        if k == 0 and items.starts[i] and not (u < last and items.role[items.use[u]] == WRITE):
            update = u < last and items.op[items.use[u]] == 0 and items.role[items.use[u]] == UPDATE
            later = found_in(world.during[i, 0], update)
            number = note(items, times, world.start[i], later, i, 0, -1, u, number)
        while k < n:
            if u < last and items.op[items.use[u]] == k:
                if items.role[items.use[u]] != READ:
                    written = k
                u += 1
            following = world.next[i, k]
            if following < 0:
                if u >= last:
                    break
                k = items.op[items.use[u]]
                continue
            number = note(items, times, world.late[i, k], following, i, k + 1, written, u, number)
            k += 1
    if number >= len(times.item):
        return NEVER
    now, out, into, through = 0, 0, 0, 0
    for e in range(n + 1):
        c = times.head[e, 1]
        free = now
        while c >= 0:
            written = times.bind[c]
            begin = max(out, times.begin[written] + world.length[written] if written >= 0 else 0)
            times.start[c] = begin
            out = begin + copy_ns(prices, 1, items.size[times.item[c]])
            times.end[c] = out
            free = max(free, out)
            c = times.tail[c]
        c = times.head[e, 0]
        while c >= 0:
            begin = max(into, free)
            times.start[c] = begin
            into = begin + copy_ns(prices, 0, items.size[times.item[c]])
            times.end[c] = into
            if times.bind[c] < n:
                times.ready[times.bind[c]] = max(times.ready[times.bind[c]], into)
            through = max(through, into)
            c = times.tail[c]
        through = max(through, free)
        if e < n:
            times.begin[e] = max(free, times.ready[e])
            now = times.begin[e] + world.length[e]
    return int(max(now, through))


@inner
def copy_ns(prices: PathPrices, way: int, size: int) -> int:
    """Return about the ns of a copy, at least one."""
    return int(max(1, (size * prices.times[way] >> 20) + 1))


@inner
def note(
    items: PathItems,
    times: CopyTimes,
    before: int,
    after: int,
    i: int,
    e: int,
    written: int,
    u: int,
    number: int,
) -> int:
    """Note the copy from a state to another in a stall, if there is one; return how many there are."""
    way = 1 if before == 0 and after != 0 else 0 if before == 1 and after != 1 else -1
    if way < 0 or number >= len(times.item):
        return number
    times.item[number] = i
    if way == 1:
        times.bind[number] = written
    else:
        times.bind[number] = items.op[items.use[u]] if u < items.first[i + 1] else len(times.begin)
    times.tail[number] = times.head[e, way]
    times.head[e, way] = number
    return number + 1


@inner
def used_at(items: PathItems, i: int, k: int) -> bool:
    """Return whether op k uses an item."""
    for u in range(items.first[i], items.first[i + 1]):  # noqa: SIM110
        if items.op[items.use[u]] == k:
            return True
    return False


@kernel_in_place
def widen(items: PathItems, world: PlanWorld, times: CopyTimes) -> int:
    """Give copies that ops wait for one more op beside them, where there is room; return how many got one."""
    n, changed = len(world.room), 0
    for e in range(n + 1):
        c = times.head[e, 1]
        now = times.begin[e - 1] + world.length[e - 1] if e else 0
        while c >= 0:
            i = times.item[c]
            late = times.end[c] > now
            apart = late and 0 < e < n and e <= items.end[i] and world.during[i, e] == 1
            apart = apart and world.next[i, e] == 1 and not used_at(items, i, e)
            if apart and world.room[e] >= items.size[i]:
                world.next[i, e - 1] = 0
                world.during[i, e] = world.late[i, e] = 0
                world.room[e] -= items.size[i]
                changed += 1
            c = times.tail[c]
        c = times.head[e, 0]
        while c >= 0:
            i, u = times.item[c], times.bind[c]
            before = times.begin[u - 1] + world.length[u - 1] if 0 < u < n else 0
            late = u < n and times.end[c] > before
            apart = late and e > 1 and e - 2 >= first_op(items, i) and world.during[i, e - 1] == 1
            apart = apart and world.late[i, e - 1] == 1 and world.next[i, e - 2] == 1
            if apart and world.room[e - 1] >= items.size[i] and not used_at(items, i, e - 1):
                both = world.next[i, e - 1]
                world.next[i, e - 2] = both
                world.during[i, e - 1] = world.late[i, e - 1] = both
                world.room[e - 1] -= items.size[i]
                changed += 1
            c = times.tail[c]
    return changed
