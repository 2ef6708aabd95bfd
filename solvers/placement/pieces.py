"""What `auto` of `placement` runs in turns where the order is fixed and every op runs once, each by itself.

Each takes the problem and its context, offers what it finds at once and says how it ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from ...formulations.placement.slots import bytes_lp
from ...formulations.placement.states import state_data
from ...formulations.placement.whole import windows_cpsat
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction
from ..parts import per_op
from .parts import seconds_of_planner
from .planner.method import first_plan, try_settings
from .policies import flexgen
from .policies.follow import Candidates, follow
from .policies.local_search import solve_local_search
from .reductions.latencies import without_latencies
from .reductions.replicas.share import replicas
from .reductions.replicas.together import raise_joint_bounds, solve_one
from .sequences import Solve
from .serial.search import solve_serial
from .simulator.problem import SimulatedProblem
from .traits import SEVERAL, Trait, traits
from .whole.event_orders import search_lines
from .whole.intervals import solve_intervals

PLANNED_STEP = "placement: first plan"
"""Step of a context: the planner has a plan."""

CHOOSING = 5.0
"""Seconds in which the planner chooses modes of ops, of one setting for all."""


TERMS_OF_SECOND = 100_000
"""Terms of the slot model's program whose first solution takes a second; the time grows with their power 1.5:
measured on periods of 84 and 226 ops, of which it takes less, and single runs of 30 to 120, of which it takes
more."""

seconds_of_policies = per_op(8_000)
"""Until a policy has a plan."""

seconds_of_starts = per_op(2_000)
"""Until local search has made and simulated all its starts."""

TERMS_PER_SECOND = 50_000
"""Terms of the windows' model in CP-SAT, built and searched for a first solution in a second."""

Decide = Callable[[SimulatedProblem], Candidates]
"""Decides what a policy does."""


def few_ops(problem: Placement) -> str:
    """Return why a policy need not come before the planner."""
    soon = seconds_of_planner(problem) < 1
    return "found few ops, expected so many that the planner takes long" if soon else ""


def no_weights(problem: Placement) -> str:
    """Return why FlexGen's policy is none for a problem."""
    return "" if flexgen.serves(problem) else "found no weights that are read again and not trained"


def one_processor(problem: Placement) -> str:
    """Return why there is nothing to share."""
    return "" if len(problem.machine.processors) > 1 else "found one processor, expected several"


def in_step_only(problem: Placement) -> str:
    """Return why replicas do not take turns."""
    return "found a period, in which replicas go in step" if problem.periodic else ""


def seconds_of_slots(problem: Placement) -> float:
    """Estimate when `slot-lp` has a first solution."""
    return float((bytes_lp.size(state_data(problem)).terms / TERMS_OF_SECOND) ** 1.5)


def seconds_of_intervals(problem: Placement) -> float:
    """Estimate when `cpsat` has a first solution."""
    return windows_cpsat.size(state_data(problem, modes=True)).terms / TERMS_PER_SECOND


def plan_first(problem: Placement, context: Context) -> Outcome:
    """Offer the first plan of the planner."""
    context.progress("planner")
    plan = first_plan(problem, context)
    if not isinstance(plan, Plan):
        return Outcome(detail=plan)
    context.offer(plan)
    context.once(PLANNED_STEP)
    return Outcome(detail=context.refused)


def plan_in_settings(problem: Placement, context: Context) -> Outcome:
    """Try settings of the planner."""
    detail = ""
    until = context.elapsed() + CHOOSING
    for why in try_settings(problem, context, lambda: context.expired or context.elapsed() > until):
        detail = why or detail
    return Outcome(reason="time" if context.late() else None, detail="" if context.answer else detail)


def following(decide: Decide) -> RunFunction:
    """Return what offers the plan of a policy, made without latencies, at the times that they leave."""

    def offer(problem: Placement, context: Context) -> Outcome:
        prompt, timed = without_latencies(problem)
        own = context.inner(prompt, options={"strict": False})
        outcome = follow(prompt, own, decide)
        plan = None if own.answer is None else timed(own.answer)
        if plan is not None:
            context.offer(plan)
        return replace(outcome, facts={})

    return offer


def search_locally(problem: Placement, context: Context) -> Outcome:
    """Anneal; without a time limit only whole tensors, or what the planner has no plan of."""
    if context.time_limit is None and not problem.whole and PLANNED_STEP in context.known.done:
        return Outcome()
    return replace(solve_local_search(problem, context), facts={})


def anneal_lines(problem: Placement, context: Context, anew: bool = False) -> Outcome:
    """Anneal over lines of events, of the best plan, or `anew` of one after the other.

    Without a time limit only where tensors are whole.
    """
    if context.time_limit is None and not problem.whole:
        return Outcome()
    own = context.inner(problem, known=None if anew else context.known)
    own.careful = True
    if anew:
        solve_serial(problem, own)
    try:
        if own.answer is not None:
            data = state_data(problem, modes=True)
            search_lines(problem, own, data, math.inf)
    finally:  # a part that is ended is unwound here
        if own.answer is not None:
            context.offer(own.answer)
    return Outcome(reason="time" if context.expired else None)


def solve_whole(problem: Placement, context: Context) -> Outcome:
    """Solve models of whole tensors, until the time is up."""
    return Outcome() if context.time_limit is None else solve_intervals(problem, context)


def where_none(solve: Solve) -> RunFunction:
    """Return what makes a plan where there is none, or where it could be a good one."""

    def offer(problem: Placement, context: Context) -> Outcome:
        if context.answer is not None and not traits(problem) & (SEVERAL | Trait.IN_PLACE):
            return Outcome()
        return replace(solve(problem, context), facts={})

    return offer


def bound_replicas(problem: Placement, context: Context) -> Outcome:
    """Raise the bound to what is exchanged, and to single ops on a shared link."""
    split = replicas(problem)
    assert split is not None
    raise_joint_bounds(split, context)
    return Outcome()


def one_replica(solve: Solve, *, in_turn: bool) -> RunFunction:
    """Return what solves the problem of one replica, on its share or alone."""

    def without_words(one: Placement, own: Context) -> Outcome:
        return replace(solve(one, own), detail="")

    def offer(problem: Placement, context: Context) -> Outcome:
        split = replicas(problem)
        assert split is not None
        return solve_one(split, context, without_words, in_turn=in_turn)

    return offer
