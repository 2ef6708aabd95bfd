"""Plans that are an order of the ops and nothing more: what a file that lists operators can hold."""

from __future__ import annotations

from itertools import pairwise

from ...models.checks import check_type
from ...models.errors import UsageError
from ...models.graph import Graph
from ...models.plan import Plan
from ...models.verify import verify


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
