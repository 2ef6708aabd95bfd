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
from typing import Any, NamedTuple

import numpy as np

from ...models.problems.tiles import Tiles
from ...models.tile_rules import MATMUL, MOST_STEPS, TileGroup, TileInstance


class Best(NamedTuple):
    """The least latency of a group in ticks, and the group that has it."""

    ticks: int
    group: TileGroup


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


def group_shape(given: TileInstance, ops: frozenset[int]) -> GroupShape | None:
    """Return what joined ops read and make; None if their outputs or depths are of several shapes."""
    order = sorted(ops, reverse=True)
    read = {t for i in order for t in given.inputs[i]}
    made = {given.outputs[i] for i in order}
    outputs = made - read
    if len({given.shape(t) for t in outputs}) > 1:
        return None
    parts: dict[int, dict[tuple[str, str], None]] = {t: {("h", "w"): None} for t in outputs}
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
    if len(depths) > 1:
        return None
    width, height = given.shape(min(outputs))
    costs = [
        sum(given.base_costs[i] for i in order if (given.op_types[i] == MATMUL) is x) for x in (True, False)
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


class GroupCosts:
    """The least latencies of groups, each computed once."""

    def __init__(self, problem: Tiles) -> None:
        self.problem, self.given = problem, problem.shapes
        self.shape = cache(lambda ops: group_shape(self.given, ops))
        self._best: dict[Any, tuple[int, tuple[int, int, int], str] | None] = {}

    def best(
        self, ops: frozenset[int], resident: frozenset[int] = frozenset(), keep: frozenset[int] = frozenset()
    ) -> Best | None:
        """Return the best way to run a group; None if it is none, or fits at no granularity.

        Parameters
        ----------
        resident, keep
            Tensors that are in the fast memory before, and after it.
        """
        shape = self.shape(ops)
        if shape is None:
            return None
        whole = resident | keep
        arriving = sum(self.given.area(t) for t in (keep & shape.inputs) - resident)
        room = self.given.capacity - sum(self.given.area(t) for t in whole)
        written = len(shape.outputs - keep)
        key = (ops, shape.inputs & whole, arriving, room, written)
        if key not in self._best:
            self._best[key] = self._search(shape, whole, arriving, room, written)
        best = self._best[key]
        if best is None:
            return None
        ticks, granularity, order = best
        tiles = _order(shape.width // granularity[0], shape.height // granularity[1], order)
        group = TileGroup(
            ops=tuple(sorted(ops)), granularity=granularity, keep=tuple(sorted(keep)), order=tiles
        )
        return Best(ticks, group)

    def _search(
        self, shape: GroupShape, whole: frozenset[int], arriving: int, room: int, written: int
    ) -> tuple[int, tuple[int, int, int], str] | None:
        """Return ticks, granularity and the name of the order that is best."""
        given, scale = self.given, self.problem.scale
        w, h, k = np.meshgrid(
            *(
                np.array(_divisors(x), dtype=object if self._is_large(shape) else np.int64)
                for x in (shape.width, shape.height, shape.depth)
            ),
            indexing="ij",
        )
        columns, rows, steps = shape.width // w, shape.height // h, shape.depth // k
        single = {"w": columns == 1, "h": rows == 1, "k": steps == 1, "*": np.ones(w.shape, dtype=bool)}
        sides = {"w": w, "h": h, "k": k}
        entering = dict.fromkeys(("all", "row", "column", "step", "any"), 0 * w)
        seen: list[tuple[int, str, str]] = []
        for t, x, y in shape.slices:
            if t in whole:
                continue
            size = sides.get(x, given.heights[t]) * sides.get(y, given.widths[t]) * np.ones_like(w)
            for u, p, q in seen:
                if u == t:
                    same = (single[x] & single[p]) | (x == p)
                    size = np.where(same & ((single[y] & single[q]) | (y == q)), 0, size)
            seen.append((t, x, y))
            by_step = np.where((steps > 1) & ("k" in (x, y)), size, 0)
            entering["all"] = entering["all"] + size
            entering["step"] = entering["step"] + by_step
            entering["row"] = entering["row"] + (size if y == "w" else by_step)
            entering["column"] = entering["column"] + (size if x == "h" else by_step)
            entering["any"] = entering["any"] + (size if y == "w" or x == "h" else by_step)
        passes = -(-w // given.native[0]) * -(-h // given.native[1])
        matmul, others = shape.matmul * passes * scale // steps, shape.pointwise * passes * scale
        if self.problem.pointwise == "spread":
            inner = last = matmul + others // steps
        else:
            inner, last = matmul, matmul + others
        per_element = scale // given.bandwidth
        leaving = written * w * h

        def tile(loaded: Any) -> Any:
            """Return the ticks of a tile of which the first step loads so much."""
            middle = np.maximum(inner, entering["step"] * per_element) * np.maximum(steps - 2, 0)
            middle = middle + np.maximum(inner, loaded * per_element)
            final = np.where(steps > 1, entering["step"], loaded) + leaving
            return np.where(steps > 1, middle, 0) + np.maximum(last, final * per_element)

        begin = tile(entering["all"] + arriving)
        row, column = tile(entering["row"]), tile(entering["column"])
        flat = self.problem.raster == "flush"
        wrap = tile(entering["all"]) if flat else np.where(columns > 1, tile(entering["any"]), column)
        orders = {
            "raster": rows * (columns - 1) * (tile(entering["all"]) if flat else row) + (rows - 1) * wrap,
            "rows": rows * (columns - 1) * row + (rows - 1) * column,
            "columns": (columns - 1) * row + columns * (rows - 1) * column,
        }
        shared = self.problem.place == "shared" and not shape.matmul
        held = np.maximum(entering["all"], leaving) if shared else entering["all"] + leaving
        fits = (held <= room) & (rows * columns * steps <= MOST_STEPS)
        if not fits.any():
            return None
        least_of = []
        for rank, (name, rest) in enumerate(orders.items()):
            ticks = (begin + rest)[fits]
            least = ticks.min()
            count = np.where(ticks == least, (rows * columns * steps)[fits], MOST_STEPS + 1)
            at = int(count.argmin())
            least_of.append(
                (int(least), int(count[at]), rank, tuple(int(x[fits][at]) for x in (w, h, k)), name)
            )
        ticks, _, _, (a, b, c), name = min(least_of)
        return ticks, (a, b, c), name

    def _is_large(self, shape: GroupShape) -> bool:
        """Return whether ticks might exceed 64 bits at any granularity that is allowed."""
        given = self.given
        area = sum(map(given.area, (*shape.inputs, *shape.outputs))) * (1 + len(shape.slices))
        step = area * self.problem.scale + (shape.matmul + shape.pointwise) * area * self.problem.scale
        return step * MOST_STEPS >= 2**62


def _order(columns: int, rows: int, name: str) -> tuple[int, ...] | None:
    """Return the tiles of a snake along rows or columns; None row by row."""
    if name == "raster":
        return None
    if name == "rows":
        return tuple(
            r * columns + (c if r % 2 == 0 else columns - 1 - c) for r in range(rows) for c in range(columns)
        )
    return tuple(
        (r if c % 2 == 0 else rows - 1 - r) * columns + c for c in range(columns) for r in range(rows)
    )


@cache
def _divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number, ascending."""
    low = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)}))
