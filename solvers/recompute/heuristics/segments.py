"""Checkpoints between segments of the forward pass (Chen et al.), on any graph.

The *turn* is the op during which the reference order, each op once, needs most memory (of a training
iteration about the loss); the ops up to it are the forward pass. Boundaries cut the forward pass into
segments. What a later segment of the forward pass reads is kept, and so is what the last segment leaves; all
else is discarded after its last use in the forward pass. After the turn, what an op does not find is
computed again from what is kept, with all that is needed for it, once, and stays until its last use.

Boundaries may be anywhere in the reference order (*linearized*), or only where one value is read across
(*articulation*).

*Whole segments*, as in ``torch.utils.checkpoint``: equal segments by number of places, the last one is kept;
before the first backward that misses something of a segment all of the segment runs again that backwards from
there on read, and what that is computed from. Other than in PyTorch an op that overwrites what it reads
(running statistics) does not run again, and what it leaves is kept.

Sources: Chen, Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016): a boundary every
sqrt(n) ops, and Algorithm 3, where a segment ends as soon as it has more than b bytes. Jain et al.,
"Checkmate" (MLSys 2020), section 6: both on articulation points and on linearized graphs. Our articulation
points are those of the forward pass in the reference order: gaps that one value crosses.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ....formulations.recompute.data import RecomputeData, levels
from ..missing import writers_of

ARTICULATION, LINEARIZED = "articulation", "linearized"

BUDGETS = 60
"""Values of b that the greedy rule tries, in geometric progression."""


def turn(data: RecomputeData) -> int:
    """Return the op during which the reference order needs most."""
    needed = levels(data, range(data.n))
    return max(range(data.n), key=lambda i: needed[i])


def gaps(data: RecomputeData, kind: str) -> list[int]:
    """Return the ops of the forward pass after which there may be a boundary."""
    last = turn(data)
    if kind == LINEARIZED:
        return list(range(last))
    crossing = [0] * (last + 1)
    for x in data.values:
        ahead = [j for j in x.readers if j <= last]
        if x.writer is not None and ahead:
            for i in range(x.writer, max(ahead)):
                crossing[i] += 1
    return [i for i in range(last) if crossing[i] == 1]


def every_root(places: Sequence[int]) -> list[int]:
    """Return every k-th gap, k about the square root of their number."""
    step = max(1, round(math.sqrt(len(places))))
    return list(places[step - 1 :: step])


def greedy_boundaries(data: RecomputeData, places: Sequence[int]) -> Iterator[list[int]]:
    """Yield the boundaries where segments have more than b units, for falling b, each set once."""
    left = [sum(data.values[u].nbytes for u in data.writes[i]) for i in range(data.n)]
    total, allowed, seen = sum(left[: turn(data) + 1]), set(places), set[tuple[int, ...]]()
    for k in range(BUDGETS):
        budget = total * (BUDGETS - k) ** 2 // BUDGETS**2
        ends, filled = [], 0
        for i in range(turn(data)):
            filled += left[i]
            if i in allowed and filled > budget:
                ends.append(i)
                filled = 0
        if tuple(ends) not in seen:
            seen.add(tuple(ends))
            yield ends


def equal_boundaries(places: Sequence[int], count: int) -> list[int]:
    """Return boundaries at some of the places, so that there are so many segments of like many places."""
    count = min(count, len(places) + 1)
    return sorted({places[k * len(places) // count] for k in range(1, count)})


def kept_across(data: RecomputeData, boundaries: Sequence[int]) -> set[int]:
    """Return the values that are kept: initial ones, of the last segment, and what is read across."""
    last, first, kept = turn(data), max(boundaries, default=-1), set[int]()
    for u, x in enumerate(data.values):
        if x.writer is None or x.writer > first:
            kept.add(u)
            continue
        ahead = max((j for j in x.readers if j <= last), default=-1)
        if any(x.writer <= b < ahead for b in boundaries):
            kept.add(u)
    return kept


def in_whole_segments(data: RecomputeData, boundaries: Sequence[int]) -> list[int]:
    """Return the ops as they run where whole segments run again; whether they fit is another matter.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5")))
    >>> in_whole_segments(data, [2])  # x_0 and x_3 are kept; x_1 and x_2 are computed again at once
    [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 8, 9, 10]
    """
    last, values = turn(data), data.values
    once = {i for i in range(data.n) if not set(data.reads[i]).isdisjoint(data.destroys[i])}
    there = kept_across(data, boundaries) | {u for i in once for u in data.writes[i]}
    segment = [bisect_left(boundaries, i) for i in range(last + 1)]
    runs = list(range(last + 1))
    for i in range(last + 1, data.n):
        writers = (values[u].writer for u in data.reads[i] if u not in there)
        begun = {segment[w] for w in writers if w is not None}
        again = [
            u
            for u, x in enumerate(values if begun else ())
            if u not in there and x.writer is not None and x.writer <= last
            if segment[x.writer] in begun and x.readers and x.readers[-1] >= i
        ]
        for j in (*writers_of(data, again, there), i):
            runs.append(j)
            there.update(data.writes[j])
    return runs


def with_boundaries(data: RecomputeData, boundaries: Sequence[int]) -> list[int]:
    """Return the ops as they run; whether they fit, and find what they read, is another matter.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.formulations.recompute.data import recompute_data
    >>> data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=5")))
    >>> with_boundaries(data, [1])  # x_0 and x_2 are kept; x_1 is computed again
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 10]
    """
    last = turn(data)
    there, runs = kept_across(data, boundaries), list(range(last + 1))
    for i in range(last + 1, data.n):
        for j in (*writers_of(data, data.reads[i], there), i):
            runs.append(j)
            there.update(data.writes[j])
    return runs
