"""Files of other programs: what is wrong with them shows while they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

from ...models.errors import InstanceError
from .strict_json import show


@contextmanager
def reading(where: str, what: str) -> Iterator[None]:
    """Turn what reading wrong data raises into an `InstanceError` that says where and what was expected."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        found = shorten(f"{type(error).__name__} {error}", 200, placeholder="...")
        raise InstanceError(f"{where}: found {found}, expected {what}") from None


def number(row: Mapping[str, Any], key: str, where: str) -> int | float:
    """Return a number >= 0 of an object; a truth value, text or list is none, before it is reckoned with.

    Raises
    ------
    InstanceError
        If it is something else.
    """
    value: object = row[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise InstanceError(f"{where}: {key}: found {show(value)}, expected a number >= 0")
    return value


def whole(value: object, key: str, where: str) -> int:
    """Return an integer >= 0, which may be written as 2.0.

    Raises
    ------
    InstanceError
        If it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        raise InstanceError(f"{where}: {key}: found {show(value)}, expected an integer >= 0")
    return int(value)


def flag(row: Mapping[str, Any], key: str, where: str) -> bool:
    """Return a truth value of an object, which may be written as 0 or 1.

    Raises
    ------
    InstanceError
        If it is something else.
    """
    value = row[key]
    if type(value) not in (bool, int) or value not in (0, 1):
        raise InstanceError(f"{where}: {key}: found {show(value)}, expected true or false")
    return bool(value)
