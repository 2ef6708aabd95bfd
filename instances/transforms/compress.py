"""Training graphs that keep for the backward pass what they have compressed, by stated factors.

Source: FlashNeuron (Bae et al., FAST 2021) and Layrub (Jin et al., TACO 2018) compress what they offload. How
far that goes depends on the values; here a factor is stated for a kind of tensor, and so is what it costs.

A tensor of such a kind that dies, that ops of the forward pass read or write, and that the backward pass only
reads, is packed behind its last forward access: an op writes ceil(nbytes / factor) bytes, which outlive the
forward pass in its place. Before its first backward use another op unpacks them. Either takes the time of
reading and writing these bytes (`roofline`). So what is offloaded, and channels carry, is compressed; what a
policy keeps on the device is so, too, which the published systems leave as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from ...models.derived.backward import first_backward
from ...models.errors import InstanceError
from ...models.graph import KINDS, Graph, Op, Tensor
from ...models.work import Work
from .roofline import duration_ns


def _exact(factors: Mapping[str, float], where: str) -> dict[str, Fraction]:
    for kind, factor in sorted(factors.items()):
        if kind not in KINDS:
            raise InstanceError(f"{where}: found kind {kind!r}, expected one of {', '.join(KINDS)}")
        if not 1 < factor < 10**6:
            raise InstanceError(f"{where}: found factor {factor:g} of {kind}, expected one above 1")
    return {kind: Fraction(str(factor)) for kind, factor in factors.items()}


def compressed(graph: Graph, factors: Mapping[str, float]) -> Graph:
    """Return the graph with ops that pack and unpack what the backward pass uses again.

    Parameters
    ----------
    factors
        By kind of tensor, bytes over packed bytes, above 1.

    Raises
    ------
    InstanceError
        If a kind is unknown, a factor is not above 1, or nothing tells where the backward pass begins.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:unet?train=1&compress.activation=4")
    >>> {op.kind for op in graph.ops} >= {"Compress", "Decompress"}
    True
    """
    where = f"compress, graph {graph.name!r}"
    exact = _exact(factors, where)
    turn = first_backward(graph)
    if turn is None:
        raise InstanceError(f"{where}: found no loss and no gradients, expected a training graph")
    tensors, again = list(graph.tensors), dict[int, int]()
    behind: dict[int, list[Op]] = {}
    works = graph.states_work
    before: dict[int, list[Op]] = {}
    for t, tensor in enumerate(graph.tensors):
        uses = [k for k, op in enumerate(graph.ops) if t in op.reads or t in op.writes]
        forward, backward = [k for k in uses if k < turn], [k for k in uses if k >= turn]
        written = any(t in graph.ops[k].writes for k in backward)
        if tensor.kind not in factors or not (forward and backward) or written or tensor.final:
            continue
        if not (tensor.initial or t in graph.ops[forward[0]].writes) or not tensor.nbytes:
            continue
        nbytes = -(-tensor.nbytes // exact[tensor.kind])
        packed, again[t] = len(tensors), len(tensors) + 1
        tensors.append(Tensor(name=f"{tensor.name}/packed", nbytes=nbytes, kind=tensor.kind))
        tensors.append(Tensor(name=f"{tensor.name}/unpacked", nbytes=tensor.nbytes, kind=tensor.kind))
        time = duration_ns(tensor.nbytes + nbytes, 0)
        pack = Op(
            name=f"{tensor.name}/pack",
            kind="Compress",
            reads=(t,),
            writes=(packed,),
            duration_ns=time,
            work=(Work(nbytes=tensor.nbytes + nbytes),) * works,
        )
        unpack = replace(
            pack, name=f"{tensor.name}/unpack", kind="Decompress", reads=(packed,), writes=(again[t],)
        )
        behind.setdefault(forward[-1], []).append(pack)
        before.setdefault(backward[0], []).append(unpack)
    ops: list[Op] = []
    place: list[int] = []
    for k, op in enumerate(graph.ops):
        ops += before.get(k, [])
        place.append(len(ops))
        moved = replace(op, after=tuple(place[j] for j in op.after))
        ops += [_reading(moved, again) if k >= turn else moved, *behind.get(k, [])]
    return replace(
        graph,
        name=f"{graph.name} compressed",
        tensors=tuple(tensors),
        ops=tuple(ops),
        provenance={**graph.provenance, "compress": {kind: factors[kind] for kind in sorted(factors)}},
        source=None,
    )


def _reading(op: Op, again: Mapping[int, int]) -> Op:
    """Return the op on other tensors."""
    modes = tuple(
        replace(mode, operands=tuple((again.get(t, t), tier) for t, tier in mode.operands))
        for mode in op.modes
    )
    return replace(
        op,
        reads=tuple(again.get(t, t) for t in op.reads),
        inplace=tuple((again.get(a, a), b) for a, b in op.inplace),
        modes=modes,
    )
