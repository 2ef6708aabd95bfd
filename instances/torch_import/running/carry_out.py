"""Carry out a plan: its actions in their order, with a look at every tensor before it is used.

`carry_out` goes through the events of a plan as `lowtide.models.plan` orders them (ends, copies that take no
time, frees, starts) and tells a `Backend` what to do: `lowtide.instances.torch_import.running.tensors` moves
and computes tensors of torch; tests have one of plain Python. No time passes but what the backend takes: the
nanoseconds of the plan only order the events. What a run or a copy makes is there from its start in the
backend, and may be used from its end.

It keeps its own book of which version of which tensor is where, by the raw fields of graph and plan, and
shares nothing with the verifier. A plan that reads what is not there, frees what is in use or leaves no last
version is found out here too, with a `VerificationError` at the first fault; what it does not look at are
rates, durations and precedence beyond versions.

After each instant it asks the backend for the bytes that are alive in each tier. So the profile that comes
back is measured, and can be compared with the verifier's, which is computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ....models.errors import InstanceError, VerificationError
from ....models.graph import Accounting, Graph
from ....models.plan import Copy, Free, Plan, Resident, Run

Profile = tuple[tuple[int, int], ...]
"""``(time, bytes)`` points of a step function, as the verifier's: where it changes, the first at time 0."""

STALE = -1
"""The version of bytes that are allocated and hold nothing valid; below it: what an action is filling."""

RUN_END, COPY_END, INSTANT, FREE, BEGIN, COPY_START, RUN_START = range(7)
"""Events of one instant in their order; at `BEGIN` runs find their operands, before anything starts."""


class Backend(Protocol):
    """Where tensors are; it does as it is told, and looks at nothing."""

    def place(self, tensor: int, tier: str, *, valid: bool) -> None:
        """Allocate an initial tensor in a tier, with its content if that is valid."""

    def run(self, run: Run, tiers: Mapping[int, str]) -> None:
        """Compute an op, its operands in these tiers; what it writes is allocated there."""

    def copy(self, copy: Copy) -> None:
        """Allocate a tensor in a copy's destination, unless it is there, and fill it from the source."""

    def ended(self, action: Run | Copy) -> None:
        """Whatever starts from now on may count on this run or copy to be over."""

    def free(self, tensor: int, tier: str) -> None:
        """Release a tensor's bytes in a tier."""

    def live(self) -> Mapping[str, int]:
        """Return the bytes that are allocated now, by tier."""

    def turn_over(self) -> None:
        """Take note that an iteration ends, and the next one begins."""

    def result(self, tensor: int, tier: str) -> None:
        """Take note that this tensor's last version is in that tier, before it may go."""


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """By tier the measured bytes, of several iterations those of the last one.

    Attributes
    ----------
    profiles
        After each of the plan's times.
    begin
        Before any event.
    """

    profiles: Mapping[str, Profile]
    begin: Mapping[str, int]

    @property
    def peaks(self) -> dict[str, int]:
        """The most bytes of each tier, at the beginning or after any instant."""
        return {
            tier: max([self.begin.get(tier, 0), *(held for _, held in points)])
            for tier, points in self.profiles.items()
        }


def carry_out(
    graph: Graph, plan: Plan, backend: Backend, iterations: int = 1, *, watch: bool = True
) -> CarriedOut:
    """Carry out a plan, and return what was seen.

    Parameters
    ----------
    graph
        That of the plan.
    backend
        Holds nothing yet.
    iterations
        How often, one after the other; more than once only if the plan has a period.
    watch
        Ask for the bytes after each instant, which takes time; else there are no profiles.

    Raises
    ------
    InstanceError
        If the plan is for another graph, moves parts of tensors, or the accounting is not ``coexist``.
    VerificationError
        If the plan uses what is not there, or releases what is in use; it names the action and the time.
    """
    _check(graph, plan, iterations)
    execution = _Execution(graph, plan, backend, watch)
    for k in range(iterations):
        if k:
            execution.turn_over()
        execution.iterate(first=k == 0, last=k == iterations - 1)
    return CarriedOut(execution.seen(), execution.begin)


def _check(graph: Graph, plan: Plan, iterations: int) -> None:
    if plan.graph_sha256 not in (None, graph.sha256):
        raise InstanceError(f"plan: found one for another graph than {graph.name!r}: its sha256 differs")
    if graph.accounting is not Accounting.COEXIST:
        raise InstanceError(f"graph {graph.name!r}, accounting: found {graph.accounting}, expected coexist")
    if iterations > 1 and plan.period is None:
        raise InstanceError(f"iterations: found {iterations} of a plan without a period, expected 1")
    moves: dict[str, tuple[Resident | Copy | Free, ...]]
    moves = {"start": plan.start, "copy": plan.copies, "free": plan.frees}
    for what, actions in moves.items():
        for n, action in enumerate(actions):
            whole = (0, graph.tensors[action.tensor].nbytes)
            if action.bytes is not None and action.bytes != whole:
                raise InstanceError(
                    f"plan, {what} {n}: found bytes {list(action.bytes)} of a tensor, expected all of it "
                    "(whole=True of a placement asks for such plans)"
                )


class _Execution:
    """The state while a plan is carried out: what is where, and what is under way."""

    def __init__(self, graph: Graph, plan: Plan, backend: Backend, watch: bool) -> None:
        self.graph, self.plan, self.backend, self.watch = graph, plan, backend, watch
        self.tiers = {p.name: [a.tier for a in p.tiers] for p in plan.machine.processors}
        self.needs, self.makes, self.last = _versions(graph)
        self.held: dict[tuple[int, str], int] = {}
        self.lost = _losses(plan)
        self.operands: dict[int, dict[int, str]] = {}
        self.filled: dict[int, int] = {}
        self.points: dict[str, list[tuple[int, int]]] = {}
        self.begin: dict[str, int] = {}
        self.done: set[int] = set()
        for entry in plan.start:
            self._place(entry)

    def _place(self, entry: Resident) -> None:
        self.backend.place(entry.tensor, entry.tier, valid=entry.valid)
        self.held[entry.tensor, entry.tier] = 0 if entry.valid else STALE

    def iterate(self, *, first: bool, last: bool) -> None:
        """Carry out all events of a period, or of a plan that has none."""
        self.points = defaultdict(list)
        self.done.clear()
        if first:  # copies that the iteration before would have begun
            for n, copy in enumerate(self.plan.copies):
                if self._crosses(copy):
                    self._copy_start(0, n)
        self.begin = dict(self.backend.live()) if self.watch else {}
        handlers: tuple[Callable[[int, int], None], ...]
        handlers = (self._run_end, self._copy_end, self._instant, self._free)
        handlers += (self._begin, self._copy_start, self._run_start)
        now, end, judged = 0, _end(self.plan), False
        for time, event, n in _events(self.plan):
            if time != now:
                self._close(now)
                now = time
            if time > end and not judged:  # what is released after the end was there at the end
                self._results(last)
                judged = True
            handlers[event](time, n)
        self._close(now)
        if not judged:
            self._results(last)

    def _crosses(self, copy: Copy) -> bool:
        return self.plan.period is not None and copy.end > self.plan.period

    def seen(self) -> dict[str, Profile]:
        """Return the profile of every tier."""
        return {tier.name: tuple(self.points[tier.name]) for tier in self.plan.machine.tiers if self.watch}

    def turn_over(self) -> None:
        """Go from the end of a period to the beginning of the next one.

        What is only final leaves, what is only initial reappears where it starts, and the last version of
        what is both becomes version 0.
        """
        self.backend.turn_over()
        for (t, tier), version in list(self.held.items()):
            tensor = self.graph.tensors[t]
            if tensor.initial and tensor.final:
                self.held[t, tier] = self._relabelled(t, version)
            elif tensor.initial or tensor.final:
                self._release(t, tier)
            else:
                raise VerificationError(f"at the period's end {self._found(t)}, expected it released")
        for n, version in self.filled.items():
            self.filled[n] = self._relabelled(self.plan.copies[n].tensor, version)
        for entry in self.plan.start:
            if not self.graph.tensors[entry.tensor].final:
                self._place(entry)

    def _relabelled(self, t: int, version: int) -> int:
        """Return what a version is called in the next period; what is under way goes on being it."""
        return version if version < 0 else 0 if version == self.last[t] else STALE

    def _results(self, last: bool) -> None:
        """Find the last version of every final tensor; in the last iteration the backend may keep it."""
        for t, tensor in enumerate(self.graph.tensors):
            if tensor.final:
                tier = next((x for x in self._tiers() if self.held.get((t, x)) == self.last[t]), None)
                if tier is None:
                    raise VerificationError(f"at the end {self._found(t)}, expected version {self.last[t]}")
                if last:
                    self.backend.result(t, tier)

    def _tiers(self) -> list[str]:
        return [tier.name for tier in self.plan.machine.tiers]

    def _begin(self, time: int, n: int) -> None:
        """Find the operands of a run: each read in its version, in a tier that the processor reads."""
        run = self.plan.runs[n]
        op, mode = self.graph.ops[run.op], self.graph.ops[run.op].all_modes[run.mode]
        wanted, reachable = dict(mode.operands), self.tiers[run.processor]
        found = {}
        for t in op.reads:
            tiers = [wanted[t]] if t in wanted else reachable
            there = [x for x in tiers if self.held.get((t, x)) == self.needs[run.op][t]]
            if not there:
                raise VerificationError(
                    f"run {n} of op {run.op} {op.name!r} at {time} ns reads what is not there: "
                    f"{self._found(t)}, expected version {self.needs[run.op][t]} in {' or '.join(tiers)}"
                )
            stays = [x for x in there if not any(run.start < y < run.end for y in self.lost.get((t, x), ()))]
            found[t] = (stays or there)[0]
        for t in op.writes:
            tier = wanted.get(t, reachable[0])
            if found.setdefault(t, tier) != tier:
                raise InstanceError(
                    f"run {n} of op {run.op} {op.name!r}: changes {self._called(t)} from tier "
                    f"{found[t]!r} to {tier!r}, expected it in one tier"
                )
        self.operands[n] = found

    def _run_start(self, time: int, n: int) -> None:
        run, tiers = self.plan.runs[n], self.operands[n]
        for t in self.graph.ops[run.op].writes:
            for tier in self._tiers():
                if (t, tier) in self.held:
                    self.held[t, tier] = STALE
            self.held[t, tiers[t]] = _token(RUN_START, n)
        self.backend.run(run, tiers)

    def _run_end(self, time: int, n: int) -> None:
        run, tiers = self.plan.runs[n], self.operands.pop(n)
        op = self.graph.ops[run.op]
        what = f"run {n} of op {run.op} {op.name!r}"
        for t, version in self.needs[run.op].items():
            if t not in op.writes and self.held.get((t, tiers[t])) != version:
                raise VerificationError(f"{what} loses what it reads before {time} ns: {self._found(t)}")
        for t in op.writes:
            self._filled(time, what, t, tiers[t], _token(RUN_START, n), self.makes[run.op][t])
        self.backend.ended(run)

    def _copy_start(self, time: int, n: int) -> None:
        copy = self.plan.copies[n]
        self.filled[n] = self._source(time, n)
        if self.held.get((copy.tensor, copy.dst), STALE) < STALE:
            raise VerificationError(
                f"copy {n} at {time} ns: {self._called(copy.tensor)} is being filled in {copy.dst!r}, "
                "expected nobody else there"
            )
        self.held[copy.tensor, copy.dst] = _token(COPY_START, n)
        self.backend.copy(copy)

    def _copy_end(self, time: int, n: int) -> None:
        copy, version = self.plan.copies[n], self.filled.pop(n)
        what = f"copy {n}"
        if self.held.get((copy.tensor, copy.src)) != version:
            raise VerificationError(f"{what} loses its source before {time} ns: {self._found(copy.tensor)}")
        self._filled(time, what, copy.tensor, copy.dst, _token(COPY_START, n), version)
        self.backend.ended(copy)

    def _instant(self, time: int, n: int) -> None:
        """Carry out a copy that takes no time, and before it the one that brings its source, if one does."""
        if n in self.done:
            return
        copy = self.plan.copies[n]
        self.done.add(n)
        for other, before in enumerate(self.plan.copies):
            brings = (before.tensor, before.dst) == (copy.tensor, copy.src)
            if (
                brings
                and before.start == before.end == time
                and self.held.get((copy.tensor, copy.src), STALE) < 0
            ):
                self._instant(time, other)
        self._copy_start(time, n)
        self._copy_end(time, n)

    def _source(self, time: int, n: int) -> int:
        copy = self.plan.copies[n]
        version = self.held.get((copy.tensor, copy.src), STALE)
        if version < 0:
            raise VerificationError(
                f"copy {n} at {time} ns takes what is not there: {self._found(copy.tensor)}, "
                f"expected a version in {copy.src}"
            )
        return version

    def _filled(self, time: int, what: str, t: int, tier: str, token: int, version: int) -> None:
        if self.held.get((t, tier)) != token:
            raise VerificationError(
                f"{what} loses what it fills in {tier!r} before {time} ns: {self._found(t)}"
            )
        self.held[t, tier] = version

    def _free(self, time: int, n: int) -> None:
        free: Free = self.plan.frees[n]
        if (free.tensor, free.tier) not in self.held:
            raise VerificationError(
                f"free {n} at {time} ns: {self._found(free.tensor)}, expected it in {free.tier}"
            )
        self._release(free.tensor, free.tier)

    def _release(self, t: int, tier: str) -> None:
        del self.held[t, tier]
        self.backend.free(t, tier)

    def _close(self, time: int) -> None:
        """Take the points of an instant: what the backend says is alive."""
        if not self.watch or (self.plan.period is not None and time >= self.plan.period):
            return
        live = self.backend.live()
        for tier in self.plan.machine.tiers:
            used, points = live.get(tier.name, 0), self.points[tier.name]
            if not points or points[-1][1] != used:
                points.append((time, used))

    def _called(self, t: int) -> str:
        return f"tensor {t} {self.graph.tensors[t].name!r}"

    def _found(self, t: int) -> str:
        """Say where a tensor is, and in which state."""
        there = [(tier, self.held[t, tier]) for tier in self._tiers() if (t, tier) in self.held]
        words = {STALE: "stale"}
        texts = [f"{words.get(v, 'under way' if v < 0 else f'version {v}')} in {tier}" for tier, v in there]
        return f"{self._called(t)} is {' and '.join(texts) or 'nowhere'}"


def _token(kind: int, n: int) -> int:
    """Return what stands for the bytes that the n-th run or copy is filling."""
    return STALE - 1 - 2 * n - (kind == COPY_START)


def _versions(graph: Graph) -> tuple[list[dict[int, int]], list[dict[int, int]], list[int]]:
    """Return which version each op reads of each tensor, which it makes, and the last of each tensor."""
    count = [0] * len(graph.tensors)
    needs, makes = [], []
    for op in graph.ops:
        needs.append({t: count[t] for t in op.reads})
        for t in op.writes:
            count[t] += 1
        makes.append({t: count[t] for t in op.writes})
    return needs, makes, count


def _end(plan: Plan) -> int:
    """Return when a plan ends: with its period, or its last run or copy."""
    if plan.period is not None:
        return plan.period
    return max((action.end for some in (plan.runs, plan.copies) for action in some), default=0)


def _losses(plan: Plan) -> dict[tuple[int, str], list[int]]:
    """Return when each tensor is released from, or written over by a copy in, each tier."""
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for free in plan.frees:
        found[free.tensor, free.tier].append(free.time)
    for copy in plan.copies:
        found[copy.tensor, copy.dst].append(copy.start)
    return found


def _events(plan: Plan) -> list[tuple[int, int, int]]:
    """Return the events ``(time, event, number)`` of an iteration in their order.

    Copies that cross the period's end arrive in the iteration after the one that they start in.
    """
    found = []
    for n, run in enumerate(plan.runs):
        found += [(run.start, BEGIN, n), (run.start, RUN_START, n), (run.end, RUN_END, n)]
    for n, copy in enumerate(plan.copies):
        if copy.start == copy.end:
            found.append((copy.start, INSTANT, n))
            continue
        crosses = plan.period is not None and copy.end > plan.period
        end = copy.end - plan.period if crosses and plan.period is not None else copy.end
        found += [(copy.start, COPY_START, n), (end, COPY_END, n)]
    found += [(free.time, FREE, n) for n, free in enumerate(plan.frees)]
    return sorted(found)
