"""Several equal devices, each with streams and a memory, and the plans of streams on them.

What is where how long is said by `lowtide.models.lowering.transfers`. Transfers do not slow each other down,
as in HEFT's and HIOS's models.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..derived.values import values_of
from ..errors import InstanceError
from ..machine import Access, Channel, Contention, Machine, Processor, Tier
from ..units import SECOND
from .streams import stream_runs
from .transfers import Sending, lower_transfers

if TYPE_CHECKING:
    from ..graph import Graph
    from ..plan import Plan, Run


Rows = Sequence[Sequence[Sequence[int]]]
"""Of each device its streams, of each stream its ops in the order in which it runs them."""


@dataclass(frozen=True, kw_only=True)
class Devices:
    """Equal devices, each with streams and a memory, and a link from each one to each other one.

    Attributes
    ----------
    graph
        Whose ops they run.
    count
        How many devices.
    streams
        How many each has; None: as many as a plan uses.
    contention
        Of each device.
    memory
        Of each device, in bytes; None if unlimited.
    bytes_per_s, latency_ns
        Of a transfer, whatever else is transferred.
    """

    graph: Graph
    count: int
    streams: int | None
    contention: Contention
    memory: int | None
    bytes_per_s: int
    latency_ns: int

    @cached_property
    def tiers(self) -> tuple[str, ...]:
        """The names of the memories."""
        return tuple(f"d{d}" for d in range(self.count))

    def transfer_ns(self, t: int) -> int:
        """Return the nanoseconds in which a tensor goes from one device to another."""
        return self.latency_ns - (-self.graph.tensors[t].nbytes * SECOND // self.bytes_per_s)

    @cached_property
    def transfers(self) -> dict[tuple[int, int], int]:
        """Of an op and one that reads what it writes: the longest transfer between them, in ns."""
        nbytes: dict[tuple[int, int], int] = {}
        for value in values_of(self.graph):
            for j in value.readers if value.writer is not None else ():
                ns = self.transfer_ns(value.tensor)
                nbytes[value.writer or 0, j] = max(nbytes.get((value.writer or 0, j), 0), ns)
        return nbytes

    def machine(self, used: int, *, plain: bool = False) -> Machine:
        """Return the machine where a plan uses so many streams of a device; `plain`: without contention."""
        plain = plain or (self.contention.model == "none" and not self.contention.sync_ns)
        return Machine(
            name=f"{self.count} devices",
            tiers=tuple(Tier(name=tier, capacity=self.memory) for tier in self.tiers),
            processors=tuple(
                Processor(name=f"{tier}s{k}", tiers=(Access(tier=tier),))
                for tier in self.tiers
                for k in range(self.streams or max(used, 1))
            ),
            channels=tuple(
                Channel(src=a, dst=b, bytes_per_s=self.bytes_per_s, latency_ns=self.latency_ns, shared=False)
                for a in self.tiers
                for b in self.tiers
                if a != b
            ),
            contention=None if plain else self.contention,
        )

    def plan(self, rows: Rows, waits: Sequence[tuple[int, int]] = ()) -> Plan:
        """Return the plan in which streams start each op, and transfers, as soon as they can.

        `waits` are pairs of ops, the first of which is to end before the second starts, besides the
        precedence. The orders are not checked.
        """
        streams = [stream for some in rows for stream in some]
        devices = [d for d, some in enumerate(rows) for _ in some]
        runs = stream_runs(
            self.graph, streams, self.contention, waits, devices=devices, transfers=self.transfers
        )
        return self.plan_of(runs)

    def plan_of(self, runs: Sequence[Run]) -> Plan:
        """Return the plan of one run of each op, by op, in which transfers begin as soon as they can."""
        streams = [run.processor.split("s") for run in runs]
        sendings = []
        for value in values_of(self.graph):
            if (i := value.writer) is not None:
                begin, end = runs[i].end, runs[i].end + self.transfer_ns(value.tensor)
                for tier in sorted({streams[j][0] for j in value.readers} - {streams[i][0]}):
                    sendings.append(Sending(i, value.tensor, tier, begin, end))
        machine = self.machine(max((int(k) + 1 for _, k in streams), default=0))
        return lower_transfers(self.graph, runs, sendings, machine)

    def read(self, plan: Plan) -> Plan:
        """Return a plan as lowering makes it, from the runs and transfers of any plan for these devices.

        Raises
        ------
        InstanceError
            If an op does not run once, a run is on no stream of these devices, or a copy does not bring all
            of a tensor from the memory of the op that wrote it last.
        """
        on: dict[int, str] = {}
        most = 0
        for run in plan.runs:
            match = re.fullmatch(r"(d\d+)s(\d+)", run.processor, re.ASCII)
            if (
                match is None
                or match[1] not in self.tiers
                or int(match[2]) >= (self.streams or len(plan.runs))
            ):
                expected = f"a stream of {self.count} devices, such as d0s0"
                raise InstanceError(f"found op {run.op} on processor {run.processor!r}, expected {expected}")
            on[run.op] = match[1]
            most = max(most, int(match[2]) + 1)
        count = len(self.graph.ops)
        if sorted(run.op for run in plan.runs) != list(range(count)):
            raise InstanceError(f"found {len(plan.runs)} runs, expected one of each of {count} ops")
        ends = sorted((run.end, run.op) for run in plan.runs)
        sendings = []
        for copy in plan.copies:
            done = ends[: bisect_right(ends, (copy.start, count))]
            writers = [i for _, i in done if copy.tensor in self.graph.ops[i].writes]
            whole = copy.bytes in (None, (0, self.graph.tensors[copy.tensor].nbytes))
            if not writers or not whole or copy.src != on[writers[-1]]:
                raise InstanceError(
                    f"found a copy of tensor {copy.tensor} from {copy.src!r} at {copy.start} ns, expected "
                    "all of it from the memory of the op that wrote it"
                )
            sendings.append(Sending(writers[-1], copy.tensor, copy.dst, copy.start, copy.end))
        return lower_transfers(self.graph, plan.runs, sendings, self.machine(most))
