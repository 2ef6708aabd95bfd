"""Several devices: the methods of problem `distributed`, which knows them without contention.

Without contention and synchronisations the two questions are one. With them, its bounds hold all the same
(`Streams.distributed`), and the orders of its schedules are simulated. For few ops, the model of rates is
exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...formulations.streams import rates_cpsat
from ...models.errors import UsageError
from ...models.lowering.devices import Devices, Rows
from ...models.plan import Plan
from ...models.problems.streams import Streams
from ...models.result import Status
from ..context import Context, Outcome
from ..engines.model import solve_model
from .bounds import raise_first_bound


def devices_of(problem: Streams) -> Devices:
    """Return the devices; raise a `UsageError` if there is one."""
    if problem.cluster is None:
        raise UsageError("devices: found 1, expected several (auto and lios are for one)")
    return problem.cluster


def solve_heft(problem: Streams, context: Context) -> Outcome:
    """Offer HEFT's plan; under contention its orders, simulated."""
    devices_of(problem)
    return by_distributed(problem, context, "heft")


def solve_cpsat(problem: Streams, context: Context) -> Outcome:
    """Solve the CP-SAT model of `distributed`."""
    devices_of(problem)
    if problem.contends:
        raise UsageError(
            f"contention: found {problem.contention!r} and sync_ns {problem.sync_ns}, expected none and 0 of "
            "the CP-SAT model of several devices (rates-cpsat has proportional contention)"
        )
    return by_distributed(problem, context, "cpsat")


def solve_rates(problem: Streams, context: Context) -> Outcome:
    """Solve the CP-SAT model of rates, from the orders of HEFT."""
    devices_of(problem)
    rates_cpsat.check(problem)
    outcome = by_distributed(problem, context, "heft")
    return outcome if context.closed or context.expired else by_rates(problem, context)


def by_rates(problem: Streams, context: Context) -> Outcome:
    """Solve the CP-SAT model of rates from what is known."""
    return solve_model(
        context,
        rates_cpsat,
        lambda: rates_cpsat.build(
            problem,
            horizon=context.incumbent,
            lower=context.bound or 0,
            expired=lambda: context.expired,
        ),
        what="the CP-SAT model of rates",
        size=rates_cpsat.size(problem),
        to_objective=int,
        decode=rates_cpsat.decode,
    )


def rates_stated(problem: Streams) -> dict[str, Any]:
    """Return what the model of rates is built of."""
    devices_of(problem)
    return {"problem": problem}


def by_distributed(problem: Streams, context: Context, method: str) -> Outcome:
    """Take over plan and bound of a method of `distributed`, which begins with what is known."""
    from ..solve import solve

    raise_first_bound(problem, context)
    asked = problem.distributed
    if asked is None:  # no ops
        context.offer([])
        return Outcome()
    hint = None if context.answer is None or problem.contends else context.answer
    result = solve(
        asked,
        method,
        time_limit=None if context.time_limit is None else max(0.1, context.remaining() * 0.95),
        seed=context.seed,
        threads=context.threads,
        memory_limit=context.memory_limit,
        hint=None if hint is None else replace(hint, machine=asked.machine),
        options=context.engine_options,
        log=context.log,
        progress=context.progress,
    )
    if result.bound is not None and result.proof is not None:
        context.raise_bound(result.bound, result.proof, kind=result.bound_kind)
    if result.plan is not None:
        context.careful = True
        context.offer(rows_of(result.plan) if problem.contends else result.plan)
    if result.reason == "interrupted":
        raise KeyboardInterrupt
    return Outcome(
        reason=result.reason,
        infeasible=result.status is Status.INFEASIBLE,
        detail=result.detail if context.answer is not None else context.refused or result.detail,
    )


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
