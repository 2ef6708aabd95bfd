"""Blocks of matrix products and pointwise ops in a scratchpad, like networks of the MLSys 2026 contest."""

from __future__ import annotations

from random import Random

from ...models.tile_rules import MATMUL, POINTWISE, TileInstance
from ..options import Parameter

PARAMETERS = {
    "kind": Parameter("mlp", "what a block is", choices=("mlp", "attention", "branches")),
    "blocks": Parameter(2, "number of blocks", least=1, most=1_000),
    "capacity": Parameter(60_000, "elements of the fast memory", least=1, most=2**40),
    "seed": Parameter(0, "sides, costs and bandwidth"),
}
"""Options of ``gen:tiles``."""


def tile_blocks(*, kind: str, blocks: int, capacity: int, seed: int) -> TileInstance:
    """Return blocks one after another, each of which adds to the rows that it reads.

    ``mlp``: two products with a pointwise op between them. ``attention``: two heads of products by keys and
    values that are there, with a pointwise op on the scores. ``branches``: three narrow ``mlp`` on the same
    rows. Sides are powers of two; costs and bandwidths are like those of the contest's public instances.
    """
    rng = Random(f"tiles {kind} {blocks} {seed}")
    width, height = rng.choice((128, 256, 512)), rng.choice((128, 256, 512, 1024))
    inner = width * rng.choice((1, 2, 4))
    product, pointwise = rng.choice((500, 1000, 2000, 5000)), rng.choice((50, 100, 200, 500))
    shapes: list[tuple[int, int]] = []
    inputs, outputs, kinds, costs = list[list[int]](), list[int](), list[str](), list[int]()

    def tensor(wide: int, high: int) -> int:
        shapes.append((wide, high))
        return len(shapes) - 1

    def matmul(left: int, wide: int) -> int:
        right = tensor(wide, shapes[left][0])
        return op(MATMUL, [left, right], tensor(wide, shapes[left][1]), product)

    def each(*reads: int) -> int:
        return op(POINTWISE, [*reads], tensor(*shapes[reads[0]]), pointwise)

    def op(name: str, reads: list[int], made: int, cost: int) -> int:
        inputs.append(reads)
        outputs.append(made)
        kinds.append(name)
        costs.append(cost)
        return made

    rows = tensor(width, height)
    for _ in range(blocks):
        if kind == "mlp":
            parts = [matmul(each(matmul(rows, inner)), width)]
        elif kind == "attention":
            heads = [matmul(each(matmul(matmul(rows, width // 2), inner)), width // 2) for _ in range(2)]
            parts = [matmul(head, width) for head in heads]
        else:
            parts = [matmul(each(matmul(rows, width // 2)), width) for _ in range(3)]
        for part in parts:
            rows = each(rows, part)
    data = {
        "widths": [w for w, _ in shapes],
        "heights": [h for _, h in shapes],
        "inputs": inputs,
        "outputs": [[t] for t in outputs],
        "base_costs": costs,
        "op_types": kinds,
        "fast_memory_capacity": capacity,
        "slow_memory_bandwidth": rng.choice((10, 20, 25, 50)),
        "native_granularity": [128, rng.choice((32, 128))],
    }
    return TileInstance.from_dict(data, "gen:tiles", f"{kind}, {blocks} blocks, seed {seed}")
