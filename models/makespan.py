"""The makespan problem: identical processors share one memory; the fastest schedule within its bytes."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from .errors import InstanceError
from .graph import Accounting, Graph
from .lowering import lower_runs
from .machine import Access, Machine, Processor, Tier
from .placement import Question
from .plan import Plan, Run
from .problem import Judgement
from .units import exact_bytes
from .verify import verify

Starts = tuple[int, ...]
"""The answer: the start of each op in ns, by its index."""


@dataclass(frozen=True)
class Makespan:
    """Makespan under a memory bound: the fastest schedule that never holds more bytes than there are.

    Each op runs once, without interruption, on one of several identical processors, under the graph's
    precedence; all share one memory, where tensors live as the graph's accounting says. The objective is the
    makespan in ns.

    Parameters
    ----------
    graph
        Ops with one mode each, which runs on any processor.
    processors
        How many, at least 1.
    memory
        Capacity of the memory in bytes; None: no limit.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If there are no ops, a number is out of range, or an op has several modes, or one for some processors
        or tiers only.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("gen:chain?n=4&seed=1"), processors=2)
    >>> problem.name, problem.unit
    ('makespan', 'ns')
    """

    graph: Graph
    processors: int = 1
    memory: int | None = None
    source: str | None = None
    name: ClassVar[str] = "makespan"
    unit: ClassVar[str] = "ns"

    def __post_init__(self) -> None:
        if not self.graph.ops:
            raise InstanceError(f"makespan, graph {self.graph.name!r}: found no ops, expected at least one")
        for what, value, least in (("processors", self.processors, 1), ("memory", self.memory, 0)):
            if value is not None and (type(value) is not int or value < least):
                raise InstanceError(f"makespan, {what}: found {value!r}, expected an integer >= {least}")
        if self.processors is None:
            raise InstanceError("makespan, processors: found None, expected an integer >= 1")
        for i, op in enumerate(self.graph.ops):
            modes = op.all_modes
            if len(modes) > 1 or modes[0].processors or modes[0].operands:
                raise InstanceError(
                    f"makespan, op {i} {op.name!r}: found {len(modes)} modes, or one for some processors or "
                    "tiers only, expected one for every processor"
                )

    @cached_property
    def instance(self) -> Question:
        """Name, source and hash of graph and question together."""
        said = {"graph": self.graph.sha256, "processors": self.processors, "memory": self.memory}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        room = "unlimited memory" if self.memory is None else f"{self.memory} bytes"
        return Question(
            name=f"{self.graph.name} on {self.processors} processors, {room}",
            source=self.source,
            sha256=hashlib.sha256(text.encode()).hexdigest(),
        )

    @cached_property
    def machine(self) -> Machine:
        """The processors and their memory."""
        access = (Access(tier="memory"),)
        return Machine(
            name=f"{self.processors} processors",
            tiers=(Tier(name="memory", capacity=self.memory),),
            processors=tuple(Processor(name=f"p{k}", tiers=access) for k in range(self.processors)),
        )

    @cached_property
    def durations(self) -> tuple[int, ...]:
        """Nanoseconds of each op."""
        return tuple(op.all_modes[0].duration_ns for op in self.graph.ops)

    def read(self, item: object) -> Starts:
        """Return the start of each op, given a plan or a sequence of starts by op; `judge` looks at them.

        Raises
        ------
        InstanceError
            If it is neither, has not exactly one start of each op, or the plan is for another graph.
        """
        if isinstance(item, Plan):
            if item.graph_sha256 not in (None, self.graph.sha256):
                raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
            if len(item.machine.tiers) != 1 or item.period is not None:
                raise InstanceError("found a plan that is none for one memory, without period")
            start = {run.op: run.start for run in item.runs}
            if len(item.runs) != len(start) or sorted(start) != list(range(len(self.graph.ops))):
                raise InstanceError(f"found a plan of {len(item.runs)} runs, expected one of each op")
            return tuple(start[i] for i in range(len(self.graph.ops)))
        if not isinstance(item, Sequence) or isinstance(item, str | bytes):
            raise InstanceError(f"found {type(item).__name__}, expected a Plan or the start of each op")
        if len(item) != len(self.graph.ops):
            raise InstanceError(f"found {len(item)} starts, expected {len(self.graph.ops)}")
        return tuple(int(s) for s in item)

    def evaluate(self, answer: Sequence[int]) -> int:
        """Return the makespan in ns."""
        return max(s + d for s, d in zip(answer, self.durations, strict=True))

    def satisfied(self, objective: int) -> bool:
        """Return False: faster is always welcome."""
        return False

    def impossible(self) -> str | None:
        """Return why there is no schedule, if one op needs more bytes than there are."""
        if self.memory is None:
            return None
        tensors, coexist = self.graph.tensors, self.graph.accounting is Accounting.COEXIST
        kept = {t for t, tensor in enumerate(tensors) if tensor.initial and tensor.final}
        for i, op in enumerate(self.graph.ops):
            held = kept | set(op.writes) | {t for t in op.reads if coexist or tensors[t].final}
            needed = sum(tensors[t].nbytes for t in held) + op.all_modes[0].workspace
            if needed > self.memory:
                return (
                    f"op {i} {op.name!r} needs {exact_bytes(needed)}, with all that is kept throughout, "
                    f"of {exact_bytes(self.memory)}"
                )
        return None

    def judge(self, answer: Sequence[int]) -> Judgement:
        """Lower the starts to a plan and verify it."""
        plan = self.lower(answer)
        verdict = verify(self.graph, plan, rerun=False)
        objective = verdict.makespan if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def lower(self, answer: Sequence[int]) -> Plan:
        """Return the plan of the starts; an op takes the processor that has been idle longest.

        If no more ops run at once than there are processors, that one is idle: it is the one whose last op
        ended first.
        """
        idle = [(0, k) for k in range(self.processors)]
        runs = []
        for start, i in sorted((s, i) for i, s in enumerate(answer)):
            _, k = heapq.heappop(idle)
            end = start + self.durations[i]
            runs.append(Run(i, 0, start, end, f"p{k}"))
            heapq.heappush(idle, (end, k))
        return lower_runs(self.graph, runs, self.machine)
