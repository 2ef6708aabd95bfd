"""The hybrid problem: stages of a pipeline with data and tensor parallel degrees, least time per sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from operator import index
from typing import Any, ClassVar, Self

from ..checks import check_integer, check_type, set_bytes
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, Graph
from ..hybrid_rules import HybridRules, Need, degree_of
from ..lowering.split import lower_split, split_of_plan
from ..parameter import Parameter
from ..plan import Plan
from ..split import RECOMPUTE, Split
from ..units import exact_bytes, exact_value
from ..verifier.hybrid import judge_hybrid
from ..verifier.stages import SplitVerdict
from ..verifier.verdict import sorted_violations
from ..verifier.verify import verify
from .problem import Judgement, Problem

GIVEN = ("processors", "memory", "link", "micro", "needs")
"""What a graph's provenance may have as ``hybrid``."""


@dataclass(frozen=True)
class Hybrid(Problem):
    """Pipeline stages with data and tensor parallel degrees, so that the time per sample is least.

    A stage runs its layers on d replicas that take its micro-batches in turn, each a group of t devices that
    split tensors among them; each layer has modes for some t, such as to keep its activations or to run again
    in the backward pass. The objective is the largest time per sample of a stage.
    `lowtide.models.verifier.hybrid` states every rule. An answer is a `lowtide.models.split.Split` with
    ``modes``, its kinds ``t1``, ``t2``, … for groups of so many devices.

    Parameters
    ----------
    graph
        Layers, of forward and backward pass together. Modes name the groups that they are for, such as
        ``t4``; those that name none are for ``t1``.
    processors
        How many devices there are.
    memory
        Of each device in bytes; None: no limit.
    link
        Bytes per second of a device to all others; None: transfers take no time.
    micro
        Micro-batches of a batch.
    replicate, tensor
        The most replicas of a stage, and the most devices of a group; None: any.
    recompute
        ``choose``: any modes. ``none``: none in which layers run again. ``all``: these, where there are some.
    needs
        By op and mode; by default a layer holds the initial tensors that it accesses, which are its weights,
        and keeps what it writes for each micro-batch. Weights and `sync` are the same in all modes of a layer
        for groups of one size.

    Raises
    ------
    InstanceError
        If there are no ops, modes are for other kinds than groups, or a number is wrong.

    Examples
    --------
    Three equal layers on four devices, in one stage of four replicas; with less memory in a stage each.

    >>> import lowtide as lt
    >>> g = lt.GraphBuilder()
    >>> for name, read in (("a", []), ("b", ["xa"]), ("c", ["xb"])):
    ...     _ = g.op(name, reads=read, writes=[g.tensor(f"x{name}", 4)], duration=8)
    >>> graph = g.build()
    >>> [lt.solve(lt.Hybrid(graph, 4, memory=m, micro=4), threads=1).objective for m in (12, 11)]
    [6, 8]
    """

    graph: Graph
    processors: int = 1
    memory: int | None = None
    link: int | None = None
    micro: int = 1
    replicate: int | None = None
    tensor: int | None = None
    recompute: str = "choose"
    needs: tuple[tuple[Need, ...], ...] = ()
    source: str | None = None
    name: ClassVar[str] = "hybrid"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "stages"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "processors": Parameter(1, "devices (default as the instance has it)", least=1),
        "memory": Parameter("none", "of each device (default as the instance has it)", kind="limit"),
        "link": Parameter(
            "none", "bytes per second of a device to others (default as the instance has it)", kind="rate"
        ),
        "micro": Parameter(1, "micro-batches of a batch (default as the instance has it)", least=1),
        "replicate": Parameter(1, "replicas of a stage at most (default any)", least=1),
        "tensor": Parameter(1, "devices that split the tensors of a layer at most (default any)", least=1),
        "recompute": Parameter("choose", "layers that run again in the backward pass", choices=RECOMPUTE),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "hybrid, graph", A_GRAPH)
        check_type(self.source, (str, type(None)), "hybrid, source", "a str or None")
        if not self.graph.ops:
            raise InstanceError(f"hybrid, graph {self.graph.name!r}: found no ops, expected at least one")
        for key in ("memory", "link"):
            set_bytes(self, key, int(key != "memory"), f"hybrid, {key}", optional=True)
        for key in ("processors", "micro", "replicate", "tensor"):
            check_integer(
                getattr(self, key), 1, f"hybrid, {key}", optional=key not in ("processors", "micro")
            )
        if self.recompute not in RECOMPUTE:
            raise InstanceError(
                f"hybrid, recompute: found {self.recompute!r}, expected one of {', '.join(RECOMPUTE)}"
            )
        for i, op in enumerate(self.graph.ops):
            for kind in sorted({k for mode in op.all_modes for k in mode.processors}):
                if degree_of(kind) is None:
                    raise InstanceError(
                        f"hybrid, op {i} {op.name!r}: found a mode for kind {kind!r}, expected groups "
                        "of devices such as t4"
                    )
        object.__setattr__(self, "needs", self.needs and _checked(self.graph, self.needs))

    @classmethod
    def of(cls, subject: Graph, *, source: str | None = None, **values: Any) -> Self:
        """Return the problem with what the graph's provenance has as ``hybrid``, where nothing is given."""
        found = subject.provenance.get("hybrid")
        given = {key: found[key] for key in GIVEN if key in found} if isinstance(found, Mapping) else {}
        if "needs" in given:
            try:
                given["needs"] = tuple(tuple(Need(**need) for need in row) for row in given["needs"])
            except TypeError as error:
                raise InstanceError(
                    f"graph {subject.name!r}, provenance: found {error}, expected needs of layers"
                ) from None
        return cls(subject, source=source, **{**given, **values})

    @cached_property
    def all_needs(self) -> tuple[tuple[Need, ...], ...]:
        """By op and mode what it needs, defaults where the problem states nothing."""
        if self.needs:
            return self.needs
        tensors = self.graph.tensors
        rows = []
        for op in self.graph.ops:
            held = sum(tensors[t].nbytes for t in {*op.reads, *op.writes} if tensors[t].initial)
            made = sum(tensors[t].nbytes for t in op.writes if not tensors[t].initial)
            rows.append((Need(weights=held, each=made, once=held),) * len(op.all_modes))
        return tuple(rows)

    @cached_property
    def rules(self) -> HybridRules:
        """What the verifier asks of a split."""
        return HybridRules(**{x.name: getattr(self, x.name) for x in fields(HybridRules)})

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name and the devices, and the source."""
        return f"{self.graph.name} on {self.processors} devices", self.source

    def payload(self) -> dict[str, Any]:
        """Return all that is asked."""
        keys = sorted({x.name for x in fields(self)} - {"graph", "source", "needs"})
        needs = [[asdict(need) for need in row] for row in self.all_needs]
        return {
            "graph": self.graph.sha256,
            **{key: getattr(self, key) for key in keys},
            "needs": needs,
        }

    def read(self, item: object) -> Split:
        """Return the split that a plan of stages is, or one as it is, without empty stages.

        Raises
        ------
        InstanceError
            If it is neither, has not a stage and a mode for each op, or a stage is of another kind than a
            group of devices.
        """
        if isinstance(item, Plan):
            item = split_of_plan(self.graph, item)
        if not isinstance(item, Split):
            raise InstanceError(f"found {type(item).__name__}, expected a Split or a Plan")
        try:
            stage, modes = tuple(map(index, item.stage)), tuple(map(index, item.modes))
            replicas = tuple(map(index, item.replicas))
        except TypeError:
            raise InstanceError("found a split of other things, expected one of integers") from None
        n, count = len(self.graph.ops), len(item.kinds)
        if len(stage) != n or len(replicas) != count or not all(0 <= s < count for s in stage):
            raise InstanceError(
                f"found {len(stage)} stages of ops in {count}, expected one of each of {n} ops"
            )
        if len(modes) != n or not all(
            0 <= m < len(op.all_modes) for m, op in zip(modes, self.graph.ops, strict=True)
        ):
            raise InstanceError(f"found modes {modes[:9]}, expected one of each of {n} ops")
        for kind, d in zip(item.kinds, replicas, strict=True):
            if degree_of(kind) is None or d < 1:
                raise InstanceError(
                    f"found {d} replicas of kind {kind!r}, expected at least one of groups such as t4"
                )
        used = sorted(set(stage))
        return Split(
            stage=tuple(used.index(s) for s in stage),
            kinds=tuple(item.kinds[s] for s in used),
            replicas=tuple(replicas[s] for s in used),
            modes=modes,
        )

    def verdict(self, answer: Split) -> SplitVerdict:
        """Return what the verifier says of a split: times per sample, bytes, violations."""
        return judge_hybrid(self.graph, answer, self.all_needs, self.rules)

    def evaluate(self, answer: Split) -> int:
        """Return the largest time per sample in ns."""
        return max(self.verdict(answer).loads)

    def judge(self, answer: Split) -> Judgement:
        """Have the plan of one sample verified, and the times and bytes of its stages recomputed."""
        plan = lower_split(self.graph, answer, answer.modes)
        verdict = verify(self.graph, plan, rerun=False)
        ruled = self.verdict(answer)
        if ruled.violations:
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *ruled.violations]))
        return Judgement(
            objective=max(ruled.loads) if verdict.valid else None, verification=verdict, plan=plan
        )

    def impossible(self) -> str | None:
        """Return why there is no split: a layer needs more than a device has in each mode."""
        for i, row in enumerate(self.all_needs):
            least = min(need.each + need.once for need in row)
            if self.memory is not None and least > self.memory:
                room = exact_bytes(self.memory)
                return (
                    f"op {i} {self.graph.ops[i].name!r} needs {exact_bytes(least)} of its device, of {room}"
                )
        return None

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return devices, time and bytes of each stage."""
        assert judgement.plan is not None
        split = self.read(judgement.plan)
        found = self.verdict(split)
        rows = []
        for s, (load, held) in enumerate(zip(found.loads, found.memories, strict=True)):
            here = [i for i, x in enumerate(split.stage) if x == s]
            again = sum(self.all_needs[i][split.modes[i]].again for i in here)
            text = f"{exact_value(load, self.unit)}, {exact_bytes(held)}, {len(here)} ops"
            rows.append(
                Fact(
                    f"stage {s}, {split.replicas[s]} x {split.kinds[s]}",
                    {"ns": load, "bytes": held, "ops": len(here), "again": again},
                    text + (f", {again} run again" if again else ""),
                )
            )
        return rows


def _checked(graph: Graph, needs: Sequence[Sequence[Need]]) -> tuple[tuple[Need, ...], ...]:
    """Return needs in tuples, their numbers checked."""
    checked = tuple(tuple(row) for row in needs)
    if [len(row) for row in checked] != [len(op.all_modes) for op in graph.ops]:
        raise InstanceError("hybrid, needs: found other numbers of them, expected one of each op and mode")
    rows = []
    for i, row in enumerate(checked):
        for need in row:
            check_type(need, Need, f"hybrid, needs of op {i}")
            for key in ("weights", "each", "once"):
                check_integer(getattr(need, key), 0, f"hybrid, needs of op {i}, {key}")
            if len({t for t, _ in need.sync}) < len(need.sync):
                raise InstanceError(
                    f"hybrid, needs of op {i}, sync: found {need.sync}, expected each tensor once"
                )
            for t, nbytes in need.sync:
                check_integer(nbytes, 0, f"hybrid, needs of op {i}, sync of tensor {t}")
                if t not in graph.ops[i].reads and t not in graph.ops[i].writes:
                    raise InstanceError(
                        f"hybrid, needs of op {i}, sync: found tensor {t}, expected one it reads or writes"
                    )
        rows.append(tuple(replace(need, sync=tuple((t, b) for t, b in need.sync)) for need in row))
        sent: dict[str, tuple[int, object]] = {}
        for need, mode in zip(rows[-1], graph.ops[i].all_modes, strict=True):
            for kind in mode.processors or ("t1",):
                if sent.setdefault(kind, (need.weights, need.sync)) != (need.weights, need.sync):
                    raise InstanceError(
                        f"hybrid, needs of op {i}: found other weights or sync in another mode, expected the "
                        f"same in all modes for {kind}"
                    )
    return tuple(rows)
