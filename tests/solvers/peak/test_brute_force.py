"""`auto` and the search over executed sets have the optimum of enumeration on thousands of random graphs.

The graphs have every feature: several writers, updates in place, kept, dead and initial tensors, workspace,
control edges, both accountings.
"""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.models.graph import Graph
from tests.effort import seeds
from tests.oracles.brute_force import brute_force_peak
from tests.oracles.least_peak import least_peak
from tests.strategies import random_graph


def proves(graph: Graph, method: str, optimum: int) -> bool:
    """Whether a method ends with the optimum as objective and bound, and a valid plan."""
    result = lt.solve(lt.Peak(graph), method, threads=1)
    valid = result.verification is not None and result.verification.valid
    return valid and (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, optimum, optimum)


def test_sets_and_orders_have_the_same_least_peak() -> None:
    """The two oracles share the precedence only."""
    for seed in range(400):
        graph = random_graph(Random(f"oracles {seed}"), min_ops=1, max_ops=6)
        assert least_peak(graph) == brute_force_peak(graph)[0]


@pytest.mark.parametrize("method", ["auto", "downsets"])
def test_optimum_of_150_graphs(method: str) -> None:
    for seed in seeds(150, least=60):
        graph = random_graph(Random(f"some {seed}"), min_ops=2, max_ops=10, max_tensors=10, max_nbytes=9)
        assert proves(graph, method, least_peak(graph)), seed


@pytest.mark.slow(reason="3,000 graphs, their executed sets enumerated in plain Python: minutes")
@pytest.mark.parametrize("block", seeds(30))
def test_optimum_of_3000_graphs(block: int) -> None:
    for seed in range(100):
        graph = random_graph(
            Random(f"many {block} {seed}"), min_ops=2, max_ops=12, max_tensors=12, max_nbytes=9
        )
        assert proves(graph, "auto", least_peak(graph)), f"many {block} {seed}"
