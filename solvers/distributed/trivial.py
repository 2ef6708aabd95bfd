"""One op after the other on one processor: the schedule that `auto` begins with."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.problems.distributed import Distributed, DistributedSchedule


def one_processor(problem: Distributed) -> Iterator[DistributedSchedule]:
    """Yield the reference order on one processor of each memory whose kind can run all ops."""
    seen = set[int]()
    for q, place in enumerate(problem.places):
        if place.memory in seen:
            continue
        here = [[(a.duration, k) for k, a in enumerate(some) if a.kind == q] for some in problem.alternatives]
        if not all(here):
            continue
        seen.add(place.memory)
        now, starts, chosen = 0, [], []
        for some in here:
            duration, k = min(some)
            starts.append(now)
            chosen.append(k)
            now += duration
        yield DistributedSchedule(starts=tuple(starts), chosen=tuple(chosen), transfers=())
