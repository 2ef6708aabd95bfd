"""Questions whose order is free, every order of a graph, and what holds for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import lowtide as lt
from lowtide.models.derived.precedence import precedence
from lowtide.models.derived.reordered import in_order
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.bounds.any_order import bound_of_orders
from lowtide.solvers.placement.reductions.orders import Order, mutated
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.problems.placement import machine, random_graph, tiny_placement, working_set
from tests.strategies import random_graph as tiny_graph


def every_order(graph: lt.Graph, head: Order = ()) -> Iterator[Order]:
    """Yield all orders that keep the precedence."""
    if len(head) == len(graph.ops):
        yield head
    for k, before in enumerate(precedence(graph).predecessors):
        if k not in head and {*before} <= {*head}:
            yield from every_order(graph, (*head, k))


def times_of_orders(seed: int, accounting: Accounting) -> tuple[lt.Placement, list[int | None]]:
    """Return a tiny problem of whole tensors in a free order, and the least time in each order, by search."""
    problem = replace(tiny_placement(seed, accounting), order="free")
    host = problem.machine.tiers[1].name
    start = {
        t: COPY if problem.may_start(x.kind) == (host,) else DEVICE
        for t, x in enumerate(problem.graph.tensors)
        if x.initial
    }
    graphs = [in_order(problem.graph, order) for order in every_order(problem.graph)]
    return problem, [fastest(graph, problem.machine, start) for graph in graphs]


def free_problem(seed: int, accounting: Accounting = Accounting.COEXIST, ops: int = 5) -> lt.Placement:
    """Few ops on a device a little larger than the largest of them, some on three tiers, some periodic."""
    graph = replace(random_graph(seed, ops), accounting=accounting)
    bench = machine(
        working_set(graph) + seed % 4,
        None if seed % 2 else 60,
        latency=seed % 3 * 100,
        shared=seed % 2 == 0,
        ssd=seed % 4 > 1,
    )
    return lt.Placement(graph, bench, periodic=seed % 3 == 0, order="free")


def fixed(problem: lt.Placement, order: Order) -> lt.Placement:
    return replace(problem, graph=in_order(problem.graph, order), order="reference")


def shuffled(graph: lt.Graph, random: Random) -> Order:
    return mutated(random, graph, tuple(range(len(graph.ops))), 0.7)


def bound_of(problem: lt.Placement) -> int:
    peak = lt.solve(lt.Peak(problem.graph), threads=1).bound or 0
    return bound_of_orders(problem, precedence(problem.graph).ancestors, peak=peak)


MET = (16, 38, 42, 78, 84, 115, 135, 136, 192, 202, 204, 249, 286, 443, 463, 507, 510)
"""Seeds of small problems whose bounds meet plans."""


def small(seed: int) -> lt.Placement:
    """Three to six ops that take less than copies; a device with room for little more than one of them."""
    rng = Random(seed)
    graph = tiny_graph(rng, min_ops=3, max_ops=6, max_tensors=7, single_writer=seed % 2 > 0, max_duration=6)
    bench = machine(
        working_set(graph) + rng.randint(0, 2), rng.choice((None, 8)), shared=False, ssd=rng.random() < 0.3
    )
    channels = tuple(replace(c, bytes_per_s=10**9 // rng.choice((1, 2, 5))) for c in bench.channels)
    periodic = rng.random() < 0.5
    return lt.Placement(graph, replace(bench, channels=channels), periodic=periodic, order="free", start={})
