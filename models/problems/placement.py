"""The placement problem: an order of ops, several memory tiers, and the fastest way to feed the ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from ..checks import check_flag, check_type, shown
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, KINDS, Graph
from ..machine import Machine, check_no_contention
from ..parameter import Parameter
from ..plan import Plan
from ..setting import Setting
from ..texts import nearest
from ..units import format_duration
from ..verifier.verdict import Verification, Violation, sorted_violations
from ..verifier.verify import verify
from . import demands
from .placement_machine import check_reach, check_sizes, named_as_chains
from .placement_witness import impossible_mode, impossible_moment, impossible_op, impossible_start
from .problem import Judgement, Problem, peak_facts, traffic_facts

Tiers = tuple[str, ...]

ORDERS = ("reference", "free")
FLAGS = ("periodic", "whole", "order", "recompute", *demands.PARAMETERS)
"""The parameters that are fields of the problem."""


@dataclass(frozen=True)
class Placement(Problem):
    """Tensor placement: where each tensor lives over time and when it moves, so that the run is fastest.

    The ops of each processor run in the graph's reference order, or in any that keeps the precedence, each
    once, or as often as wanted. Tensors may be in any tier
    while no op accesses them; ops find their operands in tiers that their processor reads. The objective is
    the makespan in ns, or the period.

    Parameters
    ----------
    graph
        What is executed.
    machine
        Tiers (the first one is the fast memory), processors, channels.
    periodic
        The steady state of an iteration: the state at its end is that at its beginning
        (`lowtide.models.plan`), and the objective is the period.
    whole
        Every copy moves a whole tensor, without interruption.
    start
        By kind of tensor, the tiers where it may be at time 0; kinds that are not named may start anywhere.
        In a period nothing of it is in another tier then, nor under way to one.
        Default: of a single run, inputs in the outermost tier; periodic, every tier, for the inputs
        of an iteration are brought during the one before, into rooms of their own.
    order
        "reference": each processor runs its ops in the graph's order. "free": in any in which they read and
        write the versions that they do in that order (`lowtide.models.derived.precedence`).
    addresses
        Plans have an allocation: each residency and each workspace an address that it keeps, all within the
        capacities (`lowtide.models.lowering.buffers`). What is there at a time may fit, and still have none.
    page
        Each tensor and each workspace takes whole pages of so many bytes, wherever they are; a page is held
        while any of its bytes is there (`lowtide.models.verifier.pages`). None: bytes. Of this and
        `addresses` one may be given.
    recompute
        Ops may run again, anywhere behind their first runs, and copies go on beside them: what a tensor held
        may come back by a copy or by a run. The order is that of the first runs. Not of a period.
    source
        What the problem was loaded from.

    Raises
    ------
    InstanceError
        If there are no ops, `start` names an unknown kind or tier, a tier cannot be reached, the machine has
        contention, a number of it is above `LARGEST`, or ops may run again in a period.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Placement(lt.load("gen:chain?n=4&seed=1"), lt.load_machine("a100-40g-pcie3"))
    >>> problem.name, problem.unit
    ('placement', 'ns')
    """

    graph: Graph
    machine: Machine
    periodic: bool = False
    whole: bool = False
    start: Mapping[str, Tiers] | None = None
    source: str | None = None
    order: str = "reference"
    addresses: bool = False
    page: int | None = None
    recompute: bool = False
    name: ClassVar[str] = "placement"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "timeline"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "machine": Parameter("", "tiers, processors and channels", kind="machine", required=True),
        "device": Parameter("", "capacity of the machine's first tier, of each processor", kind="limit"),
        "host": Parameter("", "capacity of the first tier behind them", kind="limit"),
        "capacity.": Parameter("", "capacity of any tier", kind="limit", flag=False),
        "periodic": Parameter(False, "the steady state of an iteration, the end like the start"),
        "whole": Parameter(False, "copies move whole tensors, uninterrupted"),
        "order": Parameter("reference", "which order the ops run in", choices=ORDERS),
        **demands.PARAMETERS,
        "recompute": Parameter(False, "ops may run again, beside copies"),
        "start": Parameter("", "tiers where tensors of all kinds may be at time 0", kind="tiers", flag=False),
        "start.": Parameter(
            "",
            "tiers where tensors of a kind may be at time 0, or anywhere; repeatable; kinds that are not "
            "named may start in every tier (default: with --periodic every tier, else inputs in the last)",
            kind="tiers",
        ),
        "replicas": Parameter(1, "copies of the graph, one for each of the first N processors", flag=False),
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "placement, graph", A_GRAPH)
        check_type(self.machine, Machine, "placement, machine")
        check_flag(self.periodic, "placement, periodic")
        check_flag(self.whole, "placement, whole")
        demands.check_demands(self)
        check_flag(self.recompute, "placement, recompute")
        if self.recompute and self.periodic:
            raise InstanceError("placement, recompute: found a period, expected a single run")
        if self.order not in ORDERS:
            raise InstanceError(
                f"placement, order: found {shown(self.order)}, expected {' or '.join(ORDERS)}"
            )
        check_type(self.source, (str, type(None)), "placement, source", "a str or None")
        check_type(
            self.start, (Mapping, type(None)), "placement, start", "a mapping of kinds to tiers, or None"
        )
        tiers = [t.name for t in self.machine.tiers]
        renamed = named_as_chains(self.machine, None, self.graph)[0] if self.recompute else self.machine
        known = {*tiers, *(t.name for t in renamed.tiers)}
        if not self.graph.ops:
            raise InstanceError(f"placement, graph {self.graph.name!r}: found no ops, expected at least one")
        for kind, allowed in sorted((self.start or {}).items(), key=lambda pair: str(pair[0])):
            if kind not in KINDS:
                raise InstanceError(
                    f"placement, start: found kind {kind!r}, expected one of {', '.join(KINDS)}"
                )
            check_type(allowed, (tuple, list), f"placement, start of kind {kind!r}", "a tuple of tiers")
            for tier in allowed:
                if tier not in known:
                    raise InstanceError(
                        f"placement, start of kind {kind!r}: found tier {tier!r}, {nearest(str(tier), tiers)}"
                    )
        if self.recompute:
            machine, start = named_as_chains(self.machine, self.start, self.graph)
            object.__setattr__(self, "machine", machine)
            object.__setattr__(self, "start", start)
        check_no_contention(self.machine, "placement")
        check_reach(self.machine)
        check_sizes(self.machine)

    @classmethod
    def of(cls, subject: Graph, *, source: str | None = None, **values: Any) -> Self:
        """Return the problem about a graph on a machine with other capacities and words for its tiers.

        ``device`` are the tiers that processors use first, ``host`` is the first one behind them.

        Raises
        ------
        InstanceError
            If there is no such tier.
        """
        machine: Machine = values["machine"]
        where, tiers = f"instance {source!r}", [t.name for t in machine.tiers]
        devices = [t for t in tiers if any(p.tiers[0].tier == t for p in machine.processors)]
        sizes: dict[str, int | None] = {}
        start: dict[str, Tiers] = {}
        for key, value in values.items():
            option, _, name = key.partition(".")
            if option in ("device", "host"):
                meant = devices if option == "device" else [t for t in tiers if t not in devices][:1]
                if not meant:
                    raise InstanceError(f"{where}: found option {key}, expected a machine with a second tier")
                sizes.update(dict.fromkeys(meant, value))
            elif option == "capacity":
                if name not in tiers:
                    raise InstanceError(f"{where}: found unknown tier {name!r}, {nearest(name, tiers)}")
                sizes[name] = value
            elif option == "start":
                kinds = [name] if name else sorted({str(t.kind) for t in subject.tensors})
                start.update(dict.fromkeys(kinds, _meant_tiers(value, tiers, devices, where)))
        changed = tuple(replace(t, capacity=sizes.get(t.name, t.capacity)) for t in machine.tiers)
        flags = {key: value for key, value in values.items() if key in FLAGS}
        return cls(subject, replace(machine, tiers=changed), start=start or None, source=source, **flags)

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the names of graph and machine, and the source."""
        return f"{self.graph.name} on {self.machine.name}", self.source

    def payload(self) -> dict[str, Any]:
        """Return graph, machine and question."""
        machine = {key: value for key, value in self.machine.to_dict().items() if key != "name"}
        return {
            "graph": self.graph.sha256,
            "machine": machine,
            "periodic": self.periodic,
            "whole": self.whole,
            "start": self.starts,
            **({"order": self.order} if self.order != "reference" else {}),
            **demands.said_demands(self),
            **({"recompute": True} if self.recompute else {}),
        }

    @property
    def freedoms(self) -> tuple[str, ...]:
        """``order=free``, if the order is; ``recompute``, if ops may run again."""
        free = ("order=free",) if self.order == "free" else ()
        return (*free, "recompute") if self.recompute else free

    @property
    def demands(self) -> tuple[str, ...]:
        """``addresses`` or ``page=BYTES``, if plans must have them."""
        return demands.demand_names(self)

    def within(self, capacities: Sequence[int | None]) -> Self:
        """Return the problem on tiers of so many bytes, without demands."""
        tiers = tuple(replace(t, capacity=c) for t, c in zip(self.machine.tiers, capacities, strict=True))
        return replace(self, machine=replace(self.machine, tiers=tiers), addresses=False, page=None)

    def plan_of(self, answer: Plan) -> Plan:
        """Return a plan for tiers of other sizes as one for these."""
        return replace(answer, machine=self.machine)

    def in_pages(self) -> None:
        """Return nothing: plans keep parts of tensors, and copies take their time by the byte."""

    def allocated(self, answer: Plan, allocation: Mapping[str, int] | None) -> Plan:
        """Return the plan with an offset for each of its buffers."""
        return replace(self.plan_of(answer), allocation=allocation)

    def read(self, item: object) -> Plan:
        """Return a plan; the verifier looks at it in `judge`.

        Raises
        ------
        InstanceError
            If it is no plan, or one for another machine or another graph, or periodic where the problem is
            not.
        """
        if not isinstance(item, Plan):
            raise InstanceError(f"found {type(item).__name__}, expected a Plan")
        if item.graph_sha256 not in (None, self.graph.sha256):
            raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
        if item.machine.to_dict() != self.machine.to_dict():
            raise InstanceError(f"found a plan for another machine than {self.machine.name!r}")
        if (item.period is not None) != self.periodic:
            found, expected = ("a period", "none") if item.period is not None else ("no period", "one")
            raise InstanceError(f"found a plan with {found}, expected {expected}")
        return item

    def evaluate(self, answer: Plan) -> int:
        """Return the period, or the makespan, in ns."""
        if answer.period is not None:
            return answer.period
        ends = [run.end for run in answer.runs] + [copy.end for copy in answer.copies]
        return max(ends, default=0)

    def impossible(self) -> str | None:
        """Return why there is no plan: an op without a mode for the machine, or too few bytes somewhere."""
        return (
            impossible_mode(self.graph, self.machine)
            or impossible_op(self.graph, self.machine)
            or (None if self.freedoms else impossible_moment(self.graph, self.machine))
            or impossible_start(self.graph, self.machine, self.may_start)
        )

    @cached_property
    def starts(self) -> dict[str, Tiers]:
        """By kind of tensor, the tiers where it may be at time 0, in the machine's order.

        Kinds that may start in every tier are left out; equal rules are equal here, however they were given.
        """
        tiers = tuple(tier.name for tier in self.machine.tiers)
        default: dict[str, Tiers] = {} if self.periodic else {"input": tiers[-1:]}
        said = default if self.start is None else self.start
        found = {kind: tuple(x for x in tiers if x in some) for kind, some in sorted(said.items())}
        return {kind: some for kind, some in found.items() if some != tiers}

    def may_start(self, kind: str) -> Tiers:
        """Return the tiers where tensors of a kind may be at time 0, in the machine's order."""
        return self.starts.get(kind, tuple(tier.name for tier in self.machine.tiers))

    def setting(self, edges: tuple[tuple[int, int], ...] = ()) -> Setting:
        """Return machine, period, where tensors may start, and which order."""
        return Setting(machine=self.machine, periodic=self.periodic, start=self.starts, order=self.order)

    def judge(self, answer: Plan) -> Judgement:
        """Verify the plan, and that it keeps to the reference order and to whole tensors if it must.

        That a free order keeps the precedence is the verifier's own finding: every op finds its versions.

        Where things may start is this problem's rule, which the plan of the judgement then states.
        """
        verdict = verify(self.graph, answer, rerun=self.recompute, start_tiers=self.starts)
        broken = _broken_rules(self, answer)
        if verdict.valid:
            broken += demands.broken_demands(self, answer, self.starts)
        if broken:
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *broken]))
        objective = verdict.makespan if verdict.valid else None
        return Judgement(
            objective=objective, verification=verdict, plan=replace(answer, start_tiers=self.starts)
        )

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the stall, where tensors may start, the peaks of the tiers and the traffic between them."""
        verdict = judgement.verification
        assert isinstance(verdict, Verification)
        rows = [Fact("stall", verdict.stall, format_duration(verdict.stall))]
        if judgement.plan is not None and judgement.plan.start_tiers is not None:
            starts = judgement.plan.start_tiers
            tiers = {kind: list(some) for kind, some in sorted(starts.items())}
            rows.append(Fact("start tiers", tiers, start_words(starts, judgement.plan)))
        if self.recompute:
            rows.append(Fact("runs again", verdict.recomputed, str(verdict.recomputed)))
        return [*rows, *peak_facts(verdict), *traffic_facts(verdict)]


def start_words(starts: Mapping[str, Iterable[str]], plan: Plan) -> str:
    """Say where tensors may start: a rule for each kind that may not do so everywhere."""
    every = {tier.name for tier in plan.machine.tiers}
    rules = [(kind, list(some)) for kind, some in sorted(starts.items()) if set(some) != every]
    said = [f"{kind} in {' or '.join(some) or 'no tier'}" for kind, some in rules]
    return ", ".join([*said, "others in any tier"]) if said else "any tier"


def _meant_tiers(text: str, tiers: list[str], devices: list[str], where: str) -> Tiers:
    """Return the tiers that a word of parameter `start` means."""
    if text in ("anywhere", "device") and text not in tiers:
        return tuple(tiers if text == "anywhere" else devices)
    names = (text,) if text in tiers else tuple(text.split("+"))
    for name in names:
        if name not in tiers:
            near = nearest(name, [*tiers, "anywhere", "device"])
            raise InstanceError(f"{where}, start: found tier {name!r}, {near}")
    return names


def _broken_rules(problem: Placement, plan: Plan) -> list[Violation]:
    """Return the violations of the problem's own rules."""
    broken = []
    last: dict[str, int] = {}
    ran = set[int]()
    for run in (
        sorted(plan.runs, key=lambda r: (r.start, r.end, r.op)) if problem.order == "reference" else ()
    ):
        if problem.recompute and run.op in ran:
            continue
        ran.add(run.op)
        before = last.get(run.processor, -1)
        if run.op < before:
            broken.append(
                Violation(
                    kind="order",
                    message=f"op {run.op} runs on {run.processor!r} after op {before}, "
                    "expected the reference order",
                    time=run.start,
                )
            )
        last[run.processor] = max(before, run.op)
    if problem.whole:
        broken += partial_copies(problem.graph, plan)
    return broken


def partial_copies(graph: Graph, plan: Plan) -> list[Violation]:
    """Return a violation, of kind ``whole``, for each copy of a part of a tensor."""
    partial = []
    for number, copy in enumerate(plan.copies):
        nbytes = graph.tensors[copy.tensor].nbytes
        if copy.bytes is not None and copy.bytes != (0, nbytes):
            partial.append(
                Violation(
                    kind="whole",
                    message=f"copy {number} moves bytes {list(copy.bytes)} of tensor {copy.tensor}, "
                    f"expected all {nbytes} of them",
                    time=copy.start,
                )
            )
    return partial
