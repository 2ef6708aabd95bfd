"""A training step or an inference of a torch module, as the aten ops that it runs.

The step is a function of parameters, buffers, inputs and targets: ``torch.func.functional_call`` runs the
module, in training the loss follows, and ``torch.autograd.grad`` runs the backward pass for every parameter
that requires a gradient. ``torch.fx.experimental.proxy_tensor.make_fx`` with ``tracing_mode="fake"`` runs
that function on fake tensors (shapes and storages, no bytes) below autograd, and records each aten op with
the fake tensors that it returns, in the order of execution. No op computes anything, and none of it needs
the memory of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...models.errors import BackendUnavailable, UsageError


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


def trace_step(
    module: Any,
    inputs: Mapping[str, Any],
    targets: Mapping[str, Any],
    loss: Callable[..., Any] | None,
) -> Trace:
    """Return the trace of a training step, or of inference if there is no loss.

    Parameters
    ----------
    module
        A ``torch.nn.Module``; it is left in training mode or in evaluation mode.
    inputs
        Name -> tensor, the module's positional arguments in their order.
    targets
        Name -> tensor, what the loss reads beside the module's output.
    loss
        ``loss(output, *targets)`` returns a tensor of one element.
    """
    torch = require_torch("tracing")
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_leaves

    module.train(loss is not None)
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    trained = [name for name, value in parameters.items() if value.requires_grad and loss is not None]
    groups: tuple[Mapping[str, Any], ...] = (parameters, buffers, inputs, targets if loss else {})

    def step(*values: Any) -> list[Any]:
        rest = iter(values)
        weights, fixed, given, wanted = ({name: next(rest) for name in group} for group in groups)
        with torch.set_grad_enabled(loss is not None):
            output = torch.func.functional_call(module, {**weights, **fixed}, tuple(given.values()))
            if loss is None:
                return [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            value = loss(output, *wanted.values())
            leaves = [weights[name] for name in trained]
            return [value, *torch.autograd.grad(value, leaves, allow_unused=True)]

    flat = [value for group in groups for value in group.values()]
    traced = make_fx(step, tracing_mode="fake")(*flat)
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
