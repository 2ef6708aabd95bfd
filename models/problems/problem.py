"""Problem statements: an instance and a question, frozen.

Each problem says what an **answer** to it is (of `peak` an order of the ops, of `offsets` an address for
each buffer), reads one from what methods and users give, and has the verifier judge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from ..buffers import Buffers
from ..checks import check_flag, check_type
from ..derived.memory import sequential_memory
from ..derived.precedence import check_order
from ..errors import InstanceError, UsageError
from ..graph import Graph
from ..lowering.buffers import buffers_from_plan
from ..plan import Plan
from ..verifier.allocation import AllocationVerdict, verify_allocation
from ..verifier.verdict import Verification, Violation
from ..verifier.verify import verify


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the verifier says of an answer, lowered to a plan or an allocation or both.

    Attributes
    ----------
    objective
        Recomputed by the verifier; None if the answer is wrong.
    verification
        The verdict on the plan or, without a plan, on the allocation.
    """

    objective: int | None
    verification: Verification | AllocationVerdict
    plan: Plan | None = None
    allocation: Mapping[str, int] | None = None
    edges: tuple[tuple[int, int], ...] | None = None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """What is wrong with the answer."""
        return self.verification.violations


class Instance(Protocol):
    """What a question is about."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def source(self) -> str | None:
        """What it was loaded from."""

    @property
    def sha256(self) -> str:
        """Hash of all that it says."""


class Problem(Protocol):
    """What `solve` asks of every problem."""

    name: ClassVar[str]
    unit: ClassVar[str]

    @property
    def instance(self) -> Instance:
        """What the question is about; it has a name, a source and a sha256."""

    def read(self, item: object) -> Any:
        """Return the answer that a method or a user gives; `InstanceError` if it is none."""

    def evaluate(self, answer: Any) -> int:
        """Return the objective of an answer (fast; the verifier has the last word)."""

    def satisfied(self, objective: int) -> bool:
        """Return whether an answer of this objective is all that was asked for."""

    def impossible(self) -> str | None:
        """Return a witness that there is no answer at all, if a look at the instance shows one."""

    def judge(self, answer: Any) -> Judgement:
        """Have the verifier recompute the objective of an answer."""


@dataclass(frozen=True)
class Peak:
    """Minimum peak memory: a topological order of the ops whose peak is least.

    Every op runs once, one after another, on one unlimited memory, under the graph's precedence and
    accounting; the objective is the peak of the memory profile in bytes.

    Examples
    --------
    >>> import lowtide as lt
    >>> lt.Peak(lt.load("gen:chain?n=4&seed=1")).name
    'peak'
    """

    graph: Graph
    name: ClassVar[str] = "peak"
    unit: ClassVar[str] = "bytes"

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "peak, graph")

    @property
    def instance(self) -> Graph:
        """The graph."""
        return self.graph

    def read(self, item: object) -> tuple[int, ...]:
        """Return the order of a plan or of a sequence of op indices.

        Raises
        ------
        InstanceError
            If it is neither, or invalid.
        """
        if isinstance(item, Plan):
            verdict = verify(self.graph, item, rerun=False)
            if not verdict.valid:
                raise InstanceError(f"found an invalid plan, {verdict.violations[0].message}")
            if len(item.machine.tiers) != 1 or item.period is not None:
                raise InstanceError("found a plan that is none for one memory, without period")
            order = item.order
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            order = tuple(int(i) for i in item)
        else:
            raise InstanceError(f"found {type(item).__name__}, expected a Plan or a sequence of op indices")
        check_order(self.graph, order)
        return order

    def evaluate(self, answer: Sequence[int]) -> int:
        """Return the peak of a valid order in bytes."""
        return sequential_memory(self.graph).peak(answer)

    def satisfied(self, objective: int) -> bool:
        """Return False: a lower peak is always welcome."""
        return False

    def impossible(self) -> str | None:
        """Return None: every graph has an order."""
        return None

    def judge(self, answer: Sequence[int]) -> Judgement:
        """Lower the order to a plan and verify it."""
        plan = Plan.from_order(self.graph, answer)
        verdict = verify(self.graph, plan, rerun=False)
        objective = max(verdict.peaks.values()) if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The plan that buffers come from, and its graph."""

    graph: Graph
    plan: Plan


@dataclass(frozen=True)
class Offsets:
    """Offset allocation: an address for each buffer so that the least memory suffices.

    Buffers that are alive at one time have disjoint addresses (`lowtide.models.verifier.allocation` states
    every rule); the objective is the height of the highest buffer in bytes, summed over the pools.
    Elsewhere called dynamic storage allocation or static memory planning.

    Parameters
    ----------
    buffers
        What is to be placed; no pool may need more than its capacity.
    satisfy
        Any allocation within the capacities will do.
    origin
        Set by `from_plan`.

    Raises
    ------
    UsageError
        If any allocation will do, and a pool is unlimited.
    InstanceError
        If a fixed offset contradicts its own alignment.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.models.buffers import Buffer, Buffers
    >>> x, y = Buffer(id="x", lower=0, upper=3, size=4), Buffer(id="y", lower=2, upper=5, size=8)
    >>> result = lt.solve(lt.Offsets(Buffers(buffers=(x, y))))
    >>> result.status, result.objective
    (<Status.OPTIMAL: 'optimal'>, 12)
    """

    buffers: Buffers
    satisfy: bool = False
    origin: Origin | None = None
    name: ClassVar[str] = "offsets"
    unit: ClassVar[str] = "bytes"

    def __post_init__(self) -> None:
        check_type(self.buffers, Buffers, "offsets, buffers")
        check_flag(self.satisfy, "offsets, satisfy")
        check_type(self.origin, (Origin, type(None)), "offsets, origin", "an Origin or None")
        used = {b.pool for b in self.buffers.buffers}
        if self.satisfy and (free := [p for p in sorted(used) if self.buffers.pools[p] is None]):
            raise UsageError(f"offsets: found no capacity of pool {free[0]!r}, expected one to satisfy")
        for b in self.buffers.buffers:
            if b.offset is not None and b.offset % b.alignment:
                fault = f"found fixed offset {b.offset}, expected a multiple of its alignment {b.alignment}"
                raise InstanceError(f"buffer {b.id!r}: {fault}")

    @classmethod
    def from_plan(cls, graph: Graph, plan: Plan, *, satisfy: bool = False) -> Offsets:
        """Return the problem of allocating the residencies and workspaces of a plan.

        Raises
        ------
        InstanceError
            If the plan does not verify.
        """
        check_type(graph, Graph, "offsets, graph")
        check_type(plan, Plan, "offsets, plan")
        bare = replace(plan, allocation=None)
        verdict = verify(graph, bare)
        if not verdict.valid:
            raise InstanceError(f"found an invalid plan, {verdict.violations[0].message}")
        return cls(buffers_from_plan(graph, bare), satisfy, Origin(graph=graph, plan=bare))

    @property
    def instance(self) -> Buffers:
        """The buffers."""
        return self.buffers

    def read(self, item: object) -> dict[str, int]:
        """Return the offsets by id of a mapping, of a plan's allocation, or of a sequence as buffers stand.

        Raises
        ------
        InstanceError
            If it is none of them, lacks a buffer, or a pool needs more than its capacity.
        """
        if isinstance(item, Plan):
            if item.allocation is None:
                raise InstanceError("found a plan without an allocation, expected one with it")
            item = item.allocation
        ids = [b.id for b in self.buffers.buffers]
        if isinstance(item, Sequence) and not isinstance(item, str | bytes):
            if len(item) != len(ids):
                raise InstanceError(f"found {len(item)} offsets, expected {len(ids)}")
            item = dict(zip(ids, item, strict=True))
        if not isinstance(item, Mapping):
            raise InstanceError(
                f"found {type(item).__name__}, expected offsets by buffer id, or in the buffers' order"
            )
        missing = next((i for i in ids if i not in item), None)
        if missing is not None:
            raise InstanceError(f"found no offset of buffer {missing!r}, expected one")
        answer = {i: int(item[i]) for i in ids}
        for pool, height in self.heights(answer).items():
            capacity = self.buffers.pools[pool]
            if capacity is not None and height > capacity:
                raise InstanceError(f"pool {pool!r}: found height {height}, expected at most {capacity}")
        return answer

    def heights(self, answer: Mapping[str, int]) -> dict[str, int]:
        """Return the height of each pool in bytes."""
        heights = dict.fromkeys(self.buffers.pools, 0)
        for b in self.buffers.buffers:
            heights[b.pool] = max(heights[b.pool], answer[b.id] + b.size)
        return heights

    def evaluate(self, answer: Mapping[str, int]) -> int:
        """Return the sum of the heights of the pools in bytes."""
        return sum(self.heights(answer).values())

    def satisfied(self, objective: int) -> bool:
        """Return whether any allocation will do."""
        return self.satisfy

    def impossible(self) -> str | None:
        """Return None: only a proof can tell."""
        return None

    def judge(self, answer: Mapping[str, int]) -> Judgement:
        """Verify the allocation and, if the buffers come from a plan, the plan with it."""
        verdict = verify_allocation(self.buffers, answer)
        objective = sum(verdict.heights.values()) if verdict.valid else None
        if self.origin is None or not verdict.valid:
            return Judgement(objective=objective, verification=verdict, allocation=answer)
        plan = replace(self.origin.plan, allocation=answer)
        whole = verify(self.origin.graph, plan)
        return Judgement(
            objective=objective if whole.valid else None,
            verification=whole,
            plan=plan,
            allocation=answer,
        )
