"""The reference order of formats that list tasks in any order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence, Set

from ...models.errors import InstanceError
from .native import find_cycle


def topological_order(before: Sequence[Set[int]], where: str, label: Callable[[int], object]) -> list[int]:
    """Return the topological order that takes, of the ready tasks, always the first listed.

    Parameters
    ----------
    before
        For each task those that come before it.
    label
        What messages call a task.

    Raises
    ------
    InstanceError
        If there is a cycle; the message lists its tasks.

    Examples
    --------
    >>> from lowtide.instances.formats.task_order import topological_order
    >>> topological_order([{2}, set(), {1}], "tasks", str)
    [1, 2, 0]
    """
    waiting = [len(sources) for sources in before]
    after: list[list[int]] = [[] for _ in before]
    for task, sources in enumerate(before):
        for source in sorted(sources):
            after[source].append(task)
    ready = [task for task, count in enumerate(waiting) if count == 0]
    order = []
    while ready:
        task = heapq.heappop(ready)
        order.append(task)
        for follower in after[task]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, follower)
    if len(order) < len(before):
        cycle = find_cycle([set(sources) for sources in before])[::-1]
        first = cycle.index(min(cycle))
        path = " -> ".join(str(label(i)) for i in [*cycle[first:], *cycle[: first + 1]])
        raise InstanceError(f"{where}: found the cycle {path}, expected an acyclic graph")
    return order
