"""Bounds against definitions: enumeration of downsets, and the optimum over every order."""

from __future__ import annotations

from random import Random
from typing import Any

import networkx as nx
import pytest
from hypothesis import given

from lowtide.instances import load
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import precedence
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.solvers.peak.bounds import least_memory
from lowtide.solvers.peak.bounds.cut_bound import cut_bound, working_set_bound
from lowtide.solvers.peak.orders.greedy import greedy_orders
from tests.effort import many, seeds
from tests.oracles.brute_force import brute_force_peak, must_precede
from tests.solvers.peak.downsets import downsets, live_bytes
from tests.strategies import graphs, random_graph

CHECKED = many(100)


def ordered(graph: Graph) -> set[tuple[int, int]]:
    """Return the transitive closure of the precedence."""
    pairs = must_precede(graph)
    for k in range(len(graph.ops)):
        pairs |= {(i, j) for i, a in pairs if a == k for b, j in pairs if b == k}
    return pairs


def constant_of(graph: Graph, w: int) -> int:
    """Return what w adds to the memory before it (coexist) or after it (replace) while it runs."""
    memory = sequential_memory(graph)
    extra = memory.during_extra if graph.accounting is Accounting.COEXIST else memory.after_extra
    assert extra is not None
    return extra[w]


def op_cost(graph: Graph, w: int, state: frozenset[int]) -> int:
    """Return the memory while w runs, with `state` executed but for w."""
    before = state - {w}
    own = before if graph.accounting is Accounting.COEXIST else before | {w}
    return live_bytes(graph, own) + constant_of(graph, w)


def feasible_states(graph: Graph, w: int) -> list[frozenset[int]]:
    """Return the downsets over which the cut of w is the minimum."""
    pairs = ordered(graph)
    ancestors = {i for i, j in pairs if j == w}
    descendants = {j for i, j in pairs if i == w}
    if graph.accounting is Accounting.COEXIST:
        return [s for s in downsets(graph) if ancestors <= s and w not in s]
    return [s for s in downsets(graph) if w in s and not s & descendants]


def flow_proof(graph: Graph, w: int) -> int:
    """Return the least memory while w runs from a flow on the plain network: one node per op and per
    mortal tensor, fixed ops tied to source and sink, nothing contracted.
    """
    pairs = ordered(graph)
    inside = {i for i, j in pairs if j == w}
    outside = {j for i, j in pairs if i == w}
    (outside if graph.accounting is Accounting.COEXIST else inside).add(w)
    network: nx.DiGraph[Any] = nx.DiGraph()
    constant = 0
    network.add_nodes_from(("source", "sink"))
    for i, j in must_precede(graph):
        network.add_edge(j, i)  # without capacity: unlimited
    for i in inside:
        network.add_edge("source", i)
    for i in outside:
        network.add_edge(i, "sink")
    for t, tensor in enumerate(graph.tensors):
        accessors = {i for i, op in enumerate(graph.ops) if t in op.reads or t in op.writes}
        if tensor.initial:
            constant += tensor.nbytes if accessors or tensor.final else 0
        elif accessors:
            first = min(i for i in accessors if t in graph.ops[i].writes)
            network.add_edge(first, f"born {t}")
            network.add_edge(f"born {t}", "sink", capacity=tensor.nbytes)
        if accessors and not tensor.final:
            constant -= tensor.nbytes
            network.add_edge("source", f"dead {t}", capacity=tensor.nbytes)
            for i in accessors:
                network.add_edge(f"dead {t}", i)
    value, _ = nx.maximum_flow(network, "source", "sink")
    return constant + int(value) + constant_of(graph, w)


@CHECKED
@given(graphs(max_ops=7))
def test_cut_bound_is_its_definition_and_below_the_optimum(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    cuts = [
        min(op_cost(graph, w, state) for state in feasible_states(graph, w)) for w in range(len(graph.ops))
    ]
    found = cut_bound(graph, list(greedy_orders(graph)))
    assert found.complete
    assert working_set_bound(graph) <= found.value <= optimum
    assert found.value == max(working_set_bound(graph), *cuts)
    assert found.value == cut_bound(graph).value
    if found.op is not None:
        assert found.downset is not None
        assert frozenset(found.downset) in feasible_states(graph, found.op)
        assert found.value == op_cost(graph, found.op, frozenset(found.downset)) == cuts[found.op]


@pytest.mark.parametrize("seed", seeds(12))
def test_bound_of_the_named_op_is_proved_by_an_independent_flow(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(
        rng, min_ops=25, max_ops=40, max_tensors=40, max_nbytes=30, single_writer=seed % 3 > 0
    )
    found = cut_bound(graph)
    cuts = [flow_proof(graph, w) for w in range(len(graph.ops))]
    assert found.value == max(working_set_bound(graph), *cuts)
    if found.op is not None:
        assert found.value == cuts[found.op]


def test_a_known_bound_saves_flows_and_is_kept() -> None:
    graph = random_graph(Random(5), min_ops=30, max_ops=30, max_tensors=30, max_nbytes=30, single_writer=True)
    free, held = cut_bound(graph), cut_bound(graph, at_least=10**6)
    assert (held.value, held.op, held.flows, held.complete) == (10**6, None, 0, True)
    assert free.flows <= len(graph.ops)


def test_time_that_is_up_leaves_the_working_set() -> None:
    graph = random_graph(Random(0), min_ops=30, max_ops=30, max_tensors=30, max_nbytes=30, single_writer=True)
    found = cut_bound(graph, expired=lambda: True)
    assert found.value == working_set_bound(graph)
    assert found.flows == 0


def test_bytes_beyond_the_flow_still_get_the_working_set() -> None:
    graph = Graph(
        name="huge",
        tensors=(Tensor(name="x", nbytes=2**62 - 2), Tensor(name="y", nbytes=1)),
        ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    )
    found = cut_bound(graph)
    assert (found.value, found.complete) == (2**62 - 1, False)


def test_cut_of_a_join_counts_what_must_wait() -> None:
    """Op e needs both halves; each half leaves 4 bytes for g, so 8 wait while e runs: 8 + 1 + 1 + 3."""
    sizes = (4, 4, 1, 1, 3)
    graph = Graph(
        name="join",
        tensors=tuple(Tensor(name=f"t{i}", nbytes=n) for i, n in enumerate(sizes)),
        ops=(
            Op(name="a", writes=(0, 2)),
            Op(name="b", writes=(1, 3)),
            Op(name="e", reads=(2, 3), writes=(4,)),
            Op(name="g", reads=(0, 1, 4)),
        ),
    )
    assert working_set_bound(graph) == 11
    found = cut_bound(graph)
    assert (found.value, found.op, found.downset) == (13, 2, (0, 1))


def test_better_bounds_are_told_as_they_are_proved() -> None:
    told: list[int] = []
    graph = load("gen:sp?n=200&seed=2")
    found = cut_bound(graph, improved=told.append)
    assert told == sorted(set(told))
    assert told[-1] == found.value > working_set_bound(graph)


@pytest.mark.parametrize("patience", [1, 2, 5, 20, 60])
def test_time_that_is_up_within_a_flow_leaves_a_bound(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_memory, "PLAIN_BUDGET", 100)
    graph = load("gen:layered?layers=12&width=6&train=1")
    looks = iter(range(10**6))
    found = cut_bound(graph, expired=lambda: next(looks) >= patience)
    whole = cut_bound(graph)
    assert working_set_bound(graph) <= found.value <= whole.value
    assert whole.complete
    if found.value < whole.value:
        assert not found.complete
    if found.downset is not None:
        assert found.op is not None
        assert found.value == op_cost(graph, found.op, frozenset(found.downset))


def test_a_flow_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_memory, "PLAIN_BUDGET", 100)
    looks: list[bool] = []

    def look() -> bool:
        looks.append(False)
        return looks[-1]

    found = cut_bound(
        load("gen:layered?layers=12&width=6&train=1"),
        expired=look,
        compiled=False,
    )
    assert found.complete
    assert len(looks) > 3 * found.flows


@pytest.mark.slow
def test_no_masks_are_made_where_they_would_be_large() -> None:
    """Masks of ancestors take n^2 / 8 bytes: 55 MB here."""
    graph = load("gen:layered?layers=2100&width=10")
    found = cut_bound(graph)
    assert found.complete
    assert found.value > working_set_bound(graph)
    assert not {"ancestors", "descendants"} & precedence(graph).__dict__.keys()
