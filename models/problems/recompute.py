"""The recomputation problem: within a memory, what to compute again, and what to write to slower tiers.

*Versions make it exact.* Every run must find exactly the versions that the reference order gives it; there is
no other precedence (`after` wants ops to have completed once).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import index
from typing import Any, ClassVar, NamedTuple, Self

from ..checks import check_type, set_bytes
from ..derived.memory import sequential_memory
from ..errors import InstanceError
from ..fact import Fact
from ..graph import A_GRAPH, KINDS, Accounting, Graph, Mode, Op
from ..lowering.actions import Action, Compute, Discard, Transfer, actions_of, lower_actions, transfer_ns
from ..lowering.discards import with_discards
from ..machine import Machine, check_no_contention
from ..parameter import Parameter
from ..plan import Plan
from ..units import exact_bytes, format_duration
from ..verifier.verdict import Verification
from ..verifier.verify import verify
from . import demands
from .problem import Judgement, Problem, peak_facts, traffic_facts
from .recompute_machine import ONE_MEMORY, check_kinds, check_processor, with_named_tiers

__all__ = ["Action", "Compute", "Discard", "Recompute", "Transfer"]

Steps = tuple[Action, ...]
"""Runs, transfers and discards, one after another."""


class Allocated(NamedTuple):
    """Steps, and an offset for each buffer of their plan (`lowtide.models.lowering.buffers`)."""

    steps: Steps
    allocation: Mapping[str, int]


Answer = Steps | Allocated
"""With an allocation if the problem demands addresses."""

ACTIONS = (Compute, Transfer, Discard)
"""What an answer consists of."""


@dataclass(frozen=True)
class Recompute(Problem):
    """Recomputation under a memory bound: the fastest sequence of runs that never needs more than there is.

    Every op runs, as often as wanted, one run or transfer at a time; each run finds the versions that the
    reference order gives it. Tensors are discarded whenever that is wanted, and recomputed by running ops
    again. Slower tiers take copies of tensors; a transfer blocks the runs. The objective is the time of all
    runs and transfers in ns.

    Everything that is initial starts in the first tier of the machine, the fast memory, and must fit there,
    also what is discarded before the first run or, with `replace`, as that starts.

    Parameters
    ----------
    graph
        With one mode for each op, or several, among which each run chooses.
    memory
        Capacity of the fast memory in bytes, also as ``"12GiB"``; None: that of the machine, or no limit.
    machine
        Tiers behind the fast memory, and the channels that lead there and back; one processor, which accesses
        no tier at extra cost. Default: one memory, called ``memory``; where modes name that and the machine
        has no such tier, its first one is called so. Of other tiers that modes name and the machine lacks an
        unlimited one is added, which runs access and nothing is copied from: what a run writes there is lost
        to all ops that must find it in the memory (forwards that save nothing for their backwards are such
        modes).
    source
        What the problem was loaded from.
    addresses
        Plans have an allocation: each buffer an address that it keeps, within the capacities.
    page
        Each tensor and each workspace takes whole pages of so many bytes, wherever they are; None: bytes. Of
        this and `addresses` one may be given.

    Raises
    ------
    InstanceError
        If there are no ops, the memory is negative, or the machine has contention, several processors, one
        that is slowed down by a tier, or one that cannot run every op.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Recompute(lt.load("gen:chain?n=4&seed=1"), memory=40)
    >>> problem.name, problem.unit, problem.machine.tiers[0].capacity
    ('recompute', 'ns', 40)
    """

    graph: Graph
    memory: int | None = None
    machine: Machine = ONE_MEMORY
    source: str | None = None
    addresses: bool = False
    page: int | None = None
    name: ClassVar[str] = "recompute"
    unit: ClassVar[str] = "ns"
    picture: ClassVar[str] = "cells"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "memory": Parameter("", "of the fast memory (default: of the machine, or no limit)", kind="size"),
        "slots": Parameter(1, "as much fast memory as the largest op needs, and N tensors, all of one size"),
        "machine": Parameter("", "with slower tiers behind its first one, the fast memory", kind="machine"),
        **demands.PARAMETERS,
    }

    def __post_init__(self) -> None:
        check_type(self.graph, Graph, "recompute, graph", A_GRAPH)
        check_type(self.machine, Machine, "recompute, machine")
        check_type(self.source, (str, type(None)), "recompute, source", "a str or None")
        if not self.graph.ops:
            raise InstanceError(f"recompute, graph {self.graph.name!r}: found no ops, expected at least one")
        set_bytes(self, "memory", 0, "recompute, memory", optional=True)
        check_no_contention(self.machine, "recompute")
        demands.check_demands(self)
        check_processor(self.machine)
        object.__setattr__(self, "machine", with_named_tiers(self.machine, self.graph))
        check_kinds(self.machine, self.graph)
        if self.memory is None:
            object.__setattr__(self, "memory", self.machine.tiers[0].capacity)
        else:
            fast, *slower = self.machine.tiers
            tiers = (replace(fast, capacity=self.memory), *slower)
            object.__setattr__(self, "machine", replace(self.machine, tiers=tiers))

    @classmethod
    def of(
        cls, subject: Graph, *, source: str | None = None, slots: int | None = None, **values: Any
    ) -> Self:
        """Return the problem about a graph; `slots` is the memory of the largest op, and of N tensors.

        Raises
        ------
        InstanceError
            If memory and slots are given, or the tensors have several sizes.
        """
        problem = cls(subject, source=source, **values)
        if slots is None:
            return problem
        if "memory" in values:
            raise InstanceError(f"instance {source!r}: found memory and slots, expected one of them")
        sizes = sorted({tensor.nbytes for tensor in subject.tensors if tensor.nbytes})
        if len(sizes) != 1:
            raise InstanceError(
                f"instance {source!r}, slots: found tensors of {len(sizes)} different sizes, expected one "
                "(give memory=SIZE instead)"
            )
        working = max(problem.least_bytes(i) for i in range(len(subject.ops)))
        return cls(subject, source=source, memory=working + slots * sizes[0], **values)

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the graph's name, the tiers, and the source."""
        room = "unlimited memory" if self.memory is None else f"{self.memory} bytes"
        slower = "".join(f" and {tier.name}" for tier in self.machine.tiers[1:])
        return f"{self.graph.name} in {room}{slower}", self.source

    def payload(self) -> dict[str, Any]:
        """Return graph and machine."""
        machine = {key: value for key, value in self.machine.to_dict().items() if key != "name"}
        return {"graph": self.graph.sha256, "machine": machine, **demands.said_demands(self)}

    @property
    def demands(self) -> tuple[str, ...]:
        """``addresses`` or ``page=BYTES``, if plans must have them."""
        return demands.demand_names(self)

    def within(self, capacities: Sequence[int | None]) -> Self:
        """Return the problem on tiers of so many bytes, without demands."""
        tiers = tuple(replace(t, capacity=c) for t, c in zip(self.machine.tiers, capacities, strict=True))
        machine = replace(self.machine, tiers=tiers)
        return replace(self, machine=machine, memory=capacities[0], addresses=False, page=None)

    def plan_of(self, answer: Answer) -> Plan:
        """Return the plan of an answer."""
        return self.lower(answer)

    def in_pages(self) -> tuple[Self, bool]:
        """Return the problem with sizes in whole pages, and whether no transfer makes its times longer."""
        page = self.page or 1
        rooms = [None if t.capacity is None else t.capacity // page * page for t in self.machine.tiers]
        bare = self.within(rooms)
        return replace(bare, graph=demands.whole_pages(self.graph, page)), not self.machine.channels

    def allocated(self, answer: Steps, allocation: Mapping[str, int] | None) -> Answer:
        """Return the answer with an offset for each of its buffers."""
        return answer if allocation is None else Allocated(answer, allocation)

    @property
    def fast(self) -> str:
        """Name of the fast memory."""
        return self.machine.tiers[0].name

    @cached_property
    def least_time(self) -> int:
        """Nanoseconds of all ops, each once in its shortest mode: a bound on the objective.

        Every op runs at least once, and one at a time.
        """
        if not self._has_modes:
            return sum(op.duration_ns for op in self.graph.ops)
        return sum(min(mode.duration_ns for mode in op.all_modes) for op in self.graph.ops)

    @cached_property
    def _has_modes(self) -> bool:
        """Whether some op lists modes."""
        return any(op.modes for op in self.graph.ops)

    def read(self, item: object) -> Answer:
        """Return the actions of a plan, or of a sequence of actions or of ops; `judge` looks at them.

        Of a sequence of op indices each op runs in its first mode, and every tensor is discarded as soon as
        nothing reads it any more before it is made again.

        Raises
        ------
        InstanceError
            If it is none of them, an index is out of range, or the plan is for another graph or not one
            action at a time.
        """
        if isinstance(item, Plan):
            if item.graph_sha256 not in (None, self.graph.sha256):
                raise InstanceError(f"found a plan for another graph than {self.graph.name!r}")
            if [t.name for t in item.machine.tiers] != [t.name for t in self.machine.tiers]:
                raise InstanceError(f"found a plan for other tiers than those of {self.machine.name!r}")
            steps = actions_of(item, self.graph)
            return Allocated(steps, item.allocation) if self.addresses and item.allocation else steps
        if isinstance(item, Allocated):
            _check_actions(self, item.steps)
            return item
        if not isinstance(item, Sequence) or isinstance(item, str | bytes):
            raise InstanceError(
                f"found {type(item).__name__}, expected a Plan, or a sequence of actions or ops"
            )
        if all(isinstance(a, ACTIONS) for a in item):
            _check_actions(self, item)
            return tuple(item)
        try:
            ops = [index(i) for i in item]
        except TypeError:
            raise InstanceError("found ops of other things, expected integers or actions") from None
        for i in ops:
            if not 0 <= i < len(self.graph.ops):
                raise InstanceError(f"found op {i}, expected an index in [0, {len(self.graph.ops)})")
        return with_discards(self.graph, [Compute(i) for i in ops], self.fast)

    def with_discards(self, steps: Iterable[Compute | Transfer]) -> Answer:
        """Return runs and transfers with discards as early as they can be (`with_discards`)."""
        return with_discards(self.graph, steps, self.fast)

    def evaluate(self, answer: Answer) -> int:
        """Return the nanoseconds of all runs and transfers."""
        ops, total = self.graph.ops, 0
        for action in _steps(answer):
            if isinstance(action, Compute):
                op = ops[action.op]
                total += (op.modes[action.mode] if op.modes else op).duration_ns
            elif isinstance(action, Transfer):
                total += self.transfer_ns(action)
        return total

    def transfer_ns(self, transfer: Transfer) -> int:
        """Return the nanoseconds of a transfer, alone on its channel."""
        nbytes = self.graph.tensors[transfer.tensor].nbytes
        return transfer_ns(self.machine, transfer.src, transfer.dst, nbytes)

    def impossible(self) -> str | None:
        """Return why there is no plan at all, if the beginning or one op needs more bytes than there are.

        With `coexist` an op's operands are all in the fast memory while it runs, but for those that every one
        of its modes has elsewhere. With `replace` what it reads is there when it starts, and what it writes
        just after. In one memory the `resident` tensors are there, too.
        """
        if self.memory is None:
            return None
        memory = self.memory
        if (first := self.start_bytes) > memory:
            return f"at the start {exact_bytes(first)} are in the fast memory, of {exact_bytes(memory)}"
        if not self._has_modes and sequential_memory(self.graph).reference_peak <= memory:
            return None  # each op once is a plan
        alone = len(self.machine.tiers) == 1
        always = {t: self.graph.tensors[t].nbytes for t in self.resident} if alone else {}
        total = sum(always.values())
        for i, op in enumerate(self.graph.ops):
            beside = total - sum(always.get(t, 0) for t in {*op.reads, *op.writes})
            if (needed := self.least_bytes(i) + beside) > memory:
                more = " beside what is there all the time" if beside else ""
                return (
                    f"op {i} {op.name!r} needs {exact_bytes(needed - beside)}{more}, of {exact_bytes(memory)}"
                )
        return None

    @cached_property
    def resident(self) -> frozenset[int]:
        """The tensors of which a version is there all the time, in one memory: weights and their updates.

        They are initial and final, and each op that writes one reads the version before. The first version
        never comes back, so it is there until the next one is left. What that was left from is gone then, so
        that it does not come back either, and so on to the last one.
        """
        tensors = self.graph.tensors
        lost = {t for op in self.graph.ops for t in op.writes if t not in op.reads}
        return frozenset(t for t, x in enumerate(tensors) if x.initial and x.final and t not in lost)

    @property
    def start_bytes(self) -> int:
        """Bytes in the fast memory at the start: of all that is initial, and accessed or final."""
        return sequential_memory(self.graph).initial_bytes

    def least_bytes(self, i: int) -> int:
        """Return the bytes that a run of op i takes in the fast memory, at least."""
        return min(self._mode_bytes(self.graph.ops[i], mode) for mode in self.graph.ops[i].all_modes)

    @cached_property
    def _elsewhere(self) -> frozenset[int]:
        """The tensors that a run may find outside the fast memory."""
        reach = {access.tier for access in self.machine.processors[0].tiers} - {self.fast}
        if any(channel.dst in reach for channel in self.machine.channels):
            return frozenset(range(len(self.graph.tensors)))
        modes = [mode for op in self.graph.ops for mode in op.all_modes]
        return frozenset(t for mode in modes for t, tier in mode.operands if tier in reach)

    def _mode_bytes(self, op: Op, mode: Mode) -> int:
        tiers, fast, tensors = dict(mode.operands), self.fast, self.graph.tensors
        written = {t for t in op.writes if tiers.get(t, fast) == fast}
        read = {t for t in op.reads if tiers.get(t, "" if t in self._elsewhere else fast) == fast}
        if self.graph.accounting is Accounting.COEXIST:
            return sum(tensors[t].nbytes for t in read | written) + mode.workspace
        made = sum(tensors[t].nbytes for t in written) + mode.workspace
        return max(made, sum(tensors[t].nbytes for t in read))

    def judge(self, answer: Answer) -> Judgement:
        """Lower the actions to a plan and verify it."""
        plan = self.lower(answer)
        starts = dict.fromkeys(KINDS, (self.fast,))
        verdict = verify(self.graph, plan, rerun=True, start_tiers=starts)
        if verdict.valid and self.page is not None:
            verdict = replace(verdict, violations=self.in_pages()[0].judge(_steps(answer)).violations)
        elif verdict.valid:
            verdict = replace(verdict, violations=tuple(demands.broken_demands(self, plan, starts)))
        objective = verdict.makespan if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def lower(self, answer: Answer) -> Plan:
        """Return the plan of the actions, back to back."""
        plan = lower_actions(self.graph, _steps(answer), self.machine)
        return replace(plan, allocation=answer.allocation) if isinstance(answer, Allocated) else plan

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return how many ops run, how many again, the peaks of the tiers and the traffic between them."""
        verdict = judgement.verification
        assert isinstance(verdict, Verification)
        assert judgement.plan is not None
        more, runs = verdict.makespan - self.least_time, len(judgement.plan.runs)
        extra = f", {format_duration(more)} more than each op once"
        peaks = peak_facts(verdict)
        return [
            Fact(
                "runs",
                {"runs": runs, "again": verdict.recomputed, "more_ns": more},
                f"{runs}, of them {verdict.recomputed} again{extra}",
            ),
            *([peaks[0]._replace(name="peak")] if len(peaks) == 1 else peaks),
            *traffic_facts(verdict),
        ]


def _steps(answer: Answer) -> Steps:
    return answer.steps if isinstance(answer, Allocated) else answer


def _check_actions(problem: Recompute, actions: Iterable[Action]) -> None:
    """Raise if an action refers to what is not there."""
    ops, tensors = problem.graph.ops, problem.graph.tensors
    tiers = {tier.name for tier in problem.machine.tiers}
    channels = {(c.src, c.dst) for c in problem.machine.channels}
    for k, action in enumerate(actions):
        if isinstance(action, Compute):
            right = 0 <= action.op < len(ops) and 0 <= action.mode < len(ops[action.op].all_modes)
            expected = "the index of an op and of one of its modes"
        elif isinstance(action, Transfer):
            right = 0 <= action.tensor < len(tensors) and (action.src, action.dst) in channels
            expected = "the index of a tensor, and a channel"
        else:
            right = 0 <= action.tensor < len(tensors) and action.tier in tiers
            expected = "the index of a tensor, and a tier"
        if not right:
            raise InstanceError(f"action {k}: found {action}, expected {expected}")
