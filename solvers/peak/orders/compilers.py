"""The orders of compilers as methods: each offers one order, or all that a compiler compares.

TensorFlow Lite has no rule of its own: its planner places tensors for the order in which the file lists the
ops, which is ``reference`` here. So do TVM's Relax and nvFuser, whose programs and segments are sequences.
"""

from __future__ import annotations

from collections.abc import Callable

from ....models.graph import Graph
from ....models.problems.peak import Peak
from ...context import Context, Outcome
from . import inductor, xla

Order = tuple[int, ...]


def best_of(*rules: Callable[[Graph], Order]) -> Callable[[Peak, Context], Outcome]:
    """Return the method that offers the order of each rule; of equals the first stays.

    Examples
    --------
    >>> from lowtide import Peak, load
    >>> context = Context(problem=Peak(load("catalogue:kept-output")))
    >>> best_of(xla.list_order, xla.depth_first)(context.problem, context).reason, context.incumbent
    (None, 12)
    """

    def run(problem: Peak, context: Context) -> Outcome:
        for rule in rules:
            context.offer(rule(problem.graph))
        return Outcome()

    return run


def _given(graph: Graph) -> Order:
    return tuple(range(len(graph.ops)))


solve_inductor = best_of(_given, inductor.least_peak_first, inductor.breadth_first, inductor.depth_first)
solve_inductor_lpmf = best_of(inductor.least_peak_first)
solve_inductor_dfs = best_of(inductor.depth_first)
solve_inductor_bfs = best_of(inductor.breadth_first)
solve_xla = best_of(xla.list_order, xla.depth_first, xla.plain_post_order)
solve_xla_list = best_of(xla.list_order)
solve_xla_dfs = best_of(xla.depth_first)
solve_xla_post_order = best_of(xla.plain_post_order)
solve_xla_bfs = best_of(xla.breadth_first)
