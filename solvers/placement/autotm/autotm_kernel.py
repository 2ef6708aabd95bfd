"""AutoTM's model: the best walk of an item, at prices, or beside all others as they are.

No number here leaves 64 bits: `arrays` has the proof.
"""

from __future__ import annotations

from ...engines.kernels import inner, kernel_in_place
from .arrays import AutotmTables, Integers, Locations, Matrix, Prices, Scratch

NEVER = 2**61
"""Cost of what cannot be: more than anything else costs (`arrays`)."""


@inner
def _rents(m: AutotmTables, prices: Prices, scratch: Scratch, p: int, t: int, weight: int) -> None:
    """Write sixteenths of what an item's room costs by row: at the op of a point, and from there on."""
    k, size = m.op[p], m.size[t]
    for r in range(prices.paid.shape[0]):
        here = size * (prices.paid[r, k + 1] - prices.paid[r, k]) // prices.fine
        later = size * (prices.paid[r, m.until[p]] - prices.paid[r, k + 1]) // prices.fine
        scratch.rent[r, 0] = here if weight == 256 else here // 256 * weight
        scratch.rent[r, 1] = later if weight == 256 else later // 256 * weight


@inner
def _cost(m: AutotmTables, prices: Prices, scratch: Scratch, s: int, t: int) -> int:
    """Return the cost of a step's copies before and behind its op, and of its room."""
    cost = 0
    for h in range(m.alone_hops.shape[1]):
        cost += m.alone_hops[s, h] * m.alone_time[t, h]
    cost *= prices.unit
    for r in range(prices.paid.shape[0]):
        if m.at[s] >> r & 1:
            cost += scratch.rent[r, 0]
        if m.behind[s] >> r & 1:
            cost += scratch.rent[r, 1]
    return int(cost)


@inner
def _copies(m: AutotmTables, prices: Prices, k: int, time: int) -> int:
    """Return the price of a copy beside an op."""
    rest = prices.unit - prices.share[k] - prices.near[k]
    near, share = max(0, time - m.level[k]), max(0, time - m.longest[k])
    return int(time * rest + prices.near[k] * near + prices.share[k] * share)


@inner
def _price(m: AutotmTables, prices: Prices, scratch: Scratch, p: int, s: int, t: int) -> int:
    """Return the cost of a step at prices."""
    cost = _cost(m, prices, scratch, s, t)
    if m.beside_hop[s] >= 0:
        cost += _copies(m, prices, m.op[p], m.beside_time[t, m.beside_hop[s]])
    if m.operand[p] >= 0:
        cost += prices.take[m.operand[p], m.use[s]]
    return int(cost)


@inner
def _length(m: AutotmTables, world: Locations, k: int, j: int, tier: int, room: int) -> tuple[int, int]:
    """Return the length and the mode of an op that takes operand j from a tier; `NEVER`: there is no mode."""
    best, chosen = NEVER, -1
    first, last = m.operand_first[k], m.operand_first[k + 1]
    for mode in range(m.mode_first[k], m.mode_first[k + 1]):
        if m.workspace[mode] > room:
            continue
        length = m.duration[mode]
        for i in range(first, last):
            at = tier if i == j else world.tier[i]
            wanted = m.wanted[mode, i - first]
            if wanted >= 0 and wanted != at:
                length = NEVER
                break
            length += m.slow[i, at]
        if length < best:
            best, chosen = length, mode
    return best, chosen


@inner
def _beside(m: AutotmTables, world: Locations, unit: int, p: int, s: int, t: int) -> int:
    """Return what a step adds to the slot of its op beside all others, `NEVER` if it does not fit."""
    k, j, size = m.op[p], m.operand[p], m.size[t]
    for r in range(world.free.shape[0]):
        if m.at[s] >> r & 1 and (j < 0 or r != m.run_row):
            left = world.free[r, k] - (world.work[k] if r == m.run_row else 0)
            if left < size:
                return NEVER
    if j < 0:
        time = m.beside_time[t, m.beside_hop[s]] if m.beside_hop[s] >= 0 else 0
        slot = max(world.length[k], world.beside[k] + time)
        return int(unit * (slot - max(world.length[k], world.beside[k])))
    room = NEVER
    if m.run_row >= 0:
        room = world.free[m.run_row, k] - (size if m.at[s] >> m.run_row & 1 else 0)
    length, _ = _length(m, world, k, j, m.use[s], room)
    if length >= NEVER:
        return NEVER
    return int(unit * (max(length, world.beside[k]) - world.length[k]))


@inner
def _walk(
    m: AutotmTables, prices: Prices, world: Locations, scratch: Scratch, t: int, exact: bool, weight: int
) -> tuple[int, int]:
    """Return the cost and the number of the best walk of an item, its steps in the scratch.

    ``exact``: beside all others as they are, with rents at a weight; else at prices.
    """
    best, chosen, size = NEVER, -1, m.size[t]
    rows, n = world.free.shape[0], world.free.shape[1]
    if exact:
        for r in range(rows):
            scratch.full[r, 0] = 0
            for k in range(n):
                left = world.free[r, k] - (world.work[k] if r == m.run_row else 0)
                scratch.full[r, k + 1] = scratch.full[r, k] + (left < size)
    for w in range(m.walk_first[t], m.walk_first[t + 1]):
        first, last = m.point_first[w], m.point_first[w + 1]
        for q in range(m.states):
            scratch.value[0, q] = NEVER
        scratch.value[0, 0] = 0
        for p in range(first, last):
            i, k = p - first, m.op[p]
            for q in range(m.states):
                scratch.value[i + 1, q] = NEVER
            _rents(m, prices, scratch, p, t, weight)
            for s in range(m.step_first[m.kind[p]], m.step_first[m.kind[p] + 1]):
                if scratch.value[i, m.src[s]] >= NEVER:
                    continue
                if exact:
                    fits = True
                    for r in range(rows):
                        if m.behind[s] >> r & 1 and scratch.full[r, m.until[p]] > scratch.full[r, k + 1]:
                            fits = False
                    if not fits:
                        continue
                cost = scratch.value[i, m.src[s]]
                if not exact:
                    cost += _price(m, prices, scratch, p, s, t)
                else:
                    cost += _cost(m, prices, scratch, s, t)
                    if k >= 0 and k < n:
                        more = _beside(m, world, prices.unit, p, s, t)
                        if more >= NEVER:
                            continue
                        cost += more
                if cost < scratch.value[i + 1, m.dst[s]]:
                    scratch.value[i + 1, m.dst[s]] = cost
                    scratch.by[i + 1, m.dst[s]] = s
        if scratch.value[last - first, 0] < best:
            best, chosen = scratch.value[last - first, 0], w
            q = 0
            for i in range(last - first, 0, -1):
                scratch.path[i - 1] = scratch.by[i, q]
                q = m.src[scratch.by[i, q]]
    return best, chosen


@inner
def _place(m: AutotmTables, world: Locations, t: int, sign: int) -> None:
    """Put an item into the world on its chosen walk, or take it out of it (sign -1)."""
    w, size = world.chosen[t], m.size[t] * sign
    n = world.free.shape[1]
    for p in range(m.point_first[w], m.point_first[w + 1]):
        s, k = world.step[p], m.op[p]
        for r in range(world.free.shape[0]):
            if m.at[s] >> r & 1:
                world.free[r, k] -= size
            if m.behind[s] >> r & 1:
                for later in range(k + 1, m.until[p]):
                    world.free[r, later] -= size
        if m.beside_hop[s] >= 0:
            world.beside[k] += sign * m.beside_time[t, m.beside_hop[s]]
        if m.operand[p] >= 0 and sign > 0 and k < n:
            world.tier[m.operand[p]] = m.use[s]


@inner
def _run(m: AutotmTables, world: Locations, k: int) -> bool:
    """Choose the shortest mode of an op that fits; return whether there is one."""
    room = world.free[m.run_row, k] if m.run_row >= 0 else NEVER
    length, mode = _length(m, world, k, -1, 0, room)
    if mode >= 0:
        world.length[k], world.mode[k], world.work[k] = length, mode, m.workspace[mode]
    return bool(mode >= 0)


@kernel_in_place
def respond(
    m: AutotmTables,
    prices: Prices,
    world: Locations,
    scratch: Scratch,
    held: Matrix,
    moved: Matrix,
    taken: Matrix,
) -> int:
    """Choose the walk of each item and the mode of each op at prices; return what all of it costs.

    Into the world go walks, steps and modes, into `held` the bytes in use by row and op, also workspaces,
    into `moved` the ns of copies beside ops, into `taken` by operand and tier whether it is taken from there,
    less whether the mode wants that.
    """
    total = 0
    held[:, :] = 0
    moved[:, :] = 0
    taken[:, :] = 0
    n = world.free.shape[1]
    for t in range(m.walk_first.shape[0] - 1):
        cost, w = _walk(m, prices, world, scratch, t, False, 256)
        if w < 0:
            return NEVER
        total += cost
        world.chosen[t] = w
        for p in range(m.point_first[w], m.point_first[w + 1]):
            s, k = scratch.path[p - m.point_first[w]], m.op[p]
            world.step[p] = s
            for r in range(world.free.shape[0]):
                if m.at[s] >> r & 1:
                    held[r, k] += m.size[t]
                    held[r, k + 1] -= m.size[t]
                if m.behind[s] >> r & 1:
                    held[r, k + 1] += m.size[t]
                    held[r, m.until[p]] -= m.size[t]
            if m.beside_hop[s] >= 0:
                time = m.beside_time[t, m.beside_hop[s]]
                moved[0, k] += time
                moved[1, k] += max(0, time - m.level[k])
                moved[2, k] += max(0, time - m.longest[k])
            if m.operand[p] >= 0:
                taken[m.operand[p], m.use[s]] += 1
                world.tier[m.operand[p]] = m.use[s]
    for r in range(world.free.shape[0]):
        for k in range(n):
            held[r, k + 1] += held[r, k]
    for k in range(n):
        best = NEVER
        first = m.operand_first[k]
        for mode in range(m.mode_first[k], m.mode_first[k + 1]):
            cost = m.duration[mode] * prices.share[k] + min(m.duration[mode], m.core[k]) * prices.near[k]
            if m.run_row >= 0:
                cost += m.workspace[mode] * prices.rent[m.run_row, k] // prices.fine
            for j in range(first, m.operand_first[k + 1]):
                tier = m.wanted[mode, j - first]
                if tier >= 0:
                    share = prices.share[k] + m.kept[j] * prices.near[k]
                    cost -= prices.take[j, tier] - share * m.slow[j, tier]
            if cost < best:
                best = cost
                world.mode[k] = mode
        if best >= NEVER:
            return NEVER
        total += best
        mode = world.mode[k]
        if m.run_row >= 0:
            held[m.run_row, k] += m.workspace[mode]
        for j in range(first, m.operand_first[k + 1]):
            if m.wanted[mode, j - first] >= 0:
                taken[j, m.wanted[mode, j - first]] -= 1
    return total


@kernel_in_place
def column(m: AutotmTables, world: Locations, t: int, rows: Integers, values: Integers) -> tuple[int, int]:
    """Write the column of an item's walk (`master`); return how long it is, and its cost in ns."""
    w, n, number, cost = world.chosen[t], world.free.shape[1], 0, 0
    slots = world.free.shape[0] * n
    for p in range(m.point_first[w], m.point_first[w + 1]):
        s, k, j = world.step[p], m.op[p], m.operand[p]
        for h in range(m.alone_hops.shape[1]):
            cost += m.alone_hops[s, h] * m.alone_time[t, h]
        for r in range(world.free.shape[0]):
            first = k if m.at[s] >> r & 1 else k + 1
            last = m.until[p] if m.behind[s] >> r & 1 else k + 1
            for held in range(max(0, first), min(last, n)):
                rows[number], values[number] = r * n + held, m.size[t]
                number += 1
        if m.beside_hop[s] < 0 and j < 0:
            continue
        time = m.beside_time[t, m.beside_hop[s]] if m.beside_hop[s] >= 0 else 0
        slow = m.slow[j, m.use[s]] if j >= 0 else 0
        near = max(0, time - m.level[k]) + (m.kept[j] * slow if j >= 0 else 0)
        for kind, some in ((0, time), (1, max(0, time - m.longest[k]) + slow), (2, near)):
            if some > 0:
                rows[number], values[number] = slots + kind * n + k, -some
                number += 1
        if j >= 0:
            rows[number], values[number] = slots + 3 * n + j * m.slow.shape[1] + m.use[s], 1
            number += 1
    return number, cost


@kernel_in_place
def settle(m: AutotmTables, world: Locations) -> bool:
    """Put all items into an empty world; return whether all fits and every op has a mode."""
    n = world.free.shape[1]
    world.beside[:] = 0
    for t in range(m.walk_first.shape[0] - 1):
        _place(m, world, t, 1)
    for k in range(n):
        for r in range(world.free.shape[0]):
            if world.free[r, k] < 0:
                return False
        if not _run(m, world, k):
            return False
    return True


@kernel_in_place
def improve(
    m: AutotmTables, prices: Prices, world: Locations, scratch: Scratch, order: Integers, weight: int
) -> int:
    """Give items, one after the other, their best walks beside all others; return how many have changed."""
    changed = 0
    n = world.free.shape[1]
    for at in range(order.shape[0]):
        t = order[at]
        _place(m, world, t, -1)
        _, w = _walk(m, prices, world, scratch, t, True, weight)
        if w >= 0:
            new = w != world.chosen[t]
            world.chosen[t] = w
            for p in range(m.point_first[w], m.point_first[w + 1]):
                new = new or world.step[p] != scratch.path[p - m.point_first[w]]
                world.step[p] = scratch.path[p - m.point_first[w]]
            changed += new
        _place(m, world, t, 1)
        w = world.chosen[t]
        for p in range(m.point_first[w], m.point_first[w + 1]):
            if m.operand[p] >= 0 and m.op[p] < n:
                _run(m, world, m.op[p])
    return changed


@kernel_in_place
def duration(m: AutotmTables, world: Locations) -> int:
    """Return the ns of all slots, and of the copies before and behind ops."""
    total = 0
    for k in range(world.free.shape[1]):
        total += max(world.length[k], world.beside[k])
    for t in range(m.walk_first.shape[0] - 1):
        w = world.chosen[t]
        for p in range(m.point_first[w], m.point_first[w + 1]):
            for h in range(m.alone_hops.shape[1]):
                total += m.alone_hops[world.step[p], h] * m.alone_time[t, h]
    return total


@kernel_in_place
def spread(m: AutotmTables, prices: Prices, scratch: Scratch, first: Integers, excess: Integers) -> None:
    """Return how much more an item's best walk with each step costs, at prices, than its best walk.

    Into `excess`, at ``first[p]`` and behind it the steps of point p in their order.
    """
    for t in range(m.walk_first.shape[0] - 1):
        best = NEVER
        a, b = m.point_first[m.walk_first[t]], m.point_first[m.walk_first[t + 1]]
        for w in range(m.walk_first[t], m.walk_first[t + 1]):
            begin, end = m.point_first[w], m.point_first[w + 1]
            forward, backward = scratch.value, scratch.by
            forward[: end - begin + 1, :] = NEVER
            backward[: end - begin + 1, :] = NEVER
            forward[0, 0] = 0
            backward[end - begin, 0] = 0
            for p in range(begin, end):
                i, at = p - begin, m.step_first[m.kind[p]]
                _rents(m, prices, scratch, p, t, 256)
                for s in range(at, m.step_first[m.kind[p] + 1]):
                    cost = _price(m, prices, scratch, p, s, t)
                    excess[first[p] + s - at] = cost
                    if forward[i, m.src[s]] < NEVER:
                        through = forward[i, m.src[s]] + cost
                        forward[i + 1, m.dst[s]] = min(forward[i + 1, m.dst[s]], through)
            for p in range(end - 1, begin - 1, -1):
                i, at = p - begin, m.step_first[m.kind[p]]
                for s in range(at, m.step_first[m.kind[p] + 1]):
                    if backward[i + 1, m.dst[s]] < NEVER:
                        through = backward[i + 1, m.dst[s]] + excess[first[p] + s - at]
                        backward[i, m.src[s]] = min(backward[i, m.src[s]], through)
            best = min(best, forward[end - begin, 0])
            for p in range(begin, end):
                i, at = p - begin, m.step_first[m.kind[p]]
                for s in range(at, m.step_first[m.kind[p] + 1]):
                    before, behind = forward[i, m.src[s]], backward[i + 1, m.dst[s]]
                    if before < NEVER and behind < NEVER:
                        excess[first[p] + s - at] += before + behind
                    else:
                        excess[first[p] + s - at] = NEVER
        for p in range(a, b):
            for j in range(first[p], first[p + 1]):
                if excess[j] < NEVER:
                    excess[j] -= best
