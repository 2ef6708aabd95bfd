"""Search by descents against brute force, against itself in the other direction, and piece by piece."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import networkx as nx
import pytest
from hypothesis import given

import lowtide as lt
from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import check_order
from lowtide.models.graph import Graph
from lowtide.solvers.peak.search.beam import beam_pass
from lowtide.solvers.peak.search.descents import DescentSearch
from lowtide.solvers.peak.search.executed_sets import ExecutedSets, mask_of, members
from lowtide.solvers.peak.search.state_space import state_space
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, order_peak, start_bytes
from tests.strategies import graphs, random_graph

EXAMPLES = many(100)
WITHOUT_END = 10**9


def optimum_by_descents(graph: Graph, *, whole: bool, start: int = 0) -> tuple[int, tuple[int, ...]]:
    """Return the first limit that succeeds, each next one being the bound that the last one proved."""
    search, limit = DescentSearch(graph), start
    while True:
        found = search.decide(limit, whole=whole, most=WITHOUT_END)
        assert found is not None
        if not isinstance(found, int):
            return limit, found
        assert found > limit
        limit = found


@EXAMPLES
@given(graphs(max_ops=7, max_tensors=10, max_nbytes=9))
@pytest.mark.parametrize("whole", [False, True])
def test_first_limit_that_succeeds_is_the_brute_force_optimum(whole: bool, graph: Graph) -> None:
    limit, order = optimum_by_descents(graph, whole=whole, start=start_bytes(graph))
    check_order(graph, order)
    assert brute_force_peak(graph)[0] == limit == order_peak(graph, order)


@EXAMPLES
@given(graphs(max_ops=7, max_tensors=10, max_nbytes=9))
def test_what_is_remembered_serves_every_limit_and_direction(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    search = DescentSearch(graph)
    start = start_bytes(graph)  # no limit is below it
    for limit in (optimum + 1, max(optimum - 2, start), optimum, max(optimum - 1, start), optimum + 4):
        for whole in (True, False):
            found = search.decide(limit, whole=whole, most=WITHOUT_END)
            if isinstance(found, int):
                assert limit < found <= optimum
            else:
                assert found is not None
                check_order(graph, found)
                assert order_peak(graph, found) <= limit
                assert limit >= optimum


@pytest.mark.parametrize(
    "spec",
    [
        "gen:intree?n=60&seed=1",
        "gen:outtree?n=30&seed=2",
        "gen:outtree?n=30&seed=3&data=edge&keep=1",
        "gen:sp?n=60&seed=4&data=edge",
        "gen:sp?n=50&seed=5",
        "gen:sp?n=50&seed=5&accounting=replace",
        "gen:randwire?n=24&seed=6",
        "gen:randwire?n=16&seed=7&train=1",
        "gen:layered?layers=6&width=4&seed=8",
        "gen:nasnet?cells=3&cell=random&seed=9",
    ],
)
def test_agrees_with_exhaustive_passes(spec: str) -> None:
    graph = lt.load(spec)
    limit, order = optimum_by_descents(graph, whole=False)
    assert optimum_by_descents(graph, whole=True, start=limit - 1)[0] == limit
    assert sequential_memory(graph).peak(order) == limit
    passes = [
        beam_pass(state_space(graph, backward=b), limit - 1, 50_000, exhaustive=True) for b in (False, True)
    ]
    assert limit in {found.bound for found in passes}
    assert all(found.order is None for found in passes)


def test_a_thousand_op_tree_takes_few_steps() -> None:
    graph = lt.load("gen:intree?n=1000&seed=0")
    search, limit = DescentSearch(graph), 0
    while isinstance(found := search.decide(limit, whole=False, most=200_000), int):
        limit = found
    assert found is not None
    assert sequential_memory(graph).peak(found) == limit == 81


def test_gives_up_without_losing_what_it_learned() -> None:
    graph = lt.load("gen:randwire?n=32&seed=0")
    optimum, _ = optimum_by_descents(graph, whole=False)
    search = DescentSearch(graph)
    assert search.decide(optimum - 1, whole=False, most=1) is None
    assert search.decide(optimum - 1, whole=False, most=10**6, expired=lambda: True) is None
    assert search.decide(optimum - 1, whole=False, most=10**6, nbytes=1) is None
    assert search.decide(optimum - 1, whole=False, most=10**6) == optimum
    before = search.effort
    assert search.decide(optimum - 1, whole=False, most=10**6) == optimum
    assert search.effort == before


def test_components_are_those_of_edges_and_groups() -> None:
    for seed in range(60):
        rng = Random(seed)
        graph = random_graph(rng, min_ops=8, max_ops=14, max_tensors=14, max_nbytes=5)
        sets = ExecutedSets(graph)
        order = list(range(sets.n))
        low, high = sorted(rng.sample(range(sets.n + 1), 2))
        low_mask, high_mask = mask_of(order[:low]), mask_of(order[:high])
        joined: nx.Graph[int] = nx.Graph()
        joined.add_nodes_from(order[low:high])
        for v in order[low:high]:
            joined.add_edges_from((u, v) for u in sets.space.before[v] if u >= low)
        for group in sets.groups:
            if not group & ~high_mask:
                inside = list(members(group & ~low_mask))
                joined.add_edges_from(pairwise(inside))
        expected = {mask_of(sorted(part)) for part in nx.connected_components(joined)}
        for back in (False, True):
            ready = sets.first(back, low_mask, high_mask)
            parts = sets.components(low_mask, high_mask & ~low_mask, ready)
            assert {part for part, _ in parts} == expected
            assert sorted(v for _, some in parts for v in some) == sorted(ready)
            assert all(part >> v & 1 for part, some in parts for v in some)


def test_least_part_of_a_path_is_the_largest_state_of_least_memory() -> None:
    checked = 0
    for seed in range(300):
        rng = Random(seed)
        graph = random_graph(rng, min_ops=6, max_ops=9, max_tensors=12, max_nbytes=6)
        sets, order = ExecutedSets(graph), list(range(len(graph.ops)))
        low, high = sorted(rng.sample(range(sets.n + 1), 2))
        path, start = order[low:high], mask_of(order[:low])
        ends = start, mask_of(order[:high])
        for back in (False, True):
            begin, end = reversed(ends) if back else ends
            if sets.memory(end) > sets.memory(begin):
                continue
            states = [s for s in range(1 << sets.n) if is_between(sets, s, *ends)]
            least = min(map(sets.memory, states))
            sizes = [(s ^ begin).bit_count() for s in states if sets.memory(s) == least]
            chosen = sets._largest_minimiser(back, begin, path[::-1] if back else path)
            assert sets.memory(begin ^ mask_of(sorted(chosen))) == least
            assert len(chosen) == max(sizes)
            checked += 1
    assert checked > 100


def is_between(sets: ExecutedSets, state: int, low: int, high: int) -> bool:
    """Whether a set of ops is a downset between two others."""
    return not low & ~state and not state & ~high and all(not sets.before[v] & ~state for v in members(state))
