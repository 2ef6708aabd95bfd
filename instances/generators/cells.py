"""Networks of cells found by architecture search: NASNet-A and DARTS, and random cells like them.

A cell reads the outputs of the two cells before it (states 0 and 1) and makes further states, each the
sum of two operations on earlier states; some of its states, concatenated, are its output. Reduction
cells, at one and two thirds of the depth, halve the sides and double the channels. Sources of the
cells: Zoph, Vasudevan, Shlens, Le, "Learning transferable architectures for scalable image recognition",
CVPR 2018; Liu, Simonyan, Yang, "DARTS: differentiable architecture search", ICLR 2019 (its second cell).

Normalization and activation are part of the convolution before them; ``skip`` is no op at stride 1. A
separable convolution is depthwise, pointwise, depthwise, pointwise. Values are 32-bit.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from ...models.graph import Graph
from .network import Feature, NetworkBuilder


class NetworkCell(NamedTuple):
    """Pairs of ``(operation, state)``, one pair of pairs for each new state, and the states put out."""

    blocks: tuple[tuple[tuple[str, int], tuple[str, int]], ...]
    output: tuple[int, ...]


CELLS = {
    "nasnet-a": (
        NetworkCell(
            (
                (("sep5", 1), ("sep3", 0)),
                (("sep5", 0), ("sep3", 0)),
                (("avg", 1), ("skip", 0)),
                (("avg", 0), ("avg", 0)),
                (("sep3", 1), ("skip", 1)),
            ),
            (0, 2, 3, 4, 5, 6),
        ),
        NetworkCell(
            (
                (("sep5", 1), ("sep7", 0)),
                (("max", 1), ("sep7", 0)),
                (("avg", 1), ("sep5", 0)),
                (("skip", 3), ("avg", 2)),
                (("sep3", 2), ("max", 1)),
            ),
            (3, 4, 5, 6),
        ),
    ),
    "darts-v2": (
        NetworkCell(
            (
                (("sep3", 0), ("sep3", 1)),
                (("sep3", 0), ("sep3", 1)),
                (("sep3", 1), ("skip", 0)),
                (("skip", 0), ("dil3", 2)),
            ),
            (2, 3, 4, 5),
        ),
        NetworkCell(
            (
                (("max", 0), ("max", 1)),
                (("skip", 2), ("max", 1)),
                (("max", 0), ("skip", 2)),
                (("skip", 2), ("max", 1)),
            ),
            (2, 3, 4, 5),
        ),
    ),
}
"""The published normal and reduction cells."""

_OPERATIONS = ("sep3", "sep5", "dil3", "max", "avg", "skip")


def cell_network(*, cells: int, seed: int, channels: int, image: int, batch: int, cell: str) -> Graph:
    """Return a network of `cells` cells between a stem convolution and a classifier of ten classes.

    ``cell=random`` draws a normal and a reduction cell of five blocks.
    """
    rng = random.Random(seed)
    normal, reduction = CELLS[cell] if cell in CELLS else (_random_cell(rng), _random_cell(rng))
    net = NetworkBuilder(batch)
    before = last = net.conv("stem", net.input("input", 3, image), channels, 3)
    for k in range(cells):
        reduces = cells >= 3 and k in (cells // 3, 2 * cells // 3)
        channels *= 1 + reduces
        chosen = reduction if reduces else normal
        before, last = last, _add_cell(net, f"cell{k}", chosen, before, last, channels, reduces)
    net.classifier(last, 10)
    return net.graph()


def _add_cell(
    net: NetworkBuilder,
    name: str,
    cell: NetworkCell,
    before: Feature,
    last: Feature,
    channels: int,
    reduces: bool,
) -> Feature:
    # The older input is as large as the newer one before anything else is done with it.
    shrink = 2 if before.side > last.side else 1
    states = [
        net.conv(f"{name}.in0", before, channels, 1, shrink),
        net.conv(f"{name}.in1", last, channels, 1),
    ]
    for b, pair in enumerate(cell.blocks):
        terms = []
        for k, (operation, state) in enumerate(pair):
            stride = 2 if reduces and state < 2 else 1
            terms.append(_operation(net, f"{name}.b{b}{'xy'[k]}", operation, states[state], stride))
        states.append(net.add(f"{name}.b{b}", terms))
    return net.concat(f"{name}.out", [states[s] for s in cell.output])


def _operation(net: NetworkBuilder, name: str, operation: str, x: Feature, stride: int) -> Feature:
    if operation == "skip":
        return x if stride == 1 else net.conv(f"{name}.reduce", x, x.channels, 1, stride)
    if operation in ("max", "avg"):
        kind = "MaxPool" if operation == "max" else "AveragePool"
        return net.pool(f"{name}.{operation}", kind, x, stride)
    kernel = int(operation[3:])
    for repeat in range(2 if operation.startswith("sep") else 1):
        x = net.depthwise(f"{name}.depthwise{repeat}", x, kernel, stride if repeat == 0 else 1)
        x = net.conv(f"{name}.pointwise{repeat}", x, x.channels, 1)
    return x


def _random_cell(rng: random.Random) -> NetworkCell:
    """Return a cell of five blocks on random earlier states; states that no block reads are put out."""
    blocks = []
    for earlier in range(2, 7):
        first, second = ((rng.choice(_OPERATIONS), rng.randrange(earlier)) for _ in "xy")
        blocks.append((first, second))
    read = {state for pair in blocks for _, state in pair}
    return NetworkCell(tuple(blocks), tuple(s for s in range(2, 7) if s not in read))
