"""`zero-offload`: parameters and activations on the GPU; optimizer states, and Adam, on the host.

Source: Ren et al., ZeRO-Offload: Democratizing Billion-Scale Model Training, ATC 2021.

The machine has two processors, one that uses the first tier, one that uses another, the host. Ops that name
kinds of processors run on the one that is of such a kind (`node=zero` gives training graphs Adam on the
host), all others on the GPU.

Steps.

1. Static placement: what ops of the GPU access is on the GPU, all else on the host.
2. Ops of the GPU run one after the other. A gradient is what they write and the host's processor reads. It
   joins a *bucket* (``bucket``, 1000 MB: 5e8 elements of two bytes) behind its last use there. Whenever half
   of the bucket has been filled, and behind the last gradient, what is in it is copied to the host, first
   in, first out, and released. An op whose gradients do not fit beside those that are there or leaving waits.
3. The host's processor runs its ops in their order: from the first on that reads a gradient behind the last
   gradient, whose norm counts; those before, which the *delayed* update has (`node=zero-delayed`: Adam with
   the gradients of the iteration before), beside the GPU. What they write and the GPU holds is copied back at
   once, first in, first out, beside the next of them.
4. The run, or the period, ends when all is back.

It fails exactly if parameters, the most bytes of activations and workspace at an op, and the bucket exceed
the GPU; if gradients that are needed at once exceed the bucket; or if what the host holds exceeds it. Ops of
the GPU that depend on what the host's processor has done before them are not served.

Abstracted: many GPUs. `zero-infinity` has parameters that leave the GPU, and a drive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ....models.graph import Accounting
from ....models.lowering.builder import PlanBuilder
from ....models.machine import Processor
from ....models.plan import Plan
from ....models.problems.placement import Placement
from ....models.units import SECOND
from ...context import Context, Outcome

MB = 10**6
"""Bytes of a MB, the unit of option ``bucket``."""


def solve_zero_offload(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    found = processors_of(problem)
    assert found is not None
    gpu, cpu = found
    return carry_out(Offload(problem, gpu, cpu, context.options["bucket"] * MB), context)


def carry_out(policy: Offload, context: Context) -> Outcome:
    """Raise the bound of a policy's problem, and offer its plan."""
    for processor in (policy.gpu, policy.cpu):
        mine = [op for op in policy.graph.ops if processor.kind in op.all_modes[0].processors]
        context.raise_bound(sum(op.all_modes[0].duration_ns for op in mine), kind="sum of durations")
    context.careful = True  # the rule does not look at the host's capacity
    fault = policy.carry_out()
    if isinstance(fault, str):
        return Outcome(detail=fault)
    context.offer(fault)
    return Outcome(detail=context.refused)


def processors_of(problem: Placement) -> tuple[Processor, Processor] | None:
    """Return the GPU and the host's processor; None if the processors are others."""
    machine = problem.machine
    tiers = [p.tiers[0].tier for p in machine.processors if len(p.tiers) == 1]
    ways = {(c.src, c.dst) for c in machine.channels}
    served = len(machine.processors) == 2 and len({*tiers}) == 2 and machine.tiers[0].name in tiers
    if not served or not {(tiers[0], tiers[1]), (tiers[1], tiers[0])} <= ways:
        return None
    first, second = machine.processors
    return (first, second) if tiers[0] == machine.tiers[0].name else (second, first)


def other_processors(problem: Placement) -> str:
    """Return why the policy does not serve a problem."""
    if processors_of(problem) is not None:
        return ""
    return (
        f"found {len(problem.machine.processors)} processors, expected two with a tier each, one of them the "
        "first tier, and channels both ways between these"
    )


class Offload:
    """The plan as it is made.

    Parameters
    ----------
    problem
        The question.
    gpu, cpu
        Its processors.
    bucket
        Bytes of gradients on the GPU at once.
    """

    def __init__(self, problem: Placement, gpu: Processor, cpu: Processor, bucket: int) -> None:
        graph = problem.graph
        self.problem, self.graph, self.gpu, self.cpu, self.bucket = problem, graph, gpu, cpu, bucket
        self.device, self.host = gpu.tiers[0].tier, cpu.tiers[0].tier
        self.home, self.streamed, self.window = self.host, set[int](), 0
        self.left: int | None = None
        self.size = [t.nbytes for t in graph.tensors]
        self.on_cpu = [k for k, op in enumerate(graph.ops) if self.runs_on_cpu(k)]
        self.on_gpu = [k for k in range(len(graph.ops)) if not self.runs_on_cpu(k)]
        self.uses: dict[int, list[int]] = {}
        for k in self.on_gpu:
            for t in {*graph.ops[k].reads, *graph.ops[k].writes}:
                self.uses.setdefault(t, []).append(k)
        self.read_there = {t for k in self.on_cpu for t in graph.ops[k].reads}
        self.gradients = self.read_there & {t for k in self.on_gpu for t in graph.ops[k].writes}
        self.out = PlanBuilder(graph, problem.machine)
        self.channels = {(c.src, c.dst): c for c in problem.machine.channels}
        self.free_at = dict.fromkeys(self.channels, 0)
        self.filling: list[int] = []
        self.leaving: deque[tuple[int, int]] = deque()
        self.held = 0
        self.ends: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.last = {t: k for k in self.on_cpu for t in (*graph.ops[k].reads, *graph.ops[k].writes)}
        self.arrived = 0

    def runs_on_cpu(self, k: int) -> bool:
        """Return whether the host's processor runs an op."""
        kinds = self.graph.ops[k].all_modes[0].processors
        return bool(kinds) and self.gpu.kind not in kinds

    def copy(self, t: int, src: str, dst: str, begin: int) -> tuple[int, int]:
        """Copy a tensor behind what its channel carries; return when it begins and ends."""
        channel = self.channels[src, dst]
        groups = [g for g in self.problem.machine.groups if (src, dst) in g.channels]
        rate = min([channel.bytes_per_s, *(g.bytes_per_s // len(g.channels) for g in groups)])
        begin = max(begin, self.free_at[src, dst])
        end = begin + max(1, channel.latency_ns - (-self.size[t] * SECOND // rate))
        self.out.copy(t, src, dst, begin, end)
        self.free_at[src, dst] = end
        return begin, end

    def start_tier(self, t: int) -> str | None:
        """Return where an initial tensor starts; None if it may start nowhere that the policy serves."""
        tensor = self.graph.tensors[t]
        may = self.problem.may_start(tensor.kind)
        if t not in self.uses or t in self.streamed:
            return self.home if self.home in may else None
        if self.device in may:
            return self.device
        return None if tensor.final else next((x for x in may if (x, self.device) in self.channels), None)

    def fault(self) -> str:
        """Return why it does not fit (the rule of the policy), or nothing."""
        graph = self.graph
        lasting = {t for t in self.uses if graph.tensors[t].initial and graph.tensors[t].final}
        held = lasting - self.streamed
        for t, tensor in enumerate(graph.tensors):
            if tensor.initial and self.start_tier(t) is None:
                return f"tensor {t} {tensor.name!r} may start in no tier that the policy serves"
            if tensor.initial and t in self.uses and t in self.read_there:
                return f"tensor {t} {tensor.name!r}: both processors read it, expected gradients alone"
        there, changed, read = {*self.on_cpu}, set[int](), set[int]()
        for k, op in enumerate(graph.ops):
            if k in there:
                changed |= {*op.writes}
                read |= {*op.reads}
            elif changed & {*op.reads, *op.writes} or read & {*op.writes} or there & {*op.after}:
                return f"op {k} {op.name!r} of the GPU depends on what runs on the host's processor before it"
        weights = sum(self.size[t] for t in held)
        most = self.activations(lasting)
        capacity = self.problem.machine.tiers[0].capacity
        self.left = None if capacity is None else capacity - weights - most - self.bucket
        if self.left is not None and self.left < self.window:
            more = f", those of one op of {self.window}" if self.streamed else ""
            return (
                f"parameters of {weights} bytes{more}, activations of {most} and a bucket of {self.bucket} "
                f"exceed {capacity} bytes"
            )
        return ""

    def activations(self, held: set[int]) -> int:
        """Return the most bytes at an op of the GPU, without what lasts and gradients."""
        graph, ops = self.graph, self.on_gpu
        place = {k: x for x, k in enumerate(ops)}
        change = [0] * (len(ops) + 1)
        for t, uses in self.uses.items():
            if t not in held and t not in self.gradients:
                change[0 if graph.tensors[t].initial else place[uses[0]]] += self.size[t]
                change[len(ops) if graph.tensors[t].final else place[uses[-1]] + 1] -= self.size[t]
        most = load = 0
        for x, k in enumerate(ops):
            load += change[x]
            most = max(most, load + graph.ops[k].all_modes[0].workspace)
        return most

    def carry_out(self) -> Plan | str:
        """Return the plan, or why there is none."""
        if fault := self.fault():
            return fault
        self.begin()
        last = max((self.uses[t][-1] for t in self.gradients), default=-1)
        for k in self.on_gpu:
            if fault := self.run_on_gpu(k, k == last):
                return fault
        end = self.update()
        return self.out.plan(period=end if self.problem.periodic else None)

    def begin(self) -> None:
        """Put initial tensors where they start; inputs that start elsewhere come in the order of uses."""
        graph = self.graph
        self.clock, self.outside = 0, {}
        known = {t for op in graph.ops for t in (*op.reads, *op.writes)}
        for t in sorted(range(len(self.size)), key=lambda t: (self.uses.get(t, [len(graph.ops)])[0], t)):
            tensor, tier = graph.tensors[t], self.start_tier(t)
            if not tensor.initial or tier is None or not (tensor.final or t in known):
                continue
            self.out.start(t, tier)
            if t in self.uses and t not in self.streamed and tier != self.device:
                self.outside[t] = tier
                self.ends[t] = self.copy(t, tier, self.device, 0)[1]

    def run_on_gpu(self, k: int, flush: bool) -> str:
        """Run an op of the GPU; return why it cannot, or nothing."""
        op = self.graph.ops[k]
        self.arrive(k)
        start = max([self.clock, *(self.ends.get(t, 0) for t in op.reads)])
        made = [t for t in op.writes if t in self.gradients and self.uses[t][0] == k]
        needed = sum(self.size[t] for t in made)
        while self.held + needed > self.bucket or (self.leaving and self.leaving[0][0] <= start):
            if not self.leaving and not self.filling:
                return f"op {k} {op.name!r}: gradients of {self.held + needed} bytes exceed the bucket"
            if not self.leaving:
                self.send(start)
            end, t = self.leaving.popleft()
            start, self.held = max(start, end), self.held - self.size[t]
        self.held += needed
        self.clock = start + op.all_modes[0].duration_ns
        self.done[k] = self.clock
        self.out.run(k, 0, start, self.clock, self.gpu.name)
        early = self.graph.accounting is Accounting.REPLACE
        for t in sorted({*op.reads, *op.writes}):
            if self.uses[t][-1] != k:
                continue
            if t in self.gradients:
                self.filling.append(t)
            elif not self.graph.tensors[t].final:
                self.drop(t, start if early and t not in op.writes else self.clock)
        self.leave(k)
        if flush or 2 * sum(self.size[t] for t in self.filling) >= self.bucket:
            self.send(self.clock)
        return ""

    def arrive(self, k: int) -> None:
        """Fetch what an op misses; here all parameters are there."""

    def leave(self, k: int) -> None:
        """Release behind an op what comes back; here nothing does."""

    def drop(self, t: int, time: int) -> None:
        """Release a dead tensor on the GPU, and where it came from."""
        for tier in (self.device, *([self.outside[t]] if t in self.outside else [])):
            self.out.free(t, tier, time)

    def send(self, time: int) -> None:
        """Copy what the bucket has to the host."""
        for t in self.filling:
            _, end = self.copy(t, self.device, self.host, time)
            self.out.free(t, self.device, end)
            self.leaving.append((end, t))
            self.arrived = max(self.arrived, end)
        self.filling = []

    def update(self) -> int:
        """Run the ops of the host's processor, copy back what they write; return the end of all."""
        now = 0
        for k in self.on_cpu:
            now = self.run_on_cpu(k, now)
        return self.end()

    def end(self) -> int:
        """Return the end of all ops and copies."""
        return max([0, *(run.end for run in self.out.runs), *(copy.end for copy in self.out.copies)])

    def run_on_cpu(self, k: int, now: int) -> int:
        """Run an op of the host's processor from a time on, copy back what it writes; return its end."""
        op = self.graph.ops[k]
        before = [*op.after, *(u for t in op.writes for u in self.uses.get(t, ()))]
        awaited = [self.arrived] if self.gradients & {*op.reads} else []
        start = max([now, *awaited, *(self.done[u] for u in before if u in self.done)])
        self.done[k] = now = start + op.all_modes[0].duration_ns
        self.out.run(k, 0, start, now, self.cpu.name)
        self.release(k, (t for t in {*op.reads, *op.writes} if self.last[t] == k), start, now)
        for t in op.writes:
            if self.last[t] == k and t not in self.gradients and self.graph.tensors[t].final:
                self.put_back(t, now)
        return now

    def put_back(self, t: int, time: int) -> None:
        """Copy what the host's processor has written last to where it lasts."""
        if t in self.uses:
            begin, end = self.copy(t, self.host, self.device, time)
            self.out.free(t, self.device, begin)
            self.out.free(t, self.host, end)

    def release(self, k: int, tensors: Iterable[int], start: int, end: int) -> None:
        """Release on the host what dies with an op there."""
        early = self.graph.accounting is Accounting.REPLACE
        for t in sorted(tensors):
            if not self.graph.tensors[t].final:
                self.out.free(t, self.host, start if early and t not in self.graph.ops[k].writes else end)
