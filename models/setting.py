"""The questions of `placement` and `arena` beside their graphs, which certificates are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .machine import Machine
from .written import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The question of `placement` beside its graph: machine, whether periodic, tiers at time 0 by kind.

    Where `start` is None inputs start in the outermost tier, and kinds that it does not name anywhere. The
    `order` of the ops is ``"reference"`` or ``"free"``.
    """

    problem: ClassVar[str] = "placement"
    unit: ClassVar[str] = "ns"
    machine: Machine
    periodic: bool
    start: Mapping[str, tuple[str, ...]] | None
    order: str = "reference"

    @property
    def starts(self) -> Mapping[str, tuple[str, ...]]:
        """By kind of tensor, the tiers where it may be at time 0; kinds that it does not name: anywhere."""
        return {"input": (self.machine.tiers[-1].name,)} if self.start is None else self.start

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        start = None if self.start is None else {k: list(v) for k, v in sorted(self.start.items())}
        order = {} if self.order == "reference" else {"order": self.order}
        return {"machine": self.machine.to_dict(), "periodic": self.periodic, "start": start, **order}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaSetting(Written):
    """The question of `arena` beside its graph.

    Attributes
    ----------
    alignment
        What every address is a multiple of, in bytes.
    pools
        Of each pool but the first one, the kinds of its tensors, joined by ``+``; all else is in the first.
    """

    problem: ClassVar[str] = "arena"
    unit: ClassVar[str] = "bytes"
    alignment: int
    pools: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, without pools where there is one alone."""
        found = Written.to_dict(self)
        return found if self.pools else {"alignment": self.alignment}
