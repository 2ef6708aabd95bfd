"""The problem of bounding parallel memory: precedence edges after which no parallel schedule exceeds a bound.

A runtime that schedules dynamically obeys the precedence and nothing else. Edges between ops take away the
schedules that need too much memory; the price is a longer critical path, the least time in which the graph
runs on any number of processors. Deciding whether edges exist is NP-complete (Marchal, Nagy, Simon and
Vivien, IPDPS 2018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..checks import check_integer, check_type, set_bytes
from ..derived.edges_of import edges_of
from ..derived.memory import sequential_memory
from ..derived.precedence import order_with, successors_with
from ..fact import Fact
from ..flow_proof import FlowProof, ParallelSetting
from ..graph import A_GRAPH, Graph
from ..lowering.starts import lower_starts
from ..parameter import Parameter
from ..verifier.verdict import Violation, sorted_violations
from ..verifier.verify import verify
from .parallel_memory import ParallelMemory, check_modes, counted
from .problem import Judgement, Problem

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Further precedence (i must end before j starts), and the flow that proves what it is good for."""

    edges: tuple[Edge, ...]
    flow: FlowProof


@dataclass(frozen=True)
class MemoryEdges(Problem):
    """Shortest critical path with edges added so that no parallel schedule exceeds a memory bound.

    An answer proves with flows (`lowtide.models.verifier.flow`) that no schedule exceeds the bound. The
    objective is the critical path also where `processors` are given.

    Parameters
    ----------
    graph
        Every op may run on any processor.
    bound
        Bytes, at least 0, also as ``"12GiB"``.
    processors
        How many ops run at one time at most; None: any number.

    Raises
    ------
    InstanceError
        If `bound` is negative, `processors` is below 1, or a mode names processors or tiers.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.MemoryEdges(lt.load("gen:randwire?n=24&seed=1"), bound=180))
    >>> result.status, result.objective, bool(result.edges)
    (<Status.OPTIMAL: 'optimal'>, 15, True)
    """

    graph: Graph
    bound: int
    processors: int | None = None
    name: ClassVar[str] = "memory-edges"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "gantt"
    answers: ClassVar[str] = "edges"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        **ParallelMemory.parameters,
        "bound": Parameter(
            "", "edges to add so that no parallel schedule needs more", kind="size", required=True
        ),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, f"{self.name}, graph", A_GRAPH)
        set_bytes(self, "bound", 0, f"{self.name}, bound")
        check_integer(self.processors, 1, f"{self.name}, processors", optional=True)
        check_modes(self.graph, self.name)

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name, processors and bound, and the graph's source."""
        where = "" if self.processors is None else f" on {self.processors} processors"
        return f"{self.graph.name}{where}, {self.bound} bytes", self.graph.source

    def payload(self) -> dict[str, Any]:
        """Return graph, bound and processors."""
        return {"graph": self.graph.sha256, "bound": self.bound, "processors": self.processors}

    def read(self, item: object) -> Edges:
        """Return edges with their flow; the verifier looks at them in `judge`.

        What `lowtide.models.derived.edges_of.edges_of` takes has no flow: then the proof has no case.

        Raises
        ------
        InstanceError
            If it is something else, or the edges dangle or close a cycle.
        """
        if not isinstance(item, Edges):
            item = Edges(edges=edges_of(self.graph, item), flow=FlowProof(cases=()))
        earliest_starts(self.graph, item.edges)
        return item

    def evaluate(self, answer: Edges) -> int:
        """Return the critical path in ns."""
        starts = earliest_starts(self.graph, answer.edges)
        return max((s + shortest_mode(self.graph, i)[0] for i, s in enumerate(starts)), default=0)

    def impossible(self) -> str | None:
        """Return that the initial tensors exceed the bound before any op runs, if they do."""
        first = sequential_memory(self.graph).initial_bytes
        if first <= self.bound:
            return None
        return f"before any op runs the initial tensors need {first} bytes, above the bound {self.bound}"

    def proposition(self, bound: int | None) -> tuple[int | None, bool]:
        """Return the bound on the memory: a flow says nothing of the time."""
        return self.bound, True

    def setting(self, edges: tuple[tuple[int, int], ...] = ()) -> ParallelSetting:
        """Return the processors and the edges."""
        return ParallelSetting(processors=self.processors, edges=edges)

    def judge(self, answer: Edges) -> Judgement:
        """Verify the schedule that starts each op as early as edges and processors let it, and the flow.

        With processors the critical path is that of a second plan, on any number of them.
        """
        starts = earliest_starts(self.graph, answer.edges)
        modes = [shortest_mode(self.graph, i)[1] for i in range(len(starts))]
        if self.processors is None:
            plan = lower_starts(self.graph, starts, modes, self.bound)
            verdict = longest = verify(self.graph, plan, rerun=False)
        else:
            listed = list_starts(self.graph, answer.edges, self.processors)
            plan = lower_starts(self.graph, listed, modes, self.bound)
            verdict = verify(self.graph, plan, rerun=False)
            longest = verify(self.graph, lower_starts(self.graph, starts, modes), rerun=False)
        wrong = [*longest.violations] if longest is not verdict else []
        from ..verifier.flow import verify_flow  # numpy, which `import lowtide` does without

        wrong += verify_flow(self.graph, answer.edges, answer.flow, self.processors)
        value = answer.flow.value(self.processors)
        if value > self.bound:
            said = f"the flow proves {value} bytes, expected at most the bound {self.bound}"
            wrong.append(Violation(kind="flow", message=said))
        if wrong:
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *wrong]))
        objective = longest.makespan if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan, edges=answer.edges)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the edges that were added."""
        ops = self.graph.ops
        names = [f"{ops[i].name} -> {ops[j].name}" for i, j in judgement.edges or ()]
        return [Fact("edges", names, counted(names))]


def shortest_mode(graph: Graph, i: int) -> tuple[int, int]:
    """Return ns and number of the shortest mode of op i."""
    op = graph.ops[i]
    return min((mode.duration_ns, k) for k, mode in enumerate(op.modes)) if op.modes else (op.duration_ns, 0)


def earliest_starts(graph: Graph, edges: Sequence[Edge]) -> list[int]:
    """Return when each op starts at the earliest on any number of processors, in ns."""
    starts = [0] * len(graph.ops)
    later = successors_with(graph, edges)
    for i in order_with(graph, edges):
        end = starts[i] + shortest_mode(graph, i)[0]
        for j in later[i]:
            starts[j] = max(starts[j], end)
    return starts


def list_starts(graph: Graph, edges: Sequence[Edge], processors: int) -> list[int]:
    """Return when each op starts if an idle processor always takes the first ready op of `order_with`."""
    from heapq import heappop, heappush

    order = order_with(graph, edges)
    rank = {i: k for k, i in enumerate(order)}
    later = successors_with(graph, edges)
    waits = [0] * len(order)
    for some in later:
        for j in some:
            waits[j] += 1
    ready = [rank[i] for i in order if not waits[i]]
    running: list[tuple[int, int]] = []
    starts, now = [0] * len(order), 0
    while ready or running:
        while ready and len(running) < processors:
            i = order[heappop(ready)]
            starts[i] = now
            heappush(running, (now + shortest_mode(graph, i)[0], i))
        now = running[0][0]
        while running and running[0][0] == now:
            for j in later[heappop(running)[1]]:
                waits[j] -= 1
                if not waits[j]:
                    heappush(ready, rank[j])
    return starts


def apply_edges(graph: Graph, edges: Sequence[Edge]) -> Graph:
    """Return the graph with the edges among its ``after``, its ops in an order that obeys them.

    Raises
    ------
    InstanceError
        If an edge dangles, or they close a cycle.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:chain?n=3&seed=1")
    >>> apply_edges(graph, [(0, 2)]).ops[2].after
    (0,)
    """
    order = order_with(graph, edges)
    place = {i: k for k, i in enumerate(order)}
    before: dict[int, set[int]] = {i: set(graph.ops[i].after) for i in order}
    for i, j in edges:
        before[j].add(i)
    ops = tuple(replace(graph.ops[i], after=tuple(sorted(place[j] for j in before[i]))) for i in order)
    return replace(graph, ops=ops, source=None, provenance={**graph.provenance, "memory_edges": len(edges)})
