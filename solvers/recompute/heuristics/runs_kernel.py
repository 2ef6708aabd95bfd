"""Compiled annealing of `annealing`, whose page has the words: sequences of runs, excess, moves.

Bytes are in units and times in ticks (`lowtide.formulations.recompute.data`). A sequence is the first `count`
entries of an array of ops.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ...engines.kernels import inner, kernel

INVALID = -1
"""Excess of a sequence in which a run does not find what it reads."""

NEVER = 2**62
"""Ticks of the best schedule while there is none."""

LOOK, FEWEST, MOST = 200, 0.3, 0.6
"""The weight of the excess changes after so many moves, if less or more than such shares of them fit."""


class RunTables(NamedTuple):
    """A problem: rows of numbers by op and by value.

    Attributes
    ----------
    numbers
        Units of memory; 1 if what an op only reads may go when it starts.
    duration, workspace, fresh
        By op.
    size, writer, final
        By value; -1 if no op writes it; 1 if it must be there at the end.
    reads_at, reads, writes_at, writes, lost_at, lost, after_at, after
        By op, rows of the values that it finds, leaves and destroys, and of the ops that must have run.
    """

    numbers: Integers
    duration: Integers
    workspace: Integers
    fresh: Integers
    size: Integers
    writer: Integers
    final: Integers
    reads_at: Integers
    reads: Integers
    writes_at: Integers
    writes: Integers
    lost_at: Integers
    lost: Integers
    after_at: Integers
    after: Integers


@inner
def excess(case: RunTables, runs, count: int, over) -> int:  # type: ignore[no-untyped-def]
    """Write the units by which each run exceeds the memory; return their sum, or `INVALID`.

    What is discarded goes as early as it can (`lowtide.formulations.recompute.data.levels`).
    """
    memory, in_place = case.numbers[0], case.numbers[1]
    if len(case.after):
        ran = np.zeros(len(case.duration), np.bool_)
        for k in range(count):
            i = runs[k]
            for x in range(case.after_at[i], case.after_at[i + 1]):
                if not ran[case.after[x]]:
                    return INVALID
            ran[i] = True
    needed = case.final == 1
    level = (case.size * case.final).sum()
    total = np.int64(0)
    for k in range(count - 1, -1, -1):
        i = runs[k]
        during = level + case.workspace[i]
        for x in range(case.writes_at[i], case.writes_at[i + 1]):
            u = case.writes[x]
            if needed[u]:
                needed[u] = False
                level -= case.size[u]
            else:
                during += case.size[u]
        for x in range(case.lost_at[i], case.lost_at[i + 1]):
            if needed[case.lost[x]]:
                return INVALID
        for x in range(case.reads_at[i], case.reads_at[i + 1]):
            u = case.reads[x]
            if not needed[u]:
                needed[u] = True
                level += case.size[u]
        used = max(level, during) if in_place else level + case.fresh[i]
        over[k] = max(np.int64(0), used - memory)
        total += over[k]
    for u in range(len(needed)):
        if needed[u] and case.writer[u] >= 0:
            return INVALID
    return int(total)


@inner
def _needed(case, runs, count, at):  # type: ignore[no-untyped-def]
    """Return by value whether it is there just before place `at`, and of use from there on."""
    needed = case.final == 1
    for k in range(count - 1, at - 1, -1):
        i = runs[k]
        for x in range(case.writes_at[i], case.writes_at[i + 1]):
            needed[case.writes[x]] = False
        for x in range(case.reads_at[i], case.reads_at[i + 1]):
            needed[case.reads[x]] = True
    return needed


@inner
def _again(case, runs, count, over):  # type: ignore[no-untyped-def]
    """Discard a value that is live but not used at a drawn place, and compute it again before its next use.

    With probability 0.7 the place is one where memory is exceeded (`over`), if there is one. The runs that
    compute the value again, and what it is computed from as far as that is not live, come into `runs`.

    Returns
    -------
    int
        How many runs there are then: as many as before if no value qualifies or the array is full.
    """
    at = np.random.randint(count)
    if np.random.random() < 0.7:
        total = np.int64(0)
        for k in range(count):
            total += over[k] > 0
        if total:
            left = np.random.randint(total)
            for k in range(count):
                if over[k] > 0:
                    left -= 1
                    if left < 0:
                        at = k
                        break
    needed = _needed(case, runs, count, at + 1)
    i = runs[at]
    for x in range(case.writes_at[i], case.writes_at[i + 1]):
        needed[case.writes[x]] = False
    value, seen = -1, 0
    for u in range(len(needed)):
        if needed[u] and case.writer[u] >= 0:
            seen += 1
            if np.random.randint(seen) == 0:
                value = u
    if value < 0:
        return count
    to = count
    for k in range(at + 1, count):
        i = runs[k]
        for x in range(case.reads_at[i], case.reads_at[i + 1]):
            if case.reads[x] == value:
                to = k
                break
        if to == k:
            break
    there = _needed(case, runs, count, to)
    there[value] = False
    whole = 0.5 + 0.5 * np.random.random()
    chosen = np.zeros(len(case.duration), np.bool_)
    stack = np.empty(len(needed), np.int64)
    stack[0], depth, many = value, 1, 0
    while depth:
        depth -= 1
        i = case.writer[stack[depth]]
        if chosen[i]:
            continue
        chosen[i] = True
        many += 1
        for x in range(case.reads_at[i], case.reads_at[i + 1]):
            u = case.reads[x]
            if not there[u] and case.writer[u] >= 0 and np.random.random() < whole:
                there[u] = True
                stack[depth] = u
                depth += 1
    if count + many > len(runs):
        return count
    for k in range(count - 1, to - 1, -1):
        runs[k + many] = runs[k]
    for i in range(len(chosen)):
        if chosen[i]:
            runs[to] = i
            to += 1
    return count + many


@inner
def _fewer(case, runs, count):  # type: ignore[no-untyped-def]
    """Leave out some runs of ops that run elsewhere too; return the new count."""
    many = np.zeros(len(case.duration), np.int64)
    for k in range(count):
        many[runs[k]] += 1
    repeated = np.int64(0)
    for k in range(count):
        repeated += many[runs[k]] > 1
    if not repeated:
        return count
    left, at = np.random.randint(repeated), 0
    for k in range(count):
        if many[runs[k]] > 1:
            left -= 1
            if left < 0:
                at = k
                break
    more = 0.6 if np.random.random() < 0.5 else 0.0
    while True:
        many[runs[at]] -= 1
        for k in range(at, count - 1):
            runs[k] = runs[k + 1]
        count -= 1
        if at == count or many[runs[at]] < 2 or np.random.random() >= more:
            return count


@inner
def _elsewhere(runs, count):  # type: ignore[no-untyped-def]
    """Move one to five runs in a row to another place."""
    if count < 2:
        return
    long = 1 if np.random.random() < 0.7 else 2 + np.random.randint(4)
    long = min(long, count - 1)
    at = np.random.randint(count - long + 1)
    reach = max(1, int(count ** np.random.random()))
    to = at + (1 + np.random.randint(reach)) * (1 if np.random.random() < 0.5 else -1)
    to = max(0, min(count - long, to))
    block = runs[at : at + long].copy()
    if to > at:
        for k in range(at, to):
            runs[k] = runs[k + long]
    else:
        for k in range(at - 1, to - 1, -1):
            runs[k + long] = runs[k]
    runs[to : to + long] = block


@kernel
def anneal(
    case: RunTables,
    runs: Integers,
    best: Integers,
    state: Integers,
    weight: NDArray[np.float64],
    moves: int,
    hot: float,
    cold: float,
    seed: int,
) -> None:
    """Move at falling temperatures; write the best sequence that fits.

    Parameters
    ----------
    case
        The problem.
    runs, best
        The sequence, and the best one that fits, with room for more runs.
    state
        Their counts, and the ticks of the best one; written.
    weight
        Ticks for each unit of excess, written; the least and the most that it can be.
    moves, hot, cold, seed
        How many; ticks from which and to which the temperature falls; of the random numbers.
    """
    np.random.seed(seed)
    count = state[0]
    trial, over, after = runs.copy(), np.zeros(len(runs), np.int64), np.zeros(len(runs), np.int64)
    time = np.int64(0)
    for k in range(count):
        time += case.duration[runs[k]]
    extra = excess(case, runs, count, over)
    fitting = 0
    for move in range(moves):
        if move % LOOK == LOOK - 1:
            change = 1.1 if fitting < FEWEST * LOOK else 1 / 1.1 if fitting > MOST * LOOK else 1.0
            weight[0] = min(weight[2], max(weight[1], weight[0] * change))
            fitting = 0
        fitting += extra == 0
        trial[:count] = runs[:count]
        many = count
        draw = np.random.random()
        if draw < 0.4:
            many = _again(case, trial, many, over)
        elif draw < 0.65:
            many = _fewer(case, trial, many)
        elif draw < 0.8:
            many = _fewer(case, trial, many)
            if excess(case, trial, many, after) == INVALID:
                continue
            many = _again(case, trial, many, after)
        else:
            _elsewhere(trial, many)
        more = excess(case, trial, many, after)
        if more == INVALID:
            continue
        took = np.int64(0)
        for k in range(many):
            took += case.duration[trial[k]]
        worse = took - time + weight[0] * (more - extra)
        if worse > 0:
            heat = hot * (cold / hot) ** (move / moves)
            if np.random.random() >= math.exp(-worse / heat):
                continue
        runs[:many] = trial[:many]
        over[:many] = after[:many]
        count, time, extra = many, took, more
        if extra == 0 and time < state[2]:
            best[:count] = runs[:count]
            state[1], state[2] = count, time
    state[0] = count
