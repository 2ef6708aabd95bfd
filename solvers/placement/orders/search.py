"""`auto` where the order is free: the plan of the graph's own order, then a search over orders.

1. Bounds for every order (`lowtide.solvers.placement.bounds.any_order`), again when the least peak is known.
2. The plan of the graph's own order, as where that is fixed: without a limit of time none is slower.
3. Orders to begin with: that order, that of a plan at hand, and one of least peak memory (`auto` of
   `peak`). The planner, in its best setting for the graph's order, says what each of them takes.
4. From the best of these on, a descent. A block of up to `BLOCK` ops moves as far as it may, up to 1, 2,
   4, ... `FAR` ops, to a place where ops wait, drawn by how long they do; now and then the ops behind a
   point take the order that they have in one of the others. What takes no longer is kept. It ends after
   `STEPS` plans; without a limit of time after `PATIENCE` plans without a gain.
5. The best order, and that of least peak, get plans as if they were the graph's own.
6. With up to `FEW` ops all orders in turn (`tree`).

Each of 2 to 4 has a part of the time that is left. Where the planner does not serve the machine, 4 is
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from ....models.derived.precedence import precedence
from ....models.errors import LowtideError, UsageError
from ....models.graph import Graph
from ....models.plan import Plan
from ....models.problems.peak import Peak
from ....models.problems.placement import Placement
from ...context import Context, Outcome
from ...method import run_method
from ...peak.auto import solve_auto as solve_peak
from ..bounds.any_order import raise_order_bounds
from ..planner.planner import check_machine, planned, portfolio
from ..planner.setting import Setting
from .ordered import Order, crossed, in_order, of_first
from .tree import Solve, solve_every_order

OWN, PEAK, SEARCH = 0.5, 0.1, 0.6
"""Of the time that is left: for the graph's own order, for one of least peak, for the descent."""
KNOWN = 0.15
"""The first of these where a plan is at hand."""
BLOCK, FAR = 8, 128
STEPS, PATIENCE = 10_000, 500
CROSS = 0.1
"""Of the moves, those that cross two orders."""
WORTH = 500
"""A plan is offered at once if it is faster by this part; the verifier takes longer than the planner."""
FEW = 12
"""Ops up to which all orders are gone through: there may be millions of them."""


def solve_free(problem: Placement, context: Context, solve: Solve, exact: Solve) -> Outcome:
    """Offer plans in all kinds of orders.

    Parameters
    ----------
    problem, context
        Of the solve; its order is free.
    solve, exact
        Make plans of a problem whose order is fixed; and bounds.
    """
    context.careful = True
    raise_order_bounds(problem, context)
    fixed = replace(problem, order="reference")
    own = tuple(range(len(problem.graph.ops)))
    given = context.answer
    said = _offer_of(context, fixed, own, solve, OWN if given is None else KNOWN)
    if context.closed:
        return Outcome()
    starts = [own]
    if isinstance(given, Plan):
        runs = sorted(given.runs, key=lambda run: (run.start, run.op))
        starts.append(tuple(dict.fromkeys(run.op for run in runs)))
    least, peak = least_peak(problem.graph, context)
    if peak:
        raise_order_bounds(problem, context, peak)
    starts = list(dict.fromkeys([*starts, *([] if least is None else [least])]))
    best = own
    with suppress(UsageError):
        check_machine(fixed)
        best = _Descent(fixed, context, starts).run()
    finals = [order for order in dict.fromkeys([best, least]) if order not in (None, own)]
    for number, order in enumerate(finals):
        assert order is not None
        _offer_of(context, fixed, order, solve, 1 / (len(finals) - number))
    if len(own) <= FEW and not (problem.recompute or context.closed or context.expired):
        return solve_every_order(problem, context, exact)
    late = context.expired and not context.closed
    return Outcome(reason="time" if late else None, detail="" if context.closed else said)


def least_peak(graph: Graph, context: Context) -> tuple[Order | None, int]:
    """Return an order of least peak memory that was found in time, and bytes that every order needs."""
    peak = Peak(graph)
    inner = context.inner(peak, PEAK * context.remaining(), "order of least peak: ")
    with suppress(LowtideError):
        run_method(solve_peak, peak, inner)
    return None if inner.answer is None else tuple(inner.answer), (inner.exact or (0,))[0]


def _offer_of(context: Context, fixed: Placement, order: Order, solve: Solve, part: float) -> str:
    """Offer the best plan of an order in a part of the time; return what is said of it."""
    if context.closed or context.expired:
        return ""
    ordered = replace(fixed, graph=in_order(fixed.graph, order))
    if ordered.impossible() is not None:
        return ""
    inner = context.inner(ordered, part * context.remaining(), "")
    outcome = solve(ordered, inner)
    if inner.answer is not None:
        context.offer(of_first(inner.answer, fixed.graph, order))
    return outcome.detail


class _Descent:
    """A search over orders, from some on; `problem` has a fixed one."""

    def __init__(self, problem: Placement, context: Context, starts: Sequence[Order]) -> None:
        self.problem, self.context, self.starts = problem, context, starts
        self.random = Random(context.seed)
        before, n = precedence(problem.graph), len(problem.graph.ops)
        self.before = before.predecessors
        self.behind = [[n - 1 - k for k in some] for some in before.successors[::-1]]  # backwards
        self.until = context.elapsed() + SEARCH * context.remaining()
        self.setting = Setting()

    def run(self) -> Order:
        """Return the best order; its plan was offered."""
        own, *others = self.starts
        found = [
            (self._plan(own, setting), setting) for setting in portfolio(self.problem) if not self._late()
        ]
        times = [(self._time(plan), x) for x, (plan, _) in enumerate(found) if plan is not None]
        if times:
            self.setting = found[min(times)[1]][1]
        plans = [(found[min(times)[1]][0] if times else None, own)]
        plans += [(self._plan(order, self.setting), order) for order in others if not self._late()]
        time, x = min((self._time(plan), x) for x, (plan, _) in enumerate(plans))
        plan, order = plans[x]
        if plan is None:
            return order
        seen, idle, waits = {order}, 0, _waits(plan)
        self._offer(plan, order)
        for _ in range(STEPS):
            if self._late() or (idle >= PATIENCE and self.context.time_limit is None):
                break
            new = self._neighbour(order, waits)
            idle += 1
            if new in seen:
                continue
            seen.add(new)
            tried = self._plan(new, self.setting)
            if tried is not None and (value := self._time(tried)) <= time:
                idle *= value == time
                plan, order, time, waits = tried, new, value, _waits(tried)
                if self.context.incumbent is None or time * WORTH < self.context.incumbent * (WORTH - 1):
                    self._offer(plan, order)
        self._offer(plan, order)
        return order

    def _late(self) -> bool:
        return self.context.closed or self.context.elapsed() > self.until

    def _time(self, plan: Plan | None) -> int:
        return 2**62 if plan is None else self.problem.evaluate(plan)

    def _plan(self, order: Order, setting: Setting) -> Plan | None:
        found = planned(
            replace(self.problem, graph=in_order(self.problem.graph, order)), setting, context=self.context
        )
        return found if isinstance(found, Plan) else None

    def _offer(self, plan: Plan, order: Order) -> None:
        if self.context.incumbent is None or self._time(plan) < self.context.incumbent:
            self.context.offer(of_first(plan, self.problem.graph, order))

    def _neighbour(self, order: Order, waits: Sequence[int]) -> Order:
        """Return an order that differs by a move (4)."""
        random, n = self.random, len(order)
        if len(self.starts) > 1 and random.random() < CROSS:
            return crossed(order, random.choice(self.starts), random.randrange(n))
        at = random.choices(range(n), waits)[0] if any(waits) else random.randrange(n)
        far, size = 1 << random.randrange(FAR.bit_length()), random.randint(1, BLOCK)
        if random.random() < 0.5:  # a block from behind comes before the op that waits
            low = min(n - 1, at + random.randint(1, far))
            return shifted(self.before, order, low, min(n, low + size), at)
        back = [n - 1 - k for k in order[::-1]]  # a block from before goes behind it: the same, backwards
        low = min(n - 1, n - 1 - at + random.randint(1, far))
        found = shifted(self.behind, back, low, min(n, low + size), n - 1 - at)
        return tuple(n - 1 - k for k in found[::-1])


def _waits(plan: Plan) -> list[int]:
    """Return by place how long the op waits behind the one before it, in ns."""
    runs = sorted(plan.runs, key=lambda run: (run.start, run.op))
    ends = [0, *(run.end for run in runs[:-1])]
    return [max(0, run.start - end) for run, end in zip(runs, ends, strict=True)]


def shifted(before: Sequence[Sequence[int]], order: Sequence[int], low: int, high: int, to: int) -> Order:
    """Return the order with the ops of places [low, high) as near behind place `to` < low as they may be.

    Examples
    --------
    >>> shifted([[], [0], [], [2]], (0, 1, 2, 3), 2, 4, 0)  # 2 and 3 first
    (2, 3, 0, 1)
    >>> shifted([[], [0], [0], [2]], (0, 1, 2, 3), 3, 4, 0)  # 3 stays behind 2
    (0, 1, 2, 3)
    """
    block = order[low:high]
    inside, wanted = {*block}, {j for k in block for j in before[k]}
    at = low
    while at > to and (order[at - 1] not in wanted or order[at - 1] in inside):
        at -= 1
    return (*order[:at], *block, *order[at:low], *order[high:])
