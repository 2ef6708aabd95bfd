"""Certificates by windows: each rounded up, none charged where another is, no more than exhaustive search."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.prices import price_bound, window_prices
from lowtide.formulations.placement.bounds.releases import ideal_time
from lowtide.formulations.placement.bounds.windows import Window, disjoint, windows
from lowtide.instances.formats.native_certificate import decode_certificate, encode_certificate
from lowtide.models.certificate import Certificate
from lowtide.models.graph import Accounting
from lowtide.models.problems.placement import Placement
from lowtide.models.verifier.certificate import verify_certificate
from lowtide.models.verifier.proofs.price_claims import PricesProof, WindowsProof
from lowtide.models.verifier.proofs.prices import proven_time
from lowtide.models.verifier.proofs.refused import Refused
from lowtide.models.verifier.proofs.windows import windows_time
from lowtide.solvers.placement.bounds.certify import certify_placement, proof_of
from lowtide.solvers.placement.bounds.prices import sample_data, unsampled
from tests.effort import seeds
from tests.models.verifier.certificates import changed, random_placement
from tests.oracles.price_certificates import NARROW, PROOF, SUM, TURNS, WINDOWS, in_parts, signed
from tests.solvers.placement.bounds.claim_cases import BOTH, never_faster, small
from tests.solvers.placement.bounds.price_cases import any_prices

ALONE = (94, 106, 122, 282, 297)
"""Seeds of `small` whose windows prove more one by one than their prices together, under ``replace``."""


def best_windows(problem: Placement) -> list[Window]:
    if unsampled(problem):
        return []
    data = sample_data(problem)
    return disjoint(windows(data), data)


def test_a_drawing() -> None:
    """x comes in before a, and y behind it, 1333.3 ns each; a plan takes 1334 ns for each of them."""
    assert windows_time(TURNS, NARROW, WINDOWS) == (SUM, 4)
    assert [windows_time(TURNS, NARROW, WindowsProof(windows=(w,)))[0] for w in WINDOWS.windows] == [1434] * 2
    assert windows_time(TURNS, NARROW, WindowsProof(windows=()))[0] == 100
    paid = (("host", "gpu"), (1000, 0, 1000, 0))
    both = replace(PROOF, samples=(-1, 0, 1, 2), memory=(0, 0, 1000, 0), channels=(paid,))
    assert proven_time(TURNS, NARROW, both)[0] == SUM - 1
    plan = lt.Plan(
        machine=NARROW.machine,
        start=(lt.Resident(0, "host"), lt.Resident(1, "host")),
        runs=(lt.Run(0, 0, 1334, 1384, "gpu0"), lt.Run(1, 0, 2718, 2768, "gpu0")),
        copies=(lt.Copy(0, "host", "gpu", 0, 1334), lt.Copy(1, "host", "gpu", 1384, 2718)),
        frees=(lt.Free(0, "gpu", 1384),),
    )
    assert Placement(TURNS, NARROW.machine, start=NARROW.start).judge(plan).objective == SUM


def charging(samples: tuple[int, ...], epoch: int, price: int = 1000) -> PricesProof:
    """Return prices that charge the stall of one epoch."""
    row = tuple(price * (e == epoch) for e in range(len(samples)))
    return replace(PROOF, samples=samples, memory=(0,) * len(samples), channels=((("host", "gpu"), row),))


@pytest.mark.parametrize(
    ("periodic", "first", "second", "meet"),
    [
        (False, charging((-1, 0), 0), charging((-1, 1, 2), 1), False),
        (False, charging((-1, 0), 0), charging((-1,), 0), False),  # nothing is behind the last sample
        (False, charging((-1, 2), 0), charging((-1, 1, 2), 1), True),
        (False, charging((-1, 2), 0), charging((-1, 0, 1), 1, 9000), False),  # no stall within an op
        (False, charging((-1, 2), 0), charging((-1, 2, 3), 1), False),
        (False, charging((-1, 3), 0), charging((-1, 3), 0, 1), True),
        (True, charging((0, 2), 0), charging((0, 2), 1), False),
        (True, charging((0, 3), 1), charging((1, 3), 1), True),  # around the end of the period
        (True, charging((2,), 0), charging((0, 3), 1), True),
        (True, charging((2,), 0), charging((1, 2), 0), True),
        (True, charging((1, 3), 0), charging((1, 3), 1), False),
        (True, charging((2,), 0), charging((0, 1), 0), False),
    ],
)
def test_stalls_are_charged_once(periodic: bool, first: PricesProof, second: PricesProof, meet: bool) -> None:
    setting = replace(NARROW, periodic=periodic, start=None if periodic else NARROW.start)
    for some in ((first, second), (second, first)):
        verdict = verify_certificate(TURNS, signed(WindowsProof(windows=some), 0, TURNS, setting))
        assert ("charged twice" in verdict.witness) is meet, verdict.witness
        assert verdict.valid is not meet


def test_a_broken_window_is_refused_or_proves_less() -> None:
    first, second = WINDOWS.windows

    def proves(*some: PricesProof) -> int | None:
        try:
            return windows_time(TURNS, NARROW, WindowsProof(windows=some))[0]
        except Refused:
            return None

    assert proves(first, second) == proves(second, first) == SUM
    free = replace(first, channels=((("host", "gpu"), (0, 0)),))
    assert proves(first) == proves(second) == proves(free, second) == SUM - 1334
    for pair in ((first, first), (first, second, second), (first, replace(second, samples=(-1, 0, 2)))):
        value = proves(*pair)
        assert value is None or value < SUM
    for channels in ((1000, 1000, 0), (0, 1001, 0), (0, -1, 0), (0, 1000)):
        assert proves(first, replace(second, channels=((("host", "gpu"), channels),))) is None
    for samples in ((), (0, 1, 2), (-1, 2, 1), (-1, 1, 4)):
        assert proves(first, replace(second, samples=samples)) is None
    for samples in ((-1, 0, 1), (-1, 1, 3), (-1, 2, 3)):
        value = proves(first, replace(second, samples=samples))
        assert value is None or value < SUM
    for memory in ((0, 500, 0), (1000, 0, 0), (0, 0, 1000)):
        value = proves(first, replace(second, memory=memory))
        assert value is not None
        assert value < SUM
    assert not verify_certificate(TURNS, signed(WINDOWS, SUM + 1, TURNS, NARROW)).valid


@BOTH
@pytest.mark.parametrize("seed", seeds(60, least=12))
def test_any_parts_prove_no_more_than_exhaustive_search_finds(seed: int, accounting: Accounting) -> None:
    problem, rng, best = small(seed, accounting), Random(seed), 0
    if problem.impossible():
        return
    proofs = [proof_of(problem, found)] if (found := best_windows(problem)) else []
    if not unsampled(problem):
        data = sample_data(problem)
        for number in range(6 if data.caps else 0):
            together = proof_of(problem, any_prices(data, 1000 * seed + number))
            assert isinstance(together, PricesProof)
            proofs += [in_parts(rng, together), WindowsProof(windows=(together,))]
        if found:
            together = proof_of(problem, window_prices(data, found))
            assert isinstance(together, PricesProof)
            proofs += [in_parts(rng, together) for _ in range(4)]
    for proof in proofs:
        assert isinstance(proof, WindowsProof)
        best = max(best, windows_time(problem.graph, problem.setting(), proof)[0])
        for _ in range(4):  # forged ones: a window from elsewhere, or twice, or with other samples
            some = [*proof.windows, *rng.choice(proofs).windows]  # type: ignore[union-attr]
            some = rng.sample(some, rng.randint(1, len(some)))
            k = rng.randrange(len(some))
            moved = sorted({c + rng.choice((-1, 0, 1)) for c in some[k].samples})
            some[k] = replace(some[k], samples=tuple(moved))
            with suppress(Refused):
                forged = WindowsProof(windows=tuple(some))
                best = max(best, windows_time(problem.graph, problem.setting(), forged)[0])
    never_faster(problem, best)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("seed", seeds(12, least=4))
def test_windows_prove_what_the_formulation_says(seed: int, periodic: bool) -> None:
    problem = random_placement(seed, periodic=periodic)
    found = best_windows(problem)
    proof = proof_of(problem, found)
    assert isinstance(proof, WindowsProof)
    proven, _ = windows_time(problem.graph, problem.setting(), proof)
    assert proven >= ideal_time(problem) + sum(w.stall for w in found)
    for method in ("belady", "demand-lru"):
        time = lt.solve(problem, method, time_limit=None).objective
        assert time is None or proven <= time


def certified(problem: Placement) -> Certificate:
    """Return the certificate of what windows prove one by one."""
    found = best_windows(problem)
    bound = ideal_time(problem) + sum(w.stall for w in found)
    certificate = certify_placement(problem, bound, prices=found, time_limit=0)
    assert certificate is not None
    assert certificate.bound == bound
    rounds = certify_placement(problem, bound)
    assert rounds is not None
    assert rounds.proof == certificate.proof
    return certificate


@pytest.mark.parametrize("seed", ALONE)
def test_windows_that_prove_more_one_by_one_are_certified_so(seed: int) -> None:
    problem = small(seed, Accounting.REPLACE)
    certificate = certified(problem)
    assert isinstance(certificate.proof, WindowsProof)
    assert verify_certificate(problem.graph, certificate).valid
    never_faster(problem, certificate.bound)
    assert not verify_certificate(problem.graph, replace(certificate, bound=certificate.bound + 1)).valid
    parts = certificate.proof.windows
    for w in range(len(parts)):
        fewer = replace(certificate, proof=WindowsProof(windows=(*parts[:w], *parts[w + 1 :])))
        assert not verify_certificate(problem.graph, fewer).valid
        again = replace(certificate, proof=WindowsProof(windows=(*parts, parts[w])))
        assert "charged twice" in verify_certificate(problem.graph, again).witness
    text, rng, accepted = encode_certificate(certificate, "c.json").decode(), Random(seed), 0
    assert decode_certificate(text.encode(), "c.json").to_dict() == certificate.to_dict()
    for _ in range(60):
        data = json.loads(text)
        data["proof"] = changed(rng, data["proof"])
        data["bound"] += rng.choice([0, 0, 1, 1000, -1000])
        with suppress(lt.InstanceError):
            other = decode_certificate(json.dumps(data).encode(), "c.json")
            if verify_certificate(problem.graph, other).valid:
                accepted = max(accepted, other.bound)
    never_faster(problem, accepted)


def test_prices_together_are_preferred_where_they_prove_as_much() -> None:
    kinds = []
    for seed in (0, 3, 6):
        problem = random_placement(seed, periodic=False)
        found = best_windows(problem)
        joint = price_bound(sample_data(problem), window_prices(sample_data(problem), found))
        kind = certified(problem).proof.kind
        assert (kind == "windows") is (joint < sum(w.stall for w in found))
        kinds.append(kind)
    assert {"windows", "prices"} <= {*kinds}
