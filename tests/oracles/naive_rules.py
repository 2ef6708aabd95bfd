"""What the naive simulator asks of a plan without looking at memory: shapes, counts, times, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from lowtide.models.graph import Graph
from lowtide.models.machine import Channel
from lowtide.models.plan import Copy, Free, Plan, Resident, Run

SECOND = 10**9

Fault = tuple[str, int | None, int | None, int | None, str | None]
"""Kind, time, op, tensor, tier (or channel, or group).

Of a malformed action its position and the name of its list instead of tensor and tier.
"""


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_time(value: object) -> bool:
    return is_int(value) and 0 <= value < 2**63  # type: ignore[operator]


class Rules:
    """The well-formed actions of a plan, and the faults found so far."""

    def __init__(self, graph: Graph, plan: Plan, rerun: bool | None) -> None:
        self.graph = graph
        self.plan = plan
        self.machine = plan.machine
        self.tiers = [tier.name for tier in plan.machine.tiers]
        self.processors = {p.name: p for p in plan.machine.processors}
        self.channels = {(c.src, c.dst): c for c in plan.machine.channels}
        self.faults: set[Fault] = set()
        self.period = plan.period
        if plan.period is not None and not (is_time(plan.period) and plan.period >= 1):
            self.fault("shape")
            self.period = None
        self.runs: list[Run] = self.sound("runs", self.run_is_sound)
        self.copies: list[Copy] = self.sound("copies", self.copy_is_sound)
        self.frees: list[Free] = self.sound("frees", self.free_is_sound)
        self.start: list[Resident] = self.sound("start", self.place_is_sound)
        self.counts = [sum(r.op == i for r in self.runs) for i in range(len(graph.ops))]
        self.rerun = any(n > 1 for n in self.counts) if rerun is None else rerun
        ends = [r.end for r in self.runs] + [c.end for c in self.copies]
        self.makespan = self.period if self.period is not None else max(ends, default=0)

    def fault(
        self,
        kind: str,
        time: int | None = None,
        op: int | None = None,
        tensor: int | None = None,
        tier: str | None = None,
    ) -> None:
        self.faults.add((kind, time, op, tensor, tier))

    # -- shapes --------------------------------------------------------------------------------

    def sound(self, name: str, is_sound: Callable[[Any], bool]) -> list[Any]:
        """Return the actions of the plan that are well formed."""
        found = []
        for position, action in enumerate(getattr(self.plan, name)):
            if is_sound(action):
                found.append(action)
            else:
                self.fault("shape", None, None, position, name)
        return found

    def run_is_sound(self, run: Run) -> bool:
        if not (is_int(run.op) and 0 <= run.op < len(self.graph.ops)):
            return False
        modes = self.graph.ops[run.op].all_modes
        if not (is_int(run.mode) and 0 <= run.mode < len(modes)):
            return False
        if any(tier not in self.tiers for _, tier in modes[run.mode].operands):
            return False
        if run.processor not in self.processors or not (is_time(run.start) and is_time(run.end)):
            return False
        if self.period is not None and run.end > self.period:
            return False
        return run.start < run.end

    def range_is_sound(self, item: Copy | Free | Resident) -> bool:
        if not (is_int(item.tensor) and 0 <= item.tensor < len(self.graph.tensors)):
            return False
        if item.bytes is None:
            return True
        if not (isinstance(item.bytes, tuple | list) and len(item.bytes) == 2):
            return False
        lo, hi = item.bytes
        if not (is_int(lo) and is_int(hi)):
            return False
        nbytes = self.graph.tensors[item.tensor].nbytes
        return 0 <= lo <= hi <= nbytes and (lo < hi or nbytes == 0)

    def copy_is_sound(self, copy: Copy) -> bool:
        if not self.range_is_sound(copy) or not (is_time(copy.start) and is_time(copy.end)):
            return False
        if copy.src not in self.tiers or copy.dst not in self.tiers:
            return False
        if self.period is not None and (copy.start >= self.period or copy.end - copy.start > self.period):
            return False
        return copy.start <= copy.end

    def free_is_sound(self, free: Free) -> bool:
        if not self.range_is_sound(free) or not is_time(free.time) or free.tier not in self.tiers:
            return False
        return self.period is None or free.time <= self.period

    def place_is_sound(self, place: Resident) -> bool:
        known = self.range_is_sound(place) and place.tier in self.tiers
        return known and isinstance(place.valid, bool)

    # -- words ---------------------------------------------------------------------------------

    def units(self, item: Copy | Free | Resident) -> range:
        """Return the bytes that an action names; a tensor without bytes is one unit."""
        nbytes = self.graph.tensors[item.tensor].nbytes
        if nbytes == 0:
            return range(1)
        return range(nbytes) if item.bytes is None else range(*item.bytes)

    def all_units(self, tensor: int) -> range:
        return range(max(1, self.graph.tensors[tensor].nbytes))

    def size(self, tensor: int, units: Iterable[int]) -> int:
        return len(list(units)) if self.graph.tensors[tensor].nbytes else 0

    def moved(self, copy: Copy) -> int:
        return self.size(copy.tensor, self.units(copy))

    def straddles(self, copy: Copy) -> bool:
        return self.period is not None and copy.end > self.period and copy.src != copy.dst

    def version(self, op: int, tensor: int) -> int:
        """Return the version that the reference order makes the op read."""
        return sum(tensor in earlier.writes for earlier in self.graph.ops[:op])

    def last_version(self, tensor: int) -> int:
        return sum(tensor in op.writes for op in self.graph.ops)

    def stall(self) -> int:
        """Return the nanoseconds before the makespan during which no run executes."""
        marks = sorted({0, self.makespan, *(x for r in self.runs for x in (r.start, r.end))})
        return sum(
            right - left
            for left, right in pairwise(marks)
            if not any(r.start <= left < r.end for r in self.runs)
        )

    def traffic(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for copy in self.copies:
            if moved := self.moved(copy):
                found[copy.src, copy.dst] = found.get((copy.src, copy.dst), 0) + moved
        return found

    # -- rules ---------------------------------------------------------------------------------

    def judge_without_memory(self) -> None:
        self.judge_identity()
        self.judge_counts()
        self.judge_processors()
        self.judge_precedence()
        self.judge_channels()
        self.judge_rates()

    def judge_identity(self) -> None:
        plan, graph = self.plan, self.graph
        if plan.graph_sha256 is not None and plan.graph_sha256 != graph.sha256:
            self.fault("graph")
        if plan.accounting != graph.accounting:
            self.fault("graph")

    def judge_counts(self) -> None:
        for op, count in enumerate(self.counts):
            if count == 0:
                self.fault("missing-run", None, op)
            if count > 1 and not self.rerun:
                self.fault("repeated-run", None, op)

    def judge_processors(self) -> None:
        for position, run in enumerate(self.runs):
            processor = self.processors[run.processor]
            mode = self.graph.ops[run.op].all_modes[run.mode]
            if mode.processors and processor.kind not in mode.processors:
                self.fault("processor-kind", run.start, run.op)
            if {tier for _, tier in mode.operands} - {a.tier for a in processor.tiers}:
                self.fault("processor-kind", run.start, run.op)
            for other in self.runs[:position]:
                same = other.processor == run.processor
                if same and max(run.start, other.start) < min(run.end, other.end):
                    time = max(run.start, other.start)
                    self.fault("processor-overlap", time, run.op)
                    self.fault("processor-overlap", time, other.op)

    def judge_precedence(self) -> None:
        ops = self.graph.ops
        for run in self.runs:
            op = ops[run.op]
            if self.rerun:
                for i in op.after:
                    if not any(r.op == i and r.end <= run.start for r in self.runs):
                        self.fault("precedence", run.start, run.op)
                continue
            for before in self.runs:
                if before.op >= run.op:
                    continue
                earlier = ops[before.op]
                shares = (
                    set(earlier.writes) & set(op.reads)
                    or set(earlier.reads) & set(op.writes)
                    or set(earlier.writes) & set(op.writes)
                )
                if (shares or before.op in op.after) and before.end > run.start:
                    self.fault("precedence", run.start, run.op)

    def rated(self, copy: Copy) -> Channel | None:
        """Return the channel of a copy that takes a rate."""
        channel = self.channels.get((copy.src, copy.dst))
        if channel is None or self.moved(copy) == 0:
            return None
        return channel if copy.end - copy.start > channel.latency_ns else None

    def judge_channels(self) -> None:
        for copy in self.copies:
            channel = self.channels.get((copy.src, copy.dst))
            if channel is None:
                legal = False
            elif self.moved(copy) == 0:
                legal = copy.end - copy.start >= channel.latency_ns
            else:
                legal = copy.end - copy.start > channel.latency_ns
            if not legal:
                self.fault("channel", copy.start, None, copy.tensor, copy.dst)

    def judge_rates(self) -> None:
        rated = [(c, ch) for c in self.copies if (ch := self.rated(c)) is not None]
        marks = {c.start + ch.latency_ns for c, ch in rated} | {c.end for c, _ in rated}
        if self.period is not None:
            marks = {m % self.period for m in marks} | {0}
        shares = [
            ("channel-rate", f"{c.src}->{c.dst}", {(c.src, c.dst)}, c.bytes_per_s)
            for c in self.machine.channels
        ]
        shares += [("group-rate", g.name, set(g.channels), g.bytes_per_s) for g in self.machine.groups]
        for kind, name, pairs, limit in shares:
            over = False
            for now in sorted(marks):
                before, over = over, self.rate(rated, now, pairs) > limit
                if over and not before:
                    self.fault(kind, now, None, None, name)

    def rate(self, rated: list[tuple[Copy, Channel]], now: int, pairs: set[tuple[str, str]]) -> Fraction:
        """Return the bytes per second that copies between these pairs of tiers take now."""
        total = Fraction(0)
        for copy, channel in rated:
            first = copy.start + channel.latency_ns
            length = copy.end - first
            since = now - first if self.period is None else (now - first) % self.period
            if (copy.src, copy.dst) in pairs and 0 <= since < length:
                total += Fraction(self.moved(copy) * SECOND, length)
        return total
