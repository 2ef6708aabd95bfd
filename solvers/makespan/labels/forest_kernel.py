"""What is left of an in-tree, one op at a time: whether it fits, by canonical segments; compiled.

Source: Liu, An application of generalized tree pebbling to sparse matrix factorization, SIAM J. Algebraic
Discrete Methods 8 (1987): the segments of subtrees are merged in the order that `_sinks` says.
"""

from __future__ import annotations

import numpy as np

from ...engines.kernels import inner


@inner
def _sinks(before, least, hill, net):  # type: ignore[no-untyped-def]
    """Return whether the segment of `before` and `least` goes after that of `hill` and `net`.

    First go those that free bytes, by rising hill, then the others by falling difference of hill and net.
    """
    if net < 0:
        return least >= 0 or before > hill
    return least >= 0 and before - least < hill - net


@inner
def segments(shape, started, next_op, v, below, hills, nets, count):  # type: ignore[no-untyped-def]
    """Write the canonical segments of the unstarted ops of the subtree of v, or of the whole forest.

    Parameters
    ----------
    shape
        The problem; an in-tree.
    started, next_op
        A set of ops, with each all before it, and the op that follows them; -1 if there is none.
    v
        The op; the number of ops for the forest.
    below
        By op: its subtree.
    hills, nets, count
        Of segments: most bytes while it runs and bytes that it leaves, both above those before it, and their
        number. By place and op; places are those of `_place_of`.
    """
    into = _place_of(started, next_op, below[v])
    total = 0
    for x in range(shape.child_at[v], shape.child_at[v + 1]):
        c = shape.child[x]
        if started >> c & 1 or c == next_op:
            continue
        part = _place_of(started, next_op, below[c])
        for y in range(count[part, c]):
            hill, net = hills[part, c, y], nets[part, c, y]
            z = total
            while z > 0 and _sinks(hills[into, v, z - 1], nets[into, v, z - 1], hill, net):
                hills[into, v, z], nets[into, v, z] = hills[into, v, z - 1], nets[into, v, z - 1]
                z -= 1
            hills[into, v, z], nets[into, v, z] = hill, net
            total += 1
    if v < len(shape.duration):
        hill, net = shape.alloc[v], shape.alloc[v] - shape.workspace[v]
        for x in range(shape.life_at[v], shape.life_at[v + 1]):
            net -= shape.life_bytes[x]
        while total and not _sinks(hill, net, hills[into, v, total - 1], nets[into, v, total - 1]):
            total -= 1
            hill = max(hills[into, v, total], nets[into, v, total] + hill)
            net += nets[into, v, total]
        hills[into, v, total], nets[into, v, total] = hill, net
        total += 1
    count[into, v] = total


@inner
def _place_of(started, next_op, subtree):  # type: ignore[no-untyped-def]
    """Return 2 of a subtree that the next op is in, else 1 if something of it has started, else 0."""
    if next_op >= 0 and subtree >> next_op & 1:
        return 2
    return 1 if subtree & started else 0


@inner
def subtrees(shape, below, hills, nets, count):  # type: ignore[no-untyped-def]
    """Write the subtrees of an in-tree, and their segments while nothing has started."""
    n = len(shape.duration)
    below[n] = (np.int64(1) << n) - 1
    for v in range(n):
        below[v] = np.int64(1) << v
        for x in range(shape.child_at[v], shape.child_at[v + 1]):
            below[v] |= below[shape.child[x]]
        segments(shape, np.int64(0), -1, v, below, hills, nets, count)


@inner
def forest_fits(shape, started, next_op, live, below, hills, nets, count):  # type: ignore[no-untyped-def]
    """Return whether what is left of an in-tree after an op fits, run one by one; see `segments`."""
    n = len(shape.duration)
    for v in range(next_op + 1, n):
        if below[v] >> next_op & 1:
            segments(shape, started, next_op, v, below, hills, nets, count)
    segments(shape, started, next_op, n, below, hills, nets, count)
    for y in range(count[2, n]):
        if live + hills[2, n, y] > shape.numbers[1]:
            return False
        live += nets[2, n, y]
    return True
