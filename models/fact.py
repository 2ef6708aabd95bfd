"""What people and programs are told of an answer besides its objective."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fact(NamedTuple):
    """A name, what it is in numbers as JSON has them (bytes and ns), and in words."""

    name: str
    value: Any
    text: str
