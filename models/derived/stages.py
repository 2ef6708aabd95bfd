"""Training iterations of a pipeline as graphs: stages and micro-batches, and back from such a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..checks import check_integer
from ..errors import InstanceError
from ..graph import Graph, Mode, Op, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage of a pipeline, the same for each micro-batch.

    Parameters
    ----------
    device
        Number of the device that runs it.
    forward, backward, weight
        Nanoseconds of F, of B (the gradient of the input) and of W (the gradient of the weights). With
        `weight` 0 there is no W: B does both.
    activation, kept
        Bytes on the device from the start of F, and how many of these until W ends; the others go when B
        ends. Without W none are kept.
    fixed
        Bytes on the device all the time: weights and their states, buffers of its ops.

    Raises
    ------
    InstanceError
        If a number is out of range.
    """

    device: int
    forward: int = 1
    backward: int = 1
    weight: int = 1
    activation: int = 1
    kept: int = 1
    fixed: int = 0

    def __post_init__(self) -> None:
        for key in ("device", "forward", "backward", "weight", "kept", "fixed"):
            check_integer(getattr(self, key), key in ("forward", "backward"), f"stage, {key}")
        check_integer(self.activation, self.kept, "stage, activation")
        if self.kept and not self.weight:
            raise InstanceError(f"stage, kept: found {self.kept} bytes without W, expected 0")


Key = tuple[str, int, int]
"""What an op is: "F", "B" or "W", of which stage, of which micro-batch."""


@dataclass(frozen=True)
class PipelineOps:
    """The stages in order, and how many micro-batches go through them."""

    stages: tuple[Stage, ...]
    micro: int

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """What each op is: micro-batch by micro-batch forward, then back with each W after its B."""
        keys: list[Key] = []
        for j in range(self.micro):
            keys += [("F", s, j) for s in range(len(self.stages))]
            for s in reversed(range(len(self.stages))):
                keys += [("B", s, j), *([("W", s, j)] if self.stages[s].weight else [])]
        return tuple(keys)

    @cached_property
    def op(self) -> dict[Key, int]:
        """The index of each op."""
        return {key: i for i, key in enumerate(self.keys)}

    @cached_property
    def device(self) -> tuple[int, ...]:
        """The device of each op."""
        return tuple(self.stages[s].device for _, s, _ in self.keys)

    @cached_property
    def durations(self) -> tuple[int, ...]:
        """Of each op, in ns."""
        times = [{"F": x.forward, "B": x.backward, "W": x.weight} for x in self.stages]
        return tuple(times[s][kind] for kind, s, _ in self.keys)

    @cached_property
    def fixed(self) -> tuple[int, ...]:
        """Bytes on each device all the time."""
        return tuple(sum(self.stages[s].fixed for s in chunk) for chunk in self.chunks)

    def change(self, i: int) -> int:
        """Return the bytes that op i brings to its device at its start or, below 0, takes away at its end."""
        kind, s, _ = self.keys[i]
        x = self.stages[s]
        return {"F": x.activation, "B": x.kept - x.activation, "W": -x.kept}[kind]

    @cached_property
    def devices(self) -> int:
        """How many there are."""
        return max(x.device for x in self.stages) + 1

    @cached_property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The stages of each device."""
        return tuple(
            tuple(s for s, x in enumerate(self.stages) if x.device == i) for i in range(self.devices)
        )


def device_name(device: int) -> str:
    """Return the kind of processor that runs the stages of a device."""
    return f"gpu{device}"


def pipeline_graph(stages: Sequence[Stage], micro: int, name: str = "pipeline") -> Graph:
    """Return the graph of a training iteration: the ops F, B and W of each stage and micro-batch.

    Stage s of micro-batch j has ops ``Fs.j``, ``Bs.j`` and ``Ws.j``, each of which runs on its device alone,
    and tensors: the activations until B, those until W, and what goes to the next stage and back, which have
    0 bytes. What a stage has on its device all the time is one initial tensor.

    Parameters
    ----------
    stages
        In the order in which a micro-batch goes through them.
    micro
        How many micro-batches.
    name
        Of the graph.

    Raises
    ------
    InstanceError
        If there is no stage or micro-batch, or a device without stages below the last one.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.pipeline_graph([lt.Stage(device=0, forward=12), lt.Stage(device=1)], 4)
    >>> graph.ops[0].name, len(graph.ops)
    ('F0.0', 24)
    """
    check_integer(micro, 1, "pipeline, micro")
    line = PipelineOps(tuple(stages), micro)
    used = {x.device for x in stages}
    if not used or max(used) >= len(used):
        raise InstanceError("pipeline, stages: found none, or a device without one, expected devices 0, 1, …")
    last = len(stages) - 1
    tensors: list[Tensor] = []
    number: dict[str, int] = {}
    for s, x in enumerate(stages):
        if x.fixed:
            number[f"fixed {s}"] = len(tensors)
            tensors.append(Tensor(name=f"fixed {s}", nbytes=x.fixed, kind="weight", initial=True, final=True))
    for j in range(micro):
        for s, x in enumerate(stages):
            sizes = [("until B", x.activation - x.kept)] + [("until W", x.kept)] * (x.weight > 0)
            sizes += [("output", 0)] * (s < last) + [("gradient", 0)] * (s > 0)
            for what, nbytes in sizes:
                kind = "gradient" if what == "gradient" else "activation"
                number[f"{what} {s}.{j}"] = len(tensors)
                tensors.append(Tensor(name=f"{what} {s}.{j}", nbytes=nbytes, kind=kind))
    ops = []
    for i, (kind, s, j) in enumerate(line.keys):
        reads, writes = {
            "F": ([f"output {s - 1}"], [f"until B {s}", f"until W {s}", f"output {s}"]),
            "B": ([f"until B {s}", f"gradient {s + 1}"], [f"gradient {s}"]),
            "W": ([f"until W {s}"], []),
        }[kind]
        ops.append(
            Op(
                name=f"{kind}{s}.{j}",
                kind=kind,
                reads=tuple(number[x] for x in (f"fixed {s}", *(f"{x}.{j}" for x in reads)) if x in number),
                writes=tuple(number[f"{x}.{j}"] for x in writes if f"{x}.{j}" in number),
                after=(line.op["B", s, j],) if kind == "W" else (),
                modes=(Mode(duration_ns=line.durations[i], processors=(device_name(stages[s].device),)),),
            )
        )
    return Graph(name=name, tensors=tuple(tensors), ops=tuple(ops))


def pipeline_of(graph: Graph) -> PipelineOps:
    """Return the stages and micro-batches that a graph of `pipeline_graph` was made of.

    Raises
    ------
    InstanceError
        If it is not such a graph.
    """
    where = f"pipeline, graph {graph.name!r}"
    expected = "expected ops F, B and W of stages and micro-batches, as lowtide.pipeline_graph makes them"
    op_of: dict[Key, Op] = {}
    for i, op in enumerate(graph.ops):
        named = re.fullmatch(r"([FBW])(\d{1,9})\.(\d{1,9})", op.name, re.ASCII)
        if named is None:
            raise InstanceError(f"{where}: found op {i} {op.name!r}, {expected}")
        op_of[named[1], int(named[2]), int(named[3])] = op
    count = 1 + max((s for _, s, _ in op_of), default=-1)
    micro = 1 + max((j for *_, j in op_of), default=-1)
    try:
        if 2 * count * micro > len(graph.ops):
            raise LookupError
        stages = [_stage(graph, op_of, s) for s in range(count)]
        if pipeline_graph(stages, micro) == graph:
            return PipelineOps(tuple(stages), micro)
    except (InstanceError, LookupError, ValueError):
        pass
    raise InstanceError(f"{where}: found {len(graph.ops)} ops of another graph, {expected}")


def _stage(graph: Graph, found: dict[Key, Op], s: int) -> Stage:
    """Return what micro-batch 0 says of a stage."""
    forward, backward, weight = (found.get((kind, s, 0)) for kind in "FBW")
    if forward is None or backward is None:
        raise LookupError
    (mode,), (back,) = forward.modes, backward.modes
    nbytes = [graph.tensors[t].nbytes for t in forward.writes]
    kept = nbytes[1] if weight is not None else 0
    return Stage(
        device=int(mode.processors[0].removeprefix("gpu")),
        forward=mode.duration_ns,
        backward=back.duration_ns,
        weight=0 if weight is None else weight.modes[0].duration_ns,
        activation=nbytes[0] + kept,
        kept=kept,
        fixed=sum(graph.tensors[t].nbytes for t in forward.reads if graph.tensors[t].initial),
    )
