"""Files of other programs: what is wrong with them shows while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...models.errors import InstanceError


@contextmanager
def reading(where: str, what: str) -> Iterator[None]:
    """Turn what reading wrong data raises into an `InstanceError` that says where and what was expected."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InstanceError(f"{where}: found {type(error).__name__} {error}, expected {what}") from None
