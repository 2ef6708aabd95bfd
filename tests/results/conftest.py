"""Fixtures of the tests of experiments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowtide.solvers.registry import registered
from tests.commands import users_methods
from tests.sweep_methods import SOURCE


@pytest.fixture
def defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the methods of `SOURCE`, here and in every process started from here; yield a folder."""
    site = tmp_path / "site"
    for key, value in users_methods(site, SOURCE).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.syspath_prepend(site)
    registered.cache_clear()
    yield tmp_path
    registered.cache_clear()
    sys.modules.pop("user_methods", None)
