"""List scheduling under a memory bound that never gets stuck, compiled; without a compiler `py_func` runs it.

A *fallback order* is a topological order whose sequential peak is within the memory. Whenever an op ends,
and at time 0, the ready ops are looked at by rank. One starts if a processor is idle, if what it allocates
fits now, and if the state stays *safe*: with all ops that have started taken as ended, the others still fit
one by one in the fallback order. So it never gets stuck: the empty state is safe; and when nothing runs,
safety says that the first op left of the fallback order fits, and starting it leaves the state safe.

*Reach.* Only ops at the next so many places of the fallback order, from the first one left, may start: a
small reach keeps memory for what the fallback order has next. The argument above holds for every reach.

*Kinds.* Where ops have a choice, an op takes, of its alternatives that fit now, the one that would end
first, or the one that it prefers; if that one's kind has no idle processor, the op waits, and the processor
that it waits for is taken as booked by those behind it. When nothing runs no op waits and no preference
counts, and the fallback order supposes the least workspaces, so that the argument above holds.

*The profile.* ``need[k]`` is the memory while the op at place k of the fallback order runs, after all
started ops and all places before k. Starting op v, at place q, changes it at places before q only (later
ones have v behind them either way): v adds what it is the first to write, takes away what it writes for
nobody, and a tensor whose last accessor left was v now dies with the next to last one left. ``[first, q)``
is scanned, where `first` is the first place left.

Source: the safety test is that of the banker's algorithm (Dijkstra, 1965), with one order for all; the
profile is the suite's own. The choice is that of the earliest finish time (Topcuoglu, Hariri and Wu,
2002), of which the deviation is that nobody is put into a gap before a booking.
"""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel
from .layout import Shop


@kernel
def schedule(shop: Shop, fallback: Integers, rank: Integers) -> Integers:
    """Return the start of each op in ns; where ops have a choice, then the alternative of each.

    Parameters
    ----------
    shop
        The problem.
    fallback
        A topological order whose sequential peak is within the memory.
    rank
        By op, all different: ready ops of a lower rank are tried first.
    """
    starts: Integers = schedule_until(shop, fallback, rank, np.zeros(1, np.int64))
    return starts


@kernel
def schedule_until(shop: Shop, fallback: Integers, rank: Integers, stop: Integers) -> Integers:
    """Return the same, or nothing soon after somebody else has set the number in `stop` to 1.

    It is looked at for every ready op: what these cost together grows with the square of their number.
    """
    processors, memory, now, replace = shop.numbers[0], shop.numbers[1], shop.numbers[2], shop.numbers[3]
    single, reach, way_at, extra = shop.numbers[4], shop.numbers[5], shop.way_at, shop.extra
    duration, alloc, at_end, gain = shop.duration, shop.alloc, shop.at_end, shop.gain
    tensor_at, tensors, size, accessors = shop.tensor_at, shop.tensors, shop.size, shop.accessors
    n = len(fallback)
    place = np.empty(n, np.int64)
    for k in range(n):
        place[fallback[k]] = k
    # Places of the accessors of each tensor; `left`: unstarted, `still`: unended ones.
    row, places = accessor_places(shop, fallback)
    last = row[1:].copy()  # one behind the last unstarted accessor
    left, still = accessors.copy(), accessors.copy()
    need = needs(shop, fallback, row, places)
    started = np.zeros(n, np.bool_)
    waits = shop.waits.copy()
    start = np.full(n, np.int64(-1))
    # By op, its alternative; by processor, until when it runs, and until when it is booked.
    way = np.full(0 if single else n, np.int64(-1))
    free_at, booked = np.zeros((2, 0 if single else processors), np.int64)
    change = np.zeros(n + 1, np.int64)
    longest = np.int64(0)
    for v in range(n):
        longest = max(longest, tensor_at[v + 1] - tensor_at[v])
    changed = np.empty(longest, np.int64)
    ready = np.empty(n, np.int64)
    count = 0
    for v in range(n):
        if waits[v] == 0:
            count = insert(ready, count, v, rank)
    running, ends = np.empty(processors, np.int64), np.empty(processors, np.int64)
    busy, first, done, time = 0, 0, 0, np.int64(0)
    while done < n:
        again = True
        while again:
            again = False
            kept = 0
            if not single:
                booked[:] = free_at
            for r in range(count):
                if stop[0]:
                    return np.empty(0, np.int64)
                v = ready[r]
                q = place[v]
                go = busy < processors and q < first + reach
                if go:
                    freed = np.int64(0)
                    if replace:
                        for x in range(tensor_at[v], tensor_at[v + 1]):
                            if left[tensors[x]] == 1:
                                freed += size[tensors[x]]
                    room = memory - (now + alloc[v] - freed)
                    go = room >= 0
                a, p = v, 0
                if go and not single:
                    a, p = earliest_finish(shop, booked, v, time, room, busy == 0)
                    go = p >= 0
                if go and q > first:
                    change[first] += gain[v]
                    changes = 0
                    for x in range(tensor_at[v], tensor_at[v + 1]):
                        t = tensors[x]
                        if places[last[t] - 1] == q:
                            y = last[t] - 2
                            while y >= row[t] and started[fallback[places[y]]]:
                                y -= 1
                            dies = first
                            if y >= row[t]:
                                dies = places[y] if replace else places[y] + 1
                            change[dies] -= size[t]
                            changed[changes] = dies
                            changes += 1
                    more = np.int64(0)
                    for k in range(first, q):
                        more += change[k]
                        if need[k] + more > memory and not started[fallback[k]]:
                            go = False
                            break
                    if go:
                        more = np.int64(0)
                        for k in range(first, q):
                            more += change[k]
                            need[k] += more
                    change[first] = 0
                    for c in range(changes):
                        change[changed[c]] = 0
                if not go:
                    ready[kept] = v
                    kept += 1
                    continue
                started[v] = True
                start[v] = time
                if not single:
                    way[v], now = a, now + extra[a]
                    free_at[p] = booked[p] = time + duration[a]
                running[busy], ends[busy] = v, time + duration[a]
                busy += 1
                now += alloc[v]
                for x in range(tensor_at[v], tensor_at[v + 1]):
                    t = tensors[x]
                    left[t] -= 1
                    if replace and left[t] == 0:
                        now -= size[t]
                        again = True
                    while last[t] > row[t] and started[fallback[places[last[t] - 1]]]:
                        last[t] -= 1
                while first < n and started[fallback[first]]:
                    first += 1
            count = kept
        time = ends[:busy].min()
        b = 0
        while b < busy:
            if ends[b] > time:
                b += 1
                continue
            v = running[b]
            busy -= 1
            running[b], ends[b] = running[busy], ends[busy]
            done += 1
            now -= at_end[v]
            if not single:
                now -= extra[way[v]]
            if not replace:
                for x in range(tensor_at[v], tensor_at[v + 1]):
                    t = tensors[x]
                    still[t] -= 1
                    if still[t] == 0:
                        now -= size[t]
            for x in range(shop.after_at[v], shop.after_at[v + 1]):
                w = shop.after[x]
                waits[w] -= 1
                if waits[w] == 0:
                    count = insert(ready, count, w, rank)
    if len(duration) == n:
        return start
    return np.concatenate((start, way - way_at[:-1]))


@inner
def accessor_places(shop: Shop, fallback: Integers) -> tuple[Integers, Integers]:
    """Return where the accessors of each tensor begin, and their places in an order, ascending."""
    row = np.zeros(len(shop.size) + 1, np.int64)
    for t in range(len(shop.size)):
        row[t + 1] = row[t] + shop.accessors[t]
    fill, places = row[:-1].copy(), np.empty(len(shop.tensors), np.int64)
    for k in range(len(fallback)):
        for x in range(shop.tensor_at[fallback[k]], shop.tensor_at[fallback[k] + 1]):
            t = shop.tensors[x]
            places[fill[t]] = k
            fill[t] += 1
    return row, places


@inner
def needs(shop: Shop, fallback: Integers, row: Integers, places: Integers) -> Integers:
    """Return the bytes that are allocated at each place of an order, one op after the other."""
    need, level = np.empty(len(fallback), np.int64), shop.numbers[2]
    for k in range(len(fallback)):
        v = fallback[k]
        need[k] = level + shop.alloc[v]
        dying = np.int64(0)
        for x in range(shop.tensor_at[v], shop.tensor_at[v + 1]):
            if places[row[shop.tensors[x] + 1] - 1] == k:
                dying += shop.size[shop.tensors[x]]
        if shop.numbers[3]:  # under `replace`
            need[k] -= dying
        level += shop.gain[v] - dying
    return need


@inner
def earliest_finish(
    shop: Shop, booked: Integers, v: int, time: int, room: int, alone: bool
) -> tuple[int, int]:
    """Return the alternative that op v takes now and an idle processor, -1 if it waits.

    Then, the processor for which it waits is booked.

    Parameters
    ----------
    shop
        The problem.
    booked
        By processor: until when.
    v, time
        The op, the instant.
    room
        Bytes that an alternative may hold beyond the least workspace.
    alone
        Nothing runs: the op must not wait.
    """
    best = chosen = -1
    earliest = 0
    low, high = shop.way_at[v], shop.way_at[v + 1]
    if shop.prefer[v] >= 0 and not alone:
        low += shop.prefer[v]
        high = low + 1
    for a in range(low, high):
        if shop.extra[a] > room:
            continue
        first = shop.kind_at[shop.kind[a]]
        for p in range(first + 1, shop.kind_at[shop.kind[a] + 1]):
            if booked[p] < booked[first]:
                first = p
        finish = max(booked[first], time) + shop.duration[a]
        if best < 0 or finish < earliest:
            best, chosen, earliest = a, first, finish
    if best >= 0 and booked[chosen] > time:
        booked[chosen] = earliest
        chosen = -1
    return best, chosen


@inner
def insert(ready: Integers, count: int, v: int, rank: Integers) -> int:
    """Insert an op by rank; return the new count."""
    k = count
    while k > 0 and rank[ready[k - 1]] > rank[v]:
        ready[k] = ready[k - 1]
        k -= 1
    ready[k] = v
    return count + 1
