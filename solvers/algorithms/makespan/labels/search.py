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

*Bounds.* A label is given up if no schedule through it is faster than the incumbent: the chain behind each
running op, that behind the unstarted ones, and the prices of `together` for what is left to run.

*Beams.* At most so many labels of each size are kept: those of least bound, and among these of least idle
time. If none had to go, there is no faster schedule than the one found (or than the limit). Otherwise the
least bound of those that went bounds every schedule that is faster. A *cone* is narrow until the last ops,
whose many arrangements fit into what is left of the processors' time most closely.

*Coarser time.* Rounding all durations down to multiples of a step only relaxes the problem (ops end earlier,
and nothing else changes), and makes many labels equal: with starts in steps, as some fastest schedule of
what is rounded has them, its makespan times the step is a bound (`coarser`).

Source: label setting with dominance is that of resource-constrained shortest paths (Desrochers and Soumis
1988); states of started and running ops as in dynamic programs for precedence-constrained scheduling
(Held, Karp and Shareshian 1963); the combination with memory is the suite's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .....formulations.offsets_data import Integers
from .ideals import Ideals
from .shape import Shape
from .together import Prices

NARROW = 1000
"""Labels of each size that a cone keeps at least."""

LATE = 16
"""The ops for which a cone has its full width; before, it halves with every two."""

COMPLETED = 6
"""The ops with which a cone is completed in every way."""

SPLIT = 5000
"""From so many labels on they are parted among the threads."""

Labels = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Beam:
    """What a pass found.

    Attributes
    ----------
    starts
        Of the fastest schedule that was met below the limit, in ticks; None if there was none.
    dropped
        The least bound of the labels that had to go; None if none had to: then nothing is faster.
    """

    starts: tuple[int, ...] | None
    dropped: int | None


def search(
    shape: Shape,
    ideals: Ideals,
    prices: Prices,
    *,
    below: int,
    enough: int = 0,
    width: int,
    cone: bool = False,
    stop: Integers,
    expired: Callable[[], bool],
    threads: int = 1,
) -> Beam | None:
    """Go through the ideals by size with at most `width` labels of each size; None if stopped.

    Parameters
    ----------
    shape, ideals, prices
        The problem.
    below
        Schedules of interest are faster, in ticks.
    enough
        A makespan that is known to be optimal.
    width
        Of the beam.
    cone
        Whether the beam is narrow at first and has its width for the last ops only, and these are completed
        in every way.
    stop
        One number that another thread may set, to end the pass.
    expired
        Whether to end, asked between sizes.
    threads
        Of the kernels; the outcome does not depend on them.
    """
    from .label_kernel import complete, expand, undominated

    n, processors = len(shape.duration), int(shape.numbers[0])
    rank = np.empty(n, dtype=np.int64)
    rank[shape.by_tail] = np.arange(n)
    graph = (ideals.sets, ideals.at, ideals.by, ideals.target)
    labels = (
        np.zeros(1, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        shape.numbers[2:3].copy(),
        np.full((1, processors), -1, dtype=np.int8),
        np.zeros((1, processors), dtype=np.int64),
    )
    history: list[tuple[Integers, Integers]] = []
    dropped: int | None = None
    levels = max(1, n - COMPLETED) if cone else n
    for size in range(1, levels + 1):
        wide = _width(width, n - size) if cone else width
        valid = prices.after(size - processors)

        def wider(low: int, high: int, valid: Integers = valid, labels: Labels = labels) -> Labels:
            rows = tuple(x[low:high] for x in labels)
            new = expand(shape, valid, rank, graph, rows, below, stop)
            new[5][:] += low
            return new  # type: ignore[no-any-return]

        pieces = _by_pieces(wider, labels[0], threads)
        ideal, time, live, ops, ends, parent, op, bound, waste = (
            pieces[0] if len(pieces) == 1 else [np.concatenate(x) for x in zip(*pieces, strict=True)]
        )
        order = np.lexsort((time, ideal))

        def undominated_of(
            low: int, high: int, order: Integers = order, new: Labels = (ideal, time, ops, ends)
        ) -> Integers:
            return undominated(order[low:high], *new, stop)  # type: ignore[no-any-return]

        keep = np.logical_or.reduce(_by_pieces(undominated_of, ideal[order], threads))
        if stop[0] or expired():
            return None
        chosen = order[keep[order]]
        if len(chosen) > wide:
            best = np.lexsort((waste[chosen], bound[chosen]))
            least = int(bound[chosen[best[wide]]])
            dropped = least if dropped is None else min(dropped, least)
            inside = np.zeros(len(chosen), dtype=bool)
            inside[best[:wide]] = True
            chosen = chosen[inside]
        if not len(chosen):
            return Beam(starts=None, dropped=dropped)
        labels = (ideal[chosen], time[chosen], live[chosen], ops[chosen], ends[chosen])
        history.append((parent[chosen], op[chosen]))
    last, ending = int(np.argmin(labels[4].max(axis=1))), list[int]()
    if levels < n:
        turn = np.argsort(waste[chosen], kind="stable")
        _, last, more = complete(shape, graph, labels, turn, below, enough, stop)
        if last < 0:
            return None if stop[0] else Beam(starts=None, dropped=dropped)
        ending = [int(j) for j in more]
    row = []
    for parents, by in reversed(history):
        row.append(int(by[last]))
        last = int(parents[last])
    return Beam(starts=_starts(shape, [*row[::-1], *ending]), dropped=dropped)


def _by_pieces(work: Callable[[int, int], Any], ideal: np.ndarray, threads: int) -> list[Any]:
    """Return what the work on each of some ranges gives, in order; no range parts labels of one ideal."""
    count = len(ideal)
    if threads == 1 or count < SPLIT:
        return [work(0, count)]
    cuts = [0]
    for k in range(1, threads):
        at = count * k // threads
        cuts.append(int(np.searchsorted(ideal, ideal[at])))
    cuts = sorted({*cuts, count})
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda pair: work(*pair), pairwise(cuts)))


def _width(width: int, left: int) -> int:
    """Return the width of a cone while `left` ops have not started."""
    return max(min(width, NARROW), int(width / 2 ** (max(0, left - LATE) / 2)))


def coarser(shape: Shape, before: Sequence[Sequence[int]], step: int) -> Shape:
    """Return the problem with durations rounded down, in multiples of `step` ticks.

    Parameters
    ----------
    shape
        The problem.
    before
        Direct predecessors by op, of smaller index.
    step
        In ticks.
    """
    duration = shape.duration // step
    tail = np.zeros_like(duration)
    for i in range(len(duration) - 1, -1, -1):
        for j in before[i]:
            tail[j] = max(tail[j], tail[i] + duration[i])
    by_tail = np.lexsort((np.arange(len(tail)), -tail)).astype(np.int64)
    return shape._replace(duration=duration, tail=tail, by_tail=by_tail)


def _starts(shape: Shape, row: list[int]) -> tuple[int, ...]:
    """Return the starts of ops that start in this order, each as soon as it can."""
    processors, capacity, live = (int(x) for x in shape.numbers)
    start, now, ended = [0] * len(row), 0, 0
    running: list[tuple[int, int]] = []
    for j in row:
        while (
            len(running) >= processors
            or int(shape.before[j]) & ~ended
            or live + int(shape.alloc[j]) > capacity
        ):
            now = running[0][0]
            while running and running[0][0] == now:
                _, i = running.pop(0)
                ended |= 1 << i
                live -= int(shape.workspace[i])
                for x in range(shape.life_at[i], shape.life_at[i + 1]):
                    live -= 0 if int(shape.life_last[x]) & ~ended else int(shape.life_bytes[x])
        start[j] = now
        live += int(shape.alloc[j])
        running = sorted([*running, (now + int(shape.duration[j]), j)])
    return tuple(start)
