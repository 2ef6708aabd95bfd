"""What a training step of torch holds, op by op, without computing it: a rehearsal on fake tensors.

`step_of` runs forward, loss and ``backward()`` as the user's loop does, with autograd, checkpoints and hooks
of torch itself, on tensors that have storages but no bytes. A dispatch mode notes each op, the storages that
it makes, and after which op each of them is gone. So everything counts that torch holds, and as long: results
that a variable of Python, a checkpoint or a node of autograd keeps beyond their last use.

Parameters, buffers, inputs and targets count nothing. Gradients of parameters, and the loss, stay to the end.
An op that only makes views is none. Imported where torch is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...instances.torch_import.calls import call_of
from ...instances.torch_import.errors import one_line_errors
from ...instances.torch_import.fakes import fakes_of
from ...instances.torch_import.storages import kind_of, operands
from ...instances.torch_import.tracing import in_mode, module_of
from ...instances.torch_import.work import bytes_moved, dtype_of, multiply_adds
from ...instances.transforms.roofline import duration_ns
from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ...models.lowering.actions import transfer_ns
from ...models.lowering.builder import PlanBuilder
from ...models.machine import Machine
from ...models.plan import Plan
from ...models.work import Work

Step = Callable[[], "Rehearsal"]
"""Rehearses a step of a module once more."""


@dataclass(frozen=True)
class RecordedOp:
    """An op that makes a storage or changes one: its kind, its work, and the storages by number."""

    kind: str
    work: Work
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(eq=False)
class Rehearsal:
    """The ops of a step, in the order in which torch runs them.

    Attributes
    ----------
    events
        The ops.
    nbytes, born, died
        By storage: its bytes, the event that makes it, the first event at which it is gone (None: it stays).
    again
        Storage that torch makes a second time -> the first one with the same content.
    repeated
        RecordedOp that runs an op again -> the first one.
    backward
        Number of events before the backward pass.
    """

    events: list[RecordedOp] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    died: list[int | None] = field(default_factory=list)
    again: dict[int, int] = field(default_factory=dict)
    repeated: dict[int, int] = field(default_factory=dict)
    backward: int = 0

    def end(self, s: int) -> int:
        """Return the first event at which a storage is gone; the number of events if it stays."""
        died = self.died[s]
        return len(self.events) if died is None else died

    def repeats(self, e: int, first: int) -> None:
        """Note that an event makes again what another one made."""
        self.repeated[e] = first
        self.again.update(zip(self.events[e].writes, self.events[first].writes, strict=True))

    def duration(self, e: int) -> int:
        """Return the nanoseconds of an event."""
        work = self.events[e].work
        return duration_ns(work.nbytes, work.multiply_adds)

    def change_if_kept(self, made: Mapping[int, int]) -> Counter[int]:
        """Return by event the bytes by which more is held if storages live on until they would be made again.

        Parameters
        ----------
        made
            Storage -> the one that is made again, which is then no other one.
        """
        change: Counter[int] = Counter()
        for s, later in made.items():
            gone, there = self.end(s), self.born[later]
            change.update(dict.fromkeys(range(gone, there), self.nbytes[s]))
            change.update(dict.fromkeys(range(there, gone), -self.nbytes[s]))
        return change

    def profile(self) -> list[int]:
        """Return the bytes that torch holds while each event runs."""
        change = [0] * (len(self.events) + 1)
        for s, nbytes in enumerate(self.nbytes):
            change[self.born[s]] += nbytes
            change[self.end(s)] -= nbytes
        held, total = [], 0
        for x in change[:-1]:
            total += x
            held.append(total)
        return held

    def graph(self, name: str, *, once: bool) -> Graph:
        """Return the ops as a graph, in which each storage is a tensor.

        Parameters
        ----------
        once
            Leave out the events that only make again what there was: first and second storage are one tensor.
        """
        kept = self.numbers(once=once)
        same = [self.again.get(s, s) if once else s for s in range(len(self.nbytes))]
        stays = {same[s] for s in range(len(same)) if self.died[s] is None}
        index = {s: t for t, s in enumerate(kept)}
        names = self.names()
        label = {s: names[self.born[s]] for s in kept}
        tensors = [
            Tensor(
                name=f"{label[s]}.{self.events[self.born[s]].writes.index(s)}",
                nbytes=self.nbytes[s],
                kind="activation" if self.born[s] < self.backward or s in self.again else "gradient",
                final=s in stays,
            )
            for s in kept
        ]
        ops = [
            Op(
                name=names[e],
                kind=event.kind,
                duration_ns=self.duration(e),
                work=(event.work,),
                reads=tuple(dict.fromkeys(index[same[s]] for s in event.reads)),
                writes=tuple(dict.fromkeys(index[same[s]] for s in event.writes)),
            )
            for e, event in enumerate(self.events)
            if not (once and e in self.repeated)
        ]
        source = {"importer": f"torch {torch.__version__}", "durations": "roofline"}
        return Graph(name=name, tensors=tuple(tensors), ops=tuple(ops), provenance=source)

    def numbers(self, *, once: bool) -> list[int]:
        """Return the storages that are the tensors of `graph`, in their order."""
        return [s for s in range(len(self.nbytes)) if not (once and s in self.again)]

    def names(self) -> list[str]:
        """Return a name for each event: its kind and a number, or the first event's and ``again``."""
        counts: dict[str, int] = {}
        names: list[str] = []
        for e, event in enumerate(self.events):
            if e in self.repeated:
                names.append(f"{names[self.repeated[e]]} again")
            else:
                counts[event.kind] = counts.get(event.kind, -1) + 1
                names.append(f"{event.kind}_{counts[event.kind]}")
        return names

    def plan(self, graph: Graph, machine: Machine, moved: Mapping[int, int] | None = None) -> Plan:
        """Return the events one after another, with each storage released when torch releases it.

        Parameters
        ----------
        graph
            As `graph` makes it; each op once where storages move.
        machine
            Torch computes in its first tier; the second one is the host.
        moved
            Storage -> the event before which it goes to the host; it comes back where it is made again. None:
            what is made again runs.
        """
        once, fastest, now, ops = moved is not None, machine.tiers[0].name, 0, count()
        index = {s: t for t, s in enumerate(self.numbers(once=once))}
        builder = PlanBuilder(graph, machine)

        def copy(s: int, src: int, dst: int) -> int:
            ends = machine.tiers[src].name, machine.tiers[dst].name
            end = now + transfer_ns(machine, *ends, self.nbytes[s])
            builder.copy(index[s], *ends, now, end)
            return end

        for e in range(len(self.events) + 1):
            for s in [s for s, at in (moved or {}).items() if at == e]:
                now = copy(s, 0, 1)
            for s in [s for s, died in enumerate(self.died) if died == e]:
                builder.free(index[self.again.get(s, s) if once else s], fastest, now)
            if once and e in self.repeated:
                now = copy(self.again[self.events[e].writes[0]], 1, 0)
            elif e < len(self.events):
                i, begun = next(ops), now
                now += graph.ops[i].duration_ns
                builder.run(i, 0, begun, now, machine.processors[0].name)
        return builder.plan()


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """The mode that notes what torch does.

    Attributes
    ----------
    seen
        What it noted.
    last
        The event of the op that ran last; None if that op made views only.
    observer
        Called with each op that runs, once it is noted; may be None.
    """

    def __init__(self, known: Sequence[Any]) -> None:
        super().__init__()
        self.known = {StorageWeakRef(x.untyped_storage()) for x in known}
        self.alive: dict[Hashable, int] = {}
        self.seen = Rehearsal()
        self.last: int | None = None
        self.observer: Callable[[Any], None] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what an operator returns."""
        self.sweep()
        results = func(*args, **(kwargs or {}))
        self.last = self._noted(func, args, kwargs or {}, results)
        if self.observer is not None:
            self.observer(func)
        return results

    def sweep(self) -> None:
        """Note which storages are gone."""
        for storage in [s for s in self.alive if s.expired()]:  # type: ignore[attr-defined]
            self.seen.died[self.alive.pop(storage)] = len(self.seen.events)

    def number(self, tensor: Any) -> int | None:
        """Return the number of a tensor's storage; None if the step did not make it."""
        return self.alive.get(StorageWeakRef(tensor.untyped_storage()))

    def _noted(self, func: Any, args: Any, kwargs: Any, results: Any) -> int | None:
        seen, e = self.seen, len(self.seen.events)
        made = []
        for x in _tensors(results):
            storage = StorageWeakRef(x.untyped_storage())
            if storage not in self.known and storage not in self.alive and x.untyped_storage().nbytes():
                self.alive[storage] = len(seen.nbytes)
                made.append(len(seen.nbytes))
                seen.nbytes.append(int(x.untyped_storage().nbytes()))
                seen.born.append(e)
                seen.died.append(None)
        changed = self._numbers(x for argument in _changed(func, args, kwargs) for x in _tensors(argument))
        if not made and not changed:
            return None
        sources = [SimpleNamespace(meta={"val": x}) for x in _tensors((args, kwargs))]
        node = SimpleNamespace(
            target=func, args=args, kwargs=kwargs, meta={"val": results}, all_input_nodes=sources
        )
        content = operands(node)
        work = Work(
            nbytes=bytes_moved(content, node), multiply_adds=multiply_adds(node), dtype=dtype_of(node)
        )
        reads = self._numbers(x.meta["val"] for x in content)
        seen.events.append(
            RecordedOp(kind_of(node), work, tuple(x for x in reads if x not in made), (*made, *changed))
        )
        return e

    def _numbers(self, tensors: Any) -> tuple[int, ...]:
        numbers = (self.number(x) for x in tensors)
        return tuple(dict.fromkeys(x for x in numbers if x is not None))


def _tensors(value: Any) -> list[Any]:
    return [x for x in tree_leaves(value) if isinstance(x, torch.Tensor)]


def _changed(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments that an operator changes in place."""
    return [
        args[i] if i < len(args) else kwargs.get(argument.name)
        for i, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def step_of(
    module: Any,
    inputs: Any,
    targets: Any,
    loss: Callable[..., Any],
    begin: Callable[[Recorder], AbstractContextManager[Any]],
) -> Step:
    """Return what rehearses a training step; arguments and errors are those of `lowtide.trace`.

    Parameters
    ----------
    begin
        Called with the recorder before each rehearsal; returns the context of forward and loss.
    """
    where = f"step of {type(module).__name__}"
    if not callable(loss):
        raise InstanceError(f"{where}, loss: found {loss!r}, expected a function of the output")
    with one_line_errors(where):
        own, _ = module_of(module, where)
        given = call_of(inputs, own.forward, f"{where}, inputs")
        wanted = call_of(targets, loss, f"{where}, targets", behind=1)

    def rehearse() -> Rehearsal:
        weights = {**dict(own.named_parameters()), **dict(own.named_buffers())}
        data = [*given.tensors().values(), *wanted.tensors().values()]
        fakes = [
            x.detach().requires_grad_(x.requires_grad)
            for x in fakes_of([*weights.values(), *data], len(weights))
        ]
        rest = iter(fakes[len(weights) :])
        call = given.with_tensors(next(rest) for _ in given.tensors())
        aims = wanted.with_tensors(rest)
        recorder = Recorder(fakes)

        def whole() -> None:
            context = begin(recorder)
            with recorder:
                with context:
                    value = aims.of(loss, call.of(own))
                recorder.seen.backward = len(recorder.seen.events)
                value.backward()
                recorder.sweep()

        outer = torch.nn.Module()  # so that the weights are in their place in the backward pass, too
        outer.module, outer.forward = own, whole
        placed = {f"module.{name}": x for name, x in zip(weights, fakes, strict=False)}
        with one_line_errors(where), in_mode(own, train=True):
            torch.func.functional_call(outer, placed, ())
        return recorder.seen

    return rehearse
