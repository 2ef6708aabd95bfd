"""Guided local search over overlaps, compiled; `overlap_search` says what it does and why.

A call stops after a bounded amount of work and the next one goes on: all that it knows is in arrays. Random
numbers are the kernel's own, so that it takes the same course in plain Python. Kernels that call each other
stand in this one file: the compiler's cache knows no other.
"""

from __future__ import annotations

from ...formulations.offsets.data import Integers
from ..engines.kernels import inner, kernel
from .overlap_tables import Run, Tables

# Scalars of a run, in `Run.state`.
RANDOM, QUEUED, CLASHES, CAPACITY, HEAVIEST, MOST, BEST, COST, TIES, EVALUATED, RAISED, NOW, ALONG = range(13)
STATE_SIZE = 13
NOWHERE = -1


@inner
def draw(state: Integers, count: int) -> int:
    """Return a random number below `count`: the upper 31 of 48 bits of a linear congruence."""
    x = (int(state[RANDOM]) * 25214903917 + 11) & 281474976710655
    state[RANDOM] = x
    return ((x >> 17) * count) >> 31


@inner
def enqueue(run: Run, fixed: Integers, i: int) -> None:
    """Have a buffer looked at, if it may move."""
    if not run.queued[i] and fixed[i] < 0:
        run.queue[run.state[QUEUED]] = i
        run.queued[i] = True
        run.state[QUEUED] += 1


@inner
def propose(state: Integers, offset: int, cost: int) -> None:
    """Take an offset as the best if it is; of equal ones, each is as likely."""
    if cost < state[COST]:
        state[BEST], state[COST], state[TIES] = offset, cost, 1
    elif cost == state[COST]:
        state[TIES] += 1
        if draw(state, state[TIES]) == 0:
            state[BEST] = offset


@inner
def gather(tables: Tables, run: Run, u: int) -> int:
    """Write what a shape meets to ``run.at``, ``run.ends`` and ``run.pairs`` by address; return how many.

    The row keeps the order: next time it is nearly sorted.
    """
    ends, pair, at, edges = tables.ends, tables.pair, run.at, run.edges
    begin = int(tables.rows[u])
    count = int(tables.rows[u + 1]) - begin
    for k in range(count):
        z = begin + k
        e, p = ends[z], pair[z]
        x = edges[e]
        while z > begin and at[z - begin - 1] > x:
            ends[z], pair[z] = ends[z - 1], pair[z - 1]
            at[z - begin] = at[z - begin - 1]
            z -= 1
        ends[z], pair[z] = e, p
        at[z - begin] = x
    for k in range(count):
        run.ends[k], run.pairs[k] = ends[begin + k], pair[begin + k]
    return count


@inner
def overlap(tables: Tables, run: Run, i: int, offset: int) -> int:
    """Return the weighted overlap of a buffer at an offset."""
    total = 0
    for u in range(tables.shapes[i], tables.shapes[i + 1]):
        low, high = offset + tables.low[u], offset + tables.high[u]
        for z in range(tables.rows[u], tables.rows[u + 1]):
            e = tables.ends[z]
            if e & 1 == 0:
                length = min(high, run.edges[e + 1]) - max(low, run.edges[e])
                if length > 0:
                    p = tables.pair[z]
                    if p < tables.paired or run.offsets[tables.owner[e >> 1]] != offset:
                        total += run.weights[p] * length
    return total


@inner
def look(tables: Tables, run: Run, i: int, most: int) -> None:
    """Propose the offsets where a buffer of one shape overlaps least, in holes alone if it overlaps none."""
    u = tables.shapes[i]
    low, high, a = tables.low[u], tables.high[u], tables.alignment[i]
    count = gather(tables, run, u)
    at, ends, sums, slopes = run.at, run.ends, run.sums, run.slopes
    depth = 0
    before = 0
    for k in range(count + 1):
        x = at[k] if k < count else run.state[CAPACITY] + high
        if depth == 0 and x - before >= high - low:
            bottom, top = max(0, before - low), min(most, x - high)
            if a > 1:
                bottom, top = -(-bottom // a) * a, top // a * a
            if bottom <= top:
                propose(run.state, bottom, 0)
                if bottom < top:
                    propose(run.state, top, 0)
        if k < count:
            depth += 1 - 2 * (ends[k] & 1)
        before = x
    if run.state[COST] == 0 or run.clashes[i] == 0:
        return
    lowers, uppers = run.lowers, run.uppers
    weight = 0
    total = 0
    before = 0
    here = 0
    found = 0
    for k in range(count):
        x = at[k]
        total += weight * (x - before)
        sums[k] = total
        side = ends[k] & 1
        weight += run.weights[run.pairs[k]] * (1 - 2 * side)
        slopes[k] = weight
        before = x
        uppers[found] = k
        lowers[k - found] = k
        found += side
    now = run.offsets[i]
    run.state[NOW] = below(at, sums, slopes, count, now + high) - below(at, sums, slopes, count, now + low)
    propose(run.state, 0, below(at, sums, slopes, count, high) - below(at, sums, slopes, count, low))
    propose(
        run.state,
        most,
        below(at, sums, slopes, count, most + high) - below(at, sums, slopes, count, most + low),
    )
    at[count] = 2**62
    for z in range(found):
        k = uppers[z]
        y = at[k] - low
        if y < 0:
            continue
        if a > 1:
            y = -(-y // a) * a
        if y > most:
            break
        while at[here + 1] <= y + high:
            here += 1
        cost = sums[here] + slopes[here] * (y + high - at[here])
        cost -= sums[k] if a == 1 else below(at, sums, slopes, count, y + low)
        if cost <= run.state[COST]:
            propose(run.state, y, cost)
    here = 0
    for z in range(count - found):
        k = lowers[z]
        y = at[k] - high
        if y < 0:
            continue
        if a > 1:
            y = y // a * a
        if y > most:
            break
        while at[here + 1] <= y + low:
            here += 1
        cost = sums[k] if a == 1 else below(at, sums, slopes, count, y + high)
        if at[here] <= y + low:
            cost -= sums[here] + slopes[here] * (y + low - at[here])
        if cost <= run.state[COST]:
            propose(run.state, y, cost)


@inner
def look_along(tables: Tables, run: Run, i: int, most: int) -> None:
    """Do what `look` does with one number per address instead of an order of what is met."""
    u = tables.shapes[i]
    low, high, a = tables.low[u], tables.high[u], tables.alignment[i]
    begin, end = tables.rows[u], tables.rows[u + 1]
    sums, edges, ends, state = run.sums, run.edges, tables.ends, run.state
    capacity = state[CAPACITY]
    for x in range(capacity + 1):
        sums[x] = 0
    for z in range(begin, end):
        e = ends[z]
        sums[edges[e]] += run.weights[tables.pair[z]] * (1 - 2 * (e & 1))
    weight = 0
    total = 0
    for x in range(capacity + 1):
        weight += sums[x]
        sums[x] = total
        total += weight
    now = run.offsets[i]
    state[NOW] = sums[now + high] - sums[now + low]
    propose(state, 0, sums[high] - sums[low])
    propose(state, most, sums[most + high] - sums[most + low])
    for z in range(begin, end):
        e = ends[z]
        y = edges[e] - (low if e & 1 else high)
        if a > 1:
            y = (y + (e & 1) * (a - 1)) // a * a
        if 0 <= y <= most:
            cost = sums[y + high] - sums[y + low]
            if cost <= state[COST]:
                propose(state, y, cost)


@inner
def below(at: Integers, sums: Integers, slopes: Integers, count: int, x: int) -> int:
    """Return the weighted bytes below an address."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if at[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return sums[low - 1] + slopes[low - 1] * (x - at[low - 1]) if low else 0


@inner
def look_widely(tables: Tables, run: Run, i: int, most: int) -> None:
    """Propose the offsets where a buffer of several shapes overlaps least."""
    at, slopes, a = run.at, run.slopes, tables.alignment[i]
    count = 0
    for u in range(tables.shapes[i], tables.shapes[i + 1]):
        for z in range(tables.rows[u], tables.rows[u + 1]):
            x, w = run.edges[tables.ends[z]], run.weights[tables.pair[z]]
            if tables.ends[z] & 1 == 1:
                w = -w
            at[count], slopes[count] = x - tables.high[u], w
            at[count + 1], slopes[count + 1] = x - tables.low[u], -w
            count += 2
    gap = count // 2
    while gap:
        for k in range(gap, count):
            x, w = at[k], slopes[k]
            z = k
            while z >= gap and at[z - gap] > x:
                at[z], slopes[z] = at[z - gap], slopes[z - gap]
                z -= gap
            at[z], slopes[z] = x, w
        gap = gap // 2
    total = 0
    slope = 0
    before = at[0] if count else 0
    for k in range(count + 1):
        # Between two addresses the overlap is linear: the first and the last offset suffice.
        x = at[k] if k < count else max(before, most)
        bottom = max(0, -(-before // a) * a)
        top = min(most, x // a * a)
        if bottom <= top and before < x:
            propose(run.state, bottom, total + slope * (bottom - before))
            if bottom < top:
                propose(run.state, top, total + slope * (top - before))
        total += slope * (x - before)
        if k < count:
            slope += slopes[k]
        before = x
    propose(run.state, 0, overlap(tables, run, i, 0))
    propose(run.state, most, overlap(tables, run, i, most))


@inner
def move(tables: Tables, run: Run, i: int, offset: int) -> None:
    """Give a buffer another offset, and have those that it now overlaps looked at."""
    old = run.offsets[i]
    for u in range(tables.shapes[i], tables.shapes[i + 1]):
        low, high = tables.low[u], tables.high[u]
        for z in range(tables.rows[u], tables.rows[u + 1]):
            e = tables.ends[z]
            if e & 1:
                continue
            bottom, top = run.edges[e], run.edges[e + 1]
            was = bottom < old + high and old + low < top
            now = bottom < offset + high and offset + low < top
            if not (was or now):
                continue
            j = tables.owner[e >> 1]
            if tables.pair[z] >= tables.paired:
                was = was and run.offsets[j] != old
                now = now and run.offsets[j] != offset
            if was:
                run.clashes[i] -= 1
                run.clashes[j] -= 1
                run.state[CLASHES] -= 1
            if now:
                run.clashes[i] += 1
                run.clashes[j] += 1
                run.state[CLASHES] += 1
                enqueue(run, tables.fixed, j)
        run.edges[2 * u], run.edges[2 * u + 1] = offset + low, offset + high
    run.offsets[i] = offset
    if run.clashes[i] > 0:
        enqueue(run, tables.fixed, i)


@inner
def raise_weights(tables: Tables, run: Run) -> int:
    """Raise the weight of each pair that overlaps, and have both looked at; return the work it took."""
    state, work = run.state, len(run.clashes)
    state[RAISED] += 1
    for i in range(len(run.clashes)):
        if run.clashes[i] == 0:
            continue
        enqueue(run, tables.fixed, i)
        for u in range(tables.shapes[i], tables.shapes[i + 1]):
            low, high = run.edges[2 * u], run.edges[2 * u + 1]
            work += tables.rows[u + 1] - tables.rows[u]
            for z in range(tables.rows[u], tables.rows[u + 1]):
                e = tables.ends[z]
                if e & 1 == 0 and e > 2 * u and run.edges[e] < high and low < run.edges[e + 1]:
                    p = tables.pair[z]
                    if p < tables.paired or run.offsets[tables.owner[e >> 1]] != run.offsets[i]:
                        run.weights[p] += tables.base[p]
                        state[HEAVIEST] = max(state[HEAVIEST], run.weights[p])
    if state[HEAVIEST] > state[MOST]:
        work += len(run.weights)
        state[HEAVIEST] = 0
        for p in range(len(run.weights)):
            run.weights[p] = (run.weights[p] + 1) // 2
            state[HEAVIEST] = max(state[HEAVIEST], run.weights[p])
    return work


@kernel
def count_clashes(tables: Tables, run: Run) -> None:
    """Find what overlaps at the start of a run."""
    for i in range(len(tables.size)):
        for u in range(tables.shapes[i], tables.shapes[i + 1]):
            low, high = run.edges[2 * u], run.edges[2 * u + 1]
            for z in range(tables.rows[u], tables.rows[u + 1]):
                e = tables.ends[z]
                if e & 1 == 0 and run.edges[e] < high and low < run.edges[e + 1]:
                    same = run.offsets[tables.owner[e >> 1]] == run.offsets[i]
                    if tables.pair[z] < tables.paired or not same:
                        run.clashes[i] += 1
        run.state[CLASHES] += run.clashes[i]
        if run.clashes[i] > 0:
            enqueue(run, tables.fixed, i)
    run.state[CLASHES] //= 2


@kernel
def improve(tables: Tables, run: Run, work: int, restless: int) -> bool:
    """Move buffers one by one until nothing overlaps; return whether that is so.

    Parameters
    ----------
    tables
        Of the part.
    run
        Changed in place.
    work
        Entries of rows to look at, about, before returning.
    restless
        Of 256 moves, how many are of a buffer at random, not of one that overlaps.
    """
    state = run.state
    count = len(tables.size)
    while state[CLASHES] > 0 and work > 0:
        if state[QUEUED] == 0:
            work -= raise_weights(tables, run)
            if state[QUEUED] == 0:
                return False  # only fixed ones overlap
        if draw(state, 256) < restless:
            i = draw(state, count)
            if run.clashes[i] > 0 or tables.fixed[i] >= 0:
                work -= 1
                continue
        else:
            k = draw(state, state[QUEUED])
            i = run.queue[k]
            state[QUEUED] -= 1
            run.queue[k] = run.queue[state[QUEUED]]
            run.queued[i] = False
            if run.clashes[i] == 0:
                work -= 1
                continue
        state[EVALUATED] += 1
        most = (state[CAPACITY] - tables.size[i]) // tables.alignment[i] * tables.alignment[i]
        state[COST], state[TIES] = 2**62, 0
        first, last = tables.shapes[i], tables.shapes[i + 1]
        work -= 16 + tables.rows[last] - tables.rows[first]
        if last - first == 1:
            if state[ALONG]:
                work -= state[CAPACITY] // 4
                look_along(tables, run, i, most)
            else:
                look(tables, run, i, most)
        else:
            look_widely(tables, run, i, most)
        for p in range(tables.partner_at[i], tables.partner_at[i + 1]):
            offset = run.offsets[tables.partner[p]]
            if offset <= most and offset % tables.alignment[i] == 0:
                propose(state, offset, overlap(tables, run, i, offset))
        if run.clashes[i] > 0 and state[COST] > 0:
            if last - first > 1 or tables.partner_at[i] < tables.partner_at[i + 1]:
                state[NOW] = overlap(tables, run, i, run.offsets[i])
            now = state[NOW]
            if state[COST] > now or (state[COST] == now and draw(state, 2) == 0):
                continue
        if state[COST] > 0 and run.clashes[i] == 0:
            continue
        if state[BEST] != run.offsets[i]:
            move(tables, run, i, state[BEST])
    return bool(state[CLASHES] == 0)
