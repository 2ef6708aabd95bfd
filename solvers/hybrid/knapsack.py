r"""One mode for each layer of a stage: the least time within the memory, a knapsack of multiple choices.

Layers i with modes m of time :math:`c_{im}` and :math:`s_{im}` bytes: minimize :math:`\sum_i c_{i m_i}` such
that :math:`\sum_i s_{i m_i} \le M`.

*Swaps.* Of each layer the modes on the lower left hull of (bytes, time), from the fastest on: each swap
from one to the next saves bytes for time, at a price per byte that rises. Swaps of all layers by price,
then the fastest modes with swaps up to the first that makes them fit are a choice of modes
(`Swaps.greedy`), and that with only the part of the last swap that is needed is the optimum of the linear
relaxation, so a bound (Sinha and Zoltners, The multiple-choice knapsack problem, 1979).

*Exact.* Layers one after another, most bytes to save first; of the choices for the first layers those are
kept that no other beats in time and bytes, and whose time with the relaxation's for the other layers is
below the best known. Its floating point is lowered by more than its error, so it only keeps too many; times
and bytes add up to less than 2**52.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Modes = Sequence[tuple[int, int]]
"""Of a layer: time in ns and bytes of each mode, at least one."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """Modes by layer, their time in ns, and what no choice of modes is below."""

    modes: Ints
    time: int
    bound: int


class Swaps:
    """The fastest modes of layers, and all swaps by price.

    Attributes
    ----------
    start, times, sizes
        By layer: its fastest mode (of these the smallest), with time and bytes.
    least
        By layer: the bytes of its smallest mode.
    layer, mode, time, saved
        By swap: its layer, the mode after it, the time that it costs and the bytes that it saves.
    """

    def __init__(self, layers: Sequence[Modes]) -> None:
        start, swaps = [], []
        for i, modes in enumerate(layers):
            hull = _hull(modes)
            start.append(hull[0])
            for a, b in pairwise(hull):
                swaps.append((i, b, modes[b][0] - modes[a][0], modes[a][1] - modes[b][1]))
        # two prices of integers below 2**62 differ by more than 2**-124, so this sorts them exactly
        swaps.sort(key=lambda swap: ((swap[2] << 124) // swap[3], swap[0]))
        self.start = _ints(start)
        self.times = _ints([modes[m][0] for modes, m in zip(layers, start, strict=True)])
        self.sizes = _ints([modes[m][1] for modes, m in zip(layers, start, strict=True)])
        self.least = _ints([min(nbytes for _, nbytes in modes) for modes in layers])
        self.layer, self.mode, self.time, self.saved = _ints(swaps).reshape(-1, 4).T
        self._saved, self._time = _totals(self.saved), _totals(self.time)

    def greedy(self, here: NDArray[np.bool_], room: int) -> ModeChoice | None:
        """Return the choice of swaps by price for some layers, with a bound; None if nothing fits.

        Modes of the other layers say nothing.
        """
        ours = np.flatnonzero(here[self.layer])
        over = int(self.sizes[here].sum()) - room
        time = int(self.times[here].sum())
        if over <= 0:
            return ModeChoice(self.start, time, time)
        saved = np.cumsum(self.saved[ours])
        last = int(np.searchsorted(saved, over))
        if last == len(ours):
            return None
        time += int(self.time[ours[:last]].sum())
        needed = over - (int(saved[last - 1]) if last else 0)
        price, gain = int(self.time[ours[last]]), int(self.saved[ours[last]])
        modes = self.start.copy()
        done = ours[: last + 1]
        modes[self.layer[done]] = self.mode[done]  # of a layer's swaps the last
        return ModeChoice(modes, time + price, time - (-price * needed // gain))

    def relaxed(self, rooms: Ints) -> NDArray[np.float64]:
        """Return for each room a lower bound on the time of all layers; infinite where they do not fit."""
        over = (int(self.sizes.sum()) - rooms).astype(float)
        low = np.floor((int(self.times.sum()) + np.interp(over, self._saved, self._time)) * (1 - 1e-9))
        low[over > self._saved[-1]] = np.inf
        return np.asarray(low)


def exact(
    layers: Sequence[Modes], room: int, best: ModeChoice, expired: Callable[[], bool] = lambda: False
) -> ModeChoice | None:
    """Return an optimal choice for layers of which one is known; None if the time is up.

    Examples
    --------
    >>> import numpy as np
    >>> from lowtide.solvers.hybrid.knapsack import Swaps, exact
    >>> layers = [[(1, 10), (4, 1)], [(2, 10), (9, 2)]]
    >>> best = Swaps(layers).greedy(np.array([True, True]), 12)
    >>> exact(layers, 12, best).time
    6
    """
    order = sorted(range(len(layers)), key=lambda i: min(s for _, s in layers[i]) - layers[i][0][1])
    time, size = _ints([0]), _ints([0])
    steps = []
    for k, i in enumerate(order):
        if expired():
            return None
        times = np.concatenate([time + c for c, _ in layers[i]])
        sizes = np.concatenate([size + s for _, s in layers[i]])
        rest = Swaps([layers[i] for i in order[k + 1 :]])
        keep = np.flatnonzero(times + rest.relaxed(room - sizes) < best.time)
        keep = keep[np.lexsort((sizes[keep], times[keep]))]
        least = np.minimum.accumulate(sizes[keep])
        keep = keep[np.concatenate([[True], least[1:] < least[:-1]])[: len(keep)]]
        steps.append((keep, len(time)))
        time, size = times[keep], sizes[keep]
    if not len(time):
        return ModeChoice(best.modes, best.time, best.time)
    modes = np.zeros(len(layers), dtype=np.int64)
    at, found = 0, int(time[0])
    for i, (keep, count) in zip(reversed(order), reversed(steps), strict=True):
        modes[i], at = divmod(int(keep[at]), count)
    return ModeChoice(modes, found, found)


def _hull(modes: Modes) -> list[int]:
    """Return the modes from the fastest on, each next of fewer bytes at a higher price."""
    hull: list[int] = []
    for m in sorted(range(len(modes)), key=lambda m: (modes[m], m)):
        c, s = modes[m]
        if hull and s >= modes[hull[-1]][1]:
            continue
        while len(hull) > 1:
            (c0, s0), (c1, s1) = modes[hull[-2]], modes[hull[-1]]
            if (c1 - c0) * (s1 - s) < (c - c1) * (s0 - s1):
                break
            hull.pop()
        hull.append(m)
    return hull


def _ints(numbers: Sequence[Any]) -> Ints:
    return np.array(numbers, dtype=np.int64)


def _totals(numbers: Ints) -> NDArray[np.float64]:
    return np.concatenate([[0], np.cumsum(numbers)]).astype(float)
