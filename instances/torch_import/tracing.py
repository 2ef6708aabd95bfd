"""A training step or an inference of a torch module, as the aten ops that it runs.

The step is a function of parameters, buffers, inputs and targets: ``torch.func.functional_call`` runs the
module, in training the loss follows, and ``torch.autograd.grad`` runs the backward pass for every parameter
that requires a gradient; what a checkpoint computes again, it computes in there.
``torch.fx.experimental.proxy_tensor.make_fx`` with ``tracing_mode="fake"`` runs that function on fake tensors
(shapes and storages, no bytes) below autograd, and records each aten op with the fake tensors that it
returns, in the order of execution. No op computes anything, and none of it needs the memory of the network.
So the module may be on the device ``meta``; it is traced as if it were on the CPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from ...models.errors import BackendUnavailable, InstanceError, UsageError
from .calls import Call

AUTOCAST = {"bf16": "bfloat16", "fp16": "float16"}
"""Data types that ``torch.autocast`` computes in -> their names in torch."""


@dataclass(frozen=True)
class Trace:
    """The recorded ops of one step.

    Parameters
    ----------
    nodes
        ``torch.fx.Node`` of every op, in the order of execution.
    initial
        Node of everything that exists before the first op -> its name and kind of tensor.
    outputs
        Nodes that inference returns; in training the loss.
    gradients
        Parameter -> node of its gradient; empty in inference.
    content
        Node of everything that exists before the first op -> the tensor that was given for it.
    """

    nodes: tuple[Any, ...]
    initial: dict[Any, tuple[str, str]]
    outputs: tuple[Any, ...]
    gradients: dict[str, Any]
    content: dict[Any, Any]


def require_torch(where: str) -> Any:
    """Return the package torch.

    Raises
    ------
    BackendUnavailable
        If it is not installed.
    """
    try:
        import torch
    except ImportError:
        raise BackendUnavailable(
            f"{where}: the package torch is not installed; pip install 'lowtide[torch]'"
        ) from None
    return torch


def require_device(device: str, where: str) -> None:
    """Raise if torch is not installed (`BackendUnavailable`), or sees no such device (`UsageError`)."""
    torch = require_torch(where)
    if device == "cuda" and not torch.cuda.is_available():
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
        raise UsageError(
            f"--device: found cuda, but torch sees no CUDA device (torch {torch.__version__}, built for "
            f"{built}); expected a GPU with its driver and a torch built for it, or --device cpu"
        )


def module_of(given: Any, where: str) -> tuple[Any, Call | None]:
    """Return a module, and the inputs that are stated in it, if some are.

    Parameters
    ----------
    given
        A ``torch.nn.Module`` (compiled or not), a ``torch.fx.GraphModule`` or a
        ``torch.export.ExportedProgram``.

    Raises
    ------
    InstanceError
        If it is something else.
    """
    torch = require_torch(where)
    if isinstance(given, torch.export.ExportedProgram):
        module = given.module()
        if given.example_inputs is None:
            return module, None
        positional, keywords = given.example_inputs
        names = inspect.signature(module.forward).parameters
        return module, Call({**dict(zip(names, positional, strict=False)), **keywords}, frozenset(keywords))
    module = getattr(given, "_orig_mod", given)  # of torch.compile
    if not isinstance(module, torch.nn.Module):
        raise InstanceError(
            f"{where}: found {type(given).__name__}, expected a torch.nn.Module, a torch.fx.GraphModule or a "
            "torch.export.ExportedProgram"
        )
    if isinstance(module, torch.fx.GraphModule):
        nodes = module.graph.find_nodes(op="placeholder")
        if all("val" in node.meta for node in nodes):
            return module, Call({str(node.target): node.meta["val"] for node in nodes})
    return module, None


@contextmanager
def in_mode(module: Any, train: bool) -> Iterator[None]:
    """Put a module into training or evaluation mode meanwhile; an exported one stays as it was exported."""
    before = [(part, part.training) for part in module.modules()]
    exported = any("train" in vars(part) for part, _ in before)  # `torch.export` replaces the method there
    if not exported:
        module.train(train)
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def autocasting(autocast: str | None, device: str) -> AbstractContextManager[Any]:
    """Return a context in which torch computes in a data type of `AUTOCAST`, where it would of itself."""
    if autocast is None:
        return nullcontext()
    import torch

    kind = "cpu" if device == "meta" else device
    return torch.autocast(kind, getattr(torch, AUTOCAST[autocast]))  # type: ignore[no-any-return]


def trace_step(
    module: Any,
    inputs: Call,
    targets: Call,
    loss: Callable[..., Any] | None,
    autocast: str | None,
    where: str,
) -> Trace:
    """Return the trace of a training step, or of inference if there is no loss.

    Parameters
    ----------
    module
        A ``torch.nn.Module``, in the mode in which it is traced.
    inputs
        Of the module.
    targets
        What the loss reads beside the module's output.
    loss
        ``loss(output, *targets)`` returns a tensor of one element.
    autocast
        Data type of `AUTOCAST` in which forward pass and loss compute where torch casts; None: no casts.
    where
        What messages call the step.
    """
    torch = require_torch("tracing")
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_leaves

    from .fakes import fakes_of

    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    trained = [name for name, value in parameters.items() if value.requires_grad and loss is not None]
    groups = (parameters, buffers, inputs.tensors(), targets.tensors() if loss else {})
    flat = [value for group in groups for value in group.values()]
    device = str(flat[0].device.type) if flat else "cpu"

    def forward(given: Call, wanted: Call, leaves: list[Any]) -> list[Any]:
        with torch.set_grad_enabled(loss is not None):
            with autocasting(autocast, device):
                output = given.of(module)
                value = None if loss is None else wanted.of(loss, output)
            if value is None:
                return [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            _check_loss(value, where)
            return [value, *torch.autograd.grad(value, leaves, allow_unused=True)]

    whole = torch.nn.Module()  # so that the weights are in their place in the backward pass, too
    whole.module, whole.forward = module, forward

    def step(*values: Any) -> list[Any]:
        rest = iter(values)
        weights = {name: next(rest) for name in (*parameters, *buffers)}
        given = inputs.with_tensors(next(rest) for _ in groups[2])
        wanted = targets.with_tensors(next(rest) for _ in groups[3]) if loss else targets
        placed = {f"module.{name}": value for name, value in weights.items()}
        leaves = [weights[name] for name in trained]
        results: list[Any] = torch.func.functional_call(whole, placed, (given, wanted, leaves))
        return results

    traced = make_fx(step, tracing_mode="fake")(*fakes_of(flat, len(parameters) + len(buffers)))
    graph = traced.graph
    labels = [
        (name, kind)
        for group, kind in zip(groups, ("weight", "weight", "input", "input"), strict=True)
        for name in group
    ]
    placeholders = graph.find_nodes(op="placeholder")
    constants = {node: (str(node.target), "other") for node in graph.find_nodes(op="get_attr")}
    (end,) = graph.find_nodes(op="output")
    results = end.args[0]
    if not results:
        raise InstanceError(f"{where}, output: found no tensor, expected some in tuples, lists or mappings")
    returned = 1 if loss else len(results)
    return Trace(
        nodes=tuple(node for node in graph.nodes if node.op == "call_function"),
        initial={**dict(zip(placeholders, labels, strict=True)), **constants},
        outputs=tuple(results[:returned]),
        gradients={
            name: node for name, node in zip(trained, results[returned:], strict=loss is not None) if node
        },
        content={
            **dict(zip(placeholders, flat, strict=True)),
            **{node: getattr(traced, str(node.target)) for node in constants},
        },
    )


def _check_loss(value: Any, where: str) -> None:
    import torch

    shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
    if shape is None or value.numel() != 1:
        what = type(value).__name__ if shape is None else f"a tensor of shape {shape}"
        raise InstanceError(
            f"{where}, loss: found {what}, expected a tensor of one element, such as a mean or a sum"
        )
    if not value.requires_grad:
        raise InstanceError(f"{where}, loss: found one that depends on no parameter, expected some gradient")
