r"""The sets of started ops that a schedule within the memory can pass through.

An *ideal* is a set of ops that contains the predecessors of its ops. The ops that have started at any instant
of a schedule are one. In the accounting ``coexist``, if the ops of a schedule run one after another by their
starts, no more is live while one runs than when it started in the schedule (`..bounds`). So every ideal that
a schedule passes through lies on a path of single ops from the empty set to all ops, each of which fits after
all others of the set have ended. Only such ideals are kept: those reached from the empty set, and from which
all ops can be reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .....formulations.offsets_data import Integers
from .shape import Shape


@dataclass(frozen=True, kw_only=True)
class Ideals:
    """The ideals by size, and the steps between them.

    Attributes
    ----------
    first
        By size: the first of its ideals; one number more at the end.
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


def find_ideals(shape: Shape, most: int, stop: Callable[[], bool]) -> Ideals | None:
    """Return the ideals; None if there are more than `most`, or `stop` holds.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.makespan_data import makespan_data
    >>> from lowtide.solvers.algorithms.makespan.labels.shape import shape_of
    >>> problem = lt.Makespan(lt.load("gen:chain?n=4&seed=1"))
    >>> len(find_ideals(shape_of(makespan_data(problem)), 100, lambda: False).sets)
    5
    """
    from .ideals_kernel import next_ideals

    n = len(shape.duration)
    sets = [np.zeros(1, dtype=np.int64)]
    after = [shape.numbers[2:3].copy()]
    steps: list[tuple[Integers, Integers, Integers]] = []
    total = 1
    for _ in range(n):
        wider, live, source, by, target = next_ideals(shape, sets[-1], after[-1])
        total += len(wider)
        if total > most or stop():
            return None
        sets.append(wider)
        after.append(live)
        steps.append((source, by, target))
    return _completable(sets, after, steps)


def _completable(
    sets: list[Integers], after: list[Integers], steps: list[tuple[Integers, Integers, Integers]]
) -> Ideals:
    """Keep the ideals from which all ops can be reached."""
    good = [np.zeros(len(s), dtype=bool) for s in sets]
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
