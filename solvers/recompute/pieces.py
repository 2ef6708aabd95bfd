"""What `auto` of `recompute` runs in turns, each piece of it by itself.

Each takes the problem and its context, offers what it finds at once and says how it ended.
"""

from __future__ import annotations

from contextlib import suppress

from ...formulations.recompute.data import in_ns
from ...models.derived.memory import sequential_memory
from ...models.errors import UsageError
from ...models.problems.recompute import Recompute
from ...models.units import exact_bytes
from ...models.verifier.verdict import Verification
from ..context import Context, Outcome
from ..parts import per_op
from .blocks.hiremate import solve_hiremate
from .heuristics.eviction import RULES
from .heuristics.method import first_bound, offer, offer_annealed, offer_rules
from .models.least_memory import none_fits
from .models.moccasin import COPIES, solve_intervals
from .models.moments import raise_bounds, round_moments
from .models.paging import costs_of_paging, solve_pages

by_ops = per_op(10_000)
"""Until annealing has begun, or ops are held against a need."""

by_moment = per_op(1_000)
"""Until the worst moment is solved and rounded."""

by_programs = per_op(300)
"""Until programs of moments are solved for a first time."""

CHAINED_PER_SECOND, FIRST_BLOCKS = 400, 0.7
"""Ops of a graph of whose blocks programs are solved for a first time, and the seconds of the first ones."""

by_evictions = per_op(10_000_000, 2)
"""Of rules of eviction, where an op looks at the others."""

by_pairs = per_op(20_000, 2)
"""Until the model of retention intervals is built and searched for a first time."""


def by_blocks(problem: Recompute) -> float:
    """Return the seconds until there is a schedule of the programs of blocks, about."""
    return FIRST_BLOCKS + len(problem.graph.ops) / CHAINED_PER_SECOND


def solve_store_all(problem: Recompute, context: Context) -> Outcome:
    """Offer the reference order, each op once; that is fastest, where it fits."""
    context.raise_bound(problem.least_time, kind="each op once")
    graph = problem.graph
    order = range(len(graph.ops))
    if problem.memory is not None and all(not op.modes for op in graph.ops):
        peak = sequential_memory(graph).peak(order)  # what the verifier says too, and sooner
        if peak > problem.memory:
            return _too_little(peak, problem.memory)
    answer = problem.read(order)
    judgement = problem.judge(answer)
    assert isinstance(judgement.verification, Verification)
    peak = judgement.verification.peaks[problem.fast]
    if problem.memory is not None and peak > problem.memory:
        return _too_little(peak, problem.memory)
    context.offer(answer)
    if context.answer is answer:
        context.known.judgement = judgement
    return Outcome()


def _too_little(peak: int, memory: int) -> Outcome:
    needs = f"needs {exact_bytes(peak)}, of {exact_bytes(memory)}"
    return Outcome(detail=f"every op once, in the reference order, {needs}")


def offer_by_rules(problem: Recompute, context: Context) -> Outcome:
    """Offer what segments and rules of eviction find."""
    if (data := first_bound(problem, context)) is not None:
        offer_rules(context, data, lambda: False, moves=len(RULES))
    return Outcome(reason="time" if context.expired else None)


def round_worst_moment(problem: Recompute, context: Context) -> Outcome:
    """Bound by the worst moment, offer what comes of it, or anneal that where it does not fit."""
    if (data := first_bound(problem, context)) is None:
        return Outcome()
    outcome, start = round_moments(problem, data, context, context.remaining())
    if start is not None and not outcome.infeasible:
        offer_annealed(context, data, lambda: False, turn=1, start=start)
    return outcome


def prove_that_none_fits(problem: Recompute, context: Context) -> Outcome:
    """Try to prove that nothing fits, while nothing does."""
    data = first_bound(problem, context)
    why = (
        ""
        if data is None
        else none_fits(problem, data, lambda: context.expired or context.answer is not None)
    )
    return Outcome(infeasible=bool(why), detail=why, reason="time" if context.expired and not why else None)


def anneal_best(problem: Recompute, context: Context) -> Outcome:
    """Anneal the best schedule."""
    if (data := first_bound(problem, context)) is not None:
        for turn in range(2):
            offer_annealed(context, data, lambda: False, turn=turn)
    return Outcome(reason="time" if context.expired else None)


def bound_by_moments(problem: Recompute, context: Context) -> Outcome:
    """Bound by more and more moments, and offer what comes of the solutions where that fits."""
    if (data := first_bound(problem, context)) is None:
        return Outcome()

    def take(runs: list[int]) -> None:
        with suppress(ValueError):  # a second run destroys what is read later
            offer(context, data, runs)

    return raise_bounds(problem, context, context.remaining(), on_path=take)


def solve_parts_of_parts(problem: Recompute, context: Context) -> Outcome:
    """Solve programs over parts of parts; without a limit they may take for ever."""
    if context.time_limit is None:
        return Outcome(refused="found no time limit, expected one that its programs share")
    return solve_hiremate(problem, context)


def retain(problem: Recompute, context: Context) -> Outcome:
    """Solve the model of retention intervals, if CP-SAT can have its numbers."""
    if (data := first_bound(problem, context)) is None:
        return Outcome()
    try:
        return solve_intervals(problem, data, context, COPIES, by_first_runs=True)
    except UsageError as error:
        return Outcome(refused=str(error))


def page(problem: Recompute, context: Context) -> Outcome:
    """Solve the MILP in stages with paging."""
    if (data := first_bound(problem, context)) is None:
        return Outcome()
    costs = costs_of_paging(problem, in_ns(data))
    if costs is None:
        return Outcome(refused="found no slower tier that returns values, expected one")
    return solve_pages(problem, data, context, costs, context.remaining())
