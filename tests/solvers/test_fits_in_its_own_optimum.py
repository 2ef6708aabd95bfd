"""A memory of exactly the least peak of a graph is enough, in every problem, for the order that has it.

The memory holds what is there before the first op, under both accountings: `peak` counts it, and so do all
problems that are given a memory. One byte less is refused wherever nothing but the order is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from tests.effort import seeds
from tests.oracles.brute_arena import least_height
from tests.oracles.brute_force import brute_force_peak, order_peak, topological_orders
from tests.strategies import random_graph

START = Graph(
    name="much replaced by little",
    accounting=Accounting.REPLACE,
    tensors=(Tensor(name="x", nbytes=100, initial=True), Tensor(name="y", nbytes=1, final=True)),
    ops=(Op(name="a", reads=(0,), writes=(1,), duration_ns=1),),
)


def graph_of(seed: int) -> Graph:
    """Return a small graph; of every other one the start is the peak of no op, under ``replace``."""
    if seed == 0:
        return START
    rng = Random(seed)
    accounting = Accounting.COEXIST if seed % 3 == 0 else Accounting.REPLACE
    return random_graph(rng, max_ops=4, max_tensors=4, max_nbytes=3, accountings=(accounting,))


def memory(capacity: int) -> lt.Machine:
    return lt.Machine.single(capacity=capacity)


def within(graph: Graph, capacity: int) -> Iterator[lt.Problem]:
    """Yield each problem that asks for the graph's ops, each once, one after another, within a memory."""
    yield lt.Makespan(graph, 1, capacity)
    yield lt.Distributed(graph, memory(capacity))
    yield lt.Placement(graph, memory(capacity), order="free")


def check(graph: Graph, seed: int) -> None:
    least, order = brute_force_peak(graph)
    peak = lt.solve(lt.Peak(graph), threads=1)
    assert (peak.status, peak.objective, peak.bound) == ("optimal", least, least), seed
    plan = lt.Plan.from_order(graph, order, memory(least))
    assert lt.verify(graph, plan).peaks == {"memory": least}, seed
    # the same plan, and the same order, are answers of every other problem
    for problem in within(graph, least):
        assert problem.judge(problem.read(plan)).objective == plan.runs[-1].end, (seed, problem)
        assert lt.solve(problem, threads=1).objective is not None, (seed, problem)
    for problem in [*within(graph, least - 1)][:2] if least else []:
        assert lt.solve(problem, threads=1).status == "infeasible", (seed, problem)
    again = lt.Recompute(graph, memory=least)
    assert again.judge(again.read(order)).objective is not None, seed
    assert lt.solve(again, threads=1).objective is not None, seed
    one = lt.Streams(graph, streams=1, memory=least)
    assert lt.solve(one, threads=1).objective == plan.runs[-1].end, seed
    line = lt.solve(lt.MemoryEdges(graph, bound=least), threads=1)
    assert line.objective is not None, (seed, line.detail)
    if graph.accounting is Accounting.COEXIST:
        stays = lt.MinIO(graph, memory=least)
        assert stays.judge(stays.read(lt.Traversal(order))).objective == 0, seed
    # of addresses the load is the peak
    offsets = lt.solve(lt.Offsets.from_plan(graph, lt.Plan.from_order(graph, order)), threads=1)
    assert offsets.objective is not None
    assert offsets.objective >= least, seed
    height = lt.solve(lt.Arena(graph), threads=1)
    assert height.objective == least_height(graph), seed
    assert height.plan is not None
    # the most of all orders
    most = max(order_peak(graph, some) for some in topological_orders(graph))
    worst = lt.solve(lt.ParallelMemory(graph, processors=1), threads=1)
    assert (worst.objective, worst.bound) == (most, most), seed


@pytest.mark.parametrize("seed", seeds(60))
def test_every_problem_fits_in_the_least_peak(seed: int) -> None:
    check(graph_of(seed), seed)
