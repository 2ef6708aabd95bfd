"""Kernel: the best granularity and order of a group, over all that divide its outputs and its depth."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engines.kernels import kernel

WHOLE, ROWS, COLUMNS, DEPTH = range(4)
"""What a side of a slice follows: nothing (it is whole), or height, width or reduction step of a tile."""

RASTER, ALONG_ROWS, ALONG_COLUMNS = range(3)
"""Orders of tiles: row by row as the reading says; snakes along rows, and along columns."""


class TileQuestion(NamedTuple):
    """Numbers of a group: elements, ticks, and readings.

    Attributes
    ----------
    width, height, depth
        Of its outputs, and of the reduction that is split.
    room
        Elements for slices and tiles.
    written
        Outputs that are written.
    arriving
        Elements that arrive whole in the first step.
    matmul, pointwise
        Ticks of a native tile.
    element
        Ticks of an element that moves.
    native_width, native_height
        Of a native tile.
    most_steps
        Largest number of steps of a group.
    flush, spread, shared
        Whether ``raster=flush``, ``pointwise=spread`` and ``place=shared`` hold.
    """

    width: int
    height: int
    depth: int
    room: int
    written: int
    arriving: int
    matmul: int
    pointwise: int
    element: int
    native_width: int
    native_height: int
    most_steps: int
    flush: bool
    spread: bool
    shared: bool


@kernel
def best_tiles(
    q: TileQuestion,
    widths: Annotated[Any, NDArray[np.int64]],
    heights: Annotated[Any, NDArray[np.int64]],
    depths: Annotated[Any, NDArray[np.int64]],
    slices: Annotated[Any, Annotated[NDArray[np.int64], 2]],
) -> tuple[int, int, int, int, int]:
    """Return least ticks (-1 if nothing fits), width, height, depth and order; fewer steps break ties.

    Parameters
    ----------
    widths, heights, depths
        Divisors.
    slices
        By slice: tensor, what its rows and its columns follow, its height and width if whole. Slices of a
        tensor stand side by side.
    """
    best, most, result = -1, 0, (-1, 0, 0, 0, 0)
    for w in widths:
        for h in heights:
            columns, rows = q.width // w, q.height // h
            passes = -(-w // q.native_width) * -(-h // q.native_height)
            leaving = q.written * w * h
            for k in depths:
                steps = q.depth // k
                count = rows * columns * steps
                if count > q.most_steps:
                    continue
                everything = by_step = by_row = by_column = by_any = 0
                for s in range(len(slices)):
                    x, y = slices[s][1], slices[s][2]
                    known = False
                    for u in range(s - 1, -1, -1):
                        if slices[u][0] != slices[s][0]:
                            break
                        a, b = slices[u][1], slices[u][2]
                        known = known or (
                            (
                                x == a
                                or (_single(x, rows, columns, steps) and _single(a, rows, columns, steps))
                            )
                            and (
                                y == b
                                or (_single(y, rows, columns, steps) and _single(b, rows, columns, steps))
                            )
                        )
                    if known:
                        continue
                    high = h if x == ROWS else k if x == DEPTH else slices[s][3]
                    wide = w if y == COLUMNS else k if y == DEPTH else slices[s][4]
                    size = high * wide
                    again = size if steps > 1 and (x == DEPTH or y == DEPTH) else 0
                    everything += size
                    by_step += again
                    by_row += size if y == COLUMNS else again
                    by_column += size if x == ROWS else again
                    by_any += size if y == COLUMNS or x == ROWS else again
                held = everything + leaving
                if q.shared:
                    held = max(everything, leaving)
                if held > q.room:
                    continue
                inner, last = q.matmul * passes // steps, q.matmul * passes // steps
                if q.spread:
                    inner += q.pointwise * passes // steps
                    last = inner
                else:
                    last += q.pointwise * passes
                rest = max(inner, by_step * q.element) * max(steps - 2, 0)
                begin = _tile(everything + q.arriving, by_step, leaving, inner, last, rest, steps, q.element)
                fresh = _tile(everything, by_step, leaving, inner, last, rest, steps, q.element)
                row = _tile(by_row, by_step, leaving, inner, last, rest, steps, q.element)
                column = _tile(by_column, by_step, leaving, inner, last, rest, steps, q.element)
                turn = _tile(by_any, by_step, leaving, inner, last, rest, steps, q.element)
                wrap = turn if columns > 1 else column
                for order in range(3):
                    if order == RASTER and q.flush:
                        ticks = begin + (rows * columns - 1) * fresh
                    elif order == RASTER:
                        ticks = begin + rows * (columns - 1) * row + (rows - 1) * wrap
                    elif order == ALONG_ROWS:
                        ticks = begin + rows * (columns - 1) * row + (rows - 1) * column
                    else:
                        ticks = begin + (columns - 1) * row + columns * (rows - 1) * column
                    if best < 0 or ticks < best or (ticks == best and count < most):
                        best, most, result = ticks, count, (ticks, w, h, k, order)
    return result


@kernel
def _single(side: int, rows: int, columns: int, steps: int) -> bool:
    """Return whether what a side follows never changes."""
    if side == ROWS:
        return rows == 1
    if side == COLUMNS:
        return columns == 1
    return steps == 1 if side == DEPTH else True


@kernel
def _tile(
    loaded: int, again: int, leaving: int, inner: int, last: int, rest: int, steps: int, element: int
) -> int:
    """Return the ticks of a tile whose first step loads so much, and each other one `again`."""
    if steps == 1:
        return max(last, (loaded + leaving) * element)
    return rest + max(inner, loaded * element) + max(last, (again + leaving) * element)
