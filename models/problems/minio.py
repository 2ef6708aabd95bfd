"""The I/O problem: within a memory, which order writes the fewest bytes to secondary storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ..checks import check_flag, check_type, set_bytes, shown
from ..derived.memory import sequential_memory
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, KINDS, Accounting, Graph
from ..lowering.traversal import MEMORY, STORAGE, Eviction, Traversal, lower_traversal
from ..machine import Channel, Machine, Tier
from ..parameter import Parameter
from ..plan import Plan
from ..units import exact_bytes
from ..verifier.verdict import sorted_violations
from ..verifier.verify import verify
from .placement import partial_copies
from .problem import Judgement, Problem, peak_facts

__all__ = ["Eviction", "MinIO", "Traversal"]

BYTES_PER_S = 10**9
"""Of both channels: a byte takes a nanosecond. The objective does not depend on it."""


COUNTS = ("writes", "traffic")
"""Which bytes the objective counts: those that are written, or those that are written and those read."""


@dataclass(frozen=True)
class MinIO(Problem):
    """Least I/O: an order of the ops, and what of which tensor is in storage when, to move the fewest bytes.

    Each op runs once, with all that it accesses in the memory. In between, bytes may be written to the
    storage, released, and read back, as often as needed: a value that was written stays in the storage until
    an op changes it. The objective is the number of bytes written, or of those written and those read;
    initial tensors start in the memory, final ones may end in either.

    Parameters
    ----------
    graph
        Accounting ``coexist``, one mode for each op.
    memory
        Capacity of the memory in bytes, also as ``"12GiB"``. The storage is unlimited.
    whole
        Tensors are moved whole; else in any parts.
    count
        ``"writes"``: bytes written count; ``"traffic"``: bytes written and bytes read. In a tree each value
        has one reader, so that the traffic is twice the writes; in other graphs the optima differ.
    stored
        Initial tensors start in the storage and final ones must end there, as in red-blue pebbling.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If the graph has no ops, another accounting or ops with a choice, the memory is negative, or `count`
        is none of the two.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.MinIO(lt.load("gen:intree?n=5&seed=1"), memory=100)
    >>> problem.name, problem.unit
    ('minio', 'bytes')
    """

    graph: Graph
    memory: int
    whole: bool = False
    count: str = "writes"
    stored: bool = False
    source: str | None = None
    name: ClassVar[str] = "minio"
    unit: ClassVar[str] = "bytes"
    picture: ClassVar[str] = "timeline"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "memory": Parameter("", "capacity of the memory", kind="size", required=True),
        "whole": Parameter(False, "tensors are written and read whole, not in any parts"),
        "count": Parameter("writes", "bytes that count: those written, or those read too", choices=COUNTS),
        "stored": Parameter(False, "initial tensors start in the storage, final ones must end there"),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "minio, graph", A_GRAPH)
        check_flag(self.whole, "minio, whole")
        check_flag(self.stored, "minio, stored")
        if self.count not in COUNTS:
            raise InstanceError(
                f"minio, count: found {shown(self.count)}, expected one of {', '.join(COUNTS)}"
            )
        check_type(self.source, (str, type(None)), "minio, source", "a str or None")
        where = f"minio, graph {self.graph.name!r}"
        if not self.graph.ops:
            raise InstanceError(f"{where}: found no ops, expected at least one")
        set_bytes(self, "memory", 0, "minio, memory")
        if self.graph.accounting is not Accounting.COEXIST:
            raise InstanceError(f"{where}: found accounting {self.graph.accounting}, expected coexist")
        for i, op in enumerate(self.graph.ops):
            if len(op.all_modes) > 1 or op.all_modes[0].operands:
                raise InstanceError(
                    f"{where}, op {i} {op.name!r}: found modes to choose from, or operands in stated tiers, "
                    "expected one mode with its operands in the memory"
                )

    @cached_property
    def machine(self) -> Machine:
        """The memory, the storage behind it, a channel each way, a processor of each kind that ops need."""
        kinds = sorted({kind for op in self.graph.ops for kind in op.all_modes[0].processors[:1]})
        single = Machine.single(capacity=self.memory, kinds=kinds or ("any",))
        return replace(
            single,
            name="memory and storage",
            tiers=(*single.tiers, Tier(name=STORAGE)),
            channels=tuple(
                Channel(src=a, dst=b, bytes_per_s=BYTES_PER_S)
                for a, b in ((MEMORY, STORAGE), (STORAGE, MEMORY))
            ),
        )

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name, the memory, and the source."""
        return f"{self.graph.name} in {self.memory} bytes", self.source

    def payload(self) -> dict[str, Any]:
        """Return graph, memory and question; defaults that are younger than the problem are left out."""
        younger = {} if self.count == "writes" else {"count": self.count}
        if self.stored:
            younger["stored"] = "1"
        return {"graph": self.graph.sha256, "memory": self.memory, "whole": self.whole, **younger}

    def read(self, item: object) -> Plan:
        """Return a plan, or that of a `Traversal`; the verifier looks at it in `judge`.

        Raises
        ------
        InstanceError
            If it is neither, or a plan for another graph or machine or with a period, or the traversal
            evicts more of a tensor than the memory holds.
        """
        if isinstance(item, Traversal):
            return lower_traversal(self.graph, item, self.machine, stored=self.stored)
        if not isinstance(item, Plan):
            raise InstanceError(f"found {type(item).__name__}, expected a Plan or a Traversal")
        if item.graph_sha256 not in (None, self.graph.sha256):
            raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
        if item.machine.to_dict() != self.machine.to_dict():
            raise InstanceError(f"found a plan for another machine than {self.memory} bytes and a storage")
        if item.period is not None:
            raise InstanceError("found a plan with a period, expected none")
        return item

    def evaluate(self, answer: Plan) -> int:
        """Return the bytes that are copied to the storage, and with ``count="traffic"`` those from it."""
        return sum(map(sum, self.moved(answer)))

    def moved(self, answer: Plan) -> list[list[int]]:
        """Return by tensor the bytes copied to the storage, and with ``count="traffic"`` those from it."""
        by_target = {tier: [0] * len(self.graph.tensors) for tier in (STORAGE, MEMORY)}
        for c in (c for c in answer.copies if c.dst in by_target):
            size = self.graph.tensors[c.tensor].nbytes
            by_target[c.dst][c.tensor] += size if c.bytes is None else c.bytes[1] - c.bytes[0]
        return [by_target[tier] for tier in ((STORAGE,) if self.count == "writes" else (STORAGE, MEMORY))]

    def written(self, answer: Plan) -> list[int]:
        """Return by tensor the bytes that are copied to the storage."""
        return self.moved(answer)[0]

    def impossible(self) -> str | None:
        """Return why there is no plan, if the beginning or one op needs more bytes than there are.

        Else there is one: between ops, everything can be in the storage.
        """
        graph, room = self.graph, exact_bytes(self.memory)
        first = 0 if self.stored else sequential_memory(graph).initial_bytes
        if first > self.memory:
            return f"at the start {exact_bytes(first)} are in the memory, of {room}"
        for i, op in enumerate(graph.ops):
            operands = {*op.reads, *op.writes}
            needed = sum(graph.tensors[t].nbytes for t in operands) + op.all_modes[0].workspace
            if needed > self.memory:
                return f"op {i} {op.name!r} needs {exact_bytes(needed)}, of {room}"
        return None

    def judge(self, answer: Plan) -> Judgement:
        """Verify the plan, and that it keeps to whole tensors if it must; the objective is its traffic."""
        tier = STORAGE if self.stored else MEMORY
        verdict = verify(
            self.graph,
            answer,
            rerun=False,
            start_tiers=dict.fromkeys(KINDS, (tier,)),
            final_tiers=(STORAGE,) if self.stored else None,
        )
        if self.whole and (broken := partial_copies(self.graph, answer)):
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *broken]))
        objective = verdict.traffic.get((MEMORY, STORAGE), 0)
        if self.count == "traffic":
            objective += verdict.traffic.get((STORAGE, MEMORY), 0)
        return Judgement(objective=objective if verdict.valid else None, verification=verdict, plan=answer)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the most bytes in memory and storage at a time."""
        return peak_facts(judgement.verification)
