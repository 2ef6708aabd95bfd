"""Compiled times of lines (`event_orders`, whose page has the words).

Of n ops, then lives, then absences, event k is op k, n + l the copy of life l to its outer tier, and
n + lives + g the return from absence g. A line is the first `length` entries of an array of events.
"""

from __future__ import annotations

from typing import NamedTuple

from ....models.arrays import Integers
from ...engines.arrays import Rows
from ...engines.kernels import inner, kernel_in_place

NEVER = 2**60
"""ns of a line that no plan follows."""
COPIED, CLEAN = 1, 2
"""How a life comes to an outer tier: by a copy, or it may start there."""


class EventTables(NamedTuple):
    """A problem: numbers of ops, lives, absences; rows by tier, mode, life, absence and op.

    Attributes
    ----------
    capacity
        By tier, bytes.
    mode_at, duration, rest
        By op, its first mode; by mode, ns, and bytes during the op that no life holds.
    size, born, renews, of
        By life: bytes; op, -1: time 0; 1 if it has the bytes of the version before; its first absence.
    life, before, behind, held, must
        By absence; 1 if the use before lasts to the end of its op; 1 if the life cannot be in tier 0.
    ways, out, back
        By life and tier: 0, `COPIED` or `CLEAN`; ns of copies to and from it.
    apart
        By channel (out of tier 0 to x: 2 x; back: 2 x + 1), 1 if they carry one copy at a time.
    at, lists
        Lists by op, where each begins: absences that it ends, lives that it bears, absences behind it, lives
        that end with it (2 l, or 2 l + 1 if it holds them to its end), absences around it.
    """

    numbers: Integers
    capacity: Integers
    mode_at: Integers
    duration: Integers
    rest: Integers
    size: Integers
    born: Integers
    renews: Integers
    of: Integers
    life: Integers
    before: Integers
    behind: Integers
    held: Integers
    must: Integers
    ways: Rows
    out: Rows
    back: Rows
    apart: Rows
    at: Rows
    lists: Integers


class Line(NamedTuple):
    """What is decided.

    Attributes
    ----------
    event, length
        The line, and its length as one number.
    away, tier, mode
        By absence, 1 if the life is away; by life its outer tier, 0: none; by op its mode.
    """

    event: Integers
    length: Integers
    away: Integers
    tier: Integers
    mode: Integers


class Times(NamedTuple):
    """When events of a line begin and end, -1: not yet; and rows for making these."""

    begin: Integers
    end: Integers
    used: Integers
    taken: Integers
    free: Integers
    ready: Integers
    left: Integers
    held: Integers
    until: Rows
    nbytes: Rows


@inner
def _later(times, tier, time, nbytes):  # type: ignore[no-untyped-def]
    """Bytes of a tier are free from a time on."""
    i = times.held[tier]
    times.until[tier, i], times.nbytes[tier, i] = time, nbytes
    times.held[tier] += 1


@inner
def _take(case, times, tier, nbytes, time):  # type: ignore[no-untyped-def]
    """Return when there is room at a time or later, which is taken; -1 if never."""
    time = max(time, times.taken[tier])
    while times.used[tier] + nbytes > case.capacity[tier]:
        first = -1
        for i in range(times.held[tier]):
            if first < 0 or times.until[tier, i] < times.until[tier, first]:
                first = i
        if first < 0:
            return -1
        time = max(time, times.until[tier, first])
        times.used[tier] -= times.nbytes[tier, first]
        times.held[tier] -= 1
        last = times.held[tier]
        times.until[tier, first], times.nbytes[tier, first] = (
            times.until[tier, last],
            times.nbytes[tier, last],
        )
    times.taken[tier] = time
    times.used[tier] += nbytes
    return time


@inner
def _carried(case, times, way, time):  # type: ignore[no-untyped-def]
    """Return when a channel can carry a copy, at a time or later."""
    for other in range(len(times.free)):
        if case.apart[way, other]:
            time = max(time, times.free[other])
    return time


@inner
def _begin(case, line, times):  # type: ignore[no-untyped-def]
    """Write what is there at time 0; return whether there is room for it."""
    for event in range(len(times.end)):
        times.end[event] = -1
    for tier in range(len(times.used)):
        times.used[tier] = times.taken[tier] = times.held[tier] = 0
        times.free[2 * tier] = times.free[2 * tier + 1] = 0
    for g in range(case.numbers[2]):
        times.ready[g] = -1
    for life in range(case.numbers[1]):
        tier, first = line.tier[life], case.of[life]
        times.left[life] = 0
        for g in range(first, case.of[life + 1]):
            times.left[life] += line.away[g]
        if case.born[life] >= 0:
            continue
        times.ready[first] = 0
        clean = tier > 0 and case.ways[life, tier] == CLEAN
        if clean:
            times.used[tier] += case.size[life]
        if not (clean and line.away[first]):
            times.used[0] += case.size[life]
    fits = True
    for tier in range(len(times.used)):
        fits = fits and times.used[tier] <= case.capacity[tier]
    return fits


@inner
def _run(case, line, times, k, now):  # type: ignore[no-untyped-def]
    """Time an op, not before a time; return its end, or -1."""
    n, lives = case.numbers[0], case.numbers[1]
    lists, at = case.lists, case.at
    for x in range(at[0, k], at[0, k + 1]):
        if line.away[lists[x]]:
            back = times.end[n + lives + lists[x]]
            if back < 0:
                return -1
            now = max(now, back)
    mode = case.mode_at[k] + line.mode[k]
    need, goes = case.rest[mode], False
    for x in range(at[1, k], at[1, k + 1]):
        need += 0 if case.renews[lists[x]] else case.size[lists[x]]
    for x in range(at[2, k], at[2, k + 1]):
        g = lists[x]
        if line.away[g] and not case.held[g]:
            goes = True
            _leave(case, line, times, g, 0)
    for x in range(at[3, k], at[3, k + 1]):
        if lists[x] % 2 == 0:
            goes = True
            times.used[0] -= case.size[lists[x] // 2]
    if need > 0 or goes:
        now = _take(case, times, 0, need, now)
        if now < 0:
            return -1
    end = now + case.duration[mode]
    times.begin[k], times.end[k] = now, end
    if case.rest[mode] > 0:
        _later(times, 0, end, case.rest[mode])
    for x in range(at[2, k], at[2, k + 1]):
        g = lists[x]
        times.ready[g] = end if case.held[g] else now
        if line.away[g] and case.held[g]:
            _leave(case, line, times, g, end)
    for x in range(at[3, k], at[3, k + 1]):
        if lists[x] % 2:
            _later(times, 0, end, case.size[lists[x] // 2])
    return end


@inner
def _leave(case, line, times, g, time):  # type: ignore[no-untyped-def]
    """Let a life leave tier 0 at a time, or when it has been copied, if that is timed."""
    life = case.life[g]
    copied = times.end[case.numbers[0] + life]
    if case.ways[life, line.tier[life]] == CLEAN:
        copied = 0
    if copied >= 0:
        _later(times, 0, max(time, copied), case.size[life])


@inner
def _copy(case, line, times, life):  # type: ignore[no-untyped-def]
    """Time the copy of a life to its outer tier; return its end, or -1."""
    event, tier, time = case.numbers[0] + life, line.tier[life], 0
    if case.born[life] >= 0:
        time = times.end[case.born[life]]
        if time < 0:
            return -1
    time = _take(case, times, tier, case.size[life], _carried(case, times, 2 * tier, time))
    if time < 0:
        return -1
    end = time + case.out[life, tier]
    times.begin[event], times.end[event], times.free[2 * tier] = time, end, end
    for g in range(case.of[life], case.of[life + 1]):
        if line.away[g] and times.ready[g] >= 0:
            _later(times, 0, max(times.ready[g], end), case.size[life])
    return end


@inner
def _return(case, line, times, g):  # type: ignore[no-untyped-def]
    """Time a return; return its end, or -1."""
    n, lives, life = case.numbers[0], case.numbers[1], case.life[g]
    event, tier, time = n + lives + g, line.tier[life], times.ready[g]
    if time < 0:
        return -1
    if case.ways[life, tier] != CLEAN:
        if times.end[n + life] < 0:
            return -1
        time = max(time, times.end[n + life])
    time = _take(case, times, 0, case.size[life], _carried(case, times, 2 * tier + 1, time))
    if time < 0:
        return -1
    end = time + case.back[life, tier]
    times.begin[event], times.end[event], times.free[2 * tier + 1] = time, end, end
    times.left[life] -= 1
    if not times.left[life]:
        _later(times, tier, end, case.size[life])
    return end


@inner
def timed(case, line, times):  # type: ignore[no-untyped-def]
    """Write the earliest times of a line; return when it ends, `NEVER` if no plan follows it."""
    if not _begin(case, line, times):
        return NEVER
    n, lives = case.numbers[0], case.numbers[1]
    now = last = 0
    for i in range(line.length[0]):
        event = line.event[i]
        if event < n:
            now = end = _run(case, line, times, event, now)
        elif event < n + lives:
            end = _copy(case, line, times, event - n)
        else:
            end = _return(case, line, times, event - n - lives)
        if end < 0:
            return NEVER
        last = max(last, end)
    return last


@kernel_in_place
def time_line(case: EventTables, line: Line, times: Times) -> int:
    """Write the earliest times of a line; return when it ends in ns, `NEVER` if no plan follows it."""
    end: int = timed(case, line, times)
    return end
