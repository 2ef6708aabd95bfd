"""Where measured numbers come from: of a machine its rates, of a graph its durations and workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from .checks import check_integer, check_type, shown
from .errors import InstanceError
from .written import Written

BESIDE = ("nothing", "compute", "reverse")
"""What went on while a transfer was measured: nothing, ops, or a transfer the other way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Written):
    """A copy of `nbytes` from tier to tier, which took `duration_ns` beside something of `BESIDE`."""

    src: str
    dst: str
    nbytes: int
    duration_ns: int
    beside: str = "nothing"

    def __post_init__(self) -> None:
        where = f"provenance, transfer {self.src!r} to {self.dst!r}"
        check_integer(self.nbytes, 1, f"{where}, nbytes")
        check_integer(self.duration_ns, 1, f"{where}, duration_ns")
        if self.beside not in BESIDE:
            expected = ", ".join(BESIDE)
            raise InstanceError(f"{where}, beside: found {shown(self.beside)}, expected one of {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(Written):
    """On what, when and how something was measured.

    Parameters
    ----------
    device
        As its driver calls it.
    date
        ISO 8601, such as 2026-11-23.
    versions
        Of the packages and drivers that were used, by name.
    repetitions
        Every number is the median of so many, after a warm-up.
    conditions
        What else was set: number of threads, algorithms, a cap on memory.
    transfers
        What rates and latencies of channels were derived from.

    Raises
    ------
    InstanceError
        If a text is empty, the date is none, or a number out of range.
    """

    device: str
    date: str
    versions: Mapping[str, str] = field(hash=False)
    repetitions: int
    conditions: str = ""
    transfers: tuple[Transfer, ...] = ()

    def __post_init__(self) -> None:
        for key in ("device", "date", "conditions"):
            check_type(getattr(self, key), str, f"provenance, {key}", "a text")
        if not self.device:
            raise InstanceError("provenance, device: found no text, expected the name of a device")
        try:
            date.fromisoformat(self.date)
        except ValueError:
            expected = "a date such as 2026-11-23"
            raise InstanceError(f"provenance, date: found {shown(self.date)}, expected {expected}") from None
        check_integer(self.repetitions, 1, "provenance, repetitions")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object; without conditions or transfers if there are none."""
        found = {**Written.to_dict(self), "versions": dict(self.versions)}
        return {key: value for key, value in found.items() if value or key not in ("conditions", "transfers")}
