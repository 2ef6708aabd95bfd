r"""Modes of convolutions, one for each algorithm: its workspace, and its time by the roofline.

A convolution of N samples with C channels in g groups makes K channels. Its *result* (the output, P by Q) and
its *image* (the input with its padding) belong to kernels of R by S; :math:`W = N K P Q \cdot C R S / g`
multiply-adds. The gradients by the data and by the weights are convolutions of the same sizes: two of the
three arrays (data, kernels, result) make the third. An algorithm issues *instructions* (of a multiply-add, an
addition or a multiplication each) and takes *workspace*; arrays have 32-bit values.

``direct``
    2 W instructions, no workspace. Each multiply-add loads a value from on-chip memory, which brings half as
    many as the machine multiplies: 128 bytes per clock and multiprocessor, for 64 multiply-adds (NVIDIA,
    A100 Tensor Core GPU Architecture, 2020).
``implicit GEMM``
    No workspace (Chetlur et al., cuDNN, 2014): a matrix product whose operands are laid out on chip, tile by
    tile of 128 by 32. It makes whole tiles, a matrix a group: for the result :math:`N P Q \times K / g`, for
    the data :math:`N H W \times C / g`, for the weights :math:`C R S / g \times K / g`. W instructions, times
    whole tiles over the matrix.
``FFT``
    (Mathieu, Henaff and LeCun, 2014; Vasilache et al., 2015.) Of stride and dilation 1, in one group. The
    sides of the image grow to powers of two, :math:`F \times G`, 256 at most. Each of the :math:`N C + C K +
    N K` planes is transformed once, with :math:`\frac 5 2 F G \log_2 (F G)` instructions (half of the
    customary count for complex values), and has :math:`F (G / 2 + 1)` complex values of workspace; at each of
    these frequencies complex matrices are multiplied, :math:`4 N C K` instructions.
``Winograd F(2 x 2, 3 x 3)``
    (Lavin and Gray, 2016, section 4.) Kernels of 3 by 3, of stride and dilation 1, in one group; not of the
    gradient by the weights. T tiles of 2 by 2 of what is made, 4 by 4 of what is read: 16 products for each
    tile and pair of channels; 32 instructions for a tile of what is read, 28 for a kernel, 24 for a tile of
    what is made. Fused: only the transformed kernels are workspace, 16 C K values.
``Winograd F(4 x 4, 3 x 3)``
    Of all three parts, in tiles of 4 by 4 from 6 by 6: 36 products, and 144, 72 and 100 instructions. Not
    fused: all three transformed arrays are workspace, :math:`36 (T C + C K + T K)` values. The gradient by
    the weights has as many products, and the transposed transforms, which take as many instructions here.

Time. The roofline of `roofline`: memory traffic is that of the operands, and the workspace twice, once
written and once read. The modes of an op are those that no other one beats in both workspace and time, by
rising workspace: the first one is memory-optimal, the last one fastest.

Left out: explicit GEMM, which on this roofline is nowhere better than implicit GEMM; tiled FFT; launches and
the efficiency of kernels. What a library measures differs, but it trades the same things.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ...models.op import Mode
from ...models.work import Work
from .roofline import duration_ns

RESULT, DATA, WEIGHTS = "result", "data", "weights"
"""What a convolution or its gradients make."""

VALUE_BYTES = 4
"""Bytes of an element: 32-bit floating point numbers."""
TILE = 128, 32
"""Rows and columns of the tiles of a product of matrices: a part of a tile takes the time of a whole one."""
LARGEST_FFT = 256
"""Elements of a padded side up to which there is an algorithm by FFT."""

_PLANAR = 2
"""Dimensions of a kernel that FFT and Winograd have algorithms for."""
_KERNEL_OF_WINOGRAD = (3, 3)
"""Sides of the only kernel that the Winograd algorithms here have."""


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """The sizes of a convolution, in elements.

    Attributes
    ----------
    samples, inputs, outputs, groups
        N, C, K, g.
    image, result, kernel
        Sides of the input without padding, of the output and of a kernel: H and W, P and Q, R and S.
    plain
        Whether stride and dilation are 1.
    """

    samples: int
    inputs: int
    outputs: int
    groups: int
    image: tuple[int, ...]
    result: tuple[int, ...]
    kernel: tuple[int, ...]
    plain: bool

    @property
    def multiply_adds(self) -> int:
        """W."""
        window = prod(self.kernel) * (self.inputs // self.groups)
        return self.samples * self.outputs * prod(self.result) * window


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm needs: instructions, and bytes of workspace."""

    name: str
    instructions: int
    workspace: int = 0


def algorithms(conv: Convolution, part: str) -> Iterator[Algorithm]:
    """Yield the algorithms that serve.

    Parameters
    ----------
    conv
        The convolution.
    part
        `RESULT`, or the gradient by `DATA` or `WEIGHTS`.

    Examples
    --------
    >>> sides = {"image": (28, 28), "result": (28, 28), "kernel": (3, 3)}
    >>> conv = Convolution(samples=8, inputs=64, outputs=64, groups=1, plain=True, **sides)
    >>> [x.instructions // 10**6 for x in algorithms(conv, RESULT)]
    [462, 231, 202, 108, 64]
    >>> [x.workspace >> 10 for x in algorithms(conv, RESULT)]
    [0, 0, 21760, 256, 7632]
    """
    n, c, k = conv.samples, conv.inputs, conv.outputs
    yield Algorithm("direct", 2 * conv.multiply_adds)
    inputs, outputs = c // conv.groups, k // conv.groups
    rows, columns = {
        RESULT: (n * prod(conv.result), outputs),
        DATA: (n * prod(conv.image), inputs),
        WEIGHTS: (inputs * prod(conv.kernel), outputs),
    }[part]
    tiled = _whole(rows, TILE[0]) * _whole(columns, TILE[1])
    yield Algorithm("implicit GEMM", -(-conv.multiply_adds * tiled // max(1, rows * columns)))
    if not conv.plain or conv.groups > 1 or len(conv.kernel) != _PLANAR:
        return
    sides = [1 << (p + r - 2).bit_length() for p, r in zip(conv.result, conv.kernel, strict=True)]
    if max(sides) <= LARGEST_FFT:
        points, planes = prod(sides), n * c + c * k + n * k
        values = sides[0] * (sides[1] // 2 + 1)  # at least: sides of 1 have one
        transforms = planes * (5 * points * (points.bit_length() - 1) // 2)
        yield Algorithm("FFT", transforms + 4 * n * c * k * values, planes * values * 2 * VALUE_BYTES)
    if conv.kernel != _KERNEL_OF_WINOGRAD:
        return
    made = conv.image if part == DATA else conv.result
    read, written = (k, c) if part == DATA else (c, k)
    if part != WEIGHTS:
        tiles = n * _tiles(made, 2)
        transforms = 32 * tiles * read + 28 * c * k + 24 * tiles * written
        yield Algorithm("Winograd F(2 x 2, 3 x 3)", 16 * tiles * c * k + transforms, 16 * c * k * VALUE_BYTES)
    tiles = n * _tiles(made, 4)
    transforms = 144 * tiles * read + 72 * c * k + 100 * tiles * written
    values = 36 * (tiles * c + c * k + tiles * k)
    yield Algorithm("Winograd F(4 x 4, 3 x 3)", 36 * tiles * c * k + transforms, values * VALUE_BYTES)


def modes(conv: Convolution, part: str, nbytes: int, dtype: str = "fp32") -> tuple[Mode, ...]:
    """Return a mode for each algorithm that no other one beats in both workspace and time, by workspace.

    Parameters
    ----------
    conv, part
        As of `algorithms`.
    nbytes
        Bytes of the op's operands.
    dtype
        Data type of the arithmetic; workspaces have 32-bit values all the same.
    """
    listed: list[Mode] = []
    for workspace, ns, moved, instructions in sorted(
        (x.workspace, duration_ns(moved, x.instructions), moved, x.instructions)
        for x in algorithms(conv, part)
        for moved in [nbytes + 2 * x.workspace]
    ):
        if not listed or ns < listed[-1].duration_ns:
            work = Work(nbytes=moved, multiply_adds=instructions, dtype=dtype)
            listed.append(Mode(duration_ns=ns, workspace=workspace, work=(work,)))
    return tuple(listed)


def _whole(size: int, tile: int) -> int:
    """Return a size up to the end of its last tile."""
    return -(-size // tile) * tile


def _tiles(sides: tuple[int, ...], side: int) -> int:
    return prod(-(-x // side) for x in sides)
