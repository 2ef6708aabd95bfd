"""Certificates of `arena`: the least peak that bounds a height, proved once more."""

from __future__ import annotations

from ...formulations.arena.stacks import stacks, threshold_for
from ...models.certificate import Certificate
from ...models.problems.arena import Arena
from ...models.result import Result
from ...models.verifier.proofs.stacks import StacksProof
from ..certify import Certified
from ..context import Context
from ..peak.certify.certify import certify


def certify_height(problem: Arena, result: Result, context: Context) -> Certified:
    """Return a certificate of a result's bound; of the least peak's where another argument went beyond."""
    if result.bound is None:
        return Certified(None, None, "there is no bound")
    graph, bound = problem.graph, result.bound
    threshold = threshold_for(graph, problem.alignment, bound)
    least = stacks(graph, problem.alignment, threshold)
    orders = [] if result.plan is None else [result.plan.order]
    units = -(-(bound - least.step) // problem.alignment) + 1 if bound else 0
    found = certify(
        least.graph,
        units * problem.alignment,
        orders=orders,
        time_limit=context.time_limit,
        memory_limit=context.memory_limit,
        progress=context.progress,
    )
    if found is None:
        return Certified(bound, None)
    proof = StacksProof(threshold=threshold, peak=found.proof)  # type: ignore[arg-type]
    certificate = Certificate(
        bound=bound,
        proof=proof,
        graph_name=graph.name,
        graph_source=graph.source,
        graph_sha256=graph.sha256,
        setting=problem.setting(),
    )
    return Certified(bound, certificate)
