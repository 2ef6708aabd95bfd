"""The streams problem: ops of a graph side by side on one device that they share, or on several."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any, ClassVar

from ..checks import check_integer, check_type, set_bytes
from ..derived.precedence import order_with, precedence
from ..derived.streams import stream_edges, synchronisations
from ..errors import InstanceError
from ..fact import Fact
from ..flow_proof import ParallelSetting
from ..graph import A_GRAPH, Graph
from ..lowering.devices import Devices, Rows
from ..lowering.order import lower_runs
from ..lowering.streams import lower_stages, share_of, stage_prices, stream_machine, stream_runs
from ..machine import CONTENTIONS, Contention
from ..parameter import Parameter
from ..plan import Plan, Run
from ..verifier.verdict import Verification, Violation, sorted_violations
from ..verifier.verify import verify
from .distributed import Distributed
from .memory_edges import MemoryEdges
from .problem import Judgement, Problem, peak_facts, traffic_facts
from .stream_answers import Stages, StreamOrder, plain

StreamAnswer = StreamOrder | Stages | Plan

COUNTED = 5000
"""Ops up to which synchronisations are counted for people: the transitive reduction is quadratic in them."""


LINK = 10**10
"""Bytes per second from one device to another, as a current PCIe link has them, if nothing else is said."""


@dataclass(frozen=True)
class Streams(Problem):
    """Fastest run of a graph on one device that several of its ops use at once.

    A device has streams; each runs its ops one after another, streams run side by side, and what an op needs
    of another stream it waits for (a *synchronisation*). How ops slow each other down is the contention:

    - ``none``: not at all. An answer is a `StreamOrder`.
    - ``proportional``: all that runs advances at the rate at which their shares fit the device.
      An answer is a `StreamOrder`.
    - ``fluid``, ``half-serial``: priced stages, with a barrier between them. An answer is a `Stages`.

    Several devices (``none`` and ``proportional``) have a memory each, and what an op needs of another device
    is first transferred (`lowtide.models.lowering.transfers` says what is where). An answer is a `Plan`.

    The objective is the time of the last op's end, in ns.

    Parameters
    ----------
    graph
        Ops of one mode each, with its share of the device.
    streams
        How many a device has at most; of stages, how many groups one has at most. None: any number.
    contention
        Of `lowtide.models.machine.CONTENTIONS`; formulas at `Contention`.
    parts
        Of the device, that shares are stated in. None: the largest share of an op, or 1.
    sync_ns
        `Contention.sync_ns`.
    memory
        What no execution may exceed that obeys precedence and stream orders, whatever the ops really take, in
        bytes; None: no limit. Orders prove it by a flow (`lowtide.models.verifier.flow`); of a stage all that
        it reads and writes counts throughout. Of several devices it is the capacity of each in the times of
        the plan.
    devices
        How many equal ones.
    link
        Bytes per second of a transfer from one to another, whatever else is transferred.
    latency_ns
        Of a transfer.

    Raises
    ------
    InstanceError
        If a number is out of range, or an op has several modes, or one that names processors or tiers; of
        several devices also if they are asked for stages.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.Streams(lt.load("catalogue:diamond")), threads=1)
    >>> result.status, result.objective
    (<Status.OPTIMAL: 'optimal'>, 3)
    """

    graph: Graph
    streams: int | None = None
    contention: str = "none"
    parts: int | None = None
    sync_ns: int = 0
    memory: int | None = None
    devices: int = 1
    link: int = LINK
    latency_ns: int = 0
    name: ClassVar[str] = "streams"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "gantt"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "streams": Parameter(1, "that there are at most (default any number)", least=1),
        "contention": Parameter(
            "none", "how ops that run side by side slow each other down", choices=CONTENTIONS
        ),
        "parts": Parameter(
            1, "of the device, that shares are stated in (default the largest share)", least=1
        ),
        "sync_ns": Parameter(0, "nanoseconds until another stream sees that an op has ended"),
        "memory": Parameter(
            "none", "that no execution may exceed, or of each device (default: no limit)", kind="size"
        ),
        "devices": Parameter(1, "equal ones, each with its streams and its memory", least=1),
        "link": Parameter(
            "10GB",
            "bytes in a second of a transfer from device to device (default 10 GB)",
            kind="size",
            least=1,
        ),
        "latency_ns": Parameter(0, "nanoseconds that a transfer takes besides"),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "streams, graph", A_GRAPH)
        check_integer(self.streams, 1, "streams, streams", optional=True)
        check_integer(self.parts, 1, "streams, parts", optional=True)
        check_integer(self.devices, 1, "streams, devices")
        check_integer(self.latency_ns, 0, "streams, latency_ns")
        set_bytes(self, "link", 1, "streams, link")
        set_bytes(self, "memory", 0, "streams, memory", optional=True)
        for i, op in enumerate(self.graph.ops):
            if len(op.modes) > 1 or any(mode.processors or mode.operands for mode in op.modes):
                raise InstanceError(
                    f"streams, op {i} {op.name!r}: found modes to choose from, or one that names "
                    "processors or tiers, expected one mode for every stream"
                )
        if self.parts is None:
            shares = [op.all_modes[0].share for op in self.graph.ops]
            object.__setattr__(self, "parts", max((x for x in shares if x is not None), default=1))
        if self.device.staged and self.devices > 1:
            raise InstanceError(
                f"streams, contention: found {self.contention!r}, which prices stages of one device, on "
                f"{self.devices}, expected none or proportional"
            )

    @cached_property
    def device(self) -> Contention:
        """What happens to ops that run side by side."""
        assert self.parts is not None
        return Contention(model=self.contention, parts=self.parts, sync_ns=self.sync_ns)

    @cached_property
    def cluster(self) -> Devices | None:
        """The devices with their memories and links; None if there is one device."""
        if self.devices == 1:
            return None
        return Devices(
            graph=self.graph,
            count=self.devices,
            streams=self.streams,
            contention=self.device,
            memory=self.memory,
            bytes_per_s=self.link,
            latency_ns=self.latency_ns,
        )

    @property
    def contends(self) -> bool:
        """Whether ops that run side by side slow each other down, or streams wait for synchronisations."""
        return self.contention != "none" or self.sync_ns > 0

    @cached_property
    def distributed(self) -> Distributed | None:
        """The question of several devices without contention and synchronisations; None of one device.

        Without them it is the same; else every plan of the question, its runs as long as alone, is one of
        this one that takes no longer, so that bounds of it hold.
        """
        if self.cluster is None or not self.graph.ops:
            return None
        return Distributed(self.graph, self.cluster.machine(len(self.graph.ops), plain=True))

    @cached_property
    def durations(self) -> tuple[int, ...]:
        """Of each op alone, in ns."""
        return tuple(op.all_modes[0].duration_ns for op in self.graph.ops)

    @cached_property
    def area(self) -> int:
        """The work of all ops, in parts times ns."""
        return sum(ns * share_of(self.graph, i, self.device.parts) for i, ns in enumerate(self.durations))

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name and what is asked of it, and its source."""
        words = [self.contention, *([] if self.streams is None else [f"{self.streams} streams"])]
        words += [] if self.memory is None else [f"{self.memory} bytes"]
        words += [] if self.devices == 1 else [f"{self.devices} devices"]
        return f"{self.graph.name} ({', '.join(words)})", self.graph.source

    def payload(self) -> dict[str, Any]:
        """Return graph, streams, contention and memory; of several devices these and their links."""
        keys = ["streams", "contention", "parts", "sync_ns", "memory"]
        keys += ["devices", "link", "latency_ns"] if self.devices > 1 else []
        return {"graph": self.graph.sha256, **{key: getattr(self, key) for key in keys}}

    def read(self, item: object) -> StreamAnswer:
        """Return the answer that a plan stands for, or sequences: streams, or stages of groups of ops.

        Of several devices they are streams of each device, which start each op as soon as they can.

        Raises
        ------
        InstanceError
            If it is none of them, or not one for this contention and number of streams; an op is missing or
            there twice; or the orders close a cycle with the precedence.
        """
        given = type(item).__name__
        try:
            if isinstance(item, Plan) and item.graph_sha256 not in (None, self.graph.sha256):
                raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
            if self.cluster is not None:
                return self._on_devices(self.cluster, item)
            item = self._of_plan(item) if isinstance(item, Plan) else item
            item = plain(item if isinstance(item, StreamOrder | Stages) else self._of_sequences(item))
        except (AttributeError, LookupError, TypeError, ValueError):
            expected = "stages of groups of ops" if self.device.staged else "streams of ops"
            expected = expected if self.cluster is None else "devices of streams of ops"
            raise InstanceError(f"found {given}, expected a Plan, or sequences: {expected}") from None
        if isinstance(item, Stages) != self.device.staged:
            kinds = ("Stages", "StreamOrder") if self.device.staged else ("StreamOrder", "Stages")
            raise InstanceError(f"found {kinds[1]} under contention {self.contention!r}, expected {kinds[0]}")
        self._check_rows([item.streams] if isinstance(item, StreamOrder) else item.stages)
        if isinstance(item, StreamOrder):
            order_with(self.graph, item.edges)
        else:
            self._check_stages(item)
        return item

    def _check_rows(self, rows: Rows) -> None:
        """Raise unless each op is there once, on so many streams of a device or groups of a stage as may."""
        ops = [i for some in rows for row in some for i in row]
        if sorted(ops) != list(range(len(self.graph.ops))):
            raise InstanceError(
                f"found {len(ops)} ops in streams, expected each of {len(self.graph.ops)} once"
            )
        most = max(map(len, rows), default=0)
        if self.streams is not None and most > self.streams:
            raise InstanceError(f"found {most} streams, expected at most {self.streams}")

    def _on_devices(self, cluster: Devices, item: object) -> Plan:
        """Return the plan of streams of each device, or what a plan does there."""
        if isinstance(item, Plan):
            return cluster.read(item)
        if not isinstance(item, Sequence) or isinstance(item, str):
            raise TypeError
        rows = [[tuple(map(index, stream)) for stream in some if stream] for some in item]
        if len(rows) > cluster.count:
            raise InstanceError(f"found {len(rows)} devices, expected at most {cluster.count}")
        self._check_rows(rows)
        order_with(self.graph, stream_edges([stream for some in rows for stream in some]))
        return cluster.plan(rows)

    def _of_sequences(self, item: object) -> StreamOrder | Stages:
        if not isinstance(item, Sequence):
            raise TypeError
        if self.device.staged:
            return Stages(stages=tuple(item))
        return StreamOrder(streams=tuple(item))

    def _of_plan(self, plan: Plan) -> StreamOrder | Stages:
        runs = sorted(plan.runs, key=lambda run: (run.start, run.op))
        names = {name: k for k, name in enumerate(p.name for p in plan.machine.processors)}
        begins = plan.stages if self.device.staged else (0,)
        if begins is None:
            raise InstanceError("found a plan without stages")
        stages: list[list[list[int]]] = [[[] for _ in names] for _ in begins]
        for run in runs:
            stages[max(bisect_right(begins, run.start) - 1, 0)][names[run.processor]].append(run.op)
        if not self.device.staged:
            return StreamOrder(streams=tuple(map(tuple, stages[0])))
        return Stages(stages=tuple(tuple(map(tuple, some)) for some in stages))

    def _check_stages(self, answer: Stages) -> None:
        """Raise unless stages obey the precedence, and groups of a stage are independent."""
        place = {
            i: (k, g, x)
            for k, some in enumerate(answer.stages)
            for g, group in enumerate(some)
            for x, i in enumerate(group)
        }
        for j, before in enumerate(precedence(self.graph).predecessors):
            for i in before:
                (k, g, x), (m, h, y) = place[i], place[j]
                if k > m or (k == m and (g != h or x > y)):
                    raise InstanceError(
                        f"op {i} must precede op {j}: found it in stage {k}, group {g}, the other in stage "
                        f"{m}, group {h}"
                    )

    def impossible(self) -> str | None:
        """Return that what is there before any op runs exceeds the memory of orders, if it does."""
        if self.memory is None or self.device.staged or self.devices > 1:
            return None
        return MemoryEdges(self.graph, self.memory).impossible()

    def evaluate(self, answer: StreamAnswer) -> int:
        """Return the end of the last op, in ns."""
        if isinstance(answer, Stages):
            return sum(stage_prices(self.graph, answer.stages, self.device))
        if isinstance(answer, Plan):
            return max((run.end for run in answer.runs), default=0)
        if len(answer.streams) == 1:
            return sum(self.durations)
        return max((run.end for run in self._runs(answer)), default=0)

    def _runs(self, answer: StreamOrder) -> list[Run]:
        """Return the runs of an answer; those of the last one are kept, as it is judged after evaluation."""
        last: tuple[StreamOrder, list[Run]] | None = self.__dict__.get("_last")
        if last is None or last[0] is not answer:
            last = answer, stream_runs(self.graph, answer.streams, self.device, answer.waits)
            self.__dict__["_last"] = last
        return last[1]

    def judge(self, answer: StreamAnswer) -> Judgement:
        """Lower the answer to a plan and verify it; of orders the flow, too, if the memory is bounded."""
        if isinstance(answer, Plan):
            plan, edges = answer, None
            verdict = verify(self.graph, plan, rerun=False, start_tiers={})
        elif isinstance(answer, Stages):
            plan = lower_stages(self.graph, answer.stages, self.device, self.memory)
            verdict, edges = verify(self.graph, plan, rerun=False), None
        else:
            machine = stream_machine(len(answer.streams), self.device, self.memory)
            plan, edges = lower_runs(self.graph, self._runs(answer), machine), answer.edges
            verdict = verify(self.graph, plan, rerun=False)
            if wrong := [*self._wait_faults(answer, plan), *self._flow_faults(answer)]:
                verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *wrong]))
        objective = verdict.makespan if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan, edges=edges)

    def _wait_faults(self, answer: StreamOrder, plan: Plan) -> list[Violation]:
        """Return each wait that the plan does not keep; the verifier of plans knows the precedence only."""
        runs = {run.op: run for run in plan.runs}
        wrong = []
        for i, j in answer.waits:
            lag = self.sync_ns if runs[i].processor != runs[j].processor else 0
            if runs[j].start < runs[i].end + lag:
                said = f"op {j} starts at {runs[j].start} ns, expected not before op {i} ends, and {lag} ns"
                wrong.append(Violation(kind="sync", message=said, time=runs[j].start, op=j, other=i))
        return wrong

    def _flow_faults(self, answer: StreamOrder) -> list[Violation]:
        if self.memory is None:
            return []
        from ..verifier.flow import verify_flow  # numpy, which `import lowtide` does without

        wrong = list(verify_flow(self.graph, answer.edges, answer.flow, None))
        if (value := answer.flow.value()) > self.memory:
            said = f"the flow proves {value} bytes, expected at most the memory {self.memory}"
            wrong.append(Violation(kind="flow", message=said))
        return wrong

    def setting(self, edges: tuple[tuple[int, int], ...] = ()) -> ParallelSetting:
        """Return the edges: a certificate is about the memory under them."""
        return ParallelSetting(processors=None, edges=edges)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return streams and synchronisations, or stages and their most groups; and the peak of the plan.

        Of several devices the peak of each and what is transferred.
        """
        answer = self.read(judgement.plan)
        if isinstance(answer, Plan):
            assert isinstance(judgement.verification, Verification)
            return [*peak_facts(judgement.verification), *traffic_facts(judgement.verification)]
        if isinstance(answer, Stages):
            widest = max(map(len, answer.stages), default=0)
            count = len(answer.stages)
            rows = [Fact("stages", count, str(count)), Fact("groups", widest, f"at most {widest}")]
        else:
            rows = [Fact("streams", len(answer.streams), str(len(answer.streams)))]
            if len(self.graph.ops) <= COUNTED:
                waits = len(synchronisations(self.graph, answer.streams, judgement.edges or ()))
                rows.append(Fact("synchronisations", waits, str(waits)))
        return [*rows, *(fact._replace(name="peak") for fact in peak_facts(judgement.verification))]
