"""Schedules by lists on all memories, on some of them and on one alone; bounds of all together.

What is scheduled on some of the memories is a schedule on all of them. There may be many sets of memories;
these are tried: pairs, of those alike the first, and the first so many, for a schedule on fewer devices of a
machine serves more of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, count
from random import Random
from typing import Self

from ...formulations.distributed.data import DistributedData, distributed_data
from ...formulations.model import BuildTimeout, ticker
from ...models.errors import InstanceError
from ...models.problems.distributed import Distributed, DistributedSchedule
from ...models.problems.makespan import Makespan
from ..context import Context, Outcome
from ..makespan.lists.method import begin
from ..makespan.lists.priorities import PRIORITIES
from .heft import ListScheduler, upward_ranks

WITHOUT_LIMIT = 100
"""List schedules at random where there is no time limit."""

PERCENT = (2, 10, 30)
"""By which ranks differ from those that they are drawn around, at most."""

FOR_BOUNDS = 0.2
"""Part of the time that is left for the relaxation's simple bounds."""


@dataclass(frozen=True, kw_only=True)
class Some:
    """The problem on some memories: its data, and the numbers that its alternatives have in the whole."""

    memories: tuple[int, ...]
    data: DistributedData
    numbers: tuple[tuple[int, ...], ...]

    @classmethod
    def all(cls, data: DistributedData) -> Self:
        """Return the whole problem."""
        numbers = tuple(tuple(range(len(some))) for some in data.alternatives)
        return cls(memories=tuple(range(len(data.capacity))), data=data, numbers=numbers)

    def in_all(self, answer: DistributedSchedule) -> DistributedSchedule:
        """Return a schedule of it as one of the whole."""
        chosen = (mine[k] for mine, k in zip(self.numbers, answer.chosen, strict=True))
        return replace(answer, chosen=tuple(chosen))

    def of(self, answer: DistributedSchedule) -> DistributedSchedule:
        """Return a schedule of the whole that keeps to its memories as one of it."""
        chosen = (mine.index(k) for mine, k in zip(self.numbers, answer.chosen, strict=True))
        return replace(answer, chosen=tuple(chosen))


def on_some(data: DistributedData, memories: Sequence[int]) -> Some | None:
    """Return the problem on some memories; None if an op runs on none of them."""
    numbers = tuple(
        tuple(k for k, a in enumerate(some) if data.memory_of[a.kind] in memories)
        for some in data.alternatives
    )
    if not all(numbers):
        return None
    kept = (tuple(some[k] for k in mine) for some, mine in zip(data.alternatives, numbers, strict=True))
    counts = (c if m in memories else 0 for c, m in zip(data.counts, data.memory_of, strict=True))
    return Some(
        memories=tuple(memories),
        data=replace(data, alternatives=tuple(kept), counts=tuple(counts)),
        numbers=numbers,
    )


def alike(problem: Distributed, memories: Sequence[int]) -> tuple[object, ...]:
    """Return what tells sets of memories apart: processors, bytes, and links in their order."""
    here = [
        (sorted((x.kind, len(x.processors)) for x in problem.places if x.memory == m), problem.capacities[m])
        for m in memories
    ]
    links = [
        None if (link := problem.links.get((a, b))) is None else (link.bytes_per_s, link.latency)
        for a in memories
        for b in memories
    ]
    return *map(repr, here), *links


def sets_of_memories(problem: Distributed) -> Iterator[tuple[int, ...]]:
    """Yield the sets of two memories or more that are tried, but not that of all."""
    many, met = len(problem.memories), set[tuple[object, ...]]()
    firsts = (tuple(range(k)) for k in range(3, many))
    for some in (*(combinations(range(many), 2) if many > 2 else ()), *firsts):
        if (known := alike(problem, some)) not in met:
            met.add(known)
            yield some


def offer_heft(some: Some, context: Context) -> DistributedSchedule | None:
    """Offer the list schedule by upward rank, and return it; None if there is none, or no time."""
    tick = ticker(lambda: context.expired)
    try:
        lists = ListScheduler(some.data, tick)
        if not lists.run(upward_ranks(some.data, tick), tick):
            return None
    except BuildTimeout:
        return None
    answer = some.in_all(lists.answer())
    context.offer(answer)
    return answer


def offer_at_random(some: Some, context: Context) -> Outcome:
    """Offer list schedules by ranks that are drawn around the upward ones, and around those of the best.

    A list scheduler looks one op ahead; ranks that differ by a few percent, or by a third, send it elsewhere.
    """
    tick, rng = ticker(lambda: context.expired), Random(context.seed)
    best: tuple[int, list[int]] | None = None
    with suppress(BuildTimeout):
        first = [int(1000 * rank) for rank in upward_ranks(some.data, tick)]
        for turn in count() if context.time_limit is not None else range(WITHOUT_LIMIT):
            if context.closed:
                break
            percent = rng.choice(PERCENT)
            base = best[1] if best is not None and turn % 2 else first
            ranks = [rank * rng.randint(100 - percent, 100 + percent) // 100 for rank in base]
            lists = ListScheduler(some.data, tick)
            if lists.run(ranks, tick):
                value = context.offer(some.in_all(lists.answer()))
                if best is None or value <= best[0]:
                    best = value, ranks
    return ended(Outcome(), context)


def offer_on_each_memory(problem: Distributed, context: Context) -> Outcome:
    """Offer the list schedules on one memory alone, of memories that are alike the first."""
    first = {alike(problem, (m,)): m for m in reversed(range(len(problem.memories)))}
    for m in sorted(first.values()):
        offer_one_memory(problem, m, context)
    return ended(Outcome(), context)


def offer_one_memory(problem: Distributed, m: int, context: Context) -> None:
    """Offer the best list schedule of `makespan` on one memory's processors, if all ops can run there."""
    here = {place.kind: q for q, place in enumerate(problem.places) if place.memory == m}
    counts = tuple((kind, len(problem.places[q].processors)) for kind, q in here.items())
    room = problem.capacities[m]
    if room is not None:  # which `makespan` counts as in its memory
        room += sum(problem.graph.tensors[t].nbytes for t in problem.untouched)
    try:
        alone = Makespan(problem.graph, counts, None if room is None else max(room, 0))
    except InstanceError:  # some op runs on no kind that is here, or some kind can run no op
        return
    inner = context.inner(alone, prefix=f"on {problem.memories[m]} alone: ")

    def hand_on() -> None:
        if inner.answer is not None:
            context.offer(_on_memory(problem, alone, list(here.values()), inner.answer))

    inner.changed = hand_on
    begin(alone, inner, lists=PRIORITIES)


def _on_memory(
    problem: Distributed, alone: Makespan, places: Sequence[int], answer: Sequence[int]
) -> DistributedSchedule:
    """Return a schedule of `makespan` on the places of one memory as one of the problem."""
    starts, ways = alone.split(answer)
    chosen = []
    for i, way in enumerate(ways):
        mine = ((a.mode, a.kind) for a in problem.alternatives[i])
        chosen.append(list(mine).index((way.mode, places[way.kind])))
    return DistributedSchedule(starts=tuple(starts), chosen=tuple(chosen))


def hand_bounds_on(inner: Context, context: Context, kind: str = "") -> None:
    """Have the bounds of a relaxation raise those of the problem as soon as they are there."""

    def hand_on() -> None:
        if inner.bound is not None:
            context.raise_bound(inner.bound, inner.proof or "exact", kind=f"{kind}{inner.bound_kind}")

    inner.changed = hand_on


def raise_bounds(problem: Distributed, context: Context) -> Outcome:
    """Raise the bound by the relaxation's simple ones; say if it is proved to have no schedule."""
    if context.expired:
        return Outcome()
    inner = context.inner(problem.pooled, FOR_BOUNDS * context.remaining(), "memories together: ")
    hand_bounds_on(inner, context)
    started = begin(problem.pooled, inner)
    if isinstance(started, Outcome) and started.infeasible:
        return Outcome(infeasible=True, detail=f"all memories together: {started.detail}")
    return Outcome()


def solve_heft(problem: Distributed, context: Context) -> Outcome:
    """Offer the list schedule by upward rank, and raise the bounds of the relaxation."""
    found = offer_heft(Some.all(distributed_data(problem)), context)
    outcome = raise_bounds(problem, context)
    if outcome.infeasible or found is not None or context.expired:
        return ended(outcome, context)
    return Outcome(detail="the list schedule found no place for some op within the memories")


def ended(outcome: Outcome, context: Context) -> Outcome:
    """Return how a method ends here: with the relaxation's proof, closed, or out of time."""
    if outcome.infeasible:
        return outcome
    return Outcome(reason="time" if context.expired and not context.closed else None)
