"""Bounds of streams: below the fastest of all orders of streams, above the others where they should be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.streams.bounds import critical_path, work_before
from tests.effort import seeds
from tests.oracles.brute_makespan import fastest_schedule
from tests.oracles.brute_streams import partitions
from tests.solvers.streams.stages import with_shares
from tests.strategies import random_graph


def orders(problem: lt.Streams) -> Iterator[lt.StreamOrder]:
    """Yield every partition of the ops into streams in every order that agrees with the precedence."""
    for parts in partitions(range(len(problem.graph.ops))):
        for rows in product(*(permutations(part) for part in parts)):
            try:
                answer = problem.read(rows)
            except lt.InstanceError:  # too many streams, or a cycle
                continue
            assert isinstance(answer, lt.StreamOrder)
            yield answer


def question(seed: int) -> lt.Streams:
    rng = Random(seed)
    graph = with_shares(random_graph(rng, min_ops=3, max_ops=5, max_duration=9), rng)
    streams = rng.choice((None, None, 1, 2))
    return lt.Streams(graph, streams=streams, contention="proportional", parts=rng.choice((2, 3)))


@pytest.mark.slow
def test_work_before_ops_is_below_the_fastest_of_all_orders() -> None:
    attained = better = 0
    for seed in seeds(120, least=40):
        problem = question(seed)
        fastest = min(problem.evaluate(answer) for answer in orders(problem))
        bound = work_before(problem)
        assert bound <= fastest, seed
        attained += bound == fastest
        least = max(critical_path(problem), -(-problem.area // problem.device.parts))
        better += bound > least
    assert attained > 10
    assert better > 2


def test_on_few_streams_it_is_below_the_fastest_schedule() -> None:
    for seed in seeds(120, least=40):
        rng = Random(seed)
        graph = random_graph(rng, min_ops=3, max_ops=6, max_duration=9)
        problem = lt.Streams(graph, streams=rng.choice((1, 2)))
        fastest = fastest_schedule(graph, problem.streams or 1, None)
        assert fastest is not None
        assert work_before(problem) <= fastest, seed


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("squeezenet", 452_377),
        ("inception_v3", 2_310_759),
        ("randwire_large", 1_408_992),
        ("nasnet_large", 4_253_198),
    ],
)
def test_bounds_of_networks(name: str, bound: int) -> None:
    problem = lt.Streams(lt.load(f"catalogue:ios/{name}"), contention="proportional")
    assert work_before(problem) == bound
