"""All ops in one stage: the split that `auto` begins with."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.problems.partition import Partition
from ...models.split import Split


def one_stage(problem: Partition) -> Iterator[Split]:
    """Yield one stage for each kind of devices that can run all ops; none again, then all that may."""
    n = len(problem.graph.ops)
    forward = tuple(sorted(set(range(n)) - set(problem.backward)))
    again = [(), forward] if problem.recompute == "choose" and problem.backward else [()]
    for kind, _ in problem.kinds:
        if all(kind in modes for modes in problem.modes):
            for some in again:
                yield Split(stage=(0,) * n, kinds=(kind,), replicas=(1,), again=some)
