"""Plans of the slot model without loss by rounding: whole bytes and ns near a fractional solution.

The model of `formulations.placement.slots.rounded` where only stalls and what is not at one of its bounds may
change, which is mostly solved within a second; then where everything may. As a MILP it takes HiGHS a fraction
of the time that CP-SAT takes for it; `cpsat` has it in CP-SAT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ....formulations.model import BuildTimeout, ticker
from ....formulations.placement.slots import rounded_cpsat, rounded_milp
from ....formulations.placement.slots.rounded import Near, near
from ....formulations.placement.states import StateData
from ....models.problems.placement import Placement
from ...context import Context
from ...engines.cpsat import solve_cpsat
from ...engines.highs import solve_highs
from ...engines.master import Master
from .plan import Rounded, decode

DISTANCE = 500
"""Bytes or ns by which a number may change; rates of a few digits behind the point need some hundred bytes to
fill whole ns."""

LOST = 2
"""Ns per copy and piece that rounding loses at most, about: plans farther from the bound lose by more."""

MOST_CHANGES = 20_000
"""Of variables of a program, all of which may change: above, hardly a node is solved in half a minute."""

NODES = ("2000", "500")
"""Of HiGHS, for what is not at its bounds, and for everything: where the bound is reached at all, three
quarters of them are enough."""
WORK = ("5", "20")
"""Of CP-SAT likewise, in its own measure, about seconds."""


LARGEST = 2**61
"""Of sums of rows in CP-SAT, which adds up in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Stalled:
    """Values of the program's variables, and the ns that a plan takes which loses nothing."""

    time: int
    values: list[int]


class Rounding(Master):
    """The slot model in whole bytes and ns."""

    name: ClassVar[str] = "placement in whole bytes"
    unit: ClassVar[str] = "ns"

    def evaluate(self, answer: Stalled) -> int:
        """Return the time."""
        return answer.time


Engine = Callable[[Near, Context, Callable[[list[int] | None], Stalled | None], int, bool], None]
"""Solves a model: its data, a context of its own, what makes an answer of values, the ns without changes, and
whether everything may change."""


def by_highs(
    model: Near, own: Context, answer: Callable[[list[int] | None], Stalled | None], base: int, every: bool
) -> None:
    """Solve the MILP."""
    built = rounded_milp.build(model)

    def read(value: rounded_milp.Value) -> Stalled | None:
        return answer(rounded_milp.decode(built, value))

    settings = {"mip_max_nodes": NODES[every]}
    to_objective = partial(int.__add__, base)
    solve_highs(built.model, own, decode=read, to_objective=to_objective, settings=settings, exact=True)


def by_cpsat(
    model: Near, own: Context, answer: Callable[[list[int] | None], Stalled | None], base: int, every: bool
) -> None:
    """Solve the model of CP-SAT, whose linear relaxation is nearly exact; none whose sums leave 64 bits."""
    if any(DISTANCE * sum(map(abs, a)) + abs(low) >= LARGEST for _, a, low in model.rows):
        return
    built = rounded_cpsat.build(model)

    def read(value: rounded_cpsat.Value) -> Stalled | None:
        return answer(rounded_cpsat.decode(built, value))

    settings = {"linearization_level": "2", "max_deterministic_time": WORK[every]}
    solve_cpsat(built.model, own, decode=read, to_objective=lambda cost: base + cost, defaults=settings)


def search_near(
    problem: Placement, context: Context, data: StateData, rounded: Rounded, engine: Engine = by_highs
) -> None:
    """Offer plans near a solution of the slot model that end sooner, if rounding may be all in the way.

    Parameters
    ----------
    problem, context, data
        Of the solve.
    rounded
        The plan that came of the solution by rounding.
    engine
        What solves the models.
    """
    program = rounded.slots.program
    for every in (False, True):
        if context.closed or context.expired or not _rounding_only(context, rounded):
            return
        if every and len(program.cost) > MOST_CHANGES:
            return
        context.progress("slot model: whole bytes and ns")
        best = _solved(problem, context, data, rounded, engine, every=every)
        if best is not None and (context.incumbent is None or best.time < context.incumbent):
            plan = decode(rounded.slots, best.values, problem, lambda: context.expired, whole=True)
            if plan is not None:
                context.offer(plan)


def _rounding_only(context: Context, rounded: Rounded) -> bool:
    """Whether rounding may be all that is between bound and incumbent."""
    if context.incumbent is None or context.bound is None:
        return False
    return context.incumbent - context.bound <= LOST * (len(rounded.plan.copies) + len(rounded.slots.stalls))


def _solved(
    problem: Placement, context: Context, data: StateData, rounded: Rounded, engine: Engine, *, every: bool
) -> Stalled | None:
    """Return the best of what is near, as far as so much work tells; None if nothing was found."""
    assert context.bound is not None
    try:
        model = near(
            rounded.slots.program,
            rounded.values,
            distance=DISTANCE,
            every=every,
            least=max(0, context.bound - data.ideal),
            row=ticker(lambda: context.expired),
        )
    except BuildTimeout:
        return None
    own = context.inner(Rounding(problem.graph), prefix=None, options={}, engine_options={})
    own.raise_bound(context.bound, kind="known")

    def answer(values: list[int] | None) -> Stalled | None:
        if values is None:
            return None
        return Stalled(time=data.ideal + sum(values[p] for p in rounded.slots.stalls), values=values)

    engine(model, own, answer, data.ideal + model.stall, every)
    best: Stalled | None = own.answer
    return best
