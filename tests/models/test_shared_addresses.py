"""Addresses under a partial order: against every state of every execution."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffers
from lowtide.models.lowering.shared_addresses import buffers_of_order
from lowtide.models.problems.memory_edges import apply_edges
from lowtide.models.verifier.verdict import Verification
from tests.effort import seeds
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_parallel import memory_at, most_memory, states
from tests.strategies import random_graph, readers_graph

Edges = set[tuple[int, int]]


def question(seed: int) -> tuple[lt.Graph, Edges]:
    """Return a graph of any structure, and edges that close no cycle."""
    rng = Random(seed)
    graph = readers_graph(rng, max_ops=6) if seed % 3 == 0 else random_graph(rng, max_ops=6, max_tensors=6)
    order = list(range(len(graph.ops)))
    pairs = [(i, j) for i, j in combinations(order, 2) if rng.random() < rng.choice((0.0, 0.1, 0.3))]
    return graph, set(pairs)


def names(graph: lt.Graph) -> list[str]:
    tensors = [f"{t}:{tensor.name}" for t, tensor in enumerate(graph.tensors)]
    return tensors + [f"{i}:{op.name}/workspace" for i, op in enumerate(graph.ops)]


def live_sets(graph: lt.Graph, edges: Edges) -> list[tuple[set[str], frozenset[int]]]:
    """Return what is there in each state, read off its memory if every buffer has its own power of 2."""
    count = len(graph.tensors)
    weighed = replace(
        graph,
        tensors=tuple(replace(x, nbytes=bool(x.nbytes) << t) for t, x in enumerate(graph.tensors)),
        ops=tuple(
            replace(op, modes=(), workspace=bool(op.workspace) << count + i) for i, op in enumerate(graph.ops)
        ),
    )
    called = names(graph)
    found = []
    for state in states(len(graph.ops), must_precede(graph) | edges):
        held = memory_at(weighed, state)
        found.append(({name for k, name in enumerate(called) if held >> k & 1}, state[1]))
    return found


def overlapping(buffers: Buffers) -> set[frozenset[str]]:
    spans = {b.id: [(low, high) for low, high, _, _ in b.rectangles] for b in buffers.buffers}
    return {
        frozenset((a, b))
        for a, b in combinations(spans, 2)
        if any(x < w and v < y for x, y in spans[a] for v, w in spans[b])
    }


@pytest.mark.parametrize("seed", seeds(300))
def test_buffers_overlap_if_and_only_if_they_meet_in_some_execution(seed: int) -> None:
    graph, edges = question(seed)
    buffers = buffers_of_order(graph, sorted(edges))
    seen = live_sets(graph, edges)
    assert {b.id for b in buffers.buffers} == set().union(*(held for held, _ in seen))
    assert overlapping(buffers) == {frozenset(p) for held, _ in seen for p in combinations(held, 2)}
    sizes = [*(x.nbytes for x in graph.tensors), *(x.workspace for x in graph.ops)]
    by_name = dict(zip(names(graph), sizes, strict=True))
    assert all(b.size == by_name[b.id] for b in buffers.buffers)
    for a, b in buffers.inplace:
        read, write = (int(name.split(":")[0]) for name in (a, b))
        (op,) = (i for i, op in enumerate(graph.ops) if (read, write) in op.inplace and write in op.writes)
        assert all(op in running for held, running in seen if {a, b} <= held)


@pytest.mark.parametrize("seed", seeds(60))
def test_addresses_hold_in_every_execution(seed: int) -> None:
    graph, edges = question(seed)
    buffers = replace(buffers_of_order(graph, sorted(edges)), inplace=())
    result = lt.solve(lt.Offsets(buffers), threads=1)
    assert result.objective is not None
    assert result.objective >= most_memory(graph, edges)
    places = result.allocation
    assert places is not None
    size = {b.id: b.size for b in buffers.buffers}
    for held, _ in live_sets(graph, edges):
        spans = sorted((places[x], places[x] + size[x]) for x in held)
        assert all(high <= low for (_, high), (low, _) in pairwise(spans))


@pytest.mark.parametrize("seed", seeds(60))
def test_the_verifier_accepts_the_addresses_for_a_plan(seed: int) -> None:
    graph, _ = question(seed)
    graph = replace(graph, ops=tuple(replace(op, modes=()) for op in graph.ops))
    rng = Random(seed)
    problem = lt.Streams(graph, contention=rng.choice(("none", "proportional")))
    made = lt.solve(problem, rng.choice(("lios", "matching", "sequential")), threads=1)
    order = problem.read(made.plan)
    assert made.plan is not None
    assert isinstance(order, lt.StreamOrder)
    places = lt.solve(lt.Offsets.from_order(graph, order.edges), threads=1).allocation
    assert places is not None
    timed = lt.Offsets.from_plan(graph, made.plan).buffers
    found = {b.id: places[b.id.rsplit("@", 2)[0]] for b in timed.buffers}
    lt.verify(graph, replace(made.plan, allocation=found)).raise_if_invalid()


PUBLISHED = [
    ("squeezenet", None, 3, (9_292_800, 10_841_600, 10_841_600, 10_841_600)),
    ("inception_v3", None, 6, (8_297_856, 8_297_856, 8_297_856, 8_297_856)),
    ("randwire_large", None, 8, (25_113_088, 26_078_976, 28_976_640, 30_908_416)),
    ("randwire_large", 4, 4, (25_113_088, 25_113_088, 25_113_088, 30_908_416)),
    ("nasnet_large", None, 15, (30_227_904, 30_227_904, 41_489_280, 61_470_792)),
    ("nasnet_large", 4, 4, (26_078_976, 29_042_496, 29_635_200, 50_972_544)),
]
"""The table of the page of streams."""


@pytest.mark.parametrize(("name", "most", "streams", "known"), PUBLISHED)
def test_addresses_of_published_networks(
    name: str, most: int | None, streams: int, known: tuple[int, ...]
) -> None:
    graph = lt.load(f"catalogue:ios/{name}")
    problem = lt.Streams(graph, streams=most, contention="none" if most is None else "proportional")
    result = lt.solve(problem, "matching" if most is None else "lios", threads=1)
    order = problem.read(result.plan)
    assert isinstance(order, lt.StreamOrder)
    assert isinstance(result.verification, Verification)
    buffers = buffers_of_order(graph, order.edges)
    spans = replace(buffers, buffers=tuple(replace(b, gaps=()) for b in buffers.buffers))
    questions: tuple[Any, ...] = (
        lt.ParallelMemory(apply_edges(graph, order.edges)),
        lt.Offsets.from_order(graph, order.edges),
        lt.Offsets(spans),
    )
    proved = [lt.solve(question, time_limit=None, threads=1) for question in questions]
    assert all(result.status == "optimal" for result in proved)
    found = (result.verification.peaks["memory"], *(result.objective for result in proved))
    assert (len(order.streams), found) == (streams, known)


def test_waits_let_buffers_share_addresses() -> None:
    ops = (lt.Op(name="a", workspace=3), lt.Op(name="b", workspace=4))
    graph = lt.Graph(name="two", tensors=(), ops=ops)
    assert lt.solve(lt.Offsets.from_order(graph), threads=1).objective == 7
    assert lt.solve(lt.Offsets.from_order(graph, [(1, 0)]), threads=1).objective == 4


def test_what_dies_with_an_op_may_be_overwritten() -> None:
    tensors = tuple(lt.Tensor(name=x, nbytes=4) for x in "xyz")
    make, other = lt.Op(name="make", writes=(0,)), lt.Op(name="other", reads=(0,), writes=(2,))
    graph = lt.Graph(
        name="relu",
        tensors=tensors,
        ops=(make, other, lt.Op(name="relu", reads=(0,), writes=(1,), inplace=((0, 1),))),
    )
    assert buffers_of_order(graph).inplace == ()
    held = buffers_of_order(graph, [(1, 2)])
    assert held.inplace == (("0:x", "1:y"),)
    assert lt.solve(lt.Offsets(held), threads=1).objective == 8


def test_edges_that_close_a_cycle() -> None:
    with pytest.raises(lt.InstanceError, match="cycle"):
        buffers_of_order(lt.load("catalogue:diamond"), [(3, 0)])
