"""Layers of a training step in a row, what each may keep or run again, stages of them, a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..graph import Graph
from ..graph_builder import GraphBuilder
from ..split import Split
from .stages import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a layer keeps of a micro-batch for its backward pass, and what that takes.

    Parameters
    ----------
    name
        ``keep``, ``selective`` or ``full``, as `lowtide.models.derived.training_layers` makes them.
    backward, weight
        Nanoseconds of B and W; B has what runs again in it, and with it W, too.
    activation, kept
        Bytes from the start of F, with the layer's input; how many of them until W ends.
    buffer
        Bytes that F, B and W need besides while they run.
    """

    name: str
    backward: int
    weight: int
    activation: int
    kept: int
    buffer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer: the ns of its F, the bytes of its weights with their states, of its input, and its ways.

    The first way keeps everything. `again` is the time of the ops that make anew what it keeps, and `stash`
    the bytes of that, without its input.
    """

    name: str
    forward: int
    states: int
    input: int
    again: int
    stash: int
    ways: tuple[Retention, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The question: layers on `devices` of `memory` bytes each (None: no limit), `micro` micro-batches."""

    layers: tuple[Layer, ...]
    devices: int
    micro: int
    memory: int | None
    latency_ns: int


Choice = tuple[int, ...] | None
"""Of a stage: the number of each layer's way; None: it keeps its input alone and runs again in one go."""


def stage_of(layers: Sequence[Layer], choice: Choice, device: int) -> Stage:
    """Return the stage that such layers are.

    Its times and activations are the sums of its layers', its fixed bytes all their states and the largest
    buffer, as a device runs one op of one layer at a time. One that runs again in one go (GPipe) makes its
    layers' stashes and the inputs between them anew, in its buffer: all F, but of the last layer only what
    its stash needs.
    """
    forward, states = sum(x.forward for x in layers), sum(x.states for x in layers)
    if choice is None:
        first = [x.ways[0] for x in layers]
        again = sum(x.stash for x in layers) + sum(x.input for x in layers[1:])
        remade = sum(x.forward for x in layers[:-1]) + layers[-1].again
        return Stage(
            device=device,
            forward=forward,
            backward=sum(x.backward + x.weight for x in first) + remade,
            weight=0,
            activation=layers[0].input,
            kept=0,
            fixed=states + again + max(x.buffer for x in first),
        )
    ways = [x.ways[k] for x, k in zip(layers, choice, strict=True)]
    return Stage(
        device=device,
        forward=forward,
        backward=sum(x.backward for x in ways),
        weight=sum(x.weight for x in ways),
        activation=sum(x.activation for x in ways),
        kept=sum(x.kept for x in ways),
        fixed=states + max(x.buffer for x in ways),
    )


def split_of(layers: Sequence[Layer], ends: Sequence[int], choices: Sequence[Choice]) -> tuple[Graph, Split]:
    """Return stages of layers as a graph and an answer for problem `partition`, which sums them up anew.

    Op l is F of layer l, op 2 L - 1 - l its B and W with what runs again. F makes what it keeps for B; both
    read the layer's states and buffers, initial tensors. Buffers are as many tensors as there are sizes, each
    by how much it exceeds the next smaller one; so those of a stage sum up to the largest.
    """
    out = GraphBuilder("layers")
    count, stage = len(layers), [0] * (2 * len(layers))
    first = [0, *ends][:-1]
    ways: list[tuple[int, int, int]] = []  # of each layer: time of B and W, bytes kept, those of its buffer
    alone: list[int] = []
    for s, (i, end, choice) in enumerate(zip(first, ends, choices, strict=True)):
        for k in range(i, end):
            x = layers[k]
            stage[k] = stage[2 * count - 1 - k] = s
            retention = x.ways[0 if choice is None else choice[k - i]]
            kept = retention.activation if choice is not None else x.input * (k == i)
            remade = 0 if choice is not None else x.again if k + 1 == end else x.forward
            ways.append((retention.backward + retention.weight + remade, kept, retention.buffer))
            alone.append(x.stash + x.input * (k > i) if choice is None else 0)
    sizes = sorted({buffer for *_, buffer in ways} - {0})
    for low, high in pairwise([0, *sizes]):
        out.tensor(f"buffer {high}", high - low, initial=True)
    for k, x in enumerate(layers):
        out.tensor(f"states {k}", x.states + alone[k], kind="weight", initial=True)
        out.tensor(f"x{k}", 0)
        out.tensor(f"stash {k}", ways[k][1])
    fixed = [
        [f"states {k}", *(f"buffer {size}" for size in sizes if size <= buffer)]
        for k, (*_, buffer) in enumerate(ways)
    ]
    for k, x in enumerate(layers):
        reads = [*fixed[k], *([f"x{k - 1}"] if k else [])]
        out.op(f"F{k}", reads=reads, writes=[f"x{k}", f"stash {k}"], duration=x.forward)
    for k in reversed(range(count)):
        reads = [*fixed[k], f"stash {k}", *([f"d{k + 1}"] if k + 1 < count else [])]
        out.op(f"B{k}", reads=reads, writes=[out.tensor(f"d{k}", 0)], duration=ways[k][0])
    kinds = len(ends)
    split = Split(stage=tuple(stage), kinds=("any",) * kinds, replicas=(1,) * kinds)
    return out.build(), split
