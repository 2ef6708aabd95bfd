r"""The sets of started ops that a schedule within the memory can pass through.

An *ideal* is a set of ops that contains the predecessors of its ops. The ops that have started at any instant
of a schedule are one. In the accounting ``coexist``, if the ops of a schedule run one after another by their
starts, no more is live while one runs than when it started in the schedule (`..bounds`). So every ideal that
a schedule passes through lies on a path of single ops from the empty set to all ops, each of which fits after
all others of the set have ended. Only such ideals are kept: those reached from the empty set, and from which
all ops can be reached.

*Dead ends.* Let f(S) be the bytes that are live when the ops of the ideal S have ended. A tensor is live from
its producer on (or from the beginning) until all its readers are in S (or for ever), so f is a modular
function less a supermodular one: submodular. Backwards in time a tensor is live from the first of its last
accessors on, until its producer is in S: whether S meets a given set is submodular too, and the producer is a
modular term. If op i fits after S and :math:`f(S + i) \le f(S)`, it may as
well be the next: in any path from S to all ops, with i moved to its front, before each other op no more is
live than without, since :math:`f(T + i) - f(T) \le f(S + i) - f(S) \le 0` for all ideals T that contain S
and not i. So a search for a path runs such ops first and branches for the others, and remembers the sets it
has been to; one that takes too many steps leaves open whether there is a path, and the ideal is kept.

*In-trees.* There the question has an exact answer without a search. Where each op precedes one other at most,
and each lifetime ends with one op, an op run by itself adds a fixed number of bytes, and what is left after
S is a forest of such ops. Liu's algorithm (SIAM J. Algebraic Discrete Methods 8, 1987) finds the order of
least peak: the rest of each subtree becomes a sequence of canonical segments, each with the most bytes while
it runs (hill) and the bytes that it leaves (net), which are merged at each op: first those that free bytes,
by rising hill, then the others by falling difference of hill and net (Abdel-Wahab and Kameda, Operations
Research 26, 1978, for segments that free bytes too, as tensors of S do here). Subtrees of which nothing has
started keep their segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ....models.arrays import Integers
from .shape import Shape


@dataclass(frozen=True, kw_only=True)
class Ideals:
    """The ideals by size, and the steps between them.

    Attributes
    ----------
    first
        By size, the least one first: the first of its ideals; one number more at the end.
    sets
        Bit masks.
    after
        Bytes that are live when all ops of the ideal have ended.
    at, by, target
        The steps from each ideal, as rows of `at`: the op, and the ideal that it leads to.
    """

    first: Integers
    sets: Integers
    after: Integers
    at: Integers
    by: Integers
    target: Integers


EXACT = -1
"""The count of `KnownIdeals` where no other sets have a path."""


@dataclass(frozen=True)
class KnownIdeals:
    """The sets of which a search for a path to all ops has asked: a hash table, and 1 if there may be one.

    What is known changes which labels fill a beam, never what is proved. The count is `EXACT` if no other
    sets have a path.
    """

    table: Integers = field(default_factory=lambda: np.full(1 << 22, -1, dtype=np.int64))
    alive: np.ndarray = field(default_factory=lambda: np.zeros(1 << 22, dtype=np.int8))
    count: Integers = field(default_factory=lambda: np.zeros(1, dtype=np.int64))


def known_exactly(sets: Integers) -> KnownIdeals:
    """Return that all ops can be run after these sets, and after no others."""
    from .ideals_kernel import numbered

    table, _ = numbered(sets)
    return KnownIdeals(table, np.ones(len(table), dtype=np.int8), np.array([EXACT], dtype=np.int64))


def nothing_started(shape: Shape) -> tuple[Integers, Integers]:
    """Return the empty set, and the bytes that are live then."""
    return np.zeros(1, dtype=np.int64), shape.numbers[2:3].copy()


def find_ideals(
    shape: Shape,
    most: int,
    expired: Callable[[], bool],
    known: KnownIdeals | None = None,
    begin: tuple[Integers, Integers] | None = None,
    stop: Integers | None = None,
) -> Ideals | None:
    """Return the ideals; None if there are `most` or more, or it was stopped.

    Parameters
    ----------
    expired
        Whether to stop, asked after each size.
    begin
        Ideals of one size with their bytes, all of which are kept; else the empty set.
    stop
        One number that another thread may set, to stop sooner.
    """
    from .ideals_kernel import next_ideals

    known = known or KnownIdeals()
    stop = np.zeros(1, dtype=np.int64) if stop is None else stop
    some, live = begin or nothing_started(shape)
    sets, after = [some], [live]
    steps: list[tuple[Integers, Integers, Integers]] = []
    total = len(some)
    for _ in range(len(shape.duration) - int(some[0]).bit_count()):
        wider, live, source, by, target = next_ideals(
            shape, sets[-1], after[-1], known.table, known.alive, known.count, most - total, stop
        )
        total += len(wider)
        if total >= most or stop[0] or expired():
            return None
        sets.append(wider)
        after.append(live)
        steps.append((source, by, target))
    return _completable(sets, after, steps, all_first=begin is not None)


def _completable(
    sets: list[Integers],
    after: list[Integers],
    steps: list[tuple[Integers, Integers, Integers]],
    *,
    all_first: bool,
) -> Ideals:
    """Keep the ideals from which all ops can be reached, and perhaps all of the first size."""
    good = [np.zeros(len(s), dtype=bool) for s in sets]
    good[0][:] = all_first
    good[-1][:] = True
    for k in reversed(range(len(steps))):
        source, _, target = steps[k]
        good[k][source[good[k + 1][target]]] = True
    first = np.zeros(len(sets) + 1, dtype=np.int64)
    np.cumsum([int(g.sum()) for g in good], out=first[1:])
    number = [np.cumsum(g) - 1 + first[k] for k, g in enumerate(good)]
    counts = [np.zeros(int(g.sum()), dtype=np.int64) for g in good]
    kept_by, kept_to = [], []
    for k, (source, by, target) in enumerate(steps):
        keep = good[k][source] & good[k + 1][target]
        counts[k] = np.bincount(number[k][source[keep]] - first[k], minlength=len(counts[k]))
        kept_by.append(by[keep])
        kept_to.append(number[k + 1][target[keep]].astype(np.int32))
    at = np.zeros(int(first[-1]) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(counts), out=at[1:])
    return Ideals(
        first=first,
        sets=np.concatenate([s[g] for s, g in zip(sets, good, strict=True)]),
        after=np.concatenate([a[g] for a, g in zip(after, good, strict=True)]),
        at=at,
        by=np.concatenate(kept_by) if kept_by else np.empty(0, dtype=np.int8),
        target=np.concatenate(kept_to) if kept_to else np.empty(0, dtype=np.int32),
    )


def steps_from(shape: Shape, sets: Integers, after: Integers, known: KnownIdeals, stop: Integers) -> Ideals:
    """Return some ideals of one size, those that they lead to, and the steps between them.

    From the ideals of the larger size there are steps too, for all ops that fit, without their targets. Some
    are missing if `stop` was set.
    """
    from .ideals_kernel import next_ideals, next_ops

    wider, live, source, by, target = next_ideals(
        shape, sets, after, known.table, known.alive, known.count, np.iinfo(np.int64).max, stop
    )
    counts, more = next_ops(shape, wider, live)
    at = np.zeros(len(sets) + len(wider) + 1, dtype=np.int64)
    np.cumsum(np.concatenate([np.bincount(source, minlength=len(sets)), counts]), out=at[1:])
    return Ideals(
        first=np.array([0, len(sets), len(sets) + len(wider)]),
        sets=np.concatenate([sets, wider]),
        after=np.concatenate([after, live]),
        at=at,
        by=np.concatenate([by, more]),
        target=np.concatenate([target + np.int32(len(sets)), np.full(len(more), -1, dtype=np.int32)]),
    )
