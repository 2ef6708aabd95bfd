"""A step of a torch module as a graph, with everything that it takes to compute the step op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph
from .lowering import Lowered, lower
from .tracing import Trace, require_torch, trace_step
from .updates import STATES


@dataclass(frozen=True)
class Step:
    """A recorded step.

    Attributes
    ----------
    graph
        Its tensors and ops.
    trace
        The operators that torch runs, and what was given to them.
    lowered
        Which of them each op runs, and which tensor each storage became.
    optimizer
        What updates the parameters; None in inference.
    module, inputs, targets, loss
        What was recorded.
    device
        Where it is computed: ``cpu`` or ``cuda``.
    """

    graph: Graph
    trace: Trace
    lowered: Lowered
    optimizer: str | None
    module: Any
    inputs: Mapping[str, Any]
    targets: Mapping[str, Any]
    loss: Callable[..., Any] | None
    device: str = "cpu"

    def with_weights_on_host(self) -> Step:
        """Return the step with the initial weights in the host's memory, and the module there too.

        So they are on the device only where a plan, or torch's own step, has them there.
        """
        self.module.cpu()
        content = {
            node: value.detach().cpu() if self.trace.initial[node][1] == "weight" else value
            for node, value in self.trace.content.items()
        }
        return replace(self, trace=replace(self.trace, content=content))


def record(
    module: Any,
    inputs: Mapping[str, Any],
    targets: Mapping[str, Any] | None = None,
    loss: Callable[..., Any] | None = None,
    *,
    optimizer: str = "sgd",
    name: str = "traced",
    provenance: Mapping[str, Any] | None = None,
) -> Step:
    """Return a step of a module; arguments and errors are those of `lowtide.instances.torch_import.trace`."""
    version = require_torch(name).__version__
    if optimizer not in STATES:
        raise InstanceError(f"{name}, optimizer: found {optimizer!r}, expected {' or '.join(STATES)}")
    if loss is not None and not any(p.requires_grad for p in module.parameters()):
        raise InstanceError(f"{name}: found no parameter that gets a gradient, expected one for training")
    trace = trace_step(module, inputs, targets or {}, loss)
    lowered = lower(trace, optimizer)
    graph = Graph(
        name=name,
        tensors=lowered.tensors,
        ops=lowered.ops,
        provenance={
            **(provenance or {}),
            "importer": f"torch {version}",
            "train": loss is not None,
            **({"optimizer": optimizer} if loss is not None else {}),
            "durations": "roofline",
            "views_folded": lowered.views_folded,
            "sums_folded": lowered.sums_folded,
            "dead_ops": lowered.dead_ops,
        },
    )
    trained = optimizer if loss is not None else None
    device = str(next(iter(trace.content.values())).device.type)
    return Step(graph, trace, lowered, trained, module, inputs, targets or {}, loss, device)
