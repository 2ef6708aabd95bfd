"""List schedules within the memory: a device that is free runs what is ready, earlier micro-batches first.

An F starts only if the micro-batches under way can still end one after the other, the first one first: on its
device, each must have room for what it has still to keep there once those before it are gone (the banker's
rule, Dijkstra 1965). Where a device has several stages there is a second schedule: an F starts only if all
that the micro-batches under way have still to keep there has room at once.

*No schedule gets stuck.* Both rules hold for all micro-batches under way after each start of an F, and each B
and W only gives bytes back. So the first micro-batch always has room for what it has still to keep. None
comes to a device before an earlier one: an F that enters is refused only for bytes that a later one, which
needs as many, would lack as well.

Among ops that are ready B comes before F and W last (gaps are filled by W), or W before F (memory is given
back early), or F first (as in GPipe). Our own; no published rule but ``zb`` fits itself to a memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...models.derived.stages import PipelineOps
from ...models.problems.pipeline import Pipeline

PRIORITIES = ("BFW", "BWF", "FBW")
"""Kinds of ops, the first one first."""

Ready = tuple[int, int, int, str]
"""An op that could start: rank of its kind, micro-batch, what breaks ties (the stage, of F below 0), kind."""


def list_orders(problem: Pipeline, tick: Callable[[], object]) -> Iterator[list[list[int]]]:
    """Yield the orders of each priority; none if a micro-batch alone does not fit."""
    line = problem.line
    if any(free is not None and free < need for free, need in zip(problem.room, _needs(line), strict=True)):
        return
    several = len(line.stages) > line.devices
    for kinds in PRIORITIES:
        if kinds != "BWF" or any(x.weight for x in line.stages):
            for at_once in (False, True) if several else (False,):
                yield _listed(problem, {kind: place for place, kind in enumerate(kinds)}, at_once, tick)


def _needs(line: PipelineOps) -> list[int]:
    """Return the bytes of all stages of a micro-batch, by device."""
    return [sum(line.stages[s].activation for s in chunk) for chunk in line.chunks]


@dataclass(kw_only=True)
class _Memory:
    """What a device keeps, in bytes.

    Attributes
    ----------
    need
        Of all its stages of a micro-batch.
    free
        Now; None: no limit.
    held, coming
        Of each micro-batch under way: what is there, and what its other F bring.
    """

    need: int
    free: int | None
    busy: bool = False
    ready: list[Ready] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    coming: dict[int, int] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def is_safe(self, j: int, nbytes: int, at_once: bool) -> bool:
        """Return whether an F of micro-batch j that keeps so many bytes may start.

        With `at_once` all that is still to come must have room at once.
        """
        if self.free is None:
            return True
        free = self.free - nbytes
        if free < 0:
            return False
        for i in sorted({*self.held, j}):
            held, coming = self.held.get(i, 0), self.coming.get(i, self.need)
            if i == j:
                held, coming = held + nbytes, coming - nbytes
            if coming > free:
                return False
            free += -coming if at_once else held
        return True

    def keep(self, j: int, nbytes: int) -> None:
        """Take the bytes of an F that starts."""
        self.free = None if self.free is None else self.free - nbytes
        self.held[j] = self.held.get(j, 0) + nbytes
        self.coming[j] = self.coming.get(j, self.need) - nbytes

    def give_back(self, j: int, nbytes: int) -> None:
        """Free bytes of a B or W that ends; forget a micro-batch that has none left."""
        self.free = None if self.free is None else self.free + nbytes
        held = self.held.pop(j, 0) - nbytes
        if held or self.coming.get(j):
            self.held[j] = held
        else:
            self.coming.pop(j, None)


def _listed(
    problem: Pipeline, rank: Mapping[str, int], at_once: bool, tick: Callable[[], object]
) -> list[list[int]]:
    """Return the orders of a list schedule."""
    line = problem.line
    devices = [_Memory(need=need, free=free) for need, free in zip(_needs(line), problem.room, strict=True)]
    last = len(line.stages) - 1
    events: list[tuple[int, bool, int, str, int]] = []
    """When, whether an op has ended (or could start), its micro-batch, kind and stage."""

    def may_start(when: int, kind: str, s: int, j: int, after: int) -> None:
        apart = line.stages[s].device != line.stages[after].device
        heapq.heappush(events, (when + problem.latency_ns * apart, False, j, kind, s))

    def start(device: _Memory, now: int) -> None:
        for one in sorted(device.ready):
            _, j, place, kind = one
            s = abs(place)
            if kind == "F":
                nbytes = line.stages[s].activation
                if not device.is_safe(j, nbytes, at_once):
                    continue
                device.keep(j, nbytes)
                if s == 0 and j + 1 < line.micro:
                    device.ready.append((rank["F"], j + 1, 0, "F"))
            device.ready.remove(one)
            device.busy = True
            op = line.op[kind, s, j]
            device.order.append(op)
            heapq.heappush(events, (now + line.durations[op], True, j, kind, s))
            return

    def end(s: int, j: int, kind: str, now: int) -> None:
        device = devices[line.stages[s].device]
        device.busy = False
        if kind != "F":
            device.give_back(j, -line.change(line.op[kind, s, j]))
        if kind == "F":
            may_start(now, *(("F", s + 1) if s < last else ("B", s)), j, s)
        elif kind == "B":
            if s:
                may_start(now, "B", s - 1, j, s)
            if line.stages[s].weight:
                may_start(now, "W", s, j, s)

    devices[line.stages[0].device].ready.append((rank["F"], 0, 0, "F"))
    now = 0
    while True:
        tick()
        for device in devices:
            if device.ready and not device.busy:
                start(device, now)
        if not events:
            return [device.order for device in devices]
        now = events[0][0]
        while events and events[0][0] == now:
            _, ended, j, kind, s = heapq.heappop(events)
            if ended:
                end(s, j, kind, now)
            else:
                # Of a micro-batch F of later stages come first, and B of earlier ones.
                place = -s if kind == "F" else s
                devices[line.stages[s].device].ready.append((rank[kind], j, place, kind))
