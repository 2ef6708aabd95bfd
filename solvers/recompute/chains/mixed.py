"""Mixed checkpointing: a slot keeps either a state to start again from, or what one backward needs.

*Statement* (Maddison, "Step-based checkpointing with high-level algorithmic differentiation", J. Comput. Sci.
82, 2024). n steps, s slots, both kinds of data of one size; the state before the first step is at hand.
m(n, s) is the least number of forwards, each with or without its data for the backward:

(1)  m(n, s) = n for n <= s + 1;  m(n, 0) = infinite for n > 1.
(2)  m(n, s) = min of 1 + m(n - 1, s - 1), which keeps the first step's data for its backward in a slot,
     and over 1 <= i < n of  i + m(n - i, s - 1) + m(i, s), which keeps the state at hand in a slot while the
     steps behind i are reversed.

The paper computes (2) by dynamic programming; the closed form, the split that attains it and the proof are
derived here. With beta(s, r) = C(s + r, s), 0 for r < 0, let r be the least number for which beta(s, r) >= n,
as in Revolve, and x = n - beta(s, r - 1). For n > s + 1 and s >= 1, so that r >= 2,

(3)  m(n, s) = r n - beta(s, r - 1) - beta(s + 1, r - 3) + b,

where b is how many terms it takes to reach a sum of x in the sequence that has s - k C(r - 2 + k, k) times,
for k = 0, 1, ..., s - 1 (which is s once, then s - 1 r - 1 times, and so on down to 1).

*Trees.* A schedule by (2) is a binary tree. Node (j, k) has j left turns (first parts, run once more) and k
right turns (slots taken) above it. Its steps run j + 1 times; a leaf has at least one of them and by (1) at
most s - k + 1. Steps kept with their data above a split may as well be kept in the leaf at the end of the
right turns below: the nodes between then have a slot more than before, and the cost is the same. So m(n, s)
is the least cost of a full binary tree whose leaves have n steps. It has at most C(j + k, k) nodes (j, k);
those with k = s are leaves. Its *room* is s + 1, and s - k more for each split of a node (j, k). All nodes
with j < r - 2 and k < s together, the root's s + 1 included, have room beta(s, r - 1).

*No tree costs less.* Charge r less for each step. Then a leaf (j, k) weighs at least (s - k + 1)(j + 1 - r)
if j + 1 < r, and j + 1 - r for each of its steps otherwise. Sum these bounds over the leaves while the tree
is built from its root, of (s + 1)(1 - r), by splits. The split of (j, k) adds 1 - (s - k)(r - 2 - j) <= 0 if
j < r - 2, and 1 if j = r - 2. Below a node (r - 1, k) only the leaf at the end of the right turns weighs
nothing; it has at most s - k steps if the node is split, so that each step beyond the room of the node
unsplit weighs 1 or more. A tree that lacks a split with j < r - 2 saves nothing by it and has less room. So
the least weight has all of these, and for x more steps splits with j = r - 2, of weight 1 and room s - k
each, or steps beyond, of weight 1 each: at least b of them in all. With sum over k < s of (s - k) C(j + k, k)
= C(s + j + 1, s - 1) and of C(j + k, k) = C(s + j, s - 1), r n and these weights add up to (3).

*It is attained.* Split all nodes with j < r - 2 and k < s, and of those with j = r - 2 the b of least k. Fill
the leaves with j < r - 1. The other b leaves have room for the rest, and it is at least b, as x exceeds the
first b - 1 terms. The left part of the root then has the nodes (j - 1, k), in all of room beta(s, r - 2), and
of the b nodes of each k those C(r - 3 + k, k) that are to the left, of the last k as many as are wanted:

(4)  i = beta(s, r - 2) + sum over k < q of (s - k) C(r - 3 + k, k) + min((s - q) C(r - 3 + q, q), y),

where q is the k of the last of the b terms, y what the terms before those of q leave of x, and C(-1, 0) = 1
(if r = 2, the root itself is the node with k = 0, and i the steps of its left leaf). It takes at most r + q
additions to find i, which is at least r - 1 and at least q + 1, and i forwards follow: the time is linear in
the length of the schedule.

*Codes* on a taped chain of l stages: F_i with its data is op i - 1, B_i is op 2 l - i, F_i without its data
is 2 l + i - 1.
"""

from __future__ import annotations

import numpy as np

from ...engines.kernels import kernel
from .segments import Codes


def least_mixed_forwards(n: int, s: int) -> int | None:
    """Return m(n, s), the runs of forwards that n steps take with s slots; None if there is no schedule.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.mixed import least_mixed_forwards
    >>> [least_mixed_forwards(10, s) for s in (0, 1, 2, 3, 9)]
    [None, 54, 26, 19, 10]
    """
    if n <= s + 1:
        return n
    if s == 0:
        return None
    r, before, beta = 1, 1, s + 1  # before: beta(s, r - 1)
    while beta < n:
        r += 1
        before, beta = beta, beta * (s + r) // r
    least = r * n - before
    if r > 2:  # beta(s + 1, r - 3) = C(s + r - 2, s + 1)
        least -= before * (r - 1) * (r - 2) // ((s + r - 1) * (s + 1))
    left, k, ways = n - before, 0, 1  # ways: C(r - 2 + k, k)
    while left > ways * (s - k):
        left -= ways * (s - k)
        least += ways
        k += 1
        ways = ways * (r - 2 + k) // k
    return least - (-left // (s - k))


def mixed(l: int, s: int) -> tuple[int, Codes] | None:  # noqa: E741
    """Return the least number of forwards of l stages with s slots and a schedule, None if there is none.

    Examples
    --------
    >>> from lowtide.solvers.recompute.chains.mixed import mixed
    >>> [mixed(10, s)[0] for s in (1, 2, 3, 9)]
    [54, 26, 19, 10]
    >>> mixed(3, 1)[1].tolist()  # F1 F2 without data, F3, B3; F1, F2, B2, B1
    [6, 7, 2, 3, 0, 1, 4, 5]
    """
    s = min(s, l)
    least = least_mixed_forwards(l, s)
    if least is None:
        return None
    codes = np.empty(least + l, np.int64)
    _emit(l, s, codes)
    return least, codes


@kernel
def _emit(l: int, s: int, codes: Codes) -> int:  # noqa: E741
    """Write the schedule."""
    stack = np.empty((s + 2, 3), np.int64)  # first step, number of steps, slots
    stack[0, 0], stack[0, 1], stack[0, 2] = 1, l, s
    top, at = 1, 0
    while top:
        top -= 1
        start, n, s = stack[top, 0], stack[top, 1], stack[top, 2]
        if n <= s + 1:  # (1)
            for i in range(start, start + n):
                codes[at] = i - 1
                at += 1
            for i in range(start + n - 1, start - 1, -1):
                codes[at] = 2 * l - i
                at += 1
            continue
        r, before, beta = 1, 1, s + 1  # before: beta(s, r - 1)
        while beta < n:
            r += 1
            before, beta = beta, beta * (s + r) // r
        part = before * (r - 1) // (s + r - 1)  # (4): beta(s, r - 2)
        left, k, ways, ways_left = n - before, 0, 1, 1  # C(r - 2 + k, k), C(r - 3 + k, k)
        while left > ways * (s - k):
            left -= ways * (s - k)
            part += ways_left * (s - k)
            k += 1
            ways = ways * (r - 2 + k) // k
            ways_left = ways * (r - 2) // (r - 2 + k)
        part += min(ways_left * (s - k), left)
        for i in range(start, start + part):
            codes[at] = 2 * l + i - 1
            at += 1
        stack[top, 0], stack[top, 1], stack[top, 2] = start, part, s
        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = start + part, n - part, s - 1
        top += 2
    return at
