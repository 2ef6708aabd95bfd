"""What is to come: the planner's forecasts of memory, and the absences that a tensor could have; compiled.

Ops are counted on from the first iteration: op n is the first one of the second. No argument of a call is a
conditional expression: numba could not keep what it compiled on disk.
"""

from __future__ import annotations

from ....models.arrays import Integers
from ...engines.kernels import inner
from ..world.channels import FAR
from .tables import PlannerTables


@inner
def last_forecast(w: PlannerTables) -> int:
    """Return the op behind the last one of the forecast (absolute)."""
    n = len(w.op) - 1
    return int(w.state[0].now + n if w.state[0].periodic else n)


@inner
def add_range(w: PlannerTables, forecast: Integers, low: int, high: int, nbytes: int) -> None:
    """Add bytes to a forecast of ops low..high-1 (absolute), as far as it reaches."""
    n = len(w.op) - 1
    low = max(low, w.state[0].now)
    high = min(high, last_forecast(w))
    if low >= high:
        return
    k = low % n
    count = high - low
    first = min(count, n - k)
    for j in range(k, k + first):
        forecast[j] += nbytes
    for j in range(count - first):
        forecast[j] += nbytes


@inner
def clock(w: PlannerTables, op: int) -> int:
    """Return the ideal start time of an absolute op index."""
    n = len(w.op) - 1
    return int((op // n) * w.op[n].clock + w.op[op % n].clock)


@inner
def usable_end(w: PlannerTables, i: int) -> int:
    """Return the first op before the next use during which tensor i must not be away any more."""
    return int(w.tensor[i].next_use - w.access[w.tensor[i].first_access + w.tensor[i].next_index].lead)


@inner
def access_after(w: PlannerTables, i: int, index: int, base: int) -> tuple[int, int]:
    """Return the next access (index, absolute op) behind number `index` at `base`; FAR if it is dead then."""
    n = len(w.op) - 1
    first = w.tensor[i].first_access
    if index + 1 < w.tensor[i + 1].first_access - first:
        return index + 1, base - base % n + w.access[first + index + 1].at
    if w.tensor[i].persistent:
        return 0, base - base % n + n + w.access[first].at
    return 0, FAR


@inner
def shift_away(w: PlannerTables, i: int, nbytes: int) -> None:
    """Add bytes to the least forecast wherever tensor i could be away: absences before its next write."""
    end = last_forecast(w)
    first = w.tensor[i].first_access
    absence = w.state[0].now
    index, use = w.tensor[i].next_index, w.tensor[i].next_use
    while use != FAR:
        add_range(w, w.least, absence, use - w.access[first + index].lead, nbytes)
        if w.access[first + index].writes or use >= end:
            return
        absence = use + 1
        index, use = access_after(w, i, index, use)


@inner
def absence_around(w: PlannerTables, i: int, op: int, hurry: bool) -> int:
    """Return the access that ends the usable absence of the current version of tensor i around `op`, else -1.

    `hurry`: without the lead.
    """
    first = w.tensor[i].first_access
    index, use = w.tensor[i].next_index, w.tensor[i].next_use
    while use != FAR and use <= op:
        if use == op or w.access[first + index].writes:
            return -1
        index, use = access_after(w, i, index, use)
    if use == FAR or (not hurry and use - w.access[first + index].lead <= op):
        return -1
    return int(use)


@inner
def absence_at_deficit(w: PlannerTables, i: int) -> int:
    """Return the access that ends the first usable absence of the current version with a deficit, else -1."""
    n = len(w.op) - 1
    first, last = w.tensor[i].first_access, last_forecast(w)
    absence = w.state[0].now
    index, use = w.tensor[i].next_index, w.tensor[i].next_use
    while use != FAR and absence < last:
        if w.next_deficit[absence % n] < use - w.access[first + index].lead:
            return int(use)
        if w.access[first + index].writes:
            return -1
        absence = use + 1
        index, use = access_after(w, i, index, use)
    return -1


@inner
def find_deficits(w: PlannerTables) -> None:
    """Note at each op of the forecast the first deficit at it or behind."""
    n = len(w.op) - 1
    following, last = FAR, last_forecast(w)
    k = last % n
    for op in range(last - 1, w.state[0].now - 1, -1):
        k = k - 1 if k > 0 else n - 1
        if w.least[k] > w.state[0].memory:
            following = op
        w.next_deficit[k] = following


@inner
def first_deficit(w: PlannerTables) -> int:
    """Return the first op at which memory will not do even if all that is clean is away, else -1."""
    n = len(w.op) - 1
    now, memory = w.state[0].now, w.state[0].memory
    k = now % n
    for j in range(k, n):
        if w.least[j] > memory:
            return int(now + j - k)
    if w.state[0].periodic:
        for j in range(k):
            if w.least[j] > memory:
                return int(now + n + j - k)
    if w.state[0].forced:
        return int(now)
    return -1
