"""List schedules within the memory: a device that is free runs what is ready, earlier micro-batches first.

An F starts only if the micro-batches under way can still end one after the other, the first one first: on its
device, each must have room for what it has still to keep there once those before it are gone (the banker's
rule). Where a device has several stages, besides: only if all that they have still to keep has room at once.
So the first of them never waits for memory, and no schedule gets stuck.

Among ops that are ready B comes before F and W last (gaps are filled by W), or W before F (memory is given
back early), or F first (as in GPipe). Our own; no published rule but ``zb`` fits itself to a memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...models.problems.pipeline import Pipeline

PRIORITIES = ("BFW", "BWF", "FBW")
"""Kinds of ops, the first one first."""

Ready = tuple[int, int, int, str]
"""An op that could start: rank of its kind, micro-batch, what breaks ties (the stage, of F below 0), kind."""


def list_orders(problem: Pipeline, tick: Callable[[], object]) -> Iterator[list[list[int]]]:
    """Yield the orders of each priority; none if a micro-batch alone does not fit."""
    line = problem.line
    needs = [sum(line.stages[s].activation for s in chunk) for chunk in line.chunks]
    if any(free is not None and free < need for free, need in zip(problem.room, needs, strict=True)):
        return
    several = len(line.stages) > line.devices
    for kinds in PRIORITIES:
        if kinds != "BWF" or any(x.weight for x in line.stages):
            for at_once in (False, True) if several else (False,):
                yield _listed(problem, {kind: place for place, kind in enumerate(kinds)}, at_once, tick)


@dataclass(kw_only=True)
class _Device:
    """What a device keeps: free bytes, and by micro-batch under way bytes held and bytes still to come."""

    free: int | None
    busy: bool = False
    ready: list[Ready] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    coming: dict[int, int] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def is_safe(self, j: int, nbytes: int, need: int, at_once: bool) -> bool:
        """Return whether an F of micro-batch j may start, which needs so many bytes here in all."""
        if self.free is None:
            return True
        free = self.free - nbytes
        if free < 0:
            return False
        for i in sorted({*self.held, j}):
            held, coming = self.held.get(i, 0), self.coming.get(i, need)
            if i == j:
                held, coming = held + nbytes, coming - nbytes
            if coming > free:
                return False
            free += -coming if at_once else held
        return True


def _listed(
    problem: Pipeline, rank: Mapping[str, int], at_once: bool, tick: Callable[[], object]
) -> list[list[int]]:
    """Return the orders of a list schedule."""
    line = problem.line
    needs = [sum(line.stages[s].activation for s in chunk) for chunk in line.chunks]
    devices = [_Device(free=free) for free in problem.room]
    last = len(line.stages) - 1
    events: list[tuple[int, bool, int, str, int]] = []
    """When, whether an op has ended (or could start), its micro-batch, kind and stage."""

    def may_start(when: int, kind: str, s: int, j: int, after: int) -> None:
        apart = line.stages[s].device != line.stages[after].device
        heapq.heappush(events, (when + problem.latency_ns * apart, False, j, kind, s))

    def start(d: int, device: _Device, now: int) -> None:
        for one in sorted(device.ready):
            _, j, place, kind = one
            s = abs(place)
            x = line.stages[s]
            if kind == "F":
                if not device.is_safe(j, x.activation, needs[d], at_once):
                    continue
                if device.free is not None:
                    device.free -= x.activation
                device.held[j] = device.held.get(j, 0) + x.activation
                device.coming[j] = device.coming.get(j, needs[d]) - x.activation
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
            change = -line.change(line.op[kind, s, j])
            device.held[j] -= change
            if device.free is not None:
                device.free += change
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
        for d, device in enumerate(devices):
            if device.ready and not device.busy:
                start(d, device, now)
        if not events:
            return [device.order for device in devices]
        now = events[0][0]
        while events and events[0][0] == now:
            _, ended, j, kind, s = heapq.heappop(events)
            if ended:
                end(s, j, kind, now)
            else:
                place = (
                    -s if kind == "F" else s
                )  # of one micro-batch: F of later stages first, B of earlier ones
                devices[line.stages[s].device].ready.append((rank[kind], j, place, kind))
