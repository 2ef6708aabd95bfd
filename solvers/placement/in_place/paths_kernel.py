"""The cheapest path of an item through two tiers, at prices (`prices`).

States: 0 the first tier, 1 the second one, 2 both. While an op runs, 3 is what it takes in another way: both
tiers, read in the second one, or the first tier, written anew from the second one (`RAISED`).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.kernels import inner, kernel_in_place

Integers = NDArray[np.int64]
Matrix = Annotated[NDArray[np.int64], 2]
Bytes = Annotated[NDArray[np.int8], 2]

NEVER = 2**61
"""More than any path of a byte costs."""

READ, WRITE, UPDATE = 0, 1, 2
"""What an op does with a tensor: the numbers of `OperandRole`."""


class PathItems(NamedTuple):
    """Items: their operands from `first` on, by number in `use`; operands: op, role.

    ``end``: the op behind which it ends; n if it is kept. ``starts``: bits of the states at time 0; 0 if a
    write begins it. ``cyclic``: whether it ends in the state of time 0.
    """

    first: Integers
    use: Integers
    end: Integers
    size: Integers
    starts: Integers
    cyclic: Integers
    op: Integers
    role: Integers


class PathPrices(NamedTuple):
    """Of a byte: in the first tier at the start and before the end of each op; of copies; of ways.

    ``run``: by op, inward and outward copies while it runs; ``stall``: before op 0 and behind each op.

    ``clock``: ns from op 0 to each op, if copies are of whole items and begin and end in stalls; else zeros.
    A copy beside ops that last as long as it does costs what ``run`` says, a shorter one in part what
    ``stall`` does. ``times``: ns of a copy of 2**20 bytes inward and outward.
    """

    begin: Integers
    end: Integers
    run: Matrix
    stall: Matrix
    way: Matrix
    clock: Integers
    times: Integers


class PathUsage(NamedTuple):
    """What some paths use: bytes at the starts and ends of ops, bytes copied; by operand its way."""

    begin: Integers
    end: Integers
    run: Matrix
    stall: Matrix
    way: Integers


class BytePath(NamedTuple):
    """A path: by op the state while it runs, before its end, and when the next one starts; scratch for it.

    ``start``: the state at time 0, in its only place. ``by``, ``after``: predecessors; ``cost``: three rows.
    """

    during: Integers
    late: Integers
    next: Integers
    start: Integers
    by: Bytes
    after: Bytes
    cost: Matrix


@inner
def _copy(prices: PathPrices, e: int, way: int, size: int, span: int) -> int:
    """Return the price of a byte that is copied in a stall, beside ops of so many ns behind or before it."""
    full = prices.stall[e, way]
    if prices.clock[-1] == 0 or full >= NEVER:
        return int(full)
    k = min(e, len(prices.begin) - 1) if way == 0 else max(0, e - 1)
    needed = max(1, size * prices.times[way] >> 20)
    if span >= needed:
        return int(prices.run[k, way])
    return int(full - (full - prices.run[k, way]) // 1024 * (span * 1024 // needed))


@inner
def _stall(path: BytePath, prices: PathPrices, e: int, k: int, size: int, following: int) -> None:
    """Go from the states before the end of an op (row 1) to those at the start of the next one (row 0)."""
    into = _copy(prices, e, 0, size, prices.clock[following] - prices.clock[e])
    out = _copy(prices, e, 1, size, 0)
    for y in range(3):
        best, by = NEVER, 0
        for x in range(3):
            cost = path.cost[1, x]
            if x == 0 and y != 0:
                cost += out
            if x == 1 and y != 1:
                cost += into
            if cost < best:
                best, by = cost, x
        path.cost[0, y] = best
        if k >= 0:
            path.after[k, y] = by
        else:
            path.start[1 + y] = by


@inner
def _begin(path: BytePath, prices: PathPrices, k: int, j: int, role: int, base: int, room: bool) -> None:
    """Go from the states before the start of an op (row 0) to those while it runs (row 2)."""
    here = prices.begin[k]
    for x in range(4):
        path.cost[2, x] = NEVER
    if role == READ:
        path.cost[2, 0] = path.cost[0, 0] + here + prices.way[j, 0]
        path.cost[2, 1] = path.cost[0, 1] + prices.way[j, 1]
        path.cost[2, 2] = path.cost[0, 2] + here + prices.way[j, 0]
        path.cost[2, 3] = path.cost[0, 2] + here + prices.way[j, 1]
    elif role == WRITE:
        path.cost[2, 0] = base + here + prices.way[j, 0]
        path.cost[2, 1] = base + prices.way[j, 1]
    else:
        path.cost[2, 0] = path.cost[0, 0] + here + prices.way[j, 0]
        path.cost[2, 1] = path.cost[0, 1] + prices.way[j, 1]
        path.cost[2, 3] = path.cost[0, 1] + here + prices.way[j, 2]
    if not room:
        path.cost[2, 0] = path.cost[2, 2] = NEVER
        path.cost[2, 3] = NEVER


@inner
def _during(path: BytePath, prices: PathPrices, k: int, role: int, room: bool) -> None:
    """Go from the states while an op runs (row 2) to those before its end (row 1)."""
    into, out = (prices.run[k, 0], prices.run[k, 1]) if prices.clock[-1] == 0 else (NEVER, NEVER)
    for y in range(3):
        best, by = NEVER, 0
        for x in range(4):
            cost = path.cost[2, x]
            if role == READ:
                if (x in (0, 2) and y == 1) or (x in (1, 3) and y == 0):
                    continue
                if x == 0 and y == 2:
                    cost += out
                if x == 1 and y == 2:
                    cost += into
            elif y != (1 if x == 1 else 0) or x == 2:
                continue
            if cost < best:
                best, by = cost, x
        if y != 1:
            best = best + prices.end[k] if room and best < NEVER else NEVER
        path.cost[1, y] = min(best, NEVER)
        path.by[k, y] = by


@inner
def _least(path: BytePath, row: int) -> int:
    state = 0
    for x in range(1, 3):
        if path.cost[row, x] < path.cost[row, state]:
            state = x
    return state


@inner
def _unused(
    prices: PathPrices, path: BytePath, k: int, last: int, size: int, room_begin: Integers, room_end: Integers
) -> None:
    """Go on from the start of an op to that of another one, while nobody uses the item (row 0)."""
    near, far, both = path.cost[0, 0], path.cost[0, 1], path.cost[0, 2]
    by, after, clock = path.by, path.after, prices.clock
    for i in range(k, last):
        here = prices.begin[i] if room_begin[i] >= size else NEVER
        near, both = min(near + here, NEVER), min(both + here, NEVER)
        into, out = (prices.run[i, 0], prices.run[i, 1]) if clock[-1] == 0 else (NEVER, NEVER)
        sent, brought = near + out, far + into
        new, old = (2, both) if both < near else (0, near)
        by[i, 0] = 1 if brought < old else new
        a = min(brought, old)
        new, old = (2, both) if both < far else (1, far)
        by[i, 1] = 0 if sent < old else new
        b = min(sent, old)
        new, old = (0, sent) if sent < both else (2, both)
        by[i, 2] = 1 if brought < old else new
        c = min(brought, old)
        here = prices.end[i] if room_end[i] >= size else NEVER
        a, c = min(a + here, NEVER), min(c + here, NEVER)
        into = _copy(prices, i + 1, 0, size, clock[last] - clock[i + 1])
        out = _copy(prices, i + 1, 1, size, clock[i + 1] - clock[k])
        sent, brought = a + out, b + into
        new, old = (2, c) if c < a else (0, a)
        after[i, 0] = 1 if brought < old else new
        near = min(brought, old)
        new, old = (2, c) if c < b else (1, b)
        after[i, 1] = 0 if sent < old else new
        far = min(sent, old)
        new, old = (0, sent) if sent < c else (2, c)
        after[i, 2] = 1 if brought < old else new
        both = min(brought, old)
    path.cost[0, 0], path.cost[0, 1], path.cost[0, 2] = near, far, both


@inner
def _forward(
    items: PathItems,
    prices: PathPrices,
    path: BytePath,
    i: int,
    start: int,
    room_begin: Integers,
    room_end: Integers,
) -> int:
    """Find the cheapest path from a state at time 0 (-1: from any that it may begin in); return its cost."""
    n, size = len(prices.begin), items.size[i]
    u, last = items.first[i], items.first[i + 1]
    k = 0
    base = 0
    if items.starts[i]:
        for x in range(3):
            allowed = start == x if start >= 0 else items.starts[i] >> x & 1
            path.cost[1, x] = 0 if allowed else NEVER
        if u < last and items.role[items.use[u]] == WRITE:
            base = 0
            k = items.op[items.use[u]]
        else:
            following = items.op[items.use[u]] if u < last else n
            _stall(path, prices, 0, -1, size, following)
    else:
        k = items.op[items.use[u]]
    while k < n:
        following = items.op[items.use[u]] if u < last else n
        if following > k:
            _unused(prices, path, k, following, size, room_begin, room_end)
            k = following
            continue
        j, u = items.use[u], u + 1
        role = items.role[j]
        _begin(path, prices, k, j, role, base, room_begin[k] >= size)
        _during(path, prices, k, role, room_end[k] >= size)
        if k == items.end[i]:
            break
        if u < last and items.role[items.use[u]] == WRITE:
            path.after[k, 0] = _least(path, 1)
            base = path.cost[1, path.after[k, 0]]
            if base >= NEVER:
                return NEVER
            k = items.op[items.use[u]]
            continue
        following = items.op[items.use[u]] if u < last else n
        _stall(path, prices, k + 1, k, size, following)
        k += 1
    row = 1 if items.end[i] < n else 0
    if items.cyclic[i]:
        return int(path.cost[0, start])
    return int(min(path.cost[row, 0], path.cost[row, 1], path.cost[row, 2]))


@inner
def find_path(
    items: PathItems, prices: PathPrices, path: BytePath, i: int, room_begin: Integers, room_end: Integers
) -> int:
    """Return what the cheapest path of a byte of an item costs; `NEVER`: there is none. It is in `path`."""
    n = len(prices.begin)
    cost: int = NEVER
    start = -1
    if items.cyclic[i]:
        for x in range(3):
            if items.starts[i] >> x & 1:
                found = _forward(items, prices, path, i, x, room_begin, room_end)
                if found < cost:
                    start, cost = x, found
        if start < 0:
            return NEVER
    cost = _forward(items, prices, path, i, start, room_begin, room_end)
    if cost >= NEVER:
        return NEVER
    first, u = items.first[i], items.first[i + 1] - 1
    k = items.end[i]
    if k == n:
        k = n - 1
        state = start if items.cyclic[i] else _least(path, 0)
        path.next[k] = state
        state = path.after[k, state]
    else:
        path.next[k] = -1
        state = _least(path, 1)
    while True:
        j = -1
        if u >= first and items.op[items.use[u]] == k:
            j, u = items.use[u], u - 1
        path.late[k] = state
        path.during[k] = path.by[k, state]
        state = path.during[k]
        if j >= 0 and items.role[j] == WRITE:
            if u < first:
                path.start[0] = start
                break
            for dead in range(items.op[items.use[u]] + 1, k):
                path.during[dead] = path.late[dead] = path.next[dead] = -1
            k = items.op[items.use[u]]
            path.next[k] = -1
            state = path.after[k, 0]
            continue
        if j >= 0 and items.role[j] == UPDATE:
            state = 1 if state in (1, 3) else 0
        elif state == 3:
            state = 2
        if k == 0:
            path.start[0] = path.start[1 + state]
            break
        k -= 1
        path.next[k] = state
        state = path.after[k, state]
    return cost


@inner
def first_op(items: PathItems, i: int) -> int:
    """Return the op from which on an item is somewhere."""
    u = items.first[i]
    if u < items.first[i + 1] and items.role[items.use[u]] == WRITE:
        return int(items.op[items.use[u]])
    return 0 if items.starts[i] else int(items.op[items.use[u]])


@inner
def found_in(during: int, update: bool) -> int:
    """Return the state in which an op finds what is in a state while it runs."""
    if update:
        return 0 if during == 0 else 1
    return 2 if during == 3 else during


@inner
def way_of(during: int, role: int) -> int:
    """Return the way in which an op takes what is in a state while it runs: near, far, raised."""
    if during == 3:
        return 1 if role == READ else 2
    return 1 if during == 1 else 0


@inner
def count(items: PathItems, path: BytePath, i: int, usage: PathUsage, sign: int) -> None:
    """Add what a path uses to the usage, or take it away (sign -1)."""
    n, size = len(usage.begin), sign * items.size[i]
    u, last = items.first[i], items.first[i + 1]
    k = first_op(items, i)
    if items.starts[i] and not (u < last and items.role[items.use[u]] == WRITE):
        update = u < last and items.op[items.use[u]] == 0 and items.role[items.use[u]] == UPDATE
        _copied(usage.stall, 0, path.start[0], found_in(path.during[0], update), size)
    while k < n:
        j = -1
        if u < last and items.op[items.use[u]] == k:
            j, u = items.use[u], u + 1
        during, late, following = path.during[k], path.late[k], path.next[k]
        if during != 1:
            usage.begin[k] += size
        if late != 1:
            usage.end[k] += size
        if j < 0 or items.role[j] == READ:
            _copied(usage.run, k, 2 if during == 3 else during, late, size)
        if j >= 0 and sign > 0:
            usage.way[j] = way_of(during, items.role[j])
        if following >= 0:
            _copied(usage.stall, k + 1, late, following, size)
        elif u < last:
            k = items.op[items.use[u]]
            continue
        else:
            break
        k += 1


@inner
def _copied(table: Matrix, e: int, before: int, after: int, size: int) -> None:
    if before == 0 and after != 0:
        table[e, 1] += size
    if before == 1 and after != 1:
        table[e, 0] += size


@kernel_in_place
def respond(
    items: PathItems, prices: PathPrices, path: BytePath, usage: PathUsage, room: Integers, costs: Integers
) -> bool:
    """Find the cheapest paths of all items, what they cost and use; return whether each has one."""
    usage.begin[:] = 0
    usage.end[:] = 0
    usage.run[:, :] = 0
    usage.stall[:, :] = 0
    for i in range(len(items.size)):
        costs[i] = find_path(items, prices, path, i, room, room)
        if costs[i] >= NEVER:
            return False
        count(items, path, i, usage, 1)
    return True


@kernel_in_place
def column_of(
    items: PathItems, prices: PathPrices, path: BytePath, i: int, room: Integers, usage: PathUsage
) -> None:
    """Find the cheapest path of an item, and what a byte of it uses, into a usage of zeros."""
    find_path(items, prices, path, i, room, room)
    count(items, path, i, usage, 1)
