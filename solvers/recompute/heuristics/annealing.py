r"""Annealing of sequences of runs: what is kept, what runs again and when, all at once.

*States.* A sequence of ops, each at least once. What a run leaves is discarded as early as it can be: after
its last use before it is left again or destroyed. So a sequence says everything, and it is a schedule if each
run finds what it reads and no run exceeds the memory; in a graph whose tensors are written once the former
holds as soon as the first runs follow the precedence.

*Cost.* The time of the runs plus w times the *excess*, the sum over the runs of the units by which they
exceed the memory. So the search goes through sequences that do not fit; w rises while too few fit and falls
while too many do.

*Moves.* (1) A value is discarded where it is kept, mostly where memory is exceeded, and its writer runs
again before the next reader; with it run the ops whose results the writer needs and does not find, each with
some probability, and what these need likewise. (2) Runs of ops that run elsewhere too are left out, some of
them next to each other. (3) Both at once. (4) Up to five runs in a row go elsewhere: runs and first runs in
any order that the precedence allows. A move that leads to no sequence of the kind is not made.

The temperature falls from `HOTTEST` to `COLDEST` in each round; rounds take longer and longer, and begin at
the best schedule or where the last one ended.

Source: simulated annealing is that of Kirkpatrick, Gelatt and Vecchi (1983); the states, the excess and the
moves are ours. Nothing is assumed about stages, as models with stages do
(`lowtide.formulations.recompute.stages_milp`), nor about how often an op runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from ....formulations.recompute.data import RecomputeData, fits, time_of
from ....models.arrays import Integers
from .runs_kernel import LOOK, NEVER, RunTables, anneal

HOTTEST, COLDEST = 1.0, 0.01
"""Temperatures, as parts of the mean duration."""

ROUND, BATCH, WORK = 1_000, 20_000, 4_000_000
"""Moves of the first round, per op; most moves between looks at the clock, and most of them times ops."""

EASIEST = 1e6
"""The weight of the excess stays within this factor of its start; no unit costs more than all ops once."""


def anneal_runs(
    data: RecomputeData,
    runs: Sequence[int],
    *,
    seed: int,
    offer: Callable[[list[int]], object],
    stop: Callable[[], bool],
    rounds: int,
    known: Callable[[], Sequence[int] | None] = lambda: None,
) -> None:
    """Search from a sequence of runs; not at all where sums might exceed 64 bits.

    Parameters
    ----------
    runs
        Ops as they run, each once or more; it need not fit.
    offer
        Takes each schedule that is faster than all before.
    rounds
        After so many without a faster schedule it ends by itself.
    known
        Returns the best schedule that is known, of whomever; a round begins at it if it is faster.
    """
    room = 8 * data.n + 4 * len(runs)
    if room * max(sum(data.sizes) + max(data.workspace), max(data.duration)) >= NEVER:
        return
    rng, case = Random(seed), case_of(data)
    now = np.zeros(room, dtype=np.int64)
    now[: len(runs)] = runs
    best = now.copy()
    fastest = time_of(data, runs) if fits(data, runs) else NEVER
    state = np.array([len(runs), len(runs), fastest], dtype=np.int64)
    mean = float(case.duration.mean())
    total = float(case.duration.sum())
    weight = total / max(1, data.memory) * np.array([1, 1 / EASIEST, min(EASIEST, max(1, data.memory))])
    whole, done, turn, since = ROUND * data.n, 0, 0, 0
    while since < rounds and not stop():
        moves = min(BATCH, max(LOOK, WORK // data.n), whole - done)
        heats = [mean * HOTTEST * (COLDEST / HOTTEST) ** (x / whole) for x in (done, done + moves)]
        anneal(case, now, best, state, weight, moves, *heats, rng.randrange(2**32))
        if state[2] < fastest:
            fastest, since = int(state[2]), -1
            offer(best[: state[1]].tolist())
        done += moves
        if done == whole:
            whole, done, turn, since = whole * 2, 0, turn + 1, since + 1
            other = known() or ()
            if 0 < len(other) <= room // 2 and fits(data, other) and time_of(data, other) < fastest:
                fastest, since = time_of(data, other), 0
                best[: len(other)], state[1], state[2] = other, len(other), fastest
                now[:], state[0] = best, state[1]
            if turn % 2 and fastest < NEVER:
                now[:], state[0] = best, state[1]


def case_of(data: RecomputeData) -> RunTables:
    """Return a problem as the compiled search has it."""

    def row(numbers: Iterable[int]) -> Integers:
        return np.array(list(numbers), dtype=np.int64)

    def rows(lists: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
        return np.cumsum([0, *map(len, lists)]).astype(np.int64), row(x for some in lists for x in some)

    return RunTables(
        row([data.memory, int(data.in_place)]),
        row(data.duration),
        row(data.workspace),
        row(data.fresh),
        row(data.sizes),
        row(-1 if x.writer is None else x.writer for x in data.values),
        row(int(x.final) for x in data.values),
        *rows(data.reads),
        *rows(data.writes),
        *rows(data.destroys),
        *rows(data.after),
    )
