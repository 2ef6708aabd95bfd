"""Revolve: the least forwards to reverse a chain with s checkpoints in memory, and a schedule in linear time.

*Statement* (Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000). A chain of n = l + 1 steps,
x_0 in one of s slots; x_i can be kept in a free slot when it is reached; step i is reversed from x_i when all
later ones have been. The least number of forwards is, with beta(s, r) = C(s + r, s) and r the least number
for which beta(s, r) >= n,

    t(n, s) = r n - beta(s + 1, r - 1),     t(n, s) = min over j: j + t(n - j, s - 1) + t(j, s).

Here t counts the runs of F_0 .. F_{l-1}; the forward that the reversal of a step takes once more is inside
B_i. (Tools that count it, such as checkpoint_schedules, report n + t.)

*Schedule.* j forwards, the n - j steps behind with s - 1 slots, the j steps before with s. Every j with
beta(s, r-2) <= j <= beta(s, r-1) and beta(s-1, r-1) <= n - j <= beta(s-1, r) is best (Griewank 1992); the
kernel takes the least. It finds r in r additions and emits at least r forwards for each reversal on average,
so that the time is linear in the length of the schedule.

*Memory.* Beside the slots, x_i in work and y_{i+1}; with `coexist` also what an op makes of them.
"""

from __future__ import annotations

import numpy as np

from ...engines.kernels import kernel
from .segments import Codes


def least_forwards(n: int, s: int) -> int:
    """Return t(n, s), the runs of forwards that n steps take with s slots.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.revolve import least_forwards
    >>> least_forwards(6, 2), [10 + least_forwards(10, s) for s in (1, 2, 3)]
    (8, [55, 30, 25])
    """
    r, beta = 0, 1
    while beta < n:
        r += 1
        beta = beta * (s + r) // r
    # beta(s + 1, r - 1) = C(s + r, s + 1) = C(s + r, s) r / (s + 1)
    return r * n - beta * r // (s + 1)


def revolve(l: int, s: int) -> Codes:  # noqa: E741
    """Return the schedule of a chain of l forwards with s >= 1 slots, as ops: F_i is op i, B_i op 2 l - i.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.revolve import revolve
    >>> revolve(2, 2).tolist()  # F0 F1 B2 B1, B0
    [0, 1, 2, 3, 4]
    """
    n, s = l + 1, min(s, l + 1)
    ops = np.empty(n + least_forwards(n, s), np.int64)
    _emit(0, n, s, l, ops, 0)
    return ops


@kernel
def _emit(start: int, n: int, s: int, l: int, ops: Codes, at: int) -> int:  # noqa: E741
    """Write the reversal of n steps from `start` with s slots, x_start in one of them; return the end."""
    stack = np.empty((s + 2, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = start, n, s
    top = 1
    while top:
        top -= 1
        start, n, s = stack[top, 0], stack[top, 1], stack[top, 2]
        if s == 1:
            for k in range(n - 1, -1, -1):
                for i in range(start, start + k):
                    ops[at] = i
                    at += 1
                ops[at] = 2 * l - start - k
                at += 1
            continue
        if n == 1:
            ops[at] = 2 * l - start
            at += 1
            continue
        r, beta = 0, 1  # beta(s, r)
        while beta < n:
            r += 1
            beta = beta * (s + r) // r
        before = beta * r // (s + r)  # beta(s, r - 1)
        twice = before * (r - 1) // (s + r - 1)  # beta(s, r - 2)
        j = max(1, twice, n - (beta - before))  # beta(s - 1, r) = beta(s, r) - beta(s, r - 1)
        for i in range(start, start + j):
            ops[at] = i
            at += 1
        stack[top, 0], stack[top, 1], stack[top, 2] = start, j, s
        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = start + j, n - j, s - 1
        top += 2
    return at
