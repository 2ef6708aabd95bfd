"""What the verifier derives from raw fields before it judges: versions, numbered tiers, names."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graph import Graph
from ..machine import Machine, Processor
from .verdict import Violation

Versions = tuple[tuple[int, int], ...]
"""``(tensor, version)`` pairs."""

PARTNERS = 16
"""Conflicts that one action is reported with, so that the report stays linear in the plan."""

MANY = 10_000
"""Violations after which an action is reported with one conflict only."""


class ProcessorFacts(NamedTuple):
    """A processor with its tiers as numbers: by preference for reads, its home, stated rates."""

    name: str
    kind: str
    tiers: tuple[int, ...]
    home: int
    rates: dict[int, int]


class Case:
    """A graph and a machine as the verifier sees them, and the list of violations found.

    Parameters
    ----------
    graph, machine
        What the plan is for.
    period
        Nanoseconds, or None.
    """

    def __init__(self, graph: Graph, machine: Machine, period: int | None) -> None:
        self.graph = graph
        self.machine = machine
        self.period = period
        self.tiers = [tier.name for tier in machine.tiers]
        self.tier_number = {name: k for k, name in enumerate(self.tiers)}
        self.capacity = [tier.capacity for tier in machine.tiers]
        self.processors = [_facts(p, self.tier_number) for p in machine.processors]
        self.nbytes = [tensor.nbytes for tensor in graph.tensors]
        self.processor_number = {p.name: k for k, p in enumerate(self.processors)}
        # A zero-byte tensor is one indivisible unit that weighs nothing.
        self.span = [max(n, 1) for n in self.nbytes]
        contention = machine.contention
        self.stretches = contention is not None and contention.model != "none"
        self.violations: list[Violation] = []

    def __getattr__(self, name: str) -> Any:
        """Derive `reads`, `writes` and `last` when one of them is first asked for: plain plans need none."""
        if name not in ("reads", "writes", "last"):
            raise AttributeError(name)
        self.reads, self.writes, self.last = _versions(self.graph)
        return self.__dict__[name]

    def report(self, kind: str, message: str, **witness: Any) -> None:
        """Add a violation; `witness` are further fields of `Violation`."""
        self.violations.append(Violation(kind=kind, message=message, **witness))

    def partners(self) -> int:
        """Return the number of conflicts that an action is reported with, at least one."""
        return PARTNERS if len(self.violations) < MANY else 1

    def op(self, i: int) -> str:
        """Return what messages call an op."""
        return f"op {i} {self.graph.ops[i].name!r}"

    def tensor(self, t: int) -> str:
        """Return what messages call a tensor."""
        return f"tensor {t} {self.graph.tensors[t].name!r}"

    def part(self, t: int, low: int, high: int) -> str:
        """Return what messages call bytes of a tensor."""
        whole = low == 0 and high == self.span[t]
        return self.tensor(t) if whole else f"bytes [{low}, {high}) of {self.tensor(t)}"


def _facts(processor: Processor, number: dict[str, int]) -> ProcessorFacts:
    """Return a processor with numbered tiers.

    Reads prefer tiers without extra time, then the faster ones, then the processor's order: its home
    before equals, so that what is read and written there counts once.
    """
    rates = {number[a.tier]: a.bytes_per_s for a in processor.tiers if a.bytes_per_s is not None}
    tiers = [number[a.tier] for a in processor.tiers]
    preferred = sorted(tiers, key=lambda k: (k in rates, -rates.get(k, 0)))
    return ProcessorFacts(processor.name, processor.kind, tuple(preferred), tiers[0], rates)


def _versions(graph: Graph) -> tuple[list[Versions], list[Versions], list[int]]:
    """Return per op the versions it reads and those it installs, and per tensor the last version.

    Version 0 is the initial content; every write in the reference order makes the next one.
    """
    current = [0] * len(graph.tensors)
    reads: list[Versions] = []
    writes: list[Versions] = []
    for op in graph.ops:
        reads.append(tuple((t, current[t]) for t in op.reads))
        for t in op.writes:
            current[t] += 1
        writes.append(tuple((t, current[t]) for t in op.writes))
    return reads, writes, current
