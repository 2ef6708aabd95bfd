"""The makespan problem: processors share one memory; the fastest schedule within its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any, ClassVar

from ..checks import check_type, set_bytes
from ..derived.memory import sequential_memory
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, Accounting, Graph
from ..lowering.order import lower_runs
from ..machine import Access, Machine, Processor, Tier
from ..parameter import Parameter
from ..plan import Plan
from ..units import exact_bytes
from ..verifier.verify import verify
from .problem import Judgement, Problem, peak_facts
from .processors import (
    Alternative,
    Kinds,
    Processors,
    alternatives_of,
    as_good,
    checked_processors,
    kinds_of,
    runs_of,
)

Starts = tuple[int, ...]
"""The answer: the start of each op in ns, by its index; where ops have a choice, then the number of the
alternative that each op takes (`lowtide.models.problems.processors`)."""


@dataclass(frozen=True)
class Makespan(Problem):
    """Makespan under a memory bound: the fastest schedule that never holds more bytes than there are.

    Each op runs once, without interruption, in one of its modes, on one processor of a kind that the mode
    allows, under the graph's precedence; all processors share one memory, where tensors live as the graph's
    accounting says. The objective is the makespan in ns.

    Parameters
    ----------
    graph
        Ops with modes that name processors at most, no tiers.
    processors
        How many identical ones, at least 1; or how many of each kind: a mapping, or pairs of kind and count.
    memory
        Capacity of the memory in bytes, also as ``"12GiB"``; None: no limit.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If there are no ops, a number is out of range, a mode binds operands to tiers, no processor can run
        some op, or no op can run on some kind of processor.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Makespan(lt.load("gen:chain?n=4&seed=1"), processors=2)
    >>> problem.name, problem.unit
    ('makespan', 'ns')

    A slow core, or the only fast one:

    >>> modes = lt.Mode(duration_ns=5, processors=("cpu",)), lt.Mode(duration_ns=2, processors=("gpu",))
    >>> graph = lt.Graph(name="two", tensors=(), ops=tuple(lt.Op(name=x, modes=modes) for x in "ab"))
    >>> lt.solve(lt.Makespan(graph, processors={"cpu": 4, "gpu": 1}), threads=1).objective
    4
    """

    graph: Graph
    processors: Processors = 1
    memory: int | None = None
    source: str | None = None
    name: ClassVar[str] = "makespan"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "gantt"
    becomes: ClassVar[tuple[str, tuple[str, ...]]] = ("distributed", ("machine",))
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "processors": Parameter(
            "1",
            "identical ones (default 1; of a machine all), or kinds with counts as in cpu=4,gpu=1",
            kind="processors",
        ),
        "memory": Parameter(
            "none", "of all processors; with a machine of each (default: no limit)", kind="size"
        ),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "makespan, graph", A_GRAPH)
        check_type(self.source, (str, type(None)), "makespan, source", "a str or None")
        if not self.graph.ops:
            raise InstanceError(f"makespan, graph {self.graph.name!r}: found no ops, expected at least one")
        object.__setattr__(self, "processors", checked_processors(self.processors))
        set_bytes(self, "memory", 0, "makespan, memory", optional=True)
        _ = self.alternatives

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of processors with their counts; identical ones are of one kind."""
        return kinds_of(checked_processors(self.processors))

    @property
    def count(self) -> int:
        """How many processors there are in all."""
        return sum(count for _, count in self.kinds)

    @cached_property
    def alternatives(self) -> tuple[tuple[Alternative, ...], ...]:
        """By op: the modes that it may take, on which kinds of processors."""
        return alternatives_of(self.graph, self.kinds)

    @cached_property
    def has_choice(self) -> bool:
        """Whether some op has several alternatives."""
        return any(len(some) > 1 for some in self.alternatives)

    @property
    def identical(self) -> bool:
        """Whether all processors are of one kind, and no op has a choice."""
        return len(self.kinds) == 1 and not self.has_choice

    @cached_property
    def relaxed(self) -> Graph:
        """The graph with one mode per op, of its least duration and its least workspace, on any processor.

        What bounds a schedule of it from below, bounds every schedule from below; an order of its ops is
        within the memory if and only if the same order is, each op in its alternative of least workspace.
        """
        if all(not op.modes for op in self.graph.ops):
            return self.graph
        ops = [
            replace(
                op,
                modes=(),
                duration_ns=min(a.duration for a in modes),
                workspace=min(a.workspace for a in modes),
            )
            for op, modes in zip(self.graph.ops, self.alternatives, strict=True)
        ]
        return replace(self.graph, ops=tuple(ops))

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the names of graph and processors, the memory, and the source."""
        room = "unlimited memory" if self.memory is None else f"{self.memory} bytes"
        return f"{self.graph.name} on {self.machine.name}, {room}", self.source

    def payload(self) -> dict[str, Any]:
        """Return graph, processors and memory."""
        return {"graph": self.graph.sha256, "processors": self.processors, "memory": self.memory}

    @cached_property
    def machine(self) -> Machine:
        """The processors and their memory."""
        access = (Access(tier="memory"),)
        if isinstance(self.processors, int):
            name, prefixes = f"{self.processors} processor{'s' * (self.processors != 1)}", ["p"]
        else:
            name = " and ".join(f"{count} {kind}" for kind, count in self.kinds) + " processors"
            prefixes = [f"{kind}-" for kind, _ in self.kinds]
        return Machine(
            name=name,
            tiers=(Tier(name="memory", capacity=self.memory),),
            processors=tuple(
                Processor(name=f"{prefix}{k}", kind=kind, tiers=access)
                for prefix, (kind, count) in zip(prefixes, self.kinds, strict=True)
                for k in range(count)
            ),
        )

    @cached_property
    def durations(self) -> tuple[int, ...]:
        """Nanoseconds of each op; of several alternatives, of the shortest."""
        return tuple(min(a.duration for a in some) for some in self.alternatives)

    def split(self, answer: Sequence[int]) -> tuple[Sequence[int], list[Alternative]]:
        """Return the start of each op, and its alternative."""
        n = len(self.graph.ops)
        chosen = answer[n:] if self.has_choice else [0] * n
        return answer[:n], [some[a] for some, a in zip(self.alternatives, chosen, strict=True)]

    def read(self, item: object) -> Starts:
        """Return the answer that a plan, or a sequence of integers, gives; `judge` looks at it.

        Raises
        ------
        InstanceError
            If it is neither, has not exactly one start (and choice) of each op, the plan is for another
            graph, or an op takes no alternative that the machine offers.
        """
        n = len(self.graph.ops)
        if isinstance(item, Plan):
            return self._of_plan(item)
        if not isinstance(item, Sequence) or isinstance(item, str | bytes):
            raise InstanceError(f"found {type(item).__name__}, expected a Plan or the start of each op")
        if not self.has_choice and len(item) != n:
            raise InstanceError(f"found {len(item)} starts, expected {n}")
        if self.has_choice and len(item) != 2 * n:
            raise InstanceError(f"found {len(item)} integers, expected {n} starts and {n} alternatives")
        try:
            answer = tuple(map(index, item))
        except TypeError:
            raise InstanceError("found starts of other things, expected integers") from None
        for i, a in enumerate(answer[n:]):
            if not 0 <= a < len(self.alternatives[i]):
                raise InstanceError(
                    f"op {i} {self.graph.ops[i].name!r}: found alternative {a}, expected one in "
                    f"[0, {len(self.alternatives[i])})"
                )
        return answer

    def _of_plan(self, plan: Plan) -> Starts:
        """Return the starts and choices of a plan.

        A mode on a kind that is no alternative, since another one is as good, is read as that other one.
        """
        n = len(self.graph.ops)
        if plan.graph_sha256 not in (None, self.graph.sha256):
            raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
        if len(plan.machine.tiers) != 1 or plan.period is not None:
            raise InstanceError("found a plan that is none for one memory, without period")
        runs = {run.op: run for run in plan.runs}
        if len(plan.runs) != len(runs) or sorted(runs) != list(range(n)):
            raise InstanceError(f"found a plan of {len(plan.runs)} runs, expected one of each op")
        starts = tuple(runs[i].start for i in range(n))
        if not self.has_choice:
            return starts
        kind_of = {p.name: p.kind for p in plan.machine.processors}
        names = [kind for kind, _ in self.kinds]
        chosen = []
        for i, op in enumerate(self.graph.ops):
            kind, number = kind_of.get(runs[i].processor, ""), runs[i].mode
            if not 0 <= number < len(op.all_modes):
                raise InstanceError(
                    f"op {i} {op.name!r}: found mode {number}, expected one in [0, {len(op.all_modes)})"
                )
            on = names.index(kind) if kind in names else -1
            taken = as_good(self.alternatives[i], on, op.all_modes[number])
            if taken is None:
                raise InstanceError(
                    f"op {i} {op.name!r}: found mode {number} on a processor of kind {kind!r}, expected a "
                    f"mode for {' or '.join(names)} that allows it"
                )
            chosen.append(taken)
        return (*starts, *chosen)

    def evaluate(self, answer: Sequence[int]) -> int:
        """Return the makespan in ns."""
        if not self.has_choice:
            return max(s + d for s, d in zip(answer, self.durations, strict=True))
        starts, chosen = self.split(answer)
        return max(s + a.duration for s, a in zip(starts, chosen, strict=True))

    def impossible(self) -> str | None:
        """Return why there is no schedule, if the beginning or one op needs more bytes than there are.

        What is there at the start counts also where, with `replace`, the first op releases it as it starts.
        """
        if self.memory is None:
            return None
        if (first := sequential_memory(self.graph).initial_bytes) > self.memory:
            return f"at the start {exact_bytes(first)} are in the memory, of {exact_bytes(self.memory)}"
        if sequential_memory(self.relaxed).reference_peak <= self.memory:
            return None  # one op after another is a schedule
        tensors, coexist = self.graph.tensors, self.graph.accounting is Accounting.COEXIST
        kept = {t for t, tensor in enumerate(tensors) if tensor.initial and tensor.final}
        for i, op in enumerate(self.relaxed.ops):
            held = kept | set(op.writes) | {t for t in op.reads if coexist or tensors[t].final}
            needed = sum(tensors[t].nbytes for t in held) + op.workspace
            if needed > self.memory:
                return (
                    f"op {i} {op.name!r} needs {exact_bytes(needed)}, with all that is kept throughout, "
                    f"of {exact_bytes(self.memory)}"
                )
        return None

    def judge(self, answer: Sequence[int]) -> Judgement:
        """Lower the answer to a plan and verify it."""
        plan = self.lower(answer)
        verdict = verify(self.graph, plan, rerun=False)
        objective = verdict.makespan if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the most bytes at a time."""
        return [fact._replace(name="peak") for fact in peak_facts(judgement.verification)]

    def lower(self, answer: Sequence[int]) -> Plan:
        """Return the plan of an answer; an op takes the processor of its kind that has been idle longest."""
        names = iter(p.name for p in self.machine.processors)
        of_kind = [[next(names) for _ in range(count)] for _, count in self.kinds]
        return lower_runs(self.graph, runs_of(*self.split(answer), of_kind), self.machine)
