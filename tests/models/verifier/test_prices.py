"""Certificates by prices: confirmed where they hold, below every plan whatever they say, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.prices import price_bound
from lowtide.instances.formats.native_certificate import decode_certificate, encode_certificate
from lowtide.models.errors import InstanceError
from lowtide.models.problems.placement import Placement
from lowtide.models.setting import Setting
from lowtide.models.verifier.certificate import verify_certificate
from lowtide.models.verifier.proofs.prices import proven_time
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.certify import (
    certify_placement,
    price_time,
    prices_proof,
    proof_of,
)
from lowtide.solvers.placement.bounds.prices import price_rounds, sample_data
from tests.effort import seeds
from tests.models.verifier.certificates import changed, ideal_of, random_placement
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.oracles.price_certificates import GRAPH, LEAST, PROOF, SETTING, bad_prices, signed
from tests.problems.placement import behind, machine, tiny_placement
from tests.solvers.placement.bounds.price_cases import any_prices


def setting_of(problem: Placement) -> Setting:
    return Setting(machine=problem.machine, periodic=problem.periodic, start=problem.start)


def time_of_brute_force(problem: Placement) -> int | None:
    assert problem.start is not None
    place = {"gpu": DEVICE, "host": COPY}
    start = {
        t: place[problem.start[tensor.kind][0]]
        for t, tensor in enumerate(problem.graph.tensors)
        if tensor.initial
    }
    return fastest(problem.graph, problem.machine, start)


def plan_times(problem: Placement) -> Iterator[int]:
    for method in ("belady", "demand-lru"):
        result = lt.solve(problem, method, time_limit=None)
        if result.objective is not None:
            yield result.objective


def test_a_drawing() -> None:
    """Eight bytes at 6 MB/s come in before the first op can start: 1333.3 ns; then two ops of 50 ns."""
    assert proven_time(GRAPH, SETTING, PROOF) == (LEAST, 2)
    verdict = verify_certificate(GRAPH, signed(bound=LEAST))
    assert (verdict.valid, verdict.kind, verdict.checked) == (True, "prices", 2)
    there = replace(SETTING, start={"input": ("gpu",)})
    assert proven_time(GRAPH, there, PROOF) == (100, 2)
    assert proven_time(GRAPH, replace(SETTING, start=None), PROOF) == (100, 2)  # it comes from the ssd
    plan = lt.Plan(
        machine=SETTING.machine,
        start=(lt.Resident(0, "host"),),
        runs=(lt.Run(0, 0, 1334, 1384, "gpu0"), lt.Run(1, 0, 1384, 1434, "gpu0")),
        copies=(lt.Copy(0, "host", "gpu", 0, 1334),),
    )
    assert Placement(GRAPH, SETTING.machine, start=SETTING.start).judge(plan).objective == LEAST


@pytest.mark.slow
def test_what_is_overwritten_unread_pays_nothing() -> None:
    """No one needs w between its reading and its new version: a big tensor takes its place for free."""
    graph = lt.Graph(
        name="dead",
        tensors=(
            lt.Tensor(name="w", nbytes=8, kind="weight", initial=True, final=True),
            lt.Tensor(name="a", nbytes=8),
        ),
        ops=(
            lt.Op(name="use", reads=(0,), duration_ns=1000),
            lt.Op(name="big", writes=(1,), duration_ns=1000),
            lt.Op(name="make", writes=(0,), duration_ns=1000),
        ),
    )
    for periodic in (True, False):
        problem = Placement(graph, machine(8, None), periodic=periodic)
        for seed in range(200):
            proof = prices_proof(problem, any_prices(sample_data(problem), seed))
            assert proven_time(graph, setting_of(problem), proof)[0] == 3000


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("seed", seeds(12))
def test_prices_of_the_rounds_are_confirmed(seed: int, periodic: bool) -> None:
    problem = random_placement(seed, periodic=periodic)
    for prices, _, bound in price_rounds(problem, Context(problem=problem), lambda: False):
        proven, _ = price_time(problem.graph, setting_of(problem), proof_of(problem, prices))
        assert proven - ideal_of(problem) >= bound
        assert all(proven <= time for time in plan_times(problem))


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("seed", seeds(12))
def test_any_prices_prove_at_least_what_the_formulation_says_and_no_more_than_plans(
    seed: int, periodic: bool
) -> None:
    problem = random_placement(seed, periodic=periodic)
    times = list(plan_times(problem))
    data = sample_data(problem)
    for number in range(20):
        prices = any_prices(data, 1000 * seed + number)
        proven, _ = proven_time(problem.graph, setting_of(problem), prices_proof(problem, prices))
        assert proven - ideal_of(problem) >= price_bound(data, prices)
        assert all(proven <= time for time in times)


@pytest.mark.parametrize("seed", seeds(60))
def test_no_prices_prove_more_than_exhaustive_search_finds(seed: int) -> None:
    problem = tiny_placement(seed)
    least = time_of_brute_force(problem)
    if least is None:
        pytest.skip("no plan")
    for number in range(25):
        prices = any_prices(sample_data(problem), 1000 * seed + number)
        assert proven_time(problem.graph, setting_of(problem), prices_proof(problem, prices))[0] <= least


@pytest.mark.parametrize("seed", seeds(40))
def test_changed_certificates_are_refused_or_still_below_the_optimum(seed: int) -> None:
    problem = tiny_placement(seed)
    least = time_of_brute_force(problem)
    certificate = certify_placement(problem, 10**12)
    if least is None or certificate is None:
        pytest.skip("no plan, or no bound above the sum of the durations")
    assert verify_certificate(problem.graph, certificate).valid
    assert certificate.bound <= least
    text, rng, accepted = encode_certificate(certificate, "c.json").decode(), Random(seed), 0
    for _ in range(150):
        data = json.loads(text)
        data["proof"] = changed(rng, data["proof"])
        data["bound"] += rng.choice([0, 0, 1, 1000, -1000])
        try:
            other = decode_certificate(json.dumps(data).encode(), "c.json")
        except InstanceError:
            continue
        if verify_certificate(problem.graph, other).valid:
            accepted += 1
            assert other.bound <= least
    assert accepted


@pytest.mark.parametrize("seed", range(8))
def test_it_is_about_one_graph_and_a_higher_bound_is_refused(seed: int) -> None:
    problem = random_placement(seed, periodic=True)
    certificate = certify_placement(problem, 10**12)
    if certificate is None:
        pytest.skip("no bound above the sum of the durations")
    assert encode_certificate(certificate, "c.json") == encode_certificate(
        decode_certificate(encode_certificate(certificate, "c.json"), "c.json"), "c.json"
    )
    higher = verify_certificate(problem.graph, replace(certificate, bound=certificate.bound + 1))
    assert "which the prices prove" in higher.witness
    tensors = problem.graph.tensors
    for t, tensor in enumerate(tensors):
        larger = replace(tensor, nbytes=tensor.nbytes + 1)
        graph = replace(problem.graph, tensors=(*tensors[:t], larger, *tensors[t + 1 :]))
        assert "sha256" in verify_certificate(graph, certificate).witness


def test_every_wrong_certificate_is_refused() -> None:
    for graph, bad in bad_prices():
        assert not verify_certificate(graph, bad).valid


def test_a_start_in_no_tier_of_the_machine_is_read() -> None:
    bench = behind(16, 5)
    lost = Setting(machine=bench, periodic=False, start={"input": ("moon",)})
    assert verify_certificate(GRAPH, signed(replace(PROOF, channels=()), bound=100, setting=lost)).valid


def test_prices_of_a_result_need_no_second_proof() -> None:
    problem = random_placement(1, periodic=True)
    result = lt.solve(problem, "lp-bound", time_limit=None)
    assert result.bound is not None
    assert result.bound > ideal_of(problem)
    certificate = certify_placement(problem, result.bound, prices=result.evidence, time_limit=1e-9)
    assert certificate is not None
    assert certificate.bound == result.bound
    assert verify_certificate(problem.graph, certificate).valid


def test_where_prices_do_not_apply_there_is_no_certificate() -> None:
    problem = random_placement(2, periodic=True)
    second = lt.Processor(name="gpu1", tiers=(lt.Access(tier="gpu"),))
    two = replace(problem.machine, processors=(*problem.machine.processors, second))
    assert certify_placement(problem, 10**12) is not None
    assert certify_placement(replace(problem, machine=two), 10**12) is None
    trivial = certify_placement(problem, 5)
    assert trivial is not None
    assert (trivial.bound, trivial.proof.to_dict()["samples"]) == (5, [])
