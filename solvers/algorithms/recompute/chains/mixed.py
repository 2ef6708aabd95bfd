"""Mixed checkpointing: a slot keeps either a state to start again from, or what one backward needs.

*Statement* (Maddison, "Step-based checkpointing with high-level algorithmic differentiation", J. Comput. Sci.
82, 2024). n steps, s slots, both kinds of data of one size; the state before the first step is at hand.
m(n, s) is the least number of forwards, each with or without its data for the backward:

(1)  m(n, s) = n for n <= s + 1;  m(n, 0) = infinite for n > 1.
(2)  m(n, s) = min of 1 + m(n - 1, s - 1), which keeps the first step's data for its backward in a slot,
     and over 1 <= i < n of  i + m(n - i, s - 1) + m(i, s), which keeps the state at hand in a slot while the
     steps behind i are reversed.

Time and memory O(n^2 s) and O(n s).

*Codes* on a taped chain of l stages: F_i with its data is op i - 1, B_i is op 2 l - i, F_i without its data
is 2 l + i - 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .segments import Codes

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
    table = _table(l, s)
    if table[l, s] >= NEVER:
        return None
    codes = np.empty(table[l, s] + l, np.int64)
    _emit(l, s, table, codes)
    return int(table[l, s]), codes


@njit(cache=True, nogil=True)
def _table(l, s):  # type: ignore[no-untyped-def]  # noqa: E741
    """Return m by stages and slots."""
    table = np.full((l + 1, s + 1), NEVER)
    for n in range(1, l + 1):
        for k in range(s + 1):
            if n <= k + 1:
                table[n, k] = n  # (1)
                continue
            if k == 0:
                continue
            best = 1 + table[n - 1, k - 1]  # (2)
            for i in range(1, n):
                value = i + table[n - i, k - 1] + table[i, k]
                if value < best:
                    best = value
            table[n, k] = best
    return table


@njit(cache=True, nogil=True)
def _emit(l, s, table, codes):  # type: ignore[no-untyped-def]  # noqa: E741
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
        split = 0
        if n > k + 1 and table[n, k] != 1 + table[n - 1, k - 1]:
            for i in range(1, n):
                if table[n, k] == i + table[n - i, k - 1] + table[i, k]:
                    split = i
                    break
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
