"""`auto` for `placement`: what is cheap first, then plans and bounds in turns (`lowtide.solvers.portfolio`).

1. The sum of the durations, and release times where inputs may not start on the device, and the first plan of
   the planner; often they meet. Where that plan takes long, one of a simple policy comes before it.
2. In turns: bounds by windows and prices; policies, made without latencies (`timing`); settings of the
   planner; `slot-lp`, plan and bound, whose programs grow with the square of the ops; local search; lines of
   events in single runs; of whole tensors, `cpsat`. With two threads or more bounds have one of their own.
3. `first-touch` and `serial`, which take any machine, where there is no plan yet or where operands may be
   read in place; there `autotm-sync` as well. Several processors: replicas, as one and as one alone
   (`lowtide.solvers.placement.replicas.together`), and `tmof`.

Where the order is free: `lowtide.solvers.placement.orders.search`; orders get their plans as above, without
bounds, which would be those of one order. Ops that may run again: `jointly`.

A plan counts when the verifier has found it valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.placement import slots_lp, windows_cpsat
from ...formulations.placement.states import state_data
from ...models.errors import UsageError
from ...models.plan import Plan
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction
from ..parts import BOUND, PLAN, Part, refusal
from ..portfolio import run
from ..registry import find_method
from .bounds.prices import raise_by_prices, raise_first_bounds
from .jointly import solve_jointly
from .models.autotm import solve_sync
from .models.intervals import solve_intervals
from .models.lines import search_lines
from .models.slots import solve_slots
from .models.tmof import solve_tmof
from .orders.search import solve_free
from .orders.tree import solve_every_order
from .parts import ANY, LISTED, PLANNED, SAMPLED, SEVERAL, SIMULATED, STATES, beyond_planner, refusing
from .planner.planner import first_plan, try_settings
from .policies import autoswap, belady, deeptm, deepum, flexgen
from .policies.carry_out import Candidates, follow
from .policies.first_touch import solve_first_touch
from .policies.local_search import solve_local_search
from .replicas.share import replicas
from .replicas.together import solve_replicas
from .serial.search import solve_serial
from .simulator.simulator_case import Case
from .timing import without_latencies
from .traits import Trait, traits

PRICES = "prices"
"""The part whose bounds are those of one order, and have a thread of their own where there are several."""

PLANNED_STEP = "placement: first plan"
"""Step of a context: the planner has a plan."""

OPS_PER_SECOND = 4_000
"""Ops of a period for which the planner makes its first plan in a second."""

TERMS_OF_SECOND = 235_000
"""Terms of the slot model's program whose first solution takes a second; the time grows with their power 1.5:
measured on periods of 84 and 226 ops."""

TERMS_PER_SECOND = 50_000
"""Terms of the windows' model in CP-SAT, built and searched for a first solution in a second."""

CHOOSING = 5.0
"""Seconds in which the planner chooses modes of ops, of one setting for all."""


def solve_auto(problem: Placement, context: Context) -> Outcome:
    """Stop as soon as a bound meets a plan, or when every part is through."""
    if problem.order == "free":
        return solve_free(problem, context, partial(_solve_in_order, bounds=False), _solve_in_order)
    return _solve_in_order(problem, context)


def solve_orders(problem: Placement, context: Context) -> Outcome:
    """Solve all orders in turn (`lowtide.solvers.placement.orders.tree`)."""
    return solve_every_order(problem, context, _solve_in_order)


def _solve_in_order(problem: Placement, context: Context, bounds: bool = True) -> Outcome:
    """Solve a problem whose order is fixed; without `bounds`, no linear programs for them."""
    context.careful = True
    if problem.recompute:
        raise_first_bounds(problem, context)
        return solve_jointly(problem, context, solve_auto)
    has = traits(problem)
    some = [part for part in PARTS if (bounds or part.name != PRICES) and not refusal(part, problem, has)]
    return run(some, problem, context, beside=(PRICES,))


def _first_plan(problem: Placement, context: Context) -> Outcome:
    """Offer the first plan of the planner."""
    context.progress("planner")
    found = first_plan(problem, context)
    if not isinstance(found, Plan):
        return Outcome(detail=found)
    context.offer(found)
    context.once(PLANNED_STEP)
    return Outcome(detail=context.refused)


def _settings(problem: Placement, context: Context) -> Outcome:
    """Try settings of the planner."""
    detail = ""
    until = context.elapsed() + CHOOSING
    for why in try_settings(problem, context, lambda: context.expired or context.elapsed() > until):
        detail = why or detail
    return Outcome(reason="time" if context.late() else None, detail="" if context.answer else detail)


def _follow(decide: Callable[[Case], Candidates]) -> RunFunction:
    """Return what offers the plan of a policy, made without latencies, at the times that they leave."""

    def offer(problem: Placement, context: Context) -> Outcome:
        prompt, timed = without_latencies(problem)
        own = context.inner(prompt, options={"strict": False})
        outcome = follow(prompt, own, decide)
        plan = None if own.answer is None else timed(own.answer)
        if plan is not None:
            context.offer(plan)
        return replace(outcome, facts={})

    return refusing(offer)


def _local_search(problem: Placement, context: Context) -> Outcome:
    """Anneal; without a time limit only whole tensors, or what the planner has no plan of."""
    if context.time_limit is None and not problem.whole and PLANNED_STEP in context.known.done:
        return Outcome()
    return replace(solve_local_search(problem, context), facts={})


def _lines(problem: Placement, context: Context, anew: bool = False) -> Outcome:
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


def _intervals(problem: Placement, context: Context) -> Outcome:
    """Solve models of whole tensors, until the time is up."""
    return Outcome() if context.time_limit is None else solve_intervals(problem, context)


def _any_plan(solve: Callable[[Placement, Context], Outcome]) -> RunFunction:
    """Return what makes a plan where there is none, or where it could be a good one."""

    def offer(problem: Placement, context: Context) -> Outcome:
        if context.answer is not None and not traits(problem) & (SEVERAL | Trait.IN_PLACE):
            return Outcome()
        return replace(solve(problem, context), facts={})

    return refusing(offer)


def _replicas(problem: Placement, context: Context) -> Outcome:
    """Solve the problem of one replica; what is left to try, all together say."""
    found = replicas(problem)
    assert found is not None
    return solve_replicas(found, context, lambda one, own: replace(solve_auto(one, own), detail=""))


def _plans_soon(problem: Placement) -> str:
    """Return why a policy need not come before the planner."""
    soon = _seconds_of_planner(problem) < 1
    return "found few ops, expected so many that the planner takes long" if soon else ""


def _one_processor(problem: Placement) -> str:
    return "" if len(problem.machine.processors) > 1 else "found one processor, expected several"


def _not_for_flexgen(problem: Placement) -> str:
    return "" if flexgen.serves(problem) else "found no weights that are read again and not trained"


def _seconds_of_planner(problem: Placement) -> float:
    return len(problem.graph.ops) / OPS_PER_SECOND


def _seconds_of_slots(problem: Placement) -> float:
    try:
        return float((slots_lp.size(state_data(problem)).terms / TERMS_OF_SECOND) ** 1.5)
    except UsageError:
        return math.inf


def _seconds_of_intervals(problem: Placement) -> float:
    try:
        return windows_cpsat.size(state_data(problem, modes=True)).terms / TERMS_PER_SECOND
    except UsageError:
        return math.inf


def _policy(name: str, decide: Callable[[Case], Candidates], **declared: Any) -> Part:
    return Part(name=name, run=_follow(decide), gives=PLAN, supports=SIMULATED, **declared)


PARTS = (
    Part(name="bounds at once", run=raise_first_bounds, gives=BOUND, supports=ANY, first=True),
    _policy("deepum", deepum.decide, first=True, refuses=_plans_soon),
    Part(
        name="first plan",
        run=refusing(_first_plan),
        gives=PLAN,
        supports=PLANNED,
        refuses=beyond_planner,
        first=True,
    ),
    Part(name=PRICES, run=refusing(raise_by_prices), gives=BOUND, supports=SAMPLED),
    _policy("belady", belady.decide),
    _policy("flexgen", flexgen.decide, refuses=_not_for_flexgen),
    _policy("flexgen, early", partial(flexgen.decide, early=True), refuses=_not_for_flexgen),
    Part(
        name="planner",
        run=refusing(_settings),
        gives=PLAN,
        supports=PLANNED,
        refuses=beyond_planner,
        seconds=_seconds_of_planner,
    ),
    _policy("deeptm", partial(deeptm.decide, trials=8)),
    _policy("autoswap", autoswap.decide),
    Part(
        name="slot-lp",
        run=refusing(solve_slots),
        supports=STATES & ~Trait.MODES,
        seconds=_seconds_of_slots,
        share=0.8,
    ),
    Part(name="local-search", run=refusing(_local_search), gives=PLAN, supports=SIMULATED),
    Part(name="lines", run=refusing(_lines), gives=PLAN, supports=STATES & ~Trait.PERIOD),
    Part(
        name="lines, anew",
        run=refusing(partial(_lines, anew=True)),
        gives=PLAN,
        supports=STATES & ~Trait.PERIOD,
    ),
    Part(
        name="cpsat",
        run=refusing(_intervals),
        supports=STATES,
        needs=Trait.WHOLE,
        seconds=_seconds_of_intervals,
        share=0.5,
    ),
    Part(name="replicas", run=refusing(_replicas), supports=ANY, needs=Trait.REPLICAS),
    Part(name="first-touch", run=_any_plan(solve_first_touch), gives=PLAN, supports=ANY & ~SEVERAL),
    Part(name="serial", run=_any_plan(solve_serial), gives=PLAN, supports=ANY),
    Part(
        name="autotm-sync",
        run=_any_plan(solve_sync),
        supports=LISTED,
        needs=Trait.IN_PLACE,
        options=find_method("placement", "autotm-sync").typed({})[0],
        share=0.5,
    ),
    Part(
        name="tmof",
        run=_any_plan(solve_tmof),
        supports=STATES & ~Trait.WHOLE | Trait.LANES | Trait.REPLICAS,
        refuses=_one_processor,
        share=0.5,
    ),
)
