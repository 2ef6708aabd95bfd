"""A step of a torch module as a graph, with everything that it takes to compute the step op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...models.errors import InstanceError
from ...models.graph import Graph
from ..durations import at_peak_rates
from .calls import Call, call_of
from .errors import one_line_errors
from .lowering import Lowered, lower
from .tracing import AUTOCAST, Trace, autocasting, in_mode, module_of, require_torch, trace_step
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
    module, inputs, targets, loss, autocast
        What was recorded.
    device
        Where it is computed: ``cpu`` or ``cuda``.
    """

    graph: Graph
    trace: Trace = field(repr=False)
    lowered: Lowered = field(repr=False)
    optimizer: str | None
    module: Any = field(repr=False)
    inputs: Call = field(repr=False)
    targets: Call = field(repr=False)
    loss: Callable[..., Any] | None = field(repr=False)
    device: str = "cpu"
    autocast: str | None = None

    def loss_of(self, module: Any) -> Any:
        """Return the loss of a module like the recorded one, computed by torch."""
        assert self.loss is not None
        with autocasting(self.autocast, self.device):
            return self.targets.of(self.loss, self.inputs.of(module))

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
    inputs: Any = None,
    targets: Any = None,
    loss: Callable[..., Any] | None = None,
    *,
    optimizer: str = "sgd",
    autocast: str | None = None,
    name: str | None = None,
    provenance: Mapping[str, Any] | None = None,
    arithmetic: str = "fp32",
) -> Step:
    """Return a step of a module; arguments and errors are those of `lowtide.instances.torch_import.trace`.

    Parameters
    ----------
    arithmetic
        Data type in which a device computes with values of 32 bits: ``fp32`` or ``tf32``.
    """
    where = f"trace of {name or type(module).__name__}"
    version = require_torch(where).__version__
    if optimizer not in STATES:
        raise InstanceError(f"{where}, optimizer: found {optimizer!r}, expected {' or '.join(STATES)}")
    if autocast not in (None, *AUTOCAST):
        raise InstanceError(f"{where}, autocast: found {autocast!r}, expected {' or '.join(AUTOCAST)}")
    if loss is not None and not callable(loss):
        raise InstanceError(f"{where}, loss: found {type(loss).__name__}, expected a function of the output")
    with one_line_errors(where):
        module, own = module_of(module, where)
        call = (
            call_of(inputs, module.forward, f"{where}, inputs") if inputs is not None or own is None else own
        )
        wanted = Call() if loss is None else call_of(targets, loss, f"{where}, targets", behind=1)
        if loss is not None and not any(p.requires_grad for p in module.parameters()):
            raise InstanceError(
                f"{where}: found no parameter that gets a gradient, expected one for training"
            )
        with in_mode(module, loss is not None):
            trace = trace_step(module, call, wanted, loss, autocast, where)
        lowered = lower(trace, optimizer, arithmetic)
    graph = Graph(
        name=name or module._get_name(),
        tensors=lowered.tensors,
        ops=lowered.ops,
        provenance={
            **(provenance or {}),
            "importer": f"torch {version}",
            "train": loss is not None,
            **({"optimizer": optimizer} if loss is not None else {}),
            **({"autocast": autocast} if autocast else {}),
            "durations": "roofline",
            "views_folded": lowered.views_folded,
            "sums_folded": lowered.sums_folded,
            "dead_ops": lowered.dead_ops,
        },
    )
    if any(part.dtype != "fp32" for op in graph.ops for part in op.work):
        graph = at_peak_rates(graph)
    return Step(
        graph=graph,
        trace=trace,
        lowered=lowered,
        optimizer=None if loss is None else optimizer,
        module=module,
        inputs=call,
        targets=wanted,
        loss=loss,
        device=str(next(iter(trace.content.values())).device.type) if trace.content else "cpu",
        autocast=autocast,
    )
