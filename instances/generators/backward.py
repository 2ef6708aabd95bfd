"""Training graphs from forward graphs: loss, backward ops, sums of gradients, weight updates.

The derivation is the textbook one of reverse-mode differentiation (Griewank and Walther, *Evaluating
Derivatives*, 2nd ed., chapter 3), op by op:

* A loss op reads the outputs and writes their gradients. Nothing but the weights stays to the end.
* Each forward op that reads something has a backward op. It reads the gradients of what the forward op
  wrote and what that op saved: its inputs by default, else what `SAVED` says. It writes the gradients of
  what the forward op read, except of inputs and of the tensors of source ops (data, not computed). An
  op without weights of its own keeps its backward op even if that leaves nothing to write: it stands
  for parameters of negligible size.
* A tensor with several readers gets one n-ary sum op, as soon as the last of its gradients exists.
* Where gradients are `split`, what a backward op writes for weights is a second op's, which reads no weights.
* A weight is updated by an op of its own as soon as its gradient exists.
* The backward of an addition is no op: the gradient of the sum is the gradient of each summand.

A backward op takes the time of its forward op once for each gradient that it writes.
"""

from __future__ import annotations

from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ...models.work import Work
from ..transforms.roofline import duration_ns

SAVED = {
    "Softmax": "outputs",
    "Relu": "outputs",
    "AveragePool": "nothing",
    "Concat": "nothing",
    "Embedding": "activations",
    "Rotary": "nothing",
}
"""By op kind, what the backward op reads besides gradients; all inputs for kinds not named."""

PASSES = frozenset({"Add"})
"""Op kinds whose output gradient is the gradient of every input: no backward op."""


def training_graph(forward: Graph, *, split: bool = False) -> Graph:
    """Return forward and backward pass of a graph in which each tensor has one writer.

    Parameters
    ----------
    forward
        Inputs and weights are initial; what no op reads is an output.
    split
        Whether gradients of weights are ops of their own.

    Raises
    ------
    InstanceError
        If some tensor has several writers, or an initial one is written.

    Examples
    --------
    >>> from lowtide.instances import load
    >>> [op.name for op in load("gen:chain?n=3&train=1").ops]
    ['op0', 'op1', 'op2', 'loss', 'op2.backward', 'op1.backward']
    """
    return _Derivation(forward, split).graph()


class _Derivation:
    """The training graph in the making; forward tensors keep their indices."""

    def __init__(self, forward: Graph, split: bool) -> None:
        self.forward, self.split = forward, split
        self.tensors = [
            t if t.kind == "weight" else replace(t, final=False, kind=_kind(t)) for t in forward.tensors
        ]
        self.ops = list(forward.ops)
        self.readers = [0] * len(self.tensors)
        self.needs = [t.kind == "weight" for t in self.tensors]
        written: set[int] = set()
        for op in forward.ops:
            for t in op.reads:
                self.readers[t] += 1
            for t in op.writes:
                if t in written or self.tensors[t].initial:
                    raise InstanceError(
                        f"op {op.name!r}, writes: found tensor {self.tensors[t].name!r} with another "
                        "content before, expected one writer for each tensor of a forward graph"
                    )
                written.add(t)
                self.needs[t] = bool(op.reads)
        self.parts: list[list[int]] = [[] for _ in self.tensors]

    def graph(self) -> Graph:
        """Return the training graph."""
        self._add_loss()
        waiting = list(self.readers)
        for op in reversed(self.forward.ops):
            if op.reads:
                self._add_backward(op)
            for t in op.reads:
                waiting[t] -= 1
                if waiting[t] == 0 and self.tensors[t].kind == "weight":
                    self._add_update(t)
        return replace(self.forward, tensors=tuple(self.tensors), ops=tuple(self.ops))

    def _add_loss(self) -> None:
        outputs = [t for t, count in enumerate(self.readers) if not count and not self.tensors[t].initial]
        gradients = [self._new_gradient(t, "") for t in outputs if self.needs[t]]
        self._add("loss", "Loss", outputs, gradients)

    def _saved(self, op: Op) -> tuple[int, ...]:
        activations = tuple(t for t in op.reads if self.tensors[t].kind != "weight")
        saved = {"inputs": op.reads, "outputs": op.writes, "activations": activations, "nothing": ()}
        return saved[SAVED.get(op.kind, "inputs")]

    def _add_backward(self, op: Op) -> None:
        gradients = [g for t in op.writes if (g := self._gradient(t)) is not None]
        wanted = [t for t in op.reads if self.needs[t]]
        if op.kind in PASSES:
            for t in wanted:
                self.parts[t] += gradients
            return
        saved = self._saved(op)
        weights = [t for t in wanted if self.tensors[t].kind == "weight"] if self.split else []
        others = [t for t in wanted if t not in weights]
        alone = weights and op.kind == "Linear"  # the gradient of its input needs the weights only
        read = tuple(t for t in saved if self.tensors[t].kind == "weight") if alone else saved
        parts = [(".backward", others, read)] if others or not weights else []
        if weights:
            parts.append((".weights", weights, tuple(t for t in saved if self.tensors[t].kind != "weight")))
        for what, targets, read in parts:
            results = [self._new_gradient(t, f".{op.name}" if self.readers[t] > 1 else "") for t in targets]
            kind = f"{op.kind}Backward" if op.kind else ""
            self._add(f"{op.name}{what}", kind, [*gradients, *read], results, op, max(1, len(targets)))

    def _add_update(self, weight: int) -> None:
        name = self.tensors[weight].name
        gradient = self._gradient(weight)
        if gradient is not None:
            self._add(f"{name}.update", "Update", (weight, gradient), (weight,))

    def _gradient(self, t: int) -> int | None:
        """Return the gradient of a tensor, summed if there are several parts; None if there is none."""
        parts = self.parts[t]
        if len(parts) > 1:
            total = self._tensor(f"d.{self.tensors[t].name}", t)
            self._add(f"{self.tensors[t].name}.sum", "Sum", parts, (total,))
            self.parts[t] = [total]
        return self.parts[t][0] if parts else None

    def _new_gradient(self, t: int, suffix: str) -> int:
        gradient = self._tensor(f"d.{self.tensors[t].name}{suffix}", t)
        self.parts[t].append(gradient)
        return gradient

    def _tensor(self, name: str, like: int) -> int:
        self.tensors.append(Tensor(name=name, nbytes=self.tensors[like].nbytes, kind="gradient"))
        return len(self.tensors) - 1

    def _add(
        self,
        name: str,
        kind: str,
        reads: list[int] | tuple[int, ...],
        writes: list[int] | tuple[int, ...],
        like: Op | None = None,
        times: int = 1,
    ) -> None:
        """Add an op that takes as long as another one so many times, or as long as it moves its bytes."""
        traffic = sum(self.tensors[t].nbytes for t in {*reads, *writes})
        work = (Work(nbytes=traffic),) * self.forward.states_work
        self.ops.append(
            Op(
                name=name,
                kind=kind,
                duration_ns=like.duration_ns * times if like else duration_ns(traffic, 0),
                reads=tuple(dict.fromkeys(reads)),
                writes=tuple(writes),
                work=tuple(x.repeated(times) for x in like.work) if like else work,
            )
        )


def _kind(tensor: Tensor) -> str:
    return "activation" if tensor.kind == "output" else tensor.kind
