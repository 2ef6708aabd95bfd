"""Training graphs whose updates are Adam's, on the host's processor, as ZeRO-Offload has them.

Source: Ren et al., ZeRO-Offload, ATC 2021. Weights and gradients are taken to be in half precision, so that
beside z bytes of a weight the host keeps 6 z bytes of state: a copy, momentum and variance in single
precision. (An update that has states already keeps these.) An update reads the gradient and the states, and
writes the states and the weight; it takes the time of these bytes at 105 GB/s, what six channels of DDR4-2666
are taken to reach, as in `optane`. It runs on processors of kind ``cpu``, every other op on those of kind
``gpu``.

*Delayed*, an update has the gradients of the iteration before, which the host keeps, and so runs beside the
forward and backward pass. It writes a weight that this iteration does not see: behind the weight's last use
an op of the host's processor puts it in the old one's place, and the new gradients in that of the old ones
(1 ns: buffers change places).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode, Op, Tensor
from .optane import DRAM_BYTES_PER_NS

STATES = 6
"""Bytes of state per byte of a weight."""
UPDATES = ("Update", "adamw", "momentum", "sgd")
"""Kinds of ops that update a weight."""


def on_zero(graph: Graph, *, delayed: bool = False) -> Graph:
    """Return the graph with updates by Adam on the host's processor.

    Raises
    ------
    InstanceError
        If no op updates a weight, one of these does not write one weight, or an op has several modes.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:unet?train=1&node=zero")
    >>> {op.modes[0].processors for op in graph.ops if op.kind == "Update"}
    {('cpu',)}
    >>> [op.kind for op in lt.load("gen:unet?train=1&node=zero-delayed").ops][:2]
    ['Update', 'Update']
    """
    draft = _GraphDraft(graph, list(graph.tensors))
    for k, op in enumerate(graph.ops):
        if len(op.all_modes) > 1 or op.all_modes[0].operands:
            raise InstanceError(f"zero, op {k} {op.name!r}: found several modes or tiers, expected neither")
        if op.kind not in UPDATES:
            draft.ops.append(_on(op, "gpu"))
            continue
        written = [t for t in op.writes if graph.tensors[t].kind != "state"]
        if len(written) != 1 or not graph.tensors[written[0]].initial:
            raise InstanceError(
                f"zero, op {k} {op.name!r}: found {len(written)} tensors written, expected one weight"
            )
        draft.update(op, written[0], delayed)
    if all(op.kind not in UPDATES for op in graph.ops):
        raise InstanceError(
            f"zero, graph {graph.name!r}: found no op of kind Update, expected a training graph"
        )
    first = len(draft.first)
    later = (replace(op, after=tuple(first + k for k in op.after)) for op in draft.ops)
    return replace(
        graph,
        name=f"{graph.name} with {'delayed ' if delayed else ''}ZeRO-Offload",
        tensors=tuple(draft.tensors),
        ops=(*draft.first, *later),
        provenance={**graph.provenance, "node": "zero-delayed" if delayed else "zero"},
        source=None,
    )


@dataclass
class _GraphDraft:
    """The graph as it is made; `first` are ops in front of all others."""

    graph: Graph
    tensors: list[Tensor]
    first: list[Op] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    def tensor(self, name: str, nbytes: int, kind: str, *, lasts: bool = True) -> int:
        """Add a tensor, which lasts from one iteration to the next or not; return its number."""
        self.tensors.append(Tensor(name=name, nbytes=nbytes, kind=kind, initial=lasts, final=lasts))
        return len(self.tensors) - 1

    def update(self, op: Op, weight: int, delayed: bool) -> None:
        """Add the update of a weight."""
        known = self.graph.tensors
        gradients = tuple(t for t in op.reads if t != weight and known[t].kind != "state")
        name, nbytes = known[weight].name, known[weight].nbytes
        states = tuple(t for t in op.writes if t != weight)
        if not states:
            states = (self.tensor(f"{name}/adam", STATES * nbytes, "state"),)
        moved = sum(self.tensors[t].nbytes for t in (*gradients, weight, *states, *states))
        duration = max(1, -(-moved // DRAM_BYTES_PER_NS))
        # The host's processor does it, whatever the device is: no work of the device is left.
        plain = replace(op, inplace=(), modes=(), workspace=0, duration_ns=duration, work=())
        if not delayed:
            self.ops.append(_on(replace(plain, reads=(*gradients, *states), writes=(weight, *states)), "cpu"))
            return
        after = self.tensor(f"{name}/next", nbytes, "weight", lasts=False)
        before = tuple(self.tensor(f"{known[t].name}/before", known[t].nbytes, "gradient") for t in gradients)
        # What must come before it came in the iteration before.
        adam = replace(plain, reads=(*before, *states), writes=(after, *states), after=())
        self.first.append(_on(adam, "cpu"))
        change = replace(plain, name=f"{op.name}/change", kind="Change", duration_ns=1)
        change = replace(change, reads=(*gradients, after), writes=(weight, *before))
        self.ops.append(_on(change, "cpu"))


def _on(op: Op, kind: str) -> Op:
    """Return an op of one mode on the processors of a kind."""
    (mode,) = op.all_modes
    only = Mode(duration_ns=mode.duration_ns, workspace=mode.workspace, processors=(kind,), work=mode.work)
    return replace(op, duration_ns=mode.duration_ns, workspace=mode.workspace, modes=(only,))
