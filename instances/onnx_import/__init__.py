"""ONNX models as computation graphs: inference, or training with a derived backward pass.

`load_onnx` reads a file, or one of the networks that ship inside the ``onnx`` package (`light_models`).
What the graph holds:

* inputs: ``initial`` tensors of kind input; outputs: ``final`` tensors of kind output;
* weights: ``initial`` and ``final`` tensors of kind weight; a value that depends on no input is a weight,
  however the model computes it. Without ``weights=True`` their bytes are dropped, as the literature does
  (the tensors stay, with no bytes, so that updates keep their order; provenance says how much);
* views (Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout in inference, …) share the storage of their
  operand and vanish, as do arguments (target shapes, axes, limits), scalar constants and dead nodes;
* durations from the roofline model of `lowtide.instances.transforms.roofline`; with ``conv="modes"``
  convolutions and their gradients have modes, by algorithm (`lowtide.instances.transforms.convolution`).

In training (``train=True``) Dropout writes its output and a mask, BatchNormalization uses the statistics of
the batch, saves them, and updates its running statistics in place; `derivatives` holds the table of what
each derivative reads, `backward` says how the backward pass is put together. The network's outputs then die
after the loss, which is what remains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.work import check_dtype
from ..durations import at_peak_rates
from .backward import BackwardPass, differentiable_storages
from .dependence import check_order
from .dimensions import Sized, size_model
from .element_types import STORED
from .forward import Draft, ForwardPass
from .network import Network, build_network, stored_as
from .reading import find_model, light_models, read_model, require_onnx

__all__ = ["light_models", "load_onnx"]


def load_onnx(
    path_or_name: str | Path,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    train: bool = False,
    weights: bool = False,
    conv: str = "",
    branch: str = "",
    bodies: str = "least",
    dtype: str = "",
    shapes: Mapping[str, Sequence[int | None]] | None = None,
) -> Graph:
    """Return the computation graph of an ONNX model.

    Parameters
    ----------
    path_or_name
        A file, or the name of a light model such as ``resnet50``.
    batch
        Leading dimension of the inputs; None keeps the model's.
    dims
        Sizes of symbolic dimensions by name; each can also be called ``<input>_<axis>``.
    train
        Derive forward, backward and weight updates.
    weights
        Keep the bytes of the weights.
    conv
        ``"modes"``: a mode for each algorithm of a convolution.
    branch
        ``"then"`` or ``"else"``: each If whose condition is not known gives way to that branch.
    bodies
        ``"least"``: the bodies of control flow take the least peak of all their orders; ``"file"``: the peak
        of the order in the file.
    dtype
        Data type of floating-point values and of arithmetic, one of `lowtide.models.work.DTYPES`; without it,
        the model's types and fp32. Integers, truth values, masks, the loss, statistics that training saves in
        32 bits, and workspaces of algorithms keep their sizes.
    shapes
        Shapes of values by name, for what the model leaves open; None is a size that follows from it.

    Raises
    ------
    InstanceError
        If the model is missing, corrupt or unknown, a size is missing or a shape cannot be inferred, or,
        for training, an operator's derivative is not known.
    BackendUnavailable
        If the package onnx is not installed.

    Examples
    --------
    >>> from lowtide.instances.onnx_import import load_onnx
    >>> load_onnx("squeezenet", batch=32)
    Graph('squeezenet?batch=32', 65 ops, 118 tensors)
    """
    name, path = find_model(path_or_name)
    where = str(path) if Path(path_or_name) == path else f"onnx:{name}"
    model = read_model(path)
    check_order(model.graph, where)
    by_hand = {value: tuple(shape) for value, shape in (shapes or {}).items()}
    sized = size_model(model, where, batch, dims or {}, branch, by_hand)
    network = build_network(sized, where, train=train, branch=branch)
    if dtype:
        check_dtype(dtype, f"{where}, option dtype")
        network = stored_as(network, STORED[dtype])
    if train:
        _refuse_endless_loops(network, where)
    wanted = differentiable_storages(network, where) if train else set()
    draft = Draft(algorithms=conv == "modes", reorder=bodies == "least", dtype=dtype or "fp32")
    forward = ForwardPass(network, draft, train=train)
    if train:
        BackwardPass(forward, wanted)
    options = {"train": int(train), "batch": batch, **(dims or {}), "conv": conv, "branch": branch}
    query = "&".join(f"{key}={value}" for key, value in {**options, "dtype": dtype}.items() if value)
    graph = Graph(
        name=name + f"?{query}" * bool(query),
        tensors=tuple(draft.tensors),
        ops=tuple(draft.ops),
        provenance={
            **_provenance(where, sized, network, dims or {}, train=train),
            **({"conv": conv} if conv else {}),
            **({"branch": branch} if branch else {}),
            **({"dtype": dtype} if dtype else {}),
            **({"shapes": {value: list(shape) for value, shape in by_hand.items()}} if by_hand else {}),
            **_control_flow(network, bodies),
        },
    )
    graph = at_peak_rates(graph) if dtype else graph
    return graph if weights else graph.drop({"weight"})


def _refuse_endless_loops(network: Network, where: str) -> None:
    """Raise InstanceError if a loop does not say how often its body runs: then nobody knows what it saves."""
    for node in network.nodes:
        if node.op_type == "Loop" and (node.operands[0] or not node.inputs[0]):
            raise InstanceError(
                f"{where}: node {node.name!r}: found operator Loop without a constant number of iterations, "
                "expected one for training; unroll it or state the number in the model"
            )
        for body in node.bodies:
            _refuse_endless_loops(body.network, where)


def _control_flow(network: Network, bodies: str) -> dict[str, Any]:
    """Return what the provenance says of bodies: the ops that have some, and what their workspace is."""
    names = [node.name for node in network.nodes if node.bodies]
    return {"control_flow": {"ops": names, "workspace": f"{bodies} peak of the bodies"}} if names else {}


def _provenance(
    where: str, sized: Sized, network: Network, dims: Mapping[str, int], *, train: bool
) -> dict[str, Any]:
    model = sized.model
    return {
        "source": where,
        "importer": f"onnx {require_onnx().__version__}",
        "opset": {opset.domain or "ai.onnx": opset.version for opset in model.opset_import},
        "batch": sized.batch,
        "dims": dict(dims),
        "train": train,
        "durations": "roofline",
        "views_folded": network.views,
        "dead_nodes": network.dead,
        "target_shapes_rewritten": sized.rewritten,
        "values_not_scaled_with_batch": sized.unscaled,
    }
