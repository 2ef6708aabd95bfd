"""What `auto` does where the order is free: plans of the graph's own order, and searches over orders.

1. Bounds for every order (`lowtide.solvers.placement.bounds.any_order`), again when the least peak is known.
2. The plan of the graph's own order, as where that is fixed.
3. That of an order of least peak memory (`auto` of `peak`).
4. A descent, from the best of the own order, that of the best plan at hand and a greedy one of low peak: the
   planner, in its best setting for the graph's order, says what each of them takes. A block of up to `BLOCK`
   ops moves as far as it may, up to 1, 2, 4, ... `FAR` ops, to a place where ops wait, drawn by how long they
   do; now and then the ops behind a point take the order that they have in one of the others. What takes no
   longer is kept. It ends after `STEPS` plans, or `PATIENCE` in a row without a gain. The best order gets
   plans as if it were the graph's own (`lowtide.solvers.placement.sequences`).
5. With up to `FEW` ops all orders in turn (`tree`).

Plans of 2 to 4 come without bounds, which would be those of one order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from random import Random

from ....models.derived.memory import sequential_memory
from ....models.derived.precedence import precedence
from ....models.plan import Plan
from ....models.problems.peak import Peak
from ....models.problems.placement import Placement
from ...context import Context, Known, Outcome
from ...parts import Part
from ...peak.auto import solve_auto as solve_peak
from ...peak.orders.greedy import greedy_orders
from ..bounds.any_order import raise_order_bounds
from ..parts import beyond_planner, seconds_of_planner
from ..planner.method import planned, portfolio
from ..planner.setting import PlannerSetting
from ..reductions.orders import Order, crossed
from ..sequences import Solve, Steps, each_once, of_sequence, place, search_and_place, sequence_of
from ..traits import FREEDOMS, IN_ORDER, PLANNED, Trait

BLOCK, FAR = 8, 128
"""Ops that a move takes along at most, and places by which it moves them at most."""
STEPS, PATIENCE = 10_000, 500
"""Plans of a descent at most, and plans in a row without a gain after which it ends: it has no other end."""
CROSS = 0.1
"""Of the moves, those that cross two orders."""
WORTH = 500
"""A plan is offered at once if it is faster by this part; the verifier takes longer than the planner."""
FEW = 12
"""Ops up to which all orders are gone through: there may be millions of them."""
OPS_PER_SECOND = 10_000
"""Ops of a graph whose first orders of low peak memory take a second."""


def bound_every_order(problem: Placement, context: Context) -> Outcome:
    """Raise the bound to what holds in every order."""
    raise_order_bounds(problem, context)
    return Outcome()


def place_own_order(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Offer plans of the graph's own order."""
    return place(problem, context, each_once(problem), solve)


def place_least_peak(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Offer plans of an order of least peak memory, and raise the bound to what every order needs."""
    return search_and_place(problem, context, _least_peaks(problem, context), solve)


def place_best_order(problem: Placement, context: Context, solve: Solve) -> Outcome:
    """Look for better orders, and offer plans of the best one."""
    return search_and_place(problem, context, _Descent(problem, context).steps(), solve)


def parts_of_orders(plans: Solve, orders: Solve) -> tuple[Part, ...]:
    """Return the parts of `auto`.

    Parameters
    ----------
    plans, orders
        Makes plans of a problem whose order is fixed; goes through all orders.
    """
    part = partial(Part, supports=IN_ORDER | FREEDOMS, needs=Trait.FREE_ORDER)
    return (
        part(name="bounds of every order", run=bound_every_order, first=True),
        part(name="own order", run=partial(place_own_order, solve=plans)),
        part(name="least peak", run=partial(place_least_peak, solve=plans)),
        part(
            name="search over orders",
            run=partial(place_best_order, solve=plans),
            supports=PLANNED | FREEDOMS,
            refuses=beyond_planner,
            seconds=seconds_of_planner,
        ),
        part(name="every order", run=orders, supports=IN_ORDER | Trait.FREE_ORDER, refuses=_many_ops),
    )


def _many_ops(problem: Placement) -> str:
    """Return why not all orders are gone through."""
    ops = len(problem.graph.ops)
    return f"found {ops} ops, expected at most {FEW}, which have few orders" if ops > FEW else ""


def _least_peaks(problem: Placement, context: Context) -> Steps:
    """Yield orders of lower and lower peak memory, twice the time for each."""
    peak, known = Peak(problem.graph), Known()
    seconds = len(problem.graph.ops) / OPS_PER_SECOND
    while True:
        limit = math.inf if context.time_limit is None else seconds
        inner = context.inner(peak, limit, "order of least peak: ", known=known)
        solve_peak(peak, inner)
        if inner.exact is not None and inner.exact[0]:
            raise_order_bounds(problem, context, inner.exact[0])
        if inner.answer is not None:
            yield inner.incumbent or 0, tuple(inner.answer)
        if inner.closed or not inner.expired or context.expired:
            return
        seconds *= 2


class _Descent:
    """A search over orders, from some on."""

    def __init__(self, problem: Placement, context: Context) -> None:
        self.problem, self.context = problem, context
        self.random = Random(context.seed)
        before, n = precedence(problem.graph), len(problem.graph.ops)
        self.before = before.predecessors
        self.behind = [[n - 1 - k for k in some] for some in before.successors[::-1]]  # backwards
        self.setting = PlannerSetting()
        given = [tuple(dict.fromkeys(sequence_of(plan))) for plan in [context.answer] if plan is not None]
        self.starts = list(dict.fromkeys([each_once(problem), *given, self._low_peak()]))

    def _low_peak(self) -> Order:
        """Return the greedy order of least peak memory, of those that there is time for."""
        best, peak = each_once(self.problem), sequential_memory(self.problem.graph).peak
        for order in greedy_orders(self.problem.graph):
            if self.context.expired:
                break
            best = min(best, order, key=peak)
        return best

    def steps(self) -> Steps:
        """Yield the best order after each plan; those that are better were offered."""
        own, *others = self.starts
        of_own = [(self._plan(own, setting), setting) for setting in portfolio(self._fixed(own))]
        times = [(self._time(plan), x) for x, (plan, _) in enumerate(of_own) if plan is not None]
        if times:
            self.setting = of_own[min(times)[1]][1]
        plans = [(of_own[min(times)[1]][0] if times else None, own)]
        plans += [(self._plan(order, self.setting), order) for order in others]
        time, x = min((self._time(plan), x) for x, (plan, _) in enumerate(plans))
        plan, order = plans[x]
        if plan is None:
            return
        seen, idle, waits = {order}, 0, _waits(plan)
        self._offer(plan, order)
        try:
            for _ in range(STEPS):
                yield time, order
                if idle >= PATIENCE:
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
        finally:  # a part that is ended is unwound here
            self._offer(plan, order)

    def _fixed(self, order: Order) -> Placement:
        return of_sequence(self.problem, order)[0]

    def _time(self, plan: Plan | None) -> int:
        return 2**62 if plan is None else self.problem.evaluate(plan)

    def _plan(self, order: Order, setting: PlannerSetting) -> Plan | None:
        if self.context.closed or self.context.expired:
            return None
        found = planned(self._fixed(order), setting, context=self.context)
        return found if isinstance(found, Plan) else None

    def _offer(self, plan: Plan, order: Order) -> None:
        if self.context.incumbent is None or self._time(plan) < self.context.incumbent:
            self.context.offer(of_sequence(self.problem, order)[1](plan))

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
