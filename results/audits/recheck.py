"""A claim's plan, read and verified again: nothing but the files and the verifier is trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...instances import read_plan
from ...models.errors import InstanceError, LowtideError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.verdict import Verification
from ...models.verify import verify
from ..sweeps.job import load_instance
from .claims import Claim


class Recheck(NamedTuple):
    """What came of it: a plan with its objective, or a fault, or the reason why it is unchecked.

    Attributes
    ----------
    plan, objective
        The plan that verified, and its objective as the verifier recomputed it.
    fault
        (kind, message): the plan is not what the claim says.
    unchecked
        Why it could not be verified here, such as an instance that is not at hand.
    """

    plan: Plan | None = None
    objective: int | None = None
    fault: tuple[str, str] | None = None
    unchecked: str | None = None


def recheck(claim: Claim, graphs: dict[str, Graph]) -> Recheck:
    """Read the plan of a claim and its instance, verify, and recompute the objective.

    Parameters
    ----------
    claim
        One with a plan.
    graphs
        Those loaded before, by hash; a graph that is loaded joins them.
    """
    assert claim.plan is not None
    if claim.problem not in _OBJECTIVES:
        return Recheck(unchecked=f"no rule to recompute the objective of {claim.problem!r}")
    if not claim.plan.is_file():
        return Recheck(fault=("plan-missing", f"found no file {claim.plan}, expected its plan"))
    try:
        plan = read_plan(claim.plan)
    except InstanceError as error:
        return Recheck(fault=("plan-invalid", f"the plan cannot be read: {error}"))
    if plan.graph_sha256 not in (None, claim.sha256):
        return Recheck(fault=("plan-invalid", f"{claim.plan} is a plan for another graph"))
    try:
        graph = _graph_of(claim, plan, graphs)
    except LowtideError as error:
        return Recheck(unchecked=str(error))
    return _judge(claim, plan, graph)


def _judge(claim: Claim, plan: Plan, graph: Graph) -> Recheck:
    """Verify the plan as one for the claim's problem."""
    verdict = verify(graph, plan, rerun=False)
    if not verdict.valid:
        return Recheck(fault=("plan-invalid", f"the plan does not verify: {verdict.violations[0].message}"))
    try:
        objective = _OBJECTIVES[claim.problem](plan, verdict)
    except InstanceError as error:
        return Recheck(fault=("plan-invalid", str(error)))
    if objective != claim.objective:
        text = f"the plan's objective is {objective}, the record says {claim.objective}"
        return Recheck(fault=("objective-differs", text))
    return Recheck(plan=plan, objective=objective)


def _graph_of(claim: Claim, plan: Plan, graphs: dict[str, Graph]) -> Graph:
    """Return the graph with the claim's hash, from where the plan or the record says it is.

    Raises
    ------
    LowtideError
        If it is not there any more, or has changed.
    """
    if claim.sha256 in graphs:
        return graphs[claim.sha256]
    refused: LowtideError | None = None
    for spec in dict.fromkeys((plan.graph_source, claim.instance)):
        if spec is None:
            continue
        try:
            graph = load_instance(spec)
        except LowtideError as error:
            refused = error
            continue
        if graph.sha256 == claim.sha256:
            graphs[claim.sha256] = graph
            return graph
        refused = InstanceError(f"instance {spec!r}: its content has changed since")
    assert refused is not None
    raise refused


def _peak(plan: Plan, verdict: Verification) -> int:
    """Return the peak of a plan that answers `peak`: on one memory, not periodic."""
    if len(plan.machine.tiers) != 1 or plan.period is not None:
        raise InstanceError("the plan is none for one memory, so it says nothing about the peak")
    return max(verdict.peaks.values())


_OBJECTIVES: dict[str, Callable[[Plan, Verification], int]] = {"peak": _peak}
"""How the objective of each problem follows from the verifier's verdict on a plan."""
