r"""Large-neighbourhood search in windows of time: a run of ops is scheduled anew, what follows moves up.

Take a schedule and its ops by start (ties by number): a *window* are the ops at places [first, last) of
that sequence. Let :math:`t_1` be the start of the first of them, :math:`t_2` that of the op at place `last`
(the makespan, if there is none), and R the ops before the window that still run at :math:`t_1`. Ops before
the window stay. The window is a problem of its own: from :math:`t_1` on, its ops and what is left of R share
processors and memory, with the tensors live at :math:`t_1`; a tensor that others access later stays.

*Moving up.* Let :math:`e_i` be the ends of the ops of window and R, :math:`e'_i` those in a new schedule of
the window (of R the same), and

.. math:: \delta = \min_i (\max(t_2, e_i) - e'_i).

All ops behind the window may start :math:`\delta` earlier, or :math:`-\delta` later if it is negative, and
the schedule is still valid. At the new time of an instant :math:`t \ge t_2` an op of window or R runs only if
:math:`\max(t_2, e_i) > t`, so :math:`e_i > t`: it ran then too. So at most as many processors are busy, what
has ended includes what had ended, and what precedes an op behind the window has ended. The ops of the window
have started, as they had: :math:`e'_i - d_i \le \max(t_2, e_i) - d_i - \delta \le t_2 - \delta`, since their
start was at most :math:`t_2` and d is at least 0. So the tensors that have been allocated are the same, and
those released include those that were, whether by the end of their last access or by its start.

*Search.* A schedule of the window is the safe list schedule of a ranking (`list_kernel`); the fallback order
is the sequence of starts, whose sequential peak is within the memory in the accounting ``coexist``
(`bounds`); under ``replace`` that is checked, and windows where it is not are left. From the ranking by
starts, neighbours are tried that differ in a few places, in a reach of the fallback order that is drawn; one
that is no worse replaces it. The best neighbour is taken if its :math:`\delta` is positive (the old schedule
has 0), or 0 with a smaller sum of ends: then there is more room for the next windows. It is also taken if
:math:`-\delta` is below a threshold, which is drawn with mean T (simulated annealing: so a schedule that is
later by x is within it with probability :math:`e^{-x/T}`). The temperature T falls geometrically
during a round of windows; each round has twice the windows of the last, and begins with the best schedule.

Sources: windows of time as neighbourhoods are common in scheduling (large-neighbourhood search: Shaw, 1998;
for resource-constrained projects: Palpant, Artigues and Michelon, 2004, who fix what is outside of a block
and solve the block); annealing: Kirkpatrick, Gelatt and Vecchi (1983). Scheduling the window by lists, and
the rule of moving up, are the suite's own.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from ....models.arrays import Integers
from .layout import Shop

SMALLEST, LARGEST = 6, 60
"""Ops of a window; sizes between are drawn evenly on a logarithmic scale."""

MOVES = 30
"""Rankings of a window that are tried."""

HOTTEST, COLDEST = 0.02, 0.002
"""Temperatures, as parts of the mean duration."""

BATCH = 50
"""Windows at one temperature, and between two looks at the clock."""

FIRST_ROUND = 4
"""Windows of the first round, per op."""


def improve_by_windows(
    shop: Shop,
    known: Callable[[], Integers],
    *,
    seed: int,
    offer: Callable[[Integers], object],
    stop: Callable[[], bool],
    windows: int,
) -> None:
    """Search from the fastest schedule that is known.

    Parameters
    ----------
    shop
        The problem, of identical processors.
    known
        Returns the start of each op in ns of the fastest schedule within the memory, those that were offered
        included: each round begins with it; a faster one from elsewhere begins a round anew.
    offer
        Takes each schedule that is faster than all before.
    windows
        After so many without a faster schedule it ends by itself.
    """
    from .window_kernel import anneal

    rng, mean = Random(seed), float(shop.duration.mean())
    since = fastest = 0
    done = whole = FIRST_ROUND * len(shop.duration) // 2  # so that the first round is twice as long
    while not stop() and since < windows:
        best = known()
        end = int((best + shop.duration).max())
        if end < fastest or done == whole:
            if done == whole:
                whole *= 2
            starts, order, fastest, done = best, np.argsort(best, kind="stable"), end, 0
        heat = mean * HOTTEST * (COLDEST / HOTTEST) ** (done / whole)
        count = min(BATCH, whole - done, windows - since)
        sizes = [int(SMALLEST * (LARGEST / SMALLEST) ** rng.random()) for _ in range(count)]
        made = anneal(shop, starts, order, np.array(sizes), MOVES, heat, rng.randrange(2**32))
        done, since = done + count, since + count
        if made < fastest:
            fastest, since = int(made), 0
            offer(starts.copy())
