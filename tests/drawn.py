"""A share of the tests, drawn by the hash of the commit, as `lowtide audit --again` draws rows."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from lowtide.results.audits.again import commit_of


@cache
def _commit() -> str:
    return commit_of(Path(__file__).parent)


def is_drawn(test: str, one_in: int, commit: str | None = None) -> bool:
    """Return whether a test is among one in so many; `commit` is that of the checkout where it is not said.

    Examples
    --------
    >>> is_drawn("tests/test_a.py::test_b", 1)
    True
    """
    if one_in <= 1:
        return True
    drawn_by = _commit() if commit is None else commit
    return int.from_bytes(sha256(f"{drawn_by} {test}".encode()).digest()[:8]) % one_in == 0
