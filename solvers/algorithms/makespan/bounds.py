r"""Lower bounds on every makespan within the memory, and when there is no schedule at all.

Notation of `lowtide.formulations.makespan_data`; C is the makespan of any schedule.

*Critical path*: :math:`C \ge \max_i head_i + d_i + tail_i`.

*Load*: for any a and b, the ops with :math:`head_i \ge a` and :math:`tail_i \ge b` all run in :math:`[a, C
- b)`, on p processors, so :math:`C \ge a + b + \lceil \sum d_i / p \rceil`. (With a = b = 0 this is the
average load.)

*Memory area*: the bytes held over time, together :math:`\sum_l b_l \lambda_l + \sum_i w_i d_i`, fit into C
times what is not held throughout, :math:`M - base`, for any lower bounds :math:`\lambda_l` of the
lifetimes:

* of a lifetime that begins with op f and ends with the last of :math:`A_l`: the longest chain from the
  start of f to the end (not ``held``: to the start) of an op of :math:`A_l`;
* of one that begins at time 0: the same with a chain from the start, ``head``;
* of one that begins with f and is kept: :math:`d_f + tail_f`.

*Infeasible* is a memory below the least sequential peak, in the accounting ``coexist``: run the ops of a
schedule one after another by their starts. While op i runs, the ops that have started are among those that
had started when i did in the schedule, and all ops that had ended then are among those that have ended, so
no more is live. A memory of at least that peak always has a schedule, the sequential one.

In ``replace`` the ops that start at one instant release what they read together, before any of them
allocates, and two readers of one tensor that each replace it by something as large do so side by side with
fewer bytes than one after the other. Also, what is released at time 0 never counts. So the peak counts only
if there is one processor, or if each tensor that dies with a start has one possible last reader and the
memory holds all initial tensors. (Then what ops add when they start together is a sum over them, those that
add least can go first, and no partial sum is above both ends.) In all cases each op holds, at its start,
what is live around it in every schedule: `lowtide.formulations.peak_data.forced_bound`, whose argument
nowhere uses that ops run alone.

Sources: critical path, load and memory area as in this project's handbook; heads and tails as in Carlier
(1982).
"""

from __future__ import annotations

import numpy as np

from ....formulations.makespan_data import MakespanData
from ....formulations.peak_data import forced_bound
from ....models.makespan import Makespan
from ....models.precedence import precedence
from ...context import Context


def raise_bounds(problem: Makespan, data: MakespanData, context: Context) -> None:
    """Give the context the three bounds."""
    context.raise_bound(critical_path(data) * data.tick, kind="critical path")
    context.raise_bound(load(data) * data.tick, kind="load")
    if problem.memory is not None:
        area = memory_area(problem, data)
        if area is not None:
            context.raise_bound(area * data.tick, kind="memory area")


def critical_path(data: MakespanData) -> int:
    """Return the longest chain in ticks."""
    return max(h + d + t for h, d, t in zip(data.head, data.duration, data.tail, strict=True))


def load(data: MakespanData) -> int:
    """Return the best of the load bounds in ticks.

    Only heads that some op has need be tried as a; for each of them the ops are taken by falling tail.
    """
    head = np.array(data.head, dtype=np.int64)
    by_tail = np.argsort(-np.array(data.tail, dtype=np.int64), kind="stable")
    tail = np.array(data.tail, dtype=np.int64)[by_tail]
    duration = np.array(data.duration, dtype=np.int64)[by_tail]
    best = 0
    for a in np.unique(head):
        chosen = head[by_tail] >= a
        work = np.cumsum(duration[chosen])
        best = max(best, int((a + tail[chosen] - (-work // data.processors)).max()))
    return best


def memory_area(problem: Makespan, data: MakespanData) -> int | None:
    """Return the memory-area bound in ticks; None if nothing but what is kept throughout fits at all."""
    from .list_kernel import chain_lengths

    size = data.bytes
    duration = np.array(data.duration, dtype=np.int64)
    after_at, after = precedence(problem.graph).successors_csr
    area = sum(w * d for w, d in zip(size.workspace, data.duration, strict=True))
    lengths: dict[int, tuple[int, np.ndarray]] = {}
    reach: dict[int, int] = {}
    for x in size.lifetimes:
        if x.born is not None and x.last:
            reach[x.born] = max(reach.get(x.born, 0), *x.last)
    for x in size.lifetimes:
        if not x.last:
            assert x.born is not None
            area += x.nbytes * (data.duration[x.born] + data.tail[x.born])
            continue
        if x.born is None:
            chains = {u: data.head[u] for u in x.last}
        else:
            if x.born not in lengths:
                until = reach[x.born]
                lengths[x.born] = until, chain_lengths(duration, after_at, after, x.born, until)
            chains = {u: int(lengths[x.born][1][u - x.born]) for u in x.last}
        area += x.nbytes * max(start + (data.duration[u] if x.held else 0) for u, start in chains.items())
    room = data.memory - size.base
    if room <= 0:
        return None
    return -(-area // room)


def sequential_peak_counts(data: MakespanData) -> bool:
    """Return whether there is no schedule within less memory than the least sequential peak."""
    if not data.bytes.replace or data.processors == 1:
        return True
    initial = data.bytes.base + sum(x.nbytes for x in data.bytes.lifetimes if x.born is None)
    return initial <= data.memory and all(x.held or len(x.last) <= 1 for x in data.bytes.lifetimes)


def does_not_fit(problem: Makespan, data: MakespanData) -> str | None:
    """Return why there is no schedule, if one op with what is live around it needs more than the memory."""
    needed = forced_bound(data.bytes) * data.bytes.unit
    if problem.memory is None or needed <= problem.memory:
        return None
    return f"some op runs with {needed} bytes live in every schedule, of {problem.memory}"
