"""Every bound and every claim of `placement` against exhaustive search in bytes, both accountings.

Small machines of all kinds: two and three tiers, channels between outer tiers, joint caps, latencies, inputs
anywhere or on one tier, what is initial and final, dead, unaccessed, of no bytes; single runs and periods.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.methods import ROOM
from tests.effort import seeds
from tests.oracles import feasible_placement
from tests.solvers.placement.bounds.claim_cases import BOTH, MOST, bounds, in_bytes, never_faster, small

METHODS = tuple(method.name for method in ROOM.methods)
OPTIONS = {"local-search": {"runs": "60"}}


@BOTH
@pytest.mark.parametrize("seed", seeds(160, least=40))
def test_no_bound_is_above_what_exhaustive_search_finds(seed: int, accounting: Accounting) -> None:
    problem = small(seed, accounting)
    if problem.impossible():
        with suppress(feasible_placement.TooLarge):
            assert not feasible_placement.is_feasible(in_bytes(problem), 5 * MOST)
        return
    never_faster(problem, max(bounds(problem)))


@BOTH
@pytest.mark.parametrize("seed", seeds(80, least=20))
def test_no_claim_of_a_method_cut_by_the_clock_is_false(seed: int, accounting: Accounting) -> None:
    """Whatever a method had time for, what it claims is true."""
    problem, rng = small(seed, accounting), Random(seed)
    for method in rng.sample(METHODS, 3):
        limit = rng.choice((0.0001, 0.001, 0.01, 0.05))
        try:
            result = lt.solve(problem, method, threads=1, time_limit=limit, options=OPTIONS.get(method))
        except lt.UsageError:
            continue
        assert result.status is not lt.Status.FAILED, (method, result.detail)
        if result.status is lt.Status.INFEASIBLE:
            with suppress(feasible_placement.TooLarge):
                assert not feasible_placement.is_feasible(in_bytes(problem), 5 * MOST), method
        elif result.bound is not None:
            never_faster(problem, result.bound)
