"""Assembly trees of the multifrontal method on grids ordered by nested dissection.

A sparse matrix with one row for each point of a box grid, and an entry for each pair of neighbours, is
factored after the order of George, "Nested dissection of a regular finite element mesh", SIAM J. Numer.
Anal. 10 (1973):

1. A box of more than `leaf` points is cut by the plane of points in the middle of its longest side (the
   first of equal ones); the two remaining boxes, if not empty, are dissected likewise and eliminated
   first. A smaller box is eliminated as a whole.
2. Each plane, and each small box, is a *front*: it eliminates its k points. When it has, all of its box
   is eliminated, and since a box is connected, the points that remain coupled are all neighbours of the box
   outside of it: by the choice of planes they lie in the planes of the boxes around it. Their
   number is c; the front is dense of order ``f = k + c``. (With ``stencil=star`` the neighbours are those
   across faces; with ``stencil=box`` also those across edges and corners.)
3. The fronts form the *assembly tree*: a plane is the parent of the fronts that end its two boxes. Points
   of the same front count as eliminated together, so that a front has the structure of its last point:
   a first point's own structure may be smaller by the neighbours that only later points have.

A front is an op: it reads the contribution blocks of its children and writes its own, of order c; its
workspace is the rest of the front, so that with ``coexist`` its children's blocks and its whole front
are resident while it runs. Factors leave as they are made (as in Liu, "The multifrontal method for
sparse matrix solution: theory and practice", SIAM Review 34 (1992), where they go to disk). The
root has no block. Blocks are square for ``factor=lu`` and triangles for ``cholesky``, 8 bytes an
entry. With m points still to come after a pivot, LU takes ``m + 2 m^2`` operations, Cholesky
``(m + 1)^2``, for each of the m from c to f - 1; the duration is that over `gflops`, in ns, rounded up.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor

ENTRY_BYTES = 8
"""Bytes of an entry of a front: double precision."""

MOST_FRONTS = 10**6
"""Fronts at most, about; more do not fit into memory."""

Box = tuple[tuple[int, int], ...]
"""For each side the first point and the one after the last."""


class Front(NamedTuple):
    """A front: how many points it eliminates, how many remain coupled, and its children's indices."""

    pivots: int
    border: int
    children: tuple[int, ...]


def assembly(*, grid: str, leaf: int, stencil: str, factor: str, gflops: int) -> Graph:
    """Return the assembly tree of a grid, children before their parent.

    Raises
    ------
    InstanceError
        If the grid has more than a million times `leaf` points, or a side of none.
    """
    sides = tuple(map(int, grid.split("x")))
    if min(sides) < 1:
        raise InstanceError(f"instance 'gen:assembly', grid: found {grid}, expected sides >= 1")
    if prod(sides) > MOST_FRONTS * leaf:
        raise InstanceError(
            f"instance 'gen:assembly', grid: found {prod(sides)} points, expected at most "
            f"{MOST_FRONTS * leaf}, {MOST_FRONTS} times leaf"
        )
    is_lu = factor == "lu"
    tensors: list[Tensor] = []
    ops = []
    block: dict[int, int] = {}
    for i, (pivots, border, children) in enumerate(nested_dissection(sides, leaf, stencil)):
        order = pivots + border
        output = ENTRY_BYTES * _entries(border, is_lu)
        if border:
            block[i] = len(tensors)
            tensors.append(Tensor(name=f"block {i}", nbytes=output))
        ops.append(
            Op(
                name=f"front {i}",
                kind="Front",
                duration_ns=max(1, -(-_operations(pivots, border, is_lu) // gflops)),
                workspace=ENTRY_BYTES * _entries(order, is_lu) - output,
                reads=tuple(block[c] for c in children),
                writes=(block[i],) if border else (),
            )
        )
    return Graph(name="", tensors=tuple(tensors), ops=tuple(ops))


def nested_dissection(sides: tuple[int, ...], leaf: int, stencil: str) -> list[Front]:
    """Return the fronts of a grid in postorder, the root last.

    Examples
    --------
    >>> from lowtide.instances.generators.assembly import nested_dissection
    >>> nested_dissection((3, 3), 3, "star")
    [Front(pivots=3, border=3, children=()), Front(pivots=3, border=3, children=()), \
Front(pivots=3, border=0, children=(0, 1))]
    """
    fronts: list[Front] = []

    def eliminate(box: Box) -> int:
        """Append the fronts of a box and return the index of the last."""
        lengths = [end - start for start, end in box]
        points = prod(lengths)
        children: tuple[int, ...] = ()
        if points > leaf:
            side = lengths.index(max(lengths))
            start, end = box[side]
            middle = (start + end) // 2
            parts = [(a, b) for a, b in ((start, middle), (middle + 1, end)) if a < b]
            children = tuple(eliminate((*box[:side], part, *box[side + 1 :])) for part in parts)
            points //= lengths[side]
        fronts.append(Front(points, _border(box, sides, stencil), children))
        return len(fronts) - 1

    eliminate(tuple((0, side) for side in sides))
    return fronts


def _border(box: Box, sides: tuple[int, ...], stencil: str) -> int:
    """Return how many points outside the box are neighbours of one in it."""
    lengths = [end - start for start, end in box]
    beyond = [(start > 0) + (end < side) for (start, end), side in zip(box, sides, strict=True)]
    points = prod(lengths)
    if stencil == "box":
        return prod(n + more for n, more in zip(lengths, beyond, strict=True)) - points
    return sum(points // n * more for n, more in zip(lengths, beyond, strict=True))


def _entries(order: int, is_lu: bool) -> int:
    return order * order if is_lu else order * (order + 1) // 2


def _operations(pivots: int, border: int, is_lu: bool) -> int:
    """Return the operations of the pivots: the sums of the formulas above over m."""
    first, end = border, border + pivots
    if is_lu:
        return _sum(end - 1) - _sum(first - 1) + 2 * (_sum_of_squares(end - 1) - _sum_of_squares(first - 1))
    return _sum_of_squares(end) - _sum_of_squares(first)


def _sum(n: int) -> int:
    """Return 1 + ... + n."""
    return n * (n + 1) // 2


def _sum_of_squares(n: int) -> int:
    """Return 1 + 4 + ... + n^2."""
    return n * (n + 1) * (2 * n + 1) // 6
