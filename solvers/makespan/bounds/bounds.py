r"""Lower bounds on every makespan within the memory, and when there is no schedule at all.

Notation of `lowtide.formulations.makespan.data`; C is the makespan of any schedule.

*Critical path*: :math:`C \ge \max_i head_i + d_i + tail_i`.

*Load*: give each kind of processors a weight :math:`\mu_k \ge 0`. For any x and y, the ops with
:math:`head_i \ge x` and :math:`tail_i \ge y` all run in :math:`[x, C - y)`. Op i takes at least
:math:`e_i = \min_{a \in R_i} \mu_{k_a} d_{ia}` of the weighted time of the processors, of which there is
:math:`P = \sum_k \mu_k p_k` per tick, so :math:`C \ge x + y + \lceil \sum e_i / P \rceil`. (With x = y = 0
and one kind this is the average load.) The weights tried are: 1 for all kinds that some op may take and 0
for the others; 1 for all kinds; and, of two kinds, the pairs of durations for which an op does not care
which it takes. With x = y = 0 the bound is the dual of the linear relaxation of the assignment to kinds,
whose optimum for two kinds has such weights, since the sum of the :math:`e_i` over P, as a function of
:math:`\mu_1 / \mu_2`, is monotone between two of them.

*Memory area*: the bytes held over time, together
:math:`\sum_l b_l \lambda_l + \sum_i \min_{a \in R_i} w_{ia} d_{ia}`, fit into C times what is not held
throughout, :math:`M - base`, for any lower bounds :math:`\lambda_l` of the lifetimes:

* of a lifetime that begins with op f and ends with the last of :math:`A_l`: the longest chain from the
  start of f to the end (not ``held``: to the start) of an op of :math:`A_l`;
* of one that begins at time 0: the same with a chain from the start, ``head``;
* of one that begins with f and is kept: :math:`d_f + tail_f`.

*Infeasible* is a memory below the least sequential peak, with the least workspaces, in the accounting
``coexist``: run the ops of a schedule one after another by their starts. While op i runs, the ops that have
started are among those that had started when i did in the schedule, and all ops that had ended then are
among those that have ended, so no more is live. A memory of at least that peak always has a schedule, the
sequential one.

In ``replace`` the ops that start at one instant release what they read together, before any of them
allocates, and two readers of one tensor that each replace it by something as large do so side by side with
fewer bytes than one after the other. So the peak counts only if there is one processor, or if each tensor
that dies with a start has one possible last reader, or if the memory does not even hold what is there at the
start. (In the second case what ops add when they start together is a sum over them, those that add least can
go first, and no partial sum is above both ends.) In all cases each op holds, at its start, what is live
around it in every schedule: `lowtide.formulations.peak.data.forced_bound`, whose argument nowhere uses that
ops run alone.

Sources: critical path and load as in Graham (1966); memory area: this suite; heads and tails as in Carlier
(1982); the relaxation of the assignment as in Lenstra, Shmoys and Tardos (1990), for unrelated machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import combinations

import numpy as np

from ....formulations.makespan.data import MASKED, MakespanData
from ....formulations.model import BuildTimeout
from ....formulations.peak.data import Lifetime, accessed_bound, forced_bound, start_bytes
from ....models.derived.precedence import precedence
from ....models.problems.makespan import Makespan
from ...context import Context

MOST_STEPS = 50_000_000
"""Of a load bound: heads that are tried, times ops."""


LARGE = 2000
"""Above so many ops bounds that take longer than the ops' sum look at the clock."""


def raise_bounds(problem: Makespan, data: MakespanData, context: Context) -> None:
    """Give the context the three bounds; of large graphs those for which there is time."""

    def late() -> bool:
        return data.n > LARGE and context.expired

    context.raise_bound(critical_path(data) * data.tick, kind="critical path")
    if not late():
        context.raise_bound(load(data) * data.tick, kind="load")
    if problem.memory is not None and not late():
        area = memory_area(problem, data, late)
        if area is not None:
            context.raise_bound(area * data.tick, kind="memory area")


def critical_path(data: MakespanData) -> int:
    """Return the longest chain in ticks."""
    return max(h + d + t for h, d, t in zip(data.head, data.duration, data.tail, strict=True))


def load(data: MakespanData) -> int:
    """Return the best of the load bounds in ticks.

    Only heads that some op has need be tried as x; for each of them the ops are taken by falling tail. Each x
    gives a bound: of very many, some are tried, at equal distances.
    """
    head = np.array(data.head, dtype=np.int64)
    by_tail = np.argsort(-np.array(data.tail, dtype=np.int64), kind="stable")
    tail = np.array(data.tail, dtype=np.int64)[by_tail]
    heads = np.unique(head)
    heads = heads[:: -(-len(heads) * len(head) // MOST_STEPS) or 1]
    best = 0
    for effort, per_tick in efforts(data):
        work_by_tail = np.array(effort, dtype=np.int64)[by_tail]
        for x in heads:
            chosen = head[by_tail] >= x
            work = np.cumsum(work_by_tail[chosen])
            best = max(best, int((x + tail[chosen] - (-work // per_tick)).max()))
    return best


def efforts(data: MakespanData) -> list[tuple[list[int], int]]:
    """Return the efforts e of the ops, and P, for the weights to try.

    Of the weights that stand for the indifference between two kinds, only those with the best average load.
    That is semistrictly quasiconcave in their ratio, being concave over linear, so bisection finds them.
    Those whose sums do not fit into 64 bits are left out.
    """
    kinds = range(len(data.counts))
    if len(data.counts) == 1:
        return [(list(data.duration), data.processors)]
    sets = {frozenset(a.kind for a in some) for some in data.alternatives} | {frozenset(kinds)}
    found = [_effort(data, dict.fromkeys(chosen, 1)) for chosen in sorted(map(sorted, sets))]
    for pair in combinations(kinds, 2):
        ratios = sorted(
            {
                Fraction(b.duration, a.duration)
                for some in data.alternatives
                for a in some
                for b in some
                if (a.kind, b.kind) == pair
            }
        )
        low, high = 0, len(ratios) - 1
        while low < high:
            middle = (low + high) // 2
            if _average(data, pair, ratios[middle]) < _average(data, pair, ratios[middle + 1]):
                low = middle + 1
            else:
                high = middle
        best = (dict(zip(pair, r.as_integer_ratio(), strict=True)) for r in ratios[low : low + 1])
        found += [_effort(data, weight) for weight in best]
    return [(effort, per_tick) for effort, per_tick in found if sum(effort) + per_tick < 2**62]


def _average(data: MakespanData, pair: tuple[int, int], ratio: Fraction) -> Fraction:
    """Return the average load for weights of two kinds in a ratio."""
    effort, per_tick = _effort(data, dict(zip(pair, ratio.as_integer_ratio(), strict=True)))
    return Fraction(sum(effort), per_tick)


def _effort(data: MakespanData, weight: Mapping[int, int]) -> tuple[list[int], int]:
    """Return e and P for the weights of some kinds; the others have none."""
    effort = [min(weight.get(a.kind, 0) * a.duration for a in some) for some in data.alternatives]
    return effort, sum(w * data.counts[k] for k, w in weight.items())


def memory_area(
    problem: Makespan, data: MakespanData, expired: Callable[[], bool] = lambda: False
) -> int | None:
    """Return the memory-area bound in ticks; None if nothing but what is kept throughout fits at all.

    The longest chains from an op to all others take time with their number. From when `expired` holds on,
    the chain from the birth of a tensor to another op that accesses it is taken to be the op that makes it
    alone, which that other one follows.
    """
    from .chain_kernel import chain_lengths

    size = data.bytes
    duration = np.array(data.duration, dtype=np.int64)
    after_at, after = precedence(problem.graph).successors_csr
    area = sum(min(a.workspace * a.duration for a in nbytes) for nbytes in data.alternatives)
    made: dict[int, list[Lifetime]] = {}
    for x in size.lifetimes:
        if not x.last:
            assert x.born is not None
            area += x.nbytes * (data.duration[x.born] + data.tail[x.born])
        elif x.born is None:
            area += x.nbytes * max(data.head[u] + (data.duration[u] if x.held else 0) for u in x.last)
        else:
            made.setdefault(x.born, []).append(x)
    hurried = False
    for born, nbytes in made.items():
        hurried = hurried or expired()
        if hurried:
            chain = {u: 0 if u == born else data.duration[born] for x in nbytes for u in x.last}
        else:
            lengths = chain_lengths(duration, after_at, after, born, max(max(x.last) for x in nbytes))
            chain = {u: int(lengths[u - born]) for x in nbytes for u in x.last}
        for x in nbytes:
            area += x.nbytes * max(chain[u] + (data.duration[u] if x.held else 0) for u in x.last)
    room = data.memory - size.base
    if room <= 0:
        return None
    return -(-area // room)


def sequential_peak_counts(data: MakespanData) -> bool:
    """Return whether there is no schedule within less memory than the least sequential peak."""
    if not data.bytes.replace or data.processors == 1:
        return True
    alone = all(x.held or len(x.last) <= 1 for x in data.bytes.lifetimes)
    return alone or start_bytes(data.bytes) > data.memory


def does_not_fit(
    problem: Makespan, data: MakespanData, expired: Callable[[], bool] = lambda: False
) -> str | None:
    """Return why there is no schedule, if the start, or one op with what is live around it, does not fit.

    Once `expired` holds only what ops access counts, which is linear in the size of the graph.
    """
    if problem.memory is None:
        return None
    needed = accessed_bound(data.bytes)
    if data.n <= MASKED:
        with suppress(BuildTimeout):
            needed = forced_bound(data.bytes, expired)
    needed *= data.bytes.unit
    if needed <= problem.memory:
        return None
    return f"every schedule has {needed} bytes live, at the start or beside some op, of {problem.memory}"
