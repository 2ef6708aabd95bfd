"""Tensors of torch on a CUDA device, with copies on streams of their own. Not run on a GPU yet.

The tier that processors compute in is the device's memory; every other tier is pinned memory of the host.
Each processor and each channel has a stream, and so has what is placed at the start of a period. What starts
in the plan waits, on its stream, for all that ended before in the plan: so the device keeps to the plan's
order. A copy between two tiers of the host is made by the host, once it has waited for all of that.

Memory of the device comes from the pool of the first processor's stream, for copies too, so that what one
released is there for the other. A pool hands out what the host released, whatever the device is doing:

* A tensor is released after its last reader ended in the plan, and who gets its bytes starts later, so waits.
* A workspace is released when the call of its op returns, which is before the op runs. Later ops follow on
  the same stream. A copy into the device that starts while the op goes on may get those bytes: it waits for
  the op, unless its bytes are some that the plan released since the op was called, or the op is known to have
  no workspace.

Nothing waits on the host but for the iteration before the last one, so that pinned memory, which is handed
out again only once the device is done with it, is that of two iterations at most. Operators are timed by
events on their stream; iterations by events that wait for all that ended in the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import torch

from ....models.errors import BackendUnavailable, InstanceError
from ....models.machine import Machine
from ....models.plan import Copy, Run
from ..recording import Step
from .tensors import Tensors

HEAD_START = 400_000
"""Cycles of the device, about 0.2 ms, that it spends before an op that is timed alone.

The host issues the op meanwhile: what the events see is the op, and not how long its call takes.
"""

BLOCK = 512
"""Bytes that torch's allocator rounds up to."""

Range = tuple[int, int]
"""Addresses of the device, ``[start, stop)``."""


class Streams(Tensors):
    """A backend of `lowtide.instances.torch_import.running.carry_out` on the current CUDA device.

    Parameters
    ----------
    machine
        That of the plan.
    step, keep, drawn
        As `Tensors` has them; the step was recorded on the device.
    alone
        Time each op on its own, with a head start for the host, and find its workspace; takes longer.
    frugal
        Ops that are known to take no memory besides their results.

    Attributes
    ----------
    frugal
        Those that were given; where ops are timed alone, those that were found so too.

    Raises
    ------
    BackendUnavailable
        If there is no CUDA device.
    InstanceError
        If the machine's processors do not all read and write one tier, the same for all.
    """

    def __init__(
        self,
        step: Step,
        machine: Machine,
        *,
        keep: Collection[int] | None = None,
        drawn: Mapping[int, Any] | None = None,
        alone: bool = False,
        frugal: Collection[int] = (),
    ) -> None:
        if not torch.cuda.is_available():
            raise BackendUnavailable(f"{step.graph.name}: found no CUDA device, expected one")
        homes = {access.tier for p in machine.processors for access in p.tiers}
        if len(homes) != 1:
            raise InstanceError(
                f"machine {machine.name!r}: processors use tiers {sorted(homes)}, expected one"
            )
        super().__init__(step, keep=keep, drawn=drawn)
        self.alone, self.frugal = alone, set(frugal)
        (self._home,) = homes
        self._first = machine.processors[0].name
        self._streams: dict[object, Any] = {}
        self._begun: dict[Run | Copy, tuple[int, Any]] = {}
        self._ended: dict[object, tuple[int, Any]] = {}
        self._going: dict[Run, int] = {}
        self._released: list[Range] = []
        self._timers: list[tuple[int, Any, Any]] = []
        self._count = 0
        torch.cuda.synchronize()  # what is placed was made on another stream

    def place(self, tensor: int, tier: str, *, valid: bool) -> None:
        """Allocate an initial tensor; what starts from now on waits for its content."""
        self._ended[()] = self._on_stream((), super().place, tensor, tier, valid=valid)

    def run(self, run: Run, tiers: Mapping[int, str]) -> None:
        """Compute an op on the stream of its processor."""
        self._begin()
        if not self._going:
            self._released.clear()
        self._begun[run] = self._on_stream(run.processor, super().run, run, tiers)
        if run.processor == self._first and run.op not in self.frugal:
            self._going[run] = len(self._released)

    def copy(self, copy: Copy) -> None:
        """Copy a tensor on the stream of its channel."""
        self._begin()
        if self._home not in (copy.src, copy.dst):
            for _, event in self._ended.values():
                event.synchronize()
        self._begun[copy] = self._on_stream((copy.src, copy.dst), super().copy, copy)

    def free(self, tensor: int, tier: str) -> None:
        """Drop the only reference to a tensor's storage in a tier."""
        if tier == self._home:
            self._released.append(_range(self._held[tensor, tier]))
        super().free(tensor, tier)

    def ended(self, action: Run | Copy) -> None:
        """Let what starts from now on wait for this run or copy."""
        key = action.processor if isinstance(action, Run) else (action.src, action.dst)
        found = self._begun.pop(action)
        self._ended[key] = max(found, self._ended.get(key, found), key=lambda entry: entry[0])
        if isinstance(action, Run):
            self._going.pop(action, None)

    def turn_over(self) -> None:
        """Note when an iteration ends, and wait for the one before it."""
        super().turn_over()
        self._marks[-2].synchronize()

    def finish(self) -> None:
        """Wait for the device, and take the times of the operators and of the iterations."""
        self._end()
        torch.cuda.synchronize()
        self.iterations_ns = [_elapsed(*ends) for ends in pairwise(self._marks)]
        for op, begin, end in self._timers:
            self.durations.setdefault(op, []).append(_elapsed(begin, end))
        self._timers.clear()

    def _kept(self, tensor: int, tier: str) -> None:
        """Keep the content of a tensor, once it is there."""
        torch.cuda.synchronize()
        super()._kept(tensor, tier)

    def _mark(self) -> None:
        """Record an event behind all that ended in the plan."""
        event = torch.cuda.Event(enable_timing=True)
        self._on_stream(self._first, event.record)
        self._marks.append(event)

    def _on_stream(self, key: object, call: Any, *arguments: Any, **options: Any) -> tuple[int, Any]:
        """Call what works on a stream, behind all that ended; return the event behind it, with a number."""
        stream = self._stream(key)
        for other, (_, event) in self._ended.items():
            if other != key:
                stream.wait_event(event)
        with torch.cuda.stream(stream):
            call(*arguments, **options)
            self._count += 1
            return self._count, stream.record_event()

    def _stream(self, key: object) -> Any:
        if key not in self._streams:
            self._streams[key] = torch.cuda.Stream()
        return self._streams[key]

    def _empty(self, tier: str, nbytes: int) -> Any:
        """Return a new storage for what is placed or copied on the current stream."""
        if tier != self._home:
            return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).untyped_storage()
        with torch.cuda.stream(self._stream(self._first)):
            storage = torch.empty(nbytes, dtype=torch.uint8, device="cuda").untyped_storage()
        for run, since in self._going.items():
            if not _within(_range(storage), self._released[since:]):
                torch.cuda.current_stream().wait_event(self._begun[run][1])
        return storage

    def _move(self, source: Any, target: Any) -> None:
        target.copy_(source, non_blocking=True)

    def _compute(self, op: int, tiers: Mapping[int, str]) -> None:
        if not self.alone:
            return super()._compute(op, tiers)
        torch.cuda.reset_peak_memory_stats()
        before, kept = torch.cuda.memory_stats(), len(self._ledger)
        super()._compute(op, tiers)
        after, kept = torch.cuda.memory_stats(), len(self._ledger) - kept
        held = max(stats["requested_bytes.all.current"] for stats in (before, after))
        self.workspaces[op] = max(0, after["requested_bytes.all.peak"] - held)
        asked = [stats["allocation.all.allocated"] for stats in (before, after)]
        if asked[1] - asked[0] <= kept:
            self.frugal.add(op)
        return None

    def _timed(self, op: int, call: Any, *arguments: Any, **options: Any) -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if self.alone:
            torch.cuda._sleep(HEAD_START)
        begin.record()
        found = call(*arguments, **options)
        end.record()
        self._timers.append((op, begin, end))
        return found


def _elapsed(begin: Any, end: Any) -> int:
    """Return the nanoseconds between two events."""
    return int(begin.elapsed_time(end) * 1e6)


def _range(storage: Any) -> Range:
    """Return the addresses that a storage takes."""
    start = storage.data_ptr()
    return start, start + -(-storage.nbytes() // BLOCK) * BLOCK


def _within(one: Range, others: Collection[Range]) -> bool:
    """Return whether a range of addresses is within the union of others."""
    start, stop = one
    for a, b in sorted(others):
        if a <= start < b:
            start = b
    return start >= stop
