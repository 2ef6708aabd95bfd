r"""Large-neighbourhood search in windows of time: a run of ops is scheduled anew, what follows moves up.

Take a schedule and its ops by start (ties by number): a *window* are the ops at places [first, last) of
that sequence. Let :math:`t_1` be the start of the first of them, :math:`t_2` that of the op at place `last`
(the makespan, if there is none), and R the ops before the window that still run at :math:`t_1`. Ops before
the window stay. The window is a problem of its own: from :math:`t_1` on, its ops and what is left of R share
processors and memory, with the tensors live at :math:`t_1`; a tensor that others access later stays.

*Moving up.* Let :math:`e_i` be the ends of the ops of window and R, :math:`e'_i` those in a new schedule of
the window (of R the same), and

.. math:: \delta = \min_i (\max(t_2, e_i) - e'_i).

If :math:`\delta \ge 0`, all ops behind the window may start :math:`\delta` earlier, and the schedule is still
valid. At the new time of an instant :math:`t \ge t_2` an op of window or R runs only if
:math:`\max(t_2, e_i) > t`, so :math:`e_i > t`: it ran then too. So at most as many processors are busy, what
has ended includes what had ended, and what precedes an op behind the window has ended. The ops of the window
have started, as they had: :math:`e'_i - d_i \le \max(t_2, e_i) - d_i - \delta \le t_2 - \delta`, since their
start was at most :math:`t_2` and d is at least 0. So the tensors that have been allocated are the same, and
those released include those that were, whether by the end of their last access or by its start.

*Search.* A schedule of the window is the safe list schedule of a ranking (`list_kernel`); the fallback order
is the sequence of starts, whose sequential peak is within the memory in the accounting ``coexist``
(`bounds`); under ``replace`` that is checked, and windows where it is not are left. From the ranking by
starts, neighbours are tried that differ in a few places, in a reach of the fallback order that is drawn; one
that is no worse replaces it. The best schedule is taken if it has a larger :math:`\delta` than the old one,
which has 0, or the same with a smaller sum of ends: then there is more room for the next windows.

Sources: windows of time as neighbourhoods are common in scheduling (large-neighbourhood search: Shaw, 1998;
for resource-constrained projects: Palpant, Artigues and Michelon, 2004, who fix what is outside of a block
and solve the block). Scheduling the window by lists, and the rule of moving up, are the suite's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np

from ....formulations.offsets_data import Integers
from .layout import Shop
from .ranking_moves import jittered, shuffled

SMALLEST, LARGEST = 10, 120
"""Ops of a window; sizes between are drawn evenly on a logarithmic scale."""

MOVES = 60
"""Rankings of a window that are tried."""

WIDE = 0.7
"""Part of the rankings without a reach."""

Decode = Callable[[Shop, Integers, Integers], Integers]


@dataclass(frozen=True)
class Rows:
    """A shop of identical processors with its lists by op, from which windows are cut."""

    shop: Shop
    tensors: list[list[int]]
    after: list[list[int]]
    op_of_access: Integers

    @classmethod
    def of(cls, shop: Shop) -> Rows:
        """Return the lists of a shop."""
        return cls(
            shop,
            _lists(shop.tensor_at, shop.tensors),
            _lists(shop.after_at, shop.after),
            np.repeat(np.arange(len(shop.alloc)), np.diff(shop.tensor_at)),
        )


@dataclass(frozen=True)
class Window:
    """The problem of a window.

    Attributes
    ----------
    shop
        Its ops: R, then those of the window by start; R has what is left of its durations.
    ops
        Their numbers in the whole problem.
    running
        How many are of R.
    begin
        t1 in ns.
    latest
        By op: max(t2, its end), from t1 on.
    cost
        Of the schedule that there is: delta, negative, which is 0, and the sum of the ends.
    """

    shop: Shop
    ops: Integers
    running: int
    begin: int
    latest: Integers
    cost: tuple[int, int]


def improve_by_windows(
    shop: Shop,
    starts: Integers,
    *,
    decode: Decode,
    seed: int,
    offer: Callable[[Integers], object],
    stop: Callable[[], bool],
    windows: int,
) -> Integers:
    """Search from a schedule; return the best one.

    Parameters
    ----------
    shop
        The problem, of identical processors.
    starts
        By op, in ns: a schedule within the memory.
    decode
        Returns the list schedule of a shop, a fallback order and a ranking.
    seed
        Of all choices.
    offer
        Takes each schedule that is faster than all before.
    stop
        Whether to end.
    windows
        After so many without a faster schedule it ends by itself.
    """
    rng, rows, starts = Random(seed), Rows.of(shop), starts.copy()
    n, since = len(starts), 0
    order = np.argsort(starts, kind="stable")
    while not stop() and since < windows:
        since += 1
        size = int(SMALLEST * (LARGEST / SMALLEST) ** rng.random())
        middle = rng.randrange(n)
        first, last = max(0, middle - size // 2), min(n, middle - size // 2 + size)
        window = cut(rows, starts, order, first, last)
        found = None if window is None else reschedule(window, decode, rng)
        if found is None:
            continue
        assert window is not None
        gain, new = found
        starts[window.ops[window.running :]] = window.begin + new[window.running :]
        starts[order[last:]] -= gain
        order = np.argsort(starts, kind="stable")
        if gain:
            since = 0
            offer(starts)
    return starts


def cut(rows: Rows, starts: Integers, order: Integers, first: int, last: int) -> Window | None:
    """Return the window of the ops at places [first, last) of the order of starts.

    None if the sequence of starts is no fallback order there (only under ``replace``).
    """
    shop, n = rows.shop, len(order)
    begin = int(starts[order[first]])
    ends = starts + shop.duration
    before = order[:first]
    running = before[ends[before] > begin]
    started = np.zeros(n, dtype=np.bool_)
    started[before] = True
    ended = started & (ends <= begin)
    # What is live at t1: all that has been allocated, less what has been released.
    replace = bool(shop.numbers[3])
    past = (started if replace else ended)[rows.op_of_access]
    gone = np.bincount(shop.tensors[past], minlength=len(shop.size))
    dead = (gone == shop.accessors) & (shop.accessors > 0)
    live = int(shop.numbers[2] + shop.alloc[started].sum() - shop.at_end[ended].sum() - shop.size[dead].sum())
    ops = np.concatenate((running, order[first:last]))
    chosen, some = ops.tolist(), len(running)
    # Tensors whose accessors left are all in the window die in it.
    accessed = [rows.tensors[v] if k >= some or not replace else [] for k, v in enumerate(chosen)]
    left: dict[int, int] = {}
    for row in accessed:
        for t in row:
            left[t] = left.get(t, 0) + 1
    wanted = shop.accessors - gone
    number = {t: k for k, t in enumerate(t for t, count in left.items() if count == wanted[t])}
    place = {v: k for k, v in enumerate(chosen)}
    after = [[place[w] for w in rows.after[v] if w in place] for v in chosen]
    duration, alloc, at_end = shop.duration[ops], shop.alloc[ops], shop.at_end[ops]
    duration[:some] = ends[running] - begin
    alloc[:some] = 0
    tensor_at, tensors = _flat([[number[t] for t in row if t in number] for row in accessed])
    after_at, after_flat = _flat(after)
    m = len(ops)
    part = Shop(
        numbers=np.array([shop.numbers[0], shop.numbers[1], live, replace, 1, m], dtype=np.int64),
        kind_at=shop.kind_at,
        way_at=np.arange(m + 1, dtype=np.int64),
        kind=np.zeros(m, dtype=np.int64),
        duration=duration,
        extra=np.zeros(m, dtype=np.int64),
        prefer=np.full(m, -1, dtype=np.int64),
        alloc=alloc,
        at_end=at_end,
        gain=alloc - at_end,
        tensor_at=tensor_at,
        tensors=tensors,
        size=np.array([*(shop.size[t] for t in number), 0], dtype=np.int64),
        accessors=np.bincount(tensors, minlength=len(number) + 1).astype(np.int64),
        after_at=after_at,
        after=after_flat,
        waits=np.bincount(after_flat, minlength=m).astype(np.int64),
    )
    if replace and not _fits(part):
        return None
    end = int(starts[order[last]]) if last < n else int(ends.max())
    latest = np.maximum(end, ends[ops]) if last < n else np.full(m, end)
    return Window(part, ops, some, begin, latest - begin, (0, int((ends[ops] - begin).sum())))


def reschedule(window: Window, decode: Decode, rng: Random) -> tuple[int, Integers] | None:
    """Return delta and the starts of the ops, from t1 on, of the best schedule if it is better."""
    shop, some, m = window.shop, window.running, len(window.ops)
    fallback, ranking = np.arange(m), list(range(some, m))
    best, found = window.cost, None
    current: tuple[int, int] | None = None
    for move in range(MOVES):
        new = ranking if not move else (jittered if rng.random() < 0.5 else shuffled)(ranking, rng)
        rank = np.arange(m)
        rank[new] = np.arange(some, m)
        shop.numbers[5] = m if rng.random() < WIDE else rng.randint(some + 1, m)
        starts = decode(shop, fallback, rank)
        ends = starts + shop.duration
        cost = int((ends - window.latest).max()), int(ends.sum())
        if current is None or cost <= current:
            current, ranking = cost, new
        if cost < best:
            best, found = cost, starts
    return None if found is None else (-best[0], found)


def _fits(shop: Shop) -> bool:
    """Return whether the ops of a window fit one after another, under ``replace``."""
    left, level = shop.accessors.tolist(), int(shop.numbers[2])
    for i, alloc in enumerate(shop.alloc.tolist()):
        for t in shop.tensors[shop.tensor_at[i] : shop.tensor_at[i + 1]].tolist():
            left[t] -= 1
            if not left[t]:
                level -= int(shop.size[t])
        level += alloc
        if level > shop.numbers[1]:
            return False
        level -= int(shop.at_end[i])
    return True


def _lists(starts: Integers, flat: Integers) -> list[list[int]]:
    every, at = flat.tolist(), starts.tolist()
    return [every[a:b] for a, b in pairwise(at)]


def _flat(lists: list[list[int]]) -> tuple[Integers, Integers]:
    starts = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in lists], out=starts[1:])
    return starts, np.array([x for row in lists for x in row], dtype=np.int64)
