r"""The best granularity and order of a group of ops, in closed form.

A group has R rows and C columns of tiles and n reduction steps. Slices are loaded again when an index that
they follow changes, so a tile costs :math:`t_0` where all are loaded, :math:`t_H` after one in its row, and
:math:`t_V` after one in its column; :math:`t_0` and what follows a diagonal move are at least both.

*Snakes are best.* An order makes a moves in rows, b in columns and d others, :math:`a + b + d = RC - 1`; rows
change at least R - 1 times, :math:`b + d \ge R - 1`, and :math:`a + d \ge C - 1`. Each diagonal move counted
as one in a row or in a column costs no more than it does, and they can be counted so that
:math:`b' \ge R - 1` and :math:`a' \ge C - 1`, since :math:`RC - 1 \ge (R - 1) + (C - 1)`. The cost
:math:`t_0 + a' t_H + b' t_V` is linear in b', so least at :math:`b' = R - 1`, the snake along rows, or at
:math:`a' = C - 1`, the snake along columns. Kept inputs arrive whole in the first step of any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.problems.tiles import Tiles
from ...models.tile_rules import MATMUL, MOST_STEPS, TileGroup, TileInstance
from ..engines.kernels import plain
from .group_kernel import (
    ALONG_ROWS,
    COLUMNS,
    DEPTH,
    RASTER,
    ROWS,
    WHOLE,
    TileQuestion,
    best_tiles,
)

_FOLLOWS = {"*": WHOLE, "h": ROWS, "w": COLUMNS, "k": DEPTH}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """What a group reads and makes.

    Attributes
    ----------
    inputs, outputs
        Tensors that it reads from outside, and those that leave it.
    width, height, depth
        Of its outputs, and of the reduction that is split; depth 1 if there is none.
    slices
        Of inputs: tensor, and what its rows and columns follow.
    matmul, pointwise
        Sums of the base costs.
    """

    inputs: frozenset[int]
    outputs: frozenset[int]
    width: int
    height: int
    depth: int
    slices: tuple[tuple[int, str, str], ...]
    matmul: int
    pointwise: int


def asked_parts(
    given: TileInstance, ops: frozenset[int]
) -> tuple[dict[int, dict[tuple[str, str], None]], set[int]]:
    """Return what rows and columns of the tensors of joined ops follow, and the depths that are split."""
    order = sorted(ops, reverse=True)
    read = {t for i in order for t in given.inputs[i]}
    parts: dict[int, dict[tuple[str, str], None]] = {
        t: {("h", "w"): None} for i in order if (t := given.outputs[i]) not in read
    }
    feeding, depths = set[int](), set[int]()
    for i in order:
        out, reads = given.outputs[i], given.inputs[i]
        if given.op_types[i] != MATMUL:
            for t in reads:
                parts.setdefault(t, {}).update(parts[out])
            if out in feeding:
                feeding.update(reads)
            continue
        depth = "*" if out in feeding else "k"
        if depth == "k":
            depths.add(given.depth(i))
        for rows, columns in parts[out]:
            parts.setdefault(reads[0], {})[rows, depth] = None
            parts.setdefault(reads[1], {})[depth, columns] = None
        feeding.update(reads)
    return parts, depths


def group_shape(given: TileInstance, ops: frozenset[int]) -> GroupShape | None:
    """Return what joined ops read and make; None if their outputs or depths are of several shapes."""
    read = {t for i in ops for t in given.inputs[i]}
    made = {given.outputs[i] for i in ops}
    outputs = made - read
    if len({given.shape(t) for t in outputs}) > 1:
        return None
    parts, depths = asked_parts(given, ops)
    if len(depths) > 1:
        return None
    width, height = given.shape(min(outputs))
    costs = [
        sum(given.base_costs[i] for i in ops if (given.op_types[i] == MATMUL) is x) for x in (True, False)
    ]
    return GroupShape(
        inputs=frozenset(read - made),
        outputs=frozenset(outputs),
        width=width,
        height=height,
        depth=max(depths, default=1),
        slices=tuple((t, *part) for t in sorted(read - made) for part in parts[t]),
        matmul=costs[0],
        pointwise=costs[1],
    )


def least_room(given: TileInstance, ops: frozenset[int], *, shared: bool = False) -> int:
    """Return the elements that slices and tiles take at least, where the smallest side of a tile is 1.

    Parameters
    ----------
    shared
        Whether an output's tile may take the place of a slice, where no MatMul runs.
    """
    parts, _ = asked_parts(given, ops)
    slices = sum(
        max(
            (given.heights[t] if rows == "*" else 1) * (given.widths[t] if columns == "*" else 1)
            for rows, columns in parts[t]
        )
        for t in parts.keys() & given.started
    )
    in_place = shared and all(given.op_types[i] != MATMUL or not given.base_costs[i] for i in ops)
    return max(1, slices) if in_place else 1 + slices


class GroupCosts:
    """The least latencies of groups, each computed once."""

    def __init__(self, problem: Tiles) -> None:
        self.problem, self.given = problem, problem.shapes
        self.shape = cache(lambda ops: group_shape(self.given, ops))
        self.room = cache(lambda ops: least_room(self.given, ops, shared=problem.place == "shared"))
        self._best: dict[Any, tuple[int, int, int, int, int] | None] = {}

    def ticks(
        self, ops: frozenset[int], resident: frozenset[int] = frozenset(), keep: frozenset[int] = frozenset()
    ) -> int | None:
        """Return the least latency of a group; None if it is none, or fits at no granularity.

        Parameters
        ----------
        resident, keep
            Tensors that are in the fast memory before, and after it.
        """
        best = self._tiles(ops, resident, keep)
        return None if best is None else best[0]

    def group(
        self, ops: frozenset[int], resident: frozenset[int] = frozenset(), keep: frozenset[int] = frozenset()
    ) -> TileGroup:
        """Return a group that fits in its best tiles and order."""
        shape, best = self.shape(ops), self._tiles(ops, resident, keep)
        assert shape is not None
        assert best is not None
        _, w, h, k, order = best
        tiles = _order(shape.width // w, shape.height // h, order)
        return TileGroup(ops=tuple(sorted(ops)), granularity=(w, h, k), keep=tuple(sorted(keep)), order=tiles)

    def _tiles(
        self, ops: frozenset[int], resident: frozenset[int], keep: frozenset[int]
    ) -> tuple[int, int, int, int, int] | None:
        shape = self.shape(ops)
        if shape is None:
            return None
        whole = resident | keep
        arriving = sum(map(self.given.area, (keep & shape.inputs) - resident))
        room = self.given.capacity - sum(map(self.given.area, whole))
        written = len(shape.outputs - keep)
        return self.least(ops, shape.inputs & whole, arriving, room, written)

    def least(
        self,
        ops: frozenset[int],
        whole: frozenset[int],
        arriving: int,
        room: int,
        written: int,
        *,
        computes: bool = True,
    ) -> tuple[int, int, int, int, int] | None:
        """Return ticks, granularity and order that are best; None if nothing fits.

        Parameters
        ----------
        whole
            Inputs of which no slices are loaded.
        arriving
            Elements that arrive whole in the first step.
        room
            Elements for slices and tiles.
        written
            Outputs that are written.
        computes
            Whether ops take time; else only transfers do.
        """
        key = (ops, whole, arriving, room, written, computes)
        if key not in self._best:
            shape = self.shape(ops)
            assert shape is not None
            self._best[key] = self._search(shape, whole, arriving, room, written, computes)
        return self._best[key]

    def _search(
        self,
        shape: GroupShape,
        whole: frozenset[int],
        arriving: int,
        room: int,
        written: int,
        computes: bool,
    ) -> tuple[int, int, int, int, int] | None:
        """Return ticks, granularity and order that are best."""
        given, problem = self.given, self.problem
        question = TileQuestion(
            width=shape.width,
            height=shape.height,
            depth=shape.depth,
            room=room,
            written=written,
            arriving=arriving,
            matmul=shape.matmul * problem.scale * computes,
            pointwise=shape.pointwise * problem.scale * computes,
            element=problem.scale // given.bandwidth,
            native_width=given.native[0],
            native_height=given.native[1],
            most_steps=MOST_STEPS,
            flush=problem.raster == "flush",
            spread=problem.pointwise == "spread",
            shared=problem.place == "shared" and not shape.matmul,
        )
        sides = [_divisors(x) for x in (shape.width, shape.height, shape.depth)]
        rows = [
            (t, _FOLLOWS[x], _FOLLOWS[y], given.heights[t], given.widths[t])
            for t, x, y in shape.slices
            if t not in whole
        ]
        if self._is_large(shape):
            best = plain(best_tiles)(question, *([*map(int, side)] for side in sides), rows)
        else:
            best = best_tiles(question, *sides, np.array(rows, dtype=np.int64).reshape(-1, 5))
        return None if best[0] < 0 else best

    def _is_large(self, shape: GroupShape) -> bool:
        """Return whether ticks might exceed 64 bits at a granularity that is allowed.

        A tile covers at most w h native ones, so all compute is at most that of tiles of one element.
        """
        given, scale = self.given, self.problem.scale
        moved = sum(given.area(t) for t, _, _ in shape.slices) + sum(map(given.area, shape.outputs))
        work = (shape.matmul + shape.pointwise) * shape.width * shape.height
        return (work + moved * MOST_STEPS) * scale >= 2**62


def _order(columns: int, rows: int, order: int) -> tuple[int, ...] | None:
    """Return the tiles of a snake along rows or columns; None row by row."""
    if order == RASTER:
        return None
    if order == ALONG_ROWS:
        return tuple(
            r * columns + (c if r % 2 == 0 else columns - 1 - c) for r in range(rows) for c in range(columns)
        )
    return tuple(
        (r if c % 2 == 0 else rows - 1 - r) * columns + c for c in range(columns) for r in range(rows)
    )


@cache
def _divisors(number: int) -> NDArray[np.int64]:
    """Return the divisors of a number, ascending."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return np.array(sorted({*low, *(number // d for d in low)}), dtype=np.int64)
