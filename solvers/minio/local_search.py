r"""Method `local-search` of `minio`: annealing over orders of any graph, each with what `furthest` evicts.

A move takes an op out of the order, with a share of the ops that follow it in one piece, and puts it at
another place between the last op that must run before it and the first one that must run after it. It is
taken if it moves no more bytes, or with probability :math:`\exp(-\delta / T)` for :math:`\delta` bytes more.
Runs begin with the best order and :math:`T` the mean size of a file times a factor between `COOLEST` and
`WARMEST`, and end at a `COOLING`-th of that. What is evicted is chosen anew for each order
(`lowtide.solvers.minio.evictions`, both sequences), which is exact for divisible files where gaps share
nothing.

Source: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220, 1983; the moves are ours.
"""

from __future__ import annotations

import math
from random import Random

from ...formulations.minio.data import GraphData
from ...models.derived.precedence import precedence
from ...models.problems.minio import MinIO
from ..context import Context, Outcome
from .evictions import evicted
from .models import offer_evictions
from .peaks import raise_by_cuts
from .rules import order_of, values_of

MOVES = 200
"""Moves of a run for each op; a run of 30 ops takes about a second."""

COOLEST, WARMEST, COOLING = 0.02, 1.0, 50.0
"""First temperatures of runs in mean sizes of files, drawn by chance; the last one is that over `COOLING`."""


def solve_local_search(problem: MinIO, context: Context) -> Outcome:
    """Offer what the rules evict in an order, then what runs find.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.MinIO(lt.load("gen:layered?layers=4&width=3&seed=2"), memory=50)
    >>> lt.solve(problem, "local-search", options={"runs": "2"}).objective
    7
    """
    values = values_of(problem, context)
    offer_evictions(values, order_of(problem, values, context), context)
    raise_by_cuts(values, context)
    return improve(problem, values, context, context.options["runs"])


def improve(problem: MinIO, data: GraphData, context: Context, runs: int) -> Outcome:
    """Run from the best answer of the context, offer what is better."""
    rng = Random(context.seed)
    order = precedence(problem.graph)
    before, after = [set(some) for some in order.predecessors], [set(some) for some in order.successors]
    mean = sum(data.size) / max(1, len(data.size))
    for number in range(runs):
        if context.closed:
            return Outcome()
        current = list(context.answer.order)
        cost = min(evicted(data, current, clean_first=first)[1] for first in (False, True))
        warm = mean * COOLEST * (WARMEST / COOLEST) ** rng.random()
        context.progress(f"run {number + 1} of {runs}, temperature {warm:.3g}")
        steps = MOVES * data.n
        for step in range(steps):
            if context.expired:
                return Outcome(reason="time")
            moved = _neighbour(current, before, after, rng)
            if moved is None:
                continue
            traversal, value = evicted(data, moved, clean_first=bool(step % 2))
            temperature = warm * COOLING ** (-step / steps)
            if value <= cost or rng.random() < math.exp((cost - value) / temperature):
                current, cost = moved, value
                if context.incumbent is None or value < context.incumbent:
                    context.offer(traversal)
                    if context.closed:
                        return Outcome()
    return Outcome()


def _neighbour(
    order: list[int], before: list[set[int]], after: list[set[int]], rng: Random
) -> list[int] | None:
    """Return the order with a piece of it elsewhere; None if it cannot be moved."""
    n = len(order)
    begin = rng.randrange(n)
    end = min(n, begin + 1 + int(rng.expovariate(1.0)))
    piece = order[begin:end]
    needed, following = (
        set[int]().union(*(before[v] for v in piece)),
        set[int]().union(*(after[v] for v in piece)),
    )
    low, high = begin, end
    while low and order[low - 1] not in needed:
        low -= 1
    while high < n and order[high] not in following:
        high += 1
    places = high - low - (end - begin)
    if not places:
        return None
    at = low + rng.randrange(places + 1)
    rest = order[:begin] + order[end:]
    return rest[:at] + piece + rest[at:]
