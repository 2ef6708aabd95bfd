"""Offload of saved tensors in eager torch, as a plan of `placement` has it: hooks that pack and unpack them.

Torch calls ``pack`` for each tensor that an op saves for the backward pass, and ``unpack`` just before
backward reads it. A tensor that the plan moves out behind its last use in forward goes to the host when it is
first saved, whole storages at a time; torch releases it on the device after that use. It comes back, once for
all that read it, at the last unpacking before the plan's copy, at the latest at its own.

Copies wait, and nothing runs beside them: the report's plan takes longer than one that overlaps them.
`lowtide.results.adapters.eager_step` rehearses the step with the hooks in place.

Source: ``pytorch/pytorch:torch/autograd/graph.py``, ``saved_tensors_hooks`` (2.13.0, tried, too).
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ...instances.durations import with_durations
from ...instances.machines import load_machine
from ...instances.torch_import.tracing import require_torch
from ...models.errors import UsageError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.result import Result
from ...models.verify import verify
from .orders import plan_for

if TYPE_CHECKING:
    from .eager_step import Recorder, Rehearsal, Step


@dataclass(frozen=True, kw_only=True)
class Offloaded:
    """A step with offload as torch runs it.

    Parameters
    ----------
    peak
        Bytes that the device holds at most beside parameters, buffers and data; that of the plan.
    moved_bytes
        Bytes that go to the host; as many come back.
    offloaded
        Names of the tensors that do.
    plan
        Runs of the traced graph, copies that nothing overlaps, and when torch releases what.
    """

    peak: int
    moved_bytes: int
    offloaded: tuple[str, ...]
    plan: Plan = field(repr=False)


@dataclass(eq=False)
class _Slot:
    """A storage on the host, the number of unpackings that are left, and its copy on the device if any."""

    number: int
    host: Any
    device: Any
    version: int
    left: int = 0
    there: Any = None


@dataclass(eq=False)
class Offloads:
    """Hooks for the saved tensors of a step; without a plan, all stay on the device.

    Attributes
    ----------
    graph
        The traced step; None before `trace`.

    Examples
    --------
    >>> import torch
    >>> import lowtide as lt
    >>> from lowtide.adapters import torch_offload
    >>> parts = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(6))
    >>> module = torch.nn.Sequential(*parts)
    >>> x, offloads = torch.ones(512, 8), torch_offload.Offloads()
    >>> graph = offloads.trace(module, x, None, torch.sum, durations="a100-40g")
    >>> memory = lt.solve(lt.Peak(graph)).objective * 7 // 10
    >>> machine = lt.load_machine("a100-40g", {"gpu": memory})
    >>> report = offloads.follow(lt.solve(lt.Placement(graph, machine, whole=True), time_limit=2))
    >>> report.moved_bytes > 0
    True
    >>> with offloads.hooks():
    ...     value = module(x).sum()
    >>> value.backward()
    """

    graph: Graph | None = field(default=None, init=False)
    _step: Step | None = field(default=None, init=False, repr=False)
    _base: Rehearsal | None = field(default=None, init=False, repr=False)
    _recorder: Recorder | None = field(default=None, init=False, repr=False)
    _moved: set[int] | None = field(default_factory=set, init=False, repr=False)
    _fetched: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False)
    _packed: list[tuple[int | None, int]] = field(default_factory=list, init=False, repr=False)
    _unpacked: list[int] = field(default_factory=list, init=False, repr=False)
    _out: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _back: dict[int, int] = field(default_factory=dict, init=False, repr=False)
    _changed: set[int] = field(default_factory=set, init=False, repr=False)
    _slots: Any = field(default=None, init=False, repr=False)
    _packs: Iterator[int] = field(default_factory=count, init=False, repr=False)
    _unpacks: Iterator[int] = field(default_factory=count, init=False, repr=False)

    def hooks(self) -> AbstractContextManager[Any]:
        """Return the context for forward and loss of the next step; ``backward()`` may be behind it.

        Raises
        ------
        UsageError
            When a tensor is saved: if the traced step saved others.
        """
        if self.graph is None and self._recorder is None:
            return nullcontext()
        from torch.autograd.graph import saved_tensors_hooks

        self._packs, self._unpacks, self._slots = count(), count(), WeakValueDictionary()
        hooks: AbstractContextManager[Any] = saved_tensors_hooks(self._pack, self._unpack)
        return hooks

    def trace(
        self, module: Any, inputs: Any, targets: Any, loss: Callable[..., Any], *, durations: Any = None
    ) -> Graph:
        """Return the graph of a training step, called without `hooks`; nothing is computed.

        Parameters
        ----------
        module, inputs, targets, loss, durations
            As of `lowtide.trace`.

        Raises
        ------
        InstanceError
            If torch cannot run the step on fake tensors.
        BackendUnavailable
            If torch is not installed.
        """
        require_torch("offloads")
        from .eager_step import step_of

        self._step = step_of(module, inputs, targets, loss, self._begin)
        self._moved = None  # all moves, and comes back when it is read
        self._fetched, self._changed = {}, set()
        self._packed, self._unpacked, self._back = [], [], {}
        self._base = self._rehearsed()
        self._moved = set()
        graph = self._base.graph(type(module).__name__, once=True)
        machine = load_machine(durations) if isinstance(durations, str | os.PathLike) else durations
        self.graph = graph if machine is None else with_durations(graph, machine)
        return self.graph

    def follow(self, answer: Result | Plan) -> Offloaded:
        """Offload what a plan of `graph` does, and return what torch does.

        Parameters
        ----------
        answer
            A result of `placement` for `graph`, or its plan, in which each op runs once.

        Raises
        ------
        InstanceError, UsageError
            If it is something else, or nothing was traced.
        VerificationError
            If the plan does not verify.
        """
        plan, graph, base = plan_for(answer, self.graph, "follow"), self.graph, self._base
        assert graph is not None
        assert base is not None
        if plan.period is not None or len(plan.runs) > len(graph.ops):
            raise UsageError("follow: found no plan of one step, expected one in which each op runs once")
        self._choose(base, graph, plan)
        seen = self._rehearsed()
        fast, *slow = plan.machine.tiers
        lowered = seen.plan(
            graph, replace(plan.machine, tiers=(replace(fast, capacity=None), *slow)), self._out
        )
        verdict = verify(graph, lowered)
        verdict.raise_if_invalid()
        moved = [
            graph.tensors[copy.tensor] for copy in lowered.copies if copy.src == plan.machine.tiers[0].name
        ]
        return Offloaded(
            peak=verdict.peaks[plan.machine.tiers[0].name],
            moved_bytes=sum(tensor.nbytes for tensor in moved),
            offloaded=tuple(tensor.name for tensor in moved),
            plan=lowered,
        )

    def _choose(self, base: Rehearsal, graph: Graph, plan: Plan) -> None:
        """Take from a plan which storages move, and at which unpacking each comes back."""
        again, later = sorted(base.repeated), {s: r for r, s in base.again.items()}
        runs = sorted(plan.runs, key=lambda run: run.start)
        begun = [run.start for run in runs]
        start = {run.op: run.start for run in runs}
        forward = base.backward - bisect_left(again, base.backward)
        there = [e - bisect_left(again, e) for e in self._unpacked]
        last_use = {t: start[i] for i, op in enumerate(graph.ops[:forward]) for t in (*op.reads, *op.writes)}
        fastest = plan.machine.tiers[0].name
        self._moved, self._fetched = set(), {}
        for t, s in enumerate(base.numbers(once=True)):
            copies = [copy for copy in plan.copies if copy.tensor == t]
            out = [c.end for c in copies if c.src == fastest and c.start >= last_use.get(t, c.end)]
            back = [c.start for c in copies if c.dst == fastest and out and c.start >= out[0]]
            if not back or s not in later or s in self._changed or base.end(s) > base.born[later[s]]:
                continue
            wished = bisect_right(there, bisect_left(begun, back[0])) - 1
            first = max(wished, bisect_left(self._unpacked, base.end(s)))
            self._moved.add(s)
            self._fetched.setdefault(min(first, self._back[s]), []).append(s)

    def _rehearsed(self) -> Rehearsal:
        assert self._step is not None
        self._out = {}
        try:
            return self._step()
        finally:
            self._recorder = None

    def _begin(self, recorder: Recorder) -> AbstractContextManager[Any]:
        self._recorder = recorder
        return self.hooks()

    def _pack(self, tensor: Any) -> Any:
        """Return what autograd keeps of a tensor: an alias, or where its storage is on the host."""
        from torch.utils._python_dispatch import _disable_current_modes

        k, nbytes, recorder = next(self._packs), int(tensor.untyped_storage().nbytes()), self._recorder
        if recorder is not None and self._moved is None:
            self._packed.append((recorder.number(tensor), nbytes))
        elif k >= len(self._packed) or self._packed[k][1] != nbytes:
            raise UsageError(
                f"offload, saved tensor {k}: found {nbytes} B, expected what the traced step saves; trace "
                "the module as it is now"
            )
        number = self._packed[k][0]
        if number is None or (self._moved is not None and number not in self._moved):
            return tensor.detach()
        slot = self._slots.get(number)
        if slot is None:
            with _disable_current_modes():  # what the host holds is not what the device holds
                flat = tensor.detach().as_strided((nbytes // tensor.element_size(),), (1,), 0)
                slot = _Slot(number, flat.to("cpu", copy=True), tensor.device, tensor._version)
            self._slots[number] = slot
            if recorder is not None:
                self._out[number] = len(recorder.seen.events)
        if slot.version != tensor._version:
            self._changed.add(number)
        slot.left += 1
        return slot, tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()

    def _unpack(self, packed: Any) -> Any:
        """Return the tensor, after all storages that are to come back now."""
        u = next(self._unpacks)
        if self._recorder is not None and self._moved is None:
            self._unpacked.append(len(self._recorder.seen.events))
        for number in self._fetched.get(u, ()):
            if number in self._slots:
                self._fetch(self._slots[number], u)
        if not isinstance(packed, tuple):
            return packed
        slot, dtype, *geometry = packed
        self._fetch(slot, u)
        tensor = slot.there.view(dtype).as_strided(*geometry)
        slot.left -= 1
        if slot.left <= 0:
            slot.there = None
        return tensor

    def _fetch(self, slot: _Slot, u: int) -> None:
        if slot.there is None:
            slot.there = slot.host.to(slot.device, copy=True)
            if self._recorder is not None and self._recorder.last is not None:
                seen, e = self._recorder.seen, self._recorder.last
                seen.again[seen.events[e].writes[0]] = slot.number
                seen.repeated[e] = seen.born[slot.number]
                if self._moved is None:
                    self._back[slot.number] = u
