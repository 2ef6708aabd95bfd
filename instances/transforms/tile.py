"""Training graphs whose large weights are used a tile at a time: memory-centric tiling.

Source: Rajbhandari et al., ZeRO-Infinity, SC 2021, section 5.1.3: a large linear operator becomes a sequence
of smaller ones, whose parameters are fetched and released one after the other.

A weight of more than the given bytes, and what ops that write it access beside it of its kind (gradients,
states), are cut in as many tiles of like size as the weight needs. Weights that share an op or a gradient get
as many as the largest of them. An op that accesses tiles becomes one op a tile. Each accesses a tile of what
is cut and all else as a whole: what it writes as a whole the first one writes, the others add to it. They
divide its duration, at least 1 ns each; workspaces are taken to be as before. What is not cut is no longer
written in place: the next tile reads it again.
"""

from __future__ import annotations

from dataclasses import replace

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ...models.work import Work

CUT = ("weight", "gradient", "state")
"""Kinds of tensors that are cut, where an op writes a large weight."""
MOST = 100_000
"""Tiles of all tensors together at most: each is a tensor and an op of the graph."""


def tiled(graph: Graph, nbytes: int) -> Graph:
    """Return the graph with weights of at most so many bytes; larger ones are cut into tiles.

    Raises
    ------
    InstanceError
        If an op has modes and accesses a large weight, or there are more than `MOST` tiles.

    Examples
    --------
    >>> import lowtide as lt
    >>> spec = "gen:transformer?layers=1&weights=1&train=1"
    >>> most = [max(t.nbytes for t in g.tensors if t.kind == "weight")
    ...         for g in (lt.load(spec), lt.load(f"{spec}&tile=100KB"))]
    >>> most[0] > 100_000 >= most[1]
    True
    """
    parts = _tiles(graph, nbytes)
    tensors: list[Tensor] = []
    tiles: list[list[int]] = []  # by tensor, its tiles
    for t, tensor in enumerate(graph.tensors):
        count = parts.get(t, 1)
        tiles.append(list(range(len(tensors), len(tensors) + count)))
        sizes = _shares(tensor.nbytes, count)
        names = (f"{tensor.name}/{i}" if count > 1 else tensor.name for i in range(count))
        tensors += (replace(tensor, name=name, nbytes=size) for name, size in zip(names, sizes, strict=True))
    ops: list[Op] = []
    last: list[int] = []
    for op in graph.ops:
        count = max(len(tiles[t]) for t in (*op.reads, *op.writes)) if op.reads or op.writes else 1
        whole = tuple(tiles[t][0] for t in op.writes if len(tiles[t]) == 1)
        works = _works(op.work, count)
        for i, duration in enumerate(_shares(op.duration_ns, count)):
            at = {t: tiles[t][i if len(tiles[t]) > 1 else 0] for t in (*op.reads, *op.writes)}
            reads = [at[t] for t in op.reads]
            modes = tuple(
                replace(mode, operands=tuple((at[t], tier) for t, tier in mode.operands)) for mode in op.modes
            )
            ops.append(
                replace(
                    op,
                    name=f"{op.name}/{i}" if count > 1 else op.name,
                    duration_ns=max(1, duration),
                    reads=tuple(dict.fromkeys((*reads, *whole) if i else reads)),
                    writes=tuple(at[t] for t in op.writes),
                    after=tuple(last[j] for j in op.after),
                    inplace=tuple(
                        (at[a], at[b])
                        for a, b in op.inplace
                        if count == 1 or (len(tiles[a]) > 1 and len(tiles[b]) > 1)
                    ),
                    modes=modes,
                    work=works[i],
                )
            )
        last.append(len(ops) - 1)
    return replace(
        graph,
        name=f"{graph.name} tiled",
        tensors=tuple(tensors),
        ops=tuple(ops),
        provenance={**graph.provenance, "tile": nbytes},
        source=None,
    )


def _tiles(graph: Graph, nbytes: int) -> dict[int, int]:
    """Return the number of tiles of each tensor that is cut, the same for all that an op accesses."""
    parts = {
        t: -(-tensor.nbytes // nbytes)
        for t, tensor in enumerate(graph.tensors)
        if tensor.kind == "weight" and tensor.nbytes > nbytes
    }
    before = None
    while parts != before:
        before = dict(parts)
        for op in graph.ops:
            alike = [t for t in (*op.reads, *op.writes) if graph.tensors[t].kind in CUT]
            if not any(t in parts and graph.tensors[t].kind == "weight" for t in op.writes):
                alike = [t for t in alike if t in parts]
            parts |= dict.fromkeys(alike, max((parts[t] for t in alike if t in parts), default=1))
    if sum(parts.values()) > MOST:
        raise InstanceError(
            f"tile, graph {graph.name!r}: found {sum(parts.values())} tiles of at most {nbytes} bytes, "
            f"expected at most {MOST}"
        )
    for k, op in enumerate(graph.ops):
        if op.modes and any(parts.get(t, 1) > 1 for t in (*op.reads, *op.writes)):
            raise InstanceError(f"tile, op {k} {op.name!r}: found modes, expected none where weights are cut")
    return parts


def _works(work: tuple[Work, ...], count: int) -> list[tuple[Work, ...]]:
    """Return the work of each of so many tiles of an op."""
    kernels = [
        [
            replace(x, nbytes=b, multiply_adds=m)
            for b, m in zip(_shares(x.nbytes, count), _shares(x.multiply_adds, count), strict=True)
        ]
        for x in work
    ]
    return [*zip(*kernels, strict=True)] or [()] * count


def _shares(amount: int, count: int) -> list[int]:
    """Return so many like parts of a number."""
    return [amount * (i + 1) // count - amount * i // count for i in range(count)]
