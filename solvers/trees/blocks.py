r"""Dominant orders where the memory is additive: blocks, put in series and in parallel.

**Data.** Ops v with a *change* :math:`a_v` of the memory across them and a *height* :math:`h_v`, what the
peak must be above the memory before them. A sequence that starts at memory m is at m plus the changes so
far; its change is their sum, its height the largest of (changes before v) + h_v.

**Domination.** An order S of some ops dominates an order T of the same ops if there is a monotone map f
from the cuts of T (places between ops) to those of S, which maps first to first and last to last, such that
S has at most the memory of T at f(i), and from f(i - 1) to f(i) needs at most the peak of the i-th op of T.
Then S can replace T in every schedule around them whose ops precede all of T, follow all, or are free
of all: where the i-th op of T runs, run S from f(i - 1) to f(i). No peak rises. Domination is transitive.

**Blocks.** A block (h, a) is a sequence with height h and change a, and an op that attains h with no cut
before it below 0, none after it below a. Single ops are blocks.

*1. Blocks run at once.* Given an order that has a block's ops in their sequence with others between, let none
of the block's ops run before the one that attains h, and all at that moment. This dominates: at every cut the
memory is at most what it was, and the block, from a memory no higher, needs its height.

*2. Sorted.* Blocks with a < 0 (*falls*) come before those with a >= 0 (*climbs*); falls by increasing h,
climbs by decreasing h - a. Let x stand directly before y although y belongs before x. Then x y can be
made one block (h, a) = (max(h_x, a_x + h_y), a_x + a_y):

* both falls, h_x > h_y: then h = h_x, and all that follows is above a since a_y < 0;
* x climbs, y falls: if h = h_x as before; else h is that of y, and all that precedes is at least 0;
* both climb, h_x - a_x < h_y - a_y: then h_x < a_x + h_y - a_y, so h is that of y, as before.

So any sequence of blocks becomes a sorted one of the same ops (the *canonical* form).

*3. Exchange.* If in an order x stands directly before y, although y belongs before x, both at once, then y x
dominates x y. Let m be the memory before them.

* Both fall, h_y <= h_x: when x runs, run both: the height is max(h_y, a_y + h_x) <= h_x, and the memory
  m + a_x + a_y is at most m + a_x.
* y falls, x climbs: if h_y <= h_x, the same. Else, when x runs, run nothing, which leaves m <= m + a_x; when
  y runs, run both: a_y + h_x < h_x < h_y <= a_x + h_y.
* Both climb, h_y - a_y >= h_x - a_x: when x runs, run nothing; when y runs, run both: h_y <= a_x + h_y, and
  a_y + h_x <= a_x + h_y.

**Theorem.** If S and S' are sorted sequences of blocks that dominate every order of two sets of ops, then

* *in series*, when all of the first precede all of the second: S S', made canonical, dominates every order;
* *in parallel*, when none precedes one of the other set: the blocks of both, merged as sorted, do.

In series every order is T T', and S S' dominates it. In parallel an order induces T and T'; it is dominated
by that with S in the place of T, since the others are free of all of T, then by that with S' in the place
of T'; then with blocks run at once (1); and exchanges (3) sort these: as each sequence is sorted, an exchange
only concerns blocks of different ones. So by induction a series-parallel order of precedence has a dominant
order, whose peak is the least.

Source: the merge by hill less valley is that of J. W. H. Liu, "An application of generalized tree pebbling to
sparse matrix factorization", SIAM J. Algebraic Discrete Methods 8 (1987), for trees; series-parallel: H. M.
Abdel-Wahab, T. Kameda, "Scheduling to minimize maximum cumulative cost subject to series-parallel
precedence constraints", Operations Research 26 (1978); E. Kayaaslan, T. Lambert, L. Marchal, B. Uçar,
"Scheduling series-parallel task graphs to minimize peak memory", TCS 707 (2018), who schedule what comes
before and after a minimum cut, here the falls and the climbs. The papers were not at hand; proof and code are
this project's own.

Lists of blocks are merged the smaller into the larger, so that n ops cost O(n log^2 n) comparisons; the
moves of list elements are quadratic in the worst case, and fast.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

Key = tuple[bool, int]
Rope = Any
"""An op, or a pair of ropes, the first to run first."""

RATIO = 16
"""A list that is so many times shorter is inserted one by one, else both are sorted."""


class TreeBlock(NamedTuple):
    """A block: what sorts it, its height and change in bytes, its ops."""

    key: Key
    height: int
    change: int
    ops: Rope


Blocks = list[TreeBlock]
"""A sorted sequence of blocks. The functions here take it over: it is not to be used afterwards."""

_key = itemgetter(0)


def block(height: int, change: int, ops: Rope) -> TreeBlock:
    """Return a block, its key made from height and change."""
    return TreeBlock((True, change - height) if change >= 0 else (False, height), height, change, ops)


def in_series(first: Blocks, second: Blocks) -> Blocks:
    """Return the canonical form of one sequence after another.

    Examples
    --------
    >>> from lowtide.solvers.trees.blocks import block, in_series
    >>> [b[1:] for b in in_series([block(5, 1, "x")], [block(3, -2, "y")])]
    [(5, -1, ('x', 'y'))]
    """
    if not first or not second:
        return first or second
    if _key(first[-1]) > _key(second[0]):
        joined, begin = _joined(first.pop(), second[0]), 1
        while True:
            if first and _key(first[-1]) > _key(joined):
                joined = _joined(first.pop(), joined)
            elif begin < len(second) and _key(joined) > _key(second[begin]):
                joined = _joined(joined, second[begin])
                begin += 1
            else:
                break
        first.append(joined)
        del second[:begin]
    if len(first) >= len(second):
        first.extend(second)
        return first
    second[:0] = first
    return second


def in_parallel(parts: list[Blocks]) -> Blocks:
    """Return the merged sequence of some that are free of each other; ties in the order of the list.

    Examples
    --------
    >>> from lowtide.solvers.trees.blocks import block, in_parallel, ops_of
    >>> parts = [[block(9, 2, "a"), block(6, 1, "b")], [block(7, 1, "c")], [block(3, -1, "d")]]
    >>> ops_of(in_parallel(parts))
    ['d', 'a', 'c', 'b']
    """
    if not parts:
        return []
    largest = max(parts, key=len)
    others = sum(map(len, parts)) - len(largest)
    if others * RATIO < len(largest):
        for part in parts:
            if part is not largest:
                for one in part:
                    insort(largest, one, key=_key)
        return largest
    merged = [one for part in parts for one in part]
    merged.sort(key=_key)
    return merged


def ops_of(blocks: Iterable[TreeBlock]) -> list[Any]:
    """Return the ops of a sequence of blocks in their order."""
    return flattened([one.ops for one in blocks])


def flattened(ropes: list[Rope]) -> list[Any]:
    """Return the ops of some ropes in their order."""
    found, stack = [], ropes[::-1]
    while stack:
        rope = stack.pop()
        if isinstance(rope, tuple):
            stack.append(rope[1])
            stack.append(rope[0])
        else:
            found.append(rope)
    return found


def height_of(blocks: Iterable[TreeBlock]) -> int:
    """Return the height of a sequence of blocks in bytes, at least 0."""
    memory = highest = 0
    for one in blocks:
        highest = max(highest, memory + one.height)
        memory += one.change
    return highest


def _joined(first: TreeBlock, second: TreeBlock) -> TreeBlock:
    """Return the block of two that stand in the wrong order (2)."""
    height = max(first.height, first.change + second.height)
    return block(height, first.change + second.change, (first.ops, second.ops))
