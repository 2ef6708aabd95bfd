"""`auto` and `store-all` for `recompute`."""

from __future__ import annotations

from ...models.problems.recompute import Recompute
from ...models.units import exact_bytes
from ...models.verifier.verdict import Verification
from ..context import Context, Outcome
from .chains.methods_of_chains import solve_chain
from .graph_auto import LARGE, solve_graph


def solve_store_all(problem: Recompute, context: Context) -> Outcome:
    """Offer the reference order, each op once; that is fastest, where it fits.

    Examples
    --------
    >>> import lowtide as lt
    >>> graph = lt.load("gen:backprop-chain?l=5&accounting=replace")
    >>> lt.solve(lt.Recompute(graph, memory=6), "store-all").objective
    11
    >>> lt.solve(lt.Recompute(graph, memory=5), "store-all").detail
    'every op once, in the reference order, needs 6 B, of 5 B'
    """
    context.raise_bound(problem.least_time, kind="each op once")
    answer = problem.read(range(len(problem.graph.ops)))
    judgement = problem.judge(answer)
    assert isinstance(judgement.verification, Verification)
    peak = judgement.verification.peaks[problem.fast]
    if problem.memory is not None and peak > problem.memory:
        return Outcome(
            detail=f"every op once, in the reference order, needs {exact_bytes(peak)}, "
            f"of {exact_bytes(problem.memory)}"
        )
    context.offer(answer)
    if context.answer is answer:
        context.judgement = judgement
    return Outcome()


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
