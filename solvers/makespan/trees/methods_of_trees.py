"""Published schedules of task trees, as methods for `makespan`.

Those that know the memory (`mem-booking`, `memory-aware-mapping`) keep within it. The others may not: then
they leave no plan, and say how many bytes their schedule needs.
"""

from __future__ import annotations

from ....formulations.makespan.data import makespan_data
from ....models.problems.makespan import Makespan, Starts
from ...context import Context, Outcome
from ...trees.task_tree import TaskTree, identical_processors, task_tree
from ..bounds.bounds import does_not_fit, raise_bounds
from ..lists.method import begin
from .booking import booking_schedule
from .list_schedules import deepest_first, inner_first, list_schedule
from .mappings import all_to_all, mapped_schedule, memory_aware, proportional
from .subtrees import subtrees_schedule


def solve_booking(problem: Makespan, context: Context) -> Outcome:
    """Offer the schedule of MemBooking.

    It activates nodes in best post-order if that is within the memory, else in the fallback order; of nodes
    that can start the one with the longest chain to the end does.
    """
    p, tree = _processors_and_tree(problem, context)
    started = begin(problem, context)
    if isinstance(started, Outcome):
        return started
    memory = sum(tree.needed) if problem.memory is None else problem.memory
    activation = tree.post_order() if tree.peak[tree.root] <= memory else started.order
    context.offer(booking_schedule(tree, p, memory, activation, deepest_first(tree)))
    return Outcome()


def solve_memory_aware(problem: Makespan, context: Context) -> Outcome:
    """Offer the schedule of the memory-aware mapping, if the best post-order is within the memory."""
    p, tree = _processors_and_tree(problem, context)
    memory, least = problem.memory, tree.peak[tree.root]
    if memory is not None and least > memory:
        return _bounds(problem, context) or Outcome(
            detail=f"found no mapping: the best post-order needs {least} bytes, of {memory}"
        )
    batches_of = memory_aware(tree, sum(tree.needed) if memory is None else memory)
    return _offer(problem, context, tree, mapped_schedule(tree, p, batches_of))


def solve_mapping(problem: Makespan, context: Context) -> Outcome:
    """Offer the schedule of the proportional mapping, or of all to all, if it is within the memory."""
    p, tree = _processors_and_tree(problem, context)
    batches_of = proportional if context.method == "proportional-mapping" else all_to_all
    return _offer(problem, context, tree, mapped_schedule(tree, p, batches_of(tree)))


def solve_subtrees(problem: Makespan, context: Context) -> Outcome:
    """Offer the schedule of ParSubtrees if it is within the memory."""
    p, tree = _processors_and_tree(problem, context)
    balanced = context.options["parallel"] == "all"
    return _offer(problem, context, tree, subtrees_schedule(tree, p, balanced=balanced))


def solve_list(problem: Makespan, context: Context) -> Outcome:
    """Offer the schedule of ParInnerFirst or ParDeepestFirst if it is within the memory."""
    p, tree = _processors_and_tree(problem, context)
    keys = inner_first if context.method == "par-inner-first" else deepest_first
    memory = problem.memory if context.options["leaves"] == "limited" else None
    return _offer(problem, context, tree, list_schedule(tree, p, keys(tree), memory))


def _processors_and_tree(problem: Makespan, context: Context) -> tuple[int, TaskTree]:
    return identical_processors(problem, context.method), task_tree(problem, context.method)


def _offer(problem: Makespan, context: Context, tree: TaskTree, starts: Starts) -> Outcome:
    """Offer a schedule if it is within the memory; else say what it needs."""
    if (impossible := _bounds(problem, context)) is not None:
        return impossible
    needed = tree.memory(starts)
    if problem.memory is not None and needed > problem.memory:
        took = problem.evaluate(starts)
        return Outcome(
            detail=f"the schedule takes {took} ns and needs {needed} bytes, of {problem.memory}: no plan"
        )
    context.offer(starts)
    return Outcome()


def _bounds(problem: Makespan, context: Context) -> Outcome | None:
    """Leave the bounds in the context; return an outcome if there is no schedule."""
    data = makespan_data(problem)
    if (witness := does_not_fit(problem, data)) is not None:
        return Outcome(infeasible=True, detail=witness)
    raise_bounds(problem, data, context)
    return None
