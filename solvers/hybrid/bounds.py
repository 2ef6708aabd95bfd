r"""What no answer of `hybrid` is below, proved in no time.

Layer i takes :math:`p_m` ns in mode m on t devices, and is in a stage of d replicas of such groups.

1. A stage of d groups of t devices that takes T for a sample does work of at most :math:`T d`, so the layers
   there have :math:`\sum t p_m \le T d t`. Stages have D devices at most, together:
   :math:`T \ge \sum_i \min_{t, m} t p_m / D`.
2. Its own stage has at most :math:`R_t` replicas of groups of t: :math:`T \ge \min_{t, m} p_m / R_t`.
"""

from __future__ import annotations

from ...formulations.hybrid.data import HybridData, hybrid_data
from ...models.problems.hybrid import Hybrid
from ..context import Context


def raise_bound(problem: Hybrid, context: Context) -> None:
    """Raise the bound to the mean of all devices and the longest layer."""
    data = hybrid_data(problem)
    work = least_work(data)
    if work is None:
        return  # there is no answer; a method says so
    longest = 1
    for i in range(data.n):
        rows = ((x, max(degree.exchanged)) for degree in data.degrees.values() for x in degree.modes[i])
        longest = max(longest, min(-(-x.time // most) for x, most in rows))
    context.raise_bound(max(longest, -(-sum(work) // problem.processors)), kind="work")


def least_work(data: HybridData) -> list[int] | None:
    """Return by layer its least time multiplied by devices; None if one has no mode."""
    rows = [
        [t * x.time for t, degree in data.degrees.items() for x in degree.modes[i]] for i in range(data.n)
    ]
    return [min(row) for row in rows] if all(rows) else None
