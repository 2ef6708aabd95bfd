"""How many random cases tests try: an eighth in `make test`, a sixth in `make test-slow`, else all (`full`).

All of them: ``pytest --hypothesis-profile=full``; the profiles are registered in ``tests/conftest.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")

PROFILES = {"fast": 8, "sixth": 6, "full": 1}
"""Profiles of hypothesis: one of so many cases is tried; outside of pytest as in `fast`."""

LEAST = 6

LONG_AGO = -1e9
"""A start on the clock of contexts (`time.perf_counter`) of which every time limit has passed."""


def share(count: int, least: int = LEAST) -> int:
    """Return how many of so many cases are tried now; not fewer than `least`, if there are so many.

    Examples
    --------
    >>> share(100) in (12, 16, 100), share(5)
    (True, 5)
    """
    one_of = PROFILES.get(settings.get_current_profile_name(), PROFILES["fast"])
    return min(count, max(least, count // one_of))


def many(count: int) -> settings:
    """Return hypothesis's settings for so many examples, the same ones in each run and on each machine."""
    return settings(max_examples=share(count), deadline=None, derandomize=True)


def seeds(count: int, least: int = LEAST) -> range:
    """Return the seeds of so many cases, or the first ones of them."""
    return range(share(count, least))


def chosen(cases: Sequence[Case], least: int = LEAST) -> Sequence[Case]:
    """Return so many of the cases as are tried now, spread evenly over all of them.

    Examples
    --------
    >>> len(chosen("abcdefghij", least=2)) in (2, 3, 10)
    True
    """
    count = share(len(cases), least)
    return [cases[k * len(cases) // count] for k in range(count)]
