"""Certificates of `arena`: the least peaks that bound a height, proved once more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...formulations.arena.stacks import apart, stacks, threshold_for
from ...models.certificate import Certificate
from ...models.problems.arena import Arena
from ...models.result import Result
from ...models.verifier.proofs.stacks import PoolsProof, StacksProof
from ..certify import Certified
from ..context import Context
from ..peak.certify.certify import certify


def certify_height(problem: Arena, result: Result, context: Context) -> Certified:
    """Return a certificate of a result's bound, if least peaks prove it: of all together, or of each pool."""
    if result.bound is None:
        return Certified(None, None, "there is no bound")
    bound = result.bound
    orders = [] if result.plan is None else [result.plan.order]
    proof: StacksProof | PoolsProof | None = None
    if result.evidence is None:
        for threshold in dict.fromkeys((threshold_for(problem, bound), *([0] if problem.pools else []))):
            proof = proof or _proved(problem, bound, threshold, orders, context)
    else:
        parts = [
            _proved(pool, least, threshold_for(pool, least), orders, context)
            for pool, least in zip(apart(problem), result.evidence, strict=True)
        ]
        found = tuple(part for part in parts if part is not None)
        proof = PoolsProof(bounds=result.evidence, stacks=found) if len(found) == len(parts) else None
    if proof is None:
        return Certified(bound, None)
    return Certified(bound, Certificate.of(problem.graph, bound, proof, problem.setting()))


def _proved(
    problem: Arena, bound: int, threshold: int, orders: Sequence[Sequence[int]], context: Context
) -> StacksProof | None:
    """Return a proof that no height is below a bound, in the time that is left."""
    least = stacks(problem, threshold)
    left = context.remaining()
    found = certify(
        least.graph,
        least.to_peak(bound),
        orders=orders,
        time_limit=None if math.isinf(left) else left,
        memory_limit=context.memory_limit,
        progress=context.progress,
    )
    if found is None:
        return None
    return StacksProof(threshold=threshold, peak=found.proof)  # type: ignore[arg-type]
