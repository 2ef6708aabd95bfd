"""Offset allocation by models: two formulations through CP-SAT, one through HiGHS or another MILP solver.

The effort of CP-SAT on one of these models is heavy-tailed: it finds an allocation at once or not at all,
and with another order of the buffers it may be the other way round. So a component gets many short runs, each
longer than the last, of four kinds in turn: whether the target (the height below which nothing is gained) can
be met, and minimization; then the target again, and a height between it and the best that is known. Runs for
a given height place the buffers from the bottom up, in orders that are disturbed at random; minimization
starts from the best that is known, every other time with CP-SAT's own search. A height that is proved
impossible raises the bound; minimization raises it by more than one step, and is exact in the end.
"""

from __future__ import annotations

import math

import numpy as np

from ...formulations.model import Variant
from ...formulations.offsets import orders_milp, rectangles_cpsat, sections_cpsat
from ...formulations.offsets.data import greatest_load
from ...models.arrays import Integers
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..engines.logs import check_log, logged
from ..engines.model import build_model, run_model
from ..engines.supervise import LATE_SECONDS, OVERRUN_SECONDS
from ..parts import Part
from .component_context import ComponentContext, checked
from .components import BestOffsets, Components
from .turns import search_components

FIRST_TURN = 0.5
"""Seconds of the first run of a model; each next one has `GROWTH` times as many."""

LEAST_TURN = 0.1
"""Seconds of a run at least: one is no longer than the turn of the part that is left."""

GROWTH = 1.2
"""From one run to the next."""

TERMS_PER_SECOND = 500
"""Of the model of rectangles, until it is below the greedy placements: 60 buffers take 0.7 s."""

_FROM_THE_BOTTOM = {"search_branching": "PARTIAL_FIXED_SEARCH", "linearization_level": "0"}


def solve_cpsat(problem: Offsets, context: Context) -> Outcome:
    """Solve the model of rectangles, or of sections, by components, from what is known or first fit."""
    if context.log is not None:
        check_log(context.log)
    return search_components(Components(problem, context), (CPSAT,))


def run_cpsat(component: BestOffsets, context: ComponentContext) -> Outcome:
    """Run CP-SAT on a component again and again, while it is open; return how the last run ended.

    None follows one that was interrupted, refused too large a model, or did not stop when asked to; nor one
    that CP-SAT ended early by an option of its own.
    """
    formulation = sections_cpsat if context.method == "cpsat-sections" else rectangles_cpsat
    own = _Runs(component, context, formulation)
    while not context.closed:
        before = component.height, component.bound
        outcome = own.take(min(FIRST_TURN * GROWTH**own.taken, max(LEAST_TURN, context.clock.turn_left())))
        if outcome.infeasible:
            outcome = Outcome(detail=outcome.detail)
        ended_early = outcome.reason is None and before == (component.height, component.bound)
        if context.expired or ended_early or outcome.reason not in (None, "time"):
            return outcome
    return Outcome()


def solve_milp(problem: Offsets, context: Context) -> Outcome:
    """Solve the MILP of each component, from the known allocation or one by first fit.

    Option ``solver`` names another solver that Pyomo finds; further options go to the solver.
    """
    if context.log is not None:
        check_log(context.log)
    part = Part(name="milp", run=".offsets.models:run_milp", first=True, pauses=False)
    return search_components(Components(problem, context), (part,))


def run_milp(component: BestOffsets, context: ComponentContext) -> Outcome:
    """Solve the MILP of a component once."""
    data, goal = component.data, context.target
    known = component.height if data.capacity is None or (component.height or 0) <= data.capacity else None
    upper = known if data.capacity is None or known is not None else data.capacity
    run = context.run(math.inf, goal, context.seed)
    built = build_model(
        context.components.context,
        orders_milp,
        lambda: orders_milp.build(
            data,
            lower=goal,
            upper=upper,
            hint=None if known is None else component.offsets,
            expired=lambda: context.expired,
        ),
        what="the MILP of orders",
        size=orders_milp.size(data),
        run=run,
    )
    if isinstance(built, Outcome):
        return built
    outcome = logged(
        run,
        lambda: run_model(
            run,
            orders_milp,
            built,
            decode=lambda built, value: checked(context, orders_milp.decode(built, value)),
            to_objective=lambda units: units,
        ),
    )
    if outcome.infeasible:
        name = context.options["solver"]
        kind = "HiGHS" if name == "highs" else name
        context.raise_bound(built.upper + 1, "floating", kind=kind)
        return Outcome(detail=outcome.detail)
    return outcome


CPSAT = Part(
    name="cpsat",
    run=".offsets.models:run_cpsat",
    seconds=lambda component: rectangles_cpsat.size(component.data).terms / TERMS_PER_SECOND,
)


class _Runs:
    """Runs of CP-SAT on one component, each of another kind or in another order."""

    def __init__(self, component: BestOffsets, context: ComponentContext, formulation: Variant) -> None:
        self.component, self.context, self.formulation = component, context, formulation
        self.taken = 0
        self._share = 0.5
        self._built = 0.0
        self._random = np.random.default_rng(context.seed)

    def take(self, seconds: float) -> Outcome:
        """Run CP-SAT once, for about so many seconds."""
        component, context = self.component, self.context
        kind, goal = self.taken % 4, context.target
        minimize = kind == 1 and not context.components.problem.satisfy
        upper = self._upper(goal, kind)
        seed = context.seed + self.taken
        order = None if minimize and self.taken % 8 == 1 else self._order()
        self.taken += 1
        # What took long to build deserves to be searched for long.
        run = context.run(max(seconds, 5 * self._built), goal if minimize else upper, seed)
        known = component.offsets if component.height is not None and component.height <= upper else None
        built = build_model(
            context.components.context,
            self.formulation,
            lambda: self.formulation.build(
                component.data,
                lower=goal,
                upper=upper,
                minimize=minimize,
                hint=known,
                order=order,
                expired=lambda: context.expired,
            ),
            what="the CP-SAT model",
            size=self.formulation.size(component.data),
            run=run,
            factor=run.threads,
            quiet=True,
        )
        self._built = run.elapsed()
        if isinstance(built, Outcome):
            return built
        outcome = logged(
            run,
            lambda: run_model(
                run,
                self.formulation,
                built,
                decode=self.formulation.decode,
                to_objective=lambda units: units,
                settings=({} if order is None else _FROM_THE_BOTTOM,),
            ),
        )
        if outcome.infeasible:
            context.raise_bound(built.upper + 1, kind="CP-SAT")
        reached = component.height is not None and component.height <= upper
        self._share = 0.5 if reached else max(0.05, self._share * 0.7)
        most = max(run.ends, self._built) + OVERRUN_SECONDS + LATE_SECONDS
        if run.elapsed() > most:
            return Outcome(reason="crash", detail=outcome.detail)
        return outcome

    def _upper(self, goal: int, kind: int) -> int:
        """Return the greatest height that the next run accepts."""
        best, most = self.component.height, self.component.data.capacity
        assert best is not None
        if most is not None and best > most:
            best = most
        if kind in (0, 2) or self.context.components.problem.satisfy:
            return goal
        if kind == 1:
            return best
        return max(goal, min(best - 1, best - round(self._share * (best - goal))))

    def _order(self) -> Integers:
        """Return the buffers, those first that are to be placed first: by three keys, disturbed or not."""
        data = self.component.data
        width = (data.last - data.first).astype(float)
        area = width * data.size
        keys = ((width, area), (area, width), (greatest_load(data), area))[self.taken // 2 % 3]
        if self.taken >= 6:
            keys = (keys[0] * self._random.uniform(0.7, 1.3, data.count), keys[1])
        return np.lexsort((-keys[1], -keys[0]))
