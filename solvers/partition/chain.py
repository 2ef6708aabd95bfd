r"""`chain`: dynamic program over the cuts of one order of the classes; exact where there is only one.

Classes :math:`1 \dots L` in the reference order; a stage is an interval. With u the devices of each kind that
are used behind class i,

.. math:: f(i, u + r e_k) = \min_{j > i} \max(f(j, u), L_{kr}(i, j)),

where :math:`L_{kr}(i, j)` is the load of classes :math:`i + 1 \dots j` on r devices of kind k, infinite
beyond their memory. It is the program of `ideals` on the L + 1 beginnings of the order: :math:`O(L^2)` stages
are looked at. Where the order of the classes is total there are no other ideals: the result is the optimum.
"""

from __future__ import annotations

from dataclasses import replace

from ...formulations.partition.data import PartitionData, partition_data
from ...models.problems.partition import Partition
from ..context import Context, Outcome
from .choice import solve_choice
from .ideals import proved
from .program import chain_rows, refusal, run_program
from .published import offer_valid


def is_chain(problem: Partition, data: PartitionData) -> bool:
    """Return whether the classes can stand in one order only."""
    return problem.contiguous and all(c - 1 in data.before[c] for c in range(1, data.n))


def solve_chain(problem: Partition, context: Context) -> Outcome:
    """Offer the best cuts of the reference order, and prove them where there is no other."""
    data = partition_data(problem)
    if problem.recompute == "choose":
        return solve_choice(problem, data, context, exact=is_chain(problem, data))
    if words := refusal(problem, data):
        return Outcome(detail=words)
    if not run_program(problem, data, chain_rows(data), context):
        return Outcome(reason="time")
    if is_chain(problem, data):
        return proved(context, "chain", data.n + 1)
    return Outcome(detail="" if context.answer else "no cuts of the reference order are within the memory")


def solve_pipedream(problem: Partition, context: Context) -> Outcome:
    """Offer the best cuts of the reference order with replicas where transfers and memory do not count.

    As PipeDream's planner does unless it is told otherwise; its profiles state what they would cost.
    """
    goal = "load" if problem.objective == "latency" else problem.objective
    return _elsewhere(
        problem, context, replace(problem, objective=goal, link=None, memory=None, schedule="none")
    )


def solve_alpa(problem: Partition, context: Context) -> Outcome:
    """Offer the cuts of the reference order with the least time of a batch, as Alpa's outer program does."""
    return _elsewhere(problem, context, replace(problem, objective="time"))


def _elsewhere(problem: Partition, context: Context, other: Partition) -> Outcome:
    """Offer the best cuts of the reference order of another problem on the same graph."""
    data = partition_data(other)
    if words := refusal(other, data):
        return Outcome(detail=words)
    inner = context.inner(other, context.remaining(), "")
    done = run_program(other, data, chain_rows(data), inner)
    if inner.answer is None:
        return Outcome(reason=None if done else "time", detail="no cuts of the reference order are valid")
    return offer_valid(context, inner.answer)
