"""Mixed checkpointing: a slot keeps either a state to start again from, or what one backward needs.

*Statement* (Maddison, "Step-based checkpointing with high-level algorithmic differentiation", J. Comput. Sci.
82, 2024). n steps, s slots, both kinds of data of one size; the state before the first step is at hand.
m(n, s) is the least number of forwards, each with or without its data for the backward:

(1)  m(n, s) = n for n <= s + 1;  m(n, 0) = infinite for n > 1.
(2)  m(n, s) = min of 1 + m(n - 1, s - 1), which keeps the first step's data for its backward in a slot,
     and over 1 <= i < n of  i + m(n - i, s - 1) + m(i, s), which keeps the state at hand in a slot while the
     steps behind i are reversed.

Time O(n^2 s), memory O(n s). m grows with n (a schedule for n steps has one for fewer), so that a block of
values of i is passed over if its least i and its fewest steps behind are no better than what is known.

*Codes* on a taped chain of l stages: F_i with its data is op i - 1, B_i is op 2 l - i, F_i without its data
is 2 l + i - 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .segments import Codes

BLOCK = 32
"""Values of i that are looked at together."""

NEVER = 2**60
"""More than any number of forwards; the sum of two is no overflow."""


def mixed(l: int, s: int) -> tuple[int, Codes] | None:  # noqa: E741
    """Return the least number of forwards of l stages with s slots and a schedule, None if there is none.

    Examples
    --------
    >>> from lowtide.solvers.algorithms.recompute.chains.mixed import mixed
    >>> [mixed(10, s)[0] for s in (1, 2, 3, 9)]
    [54, 26, 19, 10]
    """
    s = min(s, l)
    table, splits = _table(l, s)
    if table[s, l] >= NEVER:
        return None
    codes = np.empty(table[s, l] + l, np.int64)
    _emit(l, s, splits, codes)
    return int(table[s, l]), codes


@njit(cache=True, nogil=True)
def _table(l, s):  # type: ignore[no-untyped-def]  # noqa: E741
    """Return m by slots and stages, and the i that it takes: 0 keeps the data of the first step."""
    table = np.full((s + 1, l + 1), NEVER)
    splits = np.zeros((s + 1, l + 1), np.int32)
    for k in range(s + 1):
        for n in range(1, l + 1):
            if n <= k + 1:
                table[k, n] = n  # (1)
                continue
            if k == 0:
                continue
            best, split = 1 + table[k - 1, n - 1], 0  # (2)
            near = max(splits[k, n - 1], 1)
            for i in range(near, min(near + 2, n)):
                value = i + table[k - 1, n - i] + table[k, i]
                if value < best:
                    best, split = value, i
            for low in range(1, n, BLOCK):
                high = min(low + BLOCK, n)
                if low + table[k - 1, n - high + 1] + table[k, low] >= best:
                    continue
                for i in range(low, high):
                    value = i + table[k - 1, n - i] + table[k, i]
                    if value < best:
                        best, split = value, i
            table[k, n], splits[k, n] = best, split
    return table, splits


@njit(cache=True, nogil=True)
def _emit(l, s, splits, codes):  # type: ignore[no-untyped-def]  # noqa: E741
    """Write the schedule; a stack row with no stages stands for the backward of a stage."""
    stack = np.empty((2 * l + 2, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 1, l, s
    top, at = 1, 0
    while top:
        top -= 1
        start, n, k = stack[top, 0], stack[top, 1], stack[top, 2]
        if n == 0:
            codes[at] = 2 * l - start
            at += 1
            continue
        split = splits[k, n]
        if split == 0:  # with its data, the others, its backward
            codes[at] = start - 1
            at += 1
            stack[top, 0], stack[top, 1] = start, 0
            top += 1
            if n > 1:
                stack[top, 0], stack[top, 1], stack[top, 2] = start + 1, n - 1, k - 1
                top += 1
            continue
        for i in range(start, start + split):
            codes[at] = 2 * l + i - 1
            at += 1
        stack[top, 0], stack[top, 1], stack[top, 2] = start, split, k
        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = start + split, n - split, k - 1
        top += 2
    return at
