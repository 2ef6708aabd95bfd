r"""The parallel-memory problem: how much memory any parallel schedule of a graph can need.

A *moment* of an execution is a pair (F, R): the ops that have finished and those that are running. It can
occur if F holds every predecessor of its own ops and of those of R. Every such moment does occur: run F one
after another, then start all of R together; so durations do not matter, and the largest memory over all
parallel schedules, on any number of processors, is the largest over the moments; on p processors, over
those with at most p ops in R.

At a moment a tensor is live iff it is initial or its first writer has started, and it is final or an access
still *holds* it: under ``coexist`` one that has not finished; under ``replace`` one that has not started, or
that writes it and has not finished. The memory is the bytes of the live tensors and the workspace of R, of
each op that of its mode with the most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, ClassVar

from ..checks import check_integer, check_type
from ..derived.precedence import precedence
from ..errors import InstanceError
from ..fact import Fact
from ..flow_proof import ParallelSetting
from ..graph import A_GRAPH, Accounting, Graph
from ..lowering.starts import lower_starts
from ..parameter import Parameter
from ..plan import Plan
from ..verifier.verify import verify
from .problem import Judgement, Problem

SHOWN = 8
"""How many ops, or edges, the facts of an answer name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Which ops have finished and which are running, both ascending."""

    finished: tuple[int, ...]
    running: tuple[int, ...]


@dataclass(frozen=True)
class ParallelMemory(Problem):
    """Largest memory over all parallel schedules, on any number of processors.

    The objective, in bytes, is maximized: it is the memory of a moment, which the plan reaches that is given
    as its witness; the bound lies above it.

    Parameters
    ----------
    graph
        Every op may run on any processor.
    processors
        How many ops run at one time at most; None: any number.

    Raises
    ------
    InstanceError
        If `processors` is below 1, or a mode names processors or tiers.

    Examples
    --------
    >>> import lowtide as lt
    >>> result = lt.solve(lt.ParallelMemory(lt.load("gen:chain?n=4&seed=1")), threads=1)
    >>> result.status, result.objective == result.bound
    (<Status.OPTIMAL: 'optimal'>, True)
    """

    graph: Graph
    processors: int | None = None
    name: ClassVar[str] = "parallel-memory"
    unit: ClassVar[str] = "bytes"
    measure: ClassVar[str] = "peak"
    optimum: ClassVar[str] = "no parallel schedule needs more"
    becomes: ClassVar[tuple[str, tuple[str, ...]]] = ("memory-edges", ("bound", "apply"))
    maximize: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "processors": Parameter(1, "ops that run at one time at most (default any number)", least=1)
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, f"{self.name}, graph", A_GRAPH)
        check_integer(self.processors, 1, f"{self.name}, processors", optional=True)
        check_modes(self.graph, self.name)

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name, the processors, and the graph's source."""
        where = "" if self.processors is None else f" on {self.processors} processors"
        return f"{self.graph.name}{where}", self.graph.source

    def payload(self) -> dict[str, Any]:
        """Return graph and processors."""
        return {"graph": self.graph.sha256, "processors": self.processors}

    def read(self, item: object) -> Moment:
        """Return a moment, that of a plan's peak, or that of a pair of sequences of op indices.

        Raises
        ------
        InstanceError
            If it is none of them, or cannot occur.
        """
        if isinstance(item, Plan):
            item = self._moment_of(item)
        elif not isinstance(item, Moment):
            if not isinstance(item, Sequence) or isinstance(item, str | bytes) or len(item) != 2:
                raise InstanceError(
                    f"found {type(item).__name__}, expected a Moment, a Plan, or finished and running ops"
                )
            try:
                finished, running = (tuple(sorted(map(index, part))) for part in item)
            except TypeError:
                raise InstanceError("found a moment of other things, expected two sets of ops") from None
            item = Moment(finished=finished, running=running)
        self._check(item)
        return item

    def evaluate(self, answer: Moment) -> int:
        """Return the memory at a moment in bytes."""
        return moment_bytes(self.graph, answer)

    def setting(self, edges: tuple[tuple[int, int], ...] = ()) -> ParallelSetting:
        """Return the processors."""
        return ParallelSetting(processors=self.processors, edges=())

    def judge(self, answer: Moment) -> Judgement:
        """Lower the moment to a plan that reaches it, and verify that plan."""
        plan = moment_plan(self.graph, answer)
        verdict = verify(self.graph, plan, rerun=False)
        objective = max(verdict.peaks.values()) if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the moment of the most bytes: what has finished, and what runs."""
        moment = self.read(judgement.plan)
        running = [self.graph.ops[i].name for i in moment.running]
        count = len(moment.finished)
        return [Fact("ended", count, f"{count} ops"), Fact("running", running, counted(running))]

    def _check(self, moment: Moment) -> None:
        n, before = len(self.graph.ops), precedence(self.graph).predecessors
        finished, running = set(moment.finished), set(moment.running)
        for i in (*moment.finished, *moment.running):
            if not 0 <= i < n:
                raise InstanceError(f"moment: found op {i}, expected one in [0, {n})")
            missing = next((j for j in before[i] if j not in finished), None)
            if missing is not None:
                raise InstanceError(
                    f"moment: found op {i} started before op {missing} has finished, expected it after"
                )
        if finished & running or len(finished) + len(running) < len(moment.finished) + len(moment.running):
            raise InstanceError("moment: found an op twice, expected once")
        if self.processors is not None and len(running) > self.processors:
            raise InstanceError(
                f"moment: found {len(running)} ops running, expected at most {self.processors}"
            )

    def _moment_of(self, plan: Plan) -> Moment:
        verdict = verify(self.graph, plan, rerun=False)
        if not verdict.valid:
            raise InstanceError(f"found an invalid plan, {verdict.violations[0].message}")
        if len(plan.machine.tiers) != 1 or plan.period is not None:
            raise InstanceError("found a plan that is none for one memory, without period")
        ((tier, profile),) = verdict.profiles.items()
        time, most = max(profile, key=lambda point: point[1])
        if verdict.peaks[tier] > most:  # what is there at the start, and released at once
            return Moment(finished=(), running=())
        return Moment(
            finished=tuple(sorted(run.op for run in plan.runs if run.end <= time)),
            running=tuple(sorted(run.op for run in plan.runs if run.start <= time < run.end)),
        )


def counted(names: Sequence[str]) -> str:
    """Return how many names there are, and the first `SHOWN`."""
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return f"{len(names)}{': ' if names else ''}{shown}"


def check_modes(graph: Graph, problem: str) -> None:
    """Raise `InstanceError` unless every op may run on any processor, with its operands anywhere."""
    for i, op in enumerate(graph.ops):
        for k, mode in enumerate(op.modes):
            if mode.processors or mode.operands:
                raise InstanceError(
                    f"{problem}, op {i} {op.name!r}, mode {k}: found named processors or tiers, expected none"
                )


def most_workspace(graph: Graph, i: int) -> tuple[int, int]:
    """Return bytes and number of the mode of op i with the most workspace."""
    modes = graph.ops[i].modes
    if not modes:
        return graph.ops[i].workspace, 0
    number = max(range(len(modes)), key=lambda k: (modes[k].workspace, -k))
    return modes[number].workspace, number


def moment_bytes(graph: Graph, moment: Moment) -> int:
    """Return the memory at a moment that can occur, in bytes (the module's definition)."""
    return sum(graph.tensors[t].nbytes for t in live_tensors(graph, moment)) + sum(
        most_workspace(graph, i)[0] for i in moment.running
    )


def live_tensors(graph: Graph, moment: Moment) -> list[int]:
    """Return the tensors that are live at a moment, ascending."""
    finished = set(moment.finished)
    started = finished | set(moment.running)
    born = [tensor.initial for tensor in graph.tensors]
    held = [tensor.final for tensor in graph.tensors]
    coexist = graph.accounting is Accounting.COEXIST
    for i, op in enumerate(graph.ops):
        for t in op.writes:
            born[t] |= i in started
            held[t] |= i not in finished
        for t in op.reads:
            held[t] |= i not in (finished if coexist else started)
    return [t for t in range(len(born)) if born[t] and held[t]]


def moment_plan(graph: Graph, moment: Moment) -> Plan:
    """Return a plan that reaches the moment: what has finished one by one, what runs together, the rest."""
    finished, running = set(moment.finished), set(moment.running)
    modes = [most_workspace(graph, i)[1] for i in range(len(graph.ops))]
    pairs = zip(graph.ops, modes, strict=True)
    duration = [op.modes[k].duration_ns if op.modes else op.duration_ns for op, k in pairs]
    starts, now = [0] * len(graph.ops), 0
    for i in sorted(finished):
        starts[i] = now
        now += duration[i]
    for i in running:
        starts[i] = now
    now += max((duration[i] for i in running), default=1)  # under ``replace`` the most may be between runs
    for i in range(len(graph.ops)):
        if i not in finished and i not in running:
            starts[i] = now
            now += duration[i]
    return lower_starts(graph, starts, modes)
