"""`auto` for `distributed`: schedules by lists, bounds of the memories together, CP-SAT from what they find.

1. The critical path. In turns: `heft`, and by ranks that are drawn around its own; the fastest schedule on
   one memory alone, by the lists of `makespan`; both on some of the memories, for there more devices are of
   use, and otherwise lists spread over all that they get.
2. `auto` of `makespan` on the relaxation `Distributed.pooled`: bounds, or that there is no schedule.
3. CP-SAT, with the best schedule as hint and horizon; and on the memories whose lists were fastest, but not
   on all, which is a much smaller model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...formulations.distributed import intervals_cpsat
from ...formulations.distributed.data import DistributedData, distributed_data
from ...formulations.makespan.data import makespan_data
from ...models.problems.distributed import Distributed, DistributedSchedule
from ..context import Context, Outcome
from ..makespan.auto import solve_auto as solve_makespan
from ..makespan.bounds.bounds import critical_path
from ..makespan.lists.lns import seconds_of_lists
from ..makespan.methods import ALL, LISTS
from ..parts import Part, per_op
from ..portfolio import run
from .lists import (
    Some,
    ended,
    hand_bounds_on,
    offer_at_random,
    offer_heft,
    offer_on_each_memory,
    on_some,
    sets_of_memories,
)
from .models import refused, solve_intervals, solve_on_some

SECONDS_OF_LISTS = per_op(50)
"""Until there are enough lists for one of them to be better."""

TERMS_PER_SECOND = 30_000
"""Of the model of intervals, until CP-SAT betters a list schedule: moe-train on two devices, 53,000 terms,
takes 2.5 s of the processor, nasnet-3 on four, 35,000 terms, .9 s."""


def solve_auto(problem: Distributed, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    return run(parts_of(problem), problem, context)


def parts_of(problem: Distributed) -> tuple[Part, ...]:
    """Return the parts, which have the data of a problem together."""
    return _Lists(data=distributed_data(problem)).parts()


@dataclass
class _Lists:
    """One solve: the data, and the fastest list schedule on some of the memories."""

    data: DistributedData
    fastest: tuple[int, Some, DistributedSchedule] | None = None

    def parts(self) -> tuple[Part, ...]:
        """Return the parts; without a limit the exact one comes before what is only faster."""
        return (
            Part(name="critical path", run=_critical_path, first=True),
            Part(name="heft", run=self.heft),
            Part(name="one memory", run=offer_on_each_memory, kernels=LISTS),
            Part(name="lists at random", run=self.at_random, seconds=SECONDS_OF_LISTS),
            Part(name="memories together", run=_together, seconds=_seconds_of_bounds, kernels=ALL),
            Part(name="cpsat", run=self.model, seconds=self.seconds_of_model, pauses=False),
            Part(name="heft on some memories", run=self.heft_on_some, refuses=_few_memories),
            Part(name="at random on some", run=self.at_random_on_some, seconds=SECONDS_OF_LISTS),
            Part(
                name="cpsat on some memories",
                run=self.model_on_some,
                seconds=self.seconds_on_some,
                refuses=_few_memories,
                pauses=False,
            ),
        )

    def heft(self, problem: Distributed, context: Context) -> Outcome:
        """Offer the list schedule by upward rank."""
        offer_heft(Some.all(self.data), context)
        return ended(Outcome(), context)

    def at_random(self, problem: Distributed, context: Context) -> Outcome:
        """Offer list schedules by ranks that are drawn."""
        return offer_at_random(Some.all(self.data), context)

    def at_random_on_some(self, problem: Distributed, context: Context) -> Outcome:
        """Offer the same on the memories whose list was fastest."""
        return Outcome() if self.fastest is None else offer_at_random(self.fastest[1], context)

    def heft_on_some(self, problem: Distributed, context: Context) -> Outcome:
        """Offer the same on some of the memories."""
        for memories in sets_of_memories(problem):
            some = on_some(self.data, memories)
            if some is None or (answer := offer_heft(some, context)) is None:
                continue
            value = problem.evaluate(answer)
            if self.fastest is None or value < self.fastest[0]:
                self.fastest = value, some, answer
        return ended(Outcome(), context)

    def model(self, problem: Distributed, context: Context) -> Outcome:
        """Solve the model of intervals."""
        return refused(self.data, context) or solve_intervals(self.data, context)

    def model_on_some(self, problem: Distributed, context: Context) -> Outcome:
        """Solve it on the memories that the best schedule uses; if these are all, on those of fast lists."""
        taken = () if context.answer is None else enumerate(context.answer.chosen)
        used = tuple(sorted({problem.memory_of(i, k) for i, k in taken}))
        if 1 < len(used) < len(problem.memories) and (some := on_some(self.data, used)) is not None:
            return solve_on_some(some, context.answer, context)
        if self.fastest is None:
            return Outcome(refused="found no schedule on some of the memories")
        return solve_on_some(*self.fastest[1:], context)

    def seconds_of_model(self, problem: Distributed) -> float:
        """Estimate the time until the model of intervals has something to show."""
        return _seconds(self.data)

    def seconds_on_some(self, problem: Distributed) -> float:
        """Estimate the same of the smallest model on some of the memories."""
        some = (on_some(self.data, memories) for memories in sets_of_memories(problem))
        return min((_seconds(x.data) for x in some if x is not None), default=0.0)


def _critical_path(problem: Distributed, context: Context) -> None:
    data = makespan_data(problem.pooled)
    context.raise_bound(critical_path(data) * data.tick, kind="critical path")


def _seconds(data: DistributedData) -> float:
    return intervals_cpsat.size(data, data.horizon).terms / TERMS_PER_SECOND


def _seconds_of_bounds(problem: Distributed) -> float:
    return seconds_of_lists(problem.pooled)


def _few_memories(problem: Distributed) -> str:
    count = len(problem.memories)
    return f"found {count} memories, expected more than two" if count < 3 else ""


def _together(problem: Distributed, context: Context) -> Outcome:
    """Take over the bounds of all memories together, and the proof that there is no schedule."""
    inner = context.inner(problem.pooled, prefix="memories together: ")
    hand_bounds_on(inner, context, "memories together, ")
    outcome = solve_makespan(problem.pooled, inner)
    if outcome.infeasible:
        return replace(outcome, detail=f"all memories together: {outcome.detail}")
    return Outcome(reason=outcome.reason)
