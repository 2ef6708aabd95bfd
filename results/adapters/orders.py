"""Plans that other programs follow: those of a traced step, and those that are an order and nothing more."""

from __future__ import annotations

from itertools import pairwise

from ...models.checks import check_type
from ...models.errors import UsageError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.result import Result
from ...models.verify import verify

UNTRACED = "found no traced step, expected trace(module, inputs, targets, loss) before"
"""What messages say where a step of eager torch is needed that was not traced."""


def plan_for(answer: Result | Plan, graph: Graph | None, where: str) -> Plan:
    """Return the plan of an answer about a traced step, verified.

    Parameters
    ----------
    graph
        Of the step; None if none was traced.
    where
        The function that asks, for messages.

    Raises
    ------
    InstanceError
        If the answer is something else.
    UsageError
        If it has no plan, or nothing was traced.
    VerificationError
        If the plan does not verify.
    """
    check_type(answer, (Result, Plan), where, "a Result or a Plan")
    plan = answer.plan if isinstance(answer, Result) else answer
    if plan is None or graph is None:
        what = UNTRACED if graph is None else "found a result without a plan, expected one with a plan"
        raise UsageError(f"{where}: {what}")
    verify(graph, plan).raise_if_invalid()
    return plan


def order_of(graph: Graph, plan: Plan, where: str, expected: str) -> list[int]:
    """Return the order in which a plan runs the ops of a graph, each once and one after another.

    Parameters
    ----------
    graph, plan
        The graph, and a plan for it.
    where
        The function that asks, for messages.
    expected
        What messages name as the plans that it takes.

    Raises
    ------
    InstanceError
        If one of them is something else.
    UsageError
        If the plan is more than an order.
    VerificationError
        If the plan does not verify.
    """
    check_type(graph, Graph, f"{where}, graph")
    check_type(plan, Plan, f"{where}, plan", "a Plan; result.plan of a result with one")
    runs = sorted(plan.runs, key=lambda run: (run.start, run.end))
    for what, wrong in (
        ("copies", bool(plan.copies)),
        ("a period", plan.period is not None),
        ("ops that run twice", len({run.op for run in runs}) < len(runs)),
        ("ops that run at the same time", any(a.end > b.start for a, b in pairwise(runs))),
    ):
        if wrong:
            raise UsageError(f"plan of {graph.name!r}: found {what}, expected {expected}")
    verify(graph, plan).raise_if_invalid()
    return [run.op for run in runs]
