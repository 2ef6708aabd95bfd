"""The model of `distributed` through CP-SAT, from what lists find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...formulations.distributed import intervals_cpsat
from ...formulations.distributed.data import DistributedData, distributed_data
from ...models.errors import UsageError
from ...models.problems.distributed import Distributed, DistributedSchedule
from ..context import Context, Outcome
from ..engines.model import solve_model
from .lists import Some, ended, offer_heft, raise_bounds


def stated(problem: Distributed) -> dict[str, Any]:
    """Return what the model is built of."""
    data = distributed_data(problem)
    return {"data": data, "horizon": data.horizon}


def solve_cpsat(problem: Distributed, context: Context) -> Outcome:
    """Solve the model from the list schedule and the bounds of the relaxation."""
    data = distributed_data(problem)
    offer_heft(Some.all(data), context)
    outcome = raise_bounds(problem, context)
    if outcome.infeasible or context.closed or context.expired:
        return ended(outcome, context)
    return solve_intervals(data, context)


def _horizon(data: DistributedData, context: Context) -> int:
    """Return the incumbent or the safe horizon, in ticks."""
    return data.horizon if context.incumbent is None else context.incumbent // data.tick


def refused(data: DistributedData, context: Context) -> Outcome | None:
    """Return why the model is too large; None if it is not."""
    try:
        intervals_cpsat.check(data, _horizon(data, context))
    except UsageError as error:
        return Outcome(refused=str(error))
    return None


def solve_intervals(data: DistributedData, context: Context, some: Some | None = None) -> Outcome:
    """Run CP-SAT from the incumbent and bound of the context; without an incumbent on the safe horizon.

    On some of the memories, if these are given: then the incumbent is a schedule on these.
    """
    horizon, answer = _horizon(data, context), context.answer
    intervals_cpsat.check(data, horizon)

    def decode(built: intervals_cpsat.DistributedModel, value: Callable[[Any], int]) -> DistributedSchedule:
        found = intervals_cpsat.decode(built, value)
        return found if some is None else some.in_all(found)

    return solve_model(
        context,
        intervals_cpsat,
        lambda: intervals_cpsat.build(
            data,
            horizon=horizon,
            lower=-(-(context.bound or 0) // data.tick),
            hint=answer if some is None or answer is None else some.of(answer),
            expired=lambda: context.expired,
        ),
        what="the CP-SAT model of intervals",
        size=intervals_cpsat.size(data, horizon),
        decode=decode,
        to_objective=lambda ticks: ticks * data.tick,
    )


def solve_on_some(some: Some, answer: DistributedSchedule, context: Context) -> Outcome:
    """Run CP-SAT on some of the memories, from a schedule on them; its bounds hold there alone."""
    inner = context.inner(context.problem, prefix=None)
    inner.offer(answer)
    if context.bound is not None:
        inner.raise_bound(context.bound)
    inner.changed = partial(_hand_on, inner, context)
    outcome = refused(some.data, inner) or solve_intervals(some.data, inner, some)
    return replace(outcome, infeasible=False)


def _hand_on(inner: Context, context: Context) -> None:
    context.offer(inner.answer)
