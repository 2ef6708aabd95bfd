"""`auto` for `placement`: what is cheap first, then plans and bounds in turns (`lowtide.solvers.portfolio`).

1. The sum of the durations, and release times where inputs may not start on the device, and the first plan of
   the planner; often they meet. Where that plan takes long, one of a simple policy comes before it.
2. In turns: bounds by windows and prices; policies, made without latencies (`latencies`); settings of the
   planner; `slot-lp`, plan and bound, whose programs grow with the square of the ops; local search; lines of
   events in single runs; of whole tensors, `cpsat`. With two threads or more bounds have one of their own.
3. `first-touch` and `serial`, which take any machine, where there is no plan yet or where operands may be
   read in place; there `in-place`, plan and bound, and `autotm-async` as well. Several
   processors: replicas, as one and as one alone (`lowtide.solvers.placement.reductions.replicas.together`),
   and `tmof`.

Where the order is free, parts search over orders (`lowtide.solvers.placement.orders.search`), where ops may
run again over sequences of runs (`rerunning`); each of these gets plans by the parts above.

A plan counts when the verifier has found it valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.placement.states import empty_and_far
from ...models.problems.placement import Placement
from ..context import Context, Outcome
from ..method import RunFunction
from ..parts import Part, refusal
from ..portfolio import run
from ..registry import find_method
from . import pieces
from .autotm.method import solve_async
from .bounds.prices import raise_by_prices, raise_first_bounds
from .in_place.method import solve_in_place
from .orders.search import parts_of_orders
from .orders.tree import solve_every_order
from .parts import DECLARED, Refuses, beyond_planner, either, seconds_of_planner
from .policies import autoswap, belady, deeptm, deepum, flexgen
from .policies.first_touch import solve_first_touch
from .reductions.outer_tiers import too_fast
from .rerunning.search import RETURNS, parts_of_reruns
from .serial.search import solve_serial
from .slots.bytes import solve_slots
from .tmof.method import solve_tmof
from .traits import IN_ORDER, PLANNED, SAMPLED, SIMULATED, STATES, Trait, traits

PRICES = "prices"
"""The part whose bounds are those of one order, and have a thread of their own where there are several."""


def solve_auto(problem: Placement, context: Context) -> Outcome:
    """Stop as soon as a bound meets a plan, or when every part is through."""
    return _solve(problem, context, PARTS)


def solve_plans(problem: Placement, context: Context) -> Outcome:
    """Do the same without parts that take time for bounds alone, which would be those of one order."""
    return _solve(problem, context, [part for part in PARTS if part.name not in (PRICES, RETURNS)])


def solve_orders(problem: Placement, context: Context) -> Outcome:
    """Solve all orders in turn (`lowtide.solvers.placement.orders.tree`)."""
    return solve_every_order(problem, context, solve_auto)


def _solve(problem: Placement, context: Context, parts: Sequence[Part]) -> Outcome:
    context.careful = True
    has = traits(problem)
    return run([x for x in parts if not refusal(x, problem, has)], problem, context, beside=(PRICES,))


def _as_declared(name: str, run: RunFunction, *checks: Refuses, **declared: Any) -> Part:
    """Return the part of a method, which also refuses what further checks do."""
    own = DECLARED[name.partition(",")[0]]
    return replace(own, name=name, run=run, refuses=either(*checks, own.refuses), **declared)


def _policy(name: str, decide: pieces.Decide, *checks: Refuses, **declared: Any) -> Part:
    run, seconds = pieces.following(decide), pieces.seconds_of_policies
    return _as_declared(name, run, *checks, supports=SIMULATED, **{"seconds": seconds, **declared})


_planner = partial(Part, supports=PLANNED, refuses=beyond_planner)
_lines = partial(Part, supports=STATES & ~Trait.PERIOD, refuses=empty_and_far)
_replicas = partial(Part, supports=IN_ORDER, needs=Trait.REPLICAS)

PARTS = (
    Part(name="bounds at once", run=raise_first_bounds, supports=IN_ORDER | Trait.RERUN, first=True),
    _policy("deepum", deepum.decide, pieces.few_ops, first=True),
    _planner(name="first plan", run=pieces.plan_first, first=True),
    Part(name=PRICES, run=raise_by_prices, supports=SAMPLED, refuses=too_fast),
    _policy("belady", belady.decide),
    _policy("flexgen", flexgen.decide, pieces.no_weights),
    _policy("flexgen, early", partial(flexgen.decide, early=True), pieces.no_weights),
    _planner(name="planner", run=pieces.plan_in_settings, seconds=seconds_of_planner),
    _policy("autoswap", autoswap.decide),
    _policy("deeptm", partial(deeptm.decide, trials=8)),
    _as_declared("slot-lp", solve_slots, supports=STATES & ~Trait.MODES, seconds=pieces.seconds_of_slots),
    _as_declared("local-search", pieces.search_locally, supports=SIMULATED, seconds=pieces.seconds_of_starts),
    _lines(name="lines", run=pieces.anneal_lines),
    _lines(name="lines, anew", run=partial(pieces.anneal_lines, anew=True)),
    _as_declared("cpsat", pieces.solve_whole, needs=Trait.WHOLE, seconds=pieces.seconds_of_intervals),
    _replicas(name="bounds of replicas", run=pieces.bound_replicas, first=True),
    _replicas(name="replicas in step", run=pieces.one_replica(solve_auto, in_turn=False)),
    _replicas(
        name="replicas in turn",
        run=pieces.one_replica(solve_auto, in_turn=True),
        refuses=pieces.in_step_only,
    ),
    _as_declared("first-touch", pieces.where_none(solve_first_touch)),
    _as_declared("serial", pieces.where_none(solve_serial)),
    _as_declared("in-place", solve_in_place),
    _as_declared(
        "autotm-async",
        pieces.where_none(solve_async),
        needs=Trait.IN_PLACE,
        options=find_method("placement", "autotm-async").typed({})[0],
    ),
    _as_declared(
        "tmof",
        pieces.where_none(solve_tmof),
        pieces.one_processor,
        supports=STATES & ~Trait.WHOLE | Trait.LANES | Trait.REPLICAS,
    ),
    *parts_of_orders(solve_plans, solve_orders),
    *parts_of_reruns(solve_auto, solve_plans),
)
