"""The order of equals in `hints`: that of the C++ library that the artifact was built with; compiled.

GNU's ``std::sort`` is a quicksort with the median of three, down to parts of 16, and one insertion sort
behind it. Which of two equals comes first follows from these steps alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....models.arrays import Integers
from ....solvers.engines.kernels import inner, kernel_in_place

Floats = NDArray[np.float64]
SHORT = 16
"""Parts up to this length are left to the insertion sort at the end."""
CLOSE = 1e-6
"""Values other than 0 that differ by less count as the same."""


@inner
def before(value: Floats, other: Floats, a: int, b: int) -> bool:
    """Return whether one has the greater value or, if both are the same and not 0, the greater other one."""
    if value[a] != 0 and value[b] != 0 and abs(value[a] - value[b]) < CLOSE:
        return bool(other[a] > other[b])
    return bool(value[a] > value[b])


@inner
def insert(order: Integers, value: Floats, other: Floats, at: int) -> None:
    """Move the entry at a place ahead of all that it comes before."""
    what = order[at]
    while at > 0 and before(value, other, what, order[at - 1]):
        order[at] = order[at - 1]
        at -= 1
    order[at] = what


@inner
def part(order: Integers, value: Floats, other: Floats, low: int, high: int) -> int:
    """Divide [low, high) by its median of three; return where the second part begins."""
    a, b, c = low + 1, low + (high - low) // 2, high - 1
    ab = before(value, other, order[a], order[b])
    ac = before(value, other, order[a], order[c])
    bc = before(value, other, order[b], order[c])
    median = (b if bc else c if ac else a) if ab else (a if ac else c if bc else b)
    order[low], order[median] = order[median], order[low]
    pivot, left, right = order[low], low + 1, high
    while True:
        while left < high - 1 and before(value, other, order[left], pivot):
            left += 1
        right -= 1
        while right > low and before(value, other, pivot, order[right]):
            right -= 1
        if left >= right:
            return left
        order[left], order[right] = order[right], order[left]
        left += 1


@kernel_in_place
def sort(order: Integers, value: Floats, other: Floats, parts: Integers) -> None:
    """Sort by value, greatest first; parts: room for the bounds of parts, twice the order's length."""
    waiting = 1
    parts[0], parts[1] = 0, len(order)
    while waiting:
        waiting -= 1
        low, high = parts[2 * waiting], parts[2 * waiting + 1]
        while high - low > SHORT:
            cut = part(order, value, other, low, high)
            parts[2 * waiting], parts[2 * waiting + 1] = low, cut
            waiting += 1
            low = cut
    for at in range(1, len(order)):
        insert(order, value, other, at)
