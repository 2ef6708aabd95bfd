"""Stages without a search: all that is ready, or one op after another.

``greedy`` is what IOS compares itself with: each stage is all ops whose predecessors have been executed, a
group each. With fewer streams than that, a stage takes the ops with the longest paths from them first, as
many as there are streams; within a memory, as many of these as fit.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from ...formulations.model import ticker
from ...models.derived.precedence import precedence
from ...models.problems.stream_answers import Stages
from ...models.problems.streams import Streams
from ..context import Context, Outcome
from .bounds import raise_first_bound
from .events import in_time, refuse_orders
from .memory import is_too_little


@in_time
def solve_greedy(problem: Streams, context: Context) -> Outcome:
    """Offer greedy stages."""
    refuse_orders(problem)
    raise_first_bound(problem, context)
    stages = greedy_stages(problem, lambda: context.expired)
    if stages is None:
        return Outcome(detail="greedy stages came to ops none of which is within the memory")
    context.offer(Stages(stages=stages))
    return Outcome()


def greedy_stages(
    problem: Streams, expired: Callable[[], bool] = lambda: False
) -> tuple[tuple[tuple[int, ...], ...], ...] | None:
    """Return greedy stages; None if at some point no ready op is within the memory.

    Raises
    ------
    BuildTimeout
        If the time is up.
    """
    if is_too_little(problem):
        return None
    graph, tick = problem.graph, ticker(expired)
    order = precedence(graph)
    longest = list(problem.durations)
    for i in reversed(range(len(longest))):
        longest[i] += max((longest[j] for j in order.successors[i]), default=0)
    waits = [len(some) for some in order.predecessors]
    ready = [(-longest[i], i) for i, count in enumerate(waits) if not count]
    heapify(ready)
    room = _HeldBytes(problem)
    stages = []
    while ready:
        tick()
        left: list[tuple[int, int]] = []
        chosen: list[int] = []
        while ready and len(chosen) < (problem.streams or len(longest)):
            item = heappop(ready)
            if room.takes(item[1]):
                chosen.append(item[1])
            else:
                left.append(item)
        if not chosen:
            return None
        stages.append(tuple((i,) for i in sorted(chosen)))
        room.end()
        for i in chosen:
            for j in order.successors[i]:
                waits[j] -= 1
                if not waits[j]:
                    left.append((-longest[j], j))
        for item in left:
            heappush(ready, item)
    return tuple(stages)


class _HeldBytes:
    """What is held while stages are chosen one after another."""

    def __init__(self, problem: Streams) -> None:
        self.graph, self.memory = problem.graph, problem.memory
        self.uses = [0] * len(self.graph.tensors)
        for op in self.graph.ops:
            for t in {*op.reads, *op.writes}:
                self.uses[t] += 1
        self.held = {t for t, x in enumerate(self.graph.tensors) if x.initial and (x.final or self.uses[t])}
        self.now = sum(self.graph.tensors[t].nbytes for t in self.held)
        self.stage: list[int] = []

    def takes(self, i: int) -> bool:
        """Put an op into the stage, if that is within the memory."""
        op = self.graph.ops[i]
        more = op.all_modes[0].workspace
        more += sum(self.graph.tensors[t].nbytes for t in op.writes if t not in self.held)
        if self.memory is not None and self.now + more > self.memory:
            return False
        self.now += more
        self.held |= set(op.writes)
        self.stage.append(i)
        return True

    def end(self) -> None:
        """End the stage: what nothing needs any more goes."""
        for i in self.stage:
            for t in {*self.graph.ops[i].reads, *self.graph.ops[i].writes}:
                self.uses[t] -= 1
                if not self.uses[t] and not self.graph.tensors[t].final:
                    self.held.discard(t)
        self.stage = []
        self.now = sum(self.graph.tensors[t].nbytes for t in self.held)
