"""A placement as tables for the search one by one, and what its steps are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ....models.graph import Accounting, Op
from ....models.problems.placement import Placement

NEVER = 2**60
"""More than any time in ns, number of bytes or position: unlimited, unreachable or never needed."""

Where = tuple[int, ...]
"""Per tensor, bits of the tiers that hold its current version."""


@dataclass(frozen=True)
class Execution:
    """How an op may run: processor, number of the mode, tiers per read as bits, tier per write."""

    processor: int
    mode: int
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]
    home: int


@dataclass(frozen=True)
class SerialMove:
    """What leads to a state: a run in some way, a copy from tier to tier, or a release (`copied` None).

    `dropped`: spare copies, as tensor and tier, that are released when the run has read them.
    """

    run: Execution | None = None
    dropped: tuple[tuple[int, int], ...] = ()
    copied: tuple[int, int, int] | None = None
    released: tuple[int, int] | None = None


@dataclass(frozen=True)
class State:
    """The next op, where everything is, and the bytes in each tier."""

    k: int
    where: Where
    used: tuple[int, ...]


class SerialTables:
    """A problem as tables."""

    def __init__(self, problem: Placement) -> None:
        self.problem = problem
        graph, machine = problem.graph, problem.machine
        self.graph, self.machine = graph, machine
        self.replace = graph.accounting is Accounting.REPLACE
        self.names = [tier.name for tier in machine.tiers]
        self.size = [t.nbytes for t in graph.tensors]
        self.capacity = [NEVER if t.capacity is None else t.capacity for t in machine.tiers]
        self.links = [(self.names.index(c.src), self.names.index(c.dst)) for c in machine.channels]
        self.hops = _hops(len(self.names), self.links)
        self.accesses: list[list[tuple[int, bool]]] = [[] for _ in graph.tensors]
        for k, op in enumerate(graph.ops):
            for t in sorted({*op.reads, *op.writes}):
                self.accesses[t].append((k, t in op.reads))
        self.ways = [self._ways(op) for op in graph.ops]
        self.lasting = [problem.periodic and t.initial and t.final for t in graph.tensors]

    def _ways(self, op: Op) -> list[Execution]:
        runs = []
        for p, processor in enumerate(self.machine.processors):
            tiers = [self.names.index(access.tier) for access in processor.tiers]
            for number, mode in enumerate(op.all_modes):
                kind = not mode.processors or processor.kind in mode.processors
                if not kind or not {tier for _, tier in mode.operands} <= {*self.names}:
                    continue
                named = {t: self.names.index(tier) for t, tier in mode.operands}
                everywhere = sum(1 << x for x in tiers)
                writes = {t: named.get(t, tiers[0]) for t in op.writes}
                reads = {t: 1 << named[t] if t in named else everywhere for t in op.reads}
                for t in reads.keys() & writes.keys():  # it is updated where it is read
                    reads[t] &= 1 << writes[t]
                if all(reads.values()):
                    runs.append(Execution(p, number, tuple(reads.items()), tuple(writes.items()), tiers[0]))
        return sorted(runs, key=lambda way: op.all_modes[way.mode].duration_ns)

    def needed(self, t: int, k: int) -> bool:
        """Return whether somebody needs the content of a tensor before op k."""
        some = self.accesses[t]
        at = bisect_left(some, (k, False))
        return some[at][1] if at < len(some) else self.graph.tensors[t].final

    def next_use(self, t: int, k: int) -> int:
        """Return the next op that accesses a tensor, those of the next iteration behind those of this one."""
        uses = self.accesses[t]
        at = bisect_left(uses, (k, False))
        if at < len(uses):
            return uses[at][0]
        return uses[0][0] + len(self.graph.ops) if uses and self.lasting[t] else NEVER


def _hops(many: int, links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return how many channels lead from each tier to each other one at least."""
    hops = [[0 if a == b else NEVER for b in range(many)] for a in range(many)]
    for _ in range(many):
        for src, dst in links:
            for b in range(many):
                hops[src][b] = min(hops[src][b], 1 + hops[dst][b])
    return hops
