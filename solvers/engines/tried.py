"""Versions of libraries that the suite was tried with; others are told of once, as results may be wrong."""

from __future__ import annotations

import re
import warnings
from functools import cache
from importlib import metadata
from typing import Any

TRIED = {"highspy": ("1.12", "1.13"), "numba": ("0.61", "0.69"), "ortools": ("9.15", "9.16")}
"""The least version that was tried, and the least one that was not; as in ``pyproject.toml``."""


class UntriedVersionWarning(UserWarning):
    """A library has a version that the suite was not tried with."""


@cache
def warn_if_untried(package: str) -> None:
    """Warn, once in a process, if the version of a package is none of `TRIED`.

    Package managers do not look back: who installs something else later may get another version.
    """
    try:
        found, (low, high) = metadata.version(package), TRIED[package]
    except (metadata.PackageNotFoundError, KeyError):  # nothing is known of it
        return
    if not _number(low) <= _number(found) < _number(high):
        warnings.warn(
            f"{package}: found version {found}, expected >={low},<{high}, with which lowtide was tried; "
            f"results may be wrong; try: pip install '{package}>={low},<{high}'",
            UntriedVersionWarning,
            stacklevel=2,
        )


def quiet_highs() -> Any:
    """Return a new HiGHS that prints nothing."""
    import highspy

    warn_if_untried("highspy")
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)  # else HiGHS prints its opinion of options
    return highs


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
