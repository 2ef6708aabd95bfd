"""Offset allocation by models: two formulations through CP-SAT, one through HiGHS or another MILP solver.

The effort of CP-SAT on one of these models is heavy-tailed: it finds an allocation at once or not at all,
and with another order of the buffers it may be the other way round. So a part gets many short runs, each
longer than the last, of four kinds in turn: whether the target (the height below which nothing is gained) can
be met, and minimization; then the target again, and a height between it and the best that is known. Runs for
a given height place the buffers from the bottom up, in orders that are disturbed at random; minimization
starts from the best that is known, every other time with CP-SAT's own search. A height that is proved
impossible raises the bound; minimization raises it by more than one step, and is exact in the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from ...formulations.model import Alternative
from ...formulations.offsets import orders_milp, rectangles_cpsat, sections_cpsat
from ...formulations.offsets.data import greatest_load
from ...models.arrays import Integers
from ...models.problems.offsets import Offsets
from ..context import Context, Outcome
from ..engines.logs import check_log, logged
from ..engines.model import build_model, run_model
from ..engines.supervise import LATE_SECONDS, OVERRUN_SECONDS
from .first_come import place_as_they_come
from .part_context import checked, part_context
from .parts import Part, Parts

FIRST_TURN = 0.5
"""Seconds of the first run of a part."""

GROWTH = 1.2
"""From one run of a part to the next."""

_FROM_THE_BOTTOM = {"search_branching": "PARTIAL_FIXED_SEARCH", "linearization_level": "0"}


def solve_cpsat(problem: Offsets, context: Context) -> Outcome:
    """Solve the model of rectangles, or of sections, by parts, from what is known or first fit."""
    formulation = sections_cpsat if context.method == "cpsat-sections" else rectangles_cpsat
    parts = Parts(problem, context)
    if context.log is not None:
        check_log(context.log)
    working = [(part, runs(parts, part, formulation)) for part in parts.open()]
    last = Outcome()
    while working and not context.expired:
        for part, own in tuple(working):
            outcome = next(own, None) if not context.expired else Outcome(reason="time")
            if outcome is None:  # closed, or no further run makes sense
                working.remove((part, own))
            elif outcome.reason in ("interrupted", "crash"):
                return outcome
            elif parts.is_open(part):
                last = outcome
    return parts.outcome() if not parts.open() else parts.outcome("time") if working else last


def runs(parts: Parts, part: Part, formulation: Alternative = rectangles_cpsat) -> Iterator[Outcome]:
    """Run CP-SAT on a part again and again, while it is open; yield how each run ended.

    The reason is None or "time" if another run may follow, else this is the last one: "interrupted",
    "memory" (too large a model), or "crash" (CP-SAT goes on though it was asked to stop). There is none
    after a run that CP-SAT ended early by an option of its own.
    """
    if part.offsets is None:
        parts.offer(part, place_as_they_come(part.data))
    own = _Runs(parts, part, formulation)
    while parts.is_open(part):
        before = part.height, part.bound
        outcome = own.take(FIRST_TURN * GROWTH**own.taken)
        yield outcome
        ended_early = outcome.reason is None and before == (part.height, part.bound)
        if ended_early or outcome.reason not in (None, "time"):
            return


def solve_milp(problem: Offsets, context: Context) -> Outcome:
    """Solve the MILP of each part, from the known allocation or one by first fit.

    Option ``solver`` names another solver that Pyomo finds; further options go to the solver.
    """
    parts = Parts(problem, context)
    last = Outcome()
    if context.log is not None:
        check_log(context.log)
    for part in parts.open():
        if part.offsets is None:
            parts.offer(part, place_as_they_come(part.data))
    while (waiting := parts.open()) and not context.expired:
        before = [(part.height, part.bound) for part in parts.parts]
        for k, part in enumerate(waiting):
            if not parts.is_open(part):
                continue
            last = _solve_part(parts, part, context.remaining() / (len(waiting) - k))
            if last.reason not in (None, "time"):
                return last
        if before == [(part.height, part.bound) for part in parts.parts]:
            break  # a solver's tolerances may keep it from closing what is open
    return parts.outcome("time" if context.expired else last.reason) if parts.open() else parts.outcome()


def _solve_part(parts: Parts, part: Part, seconds: float) -> Outcome:
    context, data, goal = parts.context, part.data, parts.target(part)
    known = part.height if data.capacity is None or (part.height or 0) <= data.capacity else None
    upper = known if data.capacity is None or known is not None else data.capacity
    run = part_context(parts, part, seconds=seconds, floor=goal, seed=context.seed)
    built = build_model(
        context,
        orders_milp,
        lambda: orders_milp.build(
            data,
            lower=goal,
            upper=upper,
            hint=None if known is None else part.offsets,
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
            decode=lambda built, value: checked(parts, part, orders_milp.decode(built, value)),
            to_objective=lambda units: units,
        ),
    )
    if outcome.infeasible:
        run.floor, name = goal - 1, context.options["solver"]
        run.raise_bound(built.upper + 1, "floating", kind="HiGHS" if name == "highs" else name)
    return outcome


class _Runs:
    """Runs of CP-SAT on one part, each of another kind or in another order."""

    def __init__(self, parts: Parts, part: Part, formulation: Alternative) -> None:
        self.parts, self.part, self.formulation = parts, part, formulation
        self.taken = 0
        self._share = 0.5
        self._built = 0.0
        self._random = np.random.default_rng(parts.context.seed)

    def take(self, seconds: float) -> Outcome:
        """Run CP-SAT once, for about so many seconds."""
        parts, part = self.parts, self.part
        kind, goal = self.taken % 4, parts.target(part)
        minimize = kind == 1 and not parts.problem.satisfy
        upper = self._upper(goal, kind)
        seed = parts.context.seed + self.taken
        order = None if minimize and self.taken % 8 == 1 else self._order()
        self.taken += 1
        # What took long to build deserves to be searched for long.
        run = part_context(
            parts,
            part,
            seconds=max(seconds, 5 * self._built),
            floor=goal if minimize else upper,
            seed=seed,
        )
        known = part.offsets if part.height is not None and part.height <= upper else None
        began = time.perf_counter()
        built = build_model(
            parts.context,
            self.formulation,
            lambda: self.formulation.build(
                part.data,
                lower=goal,
                upper=upper,
                minimize=minimize,
                hint=known,
                order=order,
                expired=lambda: parts.context.expired,
            ),
            what="the CP-SAT model",
            size=self.formulation.size(part.data),
            run=run,
            factor=run.threads,
            quiet=True,
        )
        self._built = time.perf_counter() - began
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
            parts.raise_bound(part, built.upper + 1, kind="CP-SAT")
        reached = part.height is not None and part.height <= upper
        self._share = 0.5 if reached else max(0.05, self._share * 0.7)
        if run.time_limit is not None and run.elapsed() > run.time_limit + OVERRUN_SECONDS + LATE_SECONDS:
            return Outcome(reason="crash", detail=outcome.detail)
        return outcome

    def _upper(self, goal: int, kind: int) -> int:
        """Return the greatest height that the next run accepts."""
        part = self.part
        best = part.height
        most = part.data.capacity
        if best is None or (most is not None and best > most):
            best = most
        if kind in (0, 2) or self.parts.problem.satisfy:
            return goal
        if kind == 1 or best is None:
            return best if best is not None else part.data.height(place_as_they_come(part.data))
        return max(goal, min(best - 1, best - round(self._share * (best - goal))))

    def _order(self) -> Integers:
        """Return the buffers, those first that are to be placed first: by three keys, disturbed or not."""
        data = self.part.data
        width = (data.last - data.first).astype(float)
        area = width * data.size
        keys = ((width, area), (area, width), (greatest_load(data), area))[self.taken // 2 % 3]
        if self.taken >= 6:
            keys = (keys[0] * self._random.uniform(0.7, 1.3, data.count), keys[1])
        return np.lexsort((-keys[1], -keys[0]))
