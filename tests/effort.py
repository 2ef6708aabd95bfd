"""How many random cases a test tries: a quarter of them in `make test`, all in `make test-all`.

CI tries a quarter in the quick tests, and all in the slow ones.

All of them: ``pytest --hypothesis-profile=full``; the profiles are registered in ``tests/conftest.py``.
"""

from __future__ import annotations

from hypothesis import settings

LEAST = 8

LONG_AGO = -1e9
"""A start on the clock of contexts (`time.perf_counter`) of which every time limit has passed."""


def share(count: int, least: int = LEAST) -> int:
    """Return how many of so many cases are tried now; not fewer than `least`, if there are so many.

    Examples
    --------
    >>> share(100) in (25, 100), share(5)
    (True, 5)
    """
    return count if settings.get_current_profile_name() == "full" else min(count, max(least, count // 4))


def many(count: int) -> settings:
    """Return hypothesis's settings for so many examples, the same ones in each run and on each machine."""
    return settings(max_examples=share(count), deadline=None, derandomize=True)


def seeds(count: int, least: int = LEAST) -> range:
    """Return the seeds of so many cases, or the first ones of them."""
    return range(share(count, least))
