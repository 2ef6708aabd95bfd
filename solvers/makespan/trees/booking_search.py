"""Search over the two sequences of MemBooking, from several activation orders and the published rankings.

The kernel and its moves are in `booking_kernel`. The activation orders to begin with are the fallback order,
and, if they are within the memory, Liu's best post-order and the optimal orders of Liu and of MinMem. Where
the memory is the least there is, the fastest schedules of different ones differ by a tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from random import Random

import numpy as np

from ....models.arrays import Integers
from ....models.derived.memory import sequential_memory
from ....models.problems.makespan import Makespan
from ....models.problems.peak import Peak
from ...context import Context
from ...peak.trees.liu import solve_liu
from ...peak.trees.minmem import solve_minmem
from ...trees.task_tree import TaskTree
from .booking_kernel import Nodes, Pairs, book, search
from .list_schedules import deepest_first, inner_first

BATCH, NODES = 500, 200_000
"""Moves between looks at the clock, at most; times the nodes, about."""


def improve_by_booking(
    tree: TaskTree,
    processors: int,
    memory: int,
    activations: Sequence[Sequence[int]],
    *,
    seed: int,
    offer: Callable[[Integers], object],
    stop: Callable[[], bool],
    moves: int | None = None,
) -> None:
    """Offer the schedules of all activation orders and published rankings, then search from the best pair.

    Parameters
    ----------
    activations
        Topological orders with sequential peaks within the memory.
    offer
        Takes each schedule that is better than all before: the start of each node in ns.
    moves
        After so many without a faster schedule it ends by itself; None: never.
    """
    rng, nodes = Random(seed), nodes_of(tree)
    best: Pairs | None = None
    for order in activations:
        for keys in (deepest_first(tree), inner_first(tree)):
            ranking = np.array(sorted(range(tree.n), key=lambda i: keys[i]), dtype=np.int64)
            pairs = pair(nodes, processors, memory, np.array(order, dtype=np.int64), ranking)
            if best is None or pairs.numbers[1] < best.numbers[1]:
                best = pairs
                offer(best.best_starts)
            if stop():
                return
    assert best is not None
    since, batch = 0, max(1, min(BATCH, NODES // tree.n))
    while not stop() and (moves is None or since < moves):
        known = best.numbers[1]
        count = batch if moves is None else min(batch, moves - since)
        search(nodes, processors, memory, best, count, rng.randrange(2**32))
        if best.numbers[1] < 0:
            raise RuntimeError("MemBooking got stuck")
        since += count
        if best.numbers[1] < known:
            since = 0
            offer(best.best_starts)


def activation_orders(problem: Makespan, context: Context, tree: TaskTree) -> list[tuple[int, ...]]:
    """Return the best post-order of a tree and two optimal orders, as far as they are within the memory."""
    peak = Peak(problem.relaxed)
    orders = [tree.post_order()]
    for solve in (solve_liu, solve_minmem):
        inner = context.inner(peak, context.remaining(), "activation order: ")
        solve(peak, inner)
        if inner.answer is not None:
            orders.append(tuple(inner.answer))
    if problem.memory is None:
        return orders
    levels = sequential_memory(problem.relaxed)
    return [order for order in orders if levels.peak(order) <= problem.memory]


def nodes_of(tree: TaskTree) -> Nodes:
    """Return the arrays of a tree."""
    return Nodes(
        parent=np.array(tree.parent, dtype=np.int64),
        duration=np.array(tree.duration, dtype=np.int64),
        out=np.array(tree.out, dtype=np.int64),
        needed=np.array(tree.needed, dtype=np.int64),
        child_at=np.cumsum([0, *map(len, tree.children)]).astype(np.int64),
        child=np.array(list(chain.from_iterable(tree.children)), dtype=np.int64),
    )


def pair(nodes: Nodes, processors: int, memory: int, activation: Integers, ranking: Integers) -> Pairs:
    """Return the state of a search that stands at a pair of sequences.

    Raises
    ------
    RuntimeError
        If MemBooking got stuck: a defect.
    """
    rank = np.empty(len(ranking), dtype=np.int64)
    rank[ranking] = np.arange(len(ranking))
    starts = np.empty(len(ranking), dtype=np.int64)
    value = book(nodes, processors, memory, activation, rank, starts)
    if value < 0:
        raise RuntimeError("MemBooking got stuck")
    return Pairs(
        activation=activation,
        ranking=ranking,
        best_activation=activation.copy(),
        best_ranking=ranking.copy(),
        best_starts=starts,
        numbers=np.array([value, value, 0], dtype=np.int64),
    )
