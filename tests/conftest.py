"""What holds for every test: how Ctrl-C arrives, how many random cases are tried, which tests are drawn."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.drawn import is_drawn
from tests.effort import PROFILES

for name in PROFILES:
    settings.register_profile(name, deadline=None)
settings.load_profile("fast")

# Else cases would depend on what other tests imported, and each process would read all modules for constants.
assert hasattr(providers, "_get_local_constants"), "hypothesis takes constants of modules by another function"
providers._get_local_constants = Constants

DRAWN = "run one test in so many, drawn by the hash of the commit: other ones after each commit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the share of tests to run."""
    parser.addoption("--one-in", type=int, default=1, metavar="N", help=DRAWN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are not drawn."""
    one_in: int = config.getoption("--one-in")
    drawn: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (drawn if is_drawn(item.nodeid, one_in) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = drawn


gc.disable()  # until the tests are collected: what is made then stays to the end


def pytest_collection_finish() -> None:
    """Leave the tests themselves, a million objects, out of every collection of garbage to come."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # as in lowtide.__main__
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C arrive, here and in every process started from here.

    A shell without job control starts background jobs (``make test &``) with the signal ignored, and so
    would everything below be.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def torch_forgets() -> None:
    """Let no test see what an earlier one compiled: other sizes of the same code would become symbolic."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()


@pytest.fixture
def trials_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let experiments try their methods in this process: a new one for each engine takes half a second."""
    from lowtide.results.sweeps import preflight

    monkeypatch.setattr("lowtide.results.sweeps.preflight._try", lambda trials: list(preflight.tried(trials)))
