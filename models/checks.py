"""Checks of what a caller gives: the type of a field, a number's range; what, found, expected in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .errors import InstanceError, UsageError
from .units import parse_bytes

LIMIT = 2**62
"""Bytes, nanoseconds, and their sums over an instance stay below this, so that 64-bit arithmetic is exact."""


def shown(value: object) -> str:
    """Return a short text for any object, also one whose repr fails."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def check_type(value: object, kind: type | tuple[type, ...], where: str, expected: str = "") -> None:
    """Raise `InstanceError` unless the value is of that type; `expected` says what else it may be.

    Examples
    --------
    >>> from lowtide.models.checks import check_type
    >>> check_type(3, str, "graph, name")
    Traceback (most recent call last):
    ...
    lowtide.models.errors.InstanceError: graph, name: found 3, expected a str
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        words = expected or " or ".join(f"{_article(k.__name__)} {k.__name__}" for k in kinds)
        raise InstanceError(f"{where}: found {shown(value)}, expected {words}")


def check_seconds(value: object, where: str, *, zero: bool = False) -> None:
    """Raise `UsageError` unless the value is a number of seconds > 0 (or also 0), or None."""
    if value is None or (zero and value == 0 and type(value) in (int, float)):
        return
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise UsageError(f"{where}: found {shown(value)}, expected seconds > 0")


def check_flag(value: object, where: str) -> None:
    """Raise `InstanceError` unless the value is True or False."""
    check_type(value, bool, where, "True or False")


def check_integer(value: object, least: int, where: str, *, optional: bool = False) -> None:
    """Raise `InstanceError` unless the value is an integer >= `least` (a truth value is none), or None.

    It must also be below `LIMIT`.
    """
    if optional and value is None:
        return
    if type(value) is not int or value < least:
        or_none = " or None" if optional else ""
        raise InstanceError(f"{where}: found {shown(value)}, expected an integer >= {least}{or_none}")
    if value >= LIMIT:
        or_none = " (None: no limit)" if optional else ""
        raise InstanceError(f"{where}: found {shown(value)}, expected less than 2**62{or_none}")


def as_bytes(value: object, least: int, where: str, *, optional: bool = False) -> Any:
    """Return the bytes that an integer is, or that a text such as "1.5GiB" stands for; None if that may be.

    Raises
    ------
    InstanceError
        If it is neither, or out of range as `check_integer` has it.

    Examples
    --------
    >>> from lowtide.models.checks import as_bytes
    >>> as_bytes("4KiB", 0, "tensor 'x', nbytes"), as_bytes(12, 0, "tensor 'x', nbytes")
    (4096, 12)
    """
    if isinstance(value, str):
        try:
            value = parse_bytes(value)
        except UsageError:
            expected = "bytes such as 4096, 512MiB or 4GiB"
            raise InstanceError(f"{where}: found {shown(value)}, expected {expected}") from None
    check_integer(value, least, where, optional=optional)
    return value


def set_bytes(item: object, field: str, least: int, where: str, *, optional: bool = False) -> None:
    """Check a field of a frozen object that holds bytes, and write what a text stands for into it."""
    object.__setattr__(item, field, as_bytes(getattr(item, field), least, where, optional=optional))


def check_sums(sums: Mapping[str, int]) -> None:
    """Raise `InstanceError` unless totals, by what is added up, are below `LIMIT`.

    Examples
    --------
    >>> from lowtide.models.checks import check_sums
    >>> check_sums({"nbytes": 2**62})
    Traceback (most recent call last):
    ...
    lowtide.models.errors.InstanceError: nbytes: found the sum 4611686018427387904, expected less than 2**62
    """
    for what, total in sums.items():
        if total >= LIMIT:
            raise InstanceError(f"{what}: found the sum {shown(total)}, expected less than 2**62")


def _article(word: str) -> str:
    return "an" if word[0] in "AEIOUaeio" else "a"
