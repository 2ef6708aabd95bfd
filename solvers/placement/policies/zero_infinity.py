"""`zero-infinity`: parameters and optimizer states rest on host or drive, and come for the ops that use them.

Source: Rajbhandari, Ruwase, Rasley, Smith and He, ZeRO-Infinity: Breaking the GPU Memory Wall for Extreme
Scale Deep Learning, SC 2021; rules and defaults of its parameters as in DeepSpeed
(partitioned_param_coordinator.py and zero/config.py; two bytes an element).

Machine, graph, gradients and refusals that are not named here are those of `zero_offload`.

Steps.

1. Static placement: parameters that the GPU's ops read, none of them writes and that have at least
   ``persistent`` bytes, and all that only the host's processor accesses, rest at *home*: a tier behind the
   host (``home=drive``, by default where there is one) or the host. Everything else is as in `zero_offload`.
2. When an op of the GPU is due, what it misses is fetched: from the drive to the host if it is not there yet,
   and on to the GPU. Then parameters of the ops that follow are, in the order of their uses, each from what
   the host has by then: at most ``prefetch`` MB at once, until ``live`` MB of them are on the GPU. Of those
   behind, as many are read from the drive as ``buffer`` MB of the host hold.
3. Behind an op its parameters are released, except those that are used again after at most ``reuse`` MB of
   others. (Where what an op misses lacks room, the one that is used furthest ahead goes.)
4. Behind the last gradient the host's processor updates sub-groups of ``group`` MB of parameters. States come
   from the drive before, and go back behind, two groups on the host at once: one is read while the one before
   is updated. Parameters go home, too.

It fails exactly if persistent parameters, the most that the others have at one op, the most bytes of
activations and workspace at an op, and the bucket exceed the GPU; or as `zero_offload` does by its gradients
and by the host's capacity. Fewer ``live`` MB than one op needs are taken as what it needs.

Memory-centric tiling is the graph's: with ``tile=64MB`` ops use larger weights a tile at a time
(`lowtide.instances.transforms.tile`). Abstracted: many GPUs, and so the bandwidth of all their links;
activations and gradients that go to host and drive as well; at most two fetches under way at once. Inferred:
a module is an op. Delayed updates are not served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ....models.machine import Processor
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from .zero_offload import MB, Offload, carry_out, processors_of


class StepLimits(NamedTuple):
    """Bytes: see the steps."""

    prefetch: int
    live: int
    reuse: int
    buffer: int
    group: int
    persistent: int


def solve_zero_infinity(problem: Placement, context: Context) -> Outcome:
    """Run the policy."""
    found = processors_of(problem)
    assert found is not None
    gpu, cpu = found
    given, host = context.options, cpu.tiers[0].tier
    ways = {(c.src, c.dst) for c in problem.machine.channels}
    drives = [x.name for x in problem.machine.tiers if {(host, x.name), (x.name, host)} <= ways]
    drives = [name for name in drives if name != gpu.tiers[0].tier]
    home = given.get("home", "drive" if drives else "host")
    if home == "drive" and not drives:
        return Outcome(
            refused=f"method zero-infinity: found no tier with channels both ways to {host!r} beside the "
            "GPU's, expected a drive, or home=host"
        )
    megabytes = {name: given[name] * MB for name in StepLimits._fields if name != "persistent"}
    limits = StepLimits(**megabytes, persistent=given["persistent"])
    policy = Infinity(problem, gpu, cpu, given["bucket"] * MB, drives[0] if home == "drive" else host, limits)
    return carry_out(policy, context)


class Infinity(Offload):
    """The plan as it is made.

    Parameters
    ----------
    problem, gpu, cpu, bucket
        As of `Offload`.
    home
        The tier where parameters and states rest.
    limits
        Of what is under way.

    Attributes
    ----------
    streamed
        Parameters that come and go.
    window
        The most bytes of these at an op.
    there
        Those that are on the GPU or on their way to it, by op the next one that uses them.
    staged
        By parameter that the host has from the drive, or gets, when it is there.
    """

    def __init__(
        self, problem: Placement, gpu: Processor, cpu: Processor, bucket: int, home: str, limits: StepLimits
    ) -> None:
        super().__init__(problem, gpu, cpu, bucket)
        graph, self.home, self.limits = self.graph, home, limits
        made = {t for k in self.on_gpu for t in graph.ops[k].writes}
        lasting = {t for t in self.uses if graph.tensors[t].initial and graph.tensors[t].final}
        self.streamed = {t for t in lasting - made if self.size[t] >= limits.persistent}
        some = [[t for t in graph.ops[k].reads if t in self.streamed] for k in self.on_gpu]
        self.window = max((sum(self.size[t] for t in reads) for reads in some), default=0)
        self.coming = [(k, t) for k, reads in zip(self.on_gpu, some, strict=True) for t in reads]
        self.passed = 0
        self.there: set[int] = set()
        self.staged: dict[int, int] = {}
        self.handed: list[tuple[int, int]] = []  # when staged bytes go, and how many
        self.read: set[int] = set()
        self.changed = {t for k in self.on_cpu for t in graph.ops[k].writes}

    def fault(self) -> str:
        """Return why it does not fit, or nothing."""
        for k in self.on_cpu:
            if not self.gradients & {*self.graph.ops[k].reads}:
                name = self.graph.ops[k].name
                return f"op {k} {name!r} of the host's processor reads no gradient, as delayed updates do"
        return super().fault()

    @property
    def most(self) -> int:
        """Bytes of parameters that may be on the GPU at once."""
        wanted = max(self.limits.live, self.window)
        return wanted if self.left is None else min(wanted, self.left)

    def bytes_of(self, some: set[int]) -> int:
        """Return the bytes of tensors."""
        return sum(self.size[t] for t in some)

    def ahead(self) -> Iterator[int]:
        """Yield the parameters of the ops that follow, in the order of their first uses."""
        ahead: set[int] = set()
        for _, t in self.coming[self.passed :]:
            if t not in ahead:
                ahead.add(t)
                yield t

    def arrive(self, k: int) -> None:
        """Fetch what an op misses, and what the next ones use (step 2)."""
        begin = self.clock
        needed = {t for t in self.graph.ops[k].reads if t in self.streamed}
        missing = sorted(needed - self.there)
        while self.lacks(missing):
            victim = max(self.there - needed, key=lambda t: (self.next_use(t), t))
            gone = max(self.clock, self.ends[victim])
            begin = max(begin, gone)
            self.release_there(victim, gone)
        for t in missing:
            self.fetch(t, begin)
        while self.passed < len(self.coming) and self.coming[self.passed][0] <= k:
            self.passed += 1
        taken = 0
        for t in self.ahead():
            if t in self.there:
                continue
            ready = self.home == self.host or self.staged.get(t, begin + 1) <= begin
            taken += self.size[t]
            if not ready or taken > self.limits.prefetch or self.lacks([t]):
                break
            self.fetch(t, begin)
        if self.home != self.host:
            self.read_ahead(begin)

    def lacks(self, more: Sequence[int]) -> bool:
        """Return whether parameters have no room beside those that are there."""
        return self.bytes_of({*self.there, *more}) > self.most

    def next_use(self, t: int) -> int:
        """Return the next op that uses a parameter; behind all ops if there is none."""
        return next((k for k, other in self.coming[self.passed :] if other == t), len(self.graph.ops))

    def fetch(self, t: int, begin: int) -> None:
        """Bring a parameter to the GPU."""
        if self.home != self.host and t not in self.staged:
            self.staged[t] = self.copy(t, self.home, self.host, begin)[1]
        _, end = self.copy(t, self.host, self.device, max(begin, self.staged.get(t, begin)))
        if t in self.staged:
            del self.staged[t]
            self.out.free(t, self.host, end)
            self.handed.append((end, self.size[t]))
        self.ends[t] = end
        self.there.add(t)

    def read_ahead(self, begin: int) -> None:
        """Read parameters of the ops that follow from the drive, as the host has room."""
        self.handed = [(end, nbytes) for end, nbytes in self.handed if end > begin]
        held = sum(nbytes for _, nbytes in self.handed) + self.bytes_of({*self.staged})
        for t in self.ahead():
            if t in self.there or t in self.staged:
                continue
            held += self.size[t]
            if held > self.limits.buffer:
                break
            self.staged[t] = self.copy(t, self.home, self.host, begin)[1]

    def leave(self, k: int) -> None:
        """Release an op's parameters that are not used again soon (step 3)."""
        for t in sorted({*self.graph.ops[k].reads} & self.streamed):
            if not self.is_near(t):
                self.release_there(t, self.clock)

    def is_near(self, t: int) -> bool:
        """Return whether a parameter is used again after few enough others."""
        between = 0
        for other in self.ahead():
            if other == t or between > self.limits.reuse:
                return between <= self.limits.reuse
            between += self.size[other]
        return False

    def release_there(self, t: int, time: int) -> None:
        """Release a parameter on the GPU."""
        self.out.free(t, self.device, time)
        self.there.discard(t)

    def update(self) -> int:
        """Run the ops of the host's processor in sub-groups, return the end of all (step 4)."""
        now, written = 0, [self.arrived, self.arrived]
        for group in self.groups():
            ready = self.read_states(group, written[-2])
            self.back = self.arrived
            for k in group:
                now = self.run_on_cpu(k, max([now, *(ready.get(t, 0) for t in self.graph.ops[k].reads)]))
            written.append(max(now, self.back))
        return self.end()

    def groups(self) -> list[list[int]]:
        """Return the ops of the host's processor in sub-groups."""
        groups: list[list[int]] = []
        held = self.limits.group + 1
        for k in self.on_cpu:
            held += (nbytes := self.bytes_of({t for t in self.graph.ops[k].writes if t in self.uses}))
            if held > self.limits.group:
                groups.append([])
                held = nbytes
            groups[-1].append(k)
        return groups

    def read_states(self, group: Sequence[int], begin: int) -> dict[int, int]:
        """Read what a sub-group needs from the drive; return when each is there."""
        ready: dict[int, int] = {}
        for k in group:
            for t in self.graph.ops[k].reads:
                if self.is_afar(t) and t not in self.uses and t not in self.read:
                    self.read.add(t)
                    ready[t] = self.copy(t, self.home, self.host, begin)[1]
        return ready

    def is_afar(self, t: int) -> bool:
        """Return whether a tensor rests on the drive."""
        tensor = self.graph.tensors[t]
        rests = tensor.initial and tensor.final and (t in self.streamed or t not in self.uses)
        return rests and self.home != self.host

    def put_back(self, t: int, time: int) -> None:
        """Copy what the host's processor has written last to where it lasts."""
        if self.is_afar(t):
            begin, end = self.copy(t, self.host, self.home, time)
            self.out.free(t, self.home, begin)
            self.out.free(t, self.host, end)
            self.back = max(self.back, end)
        elif t not in self.streamed:
            super().put_back(t, time)

    def release(self, k: int, some: Iterable[int], start: int, end: int) -> None:
        """Release on the host what dies with an op there, and what it has only read of the drive's."""
        last = [*some]
        super().release(k, last, start, end)
        for t in sorted({*last} - self.changed):
            if self.is_afar(t):
                self.out.free(t, self.host, end)
