"""The offsets problem: where in memory each buffer goes, so that the least memory suffices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from ..buffers import Bank, Buffers, bank_at, read_banks
from ..checks import check_flag, check_type
from ..derived.edges_of import edges_of
from ..errors import InstanceError, UsageError
from ..fact import Fact
from ..graph import Graph
from ..lowering.buffers import buffers_from_plan
from ..lowering.shared_addresses import buffers_of_order
from ..parameter import Parameter
from ..plan import Plan
from ..units import exact_bytes
from ..verifier.allocation import verify_allocation
from ..verifier.verify import verify
from .problem import Judgement, Problem


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The plan that buffers come from, and its graph."""

    graph: Graph
    plan: Plan


@dataclass(frozen=True)
class Offsets(Problem):
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
    banks
        Memories between which the buffers are divided, the fastest first: ``sram=64KiB/dram``. Then an
        address counts from the first byte of the first bank; the banks lie one behind the other, and the last
        one may be unlimited. A buffer lies in one bank; its alignment counts from the first byte of the bank,
        and a buffer whose pool has the name of a bank lies in that one. The objective is then
        the traffic (`Buffer.traffic`) of the buffers outside of the first bank. Empty: each pool is a memory
        of its own.

    Raises
    ------
    UsageError
        If any allocation will do, and a pool is unlimited or there are banks, or the banks are none.
    InstanceError
        If a fixed offset contradicts its own alignment, or with banks there are fixed offsets, in-place
        pairs, or pools that are no bank or have a capacity.

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
    banks: str = ""
    name: ClassVar[str] = "offsets"
    unit: ClassVar[str] = "bytes"
    picture: ClassVar[str] = "allocations"
    about: ClassVar[str] = "buffers"
    answers: ClassVar[str] = "allocation"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "capacity": Parameter("none", "of every pool: any allocation within it will do", kind="limit"),
        "banks": Parameter(
            "", "memories, the fastest first: the least traffic is outside of the first", kind="banks"
        ),
    }

    def __post_init__(self) -> None:
        expected = "a Buffers, as load_buffers(...) returns it"
        check_type(self.buffers, Buffers, "offsets, buffers", expected)
        check_flag(self.satisfy, "offsets, satisfy")
        check_type(self.origin, (Origin, type(None)), "offsets, origin", "an Origin or None")
        check_type(self.banks, str, "offsets, banks")
        self._check_banks()
        used = {b.pool for b in self.buffers.buffers}
        if self.satisfy and (free := [p for p in sorted(used) if self.buffers.pools[p] is None]):
            raise UsageError(f"offsets: found no capacity of pool {free[0]!r}, expected one to satisfy")
        for b in self.buffers.buffers:
            if b.offset is not None and b.offset % b.alignment:
                fault = f"found fixed offset {b.offset}, expected a multiple of its alignment {b.alignment}"
                raise InstanceError(f"buffer {b.id!r}: {fault}")

    def _check_banks(self) -> None:
        if not self.banks:
            return
        names = [bank.name for bank in self.bank_list]
        if self.satisfy:
            raise UsageError("offsets: found banks and any allocation that will do, expected one of both")
        if self.buffers.inplace:
            raise InstanceError(
                f"buffers, inplace: found {self.buffers.inplace[0]}, expected none with banks"
            )
        if fixed := [b for b in self.buffers.buffers if b.offset is not None]:
            raise InstanceError(f"buffer {fixed[0].id!r}: found a fixed offset, expected none with banks")
        for pool, capacity in self.buffers.pools.items():
            if capacity is not None or pool not in ("", *names):
                stated = f"pool {pool!r}, capacity {capacity}"
                raise InstanceError(
                    f"buffers: found {stated}, expected no pool, or a bank without a capacity"
                )

    @cached_property
    def bank_list(self) -> tuple[Bank, ...]:
        """The banks; none if each pool is a memory of its own."""
        return read_banks(self.banks) if self.banks else ()

    @property
    def freedoms(self) -> tuple[str, ...]:
        """That buffers may lie in one of several banks."""
        return ("banks",) if self.banks else ()

    @classmethod
    def of(
        cls,
        subject: Buffers,
        *,
        source: str | None = None,
        graph: Graph | None = None,
        plan: Plan | None = None,
        **values: Any,
    ) -> Self:
        """Return the problem about buffers, and the plan and the graph that they come from, if any."""
        origin = None if graph is None or plan is None else Origin(graph=graph, plan=plan)
        return cls(subject, origin=origin, **values)

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

    @classmethod
    def from_order(
        cls, graph: Graph, edges: Sequence[tuple[int, int]] = (), *, capacity: int | None = None
    ) -> Offsets:
        """Return the problem of addresses that hold in every execution of a graph with further edges.

        Parameters
        ----------
        edges
            Pairs (i, j): op i must end before op j starts; those of streams are in `Result.edges`.
        capacity
            Of the memory in bytes; None if unlimited.

        Raises
        ------
        InstanceError
            If an edge is no pair of ops or dangles, or they close a cycle.

        Examples
        --------
        >>> import lowtide as lt
        >>> ops = (lt.Op(name="a", workspace=3), lt.Op(name="b", workspace=4))
        >>> two = lt.Graph(name="two", tensors=(), ops=ops)
        >>> [lt.solve(lt.Offsets.from_order(two, edges)).objective for edges in ((), [(0, 1)])]
        [7, 4]
        """
        check_type(graph, Graph, "offsets, graph")
        return cls(buffers_of_order(graph, edges_of(graph, edges), capacity=capacity))

    def name_and_source(self) -> tuple[str, str | None]:
        """Return name and source of the buffers."""
        banks = f", banks {self.banks}" if self.banks else ""
        return f"{self.buffers.name}{banks}", self.buffers.source

    def payload(self) -> dict[str, Any] | str:
        """Return the hash of the buffers, and the banks if there are some."""
        return {"offsets": self.buffers.sha256, "banks": self.banks} if self.banks else self.buffers.sha256

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
        if self.banks:
            return answer
        for pool, height in self.heights(answer).items():
            capacity = self.buffers.pools[pool]
            if capacity is not None and height > capacity:
                raise InstanceError(f"pool {pool!r}: found height {height}, expected at most {capacity}")
        return answer

    def heights(self, answer: Mapping[str, int]) -> dict[str, int]:
        """Return the height of each pool, or of each bank, in bytes."""
        if self.banks:
            placed, answer = self.in_banks(answer)
            return Offsets(placed).heights(answer)
        heights = dict.fromkeys(self.buffers.pools, 0)
        for b in self.buffers.buffers:
            heights[b.pool] = max(heights[b.pool], answer[b.id] + b.size)
        return heights

    def evaluate(self, answer: Mapping[str, int]) -> int:
        """Return the sum of the heights of the pools; with banks, the traffic outside of the first."""
        if self.banks:
            placed, _ = self.in_banks(answer)
            return sum(b.moved for b in placed.buffers if b.pool != self.bank_list[0].name)
        return sum(self.heights(answer).values())

    def in_banks(self, answer: Mapping[str, int]) -> tuple[Buffers, dict[str, int]]:
        """Return the buffers with banks as pools, and their addresses counted from the bank's first byte."""
        number = {bank.name: k for k, bank in enumerate(self.bank_list)}
        where = {
            b.id: number[b.pool] if b.pool else bank_at(self.bank_list, answer[b.id])
            for b in self.buffers.buffers
        }
        chosen = (replace(b, pool=self.bank_list[where[b.id]].name) for b in self.buffers.buffers)
        pools = {bank.name: bank.size for bank in self.bank_list}
        offsets = {i: x - self.bank_list[where[i]].begin for i, x in answer.items()}
        return replace(self.buffers, buffers=tuple(chosen), pools=pools), offsets

    def satisfied(self, objective: int) -> bool:
        """Return whether any allocation will do."""
        return self.satisfy

    @property
    def plan_graph(self) -> Graph | None:
        """The graph of the plan that the buffers come from, if they do."""
        return None if self.origin is None else self.origin.graph

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return how many bytes of each bank an answer takes."""
        if not self.banks or judgement.allocation is None:
            return []
        heights = self.heights(judgement.allocation)
        return [Fact(f"bank {name}", heights[name], exact_bytes(heights[name])) for name in heights]

    def judge(self, answer: Mapping[str, int]) -> Judgement:
        """Verify the allocation and, if the buffers come from a plan, the plan with it."""
        if self.banks:
            verdict = verify_allocation(*self.in_banks(answer))
            outside = self.evaluate(answer) if verdict.valid else None
            return Judgement(objective=outside, verification=verdict, allocation=answer)
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
