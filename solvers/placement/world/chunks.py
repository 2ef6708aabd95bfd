"""How large the pieces are in which planner and simulator move tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....models.arrays import Integers
from ....models.problems.placement import Placement

FINEST = 2**15
"""No chunk is less than this part of the device, or of all tensors if that is less."""
MOST_CHUNKS = 2**19
"""Chunks of all tensors together, at most: the kernels' tables have a row for each."""
MOST_BYTES = 2**62 // 10**6
"""Of a chunk: the kernels compute in 64 bits, in bytes times a million per kB/s."""


def too_large(problem: Placement) -> str:
    """Return why the kernels cannot compute the time of every copy."""
    sizes = [t.nbytes for t in problem.graph.tensors]
    most = max(max(sizes, default=0) if problem.whole else 0, sum(sizes) // MOST_CHUNKS)
    return "" if most <= MOST_BYTES else f"found copies of {most} bytes, expected at most {MOST_BYTES}"


def coarse_enough(problem: Placement, chunk: int) -> int:
    """Return the bytes of the largest chunk: as wanted, or more where that were too many chunks.

    Examples
    --------
    >>> import lowtide as lt
    >>> ops = (lt.Op(name="a", writes=(0,)),)
    >>> graph = lt.Graph(name="g", tensors=(lt.Tensor(name="x", nbytes=2**53),), ops=ops)
    >>> coarse_enough(lt.Placement(graph, lt.Machine.single()), 2**20) == 2**38
    True
    """
    sizes = [t.nbytes for t in problem.graph.tensors]
    capacity = problem.machine.tiers[0].capacity
    memory = sum(sizes) if capacity is None else min(capacity, sum(sizes))
    chunk = max(chunk, memory // FINEST, sum(sizes) // MOST_CHUNKS)
    return max(1, min(chunk, max(sizes, default=1), MOST_BYTES))


class Chunks(NamedTuple):
    """Tensors in chunks.

    Attributes
    ----------
    first
        Per tensor, and one more: its first chunk.
    owner, low, length
        Per chunk: the tensor, its first byte within that, its bytes.
    """

    first: Integers
    owner: Integers
    low: Integers
    length: Integers


def cut(size: Integers, chunk: int) -> Chunks:
    """Return tensors cut into the fewest chunks of at most `chunk` bytes each, by a byte larger or smaller.

    Examples
    --------
    >>> cut(np.array([5, 0]), 2).length.tolist()
    [2, 2, 1, 0]
    """
    count = np.maximum(1, -(-size // chunk))
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
    owner = np.repeat(np.arange(len(size), dtype=np.int64), count)
    number = np.arange(len(owner), dtype=np.int64) - first[owner]
    part, longer = (size // count)[owner], (size % count)[owner]
    return Chunks(first, owner, number * part + np.minimum(number, longer), part + (number < longer))
