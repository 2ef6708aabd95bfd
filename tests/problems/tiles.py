"""Small random questions of tiles."""

from __future__ import annotations

from random import Random

import lowtide as lt
from lowtide.models.tile_rules import TileInstance


def tiles_problem(data: dict[str, object], name: str = "small", **readings: str) -> lt.Tiles:
    """Return the question of an object in the contest's format."""
    return lt.Tiles(TileInstance.from_dict(data, name, name), **readings)


def random_tiles(seed: int, *, most_ops: int = 4) -> lt.Tiles:
    """Return a few MatMuls and Pointwise ops on tensors of at most six elements, in any readings."""
    rng = Random(f"tiles {seed}")
    sides = rng.choice(((2,), (2,), (1, 2), (2, 3), (1, 2, 3)))
    shapes: list[tuple[int, int]] = []
    inputs, outputs, kinds = list[list[int]](), list[int](), list[str]()

    def tensor(width: int, height: int) -> int:
        """Return a tensor of that shape that is there, or a new one."""
        suited = [t for t, shape in enumerate(shapes) if shape == (width, height)]
        if suited and rng.random() < 0.7:
            return rng.choice(suited[-2:])
        shapes.append((width, height))
        return len(shapes) - 1

    for _ in range(rng.randint(1, most_ops)):
        width, height = (
            shapes[outputs[-1]] if outputs and rng.random() < 0.7 else (rng.choice(sides), rng.choice(sides))
        )
        if width * height > 6:
            height = 1
        if rng.random() < 0.5:
            depth = rng.choice(sides)
            reads = [tensor(depth, height), tensor(width, depth)]
            kinds.append("MatMul")
        else:
            reads = [tensor(width, height) for _ in range(rng.randint(1, 2))]
            kinds.append("Pointwise")
        inputs.append(reads)
        shapes.append((width, height))
        outputs.append(len(shapes) - 1)
    data = {
        "widths": [w for w, _ in shapes],
        "heights": [h for _, h in shapes],
        "inputs": inputs,
        "outputs": [[t] for t in outputs],
        "base_costs": [rng.randint(1, 9) for _ in outputs],
        "op_types": kinds,
        "fast_memory_capacity": rng.choice((3, 5, 8, 11, 14, 20, 30)),
        "slow_memory_bandwidth": rng.randint(1, 3),
        "native_granularity": [rng.randint(1, 3), rng.randint(1, 3)],
    }
    readings = {
        "raster": rng.choice(("flush", "keep")),
        "pointwise": rng.choice(("last", "spread")),
        "place": rng.choice(("apart", "apart", "shared")),
    }
    return tiles_problem(data, f"random {seed}", **readings)
