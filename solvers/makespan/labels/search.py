r"""Label setting on ideals: the fastest schedule within a memory, or a bound, level by level.

Accounting ``coexist``, identical processors. A *label* is a schedule of the ops of an ideal S up to the
time t at which the last of them starts; what matters of it are t and the ends of the ops that still run then.

*Steps.* The next op to start is one of those outside S whose predecessors are in S; of equal starts any order
will do. It starts at the first time, from t on, at which its predecessors have ended, a processor is idle
and what it allocates fits. That loses nothing: until it starts only ends happen, so memory and processors
only become free; starting it earlier ends it earlier and harms nobody. Hence a label has one step for each
op.

*Dominance.* Of two labels of the same ideal, a dominates b if :math:`t^a \le t^b` and each op that still runs
in a ends, in a, not later than :math:`\max(t^b, end^b)`: what b starts from :math:`t^b` on can start at the
same times after a, since at all of them what has started is the same and what has ended in b has ended in a.
Tails count for ops that have not started, which start as in b: they must be those of the problem itself.

*Bounds.* A label is given up if no schedule through it is faster than the incumbent: the chain behind each
running op, that behind the unstarted ones, and the prices of `together` for what is left to run.

*Beams.* At most so many labels of each size are kept: those of least bound, and among these of least idle
time. If none had to go, there is no faster schedule than the one found (or than the limit). Otherwise the
least bound of those that went bounds every schedule that is faster. A *cone* is narrow until the last ops,
whose many arrangements fit into what is left of the processors' time most closely. A *sample* has the shape
of a cone and keeps labels at random, some samples those of few bytes rather: where the incumbent is a few
ticks above a bound that leaves the processors next to no idle time, every label that can still meet it is
about as good as any other, and few can be completed.

*Filling up.* In a schedule that ends by T, the ops with a tail of b or more end by T - b. Each processor has
some time until then, after the op that runs on it, and runs unstarted ones of them there: for the largest sum
of their durations that is not more than this time at most. These sums must reach their work. It is asked once
few of these ops are left, for the b that gives the best load bound.

*Relaxed passes.* Instead of dropping labels, labels of one ideal are merged into one that dominates them
all: the least of their times; what runs in all of them, until the least of its ends. What follows from it is
no schedule any more, but the least makespan that it leads to is a bound. Labels keep the bounds of those that
they come from.

*Both ends.* With time running backwards the problem is of the same kind (`shape.reversed_shape`). The labels
of a relaxed pass backwards bound those of passes forwards, where both meet (`meeting`), and those of a
relaxed pass forwards the next one backwards: with each turn fewer labels are left to be merged.

Sources: label setting with dominance is that of resource-constrained shortest paths (Desrochers and Soumis
1988); beams and relaxed passes are the restricted and relaxed decision diagrams of discrete optimization
(Bergman, Cire, van Hoeve and Hooker 2016); states of started and running ops as in dynamic programs for
precedence-constrained scheduling (Held, Karp and Shareshian 1963). The combination with memory is the suite's
own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ....models.arrays import Integers
from .chunks import chunks
from .ideals import Ideals, KnownIdeals, find_ideals, nothing_started, steps_from
from .meeting import Others, no_others
from .shape import Shape
from .steps import (
    Labels,
    first_labels,
    renumbered,
    row_of,
    running_ops,
    starts_of,
    steps_of,
    undominated_labels,
    wider_labels,
)
from .together import PriceVectors

NARROW = 1000
"""Labels of each size that a cone keeps at least."""

LATE = 16
"""The ops for which a cone has its full width; before, it halves with every two."""

COMPLETED = 6
"""The ops with which a cone is completed in every way."""

WEIGHTS = (0.0, 0.5, 2.0)
"""What the bytes of a label weigh against chance, drawn for each sample."""

MOST_LAST = 20_000_000
"""Ideals of the last `COMPLETED` ops."""

SINGLE = 0.7
"""Part of the labels of a relaxed pass that are not merged: those of least bound."""

Form = Literal["beam", "cone", "sample", "relaxed"]


@dataclass(frozen=True, kw_only=True)
class Beam:
    """What a pass found.

    Attributes
    ----------
    starts
        Of the fastest schedule that was met below the limit, in ticks; None if there was none.
    least
        No schedule below the limit is faster than this, unless it is the one found; None if there is no other
        one, because no label had to go.
    """

    starts: tuple[int, ...] | None
    least: int | None


def search(
    shape: Shape,
    known: KnownIdeals,
    prices: PriceVectors,
    *,
    below: int,
    enough: int = 0,
    width: int,
    form: Form = "beam",
    stop: Integers,
    expired: Callable[[], bool],
    threads: int = 1,
    seed: int = 0,
    others: Others | None = None,
    kept: list[Labels] | None = None,
) -> Beam | None:
    """Go through the ideals by size with at most `width` labels of each size; None if stopped.

    Parameters
    ----------
    known
        Of its ideals.
    below
        Schedules of interest are faster, in ticks.
    enough
        A makespan that is known to be optimal.
    width
        Of the beam.
    form
        A ``beam``; a ``cone``, narrow at first, with its width for the last ops only, which are completed in
        every way; a ``sample``, which is a cone of labels drawn at random; or ``relaxed``.
    stop
        One number that another thread may set, to end the pass.
    expired
        Whether to end, asked between sizes.
    threads
        Of the kernels; the outcome does not depend on them.
    seed
        Of samples.
    others
        Labels of a relaxed pass in the other direction, for the same limit or a higher one.
    kept
        If given, labels of each size are added to it, as `meeting` takes them.
    """
    from .label_kernel import complete

    n, processors = len(shape.duration), int(shape.numbers[0])
    sets, after = nothing_started(shape)
    labels = first_labels(shape)
    others = others or no_others(processors)
    history: list[tuple[Integers, Integers]] = []
    least: int | None = None
    tapers = form in ("cone", "sample")
    draw = np.random.default_rng(seed)
    weight = float(draw.choice(WEIGHTS))
    levels = max(1, n - COMPLETED) if tapers else n
    for size in range(1, levels + 1):
        ideals = steps_from(shape, sets, after, known, stop)
        wide = _width(width, n - size) if tapers else width
        # A relaxed label may be earlier than the schedules it stands for, before that many ops have ended.
        valid = prices.after(0 if form == "relaxed" else size - processors)
        labels, parent, op, waste = wider_labels(
            shape,
            valid,
            ideals,
            labels,
            others=others,
            below=below,
            waits=kept is None,
            threads=threads,
            stop=stop,
        )
        chosen = undominated_labels(labels, threads, stop)
        if stop[0] or expired():
            return None
        ideal, bound = labels[0], labels[5]
        if len(chosen) > wide and form == "relaxed":
            labels, least = _merged(shape, ideals, labels, chosen, wide), below
            labels, sets, after = renumbered(labels, ideals)
            if kept is not None:
                kept.append((sets[labels[0]], labels[1], *labels[3:6]))
            continue
        if len(chosen) > wide:
            if form == "sample":
                live_after = ideals.after[ideal[chosen]]
                best = np.argsort(
                    draw.random(len(chosen)) + weight * live_after / max(1, int(live_after.max()))
                )
            else:
                best = np.lexsort((waste[chosen], bound[chosen]))
            gone = int(bound[chosen[best[wide:]]].min())
            least = gone if least is None else min(least, gone)
            inside = np.zeros(len(chosen), dtype=bool)
            inside[best[:wide]] = True
            chosen = chosen[inside]
        if not len(chosen):
            return Beam(starts=None, least=least)
        labels, sets, after = renumbered(tuple(x[chosen] for x in labels), ideals)
        if kept is not None:
            kept.append((sets[labels[0]], labels[1], *labels[3:6]))
        history.append((parent[chosen], op[chosen]))
    if form == "relaxed" and least is not None:
        return Beam(starts=None, least=int(np.maximum(labels[5], labels[4].max(axis=1)).min()))
    last, ending = int(np.argmin(labels[4].max(axis=1))), list[int]()
    if levels < n:
        turn = np.argsort(waste[chosen], kind="stable")
        rest = find_ideals(shape, MOST_LAST, expired, known, (sets, after), stop)
        if rest is None:
            return None
        _, last, more = complete(shape, steps_of(rest), labels, turn, below, enough, stop)
        if last < 0:
            return None if stop[0] else Beam(starts=None, least=least)
        ending = [int(j) for j in more]
        least = enough if stop[0] else least
    return Beam(starts=starts_of(shape, [*row_of(history, last), *ending]), least=least)


def _width(width: int, left: int) -> int:
    """Return the width of a cone while `left` ops have not started."""
    return max(min(width, NARROW), int(width / 2 ** (max(0, left - LATE) / 2)))


def _merged(shape: Shape, ideals: Ideals, labels: Labels, chosen: Integers, width: int) -> Labels:
    """Return about `width` labels, each of which dominates one or several of those chosen, of its ideal.

    Those of least bound stay as they are. Of the others labels of an ideal with the same running ops, and of
    similar times, are merged first.
    """
    from .dominance_kernel import merged

    ideal, time, _, ops, _, bound, _ = labels
    mask = running_ops(ops[chosen])
    single = np.zeros(len(chosen), dtype=bool)
    alone = int(SINGLE * width)
    single[np.argpartition(bound[chosen], alone)[:alone]] = True
    turn = np.lexsort((time[chosen], mask, ~single, ideal[chosen]))
    order, single = chosen[turn], single[turn]
    group = 2 * ideal[order].astype(np.int64) + ~single
    begins = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    count = np.diff(np.concatenate([begins, [len(group)]]))
    quota = np.where(single[begins], count, np.maximum(1, count * (width - alone) // (len(group) - alone)))
    return merged(shape, ideals.sets, ideals.after, order, chunks(count, quota), labels)  # type: ignore[no-any-return]
