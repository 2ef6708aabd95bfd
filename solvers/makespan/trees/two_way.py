r"""Two-way labels: passes over reduced trees, forwards and backwards in time, each bounded by the one before.

Labels, their steps and dominance are those of `..labels.search`. With the time reversed, a schedule of a tree
is one of the tree whose root comes first, within the same memory (`.projection`), of the same makespan; its
ops start by falling ends.

All is said of schedules of the reduced tree of K, with its own heads and tails: those of the whole tree, and
of reduced trees of more nodes, are among them when the other nodes are left out.

*Guide.* A pass over the reduced tree of :math:`K'` leaves, for each set Q of started ops, the least time
:math:`g(Q)` at which a label of Q starts its last op, before dominated labels go; :math:`g(\emptyset) = 0`.
(If the last op of a label has ended before its time, the time of the label that it comes from counts, which
is not later.) Sets without labels are not there.

*Bound.* The next pass is over some :math:`K \supseteq K'`, the other way. Take one of its labels, of time t:
some ops run, each to an end after t; others have not started and do not before t. Let Q be all of these that
are in :math:`K'`, and :math:`m > t` not more than any of their ends: those of the ops that run, and t and the
least duration of the others. In a schedule of makespan C through the label the rest of :math:`K'` has ended
by t. So, seen the other way, the ops of Q are the first of :math:`K'` to start, the last of them not after
:math:`C - m`. Hence some label of Q starts its last op not after :math:`C - m` either, unless it was given up
since C is not below the limit:

.. math:: C \ge m + g(Q),

and if Q is not there, the label is given up. It holds of labels that are schedules, not of merged ones and
those that come from these: in what they stand for, other ops may run at their time.

*Passes.* All undominated labels are kept that may end below the limit. If there are more than the width,
those of one set that run the same ops are merged, each into one that dominates them. If there are still too
many, the pass ends, and the least bound of its labels bounds all schedules. What a pass over the whole tree
finds without merging is a fastest schedule. A *beam* drops labels of largest bound instead, and leaves no
guide.

Sources: bounds for one direction from labels of the other as in bidirectional shortest paths with resources
(Righini and Salani, Discrete Optimization 3, 2006); state spaces that are relaxed, then refined step by step,
as in Christofides, Mingozzi and Toth (Networks 11, 1981) and in Righini and Salani (Networks 51, 2008). Sets
of started ops as states, and reduced trees both ways, are the suite's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....models.arrays import Integers
from ..labels.chunks import chunks
from ..labels.ideals import Ideals, KnownIdeals, nothing_started, steps_from
from ..labels.meeting import no_others
from ..labels.shape import Shape
from ..labels.steps import (
    Labels,
    first_labels,
    renumbered,
    row_of,
    running_ops,
    starts_of,
    undominated_labels,
    wider_labels,
)
from ..labels.together import uniform_prices

FAR = np.int64(2**60)
"""The bound of a label that no schedule below the limit goes through."""

REMEMBERED = 1 << 20
"""Sets of which it is remembered whether all ops can be run after them."""


@dataclass(frozen=True, kw_only=True)
class Guide:
    """What a pass knows of the rest of a schedule, for passes the other way.

    Attributes
    ----------
    kept
        The nodes of its reduced tree, ascending.
    duration
        Of these, in ticks.
    sets, least
        Q, ascending, bit masks over `kept`; g(Q), in ticks.
    """

    kept: tuple[int, ...]
    duration: Integers
    sets: Integers
    least: Integers


@dataclass(frozen=True, kw_only=True)
class PassResult:
    """What a pass found.

    Attributes
    ----------
    bound
        No schedule of the whole tree is faster, unless none is below the limit and this is the limit.
    starts
        Of a schedule of the reduced tree, as the pass goes, in ticks; None if there is none or it was merged.
    guide
        For the other way; None if labels were dropped.
    merged
        Whether labels were.
    """

    bound: int
    starts: tuple[int, ...] | None
    guide: Guide | None
    merged: bool


def guided_pass(
    kept: Sequence[int],
    shape: Shape,
    guide: Guide | None,
    *,
    below: int,
    width: int,
    beam: bool = False,
    stop: Integers,
    expired: Callable[[], bool],
    threads: int = 1,
) -> PassResult | None:
    """Go through the sets by size; None if stopped.

    Parameters
    ----------
    kept, shape
        The nodes of the reduced tree, and its arrays, for one way.
    guide
        Of some of the nodes, from a pass the other way.
    below
        Makespans of interest are smaller, in ticks.
    width
        Most labels of each size.
    beam
        Whether to drop labels rather than merge them.
    stop, expired, threads
        As for `..labels.search.search`.
    """
    n, processors = len(shape.duration), int(shape.numbers[0])
    prices = uniform_prices(shape).rows
    known = KnownIdeals(np.full(REMEMBERED, -1, dtype=np.int64), np.zeros(REMEMBERED, dtype=np.int8))
    rest = None if guide is None else _rest_bounds(kept, guide)
    sets, after = nothing_started(shape)
    labels = first_labels(shape)
    others = no_others(processors)
    reached, earliest = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
    history: list[tuple[Integers, Integers]] = []
    merged = dropped = False
    least = below
    for _ in range(n):
        ideals = steps_from(shape, sets, after, known, stop)
        before = labels[1]
        labels, parent, op, waste = wider_labels(
            shape, prices, ideals, labels, others=others, below=below, threads=threads, stop=stop
        )
        if rest is not None:
            bound = np.where(labels[6], np.maximum(labels[5], rest(ideals.sets, labels)), labels[5])
            some = bound < below
            labels = tuple(x[some] for x in (*labels[:5], bound, labels[6]))
            parent, op, waste = parent[some], op[some], waste[some]
        if stop[0] or expired():
            return None
        _note(ideals, labels, op, shape.duration[op], before[parent], reached, earliest)
        chosen = undominated_labels(labels, threads, stop)
        if stop[0]:
            return None
        ideal, bound = labels[0], labels[5]
        if len(chosen) > width and beam:
            turn = np.lexsort((waste[chosen], bound[chosen]))
            least = min(least, int(bound[chosen[turn[width:]]].min()))
            chosen, dropped = np.sort(chosen[turn[:width]]), True
            chosen = chosen[np.argsort(ideal[chosen], kind="stable")]
        if len(chosen) > width:
            fewer = _merged(shape, ideals, labels, chosen, width)
            if fewer is None:
                return PassResult(bound=int(bound[chosen].min()), starts=None, guide=None, merged=merged)
            labels, merged = fewer, True
        else:
            labels = tuple(x[chosen] for x in labels)
            history.append((parent[chosen], op[chosen]))
        if not len(labels[0]):
            break
        labels, sets, after = renumbered(labels, ideals)
    order = np.argsort(np.concatenate(reached))
    left = None
    if not dropped:
        left = Guide(
            kept=tuple(kept),
            duration=shape.duration,
            sets=np.concatenate(reached)[order],
            least=np.concatenate(earliest)[order],
        )
    if not len(labels[0]):
        return PassResult(bound=least, starts=None, guide=left, merged=merged)
    finish = np.maximum(labels[5], labels[4].max(axis=1))
    starts = None if merged else starts_of(shape, row_of(history, int(np.argmin(labels[4].max(axis=1)))))
    return PassResult(bound=min(least, int(finish.min())), starts=starts, guide=left, merged=merged)


def _rest_bounds(kept: Sequence[int], guide: Guide) -> Callable[[Integers, Labels], Integers]:
    """Return what bounds the makespan by label, given the sets and the new labels, by the guide."""
    narrower = renumbering(kept, guide.kept)
    inside = np.isin(np.array(kept), np.array(guide.kept))
    everything = (np.int64(1) << len(kept)) - 1
    longest_first = np.argsort(-guide.duration, kind="stable")

    def rest(sets: Integers, labels: Labels) -> Integers:
        ideal, time, _, ops, ends = labels[:5]
        unstarted = narrower(everything & ~sets)
        shortest = np.full(len(sets), FAR)
        for i in longest_first:
            shortest[unstarted >> i & 1 == 1] = guide.duration[i]
        first = time + shortest[ideal]
        for place in range(ops.shape[1]):
            counts = (ops[:, place] >= 0) & inside[ops[:, place]]
            first = np.where(counts, np.minimum(first, ends[:, place]), first)
        left = narrower(everything & ~sets[ideal] | running_ops(ops))
        at = np.minimum(np.searchsorted(guide.sets, left), len(guide.sets) - 1)
        bound = np.where(guide.sets[at] == left, first + guide.least[at], FAR)
        return np.where(left == 0, time, bound)

    return rest


def renumbering(wide: Sequence[int], narrow: Sequence[int]) -> Callable[[Integers], Integers]:
    """Return what makes masks over some nodes into masks over those of them in `narrow`, byte by byte.

    Examples
    --------
    >>> renumbering((2, 5, 7), (2, 7))(np.array([0b110, 0b001])).tolist()
    [2, 1]
    """
    place = {v: k for k, v in enumerate(narrow)}
    tables = np.zeros(((len(wide) + 7) // 8, 256), dtype=np.int64)
    for k, v in enumerate(wide):
        if v in place:
            tables[k // 8] |= (np.arange(256) >> k % 8 & 1) << place[v]

    def renumbered(masks: Integers) -> Integers:
        result = np.zeros(len(masks), dtype=np.int64)
        for byte, table in enumerate(tables):
            result |= table[masks >> 8 * byte & 255]
        return result

    return renumbered


def _note(
    ideals: Ideals,
    labels: Labels,
    op: Integers,
    duration: Integers,
    before: Integers,
    reached: list[Integers],
    earliest: list[Integers],
) -> None:
    """Note by set the least start of the last op; `before`: the times of the labels they come from."""
    ideal, _, _, ops, ends = labels[:5]
    runs = ops == op[:, None]
    start = np.where(runs.any(axis=1), (ends * runs).sum(axis=1) - duration, before)
    used, number = np.unique(ideal, return_inverse=True)
    least = np.full(len(used), FAR)
    np.minimum.at(least, number, start)
    reached.append(ideals.sets[used])
    earliest.append(least)


def _merged(shape: Shape, ideals: Ideals, labels: Labels, chosen: Integers, width: int) -> Labels | None:
    """Return about `width` labels, each of which dominates those of one set that run the same ops.

    Those of similar times are merged. None if there are more sets and running ops than that.
    """
    from ..labels.dominance_kernel import merged

    ideal, time, _, ops, _, _, _ = labels
    running = running_ops(ops[chosen])
    turn = np.lexsort((time[chosen], running, ideal[chosen]))
    order, running = chosen[turn], running[turn]
    changes = (ideal[order][1:] != ideal[order][:-1]) | (running[1:] != running[:-1])
    begins = np.concatenate([[0], 1 + np.flatnonzero(changes)])
    if len(begins) > width:
        return None
    count = np.diff(np.concatenate([begins, [len(order)]]))
    pieces = np.maximum(1, count * width // len(order))
    return merged(shape, ideals.sets, ideals.after, order, chunks(count, pieces), labels)  # type: ignore[no-any-return]
