"""Ctrl-C ends certifying: what is proved until then is kept, and it is a proof."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.results.certificates import with_certificate
from lowtide.solvers.interrupts import asked_to_stop
from lowtide.solvers.parallel import certify as parallel
from tests.models.verifier.certificates import random_placement

GRAPH = lt.load("gen:randwire?n=24&seed=3")


@pytest.fixture(autouse=True)
def _python_handles_the_signal() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_signal_asks_the_second_interrupts() -> None:
    with asked_to_stop() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_what_others_do_with_the_signal_is_left_alone() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asked_to_stop() as asked:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.raise_signal(signal.SIGINT)
        assert not asked()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_an_interrupted_certificate_of_parallel_schedules_is_a_weaker_one() -> None:
    result = lt.solve(lt.ParallelMemory(GRAPH, processors=3), threads=1)
    assert result.objective is not None
    news: list[str] = []

    def press(line: str) -> None:
        news.append(line)
        if len(news) == 1:
            signal.raise_signal(signal.SIGINT)

    certificate = parallel.certify_parallel(GRAPH, result.objective, processors=3, progress=press)
    assert certificate is not None
    assert certificate.bound > result.objective
    assert len(news) == 1
    assert lt.verify_certificate(GRAPH, certificate).valid


def test_an_interrupted_certificate_of_placement_keeps_the_best_prices() -> None:
    kept = 0
    for seed in range(8):
        problem = random_placement(seed, periodic=True)

        def press(line: str) -> None:
            if line.startswith("linear program"):
                raise KeyboardInterrupt

        certificate = lt.certify_placement(problem, 10**12, progress=press)
        if certificate is not None:
            verdict = lt.verify_certificate(problem.graph, certificate)
            assert verdict.valid, verdict.witness
            kept += 1
    assert kept > 0


def test_no_certificate_after_an_interrupted_search(tmp_path: Path) -> None:
    problem = lt.Peak(GRAPH)
    stopped = replace(lt.solve(problem, threads=1), reason="interrupted")
    result = with_certificate(stopped, problem, str(tmp_path / "c.json"))
    assert result.certificate is not None
    assert result.certificate["detail"] == "interrupted"
    assert not (tmp_path / "c.json").exists()
