"""Minimum peak memory by a solver: from the problem to a model of any of the formulations, and through it.

1. The known order and bound: the hint, else the reference order and the formulation's bound; with option
   ``start=bounds`` also what `auto` takes first
   (`lowtide.solvers.peak.search.rounds.take_first_steps`).
2. Too large a model is refused before it is built.
3. The orders of pairs that the known order's peak forces (`lowtide.formulations.peak.forced_orders`) join the
   data, except with option ``plain=1``.
4. The model is built with order and bounds, and the solver runs. All of it counts as the method's time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ...formulations.model import BuildTimeout
from ...formulations.peak.data import PeakData, peak_data
from ...formulations.peak.forced_orders import with_forced_orders
from ...models.problems.peak import Peak
from ..context import Context, Outcome
from ..engines.memory import refuse_if_too_large
from .search.rounds import take_first_steps

FORCING = 0.1
"""The part of the time that is left which the search for forced orders may take."""

Run = Callable[..., Outcome]
"""The engine: called with the model, ``decode`` and ``to_objective``."""


def solve_model(
    problem: Peak,
    context: Context,
    formulation: ModuleType,
    what: str,
    *,
    bytes_per_term: int,
    run: Run,
    plain_data: Callable[[PeakData], PeakData] = lambda data: data,
) -> Outcome:
    """Solve a formulation, from the known order and bound.

    Parameters
    ----------
    problem, context
        As for every method.
    formulation
        A module with ``bound``, ``size``, ``build`` and ``decode``.
    what
        What the model is called in messages.
    bytes_per_term
        Of memory, for the estimate of the whole solve.
    run
        Solves the Pyomo or CP-SAT model.
    plain_data
        What ``plain=1`` puts in place of the strengthened data.
    """
    plain = context.options.get("plain", False)
    if context.options.get("start") == "bounds":
        take_first_steps(problem, context)
        if context.closed:
            return Outcome()
    if context.answer is None:
        context.offer(range(len(problem.graph.ops)))
    began = time.perf_counter()
    try:
        data = peak_data(problem, expired=lambda: context.expired)
        forced = formulation.bound(data, lambda: context.expired)
        context.raise_bound(forced * data.unit, kind="forced bytes")
        if context.closed:
            return Outcome()
        chosen = plain_data(data) if plain else data
        refused = refuse_if_too_large(
            formulation.size(chosen), bytes_per_term=bytes_per_term, context=context, what=what
        )
        if refused is not None:
            return refused
        began = time.perf_counter()
        if not plain:
            chosen = _forced(data, context)
            context.raise_bound(formulation.bound(chosen) * data.unit, kind="forced orders")
            if context.closed:
                return Outcome()
        built = formulation.build(
            chosen,
            lower=data.to_units(context.bound or 0),
            upper=None if context.incumbent is None else context.incumbent // data.unit,
            hint=context.answer,
            expired=lambda: context.expired,
        )
    except BuildTimeout:
        return Outcome(reason="time", detail=f"{what} was not built in time")
    finally:
        context.build_seconds = time.perf_counter() - began
    context.progress(f"{what}: built in {context.build_seconds:.2f} s")

    def decode(value: Any) -> Sequence[int]:
        order: Sequence[int] = formulation.decode(built, value)
        return order

    return run(built.model, context, decode=decode, to_objective=lambda units: units * data.unit)


def _forced(data: PeakData, context: Context) -> PeakData:
    """Return the data with what the known order's peak forces; the bound of it holds for every order.

    Orders above the limit need not obey what is forced, but their peak is above the limit, which is at least
    the bound.
    """
    context.progress("forced orders")
    enough = context.elapsed() + FORCING * context.remaining()
    return with_forced_orders(data, context.answer, expired=lambda: context.elapsed() >= enough)
