"""`poet`: recompute and page to a slower tier together, as a MILP in stages through HiGHS."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..formulations import recompute_stages as stages_model
from ..formulations.recompute_data import RecomputeData, in_ns
from ..formulations.recompute_stages import Paging
from ..formulations.recompute_stages_hint import set_values
from ..models.errors import UsageError
from ..models.recompute import Recompute, Transfer
from .context import Context, Outcome
from .engines import highs
from .engines.memory import refuse_if_too_large
from .recompute_graphs import begin, known_runs, offer_heuristics, part_of
from .recompute_moments import BYTES_PER_TERM
from .recompute_stages import STARTED, finish, told

OPTIONS = ("start",)

PAGED = 0.7
"""Part of the time for the MILP; the rest is for bounds."""


def paging(problem: Recompute, data: RecomputeData) -> Paging:
    """Return what `costs_of_paging` does.

    Raises
    ------
    UsageError
        If there is no such tier.
    """
    found = costs_of_paging(problem, data)
    if found is None:
        raise UsageError(
            f"method poet, machine {problem.machine.name!r}: found no slower tier with channels from and to "
            f"{problem.fast!r}, expected one"
        )
    return found


def costs_of_paging(problem: Recompute, data: RecomputeData) -> Paging | None:
    """Return what the first slower tier with channels to the fast memory and back costs, in ns, or None."""
    pairs = {(channel.src, channel.dst) for channel in problem.machine.channels}
    for tier in problem.machine.tiers[1:]:
        if {(problem.fast, tier.name), (tier.name, problem.fast)} <= pairs:
            break
    else:
        return None

    def cost(src: str, dst: str) -> tuple[int, ...]:
        bundles = [data.tensors[x.tensor] for x in data.values]
        return tuple(sum(problem.transfer_ns(Transfer(t, src, dst)) for t in bundle) for bundle in bundles)

    capacity = None if tier.capacity is None else tier.capacity // data.unit
    return Paging(
        read=cost(tier.name, problem.fast),
        write=cost(problem.fast, tier.name),
        capacity=capacity,
        tier=tier.name,
    )


def solve_poet(problem: Recompute, context: Context) -> Outcome:
    """Solve the MILP in partitioned stages with paging, after heuristics that only recompute; then bounds.

    The bound of the MILP is none on the problem; those of moments are.

    Examples
    --------
    >>> import lowtide as lt
    >>> memory = lt.Tier(name="memory"), lt.Tier(name="disk")
    >>> machine = lt.Machine(
    ...     tiers=memory,
    ...     processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
    ...     channels=(
    ...         lt.Channel(src="memory", dst="disk", bytes_per_s=10**9),
    ...         lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
    ...     ),
    ... )
    >>> graph = lt.load("gen:backprop-chain?l=6&forward=9&backward=9")
    >>> result = lt.solve(lt.Recompute(graph, memory=5, machine=machine), "poet", threads=1)
    >>> result.objective, len(result.plan.copies)  # 13 runs of 9 ns, and values to the disk and back
    (123, 6)
    """
    highs.check_options(context.options, OPTIONS)
    if context.options.get("start", "lists") not in ("lists", "none"):
        raise UsageError(f"option start: found {context.options['start']!r}, expected lists or none")
    data = begin(problem, context)
    if context.closed:
        return Outcome()
    costs = paging(problem, in_ns(data))
    if context.options.get("start", "lists") == "lists":
        until = context.elapsed() + STARTED * context.remaining()
        offer_heuristics(context, data, lambda: context.elapsed() >= until)
    if context.closed:
        return Outcome()
    return finish(problem, context, solve_pages(problem, data, context, costs, PAGED * context.remaining()))


def solve_pages(
    problem: Recompute, data: RecomputeData, context: Context, costs: Paging, seconds: float
) -> Outcome:
    """Solve the MILP from the best schedule that is known, for so many seconds at most.

    Parameters
    ----------
    costs
        Those of `paging`.
    """
    data = in_ns(data)
    what = "the MILP in stages with paging"
    own = part_of(context, seconds)
    own.options = {name: text for name, text in context.options.items() if name not in OPTIONS}
    size = stages_model.size(data)
    refused = refuse_if_too_large(size, bytes_per_term=2 * BYTES_PER_TERM, context=own, what=what)
    if refused is not None:
        return refused
    began = time.perf_counter()
    built = stages_model.build(data, paging=costs, expired=lambda: own.expired)
    if built is None:
        return Outcome(detail=f"{what} was not built: no time was left")
    if (known := known_runs(context)) is not None:
        set_values(built, known)
    context.build_seconds = (context.build_seconds or 0.0) + time.perf_counter() - began
    context.progress(f"{what}: built in {context.build_seconds:.2f} s")
    statement = [sum(data.duration)]

    def to_objective(ns: int) -> int:
        statement[0] = max(statement[0], ns)
        return problem.least_time

    def decode(value: Callable[[Any], float]) -> Any:
        steps = stages_model.decode_paged(built, value, problem.fast, costs.tier)
        answer = problem.with_discards(steps)
        if problem.judge(answer).violations:
            return None
        context.offer(answer)
        return answer

    outcome = highs.solve_highs(built.model, own, decode=decode, to_objective=to_objective)
    if outcome.reason == "time" and not context.expired:
        outcome = replace(outcome, reason=None)
    return told(data, context, outcome, statement[0], "partitioned stages with paging")
