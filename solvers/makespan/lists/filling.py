r"""Filling the processors: annealing of sequences on lanes towards a bound, exchanges that meet it exactly.

Where the best bound on the makespan is the load, a schedule that meets it keeps all processors busy until
the same instant, to a few ns in all. Such schedules are many, but thin among all schedules: list schedules
end tens of ns apart. Identical processors.

*States.* A topological sequence of the ops, and for each op its *lane*: the processor that runs it. An op
starts as soon as the op in front of it on its lane and its predecessors have ended. If that needs too much
memory, the ops are taken by these starts (if that gets stuck: in the given sequence), and each starts at the
first time, not before the one in front of it, at which its lane is free, its predecessors have ended and what
it allocates fits. A sequence for which that gets stuck too is given up.

*Lateness.* For a goal T, which is the best bound that is known, op i is to end by :math:`T - tail_i`. What
is made small is the sum over the lanes of how late the latest op of each is,

.. math:: F = \sum_k \max(0, \max_{i \in lane\ k} s_i + d_i + tail_i - T),

which is 0 if and only if the makespan is at most T: it tells two schedules of the same makespan apart.

*Idle time.* Let x and y be the head and the tail of the load bound next to T (`bounds`), and W the duration
of the ops with at least these, which are *counted*. The lanes can have only
:math:`S = p (T - x - y) - W` of time in :math:`[x, T - y]` without a counted op. Whatever a lane idles, or
spends on others, before its last counted op ends makes F larger, but for S: the ends of the lanes exceed
:math:`T - y` by at least the idle time less S in all, and an op that ends so late is late. So a sequence is
given up as soon as the idle time, less S, is above the F that would be accepted.

*Annealing.* Moves: two ops change their places and lanes (near in the sequence, or of about the same
duration); two ops change lanes; an op goes to another lane, or elsewhere in the sequence; two lanes change
all that follows after a place. F may rise as in simulated annealing; each round of falling temperatures
begins at the best schedule or where the last one ended.

*Exchanges.* From a state of small F whose idle time is at most S, only the ends of the lanes are wrong: lane
k has :math:`T - y - end_k` to gain or to lose. Of two such lanes, up to three counted ops of the one change
lanes with up to three of the other that start within a short while of them, if their durations differ by
what makes the end of the first right, up to S: a subset-sum problem, solved by looking at all. Next to such
an exchange hardly anything moves, so it is often possible without idle time; the first one that is, is made,
and the next lane is looked at, until all are right.

Sources: simulated annealing is that of Kirkpatrick, Gelatt and Vecchi (1983); sequences of ops on machines
as the state of a local search those of the job shop (Van Laarhoven, Aarts and Lenstra 1992); exchanges of
subsets those of number partitioning and of load balancing on identical machines (Frangioni, Necciari and
Scutella 2004). Their combination here is the suite's own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

import numpy as np

from ....formulations.makespan.data import MakespanData
from ....models.arrays import Integers
from ....models.derived.precedence import precedence
from ....models.problems.makespan import Makespan, Starts
from ...context import Context, Outcome
from ...parts import per_op
from .filling_kernel import Target, anneal
from .layout import Shop
from .method import Started, ended

HOTTEST, COLDEST = 0.25, 0.004
"""Temperatures, as parts of the mean duration."""

ROUND, BATCH = 10_000, 200_000
"""Moves of a round, per op; moves between looks at the clock, times ops: a few milliseconds."""

NEAR, TIGHT, WIDTH = 0.1, 0.05, 3.0
"""Lateness of states that exchanges are tried from; the idle time S with which they are; how far apart ops
of an exchange may start: in mean durations."""


ROUNDS = 3
"""Rounds without a faster schedule, after which it begins again from the fastest one that is known."""


seconds_of_filling = per_op(4_000, 2)
"""Of a round."""


def search_filling(started: Started, problem: Makespan, context: Context) -> Outcome:
    """Anneal sequences on lanes from the fastest schedule, again and again; without a time limit once."""
    for turn in count():
        fill(
            problem,
            started.data,
            started.shop,
            context.answer,
            goal=lambda: context.bound or 0,
            seed=context.seed + turn,
            offer=context.offer,
            stop=lambda: context.closed or context.expired,
            rounds=ROUNDS,
        )
        if context.closed or context.expired or context.time_limit is None:
            break
    return ended(context)


def fill(
    problem: Makespan,
    data: MakespanData,
    shop: Shop,
    starts: Starts,
    *,
    goal: Callable[[], int],
    seed: int,
    offer: Callable[[Starts], object],
    stop: Callable[[], bool],
    rounds: int | None = None,
) -> None:
    """Search from a schedule until the goal is met.

    Parameters
    ----------
    problem, data, shop
        The problem, of identical processors.
    starts
        By op, in ns: a schedule within the memory.
    goal
        Returns the makespan in ns below which there is none.
    offer
        Takes each schedule that is faster than all before.
    rounds
        After so many without a faster schedule it ends by itself; None: never.
    """
    rng = Random(seed)
    mean = float(shop.duration.mean())
    best = np.array(starts, dtype=np.int64)
    fastest = int((best + shop.duration).max())
    state, whole, batch = _state(shop, best), ROUND * data.n, max(1, BATCH // data.n)
    done = turn = since = 0
    target = target_of(problem, data, shop, goal())
    while fastest > target.numbers[0] and not stop() and (rounds is None or since < rounds):
        heats = [mean * HOTTEST * (COLDEST / HOTTEST) ** (x / whole) for x in (done, done + batch)]
        made = anneal(shop, target, state, best, batch, *heats, NEAR * mean, rng.randrange(2**32))
        if made < fastest:
            fastest = int(made)
            offer(tuple(best.tolist()))
            since = 0
        done += batch
        if done >= whole:
            done, turn, since = 0, turn + 1, since + 1
            target = target_of(problem, data, shop, goal())
            state = _state(shop, best) if turn % 2 else state


def target_of(problem: Makespan, data: MakespanData, shop: Shop, goal: int) -> Target:
    """Return what a schedule of a makespan, in ns, has to meet."""
    order = precedence(problem.graph)
    head = np.array(data.head, dtype=np.int64) * data.tick
    tail = np.array(data.tail, dtype=np.int64) * data.tick
    by_tail = np.argsort(-tail, kind="stable")
    rows = []
    for x in np.unique(head):
        behind = by_tail[head[by_tail] >= x]
        idle = data.processors * (goal - x - tail[behind]) - np.cumsum(shop.duration[behind])
        k = int(np.argmin(idle))
        rows.append((int(idle[k]), int(x), int(tail[behind[k]])))
    idle, x, y = min(rows)
    by_duration = np.argsort(shop.duration, kind="stable").astype(np.int64)
    rank = np.empty(data.n, dtype=np.int64)
    rank[by_duration] = np.arange(data.n)
    mean = float(shop.duration.mean())
    return Target(
        numbers=np.array([goal, x, goal - y, idle, WIDTH * mean, idle <= TIGHT * mean], dtype=np.int64),
        counted=((head >= x) & (tail >= y)).astype(np.int64),
        tail=tail,
        before_at=np.cumsum([0, *map(len, order.predecessors)]).astype(np.int64),
        before=np.array([j for before in order.predecessors for j in before], dtype=np.int64),
        by_duration=by_duration,
        rank=rank,
    )


def _state(shop: Shop, starts: Integers) -> Integers:
    """Return the rows of a schedule: its sequence, lanes (of those idle, the one idle longest), starts."""
    order = np.lexsort((np.arange(len(starts)), shop.duration > 0, starts)).astype(np.int64)
    lane = np.empty(len(starts), dtype=np.int64)
    free = [(0, k) for k in range(int(shop.numbers[0]))]
    for v in order.tolist():
        _, k = heapq.heappop(free)
        lane[v] = k
        heapq.heappush(free, (int(starts[v] + shop.duration[v]), k))
    return np.stack([order, lane, starts])
