"""Other orders for `recompute`: each op once with a lower peak, and the methods for plans in such an order.

Any order that keeps the precedence finds the versions of the reference order. So each op once, in any order
whose peak is within the memory, is a fastest schedule; and an answer to the question about a graph in another
order is one to the question about the graph, with the ops renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...models.derived.memory import sequential_memory
from ...models.derived.reordered import in_order
from ...models.lowering.actions import Compute
from ...models.problems.recompute import Recompute
from ..context import Context, Outcome
from ..parts import Part
from ..peak.auto import solve_auto as solve_peak
from ..peak.orders.greedy import greedy_orders
from ..peak.within import Within
from ..portfolio import run


@dataclass(kw_only=True)
class BestOrder:
    """The order of least peak that has been found so far."""

    best: tuple[int, ...] | None = None

    def search(self, problem: Recompute, context: Context) -> Outcome:
        """Look for orders of low peak until one fits, which is optimal."""
        if problem.memory is None:
            return Outcome(refused="found no memory, expected one")
        graph = problem.graph
        if sequential_memory(graph).reference_peak <= problem.memory:
            return Outcome(refused="the reference order fits")
        asked = Within(graph, problem.memory)
        inner = context.inner(asked, prefix="order: ")

        def keep() -> None:
            self.best = inner.answer

        inner.changed = keep
        outcome = solve_peak(asked, inner)
        if inner.incumbent is not None and inner.incumbent <= problem.memory:
            answer = problem.read(inner.answer)
            if problem.judge(answer).objective is not None:
                context.offer(answer)
        return replace(outcome, infeasible=False, detail="")

    def follow(self, parts: Sequence[Part], problem: Recompute, context: Context) -> Outcome:
        """Give parts turns on the graph in the best order so far; offer what they find."""
        graph, memory = problem.graph, sequential_memory(problem.graph)
        known = () if self.best is None else (self.best,)
        order = min((*known, *greedy_orders(graph)), key=memory.peak)
        if memory.peak(order) >= memory.reference_peak:
            return Outcome(refused="found no order of lower peak than the reference order")
        inner = context.inner(replace(problem, graph=in_order(graph, order)), prefix="in another order: ")

        def hand_on() -> None:
            if inner.answer is not None:
                context.offer(tuple(_renamed(step, order) for step in inner.answer))

        inner.changed = hand_on
        return replace(run(parts, inner.problem, inner), infeasible=False, detail="")


def _renamed(step: Any, order: Sequence[int]) -> Any:
    return replace(step, op=order[step.op]) if isinstance(step, Compute) else step
