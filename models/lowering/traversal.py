"""Traversals with evictions, and the plans that they make: one action after another.

Before a run, first what is to be evicted is written to the storage and released, then what the run reads is
read back, all that is missing. Bytes that the storage has are released without another copy; it keeps them
until an op changes the tensor. What an op is the last to access is released when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InstanceError
from ..graph import Graph
from ..machine import Machine
from ..plan import Plan
from ..units import SECOND
from .builder import PlanBuilder

MEMORY, STORAGE = "memory", "storage"
"""The tiers of the machine."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Before the run at place `step` of the order, `nbytes` more bytes of `tensor` go to the storage."""

    step: int
    tensor: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Traversal:
    """An order of all ops, and evictions; those of one step happen as listed."""

    order: tuple[int, ...]
    evictions: tuple[Eviction, ...] = ()


def lower_traversal(graph: Graph, traversal: Traversal, machine: Machine, *, stored: bool = False) -> Plan:
    """Return the plan of a traversal; whether it fits is for the verifier.

    Bytes of a tensor are evicted from its beginning on. If `stored`, initial tensors start in the storage,
    and final ones go there, as far as they are not there yet, when the last op that accesses them ends.

    Raises
    ------
    InstanceError
        If the order does not name each op once, or a step or tensor does not exist, or more of a tensor is
        evicted than is in the memory.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.MinIO(lt.load("gen:chain?n=3&sizes=equal"), memory=20)
    >>> plan = problem.read(lt.Traversal((0, 1, 2), (lt.Eviction(1, 0, 4),)))
    >>> [(copy.src, copy.dst, copy.bytes) for copy in plan.copies]
    [('memory', 'storage', (0, 4)), ('storage', 'memory', (0, 4))]
    """
    return _Lowering(graph, machine, stored).lowered(traversal)


class _Lowering:
    """Now, what exists, and of each tensor the bytes [0, e) that the memory lacks or the storage has."""

    def __init__(self, graph: Graph, machine: Machine, stored: bool) -> None:
        self.graph, self.machine, self.stored = graph, machine, stored
        self.out = PlanBuilder(graph, machine)
        self.now = 0
        self.rates = {(c.src, c.dst): c.bytes_per_s for c in machine.channels}
        self.accessors = _accessors_of(graph)
        self.resident = {
            t for t, x in enumerate(graph.tensors) if x.initial and (self.accessors[t] or x.final)
        }
        first = {t: graph.tensors[t].nbytes for t in self.resident if stored}
        self.away, self.saved = dict(first), dict(first)

    def lowered(self, traversal: Traversal) -> Plan:
        graph, order = self.graph, traversal.order
        if sorted(order) != list(range(len(graph.ops))):
            raise InstanceError(f"traversal, order: expected each of the {len(graph.ops)} ops once")
        due: dict[int, list[Eviction]] = {}
        for eviction in traversal.evictions:
            if not (0 <= eviction.step < len(order) and 0 <= eviction.tensor < len(graph.tensors)):
                raise InstanceError(
                    f"found {eviction}, expected the place of a run and the index of a tensor"
                )
            due.setdefault(eviction.step, []).append(eviction)
        out = self.out
        home = STORAGE if self.stored else MEMORY
        out.start_used(home)
        left = [len(some) for some in self.accessors]
        for t in sorted(self.resident):
            if not left[t] and not graph.tensors[t].final:
                out.free(t, home, 0)
        processors = {p.kind: p.name for p in self.machine.processors}
        anyone = self.machine.processors[0].name
        for step, i in enumerate(order):
            for eviction in due.get(step, ()):
                self._evict(eviction)
            op = graph.ops[i]
            mode = op.all_modes[0]
            operands = sorted({*op.reads, *op.writes})
            for t in operands:
                self._fetch(t, t in op.reads, t in op.writes, left[t] == 1)
            name = next((processors[kind] for kind in mode.processors if kind in processors), anyone)
            out.run(i, 0, self.now, self.now + mode.duration_ns, name)
            self.now += mode.duration_ns
            for t in operands:
                left[t] -= 1
                self.resident.add(t)
                if not left[t] and graph.tensors[t].final and self.stored:
                    self._save(t, graph.tensors[t].nbytes)
                if not left[t] and (not graph.tensors[t].final or self.stored):
                    out.free(t, MEMORY, self.now)
                    self.resident.discard(t)
        return out.plan(start_tiers={x.kind: (home,) for x in graph.tensors if x.initial})

    def _evict(self, eviction: Eviction) -> None:
        t, first = eviction.tensor, self.away.get(eviction.tensor, 0)
        room = self.graph.tensors[t].nbytes - first if t in self.resident else 0
        if not 0 < eviction.nbytes <= room:
            raise InstanceError(f"found {eviction}, expected from 1 to {room} bytes, which are in the memory")
        self.away[t] = first + eviction.nbytes
        self._save(t, self.away[t])
        self.out.free(t, MEMORY, self.now, self.out.part(t, first, self.away[t]))

    def _save(self, t: int, end: int) -> None:
        """Write to the storage what it lacks of the bytes [0, end)."""
        if (begin := self.saved.get(t, -1)) < end:  # a tensor without bytes is copied, too
            self._copy(t, MEMORY, STORAGE, max(begin, 0), end)
            self.saved[t] = end

    def _fetch(self, t: int, reads: bool, writes: bool, last: bool) -> None:
        """Read what is missing, unless it is overwritten; release in the storage what is not needed there."""
        if (end := self.away.pop(t, None)) is not None and reads:
            self._copy(t, STORAGE, MEMORY, 0, end)
        if t in self.saved and (writes or (last and not self.graph.tensors[t].final)):
            self.out.free(t, STORAGE, self.now, self.out.part(t, 0, self.saved.pop(t)))

    def _copy(self, t: int, src: str, dst: str, low: int, high: int) -> None:
        """Copy bytes."""
        begin = self.now
        self.now += -(-(high - low) * SECOND // self.rates[src, dst])
        self.out.copy(t, src, dst, begin, self.now, self.out.part(t, low, high))


def _accessors_of(graph: Graph) -> Sequence[Sequence[int]]:
    """Return the ops that access each tensor."""
    accessors: list[list[int]] = [[] for _ in graph.tensors]
    for i, op in enumerate(graph.ops):
        for t in sorted({*op.reads, *op.writes}):
            accessors[t].append(i)
    return accessors
