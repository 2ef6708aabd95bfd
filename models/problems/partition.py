"""The partition problem: which layers on which device, so that the busiest device has least to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import index
from typing import Any, ClassVar, Self

from ..checks import check_flag, check_integer, check_type, set_bytes
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, Graph
from ..lowering.split import lower_split, split_of_plan
from ..parameter import Parameter
from ..plan import Plan
from ..split import HOST, RECOMPUTE, SCHEDULES, Split, SplitRules
from ..units import exact_bytes, exact_value
from ..verifier.stages import SplitVerdict, judge_split
from ..verifier.verdict import sorted_violations
from ..verifier.verify import verify
from .problem import Judgement, Problem
from .processors import Kinds, Processors, alternatives_of, checked_processors, kinds_of

OBJECTIVES = ("load", "time", "latency")

GIVEN = ("processors", "memory", "link", "together", "backward")
"""What a graph's provenance may have as ``layers``."""


@dataclass(frozen=True)
class Partition(Problem):
    """Pipeline partition: layers on devices, one stage each, so that the largest load of a stage is least.

    Micro-batches follow each other through the stages; in a steady state one leaves the pipeline in the time
    that the busiest stage needs for it, its *load*: of its ops, and of its transfers with other stages.
    `lowtide.models.verifier.stages` states every rule. An answer is a `lowtide.models.split.Split`.

    Parameters
    ----------
    graph
        Ops with modes that name kinds of processors at most. Of a training step, forward and backward pass.
    processors
        How many devices, at most one stage on each; or how many of each kind. Those of kind ``cpu`` belong to
        the host: no limit of memory, and transfers cost them nothing.
    memory
        Of each device in bytes; None: no limit.
    link
        Bytes per second of transfers to or from a device; None: they take no time.
    contiguous
        Whether values pass between forward ops from a stage to later ones only. Backward ops follow the
        forward ops of their classes.
    together
        Classes of ops that one stage runs; those that share ops are one.
    backward
        The ops of the backward pass.
    schedule, micro
        ``gpipe`` or ``1f1b``: a stage also keeps what its backward ops need of micro-batches under way, of
        `micro` in all. ``none``: only initial tensors count.
    recompute
        Whether forward ops run again in the backward pass, and keep nothing till then: ``none``, ``all``, or
        as an answer chooses (``choose``).
    replicate, sync
        How many devices may share a stage, and the bytes per second at which they exchange gradients (None:
        in no time).
    objective
        ``load``, or ``time``: the sum of the loads and `micro` - 1 times the largest, the time of a batch. Or
        ``latency``: the time of one sample, a stage beginning when all that it needs has left other stages;
        of forward ops in contiguous stages of one device, of which the host may have any number.

    Raises
    ------
    InstanceError
        If there are no ops, no kind can run some op, or a number or a name is wrong.

    Examples
    --------
    Three layers on two devices; a transfer of 4 bytes takes 4 ns on both sides:

    >>> import lowtide as lt
    >>> g = lt.GraphBuilder()
    >>> _ = g.op("a", writes=[g.tensor("x", 4)], duration=5)
    >>> _ = g.op("b", reads=["x"], writes=[g.tensor("y", 1)], duration=7)
    >>> _ = g.op("c", reads=["y"], duration=9)
    >>> lt.solve(lt.Partition(g.build(), 2, link=10**9), threads=1).objective
    13
    """

    graph: Graph
    processors: Processors = 1
    memory: int | None = None
    link: int | None = None
    contiguous: bool = True
    together: tuple[tuple[int, ...], ...] = ()
    backward: tuple[int, ...] = ()
    schedule: str = "none"
    micro: int = 1
    recompute: str = "none"
    replicate: int = 1
    sync: int | None = None
    objective: str = "load"
    source: str | None = None
    name: ClassVar[str] = "partition"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "gantt"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "processors": Parameter(
            "1",
            "devices, or kinds with counts as in acc=6,cpu=1 (default as the instance has it)",
            kind="processors",
        ),
        "memory": Parameter("none", "of each device (default as the instance has it)", kind="limit"),
        "link": Parameter(
            "none", "bytes per second to or from a device (default as the instance has it)", kind="rate"
        ),
        "contiguous": Parameter("yes", "whether values pass to later stages only", choices=("yes", "no")),
        "schedule": Parameter("none", "of micro-batches, for what stages keep of them", choices=SCHEDULES),
        "micro": Parameter(1, "micro-batches of a batch", least=1),
        "recompute": Parameter("none", "forward ops that run again in the backward pass", choices=RECOMPUTE),
        "replicate": Parameter(1, "devices that may share a stage", least=1),
        "sync": Parameter("none", "bytes per second of the exchange of gradients", kind="rate"),
        "objective": Parameter(
            "load", "the largest load, the time of a batch, or of one sample", choices=OBJECTIVES
        ),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "partition, graph", A_GRAPH)
        check_type(self.source, (str, type(None)), "partition, source", "a str or None")
        if not self.graph.ops:
            raise InstanceError(f"partition, graph {self.graph.name!r}: found no ops, expected at least one")
        object.__setattr__(self, "processors", checked_processors(self.processors))
        for key in ("memory", "link", "sync"):
            set_bytes(self, key, int(key != "memory"), f"partition, {key}", optional=True)
        for key in ("micro", "replicate"):
            check_integer(getattr(self, key), 1, f"partition, {key}")
        check_flag(self.contiguous, "partition, contiguous")
        known = (("schedule", SCHEDULES), ("recompute", RECOMPUTE), ("objective", OBJECTIVES))
        for key, choices in known:
            if getattr(self, key) not in choices:
                raise InstanceError(
                    f"partition, {key}: found {getattr(self, key)!r}, expected one of {', '.join(choices)}"
                )
        if self.schedule != "none" and not self.contiguous:
            raise InstanceError("partition: found a schedule of any stages, expected contiguous ones with it")
        n = len(self.graph.ops)
        try:
            classes = tuple(tuple(some) for some in self.together)
            object.__setattr__(self, "backward", tuple(self.backward))
        except TypeError:
            raise InstanceError(
                "partition: found no lists, expected classes and backward ops in lists"
            ) from None
        plain = self.schedule == self.recompute == "none" and self.replicate == 1
        if self.objective == "latency" and not (self.contiguous and plain and not self.backward):
            raise InstanceError(
                "partition: found backward ops, replicas, a schedule, recomputation or any stages, expected "
                "for the latency contiguous stages of forward ops"
            )
        for i in (*self.backward, *(i for some in classes for i in some)):
            if type(i) is not int or not 0 <= i < n:
                raise InstanceError(f"partition: found op {i!r}, expected an index in [0, {n})")
        object.__setattr__(self, "together", _joined(classes))
        object.__setattr__(self, "backward", tuple(sorted(set(self.backward))))
        _ = self.modes

    @classmethod
    def of(cls, subject: Graph, *, source: str | None = None, **values: Any) -> Self:
        """Return the problem with what the graph's provenance has as ``layers``, where nothing is given."""
        found = subject.provenance.get("layers")
        layers = {key: found[key] for key in GIVEN if key in found} if isinstance(found, Mapping) else {}
        if "contiguous" in values:
            values["contiguous"] = values["contiguous"] == "yes"
        return cls(subject, source=source, **{**layers, **values})

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of devices with their counts."""
        return kinds_of(checked_processors(self.processors))

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return sum(count for _, count in self.kinds)

    @cached_property
    def counts(self) -> dict[str, int]:
        """By kind how many stages there may be."""
        counts = dict(self.kinds)
        if self.objective == "latency" and HOST in counts:
            counts[HOST] = len(self.graph.ops)
        return counts

    @cached_property
    def modes(self) -> tuple[dict[str, tuple[int, int]], ...]:
        """By op and kind: time in ns and number of its fastest mode there."""
        modes: list[dict[str, tuple[int, int]]] = []
        for some in alternatives_of(self.graph, self.kinds):
            own: dict[str, tuple[int, int]] = {}
            for a in some:
                kind = self.kinds[a.kind][0]
                own[kind] = min(own.get(kind, (a.duration, a.mode)), (a.duration, a.mode))
            modes.append(own)
        return tuple(modes)

    @cached_property
    def rules(self) -> SplitRules:
        """What the verifier asks of a split."""
        return SplitRules(
            counts=self.counts,
            memory=self.memory,
            link=self.link,
            sync=self.sync,
            contiguous=self.contiguous,
            replicate=self.replicate,
            together=self.together,
            backward=frozenset(self.backward),
            schedule=self.schedule,
            micro=self.micro,
            recompute=self.recompute,
        )

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name and the devices, and the source."""
        devices = " and ".join(f"{count} {kind}" for kind, count in self.kinds)
        return f"{self.graph.name} on {devices} devices", self.source

    def payload(self) -> dict[str, Any]:
        """Return all that is asked."""
        keys = {x.name for x in fields(self)} - {"graph", "source", "backward", "together"}
        return {
            "graph": self.graph.sha256,
            **{key: getattr(self, key) for key in sorted(keys)},
            "backward": list(self.backward),
            "together": sorted(sorted(some) for some in self.together if len(some) > 1),
        }

    def read(self, item: object) -> Split:
        """Return the split that a plan of stages is, or one as it is, without empty stages.

        Raises
        ------
        InstanceError
            If it is neither, has not one stage for each op, or a stage is of a kind that is not there or
            cannot run one of its ops.
        """
        if isinstance(item, Plan):
            item = split_of_plan(self.graph, item)
        if not isinstance(item, Split):
            raise InstanceError(f"found {type(item).__name__}, expected a Split or a Plan")
        try:
            stage = tuple(map(index, item.stage))
            replicas, again = tuple(map(index, item.replicas)), tuple(sorted(set(map(index, item.again))))
        except TypeError:
            raise InstanceError("found a split of other things, expected one of integers") from None
        n, count = len(self.graph.ops), len(item.kinds)
        if len(stage) != n or len(replicas) != count or not all(0 <= s < count for s in stage):
            raise InstanceError(
                f"found {len(stage)} stages of ops in {count}, expected one of each of {n} ops"
            )
        if again and (self.recompute != "choose" or not set(again) <= set(range(n)) - set(self.backward)):
            raise InstanceError(
                "found ops that run again, expected forward ops, and only with recompute=choose"
            )
        for i, s in enumerate(stage):
            if item.kinds[s] not in self.modes[i]:
                raise InstanceError(
                    f"op {i} {self.graph.ops[i].name!r}: found kind {item.kinds[s]!r}, expected one of "
                    f"{', '.join(self.modes[i])}"
                )
        used = sorted(set(stage))
        return Split(
            stage=tuple(used.index(s) for s in stage) if len(used) < count else stage,
            kinds=tuple(item.kinds[s] for s in used),
            replicas=tuple(replicas[s] for s in used),
            again=again,
        )

    def verdict(self, answer: Split) -> SplitVerdict:
        """Return what the verifier says of a split: loads, bytes, violations."""
        durations = [self.modes[i][answer.kinds[s]][0] for i, s in enumerate(answer.stage)]
        return judge_split(self.graph, answer, durations, self.rules)

    def value(self, verdict: SplitVerdict) -> int:
        """Return the objective in ns of what the verifier says."""
        loads = verdict.loads
        if self.objective == "latency":
            return max(verdict.ends)
        return max(loads) + (0 if self.objective == "load" else sum(loads) + (self.micro - 2) * max(loads))

    def evaluate(self, answer: Split) -> int:
        """Return the objective in ns."""
        return self.value(self.verdict(answer))

    def judge(self, answer: Split) -> Judgement:
        """Have the plan of one micro-batch verified, and the loads and bytes of its stages recomputed."""
        modes = [self.modes[i][answer.kinds[s]][1] for i, s in enumerate(answer.stage)]
        plan = lower_split(self.graph, answer, modes)
        verdict = verify(self.graph, plan, rerun=False)
        durations = [0] * len(modes)
        for run in plan.runs:
            durations[run.op] = run.end - run.start
        ruled = judge_split(self.graph, answer, durations, self.rules)
        if ruled.violations:
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *ruled.violations]))
        objective = self.value(ruled) if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def impossible(self) -> str | None:
        """Return why there is no split: too few bytes for the initial tensors of an op, or of all."""
        if self.memory is None or HOST in dict(self.kinds):
            return None
        tensors = self.graph.tensors
        accessed = [{t for t in (*op.reads, *op.writes) if tensors[t].initial} for op in self.graph.ops]
        for i, some in enumerate(accessed):
            if (held := sum(tensors[t].nbytes for t in some)) > self.memory:
                room = exact_bytes(self.memory)
                return f"op {i} {self.graph.ops[i].name!r} needs {exact_bytes(held)} of its device, of {room}"
        held, there = sum(tensors[t].nbytes for t in set().union(*accessed)), self.memory * self.devices
        return (
            f"all devices together need {exact_bytes(held)}, of {exact_bytes(there)}"
            if held > there
            else None
        )

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return devices, load and bytes of each stage."""
        assert judgement.plan is not None
        split = self.read(judgement.plan)
        verdict = self.verdict(split)
        return [
            Fact(
                f"stage {s} on {split.kinds[s]}"
                + (f" x{split.replicas[s]}" if split.replicas[s] > 1 else ""),
                {"ns": load, "bytes": held, "ops": split.stage.count(s)},
                f"{exact_value(load, self.unit)}, {exact_bytes(held)}, {split.stage.count(s)} ops",
            )
            for s, (load, held) in enumerate(zip(verdict.loads, verdict.memories, strict=True))
        ]


def _joined(classes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the classes, those that share ops as one."""
    of: dict[int, tuple[int, ...]] = {}
    for some in classes:
        joined = tuple(dict.fromkeys(i for j in some for i in of.get(j, (j,))))
        of.update(dict.fromkeys(joined, joined))
    return tuple(dict.fromkeys(of.values()))
