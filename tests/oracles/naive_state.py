"""What the naive simulator keeps: copies and runs under way, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowtide.models.graph import Mode
from lowtide.models.machine import Processor
from lowtide.models.plan import Copy, Run
from tests.oracles.naive_rules import Fault

STALE = -1

Steps = dict[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Outcome:
    """What the naive simulator saw; `faults` may name the same fault at several instants."""

    faults: frozenset[Fault]
    profiles: Steps
    peaks: dict[str, int]
    makespan: int
    stall: int
    traffic: dict[tuple[str, str], int]
    recomputed: int

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(fault[0] for fault in self.faults)

    @property
    def valid(self) -> bool:
        return not self.faults


@dataclass(eq=False)
class Transfer:
    """A copy under way. One that straddles the period's end is two: the last part of the copy that
    began in the period before (`head`), and the first part of the one that begins in this period.
    """

    position: int
    copy: Copy
    units: range
    started: int
    end: int
    content: int
    head: bool = False
    broken: bool = False
    target_lost: bool = False


@dataclass(eq=False)
class Running:
    """A run under way: for each tensor that it reads the tiers that still serve it, and the tensors
    that it writes in vain because something else got at their bytes.
    """

    run: Run
    mode: Mode
    processor: Processor
    tiers: dict[int, list[str]] = field(default_factory=dict)
    spoilt: set[int] = field(default_factory=set)
