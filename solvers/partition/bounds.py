r"""What no split of `partition` is below, proved in no time.

A class c takes at least :math:`t_c` ns, on its fastest kind; a stage has at most R replicas, of D devices.

1. The stage of class c has at most R replicas, so its load is at least :math:`t_c / R`.
2. A stage of r replicas with load L does at most :math:`r L` ns of work, and all stages have D devices at
   most: the largest load is at least :math:`\sum_c t_c / D`.

For the time of a batch, loads add up to :math:`\sum_c t_c / R` at least. For the latency: `latency`.
"""

from __future__ import annotations

from ...formulations.partition.data import partition_data
from ...models.problems.partition import Partition
from ..context import Context
from .latency import raise_latency


def raise_bound(problem: Partition, context: Context) -> None:
    """Raise the bound to the largest class and the mean of all devices, or for the latency by paths."""
    if problem.objective == "latency":
        raise_latency(problem, context)
        return
    least = [min(t for t in row if t is not None) for row in partition_data(problem).times if any(row)]
    most = min(problem.replicate, problem.devices)
    load = max(-(-max(least, default=0) // most), -(-sum(least) // problem.devices))
    if problem.objective == "time":
        load = -(-sum(least) // most) + (problem.micro - 1) * load
    context.raise_bound(load, kind="work")
