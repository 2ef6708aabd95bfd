"""Searches that are cut short where many small questions are put to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowtide.solvers.placement.policies import local_search


@pytest.fixture(scope="module")
def short_searches() -> Iterator[None]:
    """Let `auto` try 200 decisions in its local search, instead of 20,000, in each test of a file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_search, "RUNS", 200)
        yield
