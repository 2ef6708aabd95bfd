"""Training graphs whose updates are Adam's, on the host's processor, as ZeRO-Offload has them.

Source: Ren et al., ZeRO-Offload, ATC 2021. Weights and gradients are taken to be in half precision, so that
beside z bytes of a weight the host keeps 6 z bytes of state: a copy, momentum and variance in single
precision. An update reads the gradient and the state, and writes the state and the weight; it takes the time
of these bytes at 105 GB/s, what six channels of DDR4-2666 are taken to reach, as in `optane`. It runs on
processors of kind ``cpu``, every other op on those of kind ``gpu``.
"""

from __future__ import annotations

from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Mode, Op, Tensor
from .optane import DRAM_BYTES_PER_NS

STATES = 6
"""Bytes of state per byte of a weight."""


def on_zero(graph: Graph) -> Graph:
    """Return the graph with updates by Adam on the host's processor.

    Raises
    ------
    InstanceError
        If no op has the kind Update, one of these does not write one weight, or an op has several
        modes.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:unet?train=1&node=zero")
    >>> {op.modes[0].processors for op in graph.ops if op.kind == "Update"}
    {('cpu',)}
    """
    tensors, ops = list(graph.tensors), []
    for k, op in enumerate(graph.ops):
        if len(op.all_modes) > 1 or op.all_modes[0].operands:
            raise InstanceError(f"zero, op {k} {op.name!r}: found several modes or tiers, expected neither")
        if op.kind != "Update":
            ops.append(_on(op, "gpu"))
            continue
        if len(op.writes) != 1 or not graph.tensors[op.writes[0]].initial:
            raise InstanceError(
                f"zero, op {k} {op.name!r}: found {len(op.writes)} tensors written, expected one weight"
            )
        (weight,) = op.writes
        gradients = tuple(t for t in op.reads if t != weight)
        size = STATES * tensors[weight].nbytes
        name = f"{tensors[weight].name}/adam"
        tensors.append(Tensor(name=name, nbytes=size, kind="state", initial=True, final=True))
        state = len(tensors) - 1
        nbytes = sum(tensors[t].nbytes for t in (*gradients, weight)) + 2 * size
        duration = max(1, -(-nbytes // DRAM_BYTES_PER_NS))
        changed = replace(op, reads=(*gradients, state), writes=(weight, state), inplace=(), modes=())
        ops.append(_on(replace(changed, duration_ns=duration, workspace=0), "cpu"))
    if not any(op.kind == "Update" for op in ops):
        raise InstanceError(
            f"zero, graph {graph.name!r}: found no op of kind Update, expected a training graph"
        )
    return replace(
        graph,
        name=f"{graph.name} with ZeRO-Offload",
        tensors=tuple(tensors),
        ops=tuple(ops),
        provenance={**graph.provenance, "node": "zero"},
        source=None,
    )


def _on(op: Op, kind: str) -> Op:
    """Return an op of one mode on the processors of a kind."""
    (mode,) = op.all_modes
    only = Mode(duration_ns=mode.duration_ns, workspace=mode.workspace, processors=(kind,))
    return replace(op, duration_ns=mode.duration_ns, workspace=mode.workspace, modes=(only,))
