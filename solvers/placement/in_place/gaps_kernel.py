r"""Cheapest paths of all live ranges at prices (`prices`), without room, and what they need in sum.

Between two uses of a live range the prices are those of any other one. Let :math:`A_e` hold the least costs
from a state before stall e to one before the end of op e, in states as in `paths_kernel`. Products of these
matrices, with sums for products and least values for sums, of aligned blocks of ops are computed once
(`build`). A range between two uses then takes two blocks of each size at most, in place of all ops.

A path stays in one state for most ops: where a block costs no more than to stay, its path is not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from ...engines.kernels import inner, kernel_in_place
from .paths_kernel import (
    NEVER,
    READ,
    UPDATE,
    WRITE,
    ColumnLayout,
    Floats,
    Integers,
    LiveRanges,
    Matrix,
    PathPrices,
    access_of,
    channel_of,
)

NEAR, FAR, BOTH = range(3)
"""States of a range between two ops."""


class BlockTable(NamedTuple):
    """Products of matrices of 2**l ops from a multiple of it on: row ``first[l]`` + number, flat 3 x 3.

    ``near``: by op, what a byte pays for the first tier before it. By step of a path ``before``: the least
    costs of the states there. ``blocks``, ``costs``: blocks between two uses, and the costs before them.
    ``stack``: blocks whose paths are looked at.
    """

    first: Integers
    product: Matrix
    near: Integers
    before: Matrix
    blocks: Matrix
    costs: Matrix
    stack: Matrix


class Needs(NamedTuple):
    """What paths need: ``slope``, by row of the linear program (`ColumnLayout`); ``cost``, their costs there.

    ``begin`` and ``end``: by op, the change of the bytes in the first tier at its start and before its end.
    ``share``: by live range and op, flat, the change of the part in the first tier at its start.
    """

    slope: Floats
    begin: Floats
    end: Floats
    share: Floats
    cost: Floats


@inner
def move_cost(s: int, t: int, into: int, out: int) -> int:
    """Return the cost from a state to another, at the prices of copies."""
    if s in (t, BOTH):
        return 0
    return out if s == NEAR else into


@inner
def run_cost(prices: PathPrices, e: int, s: int, t: int) -> int:
    """Return the cost of an op that does not use a range, from the state at its start to that at its end."""
    cost = move_cost(s, t, prices.run[e, 0], prices.run[e, 1])
    cost += prices.begin[e] if s != FAR else 0
    return int(min(NEVER, cost + (prices.end[e] if t != FAR else 0)))


@inner
def use_cost(prices: PathPrices, e: int, j: int, role: int, s: int, t: int) -> int:
    """Return the cost of an op with operand j, from the state at its start to that at its end."""
    access = prices.access
    if role != READ and BOTH in (s, t):
        return NEVER
    if s == t:
        cost = access[j, 1 if s == FAR else 0]
        cost = min(cost, access[j, 1]) if s == BOTH else cost
    elif role == READ:
        if t != BOTH:
            return NEVER
        cost = access[j, 0] + prices.run[e, 1] if s == NEAR else access[j, 1] + prices.run[e, 0]
    elif role == UPDATE and s == FAR:
        cost = access[j, 2] + prices.begin[e]
    else:
        return NEVER
    cost += prices.begin[e] if s != FAR else 0
    return int(min(NEVER, cost + (prices.end[e] if t != FAR else 0)))


@inner
def step_cost(prices: PathPrices, e: int, j: int, role: int, s: int, t: int) -> tuple[int, int]:
    """Return the least cost from before stall e to the end of op e, and the state at its start.

    ``j``: the operand that the range is there; -1: none. Op n is the end.
    """
    cost, state = NEVER, s
    for at in range(3):
        moved = move_cost(s, at, prices.stall[e, 0], prices.stall[e, 1]) if role != WRITE else 0
        if role == WRITE and at != s:
            continue
        if e == len(prices.begin):
            used = 0 if at == t else NEVER
        else:
            used = use_cost(prices, e, j, role, at, t) if j >= 0 else run_cost(prices, e, at, t)
        if moved + used < cost:
            cost, state = moved + used, at
    return cost, state


@kernel_in_place
def build(prices: PathPrices, table: BlockTable) -> None:
    """Write the products of all blocks."""
    n, product = len(prices.begin), table.product
    for e in range(n):
        table.near[e + 1] = table.near[e] + prices.begin[e] + prices.end[e]
        for s in range(3):
            for t in range(3):
                product[e, 3 * s + t] = step_cost(prices, e, -1, READ, s, t)[0]
    for level in range(1, len(table.first)):
        row, half = table.first[level], table.first[level - 1]
        for number in range(n >> level):
            left, right = product[half + 2 * number], product[half + 2 * number + 1]
            for s in range(3):
                for t in range(3):
                    least = NEVER
                    for at in range(3):
                        least = min(least, left[3 * s + at] + right[3 * at + t])
                    product[row + number, 3 * s + t] = least


@inner
def cross(table: BlockTable, low: int, high: int, c: int) -> int:
    """Take the costs in row c of `before` through ops low, …, high - 1; return the number of blocks."""
    count, costs = 0, table.costs
    costs[0, 0], costs[0, 1], costs[0, 2] = table.before[c, 0], table.before[c, 1], table.before[c, 2]
    while low < high:
        level = 0
        while low >> level & 1 == 0 and level + 1 < len(table.first) and low + (2 << level) <= high:
            level += 1
        row = table.first[level] + (low >> level)
        table.blocks[count, 0], table.blocks[count, 1] = level, low
        for t in range(3):
            least = NEVER
            for s in range(3):
                least = min(least, costs[count, s] + table.product[row, 3 * s + t])
            costs[count + 1, t] = least
        low += 1 << level
        count += 1
    return count


@inner
def step(prices: PathPrices, table: BlockTable, e: int, j: int, role: int, count: int, c: int) -> None:
    """Take the costs behind the blocks through stall and op e, to row c + 1 of `before`."""
    costs = table.costs[count]
    if role == WRITE:  # no op needs the contents before it
        costs[0] = costs[1] = min(costs[0], costs[1], costs[2])
    for t in range(3):
        least = NEVER
        for s in range(3):
            least = min(least, costs[s] + step_cost(prices, e, j, role, s, t)[0])
        table.before[c + 1, t] = least


@inner
def forward(ranges: LiveRanges, prices: PathPrices, table: BlockTable, i: int, starts: int) -> int:
    """Write the costs of the states of a range before each of its steps; return their number."""
    n, at, c = len(prices.begin), ranges.begin[i], 0
    for s in range(3):
        table.before[0, s] = 0 if starts >> s & 1 else NEVER
    for u in range(ranges.first[i], ranges.first[i + 1]):
        j = ranges.use[u]
        role, k = ranges.role[j], ranges.op[j]
        step(prices, table, k, j, role, cross(table, at, k if role != WRITE else at, c), c)
        at, c = k + 1, c + 1
    if ranges.end[i] == n:
        step(prices, table, n, -1, READ, cross(table, at, n, c), c)
        c += 1
    return c


@inner
def stay(needs: Needs, base: int, size: int, low: int, high: int, weight: float) -> None:
    """Note that a range is in the first tier beside ops low, …, high - 1."""
    for change in (needs.begin, needs.end):
        change[low] += size
        change[high] -= size
    needs.share[base + low] += weight
    needs.share[base + high] -= weight


@inner
def note_step(
    ranges: LiveRanges,
    prices: PathPrices,
    layout: ColumnLayout,
    needs: Needs,
    i: int,
    e: int,
    j: int,
    s: int,
    t: int,
    weight: float,
) -> None:
    """Note what a range needs in stall and op e, between two states; `j` as in `step_cost`."""
    n, size, scale, base = len(prices.begin), ranges.size[i], layout.scale, ranges.base[i]
    role, first = ranges.role[j] if j >= 0 else READ, 2 * n
    at = step_cost(prices, e, j, role, s, t)[1]
    channel = channel_of(s, at)
    if channel >= 0:
        needs.slope[first + channel * (2 * n + 1) + n + e] += size * scale[1 + channel]
    if e == n:
        return
    raised = role == UPDATE and at == FAR and t == NEAR
    if at != FAR or raised:
        needs.begin[e] += size
        needs.begin[e + 1] -= size
        needs.share[base + e] += weight
        needs.share[base + e + 1] -= weight
    if t != FAR:
        needs.end[e] += size
        needs.end[e + 1] -= size
    if role == READ:
        channel = channel_of(at, t)
        if channel >= 0:
            needs.slope[first + channel * (2 * n + 1) + e] += size * scale[1 + channel]
    if j >= 0:
        far = at == FAR or (at == BOTH and prices.access[j, 1] < prices.access[j, 0])
        access = access_of(3 if raised else 1 if far else 0, role)
        longer = layout.longer[j, access]
        needs.cost[0] += longer
        for channel in range(2):
            needs.slope[first + channel * (2 * n + 1) + e] -= longer
        if layout.link[j, access] >= 0:
            needs.slope[layout.link[j, access]] += 1.0


@inner
def note_blocks(
    ranges: LiveRanges,
    prices: PathPrices,
    layout: ColumnLayout,
    table: BlockTable,
    needs: Needs,
    i: int,
    count: int,
    state: int,
    weight: float,
) -> int:
    """Note what a range needs in blocks that `cross` wrote, to a state behind them; return that before."""
    stack = table.stack
    while count > 0:
        count -= 1
        level, low, t = table.blocks[count, 0], table.blocks[count, 1], state
        row = table.first[level] + (low >> level)
        for s in range(3):
            if table.costs[count, s] + table.product[row, 3 * s + t] == table.costs[count + 1, t]:
                state = s
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3], depth = level, low, state, t, 1
        while depth > 0:
            depth -= 1
            level, low, s, t = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
            high, cost = low + (1 << level), table.product[table.first[level] + (low >> level), 3 * s + t]
            if s == t == FAR and cost == 0:
                continue
            if s == t != FAR and cost == table.near[high] - table.near[low]:
                stay(needs, ranges.base[i], ranges.size[i], low, high, weight)
                continue
            if level == 0:
                note_step(ranges, prices, layout, needs, i, low, -1, s, t, weight)
                continue
            half = table.first[level - 1] + (low >> (level - 1))
            left, right, at = table.product[half], table.product[half + 1], 0
            while left[3 * s + at] + right[3 * at + t] != cost:
                at += 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = level - 1, low, s, at
            depth += 1
            stack[depth, 0], stack[depth, 1] = level - 1, low + (1 << (level - 1))
            stack[depth, 2], stack[depth, 3] = at, t
            depth += 1
    return state


@inner
def backward(
    ranges: LiveRanges,
    prices: PathPrices,
    layout: ColumnLayout,
    table: BlockTable,
    needs: Needs,
    i: int,
    c: int,
    state: int,
    weight: float,
) -> None:
    """Note what the cheapest path of a range to a state behind step c - 1 needs."""
    n, u = len(prices.begin), ranges.first[i + 1]
    while c > 0:
        c -= 1
        j, e = -1, n
        if c < ranges.first[i + 1] - ranges.first[i]:
            u -= 1
            j = ranges.use[u]
            e = ranges.op[j]
        role = ranges.role[j] if j >= 0 else READ
        at = ranges.op[ranges.use[u - 1]] + 1 if u > ranges.first[i] else ranges.begin[i]
        count, t = cross(table, at, e if role != WRITE else at, c), state
        cost, costs = table.before[c + 1, t], table.costs[count]
        least = 0
        for s in range(3):
            least = s if costs[s] < costs[least] else least
            if role != WRITE and costs[s] + step_cost(prices, e, j, role, s, t)[0] == cost:
                state = s
        note_step(ranges, prices, layout, needs, i, e, j, t if role == WRITE else state, t, weight)
        state = least if role == WRITE else state
        state = note_blocks(ranges, prices, layout, table, needs, i, count, state, weight)


@kernel_in_place
def sum_needs(
    ranges: LiveRanges,
    prices: PathPrices,
    layout: ColumnLayout,
    table: BlockTable,
    needs: Needs,
    costs: Integers,
    weight: float,
) -> bool:
    """Write the costs of cheapest paths, and add what they need; return whether each range has one."""
    for i in range(len(ranges.size)):
        starts, best, state = ranges.starts[i], NEVER, -1
        for start in range(3):
            if ranges.cyclic[i] and starts >> start & 1:
                c = forward(ranges, prices, table, i, 1 << start)
                if table.before[c, start] < best:
                    best, state = table.before[c, start], start
        if ranges.cyclic[i]:
            if state < 0:
                return False
            starts = 1 << state
        c = forward(ranges, prices, table, i, starts if starts else 7)
        if state < 0:
            for s in range(3):
                if table.before[c, s] < best:
                    best, state = table.before[c, s], s
        if state < 0:
            return False
        costs[i] = best
        backward(ranges, prices, layout, table, needs, i, c, state, weight)
    return True
