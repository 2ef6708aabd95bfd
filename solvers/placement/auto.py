"""`auto` for `placement`: what is cheap first, then plans and bounds in turns (`lowtide.solvers.portfolio`).

1. The sum of the durations, and release times where inputs may not start on the device, and the first plan of
   the planner; often they meet. Where that plan takes long, one of a simple policy comes before it.
2. In turns: bounds by windows and prices; policies, made without latencies (`timing`); settings of the
   planner; `slot-lp`, plan and bound, whose programs grow with the square of the ops; local search; lines of
   events in single runs; of whole tensors, `cpsat`. With two threads or more bounds have one of their own.
3. `first-touch` and `serial`, which take any machine, where there is no plan yet or where operands may be
   read in place; there `autotm-sync` as well. Several processors: replicas, as one and as one alone
   (`lowtide.solvers.placement.replicas.together`), and `tmof`.

Where the order is free, parts search over orders (`lowtide.solvers.placement.orders.search`), where ops may
run again over sequences of runs (`jointly`); each of these gets plans by the parts above.

A plan counts when the verifier has found it valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.placement import slots_lp, windows_cpsat
from ...formulations.placement.states import state_data
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction
from ..parts import BOUND, PLAN, Part, refusal
from ..portfolio import run
from ..registry import find_method
from . import jointly, pieces
from .bounds.prices import raise_by_prices, raise_first_bounds
from .models.autotm import solve_sync
from .models.slots import solve_slots
from .models.tmof import solve_tmof
from .orders import search
from .orders.tree import solve_every_order
from .parts import DECLARED, beyond_planner, refusing
from .policies import autoswap, belady, deeptm, deepum, flexgen
from .policies.carry_out import Candidates
from .policies.first_touch import solve_first_touch
from .serial.search import solve_serial
from .simulator.simulator_case import Case
from .traits import (
    AGAIN,
    FREEDOMS,
    IN_ORDER,
    PLANNED,
    SAMPLED,
    SIMULATED,
    STATES,
    Trait,
    traits,
)

PRICES = "prices"
"""The part whose bounds are those of one order, and have a thread of their own where there are several."""

OPS_PER_SECOND = 4_000
"""Ops of a period for which the planner makes its first plan in a second."""

TERMS_OF_SECOND = 235_000
"""Terms of the slot model's program whose first solution takes a second; the time grows with their power 1.5:
measured on periods of 84 and 226 ops."""

TERMS_PER_SECOND = 50_000
"""Terms of the windows' model in CP-SAT, built and searched for a first solution in a second."""


def solve_auto(problem: Placement, context: Context) -> Outcome:
    """Stop as soon as a bound meets a plan, or when every part is through."""
    return _solve(problem, context, PARTS)


def solve_plans(problem: Placement, context: Context) -> Outcome:
    """Do the same without what takes time for bounds alone: they would be those of one order."""
    return _solve(problem, context, [part for part in PARTS if part.first or part.gives is not BOUND])


def solve_orders(problem: Placement, context: Context) -> Outcome:
    """Solve all orders in turn (`lowtide.solvers.placement.orders.tree`)."""
    return solve_every_order(problem, context, solve_auto)


def _solve(problem: Placement, context: Context, parts: Sequence[Part]) -> Outcome:
    context.careful = True
    has = traits(problem)
    return run([x for x in parts if not refusal(x, problem, has)], problem, context, beside=(PRICES,))


def _plans_soon(problem: Placement) -> str:
    """Return why a policy need not come before the planner."""
    soon = _seconds_of_planner(problem) < 1
    return "found few ops, expected so many that the planner takes long" if soon else ""


def _one_processor(problem: Placement) -> str:
    return "" if len(problem.machine.processors) > 1 else "found one processor, expected several"


def _period(problem: Placement) -> str:
    return "found a period, in which replicas go in step" if problem.periodic else ""


def _not_for_flexgen(problem: Placement) -> str:
    return "" if flexgen.serves(problem) else "found no weights that are read again and not trained"


def _not_taped(problem: Placement) -> str:
    return jointly.not_taped(problem) or DECLARED["pofo"].refuses(problem)


def _seconds_of_planner(problem: Placement) -> float:
    return len(problem.graph.ops) / OPS_PER_SECOND


def _seconds_of_slots(problem: Placement) -> float:
    return float((slots_lp.size(state_data(problem)).terms / TERMS_OF_SECOND) ** 1.5)


def _seconds_of_intervals(problem: Placement) -> float:
    return windows_cpsat.size(state_data(problem, modes=True)).terms / TERMS_PER_SECOND


def _policy(name: str, decide: Callable[[Case], Candidates], **declared: Any) -> Part:
    run = refusing(pieces.following(decide))
    return Part(name=name, run=run, gives=PLAN, supports=SIMULATED, **declared)


def _planner(name: str, run: RunFunction, **declared: Any) -> Part:
    return Part(name=name, run=run, gives=PLAN, supports=PLANNED, refuses=beyond_planner, **declared)


def _lines(name: str, *, anew: bool) -> Part:
    run = partial(pieces.anneal_lines, anew=anew)
    return Part(name=name, run=run, gives=PLAN, supports=STATES & ~Trait.PERIOD)


def _replicas(name: str, *, in_turn: bool, **declared: Any) -> Part:
    run = pieces.one_replica(solve_auto, in_turn=in_turn)
    return Part(name=name, run=run, supports=IN_ORDER, needs=Trait.REPLICAS, **declared)


def _free(name: str, run: RunFunction, **declared: Any) -> Part:
    own = {"supports": IN_ORDER | FREEDOMS, "needs": Trait.FREE_ORDER}
    return Part(name=name, run=run, **{**own, **declared})


def _again(name: str, run: RunFunction, **declared: Any) -> Part:
    return Part(name=name, run=run, **{"supports": AGAIN, "needs": Trait.RERUN, **declared})


PARTS = (
    Part(
        name="bounds at once",
        run=raise_first_bounds,
        gives=BOUND,
        supports=IN_ORDER | Trait.RERUN,
        first=True,
    ),
    _policy("deepum", deepum.decide, first=True, refuses=_plans_soon),
    _planner("first plan", pieces.plan_first, first=True),
    Part(name=PRICES, run=refusing(raise_by_prices), gives=BOUND, supports=SAMPLED),
    _policy("belady", belady.decide),
    _policy("flexgen", flexgen.decide, refuses=_not_for_flexgen),
    _policy("flexgen, early", partial(flexgen.decide, early=True), refuses=_not_for_flexgen),
    _planner("planner", pieces.plan_in_settings, seconds=_seconds_of_planner),
    _policy("deeptm", partial(deeptm.decide, trials=8)),
    _policy("autoswap", autoswap.decide),
    Part(name="slot-lp", run=solve_slots, supports=STATES & ~Trait.MODES, seconds=_seconds_of_slots),
    Part(name="local-search", run=pieces.search_locally, gives=PLAN, supports=SIMULATED),
    _lines("lines", anew=False),
    _lines("lines, anew", anew=True),
    Part(
        name="cpsat",
        run=pieces.solve_whole,
        supports=STATES,
        needs=Trait.WHOLE,
        seconds=_seconds_of_intervals,
    ),
    Part(
        name="bounds of replicas",
        run=pieces.bound_replicas,
        gives=BOUND,
        supports=IN_ORDER,
        needs=Trait.REPLICAS,
        first=True,
    ),
    _replicas("replicas in step", in_turn=False),
    _replicas("replicas in turn", in_turn=True, refuses=_period),
    replace(DECLARED["first-touch"], run=pieces.where_none(solve_first_touch), gives=PLAN),
    replace(DECLARED["serial"], run=pieces.where_none(solve_serial), gives=PLAN),
    replace(
        DECLARED["autotm-sync"],
        run=pieces.where_none(solve_sync),
        needs=Trait.IN_PLACE,
        options=find_method("placement", "autotm-sync").typed({})[0],
    ),
    replace(
        DECLARED["tmof"],
        run=pieces.where_none(solve_tmof),
        supports=STATES & ~Trait.WHOLE | Trait.LANES | Trait.REPLICAS,
        refuses=_one_processor,
    ),
    _free("bounds of every order", search.bound_every_order, gives=BOUND, first=True),
    _free("own order", partial(search.place_own_order, solve=solve_plans), gives=PLAN),
    _free("least peak", partial(search.place_least_peak, solve=solve_plans)),
    _free(
        "search over orders",
        partial(search.place_best_order, solve=solve_plans),
        gives=PLAN,
        supports=PLANNED | FREEDOMS,
        refuses=beyond_planner,
        seconds=_seconds_of_planner,
    ),
    _free(
        "every order",
        solve_orders,
        supports=IN_ORDER | Trait.FREE_ORDER,
        refuses=search.many_ops,
    ),
    replace(DECLARED["pofo"], gives=PLAN),
    _again(
        "each op once",
        partial(jointly.place_each_once, solve=solve_auto),
        gives=PLAN,
        supports=IN_ORDER & ~Trait.ONCE | Trait.RERUN,
    ),
    _again(
        "every forward saves",
        partial(jointly.place_saving, solve=solve_auto),
        gives=PLAN,
        supports=DECLARED["pofo"].supports,
        refuses=_not_taped,
    ),
    _again(
        "one memory",
        jointly.solve_one_memory,
        supports=AGAIN & ~Trait.FAR | Trait.ONE_TIER,
        needs=Trait.RERUN | Trait.ONE_TIER,
    ),
    _again(
        "by price",
        partial(jointly.place_by_price, solve=solve_plans),
        gives=PLAN,
        refuses=beyond_planner,
        seconds=_seconds_of_planner,
    ),
    _again(
        "recomputed",
        partial(jointly.place_recomputed, solve=solve_plans),
        gives=PLAN,
        refuses=beyond_planner,
        seconds=_seconds_of_planner,
    ),
    _again("returns", jointly.bound_by_returns, gives=BOUND, refuses=beyond_planner, pauses=False),
)
