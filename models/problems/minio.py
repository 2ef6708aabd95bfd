"""The I/O problem: within a memory, which order writes the fewest bytes to secondary storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ..checks import check_flag, check_type, set_bytes
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


@dataclass(frozen=True)
class MinIO(Problem):
    """Least I/O: an order of the ops, and what of which tensor is in storage when, to write the fewest bytes.

    Each op runs once, with all that it accesses in the memory. In between, bytes may be written to the
    storage, released, and read back. The objective is the number of bytes written; initial tensors start in
    the memory, final ones may end in either.

    Parameters
    ----------
    graph
        Accounting ``coexist``, one mode for each op.
    memory
        Capacity of the memory in bytes, also as ``"12GiB"``. The storage is unlimited.
    whole
        Tensors are moved whole; else in any parts.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If the graph has no ops, another accounting or ops with a choice, or the memory is negative.

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
    source: str | None = None
    name: ClassVar[str] = "minio"
    unit: ClassVar[str] = "bytes"
    picture: ClassVar[str] = "timeline"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "memory": Parameter("", "capacity of the memory", kind="size", required=True),
        "whole": Parameter(False, "tensors are written and read whole, not in any parts"),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "minio, graph", A_GRAPH)
        check_flag(self.whole, "minio, whole")
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
        """Return graph, memory and question."""
        return {"graph": self.graph.sha256, "memory": self.memory, "whole": self.whole}

    def read(self, item: object) -> Plan:
        """Return a plan, or that of a `Traversal`; the verifier looks at it in `judge`.

        Raises
        ------
        InstanceError
            If it is neither, or a plan for another graph or machine or with a period, or the traversal
            evicts more of a tensor than the memory holds.
        """
        if isinstance(item, Traversal):
            return lower_traversal(self.graph, item, self.machine)
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
        """Return the bytes that are copied to the storage."""
        return sum(self.written(answer))

    def written(self, answer: Plan) -> list[int]:
        """Return by tensor the bytes that are copied to the storage."""
        nbytes = [0] * len(self.graph.tensors)
        for c in answer.copies:
            if c.dst == STORAGE:
                size = self.graph.tensors[c.tensor].nbytes
                nbytes[c.tensor] += size if c.bytes is None else c.bytes[1] - c.bytes[0]
        return nbytes

    def impossible(self) -> str | None:
        """Return why there is no plan, if the beginning or one op needs more bytes than there are.

        Else there is one: between ops, everything can be in the storage.
        """
        graph, room = self.graph, exact_bytes(self.memory)
        if (first := sequential_memory(graph).initial_bytes) > self.memory:
            return f"at the start {exact_bytes(first)} are in the memory, of {room}"
        for i, op in enumerate(graph.ops):
            operands = {*op.reads, *op.writes}
            needed = sum(graph.tensors[t].nbytes for t in operands) + op.all_modes[0].workspace
            if needed > self.memory:
                return f"op {i} {op.name!r} needs {exact_bytes(needed)}, of {room}"
        return None

    def judge(self, answer: Plan) -> Judgement:
        """Verify the plan, and that it keeps to whole tensors if it must; the objective is its traffic."""
        verdict = verify(self.graph, answer, rerun=False, start_tiers=dict.fromkeys(KINDS, (MEMORY,)))
        if self.whole and (broken := partial_copies(self.graph, answer)):
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *broken]))
        objective = verdict.traffic.get((MEMORY, STORAGE), 0) if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=answer)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the most bytes in memory and storage at a time."""
        return peak_facts(judgement.verification)
