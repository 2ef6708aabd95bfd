"""Tensors of torch on a CUDA device, with copies on streams of their own. Not run on a GPU yet.

The tier that processors compute in is the device's memory; every other tier is pinned memory of the host.
Each processor and each channel has a stream. What starts in the plan waits, on its stream, for all that
ended before in the plan: so the device keeps to the plan's order, and memory that was released is free
when it is used again. Nothing waits on the host until an iteration is over. Operators are timed by
events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from ....models.errors import BackendUnavailable, InstanceError
from ....models.machine import Machine
from ....models.plan import Copy, Run
from ..recording import Step
from .tensors import Tensors


class Streams(Tensors):
    """A backend of `lowtide.instances.torch_import.running.carry_out` on the current CUDA device.

    Parameters
    ----------
    machine
        That of the plan.
    step, keep, drawn
        As `Tensors` has them; the step was recorded on the device.

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
    ) -> None:
        if not torch.cuda.is_available():
            raise BackendUnavailable(f"{step.graph.name}: found no CUDA device, expected one")
        homes = {access.tier for p in machine.processors for access in p.tiers}
        if len(homes) != 1:
            raise InstanceError(
                f"machine {machine.name!r}: processors use tiers {sorted(homes)}, expected one"
            )
        super().__init__(step, keep=keep, drawn=drawn)
        (self._home,) = homes
        self._first = machine.processors[0].name
        self._streams: dict[object, Any] = {}
        self._begun: dict[Run | Copy, Any] = {}
        self._over: dict[object, Any] = {}
        self._timers: list[tuple[int, Any, Any]] = []

    def result(self, tensor: int, tier: str) -> None:
        """Keep the content of a tensor, once it is there, if that is wanted."""
        if self.keep is not None:
            torch.cuda.synchronize()
            super().result(tensor, tier)

    def run(self, run: Run, tiers: Mapping[int, str]) -> None:
        """Compute an op on the stream of its processor."""
        self._begin()
        self._on_stream(run.processor, run, super().run, run, tiers)

    def copy(self, copy: Copy) -> None:
        """Copy a tensor on the stream of its channel."""
        self._begin()
        self._on_stream((copy.src, copy.dst), copy, super().copy, copy)

    def ended(self, action: Run | Copy) -> None:
        """Let what starts from now on wait for this run or copy."""
        stream = action.processor if isinstance(action, Run) else (action.src, action.dst)
        self._over[stream] = self._begun.pop(action)

    def finish(self) -> None:
        """Wait for the device, and take the times of the operators."""
        torch.cuda.synchronize()
        for op, begin, end in self._timers:
            self.durations.setdefault(op, []).append(int(begin.elapsed_time(end) * 1e6))
        self._timers.clear()

    def _on_stream(self, key: object, action: Run | Copy, call: Any, *arguments: Any) -> None:
        stream = self._stream(key)
        stream.wait_stream(torch.cuda.current_stream())  # where tensors are placed
        for other, event in self._over.items():
            if other != key:
                stream.wait_event(event)
        with torch.cuda.stream(stream):
            call(*arguments)
            self._begun[action] = stream.record_event()

    def _stream(self, key: object) -> Any:
        if key not in self._streams:
            self._streams[key] = torch.cuda.Stream()
        return self._streams[key]

    def _empty(self, tier: str, nbytes: int) -> Any:
        """Return a new storage; those of the device come from the pool of one stream, for each other."""
        if tier != self._home:
            return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).untyped_storage()
        with torch.cuda.stream(self._stream(self._first)):
            return torch.UntypedStorage(nbytes, device="cuda")

    def _move(self, source: Any, target: Any) -> None:
        target.copy_(source, non_blocking=True)

    def _timed(self, op: int, call: Any, *arguments: Any, **options: Any) -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        begin.record()
        found = call(*arguments, **options)
        end.record()
        stats = torch.cuda.memory_stats()
        held = max(before, stats["requested_bytes.all.current"])
        self.workspaces[op] = max(0, stats["requested_bytes.all.peak"] - held)
        self._timers.append((op, begin, end))
        return found
