"""Hand strategies for plain chains: some x_i are kept from the first sweep, the rest is computed again.

Let 0 = p_1 < … < p_c <= l be the places of the x_i that the first sweep keeps: segment k goes from p_k to the
place before p_{k+1}, the last one to l. Segments are reversed one after another, the last one first; inside a
segment the backwards find their x_i either

* *stored*: one more sweep through the segment keeps all of it (none for the last segment, which the first
  sweep keeps whole); one forward more for every place but the first of each segment, or
* *recomputed* from x_{p_k} for each backward: k (k - 1) / 2 forwards for a segment of k places.

All x_i kept: c = l + 1. Nothing but x_0: c = 1, recomputed. The strategy "hybrid" of slides on the subject
has equal segments, recomputed. Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost"
(2016), section 4: about sqrt(l + 1) segments, stored.

A schedule is the sequence of ops: F_i is op i, B_i is op 2 l - i.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]


def recompute_in_segments(l: int, places: Sequence[int]) -> Codes:  # noqa: E741
    """Return the schedule whose segments are recomputed for each backward.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.segments import recompute_in_segments
    >>> recompute_in_segments(2, [0]).tolist()  # F0 F1 B2, F0 B1, B0
    [0, 1, 2, 0, 3, 4]
    """
    ops = list(range(places[-1]))
    for k in reversed(range(len(places))):
        begin, end = places[k], places[k + 1] if k + 1 < len(places) else l + 1
        for i in reversed(range(begin, end)):
            ops += range(begin, i)
            ops.append(2 * l - i)
    return np.array(ops, dtype=np.int64)


def store_in_segments(l: int, places: Sequence[int]) -> Codes:  # noqa: E741
    """Return the schedule whose segments are stored whole while they are reversed.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.segments import store_in_segments
    >>> store_in_segments(3, [0, 2]).tolist()  # F0 F1 F2 B3 B2, F0 B1 B0
    [0, 1, 2, 3, 4, 0, 5, 6]
    """
    ops = list(range(places[-1]))
    for k in reversed(range(len(places))):
        begin, end = places[k], places[k + 1] if k + 1 < len(places) else l + 1
        ops += range(begin, end - 1)
        ops += [2 * l - i for i in reversed(range(begin, end))]
    return np.array(ops, dtype=np.int64)


def equal_places(l: int, count: int) -> list[int]:  # noqa: E741
    """Return the first places of as many segments of about equal length, at most one a place."""
    count = max(1, min(count, l + 1))
    return sorted({k * l // count for k in range(count)})


def sqrt_places(l: int) -> list[int]:  # noqa: E741
    """Return the first places of segments of ceil(sqrt(l + 1)) places."""
    length = isqrt(l) + 1
    return list(range(0, l + 1, length))
