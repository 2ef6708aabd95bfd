"""Certificates by prices on machines of all kinds, both accountings: no more than exhaustive search finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.prices import MemoryPrices, price_bound
from lowtide.formulations.placement.bounds.windows import Window
from lowtide.instances.formats.native_certificate import decode_certificate, encode_certificate
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.models.verifier.certificate import verify_certificate
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.certify import certify_placement, price_time, proof_of
from lowtide.solvers.placement.bounds.prices import price_rounds, sample_data, unsampled
from tests.effort import seeds
from tests.models.verifier.certificates import changed, ideal_of
from tests.oracles.brute_tiers import TooLarge, faster
from tests.oracles.random_placement import random_placement
from tests.problems.placement import behind, machine, random_graph, working_set
from tests.solvers.placement.bounds.price_cases import any_prices
from tests.solvers.placement.machines import bypass

BOTH = pytest.mark.parametrize("accounting", list(Accounting))


def prices_of(problem: Placement, seed: int) -> Iterator[tuple[MemoryPrices | tuple[Window, ...], int]]:
    """Yield prices, or windows, with the bound that the formulation has of them, where it serves."""
    if unsampled(problem):
        return
    data = sample_data(problem)
    if data.caps:
        for number in range(20):
            prices = any_prices(data, 1000 * seed + number)
            yield prices, price_bound(data, prices)
    for found, _, bound in price_rounds(problem, Context(problem=problem), lambda: False):
        yield found, bound


def never_faster(problem: Placement, bound: int) -> None:
    """Hold a bound against exhaustive search, as far as that gets."""
    if bound > ideal_of(problem):
        with suppress(TooLarge):
            assert faster(problem, bound, 4000) is None


@BOTH
@pytest.mark.parametrize("seed", seeds(80, least=20))
def test_prices_prove_what_the_formulation_says_and_no_more_than_there_is(
    seed: int, accounting: Accounting
) -> None:
    problem = random_placement(seed, ops=3, accounting=accounting)
    best = 0
    for prices, bound in prices_of(problem, seed):
        proven, _ = price_time(problem.graph, problem.setting(), proof_of(problem, prices))
        assert proven >= ideal_of(problem) + bound
        best = max(best, proven)
    never_faster(problem, best)


@BOTH
@pytest.mark.parametrize("seed", seeds(80, least=20))
def test_forged_certificates_are_refused_or_true(seed: int, accounting: Accounting) -> None:
    problem = random_placement(seed, ops=3, accounting=accounting)
    certificate = certify_placement(problem, 10**12)
    if certificate is None:
        return
    assert verify_certificate(problem.graph, certificate).valid
    text, rng, accepted = encode_certificate(certificate, "c.json").decode(), Random(seed), 0
    for _ in range(60):
        data = json.loads(text)
        data["proof"] = changed(rng, data["proof"])
        data["bound"] += rng.choice([0, 0, 1, 1000, -1000])
        with suppress(lt.InstanceError):
            other = decode_certificate(json.dumps(data).encode(), "c.json")
            if verify_certificate(problem.graph, other).valid:
                accepted = max(accepted, other.bound)
    never_faster(problem, max(accepted, certificate.bound))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("periodic", [True, False])
def test_a_drive_behind_the_host_has_certificates(periodic: bool, accounting: Accounting) -> None:
    raised = 0
    for seed in seeds(8, least=4):
        graph = replace(random_graph(seed), accounting=accounting)
        for bench in (behind(working_set(graph) + 2, 5), bypass(working_set(graph) + 2, 5)):
            problem = Placement(graph, bench, periodic=periodic, start={})
            result = lt.solve(problem, "lp-bound", threads=1, time_limit=None)
            assert result.bound is not None
            certificate = certify_placement(problem, result.bound, prices=result.evidence)
            assert certificate is not None
            assert certificate.bound <= result.bound  # windows through both tiers have no certificates
            assert verify_certificate(graph, certificate).valid
            assert not verify_certificate(graph, replace(certificate, bound=certificate.bound + 1)).valid
            raised += certificate.bound > ideal_of(problem)
    assert raised > 3


def test_a_group_of_both_directions_is_one_to_the_proof() -> None:
    graph = random_graph(3)
    bench = machine(working_set(graph) + 2, None, ssd=False)
    both = lt.ChannelGroup(name="bus", channels=(("gpu", "host"), ("host", "gpu")), bytes_per_s=3_000_000)
    problem = Placement(graph, replace(bench, groups=(both,)), periodic=True)
    result = lt.solve(problem, "lp-bound", threads=1, time_limit=None)
    assert result.bound is not None
    assert result.bound > ideal_of(problem)
    certificate = certify_placement(problem, result.bound, prices=result.evidence)
    assert certificate is not None
    assert certificate.bound == result.bound
