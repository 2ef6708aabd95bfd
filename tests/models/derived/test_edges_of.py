"""Edges from pairs, graphs and plans."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.edges_of import edges_of
from lowtide.models.problems.memory_edges import apply_edges
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_parallel import critical_path, most_memory
from tests.strategies import random_graph

GRAPH = lt.Graph(name="three", tensors=(), ops=(lt.Op(name="a"), lt.Op(name="b"), lt.Op(name="c")))


def test_a_graph_with_edges_gives_them_back_in_any_order() -> None:
    assert edges_of(GRAPH, apply_edges(GRAPH, [(2, 0), (2, 1)])) == ((2, 0), (2, 1))
    assert edges_of(GRAPH, GRAPH) == ()


def test_a_sequential_plan_is_a_chain() -> None:
    assert edges_of(GRAPH, lt.Plan.from_order(GRAPH, (2, 0, 1))) == ((0, 1), (2, 0))
    for seed in range(30):
        graph = random_graph(Random(seed), max_ops=6)
        plan = lt.Plan.from_order(graph, range(len(graph.ops)))
        chain = set(edges_of(graph, plan))
        assert chain == {(i, i + 1) for i in range(len(graph.ops) - 1)}
        bound = most_memory(graph, chain)
        result = lt.solve(lt.MemoryEdges(graph, bound), "max-size", hint=plan, threads=1)
        assert result.trace[0].incumbent == critical_path(graph, must_precede(graph) | chain) or not graph.ops


def test_a_parallel_plan_orders_what_it_runs_one_after_another() -> None:
    runs = (lt.Run(0, 0, 0, 4, "p0"), lt.Run(1, 0, 0, 2, "p1"), lt.Run(2, 0, 2, 3, "p1"))
    plan = replace(lt.Plan.from_order(GRAPH, (0, 1, 2)), runs=runs)
    assert edges_of(GRAPH, plan) == ((1, 2),)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (7, "found int, expected Edges, pairs"),
        ("ab", "found str"),
        ([(0, 1, 2)], "expected a pair"),
        ([(0, "x")], "expected a pair"),
        ([(0, 1.0)], "expected a pair"),
        (replace(GRAPH, ops=GRAPH.ops[:2]), "found 2 ops, expected the 3"),
        (replace(GRAPH, ops=(*GRAPH.ops[:2], lt.Op(name="d"))), "found no such op"),
        (replace(GRAPH, tensors=(lt.Tensor(name="x", nbytes=1),)), "other tensors"),
        (lt.Plan.from_order(replace(GRAPH, ops=GRAPH.ops[:2]), (0, 1)), "found 2 runs"),
    ],
)
def test_what_stands_for_no_edges_is_refused(item: object, said: str) -> None:
    with pytest.raises(lt.InstanceError, match=said):
        edges_of(GRAPH, item)


def test_pairs_are_hints_and_verified() -> None:
    graph = replace(GRAPH, ops=tuple(replace(op, workspace=4) for op in GRAPH.ops))
    result = lt.solve(lt.MemoryEdges(graph, 8), "min-levels", hint=[(0, 1), (1, 2)], threads=1)
    assert result.trace[0].incumbent == 3
    assert result.objective == 2
    for wrong, said in (([], "the flow proves 12"), ([(0, 1), (1, 0)], "cycle"), ([(0, 3)], "unknown op")):
        with pytest.raises(lt.InstanceError, match=f"hint: .*{said}"):
            lt.solve(lt.MemoryEdges(graph, 8), "min-levels", hint=wrong, threads=1)
