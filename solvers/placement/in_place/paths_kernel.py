"""The cheapest path of a live range through two tiers, at prices (`prices`), by dynamic programming over ops.

States of a range: 0 in the first tier, 1 in the second one, 2 in both, -1 in none. While an op runs, 3
means: in both tiers, read in the second one; or in the first tier, updated from the second one (`RAISED`).
Stall e is the time between op e - 1 and op e.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.kernels import inner, kernel_in_place

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Matrix = Annotated[NDArray[np.int64], 2]
FloatMatrix = Annotated[NDArray[np.float64], 2]
ByteMatrix = Annotated[NDArray[np.int8], 2]

NEVER = 2**61
"""Cost of what is impossible, above that of each path of a byte; the sum of three fits into 64 bits."""

STEPS = 2**17
"""Ops, summed over live ranges, after which a kernel returns to let the clock be read: a few ms."""

READ, WRITE, UPDATE = 0, 1, 2
"""What an op does with an operand, as in `formulations.placement.in_place.data`."""


class LiveRanges(NamedTuple):
    """Live ranges; their operands, by number, are those from `first` on in `use`.

    ``begin``: the op that writes it, or 0. ``end``: its last op; n if it is kept. ``size``: in bytes.
    ``starts``: bits of the states at time 0; 0 if an op writes it first. ``cyclic``: whether it ends in the
    state of time 0. ``base``: what to add to an op or a stall for its index in flat arrays. By operand:
    ``op`` and ``role``.
    """

    first: Integers
    use: Integers
    begin: Integers
    end: Integers
    size: Integers
    starts: Integers
    cyclic: Integers
    base: Integers
    op: Integers
    role: Integers


class PathPrices(NamedTuple):
    """Prices of a byte, all in the same fraction of a ns.

    ``begin``, ``end``: by op, in the first tier at its start and before its end. ``run``, ``stall``: by op
    and by stall, of copies inward and outward. ``access``: by operand and access.

    ``clock``: by op, the ns from op 0 to its start, if copies are of whole ranges and in stalls; else zeros.
    The price of such a copy is ``run``, if the ops beside it last as long as the copy does; else a part of it
    is ``stall``. ``copy``: by range, ns of its copies inward and outward.
    """

    begin: Integers
    end: Integers
    run: Matrix
    stall: Matrix
    access: Matrix
    clock: Integers
    copy: Matrix


class BytePath(NamedTuple):
    """A path: by op the state while it runs, by stall those before and after it.

    To follow it back: ``by``, by op and state before its end, the state while it runs; ``back``, by stall and
    state after it, the state before it.
    """

    during: Integers
    before: Integers
    after: Integers
    by: ByteMatrix
    back: ByteMatrix


class ColumnLayout(NamedTuple):
    """How a path becomes a column of the linear program.

    ``scale``: entries of a byte in the first tier, copied inward and outward. By operand and access:
    ``longer``, the time that it adds; ``link``, its row, or -1. ``chosen``: the row of range 0.
    """

    scale: Floats
    longer: FloatMatrix
    link: Matrix
    chosen: int


class ColumnArrays(NamedTuple):
    """Columns one behind another: the first entry of each; its cost; by entry the row and the value."""

    first: Integers
    cost: Floats
    row: Integers
    value: Floats


@inner
def _plus(cost: int, price: int) -> int:
    return NEVER if cost >= NEVER or price >= NEVER else cost + price


@inner
def _copy(prices: PathPrices, i: int, e: int, channel: int, span: int) -> int:
    """Return the price of a byte copied in a stall; `span`: ns of the ops beside which it can be copied."""
    full = prices.stall[e, channel]
    if prices.clock[-1] == 0 or full >= NEVER:
        return int(full)
    k = min(e, len(prices.begin) - 1) if channel == 0 else max(0, e - 1)
    needed = prices.copy[i, channel]
    if span >= needed:
        return int(prices.run[k, channel])
    return int(full - (full - prices.run[k, channel]) // 1024 * (span * 1024 // needed))


@inner
def _moves(
    near: int, far: int, both: int, into: int, out: int, by: ByteMatrix, k: int, used: int
) -> tuple[int, int, int]:
    """Return the costs of the states after copies at these prices; note in row k where each comes from.

    Of two equal costs, a range that the op before used (``used``: 1) takes that of an outward copy here, any
    other range that of an earlier copy: linear programs over such paths need fewer rounds.
    """
    sent, brought = min(near + out, NEVER), min(far + into, NEVER)
    origin, cost = (2, both) if both < near else (0, near)
    by[k, 0] = 1 if brought < cost else origin
    to_near = min(brought, cost)
    origin, cost = (2, both) if both < far else (1, far)
    by[k, 1] = 0 if sent - used < cost else origin
    to_far = min(sent, cost)
    origin, cost = (0, sent) if sent - used < both else (2, both)
    by[k, 2] = 1 if brought < cost else origin
    return to_near, to_far, min(brought, cost)


@inner
def _use(
    ranges: LiveRanges, prices: PathPrices, path: BytePath, j: int, here: int, near: int, far: int, both: int
) -> tuple[int, int, int]:
    """Return the costs of the states before the end of the op with operand j, from those at its start.

    ``here``: the price of a byte in the first tier at the start. Before a write all states cost the same.
    """
    k, role, by = ranges.op[j], ranges.role[j], path.by
    by[k, 0], by[k, 1] = 0, 1
    held = _plus(_plus(near, here), prices.access[j, 0])
    away = _plus(far, prices.access[j, 1])
    if role == WRITE:
        return held, away, NEVER
    if role == UPDATE:
        raised = _plus(_plus(far, here), prices.access[j, 2])
        if raised < held:
            by[k, 0] = 3
        return min(held, raised), away, NEVER
    both_near = _plus(_plus(both, here), prices.access[j, 0])
    both_far = _plus(_plus(both, here), prices.access[j, 1])
    if both_near < held:
        by[k, 0] = 2
    if both_far < away:
        by[k, 1] = 3
    whole = prices.clock[-1] != 0
    cost, by[k, 2] = NEVER if whole else _plus(held, prices.run[k, 1]), 0
    brought = NEVER if whole else _plus(away, prices.run[k, 0])
    if brought < cost:
        cost, by[k, 2] = brought, 1
    if both_near < cost:
        cost, by[k, 2] = both_near, 2
    if both_far < cost:
        cost, by[k, 2] = both_far, 3
    return min(held, both_near), min(away, both_far), cost


@inner
def _least(near: int, far: int, both: int) -> int:
    """Return the state of the least cost."""
    return 0 if near <= far and near <= both else 1 if far <= both else 2


@inner
def use_from(ranges: LiveRanges, i: int, k: int) -> tuple[int, int]:
    """Return the first use of a range from op k on, and the op behind the last write before it."""
    u, written = ranges.first[i], ranges.begin[i]
    while u < ranges.first[i + 1] and ranges.op[ranges.use[u]] < k:
        written = written if ranges.role[ranges.use[u]] == READ else ranges.op[ranges.use[u]] + 1
        u += 1
    return u, written


@inner
def _forward(
    ranges: LiveRanges,
    prices: PathPrices,
    path: BytePath,
    i: int,
    room: Integers,
    low: int,
    high: int,
    starts: int,
) -> tuple[int, int, int]:
    """Return the costs of the states behind op `high`; `starts`: bits of the states before stall `low`."""
    n, size = len(prices.begin), ranges.size[i]
    last = ranges.first[i + 1]
    u, written = use_from(ranges, i, low)
    near, far, both = 0 if starts & 1 else NEVER, 0 if starts & 2 else NEVER, 0 if starts & 4 else NEVER
    whole, clock = prices.clock[-1] != 0, prices.clock
    e = used = low
    while e <= high:
        j = ranges.use[u] if u < last else -1
        following = ranges.op[j] if u < last else n
        if u < last and ranges.role[j] == WRITE:
            path.back[e, 0] = _least(near, far, both)  # no op needs the contents before it
            near = far = min(near, far, both)
            e = following
        else:
            into = _copy(prices, i, e, 0, clock[following] - clock[e])
            out = _copy(prices, i, e, 1, clock[e] - clock[written])
            near, far, both = _moves(near, far, both, into, out, path.back, e, int(e == used))
            if e == n:
                break
        fits = room[e] >= size
        here = prices.begin[e] if fits else NEVER
        if following == e:
            near, far, both = _use(ranges, prices, path, j, here, near, far, both)
            written = written if ranges.role[j] == READ else e + 1
            u, used = u + 1, e + 1
        else:
            into, out = (NEVER, NEVER) if whole else (prices.run[e, 0], prices.run[e, 1])
            near, both = min(near + here, NEVER), min(both + here, NEVER)
            near, far, both = _moves(near, far, both, into, out, path.by, e, 0)
        here = prices.end[e] if fits else NEVER
        near, both = min(near + here, NEVER), min(both + here, NEVER)
        e += 1
    return near, far, both


@inner
def find_path(ranges: LiveRanges, prices: PathPrices, path: BytePath, i: int, room: Integers) -> int:
    """Write the cheapest path of a byte of range i to `path`; return its cost, `NEVER` if there is none.

    ``room``: by op the bytes free in the first tier.
    """
    cost, state, starts = NEVER, -1, ranges.starts[i]
    begin, end = ranges.begin[i], ranges.end[i]
    if ranges.cyclic[i]:
        for start in range(3):
            if starts >> start & 1:
                least = _forward(ranges, prices, path, i, room, begin, end, 1 << start)[start]
                if least < cost:
                    state, cost = start, least
        if state < 0:
            return NEVER
        starts = 1 << state
    return int(find_part(ranges, prices, path, i, room, begin, end, starts if starts else 7, state))


@inner
def find_part(
    ranges: LiveRanges,
    prices: PathPrices,
    path: BytePath,
    i: int,
    room: Integers,
    low: int,
    high: int,
    starts: int,
    state: int,
) -> int:
    """Write the cheapest path of a byte from stall `low` to the end of op `high`; return its cost.

    ``starts``: bits of the states before the stall. ``state``: that at the end; -1: any.
    """
    costs = _forward(ranges, prices, path, i, room, low, high, starts)
    if state < 0:
        state = _least(costs[0], costs[1], costs[2])
    cost = costs[state]
    if cost >= NEVER:
        return NEVER
    n = len(prices.begin)
    first, u, k = ranges.first[i], use_from(ranges, i, high + 1)[0] - 1, min(n - 1, high)
    if high == ranges.end[i]:
        path.after[k + 1] = -1
    if high == n:
        path.after[n] = state
        state = path.back[n, state]
    path.before[k + 1] = state
    while k >= low:
        state = path.during[k] = path.by[k, state]
        role = READ
        if u >= first and ranges.op[ranges.use[u]] == k:
            role, u = ranges.role[ranges.use[u]], u - 1
        if role != WRITE:
            state = path.after[k] = state_at_start(state, role)
            state = path.before[k] = path.back[k, state]
            k -= 1
            continue
        path.after[k] = -1
        if not ranges.starts[i]:
            path.before[k] = -1
            break
        e = ranges.op[ranges.use[u]] + 1 if u >= first else 0  # in stall e the old contents end
        state = path.before[e] = path.back[e, 0]
        for gap in range(e, k):
            path.during[gap] = path.after[gap] = path.before[gap + 1] = -1
        k = e - 1
    return int(cost)


@inner
def state_at_start(during: int, role: int) -> int:
    """Return the state of a range when an op starts, from that while the op runs."""
    if role == UPDATE:
        return 0 if during == 0 else 1
    return 2 if during == 3 else during


@inner
def access_of(during: int, role: int) -> int:
    """Return an op's access to a range (near, far, raised), from its state while the op runs."""
    if during == 3:
        return 1 if role == READ else 2
    return 1 if during == 1 else 0


@inner
def channel_of(before: int, after: int) -> int:
    """Return the channel of the copy from a state to another: 0 inward, 1 outward, -1 no copy."""
    return 0 if before == 1 and after != 1 else 1 if before == 0 and after != 0 else -1


@inner
def _append(columns: ColumnArrays, at: int, row: int, value: float) -> int:
    columns.row[at], columns.value[at] = row, value
    return at + 1


@inner
def _column(
    ranges: LiveRanges, layout: ColumnLayout, path: BytePath, columns: ColumnArrays, i: int, c: int
) -> None:
    """Write the column of a path as number c."""
    n, size, scale = len(path.during), ranges.size[i], layout.scale
    u, last, at, cost = ranges.first[i], ranges.first[i + 1], columns.first[c], 0.0
    stop = min(n, ranges.end[i] + 1)
    for e in range(ranges.begin[i], stop + 1):
        channel = channel_of(path.before[e], path.after[e]) if path.after[e] >= 0 else -1
        if channel >= 0:
            at = _append(columns, at, 3 * n + channel * (2 * n + 1) + e, size * scale[1 + channel])
        if e == stop or path.during[e] < 0:
            continue
        role, longer, during, before = READ, 0.0, path.during[e], path.before[e + 1]
        if u < last and ranges.op[ranges.use[u]] == e:
            j, u = ranges.use[u], u + 1
            role = ranges.role[j]
            access = access_of(during, role)
            longer = layout.longer[j, access]
            cost += longer
            if layout.link[j, access] >= 0:
                at = _append(columns, at, layout.link[j, access], 1.0)
        if during != 1:
            at = _append(columns, at, e, size * scale[0])
        if before != 1:
            at = _append(columns, at, n + e, size * scale[0])
        used = channel_of(state_at_start(during, READ), before) if role == READ else -1
        for channel in range(2):
            value = size * scale[1 + channel] * (used == channel) - longer
            if value != 0.0:
                at = _append(columns, at, 2 * n + channel * (2 * n + 1) + e, value)
    columns.first[c + 1] = _append(columns, at, layout.chosen + i, 1.0)
    columns.cost[c] = cost


@kernel_in_place
def respond(
    ranges: LiveRanges,
    prices: PathPrices,
    path: BytePath,
    layout: ColumnLayout,
    columns: ColumnArrays,
    i: int,
    room: Integers,
    costs: Integers,
) -> int:
    """Write the cheapest paths of ranges i, i + 1, …: `costs` of a byte, and columns.

    Return the range with which the next call begins; -1 if a range has no path.
    """
    steps, c = 0, 0
    while i < len(ranges.size) and steps < STEPS:
        costs[i] = find_path(ranges, prices, path, i, room)
        if costs[i] >= NEVER:
            return -1
        _column(ranges, layout, path, columns, i, c)
        steps += min(len(room), ranges.end[i] + 1) - ranges.begin[i] + 1
        i, c = i + 1, c + 1
    return i
