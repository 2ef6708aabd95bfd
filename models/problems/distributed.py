"""The problem `distributed`: processors with memories of their own, and transfers between these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any, ClassVar, NamedTuple, Self

from ..checks import check_type
from ..derived.values import Value, values_of
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, Accounting, Graph
from ..lowering.transfers import Sending, lower_transfers
from ..machine import Machine, check_no_contention, part_of
from ..parameter import Parameter
from ..plan import Plan, Run
from ..units import exact_bytes
from ..verifier.verdict import Verification, Violation, sorted_violations
from ..verifier.verify import verify
from .makespan import Makespan
from .memories import Link, Place, check_memories, first_processors, links_of, memories_of, places_of
from .placement_machine import check_sizes
from .problem import Judgement, Problem, peak_facts, traffic_facts
from .processors import Alternative, alternatives_of, as_good, runs_of


class Send(NamedTuple):
    """What op `writer` makes of `tensor` goes to memory number `memory`, from `start` (ns) on."""

    writer: int
    tensor: int
    memory: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedSchedule:
    """When and where each op runs, and when each transfer begins.

    Attributes
    ----------
    starts
        Per op: ns.
    chosen
        Per op: the number of its alternative (`Distributed.alternatives`).
    transfers
        At most one of each value to each memory.
    """

    starts: tuple[int, ...]
    chosen: tuple[int, ...]
    transfers: tuple[Send, ...] = ()


@dataclass(frozen=True)
class Distributed(Problem):
    """Makespan on distributed memory: each processor has its own, and what another one makes is sent to it.

    Each op runs once, without interruption, in one of its modes, on a processor whose kind the mode allows,
    and reads and writes in the memory of that processor. What it reads of an op on another memory is sent
    there, once, in one piece, by the channel between the two: its latency, then its bytes at the channel's
    rate. A channel that is shared, and a group of channels, carries one transfer at a time; latencies
    overlap.

    A tensor is in a memory from the start of the op that writes it there, or of the transfer that brings it,
    to the end of the last op there that accesses it (under ``replace``: the start, if that op only reads it)
    and of the last transfer from there. An initial tensor is from time 0 on in every memory where its first
    version is accessed; a final one stays where the last op wrote it, or where it began. Tensors that are
    there throughout and never accessed are in the machine's last tier. No memory ever holds more than its
    capacity. The objective is the makespan in ns.

    Parameters
    ----------
    graph
        Ops with modes that name processors at most, no tiers.
    machine
        Each processor reads and writes one tier, its memory; processors that name the same one share it, and
        need no transfers between them.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If there are no ops, a processor has several tiers or a slow one, the machine has contention, no
        processor can run some op, or no op can run on some processor.

    Examples
    --------
    Two devices of 8 bytes each; an op needs 6 while it runs, and what the third one reads is sent:

    >>> import lowtide as lt
    >>> tiers = tuple(lt.Tier(name=x, capacity=8) for x in "ab")
    >>> both = tuple(lt.Processor(name=f"p{x}", tiers=(lt.Access(tier=x),)) for x in "ab")
    >>> ways = tuple(lt.Channel(src=x, dst=y, bytes_per_s=10**9) for x, y in ("ab", "ba"))
    >>> machine = lt.Machine(tiers=tiers, processors=both, channels=ways)
    >>> g = lt.GraphBuilder()
    >>> for name in "xy":
    ...     _ = g.op(name, writes=[g.tensor(name, 2)], workspace=4, duration=5)
    >>> _ = g.op("z", reads=["x", "y"], duration=3)
    >>> lt.solve(lt.Distributed(g.build(), machine), threads=1).objective
    10
    """

    graph: Graph
    machine: Machine
    source: str | None = None
    name: ClassVar[str] = "distributed"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "timeline"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "machine": Parameter(
            "", "processors with a memory each, and the channels between them", kind="machine", required=True
        ),
        "processors": Parameter(
            "1",
            "the first of the machine, or kinds with counts as in cpu=4,gpu=1 (default all)",
            kind="processors",
        ),
        "memory": Parameter("none", "of each processor (default as the machine has it)", kind="size"),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "distributed, graph", A_GRAPH)
        check_type(self.machine, Machine, "distributed, machine")
        check_type(self.source, (str, type(None)), "distributed, source", "a str or None")
        if not self.graph.ops:
            raise InstanceError(
                f"distributed, graph {self.graph.name!r}: found no ops, expected at least one"
            )
        check_no_contention(self.machine, "distributed", shared=False)
        check_sizes(self.machine)
        check_memories(self.machine)
        _ = self.pooled, self.alternatives

    @classmethod
    def of(cls, subject: Graph, *, source: str | None = None, **values: Any) -> Self:
        """Return the problem on part of a machine, or with other capacities of its processors' memories.

        Raises
        ------
        InstanceError
            If the machine has fewer such processors.
        """
        machine: Machine = values["machine"]
        if "processors" in values:
            machine = part_of(machine, first_processors(machine, values["processors"]))
        if "memory" in values:
            used, size = memories_of(machine), values["memory"]
            tiers = (replace(t, capacity=size) if t.name in used else t for t in machine.tiers)
            machine = replace(machine, tiers=tuple(tiers))
        return cls(subject, machine, source=source)

    @cached_property
    def memories(self) -> tuple[str, ...]:
        """The tiers that processors use, in the machine's order."""
        return memories_of(self.machine)

    @cached_property
    def capacities(self) -> tuple[int | None, ...]:
        """By memory: bytes for what is accessed, None if unlimited."""
        size = {t.name: t.capacity for t in self.machine.tiers}
        held = {self.machine.tiers[-1].name: sum(self.graph.tensors[t].nbytes for t in self.untouched)}
        sizes = ((name, size[name]) for name in self.memories)
        return tuple(None if room is None else room - held.get(name, 0) for name, room in sizes)

    @cached_property
    def untouched(self) -> tuple[int, ...]:
        """The tensors that are there throughout, and that no op accesses."""
        return tuple(
            x.tensor
            for x in self.values
            if x.writer is None and not x.present and x.last and self.graph.tensors[x.tensor].final
        )

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The processors, those of one kind and memory together, in the machine's order."""
        return places_of(self.machine)

    @cached_property
    def alternatives(self) -> tuple[tuple[Alternative, ...], ...]:
        """By op: the modes that it may take, and where: `kind` is the number of a place."""
        return alternatives_of(self.graph, tuple((x.kind, len(x.processors)) for x in self.places))

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """What ops make and read."""
        return values_of(self.graph)

    @cached_property
    def links(self) -> dict[tuple[int, int], Link]:
        """By memory from and to."""
        return links_of(self.machine)

    @cached_property
    def pooled(self) -> Makespan:
        r"""The same ops on the same processors, with one memory as large as all together: a relaxation.

        *Proof.* Take a schedule of the problem, without its transfers. Kinds and precedence hold. At any time
        from when a tensor first exists to its last access (under ``replace``: the start of that access, if
        it only reads) some memory holds it. Take an access that is still to end, in memory m. If the tensor
        has not come to m, a transfer to m is still to begin (an initial version is in m from time 0), and
        until it ends the tensor is where its value was written; if that op has not started either, it is
        itself an access that is still to end, and precedes the other one, so this ends. A final tensor stays
        in some memory, a workspace is in the memory of its op. So what is live at any time has at most the
        capacities together. Initial tensors that nobody accesses are counted where they are.

        So its bounds bound the makespan, and if it has no schedule, there is none.
        """
        counts: dict[str, int] = {}
        for place in self.places:
            counts[place.kind] = counts.get(place.kind, 0) + len(place.processors)
        total = None
        if None not in self.capacities:
            total = sum(room or 0 for room in self.capacities)
            total += sum(self.graph.tensors[t].nbytes for t in self.untouched)
        return Makespan(self.graph, tuple(counts.items()), None if total is None else max(total, 0))

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the names of graph and machine, and the source."""
        return f"{self.graph.name} on {self.machine.name}", self.source

    def payload(self) -> dict[str, Any]:
        """Return graph and machine."""
        machine = {key: value for key, value in self.machine.to_dict().items() if key != "name"}
        return {"graph": self.graph.sha256, "machine": machine}

    def memory_of(self, i: int, chosen: int) -> int:
        """Return the memory of op i in one of its alternatives."""
        return self.places[self.alternatives[i][chosen].kind].memory

    def ends(self, answer: DistributedSchedule) -> list[int]:
        """Return the end of each transfer of an answer, in ns."""
        ends = []
        for x in answer.transfers:
            link = self.links[self.memory_of(x.writer, answer.chosen[x.writer]), x.memory]
            ends.append(x.start + link.time(self.graph.tensors[x.tensor].nbytes))
        return ends

    def read(self, item: object) -> DistributedSchedule:
        """Return the schedule that a plan for this machine stands for, or one as it is; `judge` looks at it.

        Raises
        ------
        InstanceError
            If it is neither, has not one start and alternative of each op, or sends what cannot be sent.
        """
        if isinstance(item, Plan):
            item = self._of_plan(item)
        if not isinstance(item, DistributedSchedule):
            raise InstanceError(f"found {type(item).__name__}, expected a Plan or a DistributedSchedule")
        try:
            item = DistributedSchedule(
                starts=tuple(map(index, item.starts)),
                chosen=tuple(map(index, item.chosen)),
                transfers=tuple(Send(*map(index, x)) for x in item.transfers),
            )
        except TypeError:
            raise InstanceError("found a schedule of other things, expected one of integers") from None
        n = len(self.graph.ops)
        if len(item.starts) != n or len(item.chosen) != n:
            raise InstanceError(
                f"found {len(item.starts)} starts and {len(item.chosen)} alternatives, expected {n} of each"
            )
        for i, a in enumerate(item.chosen):
            if not 0 <= a < len(self.alternatives[i]):
                raise InstanceError(
                    f"op {i} {self.graph.ops[i].name!r}: found alternative {a}, expected one in "
                    f"[0, {len(self.alternatives[i])})"
                )
        made = {(x.writer, x.tensor) for x in self.values if x.writer is not None}
        for x in item.transfers:
            if (x.writer, x.tensor) not in made:
                raise InstanceError(
                    f"found a transfer of tensor {x.tensor}, which op {x.writer} does not write"
                )
            src = self.memory_of(x.writer, item.chosen[x.writer])
            if (src, x.memory) not in self.links:
                raise InstanceError(
                    f"found a transfer of tensor {x.tensor} from memory {self.memories[src]!r} to number "
                    f"{x.memory}, expected a channel between them"
                )
        return item

    def _of_plan(self, plan: Plan) -> DistributedSchedule:
        n = len(self.graph.ops)
        if plan.graph_sha256 not in (None, self.graph.sha256):
            raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
        if plan.machine.to_dict() != self.machine.to_dict() or plan.period is not None:
            raise InstanceError(f"found a plan for another machine than {self.machine.name!r}, or a period")
        runs = {run.op: run for run in plan.runs}
        if len(plan.runs) != len(runs) or sorted(runs) != list(range(n)):
            raise InstanceError(f"found a plan of {len(plan.runs)} runs, expected one of each op")
        place = {name: k for k, some in enumerate(self.places) for name in some.processors}
        chosen = []
        for i, op in enumerate(self.graph.ops):
            number, on = runs[i].mode, place.get(runs[i].processor, -1)
            known = 0 <= number < len(op.all_modes)
            taken = as_good(self.alternatives[i], on, op.all_modes[number]) if known else None
            if taken is None:
                raise InstanceError(
                    f"op {i} {op.name!r}: found mode {number} on processor {runs[i].processor!r}, "
                    "expected a mode for it"
                )
            chosen.append(taken)
        return DistributedSchedule(
            starts=tuple(runs[i].start for i in range(n)),
            chosen=tuple(chosen),
            transfers=tuple(self._transfers(plan, runs, chosen)),
        )

    def _transfers(self, plan: Plan, runs: Mapping[int, Run], chosen: list[int]) -> list[Send]:
        """Return the copies of a plan as transfers of the value that was last written when they began."""
        sent = []
        for copy in plan.copies:
            made = [x.writer for x in self.values if x.tensor == copy.tensor and x.writer is not None]
            made = [i for i in made if runs[i].end <= copy.start]
            whole = copy.bytes in (None, (0, self.graph.tensors[copy.tensor].nbytes))
            memories = {name: k for k, name in enumerate(self.memories)}
            if not made or not whole or memories.get(copy.src) != self.memory_of(made[-1], chosen[made[-1]]):
                raise InstanceError(
                    f"found a copy of tensor {copy.tensor} from {copy.src!r} at {copy.start} ns, expected "
                    "all of it from the memory of the op that wrote it"
                )
            if copy.dst not in memories:
                raise InstanceError(f"found a copy to {copy.dst!r}, expected one to {' or '.join(memories)}")
            sent.append(Send(made[-1], copy.tensor, memories[copy.dst], copy.start))
        return sent

    def evaluate(self, answer: DistributedSchedule) -> int:
        """Return the makespan in ns."""
        runs = zip(answer.starts, answer.chosen, self.alternatives, strict=True)
        return max([*(s + some[a].duration for s, a, some in runs), *self.ends(answer)])

    def impossible(self) -> str | None:
        """Return why there is no schedule, if the memories together or each memory alone hold too little."""
        if (witness := self.pooled.impossible()) is not None:
            return f"all memories together: {witness}"
        for name, room in zip(self.memories, self.capacities, strict=True):
            if room is not None and room < 0:
                return f"memory {name!r}: what no op accesses exceeds it by {exact_bytes(-room)}"
        coexist = self.graph.accounting is Accounting.COEXIST
        for i, (op, some) in enumerate(zip(self.graph.ops, self.alternatives, strict=True)):
            held = sum(self.graph.tensors[t].nbytes for t in {*op.writes, *(op.reads if coexist else ())})
            rooms = [(held + a.workspace, self.capacities[self.places[a.kind].memory]) for a in some]
            if all(room is not None and needed > room for needed, room in rooms):
                needed, room = max(rooms, key=lambda pair: (pair[1] or 0) - pair[0])
                return f"op {i} {op.name!r} needs {exact_bytes(needed)}, of {exact_bytes(room or 0)} at most"
        return None

    def judge(self, answer: DistributedSchedule) -> Judgement:
        """Lower the schedule to a plan and verify it, and that transfers take turns.

        The verifier of plans lets several share a link or a group within its rate.
        """
        plan = self.lower(answer)
        verdict = verify(self.graph, plan, rerun=False, start_tiers={})
        if together := [*self._together(answer)]:
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *together]))
        objective = verdict.makespan if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def _together(self, answer: DistributedSchedule) -> Iterator[Violation]:
        """Yield a violation for each transfer that begins to use a lane before the last one has left it."""
        uses = []
        for x, end in zip(answer.transfers, self.ends(answer), strict=True):
            link = self.links[self.memory_of(x.writer, answer.chosen[x.writer]), x.memory]
            uses += [(x.start + link.latency, end, lane, x.tensor) for lane in link.lanes]
        free: dict[str, int] = {}
        for begin, end, lane, tensor in sorted(use for use in uses if use[0] < use[1]):
            if begin < free.get(lane, begin):
                words = (
                    f"tensor {tensor} is sent over {lane} at {begin} ns, expected not before {free[lane]} ns"
                )
                yield Violation(kind="channel-rate", message=words, time=begin, tensor=tensor, resource=lane)
            free[lane] = max(end, free.get(lane, 0))

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the most bytes in each memory, and the bytes over each channel."""
        verdict = judgement.verification
        assert isinstance(verdict, Verification)
        return [*peak_facts(verdict), *traffic_facts(verdict)]

    def lower(self, answer: DistributedSchedule) -> Plan:
        """Return the plan of an answer; an op takes the processor of its place that has been idle longest."""
        chosen = [some[k] for some, k in zip(self.alternatives, answer.chosen, strict=True)]
        runs = runs_of(answer.starts, chosen, (place.processors for place in self.places))
        sendings = (
            Sending(x.writer, x.tensor, self.memories[x.memory], x.start, end)
            for x, end in zip(answer.transfers, self.ends(answer), strict=True)
        )
        return lower_transfers(self.graph, runs, sendings, self.machine)
