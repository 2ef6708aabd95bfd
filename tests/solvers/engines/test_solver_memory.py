"""What memory there is, and which models are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.formulations.model import ModelSize
from lowtide.solvers.context import Context
from lowtide.solvers.engines import memory

PROBLEM = lt.Peak(lt.load("gen:chain?n=3"))
SIZE = ModelSize(variables=2_000_000, constraints=5, terms=10_000_000)


def refusal(limit: int | None, available: int | None, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    outcome = memory.refuse_if_too_large(
        SIZE, bytes_per_term=100, context=Context(problem=PROBLEM, memory_limit=limit), what="the model"
    )
    assert outcome is None or outcome.reason == "memory"
    return None if outcome is None else outcome.detail


def test_model_is_refused_above_the_limit_or_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the model was not built: 2,000,000 variables and 10,000,000 coefficients need about 1.0 GB, "
    assert refusal(999_999_999, None, monkeypatch) == text + "the memory limit is 1.0 GB"
    assert refusal(10**9, None, monkeypatch) is None
    assert refusal(None, 10**9, monkeypatch) == text + "available are 0.9 GB"
    assert refusal(10**12, 10**9, monkeypatch) == text + "available are 0.9 GB"
    assert refusal(None, 2 * 10**9, monkeypatch) is None
    assert refusal(None, None, monkeypatch) is None


def test_memory_of_this_machine_and_process() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("no /proc here")
    available, resident = memory.available_bytes(), memory.resident_bytes()
    assert available is not None
    assert resident is not None
    assert available > 0
    assert 2**20 < resident < 2**40


def test_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.available_bytes() == 4000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() != 4000
