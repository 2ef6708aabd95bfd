"""`poet`: recompute and page to slower tiers together, as a MILP in stages through HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from ....formulations.recompute import stages_milp
from ....formulations.recompute.data import RecomputeData, in_ns
from ....formulations.recompute.stages_hint import set_values
from ....formulations.recompute.stages_paging import Paging
from ....models.errors import UsageError
from ....models.lowering.discards import without_idle_copies
from ....models.problems.recompute import Recompute, Transfer
from ...context import Context, Outcome
from ...engines.model import solve_model
from ..heuristics.method import first_bound, known_runs, offer_heuristics, part_of
from .stages import STARTED, bounds_to_the_end, say_of_statement

PAGED = 0.7
"""Part of the time for the MILP; the rest is for bounds."""


def paging(problem: Recompute, data: RecomputeData) -> Paging:
    """Return what `costs_of_paging` does.

    Raises
    ------
    UsageError
        If there is none.
    """
    costs = costs_of_paging(problem, data)
    if costs is None:
        raise UsageError(
            f"method poet, machine {problem.machine.name!r}: found no slower tier with channels from and to "
            f"{problem.fast!r}, expected one"
        )
    return costs


def costs_of_paging(problem: Recompute, data: RecomputeData) -> Paging | None:
    """Return what copies to slower tiers and back cost, in ns; None if values come back from no tier."""
    channels = {(channel.src, channel.dst) for channel in problem.machine.channels}
    near = _steps_away(problem.fast, {(b, a) for a, b in channels})  # from the tier to the fast memory
    there = _steps_away(problem.fast, channels)
    names = [tier.name for tier in problem.machine.tiers if tier.name in near and tier.name in there]
    names.sort(key=lambda name: near[name])  # the fast memory is nearest; then by the machine's order
    if len(names) == 1:
        return None
    capacity = {tier.name: tier.capacity for tier in problem.machine.tiers}
    bundles = [data.tensors[x.tensor] for x in data.values]
    ticks = {
        (names.index(src), names.index(dst)): tuple(
            sum(problem.transfer_ns(Transfer(t, src, dst)) for t in bundle) for bundle in bundles
        )
        for src, dst in sorted(channels)
        if src in names and dst in names
    }
    units = (None if (room := capacity[name]) is None else room // data.unit for name in names)
    return Paging(tiers=tuple(names), ticks=ticks, capacity=tuple(units))


def _steps_away(start: str, channels: Collection[tuple[str, str]]) -> dict[str, int]:
    """Return by tier the least number of channels on a way to it."""
    away = {start: 0}
    reached = [start]
    for name in reached:
        for src, dst in sorted(channels):
            if src == name and dst not in away:
                away[dst] = away[name] + 1
                reached.append(dst)
    return away


def solve_poet(problem: Recompute, context: Context) -> Outcome:
    """Solve the MILP in partitioned stages with paging, after heuristics that only recompute; then bounds.

    The bound of the MILP is none on the problem; those of moments are.
    """
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    costs = paging(problem, in_ns(data))
    if context.options["start"] == "lists":
        until = context.elapsed() + STARTED * context.remaining()
        offer_heuristics(context, data, lambda: context.elapsed() >= until)
    if context.closed:
        return Outcome()
    return bounds_to_the_end(
        problem, context, solve_pages(problem, data, context, costs, PAGED * context.remaining())
    )


def solve_pages(
    problem: Recompute, data: RecomputeData, context: Context, costs: Paging, seconds: float
) -> Outcome:
    """Solve the MILP from the best schedule that is known, for so many seconds at most."""
    data = in_ns(data)
    own = part_of(context, seconds)

    def build() -> stages_milp.StagesModel:
        built = stages_milp.build(data, paging=costs, expired=lambda: own.expired)
        if (known := known_runs(context)) is not None:
            set_values(built, known)
        return built

    statement = [sum(data.duration)]

    def to_objective(ns: int) -> int:
        statement[0] = max(statement[0], ns)
        return problem.least_time

    def decode(built: stages_milp.StagesModel, value: Callable[[Any], float]) -> Any:
        steps = stages_milp.decode_paged(built, value)
        answer = problem.with_discards(without_idle_copies(problem.graph, steps, problem.fast))
        if problem.judge(answer).violations:
            return None
        context.offer(answer)
        return answer

    outcome = solve_model(
        context,
        stages_milp,
        build,
        what="the MILP in stages with paging",
        size=stages_milp.size(data, tiers=len(costs.tiers)),
        decode=decode,
        to_objective=to_objective,
        run=own,
        factor=2,
    )
    if outcome.reason == "time" and not context.expired:
        outcome = replace(outcome, reason=None)
    return say_of_statement(data, context, outcome, statement[0], "partitioned stages with paging")
