"""`auto` for `minio`, in turns (`lowtide.solvers.portfolio`).

Trees: bounds by least peaks of subtrees, every order with every rule, and cuts. Cuts begin with those that
prove the bounds, which are computed once, and end only when bound and incumbent meet, so large trees have
them too, for as long as there is time.

Other graphs, and where more than writes count: greedy orders of `peak` with every rule; the least peak, whose
bounds are ones here and whose orders the rules take; local search over orders; of whole tensors best-first
search over states; CP-SAT over steps.
"""

from __future__ import annotations

from ...formulations.minio import steps_cpsat
from ...formulations.minio.data import graph_data
from ...models.problems.minio import MinIO
from ..context import Context, Outcome
from ..parts import Part, per_op
from ..peak.methods import PEAK_KERNELS
from ..portfolio import run
from .benders import solve_by_cuts
from .evictions import evict
from .local_search import improve
from .models import offer_evictions, offer_greedy, offer_rules, solve_built_steps
from .peaks import raise_by_peaks
from .rules import begin, is_tree, tree_data, values_of
from .states import refusal, solve_states

RUNS = 1_000
"""Runs of local search after which it ends by itself; with a time limit that comes first."""

MOST_STEPS = 150
"""Largest number of ops of which the model over steps is built: its terms are their third power and more."""

TERMS_PER_SECOND = 10_000
"""Terms of the model over steps for each second until it has an answer, on layered graphs of 30 ops."""


def solve_auto(problem: MinIO, context: Context) -> Outcome:
    """Stop as soon as the bound meets the incumbent."""
    values_of(problem, context)  # refuses what is overwritten
    return run(PARTS, problem, context)


def _bounds(problem: MinIO, context: Context) -> Outcome:
    begin(problem, context)
    return Outcome(reason="time" if context.expired else None)


def _rules(problem: MinIO, context: Context) -> Outcome:
    offer_rules(problem, tree_data(problem, context.method), context)
    return Outcome(reason="time" if context.expired else None)


def _cuts(problem: MinIO, context: Context) -> Outcome:
    data, _, cuts = begin(problem, context)
    return solve_by_cuts(problem, data, cuts, context)


def _only_trees(problem: MinIO) -> str:
    return "" if is_tree(problem) else "found a graph, expected a tree"


def _no_trees(problem: MinIO) -> str:
    return "found a tree, expected another graph" if is_tree(problem) else ""


def _reference(problem: MinIO, context: Context) -> None:
    data = values_of(problem, context)
    context.offer(evict(data, range(data.n)))


def _orders(problem: MinIO, context: Context) -> Outcome:
    offer_greedy(values_of(problem, context), context)
    return Outcome(reason="time" if context.expired else None)


def _least_peak(problem: MinIO, context: Context) -> Outcome:
    data = values_of(problem, context)
    raise_by_peaks(data, context, lambda order: offer_evictions(data, order, context))
    return Outcome(reason="time" if context.expired else None)


def _search(problem: MinIO, context: Context) -> Outcome:
    return improve(problem, values_of(problem, context), context, RUNS)


def _states(problem: MinIO) -> str:
    return _no_trees(problem) or refusal(problem)


def _steps(problem: MinIO) -> str:
    n = len(problem.graph.ops)
    return _no_trees(problem) or (f"found {n:,} ops, expected at most {MOST_STEPS}" if n > MOST_STEPS else "")


def _step_seconds(problem: MinIO) -> float:
    return steps_cpsat.size(graph_data(problem)).terms / TERMS_PER_SECOND


def _model(problem: MinIO, context: Context) -> Outcome:
    return solve_built_steps(graph_data(problem), context, context.answer.order)


PARTS = (
    Part(name="least peaks of subtrees", run=_bounds, refuses=_only_trees),
    Part(name="orders and rules", run=_rules, refuses=_only_trees),
    Part(name="benders", run=_cuts, refuses=_only_trees, seconds=per_op(1_000)),
    Part(name="reference order", run=_reference, refuses=_no_trees, first=True),
    Part(name="greedy orders", run=_orders, refuses=_no_trees, seconds=per_op(5_000)),
    Part(name="least peak", run=_least_peak, refuses=_no_trees, seconds=per_op(10_000), kernels=PEAK_KERNELS),
    Part(name="states", run=solve_states, refuses=_states, seconds=per_op(100)),
    Part(name="local search", run=_search, refuses=_no_trees, seconds=per_op(30)),
    Part(name="cpsat-steps", run=_model, refuses=_steps, seconds=_step_seconds, pauses=False),
)
