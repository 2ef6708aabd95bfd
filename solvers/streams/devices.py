"""Several devices: the methods of problem `distributed`, which knows them without contention.

Without contention and synchronisations the two questions are one. With them, its bounds hold all the same
(`Streams.distributed`), and the orders of its schedules are simulated. For few ops, the model of rates is
exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...formulations.distributed import intervals_cpsat
from ...formulations.streams import rates_cpsat
from ...models.errors import UsageError
from ...models.lowering.devices import Rows
from ...models.plan import Plan
from ...models.problems.streams import Streams
from ..context import Context, Known, Outcome
from ..distributed.lists import solve_heft as solve_distributed_heft
from ..distributed.models import solve_cpsat as solve_distributed_cpsat
from ..distributed.models import stated
from ..engines.model import solve_question
from ..makespan.methods import LISTS
from ..method import RunFunction, Stated, Value
from .bounds import raise_first_bound
from .events import devices_of


def solve_heft(problem: Streams, context: Context) -> Outcome:
    """Offer HEFT's plan; under contention its orders, simulated."""
    devices_of(problem)
    raise_first_bound(problem, context)
    return by_distributed(problem, context, solve_distributed_heft)


def solve_cpsat(problem: Streams, context: Context) -> Outcome:
    """Solve the CP-SAT model of `distributed`."""
    devices_of(problem)
    if problem.contends:
        raise UsageError(f"contention: found {contended(problem)}")
    raise_first_bound(problem, context)
    return by_distributed(problem, context, solve_distributed_cpsat)


def solve_rates(problem: Streams, context: Context) -> Outcome:
    """Solve the CP-SAT model of rates, from the orders of HEFT."""
    devices_of(problem)
    rates_cpsat.check(problem)
    outcome = solve_heft(problem, context)
    return outcome if context.closed or context.expired else by_rates(problem, context)


def by_rates(problem: Streams, context: Context) -> Outcome:
    """Solve the CP-SAT model of rates from what is known."""
    known: dict[str, Any] = {"horizon": context.incumbent, "lower": context.bound or 0}
    return solve_question(problem, context, rates_cpsat, "the CP-SAT model of rates", **known)


def rates_stated(problem: Streams) -> dict[str, Any]:
    """Return what the model of rates is built of."""
    devices_of(problem)
    return {"problem": problem}


def distributed_stated(problem: Streams) -> dict[str, Any]:
    """Return what the model of `distributed` is built of."""
    devices_of(problem)
    if problem.contends or problem.distributed is None:
        raise UsageError(f"export: found {contended(problem)}")
    return stated(problem.distributed)


def distributed_plan(problem: Streams, given: Stated, built: Any, value: Value) -> Plan | None:
    """Return the plan of a solution of the model of `distributed`."""
    assert problem.distributed is not None
    return problem.distributed.judge(intervals_cpsat.decode(built, value)).plan


def contended(problem: Streams) -> str:
    """Return what the model of `distributed` does not know."""
    return (
        f"contention {problem.contention!r} and sync_ns {problem.sync_ns}, expected none and 0 of the CP-SAT "
        "model of several devices (rates-cpsat has proportional contention)"
    )


def by_distributed(
    problem: Streams, context: Context, run: RunFunction, known: Known | None = None
) -> Outcome:
    """Take over plans and bounds of a method of `distributed`, which begins with what is known.

    Parameters
    ----------
    run
        The method, or a part of one.
    known
        What parts know together; None: nothing yet.
    """
    asked = problem.distributed
    if asked is None:  # no ops
        context.offer([])
        return Outcome()
    inner, taken = context.inner(asked, prefix="distributed: ", known=known), None

    def hand_on() -> None:
        nonlocal taken
        if inner.bound is not None:
            context.raise_bound(inner.bound, inner.proof or "exact", kind=inner.bound_kind)
        if inner.incumbent is not None and inner.incumbent != taken:
            taken, plan = inner.incumbent, asked.judge(inner.answer).plan
            if plan is not None:
                context.offer(rows_of(plan) if problem.contends else plan)

    context.careful = True
    if context.answer is not None and not problem.contends:
        inner.offer(replace(context.answer, machine=asked.machine))
    inner.changed = hand_on
    context.prepare(LISTS)
    outcome = run(asked, inner) or Outcome()
    hand_on()
    detail = outcome.detail if context.answer is not None else context.refused or outcome.detail
    return replace(outcome, detail=detail, facts={})


def rows_of(plan: Plan) -> Rows:
    """Return the streams of each device as a plan runs them."""
    streams: dict[str, list[int]] = {p.name: [] for p in plan.machine.processors}
    for run in sorted(plan.runs, key=lambda run: run.start):
        streams[run.processor].append(run.op)
    rows: dict[str, list[list[int]]] = {tier.name: [] for tier in plan.machine.tiers}
    for p in plan.machine.processors:
        if streams[p.name]:
            rows[p.tiers[0].tier].append(streams[p.name])
    return list(rows.values())
