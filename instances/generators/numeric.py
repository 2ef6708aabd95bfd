"""Graphs of numeric algorithms, value by value or tile by tile: those of which I/O bounds are known.

Inputs are initial, results final. With ``stored`` and ``count=traffic``, problem `minio` on the graphs of
single values is the red-blue pebble game of J.-W. Hong and H. T. Kung (STOC 1981), each op run once.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ...models.errors import InstanceError
from ...models.graph import Graph
from .builder import Builder

THIRDS = {"potrf": 1, "getrf": 2, "trsm": 3, "syrk": 3, "gemm": 6}
"""Arithmetic of the kernels on tiles with side b, in thirds of b^3 operations: ns of their ops."""


def fft(points: int, nbytes: int) -> Graph:
    """Return butterflies of a fast Fourier transform: each value of a level is made of two of the one before.

    Raises
    ------
    InstanceError
        If the number of points is no power of 2.

    Examples
    --------
    >>> graph = fft(8, 1)
    >>> len(graph.ops), sum(t.initial for t in graph.tensors)
    (24, 8)
    """
    if points & (points - 1):
        raise InstanceError(f"instance 'gen:fft', points: found {points}, expected a power of 2")
    out = Builder()
    row = [out.tensor(f"x{i}", nbytes, "input") for i in range(points)]
    for level in range(points.bit_length() - 1):
        above = [out.tensor(f"y{level}_{i}", nbytes) for i in range(points)]
        for i, t in enumerate(above):
            out.op(f"butterfly{level}_{i}", "butterfly", (row[i], row[i ^ 1 << level]), (t,))
        row = above
    return out.graph()


def matmul(rows: int, columns: int, inner: int, nbytes: int) -> Graph:
    """Return C = AB, A of rows x inner and B of inner x columns numbers: products, added one after another.

    Examples
    --------
    >>> graph = matmul(2, 2, 2, 1)
    >>> len(graph.ops), sum(t.final for t in graph.tensors)
    (12, 4)
    """
    out = Builder()
    a, b = (
        {(i, j): out.tensor(f"{name}{i}_{j}", nbytes, "input") for i in range(height) for j in range(width)}
        for name, height, width in (("a", rows, inner), ("b", inner, columns))
    )
    for i, j in product(range(rows), range(columns)):
        total = -1
        for q in range(inner):
            term = out.tensor(f"p{i}_{j}_{q}", nbytes)
            out.op(f"multiply{i}_{j}_{q}", "multiply", (a[i, q], b[q, j]), (term,))
            if q:
                before, total = total, out.tensor(f"c{i}_{j}_{q}", nbytes)
                out.op(f"add{i}_{j}_{q}", "add", (before, term), (total,))
            else:
                total = term
    return out.graph()


def stencil(cells: int, steps: int, radius: int, nbytes: int) -> Graph:
    """Return a line of cells over time: each is made of its neighbours up to a radius, and itself, before.

    Examples
    --------
    >>> graph = stencil(4, 3, 1, 1)
    >>> len(graph.ops), len(graph.ops[0].reads), len(graph.ops[1].reads)
    (12, 2, 3)
    """
    out = Builder()
    row = [out.tensor(f"x{i}", nbytes, "input") for i in range(cells)]
    for step in range(steps):
        above = [out.tensor(f"y{step}_{i}", nbytes) for i in range(cells)]
        for i, t in enumerate(above):
            out.op(f"cell{step}_{i}", "cell", row[max(0, i - radius) : i + radius + 1], (t,))
        row = above
    return out.graph()


def lu(tiles: int, nbytes: int) -> Graph:
    """Return the LU factorization of a matrix of n x n tiles without pivoting, each tile changed in place.

    Examples
    --------
    >>> len(lu(4, 1).ops)
    30
    """
    out, tile = _tiles(tiles, nbytes, lower=False)
    for k in range(tiles):
        _kernel(out, "getrf", (k,), (), tile[k, k])
        for i in range(k + 1, tiles):
            _kernel(out, "trsm", (k, i, k), (tile[k, k],), tile[i, k])
            _kernel(out, "trsm", (k, k, i), (tile[k, k],), tile[k, i])
        for i, j in product(range(k + 1, tiles), repeat=2):
            _kernel(out, "gemm", (k, i, j), (tile[i, k], tile[k, j]), tile[i, j])
    return _kept(out, "a", "state")


def cholesky(tiles: int, nbytes: int) -> Graph:
    """Return the Cholesky factorization of the lower half of n x n tiles, each tile changed in place.

    Examples
    --------
    >>> len(cholesky(4, 1).ops)
    20
    """
    out, tile = _tiles(tiles, nbytes, lower=True)
    for k in range(tiles):
        _kernel(out, "potrf", (k,), (), tile[k, k])
        for i in range(k + 1, tiles):
            _kernel(out, "trsm", (k, i), (tile[k, k],), tile[i, k])
        for i in range(k + 1, tiles):
            _kernel(out, "syrk", (k, i), (tile[i, k],), tile[i, i])
            for j in range(k + 1, i):
                _kernel(out, "gemm", (k, i, j), (tile[i, k], tile[j, k]), tile[i, j])
    return _kept(out, "a", "state")


def attention(tiles: int, rows: int, dim: int, form: str, nbytes: int) -> Graph:
    """Return attention of blocks of queries with all those of keys and values, of rows of dim numbers each.

    ``eager``: scores, the maximum and sum of each row of them, then weighted sums, added up in place.
    ``flash``: a block of queries and one of keys at once, with the maximum and sum so far.

    Examples
    --------
    >>> [len(attention(3, 4, 2, form, 1).ops) for form in ("eager", "flash")]
    [21, 9]
    """
    out = Builder()
    q, k, v = ([out.tensor(f"{x}{i}", rows * dim * nbytes, "input") for i in range(tiles)] for x in "qkv")
    for i in range(tiles):
        result = out.tensor(f"o{i}", rows * dim * nbytes)
        sums = out.tensor(f"sums{i}", 2 * rows * nbytes)
        if form == "flash":
            for j in range(tiles):
                state = (result, sums)
                out.op(f"attend{i}_{j}", "attend", (q[i], k[j], v[j], *(state if j else ())), state)
            continue
        scores = [out.tensor(f"s{i}_{j}", rows * rows * nbytes) for j in range(tiles)]
        for j in range(tiles):
            out.op(f"score{i}_{j}", "score", (q[i], k[j]), (scores[j],))
        out.op(f"softmax{i}", "softmax", scores, (sums,))
        for j in range(tiles):
            added = (result,) if j else ()
            out.op(f"weight{i}_{j}", "weight", (scores[j], sums, v[j], *added), (result,))
    return _kept(out, "o", "output")


def _tiles(tiles: int, nbytes: int, lower: bool) -> tuple[Builder, dict[tuple[int, int], int]]:
    """Return the tiles of a matrix, or of its lower half."""
    out = Builder()
    return out, {
        (i, j): out.tensor(f"a{i}_{j}", nbytes, "input")
        for i in range(tiles)
        for j in range(i + 1 if lower else tiles)
    }


def _kernel(out: Builder, kind: str, place: tuple[int, ...], reads: tuple[int, ...], tile: int) -> None:
    """Add a kernel that changes a tile."""
    out.op("_".join((kind, *map(str, place))), kind, (*reads, tile), (tile,), THIRDS[kind])


def _kept(out: Builder, letter: str, kind: str) -> Graph:
    """Return the graph of which tensors are final that ops read, too: those with this letter."""
    graph = out.graph()
    tensors = (replace(x, final=True, kind=kind) if x.name.startswith(letter) else x for x in graph.tensors)
    return replace(graph, tensors=tuple(tensors))
