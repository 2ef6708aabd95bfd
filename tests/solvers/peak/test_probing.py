"""Probing against every order: no bound above the optimum, no pair that a good order breaks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given

from lowtide.instances import load
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.solvers.peak.bounds.cut_bound import cut_bound
from lowtide.solvers.peak.bounds.probing import ProbeExpired, force, probing_bound, with_pairs
from lowtide.solvers.peak.orders.greedy import greedy_order
from lowtide.solvers.peak.search.state_space import StateSpace, state_space
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, must_precede
from tests.strategies import graphs, random_graph


def orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """Yield every valid order."""
    before = [{i for i, j in must_precede(graph) if j == v} for v in range(len(graph.ops))]

    def extend(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(before):
            yield done
        for v in range(len(before)):
            if v not in done and before[v] <= set(done):
                yield from extend((*done, v))

    return extend(())


def obeys(space: StateSpace, order: tuple[int, ...]) -> bool:
    place = {v: k for k, v in enumerate(order)}
    return all(place[u] < place[v] for v in range(space.n) for u in space.before[v])


@many(100)
@given(graphs(max_ops=6))
def test_no_good_order_breaks_a_forced_pair_and_every_refuted_limit_has_no_order(graph: Graph) -> None:
    memory, space = sequential_memory(graph), state_space(graph)
    peaks = {order: memory.peak(order) for order in orders(graph)}
    optimum = min(peaks.values())
    for limit in sorted({optimum - 1, *(p for p in peaks.values())})[:4]:
        forced = force(space, limit)
        if forced.bound is not None:
            assert limit < forced.bound <= optimum
        else:
            assert all(obeys(forced.space, order) for order, peak in peaks.items() if peak <= limit)
            assert all(obeys(space, order) for order in peaks if obeys(forced.space, order))


@many(100)
@given(graphs(max_ops=7))
def test_bound_is_between_the_cut_and_the_optimum(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    cut = cut_bound(graph).value
    for below in (optimum, optimum + 5):
        told: list[int] = []
        found = probing_bound(graph, at_least=cut, below=below, improved=told.append)
        assert cut <= found.bound <= optimum
        assert found.complete
        assert told == sorted(set(told))
        assert (told or [cut])[-1] == found.bound


@pytest.mark.slow  # 200 graphs with all features against every order
@pytest.mark.parametrize("seed", range(4))
def test_bound_is_below_the_optimum_of_larger_graphs(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        graph = random_graph(
            rng, min_ops=6, max_ops=8, max_tensors=10, max_nbytes=9, single_writer=rng.random() < 0.5
        )
        optimum, _ = brute_force_peak(graph)
        incumbent = sequential_memory(graph).peak(greedy_order(graph))
        assert probing_bound(graph, at_least=0, below=incumbent).bound <= optimum


@pytest.mark.parametrize(
    "spec",
    ["gen:layered?layers=6&width=4&seed=1", "gen:randwire?n=24&seed=3", "gen:intree?n=40&seed=2"],
)
def test_plain_and_compiled_agree(spec: str) -> None:
    graph = load(spec)
    incumbent = sequential_memory(graph).peak(greedy_order(graph))
    plain, compiled = (
        probing_bound(graph, at_least=0, below=incumbent, compiled=compiled) for compiled in (False, True)
    )
    assert plain == compiled
    assert plain.bound >= cut_bound(graph).value


def test_randomly_wired_60_is_closed_by_probing() -> None:
    """The cut is 235, the optimum 250 (exhaustive passes over executed sets prove it too)."""
    graph = load("gen:randwire?n=60")
    assert cut_bound(graph).value == 235
    found = probing_bound(graph, at_least=235, below=250)
    assert (found.bound, found.forced, found.complete) == (250, None, True)


def test_time_that_is_up_leaves_the_known_bound() -> None:
    graph = load("gen:randwire?n=60")
    found = probing_bound(graph, at_least=235, below=250, expired=lambda: True)
    assert (found.bound, found.forced, found.complete) == (235, None, False)
    with pytest.raises(ProbeExpired):
        force(state_space(graph), 249, expired=lambda: True)


def star() -> StateSpace:
    """One op before three others."""
    ops = (Op(name="a", writes=(0,)), *(Op(name=name, reads=(0,)) for name in "bcd"))
    return state_space(Graph(name="star", tensors=(Tensor(name="x", nbytes=1),), ops=ops))


def test_pairs_that_form_a_cycle_are_none() -> None:
    assert with_pairs(star(), [(1, 2), (2, 1)]) is None


def test_pairs_are_reduced() -> None:
    space = star()
    assert space.before == ((), (0,), (0,), (0,))
    ordered = with_pairs(space, [(2, 1), (1, 3), (2, 3)])
    assert ordered is not None
    assert ordered.before == ((), (2,), (0,), (1,))
    assert ordered.after == ((2,), (3,), (1,), ())
