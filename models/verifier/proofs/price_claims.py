"""The data of proofs by prices; `prices` and `windows` beside it say what they claim, and why it is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ...written import Written

Prices = tuple[int, ...]
"""For each sample, or for the epoch that it begins: at least 0, in ns per byte over the denominator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesProof(Written):
    """What a byte pays for memory and transfers.

    Attributes
    ----------
    denominator
        Of all prices.
    least
        Bytes; smaller tensors pay only where ops access them.
    samples
        Ascending: 2k is the start of op k, 2k + 1 its end; those of a single run begin with -1, time 0.
    memory
        Prices of the first tier.
    capacities, channels, groups
        Prices of outer tiers by name, of channels by (src, dst), of groups of channels by name.
    """

    kind: ClassVar[str] = "prices"
    denominator: int
    least: int
    samples: tuple[int, ...]
    memory: Prices
    capacities: tuple[tuple[str, Prices], ...] = ()
    channels: tuple[tuple[tuple[str, str], Prices], ...] = ()
    groups: tuple[tuple[str, Prices], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            **Written.to_dict(self),
            "capacities": [{"tier": name, "prices": list(x)} for name, x in self.capacities],
            "channels": [{"src": a, "dst": b, "prices": list(x)} for (a, b), x in self.channels],
            "groups": [{"name": name, "prices": list(x)} for name, x in self.groups],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsProof(Written):
    """Prices by window of time; no stall is charged in two of them."""

    kind: ClassVar[str] = "windows"
    windows: tuple[PricesProof, ...]
