"""What holds for every test: how Ctrl-C arrives, and how many random cases are tried."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.effort import PROFILES

for name in PROFILES:
    settings.register_profile(name, deadline=None)
settings.load_profile("fast")


@pytest.fixture(autouse=True, scope="session")
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C arrive, here and in every process started from here.

    A shell without job control starts background jobs (``make test &``) with the signal ignored, and so
    would everything below be.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
