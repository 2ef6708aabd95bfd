"""Versions of libraries: what was tried is what is pinned, others are told of once, and clearly."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import lowtide
from lowtide.solvers.engines import tried

ROOT = Path(lowtide.__file__).parent


@pytest.fixture(autouse=True)
def anew() -> None:
    tried.warn_if_untried.cache_clear()


def test_pins_are_what_was_tried() -> None:
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for package, (low, high) in tried.TRIED.items():
        assert f"{package}>={low},<{high}" in pins


@pytest.mark.parametrize("version", ["1.16.0", "1.13.1", "1.11.0", "2.0"])
def test_another_version_is_told_of_once(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: version)
    with pytest.warns(
        tried.UntriedVersionWarning, match=f"highspy: found version {version}, expected >=1.12,<1.13"
    ):
        tried.quiet_highs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tried.quiet_highs()


@pytest.mark.parametrize("version", ["1.12.0", "1.12.9"])
def test_no_word_of_versions_that_were_tried(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tried.quiet_highs()


@pytest.mark.slow
def test_another_inside_of_numba_is_told_of() -> None:
    program = (
        "from numba.core import caching; del caching.FunctionCache\n"
        "try:\n    import lowtide.solvers.engines.kernels\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("BackendUnavailable numba: found version ")
    assert "expected >=0.61,<0.69" in done.stdout
