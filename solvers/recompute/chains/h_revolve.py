"""H-Revolve: checkpoints of a chain in several tiers with costs of writing and reading, by dynamic programs.

*Statement* (Herrmann and Pallez, "H-Revolve: a framework for adjoint computation on synchronous hierarchical
platforms", ACM TOMS 46, 2020). l forwards of uf each, l + 1 backwards of ub each; tier k = 0 .. K-1 has c_k
slots, a checkpoint is written to it in w_k and read from it in r_k; tier 0 is the memory, w_0 = r_0 = 0 here
(operands in memory are used in place). Everything is one after another.

*Programs.* With x_0 in work, O_k(l, m) is the least time to reverse l forwards with m slots free in tier k
and all of those below; O'_k(l, m) if x_0 is in one of the m slots of tier k already.

(1)  O_k(0, m) = O'_k(0, m) = ub;  O_0(l, 0) = infinite for l > 0.
(2)  O'_0(l, 1) = (l + 1) ub + l (l + 1) / 2 uf.
(3)  O'_0(l, m) = min over 1 <= j <= l of  j uf + O_0(l - j, m - 1) + O'_0(j - 1, m), and (2).
(4)  O_0(l, m) = O'_0(l, m).
(5)  O'_k(l, m) = min of O_{k-1}(l, c_{k-1}) and over j of  j uf + O_k(l - j, m - 1) + r_k + O'_k(j - 1, m).
(6)  O_k(l, m) = min of O_{k-1}(l, c_{k-1}) and w_k + O'_k(l, m) (m > 0).

The answer is O_{K-1}(l, c_{K-1}), in O(l^2 sum c_k) steps. (The paper has r_0 and w_0 as well.) O and O' grow
with l (a schedule for l forwards has one for fewer), so that a block of values of j is passed over if its
least j and its fewest forwards behind are no better than what is known. Slots that are not read any more are
free again: the schedule's discards follow from its reads.

*Codes.* F_i is op i, B_i op 2 l - i; 2 l + 1 + 2 (i K + k) writes x_i from memory to tier k, the next one
reads it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ...engines.arrays import Rows
from ...engines.kernels import kernel
from .segments import Codes

BELOW = -1
"""In place of j: nothing more in this tier."""

BLOCK = 32
"""Values of j that are looked at together."""

NEVER = 2**60
"""More than any time; the sum of two is no overflow."""


def h_revolve(
    l: int,  # noqa: E741
    slots: Sequence[int],
    write: Sequence[int],
    read: Sequence[int],
    forward: int = 1,
    backward: int = 1,
) -> tuple[int, Codes] | None:
    """Return the least time and a schedule that takes it, None if there is none (no slots in memory).

    Parameters
    ----------
    slots
        c_0 .. c_{K-1}.
    write, read
        w and r of each tier in ns; the first ones, of the memory, are 0.
    forward, backward
        uf and ub in ns.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.h_revolve import h_revolve
    >>> cost, schedule = h_revolve(9, (2, 2), (0, 1), (0, 1))
    >>> cost, len(schedule)
    (28, 28)
    """
    counts = np.array([min(c, l + 1) for c in slots], dtype=np.int64)
    costs = np.array([write, read], dtype=np.int64)
    free, splits = _tables(l, counts, costs, forward, backward)
    cost = int(free[len(slots) - 1, l, counts[-1]])
    if cost >= NEVER:
        return None
    # Forwards and backwards, and at most one transfer for each subproblem: at most l of each tier, and reads.
    most = cost // min(forward, backward) + 2 * (l + 1) * (len(slots) + 1)
    codes = np.empty(most, np.int64)
    end = _emit(l, counts, free, splits, codes)
    return cost, codes[:end]


Cube = Annotated[NDArray[np.int64], 3]
Splits = Annotated[NDArray[np.int32], 3]


@kernel
def _tables(
    l: int,  # noqa: E741
    counts: Codes,
    costs: Rows,
    forward: int,
    backward: int,
) -> tuple[Cube, Splits]:
    """Return O by tier, forwards and slots, and the j that O' takes; 0 for (2), BELOW for the tier below."""
    tiers, most = len(counts), counts.max()
    free = np.full((tiers, l + 1, most + 1), NEVER)
    stored = np.full((tiers, l + 1, most + 1), NEVER)
    splits = np.zeros((tiers, l + 1, most + 1), np.int32)
    for k in range(tiers):
        for m in range(counts[k] + 1):
            free[k, 0, m] = stored[k, 0, m] = backward  # (1)
    for n in range(1, l + 1):
        for k in range(tiers):
            below = free[k - 1, n, counts[k - 1]] if k else NEVER
            if k:
                free[k, n, 0] = below
            for m in range(1, counts[k] + 1):
                best, split = below, BELOW
                if k == 0:
                    best = (n + 1) * backward + n * (n + 1) // 2 * forward  # (2)
                    split = 0
                again = costs[1, k]
                if k or m > 1:
                    for low in range(1, n + 1, BLOCK):  # (3), (5)
                        high = min(low + BLOCK, n + 1)
                        least = low * forward + free[k, n - high + 1, m - 1] + again + stored[k, low - 1, m]
                        if least >= best:
                            continue
                        for j in range(low, high):
                            value = j * forward + free[k, n - j, m - 1] + again + stored[k, j - 1, m]
                            if value < best:
                                best, split = value, j
                stored[k, n, m], splits[k, n, m] = best, split
                free[k, n, m] = min(below, costs[0, k] + best) if k else best  # (4), (6)
    return free, splits


@kernel
def _emit(l: int, counts: Codes, free: Cube, splits: Splits, codes: Codes) -> int:  # noqa: E741
    """Write the schedule; return its length."""
    tiers = len(counts)
    in_work, in_tier, to_read = 0, 1, 2
    # A subproblem: what x_start is, the tier, start, forwards, slots.
    stack = np.empty((2 * (l + 2) * (tiers + 1), 5), np.int64)
    top = 0
    stack[0] = np.array([in_work, tiers - 1, 0, l, counts[tiers - 1]])
    top, at = 1, 0
    while top:
        top -= 1
        state, k, start, n, m = stack[top]
        transfer = 2 * l + 1 + 2 * (start * tiers + k)
        if state == to_read:
            if k:
                codes[at] = transfer + 1
                at += 1
            state = in_tier
        if n == 0:
            codes[at] = 2 * l - start
            at += 1
            continue
        if state == in_work:
            if k and (m == 0 or free[k, n, m] == free[k - 1, n, counts[k - 1]]):
                stack[top] = np.array([in_work, k - 1, start, n, counts[k - 1]])
                top += 1
                continue
            if k:
                codes[at] = transfer
                at += 1
        split = splits[k, n, m]
        if split == BELOW:
            stack[top] = np.array([in_work, k - 1, start, n, counts[k - 1]])
            top += 1
            continue
        if split == 0:
            for j in range(n, -1, -1):
                for i in range(start, start + j):
                    codes[at] = i
                    at += 1
                codes[at] = 2 * l - start - j
                at += 1
            continue
        for i in range(start, start + split):
            codes[at] = i
            at += 1
        stack[top] = np.array([to_read, k, start, split - 1, m])
        stack[top + 1] = np.array([in_work, k, start + split, n - split, m - 1])
        top += 2
    return at
