"""Walks: how many bytes of a life are absent and held at each of its instants."""

from __future__ import annotations

from dataclasses import dataclass

from .data import Lifetime

Bytes = tuple[int, ...]
"""By outer tier."""


@dataclass(frozen=True, eq=False)
class Walk:
    """A life: bytes absent and held at each of its instants."""

    life: Lifetime
    absent: dict[int, Bytes]
    held: dict[int, Bytes]

    def at(self, e: int) -> tuple[Bytes, Bytes]:
        """Return what is absent and held; behind the last instant nothing is absent, and copies stay."""
        if e in self.held:
            return self.absent[e], self.held[e]
        last = self.held[e - 1]
        return (0,) * len(last), last
