"""Graphs of real networks, traced with torch: inference, or a training step with its optimizer.

`load_torch` builds one of the networks of `architectures` on fake tensors and traces it; `trace` does the
same for any ``torch.nn.Module``. What the graph holds:

* inputs and targets: ``initial`` tensors of kind input; what inference returns: ``final`` of kind output; in
  training the loss is what remains;
* parameters and buffers: ``initial`` and ``final`` tensors of kind weight; optimizer states likewise, of kind
  state. `load_torch` drops the bytes of both unless asked for ``weights=1``;
* one op for each aten operator that torch runs on a CPU, forward and backward, in the order of execution;
  views are folded into their storages, additions of gradients in a row into one n-ary op, and every gradient
  of a parameter is consumed by an update as soon as it is there (`lowering` has the rules);
* durations from the roofline model of `lowtide.instances.transforms.roofline` (`work` counts bytes and
  arithmetic).

Torch is an optional extra and slow to import: nothing here imports it before a network is traced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...models.checks import check_integer
from ...models.errors import InstanceError
from ...models.graph import Graph
from ...models.machine import Machine
from ..durations import with_durations
from ..formats.strict_json import nearest
from ..machines import load_machine
from ..options import Parameter, Value, typed_options
from .architectures import ARCHITECTURES, BATCH
from .tracing import AUTOCAST
from .updates import STATES

if TYPE_CHECKING:
    from .architectures.example import Example
    from .recording import Step

__all__ = ["ARCHITECTURES", "load_torch", "parameters_of", "record_torch", "trace"]

_COMMON = {
    "batch": BATCH,
    "train": Parameter(False, "a training step: forward, backward and updates"),
    "optimizer": Parameter("sgd", "what updates the parameters in training", choices=tuple(STATES)),
    "weights": Parameter(False, "keep the bytes of weights and optimizer states"),
    "dtype": Parameter(
        "fp32", "data type of values and arithmetic", choices=("fp32", "tf32", "bf16", "fp16")
    ),
    "autocast": Parameter("none", "data type that torch.autocast computes in", choices=("none", *AUTOCAST)),
}


def parameters_of(name: str) -> dict[str, Parameter]:
    """Return the options of a network by name."""
    return {**ARCHITECTURES[name].parameters, **_COMMON}


def load_torch(name: str, **options: object) -> Graph:
    """Return the graph of one of the networks of `ARCHITECTURES`.

    Parameters
    ----------
    **options
        Those of `parameters_of`, as text or typed.

    Raises
    ------
    InstanceError
        If the name or an option is unknown, or the network cannot have a size that an option asks for.
    BackendUnavailable
        If torch is not installed.
    """
    values, where = checked_options(name, options)
    from .tracing import require_torch

    require_torch(where)
    from .fakes import FakeMode

    with FakeMode():
        example = _built(name, values, where)
    graph = _recorded(name, values, where, example).graph
    return graph if values["weights"] else graph.drop({"weight", "state"})


def record_torch(name: str, *, seed: int = 0, device: str = "cpu", **options: object) -> Step:
    """Return a network of `ARCHITECTURES` with everything that it takes to compute its step op by op.

    Weights are initialized, and inputs that are no indices drawn, from the seed; indices are 0.

    Parameters
    ----------
    device
        Where its tensors are, as torch calls it; if not the CPU, the initial weights wait in its memory.
    **options
        As of `load_torch`; the graph has the bytes of weights and states in any case.

    Raises
    ------
    InstanceError
        As `load_torch`, or if the seed is negative.
    BackendUnavailable
        If torch is not installed.
    """
    values, where = checked_options(name, options)
    check_integer(seed, 0, f"instance {where!r}, seed")
    from .tracing import require_torch

    torch = require_torch(where)
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        example = _built(name, values, where)
    for tensor in example.inputs.values():
        if tensor.is_floating_point():
            tensor.normal_(generator=torch.Generator(device).manual_seed(seed))
    step = _recorded(name, values, where, example)
    return step if step.device == "cpu" else step.with_weights_on_host()


def checked_options(name: str, options: Mapping[str, object]) -> tuple[dict[str, Value], str]:
    """Return all options of a network, and what messages call it; errors are those of `load_torch`."""
    given = "&".join(f"{key}={value}" for key, value in options.items())
    where = f"torch:{name}" + (f"?{given}" if given else "")
    if name not in ARCHITECTURES:
        raise InstanceError(
            f"instance {where!r}: found unknown network {name!r}, {nearest(name, ARCHITECTURES)}"
        )
    values = typed_options(options, parameters_of(name), where)
    if values["optimizer"] != _COMMON["optimizer"].default and not values["train"]:
        raise InstanceError(
            f"instance {where!r}, option optimizer: found {values['optimizer']}, expected train=1 beside it"
        )
    return values, where


def _built(name: str, values: Mapping[str, Value], where: str) -> Example:
    """Return a network and its data, where torch puts tensors now."""
    import torch

    sizes = {key: value for key, value in values.items() if key in ARCHITECTURES[name].parameters}
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, AUTOCAST.get(str(values["dtype"]), "float32")))
    try:
        return ARCHITECTURES[name].build({**sizes, "batch": values["batch"]})
    except InstanceError as error:
        raise InstanceError(f"instance {where!r}, {error}") from None
    finally:
        torch.set_default_dtype(before)


def _recorded(name: str, values: Mapping[str, Value], where: str, example: Example) -> Step:
    from .recording import record

    return record(
        example.module,
        example.inputs,
        example.targets,
        example.loss if values["train"] else None,
        optimizer=str(values["optimizer"]),
        autocast=None if values["autocast"] == "none" else str(values["autocast"]),
        name=_label(name, values),
        provenance={"source": where},
        arithmetic="tf32" if values["dtype"] == "tf32" else "fp32",
    )


def trace(
    module: Any,
    inputs: Any = None,
    targets: Any = None,
    loss: Callable[..., Any] | None = None,
    *,
    optimizer: str = "sgd",
    autocast: str | None = None,
    durations: str | os.PathLike[str] | Machine | None = None,
    name: str | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Graph:
    """Return the graph of a training step of a torch module, or of inference if there is no loss.

    The ops are those that torch runs on a CPU; casts, and what ``torch.utils.checkpoint`` computes again, are
    ops as all others. Nothing is computed, and nothing in the module changes.

    Parameters
    ----------
    module
        A ``torch.nn.Module``, also on the device ``meta``, a ``torch.fx.GraphModule`` or a
        ``torch.export.ExportedProgram``. With a loss it is traced in training mode, else in evaluation mode;
        an exported program as it was exported. Its computation may not depend on the content of tensors.
    inputs
        What the module is called with: a tensor, a tuple of arguments, or a mapping from the names of its
        arguments. Only shapes and data types matter. None: those that an exported program or the nodes of a
        graph state.
    targets
        What the loss is called with beside the module's output, likewise.
    loss
        ``loss(output, *targets)`` returns a tensor of one element.
    optimizer
        What updates the parameters: ``sgd``, ``momentum`` or ``adamw``.
    autocast
        ``bf16`` or ``fp16``: forward pass and loss run under ``torch.autocast`` of that type.
    durations
        Machine with rates, or its name or file: ops take as long as on its device. None: as on an A100 at
        its peak rates.
    name
        Of the graph; None: that of the module's class.
    provenance
        Where the module comes from (JSON values).

    Returns
    -------
    Graph
        Parameters, buffers and states of the optimizer have the kinds ``weight`` and ``state``:
        ``graph.drop({"weight", "state"})`` leaves out their bytes.

    Raises
    ------
    InstanceError
        If torch cannot trace the module with these inputs, or an argument is not what it must be; one line
        says what torch found, and what to do.
    BackendUnavailable
        If torch is not installed.

    Examples
    --------
    >>> import torch
    >>> import lowtide as lt
    >>> module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> lt.trace(module, torch.zeros(16, 4))
    Graph('Sequential', 3 ops, 8 tensors)
    >>> labels = torch.zeros(16, dtype=torch.int64)
    >>> step = lt.trace(module, torch.zeros(16, 4), labels, torch.nn.functional.cross_entropy)
    >>> lt.solve(lt.Peak(step)).status
    <Status.OPTIMAL: 'optimal'>
    """
    from .recording import record

    graph = record(
        module,
        inputs,
        targets,
        loss,
        optimizer=optimizer,
        autocast=autocast,
        name=name,
        provenance=provenance,
    ).graph
    if durations is None:
        return graph
    return with_durations(graph, durations if isinstance(durations, Machine) else load_machine(durations))


def _label(name: str, values: Mapping[str, Value]) -> str:
    """Return the name of the graph: the options that are not at their default."""
    parts = [name]
    for key, parameter in parameters_of(name).items():
        value = values[key]
        if value != parameter.default:
            plain = isinstance(value, str) and key != "autocast"
            parts.append(str(value) if plain else key if value is True else f"{key}{value}")
    return "-".join(parts)
