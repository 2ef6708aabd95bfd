"""Collects the actions of a plan as a lowering finds them, and makes the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..plan import ByteRange, Copy, Free, Plan, Resident, Run

if TYPE_CHECKING:
    from ..graph import Graph
    from ..machine import Machine


@dataclass(eq=False)
class PlanBuilder:
    """The actions of a plan so far, in any order; nothing is checked (the verifier does)."""

    graph: Graph
    machine: Machine
    residents: list[Resident] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    frees: list[Free] = field(default_factory=list)

    def start(self, tensor: int, tier: str, part: ByteRange | None = None, *, valid: bool = True) -> None:
        """Put bytes of an initial tensor into a tier at time 0."""
        self.residents.append(Resident(tensor, tier, part, valid))

    def start_used(self, tier: str) -> None:
        """Put the initial tensors that are accessed or final into a tier at time 0."""
        used = {t for op in self.graph.ops for some in (op.reads, op.writes) for t in some}
        self.residents += [
            Resident(t, tier)
            for t, x in enumerate(self.graph.tensors)
            if x.initial and (x.final or t in used)
        ]

    def run(self, op: int, mode: int, start: int, end: int, processor: str) -> None:
        """Run an op over ``[start, end)``, in ns."""
        self.runs.append(Run(op, mode, start, end, processor))

    def copy(
        self, tensor: int, src: str, dst: str, start: int, end: int, part: ByteRange | None = None
    ) -> None:
        """Copy bytes of a tensor over ``[start, end)``, in ns."""
        self.copies.append(Copy(tensor, src, dst, start, end, part))

    def free(self, tensor: int, tier: str, time: int, part: ByteRange | None = None) -> None:
        """Release bytes of a tensor from a tier at `time`, in ns."""
        self.frees.append(Free(tensor, tier, time, part))

    def part(self, tensor: int, low: int, high: int) -> ByteRange | None:
        """Return the byte range ``[low, high)`` of a tensor; None for the whole tensor."""
        return None if (low, high) == (0, self.graph.tensors[tensor].nbytes) else (low, high)

    def plan(
        self,
        *,
        period: int | None = None,
        stages: tuple[int, ...] | None = None,
        start_tiers: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Plan:
        """Return the plan of what is there; `period`, `stages` and `start_tiers` as `Plan` says."""
        graph = self.graph
        return Plan(
            machine=self.machine,
            accounting=graph.accounting,
            start=tuple(self.residents),
            start_tiers=start_tiers,
            runs=tuple(self.runs),
            copies=tuple(self.copies),
            frees=tuple(self.frees),
            period=period,
            stages=stages,
            graph_name=graph.name,
            graph_source=graph.source,
            graph_sha256=graph.sha256,
        )
