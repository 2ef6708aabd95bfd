r"""A lower bound on the makespan: efforts between ops that precede one another, chained.

*Efforts.* Give each op i an effort :math:`e_i \ge 0` per schedule such that all ops that run at one instant
have, weighted by their durations, at most P per tick: any set of ops that runs during an interval of length L
then has :math:`\sum e_i \le P L`. Such are

* the efforts of the load bound (`bounds`), and
* with memory, *packings*: let :math:`x_i` be the bytes that op i holds for itself while it runs: its least
  workspace, and tensors. Ops that run together hold at most the memory less what is live throughout,
  :math:`\sum x_i \le M' = M - base`, if each tensor counts for at most one of them; so it may count for its
  first writer and one more op, that of the longest duration (in the accounting ``replace``, where what is
  read dies before what is written appears, only for its first writer). For :math:`k \ge 1` the integers
  :math:`f_k(x) = \max(0, \lceil (k + 1) x / M' \rceil - 1)` are *dual feasible*: the ceiling of y less 1
  is below y, so a sum of them over ops that run together is below k + 1, hence at most k. Efforts
  :math:`d_i f_k(x_i)` with P = k.

*Chains.* What follows op u and precedes op v runs between the end of u and the start of v, and so the start
of v is at least

.. math:: h_v = \max\Bigl(head_v,\; \max_{u \prec v} h_u + d_u + \bigl\lceil \sum_{u \prec i \prec v} e_i
          / P \bigr\rceil\Bigr)

for each of the efforts. The same holds for a start at 0 and ends at the makespan in place of u and v. That
bounds the makespan by :math:`h_v + d_v + \max(tail_v, \lceil \sum_{i \succ v} e_i / P \rceil)`, and by the
sum over all ops. On graphs with ops that everything else precedes or follows this is the sum of the bounds of
the parts between them.

All pairs take a product of matrices; on larger graphs u and v are the `HUBS` ops with the most ops before
and behind them.

Sources: dual feasible functions: Lueker (1983); Fekete and Schepers, "New classes of fast lower bounds for
bin packing problems" (2001); for cumulative resources Carlier and Néron (2007). Energy between heads and
tails is common in scheduling; between pairs of ops and chained, it is the suite's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ....formulations.makespan.data import MakespanData
from .bounds import efforts

HUBS = 1000
"""Ops between which efforts are summed."""

MOST_OPS = 6000
"""Of graphs whose efforts are chained; for larger ones they are summed."""

PACKINGS = range(1, 13)
"""The numbers k that are tried; the best `CHAINED` of them are chained."""

CHAINED = 2
"""Numbers k whose efforts are chained: chaining one takes much longer than trying it."""

LARGEST = 2**53
"""Sums below it are exact as doubles."""


def chained_efforts(data: MakespanData, expired: Callable[[], bool] = lambda: False) -> int:
    """Return the bound in ticks; once `expired` holds, that of the efforts that have been chained.

    Examples
    --------
    Three ops in the middle take two rounds on two processors:

    >>> import lowtide as lt
    >>> from lowtide.formulations.makespan.data import makespan_data
    >>> after = ((), (0,), (0,), (0,), (1, 2, 3), (4,), (4,), (4,))
    >>> ops = tuple(lt.Op(name=str(i), after=before) for i, before in enumerate(after))
    >>> chained_efforts(makespan_data(lt.Makespan(lt.Graph(name="g", tensors=(), ops=ops), processors=2)))
    6
    """
    best = 0
    tried = [(np.array(e, dtype=np.float64), per_tick) for e, per_tick in efforts(data)]
    packings = [(e, k) for k in PACKINGS if (e := packing(data, k)) is not None]
    packings.sort(key=lambda pair: -float(pair[0].sum()) / pair[1])
    tried += packings[:CHAINED]
    tried = [(e, per_tick) for e, per_tick in tried if e.sum() < LARGEST]
    if data.n > MOST_OPS:
        return max((int(_ticks(e.sum(keepdims=True), per_tick)[0]) for e, per_tick in tried), default=0)
    hubs, before, behind = _relatives(data)
    for effort, per_tick in tried:
        if expired():
            break
        best = max(best, _chained(data, hubs, before, behind, effort, per_tick))
    return best


def packing(data: MakespanData, k: int) -> NDArray[np.float64] | None:
    """Return the efforts d f_k(x); None if none of them is positive, or no memory is left."""
    room = data.memory - data.bytes.base
    if room <= 0:
        return None
    held = [min(a.workspace for a in some) for some in data.alternatives]
    for x in data.bytes.lifetimes:
        others = x.last if not data.bytes.replace else ()
        if x.born is not None:
            held[x.born] += x.nbytes
        if longest := [i for i in others if i != x.born]:
            held[max(longest, key=lambda i: data.duration[i])] += x.nbytes
    effort = [d * max(0, -(-(k + 1) * x // room) - 1) for d, x in zip(data.duration, held, strict=True)]
    return np.array(effort, dtype=np.float64) if any(effort) else None


def _relatives(data: MakespanData) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the hubs, ascending, and two matrices of 0 and 1.

    Which op (column) precedes which hub (row); which op (row) comes behind which hub (column).
    """
    n = data.n
    width = (n + 7) // 8
    rows = [np.frombuffer(mask.to_bytes(width, "little"), dtype=np.uint8) for mask in data.bytes.ancestors]
    before = np.unpackbits(np.array(rows), axis=1, count=n, bitorder="little")
    related = before.sum(axis=0) + before.sum(axis=1)
    hubs = np.sort(np.argsort(-related, kind="stable")[:HUBS])
    return hubs, before[hubs].astype(np.float64), before[:, hubs].astype(np.float64)


def _chained(
    data: MakespanData,
    hubs: NDArray[np.int64],
    before: NDArray[np.float64],
    behind: NDArray[np.float64],
    effort: NDArray[np.float64],
    per_tick: int,
) -> int:
    """Return the bound for one kind of efforts."""
    duration = np.array(data.duration, dtype=np.int64)[hubs]
    tail = np.array(data.tail, dtype=np.int64)[hubs]
    weighted = before * effort
    between = _ticks(weighted @ behind, per_tick)
    start = np.maximum(np.array(data.head, dtype=np.int64)[hubs], _ticks(weighted.sum(axis=1), per_tick))
    for v in range(len(hubs)):
        some = np.flatnonzero(before[v, hubs])
        if len(some):
            start[v] = max(start[v], int((start[some] + duration[some] + between[v, some]).max()))
    last = np.maximum(tail, _ticks(effort @ behind, per_tick))
    return max(int((start + duration + last).max()), int(_ticks(effort.sum(keepdims=True), per_tick)[0]))


def _ticks(effort: NDArray[np.float64], per_tick: int) -> NDArray[np.int64]:
    """Return the ticks that efforts take at least, rounded up."""
    return -(-effort.astype(np.int64) // per_tick)
