"""Longest chains of durations from one op to others, compiled."""

from __future__ import annotations

import numpy as np

from ....models.arrays import Integers
from ...engines.kernels import kernel


@kernel
def chain_lengths(
    duration: Integers, after_at: Integers, after: Integers, source: int, until: int
) -> Integers:
    """Return, for ops `source` to `until`, the longest chain from the start of `source` to the op's start.

    -1 where there is no chain. Edges lead to larger indices, so one sweep is enough.
    """
    length = np.full(until - source + 1, np.int64(-1))
    length[0] = 0
    for i in range(source, until + 1):
        if length[i - source] >= 0:
            end = length[i - source] + duration[i]
            for x in range(after_at[i], after_at[i + 1]):
                if after[x] <= until and length[after[x] - source] < end:
                    length[after[x] - source] = end
    return length
