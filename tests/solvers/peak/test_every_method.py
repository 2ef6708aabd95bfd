"""Every method of `peak` against the least peak of all executed sets, under both accountings.

What it finds is valid, what it proves is true, and an exact method ends with a proof or refuses the graph.
"""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.method import OPTIMUM
from lowtide.solvers.peak.methods import ROOM
from tests.decorated_graphs import decorated_graph, with_least_workspace
from tests.effort import share
from tests.oracles.least_peak import least_peak
from tests.strategies import random_graph

METHODS = [(m.name, m.proves is OPTIMUM, m.engine in ("cpsat", "highs")) for m in ROOM.methods]
"""Name, whether it proves, whether it is slow."""


def case(seed: str) -> tuple[lt.Graph, int]:
    """Return a graph, and its least peak."""
    rng = Random(seed)
    if rng.random() < 0.2:
        graph = random_graph(rng, max_ops=6)
    else:
        graph = decorated_graph(rng, modes=rng.random() < 0.15)
    return graph, least_peak(with_least_workspace(graph))


def check(method: str, exact: bool, seed: str) -> bool:
    """Check a method on a graph; return whether it took it."""
    graph, least = case(seed)
    options = {"runs": "1"} if method == "local-search" else None
    try:
        result = lt.solve(lt.Peak(graph), method, threads=1, options=options)
    except lt.UsageError:
        return False  # of another shape
    assert result.verification is not None, seed
    assert result.verification.valid, seed
    assert result.objective is not None, seed
    assert result.objective >= least, seed
    assert result.bound is None or result.bound <= least, seed
    assert (result.status == "optimal") == (result.bound == result.objective), seed
    if exact:
        assert (result.status, result.objective) == ("optimal", least), seed
    return True


@pytest.mark.parametrize(("method", "exact", "long"), METHODS)
def test_what_is_claimed_is_true(method: str, exact: bool, long: bool) -> None:
    seeds = range(5 if long else 100)
    assert sum(check(method, exact, f"every {seed}") for seed in seeds) > len(seeds) // 4


@pytest.mark.slow
@pytest.mark.parametrize(("method", "exact", "long"), METHODS)
def test_what_is_claimed_is_true_on_many(method: str, exact: bool, long: bool) -> None:
    seeds = range(share(60 if long else 1500))
    assert sum(check(method, exact, f"many {seed}") for seed in seeds) > len(seeds) // 4


@pytest.mark.parametrize("method", [m for m, exact, _ in METHODS if exact and m != "minmem"])
def test_what_is_there_before_the_first_op_counts_under_replace(method: str) -> None:
    graph = lt.Graph(
        name="initial",
        tensors=(lt.Tensor(name="x", nbytes=5, initial=True),),
        ops=(lt.Op(name="a"), lt.Op(name="b", reads=(0,))),
        accounting=lt.Accounting.REPLACE,
    )
    result = lt.solve(lt.Peak(graph), method, threads=1)
    assert (result.status, result.objective) == ("optimal", 5)
