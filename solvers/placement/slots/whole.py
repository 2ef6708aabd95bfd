"""`slot-milp`: the fastest placement with whole tensors, by MILPs over pieces of time.

1. Bounds at once: the sum of the durations, and those by windows, prices and the slot model in bytes, where
   they serve the machine.
2. The upper model on one piece per run and stall gives an order; its timing is a plan. Where there are many
   absences, local search on the simulator follows.
3. The lower model gives a bound, and each of its solutions an order, whose timing may be a better plan.
4. Where its best solution holds more than fits, pieces are cut (`whole_milp.finer`), and 3 is
   repeated, from the best plan, as long as there is time and an absence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....formulations.placement.slots import whole_milp
from ....formulations.placement.slots.order import neighbours, order
from ....formulations.placement.slots.pieces import Cut, coarse
from ....formulations.placement.slots.whole_milp import SlotMilp, build, crowded, finer, size
from ....formulations.placement.states import StateData, state_data
from ....formulations.placement.whole.sequence import Order, longest_stall, timing
from ....formulations.placement.whole.sequence_plan import plan
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...engines.memory import refuse_if_too_large
from ...engines.model import run_model
from ...registry import unserved
from ..bounds.prices import raise_by_prices, unsampled
from ..policies.local_search import solve_local_search
from ..reductions.choices import for_modes
from ..reductions.replicas.together import for_replicas
from ..serial.search import solve_serial
from .bytes import raise_by_slots
from .sample import set_values

ROUNDS = 12
"""Rounds at most that cut pieces in two where the lower model's solution is wrong."""
FINEST = 2_000
"""No piece gets shorter than this part of the sum of the durations."""
CUTS = 12
"""Pieces that a round cuts at most."""
FIRST_PART = 0.1
"""Of the time, for the upper model; as much again for local search."""
MANY = 40
"""Absences from which on local search comes first."""
FEW = 12
"""Copies up to which orders around that of a solution are tried too."""
TRIES = 300
"""Orders around that of a solution that are timed at most."""
PARTS = "copies in parts reach the bound"

Value = Callable[[Any], float]


@for_replicas
@for_modes()
def solve_slot_milp(problem: Placement, context: Context) -> Outcome:
    """Find plans of whole tensors, and bounds for all plans of whole tensors.

    Examples
    --------
    >>> import lowtide as lt
    >>> from lowtide.instances import load_problem
    >>> spec = "gen:skipchain?n=6,machine=v100-16g-pcie3,device=450MB,start=gpu,whole=1"
    >>> problem = load_problem("placement", spec)
    >>> result = lt.solve(problem, "slot-milp", threads=1)
    >>> result.verification.valid, result.bound <= result.objective
    (True, True)
    """
    data = state_data(problem)
    context.careful = True
    context.raise_bound(data.ideal, kind="sum of durations", averages=True)
    cut = coarse(data)
    refused = refuse_if_too_large(
        size(cut),
        bytes_per_term=whole_milp.BYTES_PER_TERM,
        context=context,
        what="the slot model for whole tensors",
    )
    if refused is not None:
        return refused
    _other_bounds(problem, context)
    search = _SlotSearch(problem, context, data)
    outcome = search.upper(cut)
    many = sum(len(life.accesses) for life in data.lives) >= MANY
    if many and not context.closed:
        search.improve()
    for number in range(ROUNDS):
        if context.closed or context.expired:
            break
        context.progress(f"slot model: lower bound, {len(cut.pieces)} pieces")
        outcome, finer = search.lower(cut, context.remaining() / 2 if number < ROUNDS - 1 else None)
        if outcome.infeasible and context.answer is None:
            return replace(outcome, detail=f"{outcome.detail}: whole tensors do not fit at every instant")
        if finer is None or finer == cut:
            if finer is not None and search.uncrowded:
                outcome = replace(outcome, detail=f"{outcome.detail}; {PARTS}")
            break
        cut = finer
    if not many and not context.closed and not context.expired:
        search.improve()
    if context.closed:
        return Outcome(detail=outcome.detail)
    return replace(outcome, reason="time" if context.expired else None, infeasible=False)


def _other_bounds(problem: Placement, context: Context) -> None:
    """Raise the bound by what serves the machine; the slot model bounds any."""
    if not unsampled(problem):
        raise_by_prices(problem, context, rounds=())
        raise_by_slots(state_data(problem), context)


class _SlotSearch:
    """What is known while models are solved one after the other."""

    def __init__(self, problem: Placement, context: Context, data: StateData) -> None:
        self.problem, self.context, self.data = problem, context, data
        self.uncrowded = False
        """Whether the last solution of a lower model holds no more than fits."""

    @property
    def most(self) -> int:
        """The longest stall of interest, in ns."""
        if self.context.incumbent is None:
            return longest_stall(self.data)
        return max(1, self.context.incumbent - self.data.ideal)

    def upper(self, cut: Cut) -> Outcome:
        """Solve the upper model; offer the plans of its solutions."""
        built = build(cut, most=self.most, upper=True)
        return self._solve(built, self.context.remaining() * FIRST_PART, lambda bound: None)

    def improve(self) -> None:
        """Offer what local search finds."""
        context = self.context
        limit = max(1.0, context.remaining() * FIRST_PART)
        own = context.inner(self.problem, limit, prefix=None, options={}, engine_options={})
        if not unserved(self.problem, "local-search"):
            solve_local_search(self.problem, own)
        if own.answer is None:
            solve_serial(self.problem, own)
        if own.answer is not None:
            context.offer(own.answer)

    def lower(self, cut: Cut, seconds: float | None) -> tuple[Outcome, Cut | None]:
        """Solve the lower model; raise the bound, and return the next cut if there was a solution."""
        context, most = self.context, self.most
        built = build(cut, most=most, upper=False)
        if context.answer is not None:
            set_values(built, context.answer)

        def note(bound: int) -> None:
            context.raise_bound(
                self.data.ideal + min(most, bound), "floating", kind="slot model, whole tensors"
            )

        last: list[Cut] = []

        def look(value: Value) -> None:
            shortest = max(1, self.data.ideal // FINEST)
            last[:] = [finer(built, value, shortest=shortest, most=CUTS)]
            self.uncrowded = not crowded(built, value)

        outcome = self._solve(built, seconds, note, look)
        return outcome, last[0] if last else None

    def _solve(
        self,
        built: SlotMilp,
        seconds: float | None,
        note: Callable[[int], None],
        look: Callable[[Value], None] = lambda value: None,
    ) -> Outcome:
        """Solve a model on a context of its own: its objective is not that of the plans found on the way."""
        context = self.context
        limit = math.inf if seconds is None else seconds
        solver = context.options.get("solver", "highs")
        given = {**({"mip_rel_gap": "1e-5"} if solver == "highs" else {}), **context.engine_options}
        own = context.inner(
            self.problem, limit, prefix=None, options={"solver": solver}, engine_options=given
        )

        def decode(built: SlotMilp, value: Value) -> Any:
            look(value)
            sequence = order(built, value)
            if sequence is not None:
                for beside in (False, True) if self.data.caps else (False,):
                    self._time(sequence, beside)
            return None

        def to_objective(units: int) -> int:
            note(units)
            return 0

        return run_model(own, whole_milp, built, decode=decode, to_objective=to_objective)

    def _time(self, best_order: Order, beside: bool) -> None:
        """Offer the plan of an order, and of better ones around it where there are few copies."""
        best = self._offer(best_order, beside)
        tries = TRIES if len(best_order.copies) <= FEW else 0
        better = True
        while better:
            better = False
            for other in neighbours(best_order):
                if tries <= 0 or self.context.closed or self.context.expired:
                    return
                tries -= 1
                value = self._offer(other, beside)
                if value is not None and (best is None or value < best):
                    best_order, best, better = other, value, True
                    break

    def _offer(self, sequence: Order, beside: bool) -> int | None:
        """Offer the plan of an order; return its objective, or None if it has none."""
        times = timing(self.data, sequence, beside=beside)
        if times is None:
            return None
        return self.context.offer(plan(self.data, self.problem, sequence, times, beside=beside))
