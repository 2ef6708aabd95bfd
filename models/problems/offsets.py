"""The offsets problem: where in memory each buffer goes, so that the least memory suffices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from ..buffers import Buffers
from ..checks import check_flag, check_type
from ..derived.edges_of import edges_of
from ..errors import InstanceError, UsageError
from ..graph import Graph
from ..lowering.buffers import buffers_from_plan
from ..lowering.shared_addresses import buffers_of_order
from ..parameter import Parameter
from ..plan import Plan
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
    picture: ClassVar[str] = "allocations"
    about: ClassVar[str] = "buffers"
    answers: ClassVar[str] = "allocation"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "capacity": Parameter("none", "of every pool: any allocation within it will do", kind="limit"),
    }

    def __post_init__(self) -> None:
        expected = "a Buffers, as load_buffers(...) returns it"
        check_type(self.buffers, Buffers, "offsets, buffers", expected)
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

    def called(self) -> tuple[str, str | None]:
        """Return name and source of the buffers."""
        return self.buffers.name, self.buffers.source

    def said(self) -> str:
        """Return the hash of the buffers."""
        return self.buffers.sha256

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

    @property
    def plan_graph(self) -> Graph | None:
        """The graph of the plan that the buffers come from, if they do."""
        return None if self.origin is None else self.origin.graph

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
