r"""A lower bound on the time of a placement in any order of its ops that keeps the precedence.

Sets and data. The ops, bytes, tiers and instants of `sample_data`, whose proof of what a byte does names
no order: the ops that access a life, and those that write it, are the same in every order, and so are
those that must come before (`ancestors`) or behind op k. Ops last :math:`d_k`, one at a time, between the
*begin* of the iteration and its *end*. Let X be outer tiers, the *bottleneck*, such that each other one
has a capacity, K the sum of these, and R what the channels between X and the fast memory carry together,
one way, bytes/s.

*At op c* its operands and workspace take :math:`L_c` bytes of the fast memory. A life that c does not
access is there at c, in every order, if it is cyclic, initial, or begun by an ancestor of c, and is
cyclic, final, or accessed by a descendant. Of any set of such lives, at least their bytes and :math:`L_c`
less M and K are in X alone.

**Lags.** (1) *Inward.* For a descendant j of c take the lives that j itself or an ancestor of j behind c
accesses: V bytes of these and of :math:`L_c` are in X alone when c ends. That access comes behind c, and
finds them in the fast memory: they pass between the end of c and the start of j, which are at least V / R
apart. (2) The same for j = end, and all lives that a descendant of c accesses. (3) *Outward.* For an
ancestor i of c take the lives that are there behind c, too, with a write by i or a descendant of i that
is an ancestor of c: what is in X alone as c starts was copied there behind that write, so behind the end
of i. The end of i and the start of c are V / R apart. (4) The same for i = begin, where all lives count
that an ancestor of c writes, or that start in the fast memory only. (5) *Late.* The start of op j is no
sooner than :math:`\lambda_U + B / R_U` for sets U of tiers, as in `releases`, where B are the late bytes
that j or an ancestor of j reads: these have run, or j has begun. (6) *Around*, in a period: from the end
of c to its start in the next iteration, :math:`\Pi - d_c` later, everything that is there at c and cyclic
or accessed by a descendant comes in before it is used, and what is written in each iteration went out
before that: both are at most :math:`R (\Pi - d_c)`.

**One machine.** Let :math:`r_k` and :math:`q_k` be at most the times between begin and the start of k,
and between the end of k and end. For any set S of ops, in any order, end is no sooner than

.. math:: \min_{k \in S} r_k + \sum_{k \in S} d_k + \min_{k \in S} q_k .

(7) :math:`r_k` is the largest of this over the sets of ancestors of k, with q = 0, and of :math:`r_a +
d_a + V / R` over the lags from a to k; :math:`q_k` the same backwards. (8) The bound is the largest over
all sets of ops, for which those of all ops with :math:`r_k \ge r` and :math:`q_k \ge q` suffice.

**Least peak.** Let no tensor be overwritten unread (what lives is then what `peak` says), and P at most
the least peak memory, of all tiers together. In any order P bytes live from the start of some op c to its
end (under ``replace``: from behind its start), and P - M - K of them are in X alone at both. All but
those of initial tensors were copied there before that, and all but those of final ones come back behind
it. (9) With A and B the times which that takes, no plan is faster than the least of :math:`\max(r_c, A) +
d_c + \max(q_c, B)` over all ops c.

All times are integers, so V / R is rounded up. An op with several modes counts with the least of its
durations, as in `sample_data`.

Source: this suite; the terms are the heads, tails and lags of one-machine scheduling (Carlier 1982;
Dauzere-Peres and Lasserre 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ....models.arrays import Booleans, Integers
from ....models.graph import Accounting, Graph
from ....models.problems.placement import Placement
from ....models.units import SECOND
from .releases import cuts, late_tensors, least_latency, rate_out_of
from .samples import SampleData
from .windows import bottlenecks

BEGIN = -1
"""Stands for the begin of the plan where a lag has the number of an op."""
MOST = 96
"""Ops c whose lags are looked at, and as many i and j for each of them, at most."""
LONGEST = 2**61
"""Of all lags one behind the other, in ns; longer ones are cut."""


class Lag(NamedTuple):
    """The start of `after` comes at least `ns` behind the end of `before`; `BEGIN` and n are the ends.

    `outward`: the bytes that take so long leave the fast memory, which is too small at `after`.
    """

    before: int
    after: int
    ns: int
    outward: bool = False


def ancestor_rows(masks: Sequence[int]) -> Booleans:
    """Return row by row which ops must come before each, from masks."""
    n = len(masks)
    width = (n + 7) // 8
    packed = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in masks), dtype=np.uint8)
    return np.unpackbits(packed.reshape(n, width), axis=1, count=n, bitorder="little").astype(bool)


def _twice(ancestors: Booleans) -> Booleans:
    """Return the rows of ops that count as two, one that reads and then one that writes."""
    n = len(ancestors)
    rows: Booleans = np.repeat(np.repeat(ancestors, 2, axis=0), 2, axis=1)
    rows[np.arange(1, 2 * n, 2), np.arange(0, 2 * n, 2)] = True
    return rows


def order_bound(
    problem: Placement,
    data: SampleData,
    ancestors: Booleans,
    expired: Callable[[], bool] = lambda: False,
    peak: int = 0,
) -> int:
    """Return the bound in ns.

    Parameters
    ----------
    problem, data
        What is bounded; its ops come in an order that keeps the precedence.
    ancestors
        ``bool, (n, n)``: row j says which ops come before op j.
    expired
        Whether to leave out the lags that remain.
    peak
        Bytes that every order needs at some time.
    """
    around, all_lags = 0, list(late_lags(problem, ancestors))
    twice = problem.graph.accounting is Accounting.REPLACE
    if twice:
        all_lags = [Lag(BEGIN, 2 * lag.after, lag.ns) for lag in all_lags]
        ancestors = _twice(ancestors)
    for lag in lags(data, ancestors, expired):
        if lag.before == lag.after:
            around = max(around, data.duration[lag.before] + lag.ns)
        else:
            all_lags.append(lag)
    most = LONGEST // (len(data.duration) + 2)
    all_lags = [lag._replace(ns=min(lag.ns, most)) for lag in all_lags]
    heads, tails = heads_and_tails(data.duration, ancestors, all_lags)
    best = max(around, one_machine(data.duration, heads, tails))
    if peak and not _overwrites(problem.graph):
        out, back = (min(ns, most) for ns in _beside_peak(problem.graph, data, peak))
        ends = np.maximum(heads, out) + np.array(data.duration) + np.maximum(tails, back)
        best = max(best, int(ends[1 if twice else 0 :: 1 + twice].min()))
    return best


def _overwrites(graph: Graph) -> bool:
    """Return whether an op writes over content of a tensor without reading it."""
    there = {t for t, tensor in enumerate(graph.tensors) if tensor.initial}
    for op in graph.ops:
        if there & ({*op.writes} - {*op.reads}):
            return True
        there |= {*op.writes}
    return False


def _beside_peak(graph: Graph, data: SampleData, peak: int) -> tuple[int, int]:
    """Return A and B of (9) in ns."""
    stays = {True: [t.nbytes for t in graph.tensors if t.initial]}
    stays[False] = [t.nbytes for t in graph.tensors if t.final]
    longest = {True: 0, False: 0}
    for _, outward, room, rate in bottlenecks(data):
        nbytes = peak - data.memory - room - sum(stays[outward])
        longest[outward] = max(longest[outward], -(-nbytes * SECOND // rate))
    return longest[True], longest[False]


def lags(data: SampleData, ancestors: Booleans, expired: Callable[[], bool] = lambda: False) -> Iterator[Lag]:
    """Yield lags (1) to (4), and with the same op twice (6): around from its end to its next start."""
    n = len(data.duration)
    upto = ancestors | np.eye(n, dtype=bool)
    lives = _Lives(data, ancestors)
    forms = list(bottlenecks(data))
    for c in _crowded(data, lives):
        if expired():
            return
        there = lives.before[:, c] & lives.behind[:, c] & ~lives.uses[:, c]
        load = data.fixed[c] + int(lives.size[lives.uses[:, c]].sum()) - data.memory
        for outward in (False, True):
            # of each life that is there, the ops of which one moves it within the window
            ops = there[:, None] & (lives.written & ancestors[c] if outward else lives.uses & ancestors[:, c])
            copied = ops.any(axis=1)
            if outward:
                ends, far = np.flatnonzero(ancestors[c]), copied | there & lives.inside
                around = copied | there & lives.cyclic & lives.written.any(axis=1)
            else:
                ends, far, around = np.flatnonzero(ancestors[:, c]), copied, there
            if len(ends) > MOST:
                ends = ends[np.linspace(0, len(ends) - 1, MOST).astype(np.int64)]
            moved = [*_moved(lives.size, ops, upto[:, ends].T if outward else upto[ends])]
            windows = [(e, c) if outward else (c, e) for e in ends.tolist()]
            windows.append((BEGIN, c) if outward else (c, n))
            moved.append(int(lives.size[far].sum()))
            if data.periodic:
                windows.append((c, c))
                moved.append(int(lives.size[around].sum()))
            for (a, b), nbytes in zip(windows, moved, strict=True):
                ns = [
                    -(-(load + nbytes - room) * SECOND // rate) for _, x, room, rate in forms if x == outward
                ]
                if max(ns, default=0) > 0:
                    yield Lag(a, b, max(ns), outward)


def _moved(size: Integers, ops: Booleans, windows: Booleans) -> list[int]:
    """Return by window, (windows, n), the bytes of the lives with one of their ops in it, (T, n)."""
    rows, marked = np.nonzero(ops)
    if not len(rows):
        return [0] * len(windows)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    hits = np.logical_or.reduceat(windows[:, marked], starts, axis=1)
    return (hits @ size[rows[starts]]).tolist()  # type: ignore[no-any-return]


class _Lives:
    """Of the lives that count: bytes, (T,), and by life and op who accesses, who writes, where it is there.

    `before` and `behind`, (T, n): whether the life has begun before op c, and goes on behind it, in every
    order; `inside`: whether it starts in the fast memory only.
    """

    def __init__(self, data: SampleData, ancestors: Booleans) -> None:
        n, counted = len(data.duration), data.counted
        self.number = counted
        self.size: Integers = np.array([data.size[t] for t in counted], dtype=np.int64)
        self.cyclic = np.array([data.cyclic[t] for t in counted], dtype=bool)
        self.inside = np.array([data.initial[t] and data.start[t] == (0,) for t in counted], dtype=bool)
        self.uses = _marked(data.accesses, counted, n)
        self.written = _marked(data.writes, counted, n)
        self.before = np.empty((len(counted), n), dtype=bool)
        self.behind = np.empty((len(counted), n), dtype=bool)
        for x, t in enumerate(counted):
            ops = list(data.accesses[t])
            self.before[x] = data.cyclic[t] or data.initial[t] or ancestors[:, ops[0]]
            self.behind[x] = data.cyclic[t] or data.final[t] or ancestors[ops].any(axis=0)


def _marked(ops: Sequence[Sequence[int]], some: Sequence[int], n: int) -> Booleans:
    marks = np.zeros((len(some), n), dtype=bool)
    for x, t in enumerate(some):
        marks[x, list(ops[t])] = True
    return marks


def _crowded(data: SampleData, lives: _Lives) -> list[int]:
    """Return ops at which memory is too small, of each part of the iteration those where it is most so."""
    n = len(data.duration)
    there = lives.before & lives.behind | lives.uses
    excess = there.T @ lives.size + np.array(data.fixed, dtype=np.int64) - data.memory
    best: list[int] = []
    for part in np.array_split(np.arange(n), min(n, MOST)):
        best.append(int(part[np.argmax(excess[part])]))
    return [c for c in best if excess[c] > 0]


def late_lags(problem: Placement, ancestors: Booleans) -> Iterator[Lag]:
    """Yield lags (5) of the ops of a problem with one processor."""
    upto = ancestors | np.eye(len(ancestors), dtype=bool)
    starts_of = late_tensors(problem)
    reads = np.zeros((len(problem.graph.tensors), len(upto)), dtype=bool)
    old = {*starts_of}  # tensors that nobody has written yet
    for k, op in enumerate(problem.graph.ops):
        reads[sorted(old & {*op.reads}), k] = True
        old -= {*op.writes}
    for cut in cuts(problem.machine):
        inside = [t for t, starts in sorted(starts_of.items()) if starts <= cut]
        rate, _ = rate_out_of(problem.machine, cut)
        if not inside or not rate:
            continue
        latency = least_latency(problem.machine, cut, set().union(*(starts_of[t] for t in inside)))
        size = np.array([problem.graph.tensors[t].nbytes for t in inside], dtype=np.int64)
        for j, nbytes in enumerate(_moved(size, reads[inside], upto)):
            if nbytes:
                yield Lag(BEGIN, j, latency - (-nbytes * SECOND // rate))


def heads_and_tails(
    duration: Sequence[int], ancestors: Booleans, lags: Sequence[Lag]
) -> tuple[Integers, Integers]:
    """Return r and q of every op (7), in an order that keeps the precedence."""
    n = len(duration)
    d = np.array(duration, dtype=np.int64)
    backwards = [Lag(n - 1 - lag.after, n - 1 - lag.before, lag.ns) for lag in lags]
    tails = _heads(d[::-1], ancestors.T[::-1, ::-1], backwards)
    return _heads(d, ancestors, lags), tails[::-1]


def one_machine(duration: Sequence[int], heads: Integers, tails: Integers) -> int:
    """Return the least time of ops one at a time with heads and tails (8)."""
    order = np.argsort(heads, kind="stable")
    r, q, d = heads[order], tails[order], np.array(duration, dtype=np.int64)[order]
    best = 0
    for least in np.unique(q):
        some = q >= least
        work = np.cumsum((d * some)[::-1])[::-1]
        best = max(best, int((r + work)[some].max() + least))
    return best


def deciding(data: SampleData, ancestors: Booleans, lags: Sequence[Lag]) -> list[Lag]:
    """Return those of some lags that no head and no tail can do without, and the longest around."""
    heads, tails = heads_and_tails(data.duration, ancestors, [x for x in lags if x.before != x.after])
    n, d = len(data.duration), data.duration
    around = [x for x in lags if x.before == x.after]
    kept = sorted(around, key=lambda x: d[x.before] + x.ns)[-1:]
    for x in lags:
        if x.before == x.after:
            continue
        begun = heads[x.before] + d[x.before] if x.before != BEGIN else 0
        ended = tails[x.after] + d[x.after] if x.after < n else 0
        head = x.after < n and begun + x.ns == heads[x.after]
        if head or (x.before != BEGIN and ended + x.ns == tails[x.before]):
            kept.append(x)
    return kept


def _heads(d: Integers, ancestors: Booleans, lags: Sequence[Lag]) -> Integers:
    n = len(d)
    into: list[list[Lag]] = [[] for _ in range(n + 1)]
    for lag in lags:
        into[lag.after].append(lag)
    heads = np.zeros(n, dtype=np.int64)
    for k in range(n):
        before = np.flatnonzero(ancestors[k])
        if len(before):
            before = before[np.argsort(heads[before], kind="stable")]
            heads[k] = int((heads[before] + np.cumsum(d[before][::-1])[::-1]).max())
        for lag in into[k]:
            start = heads[lag.before] + d[lag.before] if lag.before != BEGIN else 0
            heads[k] = max(heads[k], start + lag.ns)
    return heads
