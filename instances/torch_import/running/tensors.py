"""Tensors of torch in tiers: what carries out a plan of a recorded step on the CPU.

A tensor of the graph is a storage of its bytes in a tier; the tier that processors compute in and all others
are memory of the same kind here, so a copy is a copy of memory. An op calls the operator that was traced, on
views of those storages (shape, strides, offset and type as they were traced), and what it returns is kept:
no byte is copied, unless a kernel returns a result within a larger storage (``mse_loss`` does), which moves
into one of its own size. The terms of a sum of gradients are added in the traced order. An op that draws
random numbers draws those that it draws in the reference order, also when it runs again.

The bytes alive are those of the storages that torch has not released, whoever refers to them: weak references
tell. Workspaces, which the CPU's allocator does not report, are not among them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch.fx.node import map_arg
from torch.multiprocessing.reductions import StorageWeakRef

from ....models.errors import InstanceError
from ....models.plan import Copy, Run
from ..recording import Step
from ..storages import SHAPE_ONLY, kind_of, storage_of, storages, tensors_of
from ..updates import update


class Tensors:
    """A backend of `lowtide.instances.torch_import.running.carry_out` on the CPU.

    Parameters
    ----------
    step
        What is computed.
    keep
        Tensors whose content after their last write is wanted, beside those that are final; None: of none.
    drawn
        By op that draws random numbers the state of the generator before it; None: from where the generator
        is, which is noted.

    Attributes
    ----------
    results
        Content of what is final, and of what was to be kept; on the CPU.
    iterations_ns
        What each iteration took, from the first run or copy to the end of the last one; what is placed before
        does not count. Known after `finish`.
    durations
        By op, the nanoseconds of its operator's calls so far.
    workspaces
        By op, the bytes that its operator's last call took besides; nothing on the CPU.
    noted
        States of the generator, where none were given.
    """

    def __init__(
        self, step: Step, *, keep: Collection[int] | None = None, drawn: Mapping[int, Any] | None = None
    ) -> None:
        self.step, self.keep = step, keep
        self.noted: dict[int, Any] = {}
        self._drawn = self.noted if drawn is None else drawn
        self.results: dict[int, Any] = {}
        self.iterations_ns: list[int] = []
        self.durations: dict[int, list[int]] = {}
        self.workspaces: dict[int, int] = {}
        self._shown = _views(step)
        self._content = _content(step)
        self._parameters = {
            name: node for node, (name, kind) in step.trace.initial.items() if kind == "weight"
        }
        self._held: dict[tuple[int, str], Any] = {}
        self._ledger: list[tuple[Any, int, str]] = []
        self._untraced: dict[int, Any] = {}
        self._updates: Counter[int] = Counter()
        self._marks: list[Any] = []
        self._over = False

    def place(self, tensor: int, tier: str, *, valid: bool) -> None:
        """Allocate an initial tensor, with its content if that is valid."""
        storage = self._allocated(tensor, tier)
        if valid:
            self._move(self._content[tensor], storage)

    def copy(self, copy: Copy) -> None:
        """Copy a tensor from tier to tier."""
        self._begin()
        target = self._held.get((copy.tensor, copy.dst))
        if target is None:
            target = self._allocated(copy.tensor, copy.dst)
        self._move(self._held[copy.tensor, copy.src], target)

    def free(self, tensor: int, tier: str) -> None:
        """Drop the only reference to a tensor's storage in a tier."""
        del self._held[tensor, tier]

    def ended(self, action: Run | Copy) -> None:
        """Nothing is under way on the CPU."""

    def turn_over(self) -> None:
        """Note when an iteration ends and the next one begins."""
        self._begin()
        self._mark()

    def finish(self) -> None:
        """Wait until all is over; times are known then."""
        self._end()
        self.iterations_ns = [b - a for a, b in pairwise(self._marks)]

    def live(self) -> Mapping[str, int]:
        """Return the bytes of the storages that torch has not released, by tier."""
        self._ledger = [entry for entry in self._ledger if not entry[0].expired()]
        found: Counter[str] = Counter()
        for _, nbytes, tier in self._ledger:
            found[tier] += nbytes
        return found

    def result(self, tensor: int, tier: str) -> None:
        """Keep the content of a tensor at the end, if that is wanted."""
        self._end()
        if self.keep is not None:
            self._kept(tensor, tier)

    def _kept(self, tensor: int, tier: str) -> None:
        found = self._view(self._held[tensor, tier], self._shown[tensor])
        self.results[tensor] = found.to("cpu", copy=True)

    def run(self, run: Run, tiers: Mapping[int, str]) -> None:
        """Compute an op."""
        self._begin()
        op = self.step.graph.ops[run.op]
        for t in op.writes:
            if t not in op.reads and (t, tiers[t]) in self._held:
                self.free(t, tiers[t])
        self._compute(run.op, tiers)
        for t in op.writes:
            if self.keep is not None and t in self.keep:
                self._kept(t, tiers[t])

    def _compute(self, op: int, tiers: Mapping[int, str]) -> None:
        """Call the operator of an op, and keep what it makes."""
        source = self.step.lowered.sources[op]
        with torch.no_grad():
            if isinstance(source, str):
                self._update(op, source, tiers)
            else:
                made = self._called(op, source, tiers)
                self._adopt(source, made, self.step.graph.ops[op].reads, tiers)

    def _begin(self) -> None:
        """Begin to count, at the first run or copy."""
        if not self._marks:
            self._mark()

    def _end(self) -> None:
        """Stop counting, once what is under way is over."""
        if self._marks and not self._over:
            self._over = True
            self._mark()

    def _mark(self) -> None:
        self._marks.append(time.perf_counter_ns())

    def _allocated(self, tensor: int, tier: str) -> Any:
        like = self._untraced.get(tensor)
        nbytes = self.step.graph.tensors[tensor].nbytes if like is None else like.untyped_storage().nbytes()
        return self._own(tensor, tier, self._empty(tier, nbytes))

    def _empty(self, tier: str, nbytes: int) -> Any:
        """Return a new storage in a tier."""
        return torch.UntypedStorage(nbytes)

    def _move(self, source: Any, target: Any) -> None:
        """Copy the bytes of a storage."""
        target.copy_(source)

    def _own(self, tensor: int, tier: str, storage: Any) -> Any:
        """Make a storage the place of a tensor in a tier."""
        self._held[tensor, tier] = storage
        self._ledger.append((StorageWeakRef(storage), storage.nbytes(), tier))
        return storage

    def _view(self, storage: Any, like: Any) -> Any:
        empty = torch.empty(0, dtype=like.dtype, device=storage.device)
        return empty.set_(storage, like.storage_offset(), like.shape, like.stride())

    def _fetch(self, node: Any, tiers: Mapping[int, str]) -> Any:
        """Return what a node stands for: views of storages, or what is no tensor as it was traced."""
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            (key,) = storages(node)
            t = self.step.lowered.index[key]
            return self._view(self._held[t, tiers[t]], self._untraced.get(t, value))
        return value

    def _called(self, op: int, node: Any, tiers: Mapping[int, str]) -> Any:
        """Return what an operator returns, and take its time."""
        if draws(node):
            generator = torch.cuda if self.step.device == "cuda" else torch
            if op in self._drawn:
                generator.set_rng_state(self._drawn[op])
            else:
                self.noted[op] = generator.get_rng_state()
        if kind_of(node) in SHAPE_ONLY:
            return self._timed(op, self._filled, node)
        if any(x in self.step.lowered.absorbed for x in node.all_input_nodes):
            return self._timed(op, self._sum, node, tiers)
        arguments = map_arg(node.args, lambda x: self._fetch(x, tiers))
        options = map_arg(node.kwargs, lambda x: self._fetch(x, tiers))
        return self._timed(op, node.target, *arguments, **options)

    def _timed(self, op: int, call: Any, *arguments: Any, **options: Any) -> Any:
        begun = time.perf_counter_ns()
        found = call(*arguments, **options)
        self.durations.setdefault(op, []).append(time.perf_counter_ns() - begun)
        return found

    def _filled(self, node: Any) -> Any:
        """Return what an operator makes that looks at a shape only, which need not be there."""
        like, kind = node.meta["val"], kind_of(node)
        made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
        if "full" in kind:
            return made.fill_(node.args[-1])
        if "randn" in kind:
            return made.normal_()
        if "rand" in kind:
            return made.uniform_()
        return made if "empty" in kind else made.fill_("ones" in kind)

    def _sum(self, node: Any, tiers: Mapping[int, str]) -> Any:
        """Return a sum of gradients; partial sums are added to in place."""
        own = self.step.lowered.absorbed
        terms = [self._sum(x, tiers) if x in own else self._fetch(x, tiers) for x in node.args]
        partial = [x in own for x in node.args]
        if not any(partial):
            return torch.add(*terms)
        first, other = terms if partial[0] else reversed(terms)
        return first.add_(other)

    def _update(self, op: int, name: str, tiers: Mapping[int, str]) -> None:
        assert self.step.optimizer is not None
        node = self._parameters[name]
        parameter = self._fetch(node, tiers)
        gradient = self._fetch(self.step.trace.gradients[name], tiers)
        held = [self._held[t, tiers[t]] for t in self.step.graph.ops[op].reads[2:]]
        states = [self._view(storage, node.meta["val"]) for storage in held]
        self._updates[op] += 1
        self._timed(op, update, self.step.optimizer, parameter, gradient, states, self._updates[op])

    def _adopt(self, node: Any, made: Any, reads: Collection[int], tiers: Mapping[int, str]) -> None:
        """Keep what an operator made, each storage once."""
        found = [
            x for x in (made if isinstance(made, tuple | list) else [made]) if isinstance(x, torch.Tensor)
        ]
        taken = set(reads)
        for tensor, like in zip(found, tensors_of(node), strict=True):
            t = self.step.lowered.index[storage_of(like)]
            layout, traced = ((x.dtype, tuple(x.shape)) for x in (tensor, like))
            if layout != traced and like.numel():
                raise InstanceError(f"op {node.name!r}: torch returned {layout}, the trace has {traced}")
            if layout != traced:  # cuDNN's reserve for the backward pass, whose size no trace knows
                self._untraced[t] = tensor.to("meta")
            elif t not in taken:
                tensor = self._exact(t, tensor, like)
            if t not in taken:
                taken.add(t)
                self._own(t, tiers[t], tensor.untyped_storage())

    def _exact(self, t: int, tensor: Any, like: Any) -> Any:
        """Return a tensor in a storage of as many bytes, and with the strides, that were traced."""
        nbytes = self.step.graph.tensors[t].nbytes
        there = (tensor.untyped_storage().nbytes(), tensor.storage_offset(), tensor.stride())
        if there == (nbytes, like.storage_offset(), like.stride()):
            return tensor
        return self._view(torch.UntypedStorage(nbytes, device=tensor.device), like).copy_(tensor)


def _views(step: Step) -> dict[int, Any]:
    """Return how each tensor is shown that a result may be: the traced tensors that name it."""
    trace, index = step.trace, step.lowered.index
    found: dict[int, Any] = {}
    for node in (*trace.initial, *trace.gradients.values(), *trace.outputs):
        for like in tensors_of(node):
            t = index.get(storage_of(like))
            if t is not None:
                found.setdefault(t, like)
    for op, source in zip(step.graph.ops, step.lowered.sources, strict=True):
        if isinstance(source, str):
            found.update(dict.fromkeys(op.reads[2:], found[op.reads[0]]))
    return found


def _content(step: Step) -> dict[int, Any]:
    """Return the storages of what exists before the first op; states of optimizers begin with zeros."""
    found = {
        step.lowered.index[key]: value.untyped_storage()
        for node, value in step.trace.content.items()
        for key in storages(node)
        if key in step.lowered.index
    }
    for t, tensor in enumerate(step.graph.tensors):
        if tensor.kind == "state":
            found[t] = torch.zeros(tensor.nbytes, dtype=torch.uint8).untyped_storage()
    return found


def draws(source: Any) -> bool:
    """Return whether the source of an op draws random numbers."""
    return not isinstance(source, str) and torch.Tag.nondeterministic_seeded in source.target.tags
