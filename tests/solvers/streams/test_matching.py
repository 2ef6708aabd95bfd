"""Streams of most concurrency: against enumeration, and the figures of published networks."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.precedence import descendants_with
from lowtide.models.derived.streams import cover_edges, synchronisations
from lowtide.solvers.streams.lists import opara
from lowtide.solvers.streams.matching import best_chains, frontier, nimble
from tests.effort import seeds
from tests.oracles.brute_streams import closure, covers, fewest_synchronisations
from tests.strategies import random_graph

EDGES = [
    (i, j)
    for i, some in enumerate(
        ((5, 6, 8, 9), (3, 4, 7, 8, 9), (3, 7, 8, 9), (4, 5), (7, 8, 9), (7, 9), (7, 8, 9), (9,))
    )
    for j in some
]
"""What must precede what."""
TEN = lt.Graph(
    name="ten",
    tensors=(),
    ops=tuple(lt.Op(name=str(i), after=tuple(a for a, b in EDGES if b == i)) for i in range(10)),
)
"""Of a random search: Nimble's second matching uses a stream more than are needed."""


def test_nimble_may_use_more_streams_than_are_needed() -> None:
    assert (len(nimble(TEN)), len(synchronisations(TEN, nimble(TEN)))) == (4, 6)
    chains = best_chains(TEN)
    assert chains is not None
    assert (len(chains), len(synchronisations(TEN, chains))) == (3, 6)
    assert frontier(TEN) == list(zip(range(3, 11), (6, 6, 7, 8, 9, 10, 11, 12), strict=True))


@pytest.mark.parametrize(
    ("name", "edges", "streams", "syncs", "opara_streams"),
    [
        ("inception_v3", 153, 6, 70, 36),
        ("squeezenet", 61, 3, 24, 13),
        ("nasnet_large", 531, 15, 316, 159),
        ("randwire_large", 198, 8, 106, 31),
    ],
)
def test_published_networks(name: str, edges: int, streams: int, syncs: int, opara_streams: int) -> None:
    graph = lt.load(f"catalogue:ios/{name}")
    assert len(cover_edges(graph)) == edges
    chains = best_chains(graph)
    assert chains is not None
    for made in (nimble(graph), chains):
        assert (len(made), len(synchronisations(graph, made))) == (streams, syncs)
    assert len(opara(graph)) == opara_streams


@pytest.mark.parametrize("seed", seeds(150))
def test_synchronisations_are_fewest_on_every_number_of_streams(seed: int) -> None:
    graph = random_graph(Random(seed), max_ops=6)
    assert set(cover_edges(graph)) == covers(graph)
    after = descendants_with(graph)
    assert {(i, j) for i, some in enumerate(after) for j in range(20) if some >> j & 1} == closure(graph)
    known = fewest_synchronisations(graph)
    assert dict(frontier(graph)) == known
    made = nimble(graph)
    assert len(synchronisations(graph, made)) == min(known.values())
    chains = best_chains(graph)
    assert chains is not None
    best = min((syncs, streams) for streams, syncs in known.items())
    assert (len(synchronisations(graph, chains)), len(chains)) == best


def test_fewest_synchronisations_on_few_streams() -> None:
    chains = best_chains(TEN, 5)
    assert chains is not None
    assert len(synchronisations(TEN, chains)) == 6
    assert best_chains(TEN, 2) is None
