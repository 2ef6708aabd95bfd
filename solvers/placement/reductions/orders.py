"""A graph's ops in another order, orders that come of others, and what a plan is in the first order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from ....models.derived.precedence import precedence
from ....models.graph import Graph
from ....models.plan import Plan

Order = tuple[int, ...]
"""Every op once, none before one that precedes it."""


def of_first(plan: Plan, graph: Graph, order: Sequence[int]) -> Plan:
    """Return a plan for ``in_order(graph, order)`` as one for the graph."""
    runs = tuple(replace(run, op=order[run.op]) for run in plan.runs)
    return replace(plan, runs=runs, graph_sha256=graph.sha256)


def crossed(first: Order, second: Order, cut: int) -> Order:
    """Return the first ops of an order, then the others as another order has them.

    The result keeps the precedence: what precedes one of the others is among the first ones, or precedes it
    in the other order.
    """
    head = {*first[:cut]}
    return first[:cut] + tuple(k for k in second if k not in head)


def mutated(random: Random, graph: Graph, order: Order, probability: float) -> Order:
    """Return the order with, now and then, any op that is ready in place of the one whose turn it is."""
    before = precedence(graph)
    place = {k: x for x, k in enumerate(order)}
    missing = [len(some) for some in before.predecessors]
    ready = sorted(place[k] for k, count in enumerate(missing) if not count)
    result: list[int] = []
    while ready:
        at = random.randrange(len(ready)) if len(ready) > 1 and random.random() < probability else 0
        result.append(order[ready.pop(at)])
        for k in before.successors[result[-1]]:
            missing[k] -= 1
            if not missing[k]:
                insort(ready, place[k])
    return tuple(result)
