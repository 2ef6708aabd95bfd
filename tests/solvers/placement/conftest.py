"""Searches are cut short here: many small questions are put to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lowtide.solvers.placement.policies import local_search


@pytest.fixture(scope="module", autouse=True)
def short_searches() -> Iterator[None]:
    """Let local searches try 200 decisions instead of 20,000, also those that other methods begin with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_search, "RUNS", 200)
        yield
