"""Compiled annealing of lines (`event_orders`, whose page has the words): the moves."""

from __future__ import annotations

import math

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel_in_place
from .event_orders_kernel import CLEAN, COPIED, NEVER, EventTables, Line, Times, timed

SHIFT, SWAP, TIER = 0.55, 0.65, 0.7
"""Random numbers below which an event moves, two change places, and a life or op changes tier or mode."""
AGAIN, MOST, TRIES = 0.5, 5, 30
"""How likely one more absence joins an exchange, of at most so many; how often they are drawn."""


@inner
def _set(line, other):  # type: ignore[no-untyped-def]
    """Make a line equal to another one."""
    count = other.length[0]
    line.length[0] = count
    for i in range(count):
        line.event[i] = other.event[i]
    for g in range(len(other.away)):
        line.away[g] = other.away[g]
    for life in range(len(other.tier)):
        line.tier[life] = other.tier[life]
    for k in range(len(other.mode)):
        line.mode[k] = other.mode[k]


@inner
def _place(line, event):  # type: ignore[no-untyped-def]
    """Return where an event is, -1 if nowhere."""
    for i in range(line.length[0]):
        if line.event[i] == event:
            return i
    return -1


@inner
def _insert(line, event, i):  # type: ignore[no-untyped-def]
    count = line.length[0]
    for j in range(count, i, -1):
        line.event[j] = line.event[j - 1]
    line.event[i] = event
    line.length[0] = count + 1


@inner
def _remove(line, event):  # type: ignore[no-untyped-def]
    """Take an event off the line; return where it was, -1 if nowhere."""
    i = _place(line, event)
    if i >= 0:
        line.length[0] -= 1
        for j in range(i, line.length[0]):
            line.event[j] = line.event[j + 1]
    return i


@inner
def _shift(case, line):  # type: ignore[no-untyped-def]
    """Move an event; ops keep their order among themselves."""
    n, count = case.numbers[0], line.length[0]
    i = np.random.randint(count)
    j = np.random.randint(count)
    if np.random.random() < 0.5:
        far = 1 + int(math.exp(np.random.random() * math.log(count)) / 2)
        j = i + far if np.random.random() < 0.5 else i - far
        j = min(max(j, 0), count - 1)
    event = line.event[i]
    step = 1 if j > i else -1
    while i != j:
        line.event[i] = line.event[i + step]
        i += step
    line.event[j] = event
    if event < n:
        k = 0
        for i in range(count):
            if line.event[i] < n:
                line.event[i] = k
                k += 1


@inner
def _swap(case, line):  # type: ignore[no-untyped-def]
    """Let two copies change places."""
    i, j = np.random.randint(line.length[0]), np.random.randint(line.length[0])
    if line.event[i] >= case.numbers[0] <= line.event[j]:
        line.event[i], line.event[j] = line.event[j], line.event[i]


@inner
def _choose(case, line):  # type: ignore[no-untyped-def]
    """Draw another mode of an op, or another outer tier of a life that has one."""
    n, lives = case.numbers[0], case.numbers[1]
    k = np.random.randint(n)
    line.mode[k] = np.random.randint(case.mode_at[k + 1] - case.mode_at[k])
    if not lives:
        return
    life = np.random.randint(lives)
    tier = np.random.randint(case.ways.shape[1])
    if not line.tier[life] or not case.ways[life, tier] or tier == line.tier[life]:
        return
    line.tier[life] = tier
    if case.ways[life, tier] == CLEAN:
        _remove(line, n + life)
    elif _place(line, n + life) < 0:
        first = _place(line, case.born[life]) + 1 if case.born[life] >= 0 else 0
        _insert(line, n + life, first + np.random.randint(line.length[0] + 1 - first))


@inner
def _stay(case, line, g, drawn):  # type: ignore[no-untyped-def]
    """Let a life be in tier 0 in an absence; note where its copies were."""
    n, lives, life = case.numbers[0], case.numbers[1], case.life[g]
    line.away[g] = 0
    drawn[MOST + 1] = max(drawn[MOST + 1], _remove(line, n + lives + g))
    still = False
    for other in range(case.of[life], case.of[life + 1]):
        still = still or line.away[other] == 1
    if not still:
        line.tier[life] = 0
        drawn[MOST] = max(drawn[MOST], _remove(line, n + life))


@inner
def _go(case, line, g, drawn):  # type: ignore[no-untyped-def]
    """Let a life be away in an absence, its copies at places that are noted or drawn; False if it cannot."""
    n, lives, life = case.numbers[0], case.numbers[1], case.life[g]
    if not line.tier[life]:
        moved = 0
        for tier in range(case.ways.shape[1]):
            if case.ways[life, tier]:
                moved += 1
                if np.random.randint(moved) == 0:
                    line.tier[life] = tier
        if not moved:
            return False
        if case.ways[life, line.tier[life]] == COPIED:
            first = _place(line, case.born[life]) + 1 if case.born[life] >= 0 else 0
            i = first + np.random.randint(line.length[0] + 1 - first)
            if drawn[MOST] >= first and np.random.random() < 0.7:
                i = min(drawn[MOST], line.length[0])
            _insert(line, n + life, i)
    line.away[g] = 1
    if case.behind[g] < n:
        first = _place(line, n + life)
        if case.before[g] >= 0:
            first = max(first, _place(line, case.before[g]))
        last = _place(line, case.behind[g])
        if first >= last:
            return False
        i = first + 1 + np.random.randint(last - first)
        if first < drawn[MOST + 1] <= last and np.random.random() < 0.7:
            i = drawn[MOST + 1]
        _insert(line, n + lives + g, i)
    return True


@inner
def _exchange(case, line, most, drawn):  # type: ignore[no-untyped-def]
    """Let lives that are away around an op stay, and others of about as many bytes leave."""
    k = np.random.randint(case.numbers[0])
    first, width = case.at[4, k], case.at[4, k + 1] - case.at[4, k]
    if not width:
        return False
    near = math.exp(np.random.random() * math.log(most + 1.0))
    count = 1
    while count < MOST and np.random.random() < AGAIN:
        count += 1
    for _ in range(TRIES):
        apart = 0
        for i in range(count):
            g = drawn[i] = case.lists[first + np.random.randint(width)]
            apart += case.size[case.life[g]] * (1 - 2 * line.away[g])
        if count == 1 or abs(apart) <= near:
            break
    drawn[MOST] = drawn[MOST + 1] = -1
    for i in range(count):
        if line.away[drawn[i]] and not case.must[drawn[i]]:
            _stay(case, line, drawn[i], drawn)
            drawn[i] = -1
    for i in range(count):
        if drawn[i] >= 0 and not line.away[drawn[i]] and not _go(case, line, drawn[i], drawn):
            return False
    return True


@kernel_in_place
def anneal(
    case: EventTables,
    line: Line,
    tried: Line,
    best: Line,
    times: Times,
    drawn: Integers,
    first: int,
    last: int,
    steps: int,
    warm: float,
    cold: float,
    seed: int,
    least: int,
) -> int:
    """Anneal a line for the steps from `first` to `last` of all; write the best one, and return its end.

    Parameters
    ----------
    case
        The problem.
    line, best
        The line, and the best one known; both change.
    tried, times, drawn
        Rows of their sizes; the last has `MOST` numbers and two.
    first, last, steps
        A part of the annealing, and of how many steps it is.
    warm, cold
        First and last temperature, in ns.
    seed
        Of all random choices.
    least
        No line ends sooner, in ns: the search stops there.
    """
    np.random.seed(seed)
    most = 0
    for life in range(len(case.size)):
        most = max(most, case.size[life])
    now, shortest = timed(case, line, times), timed(case, best, times)
    for step in range(first, last):
        if shortest <= least:
            break
        _set(tried, line)
        kind = np.random.random()
        if kind < SHIFT:
            _shift(case, tried)
        elif kind < SWAP:
            _swap(case, tried)
        elif kind < TIER:
            _choose(case, tried)
        elif not _exchange(case, tried, most, drawn):
            continue
        heat = warm * (cold / warm) ** (step / steps)
        then = timed(case, tried, times)
        if then < NEVER and then <= now - heat * math.log(1.0 - np.random.random()):
            now = then
            _set(line, tried)
            if now < shortest:
                shortest = now
                _set(best, line)
    result: int = shortest
    return result
