"""`auto` and `store-all` for `recompute`.

`auto`: each op once, if that fits; of chains the best schedules that are known for them. Then, for graphs
whose ops have one mode each:

1. Segments and rules of eviction; bounds by single moments, and the schedules that keep what their solutions
   keep (first of all in graphs that are large for the rules); while nothing fits, what every schedule needs
   up to the first run of each op (`models.least_memory`); annealing of sequences of runs, from one of these
   even where it does not fit.
2. Bounds by moments, from one to as many as the longest path has ops. Where blocks of the graph repeat, the
   schedule of programs within them and over their chain (`rockmate`).
3. Retention intervals (MOCCASIN) in the order of the first runs of the best schedule, from it as hint; where
   slower tiers return values, the MILP in stages with paging (POET).
4. Bounds by all moments for the rest of the time; if they leave some of it, annealing once more.

It ends as soon as the bound meets the best schedule.
"""

from __future__ import annotations

import math

from ...formulations.recompute.data import RecomputeData, in_ns
from ...models.derived.memory import sequential_memory
from ...models.errors import UsageError
from ...models.problems.recompute import Recompute
from ...models.units import exact_bytes
from ...models.verifier.verdict import Verification
from ..context import Context, Outcome
from .blocks.rockmate import offer_blocks
from .chains.methods_of_chains import solve_chain
from .heuristics.eviction import RULES
from .heuristics.method import PRUNED_OPS, STOPPED, first_bound, offer_annealed, offer_rules
from .models.least_memory import none_fits
from .models.moccasin import COPIES, solve_intervals
from .models.moments import raise_bounds, round_moments
from .models.paging import costs_of_paging, solve_pages

MOST_OPS = 200
"""Graphs with more ops than this are not given to retention intervals, whose model grows with the square of
the number of ops."""

LARGE = 2000
"""Above so many ops nothing is begun when the time is up."""

SEARCHED, BOUNDED, MODELLED, PAGED = 0.2, 0.3, 0.4, 0.7
"""Fractions of the time limit at which steps end, counted from the beginning of the solve: step 1 (single
moments end halfway to there, in large graphs at `MODELLED`); step 2, the first bounds; step 3, the model,
without paging and with it, which takes longer to build. While there is no schedule, step 1 goes on until
`MODELLED`: without one none helps."""

BLOCKS, CLOSE = 0.35, 0.01
"""Fraction of the time for the programs over repeated blocks (`rockmate`), at most, after the first bounds;
and the gap to the bound below which they are not tried, since schedules of blocks are coarser than that."""

EXHAUSTED = (
    "heuristics, retention intervals and the bounds by moments ended without a proof; "
    "--method checkmate or local-search with --hint PLAN searches on"
)


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


def solve_auto(problem: Recompute, context: Context) -> Outcome:
    """Offer the reference order, if it fits, and a chain's best schedules; else as for general graphs."""
    outcome = solve_store_all(problem, context)
    large = len(problem.graph.ops) > LARGE
    if not context.closed and not (large and context.expired):
        outcome = solve_chain(problem, context) or outcome
    if large and context.expired and not context.closed:
        return Outcome(reason="time", detail=outcome.detail)
    if context.closed or any(len(op.all_modes) > 1 or op.all_modes[0].operands for op in problem.graph.ops):
        return outcome
    return solve_graph(problem, context)


def solve_graph(problem: Recompute, context: Context) -> Outcome:
    """Solve a problem whose ops have one mode each."""
    data = first_bound(problem, context)
    if data is None:
        return Outcome()
    began, whole = context.elapsed(), context.remaining()

    def left(part: float) -> float:
        return began + part * whole - context.elapsed()

    def searched() -> bool:
        return left(SEARCHED if context.answer is not None else MODELLED) <= 0

    many = data.n > PRUNED_OPS
    if not many:
        offer_rules(context, data, searched, moves=len(RULES))
        if context.closed:
            return Outcome()
    outcome, start = round_moments(problem, data, context, left(MODELLED) if many else left(SEARCHED) / 2)
    if outcome.infeasible or context.closed or outcome.reason in STOPPED:
        return outcome
    if many and context.answer is None:
        offer_rules(context, data, searched, moves=0)
    if context.answer is None and (why := none_fits(problem, data, searched)):
        return Outcome(infeasible=True, detail=why)
    offer_annealed(context, data, searched, start=start)
    if context.closed:
        return Outcome()
    if data.n > LARGE and context.expired:
        return Outcome(reason="time")
    outcome = raise_bounds(problem, context, max(left(BOUNDED), left(MODELLED) / 2))
    if outcome.infeasible or context.closed or outcome.reason in STOPPED:
        return outcome
    if context.expired:
        return Outcome(reason="time")
    if context.incumbent is None or context.incumbent > (1 + CLOSE) * (context.bound or 0):
        offer_blocks(data, context, BLOCKS * whole)
    if context.closed:
        return Outcome()
    if data.n <= MOST_OPS:
        costs = costs_of_paging(problem, in_ns(data))
        if costs is None:
            outcome = _intervals(problem, data, context, left(MODELLED))
        else:
            outcome = solve_pages(problem, data, context, costs, left(PAGED))
        if context.closed or outcome.reason in STOPPED:
            return outcome
    bounds = raise_bounds(problem, context, math.inf, first=data.n)
    if bounds.infeasible:
        return bounds
    if bounds.reason not in STOPPED:
        offer_annealed(context, data, lambda: False, turn=1, start=start if many else None)
    if context.closed:
        return Outcome()
    return Outcome(
        reason="time" if context.expired else bounds.reason,
        detail=outcome.detail or bounds.detail or ("" if context.expired else EXHAUSTED),
    )


def _intervals(problem: Recompute, data: RecomputeData, context: Context, seconds: float) -> Outcome:
    """Solve the model of retention intervals, if CP-SAT can have its numbers."""
    try:
        return solve_intervals(problem, data, context, COPIES, by_first_runs=True, seconds=seconds)
    except UsageError as error:
        return Outcome(detail=str(error))
