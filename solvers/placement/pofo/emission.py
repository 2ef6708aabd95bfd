"""The plan of POFO's segments: each op, and beside each op or wait the bytes that pass in its time.

Counted again without rounding: the plan is at most as long as the program says. Parts of a value leave the
device as soon as they are outside, but not before the forward that reads it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from ....models.lowering.builder import PlanBuilder
from ....models.machine import Machine
from ....models.plan import Plan
from .channel import Rate
from .program import Beside, OpChain, Segment, returned, turn_of


class _PofoEmission:
    """A plan as far as it is made."""

    def __init__(self, chain: OpChain, machine: Machine, outer: str, start: int) -> None:
        self.chain, self.now = chain, start
        self.builder = PlanBuilder(chain.graph, machine)
        self.device, self.outer = machine.tiers[0].name, outer
        self.processor = machine.processors[0].name
        self.out: deque[list[int]] = deque()  # tensor, bytes that are outside or on the way
        self.back: deque[list[int]] = deque()
        self.until: dict[int, int] = {}  # by tensor that goes out, when its forward has ended

    @property
    def pending(self) -> int:
        """Bytes that still have to go out."""
        return sum(self.chain.graph.tensors[t].nbytes - done for t, done in self.out)

    def spend(self, ns: int, code: int | None, out: int = 0, back: int = 0) -> None:
        """Run an op, or wait, for so many ns; so many bytes go out and come in beside."""
        start, self.now = self.now, self.now + ns
        if code is not None:
            self.builder.run(*self.chain.op(code), start, self.now, self.processor)
        self._move(self.out, out, start, self.device, self.outer)
        self._move(self.back, back, start, self.outer, self.device)

    def _move(self, queue: deque[list[int]], nbytes: int, start: int, src: str, dst: str) -> None:
        while nbytes > 0 and queue:
            t, low = queue[0]
            size = self.chain.graph.tensors[t].nbytes
            high = min(size, low + nbytes)
            part = self.builder.part(t, low, high)
            self.builder.copy(t, src, dst, start, self.now, part)
            if src == self.device:
                self.builder.free(t, src, max(self.now, self.until[t]), part)
            nbytes -= high - low
            queue[0][1] = high
            if high == size:
                queue.popleft()

    def go_out(self, most: int) -> None:
        """Wait until at most so many bytes have to go out."""
        ns = wait(self.chain.out, self.pending - most)
        self.spend(ns, None, out=self.chain.out.moved(ns))

    def run(self, code: int) -> None:
        """Run an op, beside which bytes go out."""
        ns = self.chain.ns(code)
        self.spend(ns, code, out=self.chain.out.moved(ns))

    def release(self) -> None:
        """Release everything behind its last use before it is made again; all ops have run."""
        graph, wanted = self.chain.graph, set[int]()
        for run in sorted(self.builder.runs, key=lambda run: -run.start):
            op = graph.ops[run.op]
            there = {*op.reads} | self.chain.written(run.op, run.mode)
            for t in sorted(there - wanted):
                if not graph.tensors[t].final:
                    self.builder.free(t, self.device, run.end)
            wanted = (wanted | {*op.reads}) - {*op.writes}


def wait(rate: Rate, nbytes: int) -> int:
    """Return the ns that bytes take, 0 for none."""
    return int(rate.waits(np.array(max(nbytes, 0))))


def emit(
    chain: OpChain,
    segments: Sequence[Segment],
    machine: Machine,
    outer: str,
    first: Mapping[int, str],
    ways: Mapping[str, Rate],
) -> Plan:
    """Return the plan of segments.

    Parameters
    ----------
    chain, segments
        Of the program.
    machine, outer
        Of the problem, and its tier where values go.
    first
        By initial tensor, the tier where it is at time 0; what is not on the device comes first.
    ways
        By such a tier, its channel to the device.
    """
    device, load = machine.tiers[0].name, 0
    fetched = list[tuple[int, str, int, int]]()
    for tier, way in sorted(ways.items()):
        some = [t for t, where in first.items() if where == tier]
        ns = max(wait(way, chain.bytes_of(some)), way.latency + 1)
        fetched += [(t, tier, load, load + ns) for t in some]
        load += ns
    plan = _PofoEmission(chain, machine, outer, load)
    for t, where in first.items():
        plan.builder.start(t, where)
        if where == device and t == chain.inputs[0] and chain.outside and segments[0].away:
            plan.builder.start(t, outer)
    for t, tier, begin, end in fetched:
        plan.builder.copy(t, tier, device, begin, end)
    kept = np.zeros(1, np.int64)
    due = np.zeros(1, np.int64)
    beside: list[Beside] = []
    for segment in segments[:-1]:
        _forward(plan, segment, int(kept[0]))
        x = chain.size(segment.first, segment.taped)
        _, due = returned(chain, kept + x, segment.first, segment.ops, due, beside)
        due, kept = (due + x, kept) if segment.away else (due, kept + x)
    last = segments[-1]
    base = kept + chain.size(last.first, last.taped)
    turn = turn_of(chain, last, int(kept[0]), plan.pending, int(due[0]))
    _, due = returned(chain, base, last.first, last.ops[turn:], due, beside)
    for code, used in zip(last.ops[:turn], chain.uses(last.first, last.ops), strict=False):
        plan.go_out(chain.memory - int(base[0]) - used)
        plan.run(code)
    plan.go_out(0)
    gone = [chain.of(s.first, s.taped) for s in reversed(segments[:-1]) if s.away]
    plan.back.extend([t, 0] for some in gone for t in some)
    plan.spend(wait(chain.back, int(due[0])), None, back=int(due[0]))
    for run, ns, nbytes in reversed(beside):
        plan.spend(ns, run, back=nbytes)
    plan.release()
    return plan.builder.plan()


def _forward(plan: _PofoEmission, segment: Segment, kept: int) -> None:
    """Run the forwards of a segment."""
    chain, i = plan.chain, segment.first
    for k in range(i, segment.last + 1):
        code = chain.forward(k, segment.saves)
        room = chain.memory - kept - chain.need(i, k, segment.saves)
        if k == i or not segment.away:
            room -= chain.size(i, segment.taped)
        if k == i and segment.away:
            leaving, outgoing = chain.of(i, segment.taped), chain.goes_out(i, segment.taped)
            if outgoing:
                plan.out.extend([t, 0] for t in leaving)
            end = plan.now + wait(chain.out, plan.pending - room - outgoing) + chain.ns(code)
            plan.until |= dict.fromkeys(leaving, end)
            room += outgoing
            if not outgoing:
                plan.builder.free(chain.inputs[i], plan.device, end)
        plan.go_out(room)
        plan.run(code)
