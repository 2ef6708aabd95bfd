"""Local search over rankings, fallback orders and preferences: together they stand for a safe list schedule.

A move takes a few ops out of the ranking, or one out of the fallback order, and puts them elsewhere; a
fallback order must stay topological and within the memory. Where ops have a choice, a move may also have a
few of them prefer one alternative, or again whichever would end first, as all do in the beginning. A
schedule that is not slower than the current one replaces it, a slower one sometimes (simulated annealing
with a temperature that is renewed). Each new best schedule gives the next fallback order, that of its
starts, if that is within the memory: always so under ``coexist``. The first ranking is the best of
several.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.problems.makespan import Makespan
from ...context import Context, Outcome
from ...parts import per_op
from .method import Started, TimeIsUp, begin, ended, rankings
from .priorities import PRIORITIES
from .ranking_moves import jittered, shuffled

HOTTEST, COLDEST = 0.01, 0.0005
"""Temperatures, as parts of the best makespan."""

ROUND = 400
"""Moves from the hottest to the coldest temperature, then again."""

JITTER = 0.5
"""Part of the moves of rankings that change many places a little; the others change few."""

PREFERENCES = 0.3
"""Part of the moves that change preferences, where ops have a choice."""


seconds_of_search = per_op(5_000, 1.5)
"""Until there is something to show: in larger graphs it takes more moves, and a move longer."""

MOVES = 10_000
"""Without a better schedule, after which a search ends where there is no time limit."""


def solve_local_search(problem: Makespan, context: Context) -> Outcome:
    """Search until the time is up, or for so many moves in a row without a better schedule."""
    started = begin(problem, context, lists=PRIORITIES)
    if isinstance(started, Outcome):
        return started
    return search(started, problem, context, moves=context.options["moves"])


def search(started: Started, problem: Makespan, context: Context, *, moves: int | None) -> Outcome:
    """Search until the time is up, or for so many moves, if any, in a row without a better schedule."""
    with contextlib.suppress(TimeIsUp):
        _improve(replace(started, context=context), problem, context, moves)
    return ended(context)


def _improve(started: Started, problem: Makespan, context: Context, moves: int | None) -> None:
    rank, current = None, 0
    for other in rankings(problem, started):
        if context.closed or (rank is not None and context.expired):
            return
        value = context.offer(started.list_schedule(other))
        if rank is None or value < current:
            rank, current = other, value
    assert rank is not None
    rng, n = Random(context.seed), len(started.order)
    ranking, fallback = [int(i) for i in np.argsort(rank)], list(started.order)
    prefer = [-1] * n if problem.has_choice else None  # -1: whichever ends first
    best, since, move = current, 0, 0
    while not (context.closed or context.expired) and (moves is None or since < moves):
        since += 1
        heat = HOTTEST * (COLDEST / HOTTEST) ** (move % ROUND / ROUND) * best
        move += 1
        new_ranking, new_fallback, new_prefer = ranking, fallback, prefer
        if prefer is not None and rng.random() < PREFERENCES:
            new_prefer = _preferring(problem, prefer, rng)
        elif problem.memory is not None and rng.random() < 0.3:
            new_fallback = _moved(problem, fallback, rng)
        else:
            new_ranking = (jittered if rng.random() < JITTER else shuffled)(ranking, rng)
        places = np.empty(n, dtype=np.int64)
        places[new_ranking] = np.arange(n)
        starts = started.list_schedule(places, new_fallback, new_prefer)
        value = problem.evaluate(starts)
        if value <= current or rng.random() < math.exp((current - value) / heat):
            ranking, fallback, prefer, current = new_ranking, new_fallback, new_prefer, value
        if value < best:
            best, since = context.offer(starts), 0
            by_start = sorted(range(n), key=lambda i: (starts[i], i))
            if _fits(problem, by_start):
                fallback = by_start


def _fits(problem: Makespan, order: Sequence[int]) -> bool:
    return problem.memory is None or sequential_memory(problem.relaxed).peak(order) <= problem.memory


def _preferring(problem: Makespan, prefer: list[int], rng: Random) -> list[int]:
    """Return the preferences with those of one to three ops drawn anew."""
    new = prefer.copy()
    free = [i for i, some in enumerate(problem.alternatives) if len(some) > 1]
    for i in rng.sample(free, min(len(free), rng.randint(1, 3))):
        new[i] = rng.randrange(-1, len(problem.alternatives[i]))
    return new


def _moved(problem: Makespan, order: list[int], rng: Random) -> list[int]:
    """Return the order with one op elsewhere between its neighbours in the precedence, if it fits there."""
    n = len(order)
    edges = precedence(problem.graph)
    at = rng.randrange(n)
    op = order[at]
    low = high = at
    before, after = set(edges.predecessors[op]), set(edges.successors[op])
    while low > 0 and order[low - 1] not in before:
        low -= 1
    while high < n - 1 and order[high + 1] not in after:
        high += 1
    to = rng.randint(low, high)
    new = order.copy()
    new.insert(to, new.pop(at))
    return new if to != at and _fits(problem, new) else order
