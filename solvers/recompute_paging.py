"""`poet`: recompute and page to a slower tier together, as a MILP in stages through HiGHS."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..formulations import recompute_stages as stages_model
from ..formulations.recompute_data import RecomputeData
from ..formulations.recompute_stages import Paging
from ..formulations.recompute_stages_hint import set_values
from ..models.errors import UsageError
from ..models.recompute import Recompute, Transfer
from .context import Context, Outcome
from .engines import highs
from .engines.memory import refuse_if_too_large
from .recompute_graphs import begin, known_runs, offer_heuristics
from .recompute_moments import BYTES_PER_TERM
from .recompute_stages import STARTED, told

OPTIONS = ("start",)


def paging(problem: Recompute, data: RecomputeData) -> Paging:
    """Return what the first slower tier with channels to the fast memory and back costs, in ns.

    Raises
    ------
    UsageError
        If there is none.
    """
    pairs = {(channel.src, channel.dst) for channel in problem.machine.channels}
    for tier in problem.machine.tiers[1:]:
        if {(problem.fast, tier.name), (tier.name, problem.fast)} <= pairs:
            break
    else:
        raise UsageError(
            f"method poet, machine {problem.machine.name!r}: found no slower tier with channels from and to "
            f"{problem.fast!r}, expected one"
        )

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


def in_ns(data: RecomputeData) -> RecomputeData:
    """Return the data in ticks of one ns, since transfers need not take multiples of a longer tick."""
    return replace(data, tick=1, duration=tuple(data.ns(d) for d in data.duration))


def solve_poet(problem: Recompute, context: Context) -> Outcome:
    """Solve the MILP in partitioned stages with paging, after heuristics that only recompute.

    Its bound is none on the problem; only that of each op once counts.

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
    data = in_ns(data)
    costs = paging(problem, data)
    if context.options.get("start", "lists") == "lists":
        until = context.elapsed() + STARTED * context.remaining()
        offer_heuristics(context, data, lambda: context.elapsed() >= until)
    what = "the MILP in stages with paging"
    size = stages_model.size(data)
    refused = refuse_if_too_large(size, bytes_per_term=2 * BYTES_PER_TERM, context=context, what=what)
    if refused is not None:
        return refused
    began = time.perf_counter()
    built = stages_model.build(data, paging=costs, expired=lambda: context.expired)
    if built is None:
        return Outcome(reason="time", detail=f"{what} was not built: no time was left")
    if (known := known_runs(context)) is not None:
        set_values(built, known)
    context.build_seconds = time.perf_counter() - began
    context.progress(f"{what}: built in {context.build_seconds:.2f} s")
    statement = [sum(data.duration)]

    def to_objective(ns: int) -> int:
        statement[0] = max(statement[0], ns)
        return problem.least_time

    def decode(value: Callable[[Any], float]) -> Any:
        steps = stages_model.decode_paged(built, value, problem.fast, costs.tier)
        answer = problem.with_discards(steps)
        return None if problem.judge(answer).violations else answer

    outcome = highs.solve_highs(
        built.model, context, decode=decode, to_objective=to_objective, own_options=OPTIONS
    )
    return told(data, context, outcome, statement[0], "partitioned stages with paging")
