"""Families of numeric algorithms, value by value or tile by tile, and of sparse factorizations."""

from __future__ import annotations

from ...options import Parameter
from ..assembly import assembly
from ..numeric import attention, cholesky, fft, lu, matmul, stencil
from .family import MOST, Family, task_family

_SIDE = Parameter(4, "tiles of a side of the matrix", least=1, most=200)
_NBYTES = {"nbytes": Parameter(1, "bytes of each value, or tile", least=1, most=2**40)}

OF_ALGORITHMS: dict[str, Family] = {
    "assembly": task_family(
        assembly,
        "assembly tree of a grid ordered by nested dissection (multifrontal method)",
        grid=Parameter("50x50", "sides of the grid", pattern=r"\d{1,7}(x\d{1,7}){0,2}"),
        leaf=Parameter(8, "points of the boxes that are not dissected further", least=1),
        stencil=Parameter("star", "neighbours: across faces, or corners too", choices=("star", "box")),
        factor=Parameter("lu", "the factorization", choices=("lu", "cholesky")),
        gflops=Parameter(10, "10^9 operations per second", least=1),
    ),
    "fft": task_family(
        fft,
        "fast Fourier transform, a butterfly for each value of a level",
        points=Parameter(8, "values of a level, a power of 2", least=2, most=2**16),
        **_NBYTES,
    ),
    "matmul": task_family(
        matmul,
        "product of matrices, an op for each product and each sum of two numbers",
        rows=Parameter(4, "rows of the first one", least=1, most=1000),
        columns=Parameter(4, "columns of the second one", least=1, most=1000),
        inner=Parameter(4, "columns of the first one", least=1, most=1000),
        **_NBYTES,
    ),
    "stencil": task_family(
        stencil,
        "line of cells over time, each made of its neighbours before",
        cells=Parameter(8, "length of the line", least=1, most=MOST),
        steps=Parameter(4, "rows that are made", least=1, most=MOST),
        radius=Parameter(1, "neighbours on each side", least=0, most=1000),
        **_NBYTES,
    ),
    "lu": task_family(lu, "LU factorization of a matrix of tiles, without pivoting", tiles=_SIDE, **_NBYTES),
    "cholesky": task_family(
        cholesky, "Cholesky factorization of the lower half of a matrix of tiles", tiles=_SIDE, **_NBYTES
    ),
    "attention": task_family(
        attention,
        "attention of blocks of queries with blocks of keys and values",
        tiles=Parameter(4, "blocks of rows", least=1, most=500),
        rows=Parameter(64, "rows of a block", least=1, most=MOST),
        dim=Parameter(64, "numbers of a row", least=1, most=MOST),
        form=Parameter(
            "flash", "flash: both products in one op; eager: scores in between", choices=("flash", "eager")
        ),
        nbytes=Parameter(2, "bytes of a number", least=1, most=16),
    ),
}
"""By name, with what the arguments of their functions mean."""
