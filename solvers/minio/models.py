"""Methods of `minio` that solve a model: `milp` for an order, `cpsat` and `benders` for all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...formulations.minio import joint_cpsat, order_milp, steps_cpsat
from ...formulations.minio.data import GraphData, MinIOData, graph_data
from ...models.problems.minio import MinIO, Traversal
from ..context import Context, Outcome
from ..engines.model import solve_model
from ..peak.orders.greedy import greedy_orders
from .benders import solve_by_cuts
from .evictions import RULES, evict, evicted
from .orders import ORDERS
from .peaks import counted_graphs, raise_by_cuts
from .rules import SUITED, begin, order_of, values_of

FIRST_ORDER = "postorder-io"
"""What `offer_rules` begins with: on large trees there is a traversal before expansion takes its time."""


def solve_milp(problem: MinIO, context: Context) -> Outcome:
    """Solve the program of a given order: linear for divisible files, with binaries for whole ones.

    Option ``order``: as for the rules. What is proved holds for the order, and is said in words.
    """
    data = values_of(problem, context)
    order = order_of(problem, data, context)
    raise_by_cuts(data, context)
    some = order_milp.demands(data, order)
    if not some:
        context.offer(evict(data, order))
        return Outcome()
    outcome = solve_model(
        context,
        order_milp,
        lambda: order_milp.build(data, order),
        what="the program of the order",
        size=order_milp.size(some),
        decode=order_milp.decode,
        to_objective=lambda units: context.bound or 0,  # what bounds the order does not bound the problem
    )
    if outcome.reason is None and not context.closed:
        return Outcome(detail=f"the fewest bytes of this order; {outcome.detail}")
    return outcome


def solve_joint(problem: MinIO, context: Context) -> Outcome:
    """Solve order and evictions together, after all orders with all rules."""
    data, bounds, _ = begin(problem, context)
    best = offer_rules(problem, data, context)
    if context.closed:
        return Outcome()
    if context.expired:
        return Outcome(reason="time", detail="the joint model was not built: no time was left")
    return _solve_cpsat(data, bounds, context, best)


def solve_steps(problem: MinIO, context: Context) -> Outcome:
    """Solve order and memory at each step together, after the rules in an order; of any graph."""
    context.options = {**context.options, "order": SUITED}
    values = values_of(problem, context)
    order = order_of(problem, values, context)
    offer_evictions(values, order, context)
    raise_by_cuts(values, context)
    if context.closed:
        return Outcome()
    if context.expired:
        return Outcome(reason="time", detail="the model of steps was not built: no time was left")
    return solve_built_steps(graph_data(problem), context, order)


def solve_built_steps(data: GraphData, context: Context, order: Sequence[int]) -> Outcome:
    """Solve the model of steps with an order as hint and the bound of the context."""
    return solve_model(
        context,
        steps_cpsat,
        lambda: steps_cpsat.build(data, context.bound or 0, order),
        what="the model of steps",
        size=steps_cpsat.size(data),
        decode=steps_cpsat.decode,
        to_objective=lambda units: units * data.unit + data.fixed - data.first_reads,
    )


def offer_evictions(data: GraphData, order: Sequence[int], context: Context) -> None:
    """Offer what moves less than the incumbent in an order, by all rules and both sequences; one at least."""
    for rule, first in product(RULES if data.whole else ("furthest",), (False, True)):
        traversal, moved = evicted(data, order, rule, clean_first=first)
        if context.incumbent is None or moved < context.incumbent:
            context.offer(traversal)
        if context.closed or context.expired:
            return


def offer_greedy(data: GraphData, context: Context) -> None:
    """Offer what moves least in the order of the graph and in each greedy order of `peak`."""
    offer_evictions(data, range(data.n), context)
    for order in greedy_orders(counted_graphs(data)[0]):
        if context.closed or context.expired:
            break
        offer_evictions(data, order, context)


def solve_benders(problem: MinIO, context: Context) -> Outcome:
    """Solve for what to write under cuts, which Liu's algorithm finds, after all orders with all rules."""
    data, _, cuts = begin(problem, context)
    offer_rules(problem, data, context)
    if context.closed:
        return Outcome()
    if context.expired:
        return Outcome(reason="time", detail="the program of cuts was not built: no time was left")
    return solve_by_cuts(problem, data, cuts, context)


def offer_rules(problem: MinIO, data: MinIOData, context: Context) -> Traversal:
    """Offer every order with every rule that is not beaten, one at once, then the best; return the best."""
    best: tuple[int, Traversal] | None = None
    for name in (FIRST_ORDER, *(name for name in reversed(ORDERS) if name != FIRST_ORDER)):
        order = ORDERS[name](problem.graph, data, lambda: context.expired)
        for rule in RULES if problem.whole else ("furthest",):
            traversal = evict(data, order, rule)
            written = context.offer(traversal)
            if best is None or written < best[0]:
                best = written, traversal
            if context.closed or context.expired:
                return best[1]
    assert best is not None
    return best[1]


def _solve_cpsat(data: MinIOData, bounds: Sequence[int], context: Context, best: Traversal) -> Outcome:
    return solve_model(
        context,
        joint_cpsat,
        lambda: joint_cpsat.build(data, bounds, best),
        what="the joint model",
        size=joint_cpsat.size(data),
        decode=joint_cpsat.decode,
        to_objective=lambda units: units * data.unit,
    )
