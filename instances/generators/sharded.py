"""A training iteration on one of several devices that share the states of a transformer, as ZeRO and FSDP do.

Each layer is a unit of 12 h^2 parameters of 2 bytes each, with 2 of its gradient and 12 of Adam's states for
each; every device has a micro-batch of its own. All devices do the same, so one is enough: ops of kind
``gpu``, and collective operations of kind ``link`` that take the time of a ring. Gradients, or a device's
part of them, have buffers throughout, as in DeepSpeed.

=====  ===============  ==============================================================================
stage  sharded          a layer
=====  ===============  ==============================================================================
0      nothing          its gradient is written and added up in place over all devices; Adam
1      Adam's states    each device adds up its part of the gradient in place, updates its part of the
                        parameters, and gathers the others
2      gradients too    the sum goes to the buffer of the part, and the gradient itself dies
3      parameters too   they are gathered before the forward and before the backward op, and die with it
=====  ===============  ==============================================================================

In the order of the graph every collective operation stands where it is needed or made; with `prefetch` (stage
3) the next unit is gathered before the op that uses this one, so that both can run at a time. With `limiter`
that is a rule, as in FSDP: a unit is gathered only when the op before the last one (without prefetch: the
last one) has ended, and Adam begins when all gradients are summed.

Source: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020;
Zhao et al., "PyTorch FSDP: experiences on scaling fully sharded data parallel", VLDB 2023, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from ...models.graph import Graph
from ...models.graph_builder import GraphBuilder
from ...models.op import Mode
from ...models.units import SECOND

FLOPS, RATE, MEMORY_RATE = 10**13, 10**10, 5 * 10**11
"""Operations per second of a device; bytes per second of its links each way, and of its memory."""

COLLECTIVE = ("gather", "reduce")
"""Kinds of ops that run on the links."""

PARAMETER, GRADIENT, ADAM = 2, 2, 12
"""Bytes for each parameter: itself and its gradient in 16 bits, Adam's copy and two moments in 32."""


def sharded(
    *,
    layers: int,
    hidden: int,
    tokens: int,
    devices: int,
    stage: int,
    prefetch: bool,
    limiter: bool,
    stash: int,
) -> Graph:
    """Return the iteration.

    Parameters
    ----------
    layers, hidden, tokens
        Of the transformer; tokens of the micro-batch of each device.
    devices, stage
        How many share the states, and which of them (0 to 3).
    prefetch
        Whether the next unit is gathered before the op that uses this one.
    limiter
        Whether collective operations and Adam keep to FSDP's rules; otherwise to what the tensors say.
    stash
        Bytes for each token and hidden number that a layer keeps for its backward op, besides 2 of its input;
        32 is what Korthikanti et al. (MLSys 2023) count without attention's scores. 0: what goes from layer
        to layer has no bytes either.
    """
    count, net = 12 * hidden**2, GraphBuilder()
    part = -(-count // devices)
    width, saved = (2 if stash else 0) * tokens * hidden, stash * tokens * hidden
    forward_ns = ceil(2 * count * tokens * SECOND / FLOPS)
    adam_ns = ceil((part if stage else count) * 28 * SECOND / MEMORY_RATE)  # 14 bytes are read and written
    # Every device sends each part of the others on once.
    ring_ns = ceil(2 * part * (devices - 1) * SECOND / RATE)

    def states(name: str, each: int, kind: str, shared_from: int) -> list[str]:
        nbytes = each * (part if stage >= shared_from else count)
        return [net.tensor(f"{name}{j}", nbytes, kind=kind, initial=True, final=True) for j in range(layers)]

    def op(
        name: str, kind: str, reads: list[str], writes: list[str], time: int, after: Iterable[str] = ()
    ) -> None:
        on = "link" if kind in COLLECTIVE else "gpu"
        mode = Mode(duration_ns=max(1, time), processors=(on,))
        net.op(name, kind=kind, reads=reads, writes=writes, modes=(mode,), after=after if limiter else ())

    parameters = states("p", PARAMETER, "weight", 3)
    gradients = states("g", GRADIENT, "gradient", 2)
    adam = states("o", ADAM, "state", 1)
    inputs = [net.tensor("x0", width, kind="input")]
    above = ""
    uses = [*(("f", j) for j in range(layers)), *(("b", j) for j in reversed(range(layers)))]
    for k, (which, j) in enumerate(uses):
        full = parameters[j]
        if stage == 3:
            full = f"{which}{j}.p"
            for n in range(k + prefetch * (k > 0), min(k + 1 + prefetch, len(uses))):
                other, i = uses[n]
                gathered = net.tensor(f"{other}{i}.p", PARAMETER * count)
                done = [f"{w}{m}" for w, m in uses[: n - prefetch][-1:] if n > prefetch]
                op(f"gather.{other}{i}", "gather", [parameters[i]], [gathered], ring_ns, done)
        if which == "f":
            inputs.append(net.tensor(f"x{j + 1}", width))
            kept = net.tensor(f"s{j}", saved)
            op(f"f{j}", "forward", [full, inputs[j]], [inputs[j + 1], kept], forward_ns)
            continue
        gradient = net.tensor(f"{which}{j}.g", GRADIENT * count) if stage >= 2 else gradients[j]
        reads = [full, inputs[j], f"s{j}", above or inputs[-1]]
        writes = [gradient]
        if j:
            above = net.tensor(f"d{j}", width, kind="gradient")
            writes.append(above)
        op(f"b{j}", "backward", reads, writes, 2 * forward_ns)
        rounds = 1 if stage else 2  # all devices get all of the sum: a round more
        op(f"reduce{j}", "reduce", [gradient], [gradients[j]], rounds * ring_ns)
    for j in range(layers):
        own, summed = [adam[j], parameters[j]], [f"reduce{i}" for i in range(layers)]
        op(f"adam{j}", "adam", [gradients[j], *own], own, adam_ns, summed)
        if stage in (1, 2):
            op(f"gather{j}", "gather", [parameters[j]], [parameters[j]], ring_ns)
    return net.build()
