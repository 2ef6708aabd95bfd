"""The pipeline problem: which micro-batch runs when on which device, within the devices' memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import index
from typing import Any, ClassVar

from ..checks import check_integer, check_type, set_bytes
from ..derived.device_orders import OBJECTIVES, time_orders
from ..derived.stages import PipelineOps, device_name, pipeline_of
from ..derived.values import values_of
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, Graph
from ..lowering.transfers import Sending, lower_transfers
from ..machine import Access, Channel, Machine, Processor, Tier
from ..parameter import Parameter
from ..plan import Plan, Run
from ..units import exact_bytes, format_duration
from ..verifier.verdict import Verification
from ..verifier.verify import verify
from .problem import Judgement, Problem, peak_facts

RATE = 10**9
"""Bytes per second of channels; what they carry has 0 bytes."""


@dataclass(frozen=True)
class Pipeline(Problem):
    """Fastest training iteration of a pipeline: when each micro-batch runs on each of its stages.

    The graph says which device runs which stage. A device runs one op at a time and has a memory of its own;
    what a stage makes for one on another device is there after a latency. An answer is the start of each op,
    in ns.

    Parameters
    ----------
    graph
        As `lowtide.pipeline_graph` makes it.
    memory
        Of each device, in bytes; None: no limit.
    latency_ns
        From the end of an op until another device has what it made.
    objective
        ``makespan``: the last end. ``span``: the longest time from the first start to the last end of a
        device, the time of an iteration if each device begins the next one as soon as it has ended this one.

    Raises
    ------
    InstanceError
        If the graph is another one, or a number is out of range.

    Examples
    --------
    >>> import lowtide as lt
    >>> lt.solve(lt.Pipeline(lt.load("gen:stages?p=2&m=3&w=0")), "1f1b").objective
    8
    """

    graph: Graph
    memory: int | None = None
    latency_ns: int = 0
    objective: str = "makespan"
    name: ClassVar[str] = "pipeline"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "gantt"
    parameters: ClassVar[dict[str, Parameter]] = {
        "memory": Parameter("none", "of each device (default: no limit)", kind="size"),
        "latency_ns": Parameter(0, "nanoseconds until another device has what an op made"),
        "objective": Parameter(
            "makespan",
            "the last end (default), or the longest time from first start to last end of a device",
            choices=OBJECTIVES,
        ),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "pipeline, graph", A_GRAPH)
        set_bytes(self, "memory", 0, "pipeline, memory", optional=True)
        check_integer(self.latency_ns, 0, "pipeline, latency_ns")
        if self.objective not in OBJECTIVES:
            expected = " or ".join(OBJECTIVES)
            raise InstanceError(f"pipeline, objective: found {self.objective!r}, expected {expected}")
        _ = self.line

    @cached_property
    def line(self) -> PipelineOps:
        """The stages and micro-batches of the graph."""
        return pipeline_of(self.graph)

    @cached_property
    def machine(self) -> Machine:
        """A processor and a memory for each device, and channels between all that follow each other."""
        names = [device_name(i) for i in range(self.line.devices)]
        home = [x.device for x in self.line.stages]
        pairs = sorted({pair for a, b in pairwise(home) for pair in ((a, b), (b, a))})
        return Machine(
            name=f"{len(names)} devices",
            tiers=tuple(Tier(name=x, capacity=self.memory) for x in names),
            processors=tuple(Processor(name=x, kind=x, tiers=(Access(tier=x),)) for x in names),
            channels=tuple(
                Channel(
                    src=names[a],
                    dst=names[b],
                    bytes_per_s=RATE,
                    latency_ns=self.latency_ns,
                )
                for a, b in pairs
                if a != b
            ),
        )

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name and what is asked of it, and its source."""
        words = [self.objective, *([] if self.memory is None else [f"{self.memory} bytes"])]
        words += [f"latency {self.latency_ns} ns"] if self.latency_ns else []
        return f"{self.graph.name} ({', '.join(words)})", self.graph.source

    def payload(self) -> dict[str, Any]:
        """Return graph, memory, latency and objective."""
        keys = ("memory", "latency_ns", "objective")
        return {"graph": self.graph.sha256, **{key: getattr(self, key) for key in keys}}

    def read(self, item: object) -> tuple[int, ...]:
        """Return the starts that a plan has, or a sequence of them; or best ones of an order for each device.

        Raises
        ------
        InstanceError
            If it is none of them, an op is missing, or orders close a cycle with the precedence.
        """
        n = len(self.graph.ops)
        if isinstance(item, Plan):
            if item.graph_sha256 not in (None, self.graph.sha256):
                raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
            item = [run.start for run in sorted(item.runs, key=lambda run: run.op)]
        if not isinstance(item, Sequence) or isinstance(item, str):
            raise InstanceError(
                f"found {type(item).__name__}, expected a Plan, starts, or an order by device"
            )
        try:
            if item and isinstance(item[0], Sequence):
                return self.timed([tuple(map(index, order)) for order in item])
            starts = tuple(map(index, item))
        except TypeError:
            raise InstanceError("found starts of other things, expected integers") from None
        if len(starts) != n or min(starts) < 0:
            raise InstanceError(f"found {len(starts)} starts, expected {n}, none before 0")
        return starts

    def timed(
        self, orders: Sequence[Sequence[int]], tick: Callable[[], object] = lambda: None
    ) -> tuple[int, ...]:
        """Return the starts with the least objective of an order of its ops for each device.

        Raises
        ------
        InstanceError
            If an op is missing or on another device, or the orders close a cycle with the precedence.
        """
        mine = [[i for i, d in enumerate(self.line.device) if d == k] for k in range(self.line.devices)]
        if [sorted(order) for order in orders] != mine:
            raise InstanceError("found orders of other ops, expected those of each device once")
        return time_orders(self.graph, self.line, orders, self.latency_ns, self.objective, tick)

    def evaluate(self, answer: Sequence[int]) -> int:
        """Return the makespan or the span in ns."""
        line = self.line
        return self._value(zip(line.device, answer, line.durations, strict=True))

    def _value(self, runs: Iterator[tuple[object, int, int]]) -> int:
        """Return the objective of devices, starts and durations."""
        first: dict[object, int] = {}
        last: dict[object, int] = {}
        for device, start, duration in runs:
            first[device] = min(start, first.get(device, start))
            last[device] = max(start + duration, last.get(device, 0))
        if self.objective == "makespan":
            return max(last.values())
        return max(end - first[device] for device, end in last.items())

    def judge(self, answer: Sequence[int]) -> Judgement:
        """Lower the starts to a plan and verify it; the span is that of the plan's runs."""
        plan = self.lower(answer)
        verdict = verify(self.graph, plan, rerun=False, start_tiers={})
        objective = verdict.makespan if verdict.valid else None
        if verdict.valid and self.objective == "span":
            objective = longest_span(plan)
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def lower(self, answer: Sequence[int]) -> Plan:
        """Return the plan that starts each op then, and sends what it makes as soon as it has ended."""
        line, names = self.line, [p.name for p in self.machine.processors]
        runs = [
            Run(i, 0, start, start + line.durations[i], names[line.device[i]])
            for i, start in enumerate(answer)
        ]
        sendings = []
        for value in values_of(self.graph):
            writer = value.writer
            if writer is None:  # what is there all the time is where it is needed
                continue
            for i in value.readers:
                if line.device[i] != line.device[writer]:
                    end = runs[writer].end
                    to = names[line.device[i]]
                    sendings.append(Sending(writer, value.tensor, to, end, end + self.latency_ns))
        return lower_transfers(self.graph, runs, sendings, self.machine)

    @cached_property
    def room(self) -> tuple[int | None, ...]:
        """Bytes for activations on each device: the memory without what is there all the time."""
        return tuple(None if self.memory is None else self.memory - fixed for fixed in self.line.fixed)

    def impossible(self) -> str | None:
        """Return a stage that does not fit its device with one micro-batch."""
        for i, chunk in enumerate(self.line.chunks):
            for s in chunk if self.memory is not None else ():
                needed = self.line.stages[s].activation + self.line.fixed[i]
                if needed > (self.memory or 0):
                    return f"stage {s} on device {i} needs {exact_bytes(needed)}"
        return None

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the time that each device is idle between its first start and last end, and its peak."""
        verdict = judgement.verification
        assert isinstance(verdict, Verification)
        plan = judgement.plan
        assert plan is not None
        rows = []
        for p in self.machine.processors:
            runs = [run for run in plan.runs if run.processor == p.name]
            window = max(run.end for run in runs) - min(run.start for run in runs)
            idle = window - sum(run.end - run.start for run in runs)
            text = f"{format_duration(idle)} of {format_duration(window)}"
            rows.append(Fact(f"idle {p.name}", {"ns": idle, "of_ns": window}, text))
        return [*rows, *peak_facts(verdict)]


def longest_span(plan: Plan) -> int:
    """Return the longest time in ns from the first start to the last end on a processor."""
    runs: dict[str, list[Run]] = {}
    for run in plan.runs:
        runs.setdefault(run.processor, []).append(run)
    return max((max(r.end for r in some) - min(r.start for r in some) for some in runs.values()), default=0)
